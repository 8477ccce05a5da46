// Devices, options and outputs of a profile that there are not.
#include <doctest/doctest.h>

#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

Graph graph() {
  Graph g("g");
  g.output(softmax(g.input("x", f32, {2, 3})));
  return g;
}
std::string compiling(void (*change)(CompileOptions&)) {
  CompileOptions options;
  change(options);
  return message_of([&] { Session(Device::cpu(), {1}).compile(graph(), options); });
}

}  // namespace

TEST_CASE("a device that there is not is named with those that there are") {
  Error error = error_of([] { Device::parse("gpu"); });
  CHECK(error.code() == ErrorCode::not_found);
  CHECK(std::string(error.what()) ==
        "there is no device 'gpu'; there are cpu, cuda, rocm, metal, mlx, mlx:lazy, mlx:eager, mlx:compiled, tpu, "
        "coreml, coreml:cpu, coreml:gpu, coreml:ane, wgpu, null");
  for (const char* text : {"", "CPU", "cpu:", "cpu:gpu", "coreml:", "coreml:npu", "cpu "})
    CHECK(message_of([&] { Device::parse(text); }).starts_with(text_of("there is no device '", text, "'")));
}

TEST_CASE("a device that this build has no backend for says so, with those that are available") {
  CHECK(message_of([] { Session session(Device::cuda()); }) ==
        text_of("device 'cuda' is not available: this build has no backend for it; available: cpu, ",
                is_available(Device::mlx()) ? "mlx, " : "", "coreml"));
  CHECK(message_of([] { Session session(Device::null()); }) ==
        "device 'null' is not available: it claims every primitive and runs none; use it for reports");
}

TEST_CASE("options that name an op, a pass or an input that there is not are refused") {
  CHECK(compiling([](CompileOptions& o) { o.force_common = {"sofmax"}; }) ==
        "there is no op 'sofmax'; is 'softmax' meant?\n  while compiling 'g' for cpu");
  CHECK(compiling([](CompileOptions& o) {
          o.force_native = {"sofmax"};
        }).starts_with("there is no op 'sofmax'; is 'softmax' meant?"));
  CHECK(compiling([](CompileOptions& o) { o.donate = {"y"}; }) ==
        "graph 'g' has no input 'y'; it has x\n  while compiling 'g' for cpu");
  CHECK(compiling([](CompileOptions& o) {
          o.skip_passes = {"simplfy"};
        }).starts_with("there is no pass 'simplfy' to skip; there are "));
}

TEST_CASE("a trace that cannot be written is an error that names the path") {
  Error error = error_of([] { Profile().write_perfetto("no/such/trace.json"); });
  CHECK(error.code() == ErrorCode::not_found);
  CHECK(std::string(error.what()) ==
        "cannot create 'no/such/trace.json': No such file or directory; nothing was changed\n  while writing the trace "
        "'no/such/trace.json'");
}
