// Programs for several instruction sets in one process (CompileOptions::isa): each gives the bits of a process that
// RLX_ISA holds to that set, one after the other and side by side, on workers and on a pool of the program's own, and
// through the folder that keeps programs and packed weights.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "kernels/cost_model.h"
#include "kernels/vector/instruction_set.h"
#include "rlx/artifact.h"
#include "rlx/io.h"
#include "rlx/thread_pool.h"
#include "runtime/small_model.h"
#include "support/io_files.h"

using namespace rlx;
using test::message_of;

namespace {

constexpr const char* kBytesFile = "RLX_TEST_BYTES_FILE";
constexpr int64_t kProductRows = 40, kWidth = 96, kInner = 160;

/// Products with packed weights and without, attention, norms, element-wise chains, a reduction and a small convolution
/// (oneDNN, which takes one limit for a process, has none of it).
Graph layered() {
  Graph g("layered");
  Value x = g.input("x", f32, {kProductRows, kWidth}), image = g.input("image", f32, {1, 3, 9, 9});
  Value inner = gelu(linear(x, g.param("in", f32, {kInner, kWidth}), g.param("bias", f32, {kInner})));
  Value y = layer_norm(x + linear(inner, g.param("out", f32, {kWidth, kInner})));
  const auto heads = [](Value v) { return reshape(v, {1, 4, kProductRows, kWidth / 4}); };
  AttentionAttrs how;
  how.heads = 4;
  Value mixed = attention(heads(y), heads(tanh(x)), heads(y), how);
  g.output(mixed, "mixed");
  g.output(softmax(matmul(y, transpose(x, {1, 0}))), "weights");
  g.output(mean(exp(y), {1}), "mean");
  g.output(conv(image, g.param("kernel", f32, {4, 3, 3, 3})), "image");
  return g;
}
const NamedTensors& layered_params() {
  static const NamedTensors all = [] {
    NamedTensors made;
    const Graph g = layered();
    for (Ref r : g.params())
      made.emplace(g.node(r).name, random_tensor(f32, shape_of(g.type(r).dims), 7 + made.size(), -0.5, 0.5));
    return made;
  }();
  return all;
}

/// The bits of all outputs, in f32, bf16 and 8 bits, with one thread and with two.
std::string bits(const CompileOptions& given) {
  const kernels::ScopedCostModel unmeasured{kernels::CostModel()};  // `rlx calibrate` measures each RLX_ISA by itself
  std::string all;
  for (const Compute compute : {Compute::as_f32, Compute::as_bf16, Compute::as_i8})
    for (const int threads : {1, 2}) {
      CompileOptions options = given;
      options.compute = compute;
      CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(layered(), options);
      for (const auto& [name, value] : layered_params()) compiled.set_param(name, value);
      const std::vector<Tensor> inputs = {random_tensor(f32, {kProductRows, kWidth}, 3),
                                          random_tensor(f32, {1, 3, 9, 9}, 4)};
      for (const Tensor& t : compiled.run_ordered(inputs))
        all.append(reinterpret_cast<const char*>(t.data()), t.byte_count());
    }
  return all;
}
CompileOptions held_to(std::string_view isa) {
  CompileOptions options;
  options.isa = isa;
  return options;
}

/// The sets that this process may use, least first.
std::vector<std::string> sets_here() {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(kernels::InstructionSet::neon_i8mm); ++i) try {
      const auto name = kernels::name_of(static_cast<kernels::InstructionSet>(i));
      if (kernels::instruction_set_limit(name, "isa")) names.emplace_back(name);
    } catch (const Error&) {  // of another processor
    }
  return names;
}

/// What a process of its own computes under RLX_ISA.
std::string bits_of_process(const std::string& isa) {
  test::TemporaryFolder folder;
  const std::string file = folder / "bits";
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    setenv("RLX_ISA", isa.c_str(), 1);
    setenv(kBytesFile, file.c_str(), 1);
    execl("/proc/self/exe", "runtime", "--no-skip", "-tc=(child) writes what it computes under RLX_ISA",
          static_cast<char*>(nullptr));
    _exit(1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  return test::file_content(file);
}
const std::map<std::string, std::string>& bits_of_processes() {
  static const std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> made;
    for (const std::string& isa : sets_here()) made.emplace(isa, bits_of_process(isa));
    return made;
  }();
  return all;
}

/// Starts a thread for each call.
struct StartingPool final : ThreadPoolInterface {
  int threads() const override { return 2; }
  void parallel_for(int64_t count, void (*task)(void*, int64_t), void* context) override {
    std::vector<std::thread> started;
    for (int64_t i = 0; i < count; ++i) started.emplace_back([=] { task(context, i); });
    for (std::thread& thread : started) thread.join();
  }
};

}  // namespace

TEST_CASE("(child) writes what it computes under RLX_ISA" * doctest::skip()) {
  test::put_file(std::getenv(kBytesFile), bits({}));
}

TEST_CASE("a program held to an instruction set gives the bits of a process that is held to it") {
  const auto& wanted = bits_of_processes();
  if (wanted.size() < 2) return;  // a build for one instruction set
  std::set<std::string> different;
  for (const auto& each : wanted) {
    const std::string &isa = each.first, &expected = each.second;
    CAPTURE(isa);
    CHECK(bits(held_to(isa)) == expected);
    different.insert(expected);
  }
  CHECK(different.size() > 1);                                                 // else nothing was shown
  CHECK(bits({}) == wanted.at(std::string(kernels::used_instruction_set())));  // and nobody else is held
}

TEST_CASE("programs for several instruction sets run side by side") {
  const auto& wanted = bits_of_processes();
  std::vector<std::pair<std::string, std::string>> made;
  for (int round = 0; round < 2; ++round)
    for (const auto& [isa, expected] : wanted) made.emplace_back(isa, "");
  std::vector<std::thread> threads;
  for (auto& each : made) threads.emplace_back([&each] { each.second = bits(held_to(each.first)); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : made) {
    const std::string &isa = each.first, &got = each.second;
    CAPTURE(isa);
    CHECK(got == wanted.at(isa));
  }
}

TEST_CASE("a pool of the program's own computes by the instruction set of the program") {
  set_thread_pool(std::make_shared<StartingPool>());
  for (const auto& each : bits_of_processes()) {
    const std::string &isa = each.first, &expected = each.second;
    CAPTURE(isa);
    CHECK(bits(held_to(isa)) == expected);
  }
  set_thread_pool(nullptr);
}

TEST_CASE("the folder of compiled graphs and packed weights tells instruction sets apart") {
  test::TemporaryFolder folder;
  std::set<std::string> keys;
  for (const char* start : {"first", "second"})
    for (const auto& each : bits_of_processes()) {
      const std::string &isa = each.first, &expected = each.second;
      CAPTURE(start);
      CAPTURE(isa);
      CompileOptions options = held_to(isa);
      options.cache_dir = folder / "cache";
      CHECK(bits(options) == expected);
      keys.insert(Session(Device::cpu(), {1}).compile(layered(), options).config().cache_key());
    }
  CHECK(keys.size() == bits_of_processes().size());
}

TEST_CASE("a compiled graph in a file keeps its instruction set") {
  test::TemporaryFolder folder;
  for (const std::string& isa : sets_here()) {
    CAPTURE(isa);
    const std::string file = folder / (isa + ".rlxc");
    Session(Device::cpu(), {2}).compile(layered(), held_to(isa)).save(file);
    CHECK(artifact_info(file).options.isa == isa);
    CompiledGraph loaded = Session(Device::cpu(), {2}).load(file);
    CHECK(loaded.report().target == "cpu (" + isa + ")");
    CompiledGraph made = Session(Device::cpu(), {2}).compile(layered(), held_to(isa));
    for (CompiledGraph* each : {&loaded, &made})
      for (const auto& [name, value] : layered_params()) each->set_param(name, value);
    const std::vector<Tensor> inputs = {random_tensor(f32, {kProductRows, kWidth}, 3),
                                        random_tensor(f32, {1, 3, 9, 9}, 4)};
    CHECK(difference(loaded.run_ordered(inputs), made.run_ordered(inputs), 0) == "");
  }
}

TEST_CASE("reports name the instruction set of the program") {
  for (const std::string& isa : sets_here()) {
    CHECK(dispatch_report(layered(), Device::cpu(), held_to(isa)).target == "cpu (" + isa + ")");
    CHECK(Session().compile(layered(), held_to(isa)).report().target == "cpu (" + isa + ")");
  }
  const std::string used(kernels::used_instruction_set());
  CHECK(dispatch_report(layered(), Device::cpu(), held_to("native")).target == "cpu (" + used + ")");
}

TEST_CASE("an instruction set that is none, that is not here, or that no device computes by is an error") {
  const auto compile = [](const std::string& isa, const Device& device, const std::vector<std::string>& fallback = {}) {
    CompileOptions options = held_to(isa);
    options.fallback = fallback;
    options.mode = CompileMode::lazy;
    Session(device).compile(test::small_model(), options);
  };
  const auto why = [&](const std::string& isa, const Device& device) {
    return message_of([&] { compile(isa, device); });
  };
  const std::string used(kernels::used_instruction_set());
  const std::string unknown = why("avx1024", Device::cpu());
  CHECK(unknown.starts_with("isa=avx1024 is no instruction set: take one of "));
  CHECK(unknown.find("native; in use is " + used) != std::string::npos);
#if defined(__x86_64__)
  CHECK(why("neon_dot", Device::cpu()).starts_with("isa=neon_dot is no instruction set of this processor"));
  const std::vector<std::string> here = sets_here();
  for (const std::string isa : {"scalar", "avx2", "avx512", "avx512_vnni", "amx"})
    if (std::find(here.begin(), here.end(), isa) == here.end()) {
      CAPTURE(isa);
      CHECK(why(isa, Device::cpu()).starts_with("isa=" + isa + ": this "));
    }
#endif
  const std::string foreign = why(used, Device::coreml());
  CHECK(foreign.starts_with("isa=" + used + " is an option of the device cpu, and this is compiled for coreml"));
  CHECK_THROWS_AS(dispatch_report(layered(), Device::coreml(), held_to(used)), Error);
  compile(used, Device("loopback"), {"cpu"});  // parts on the CPU would be held
}
