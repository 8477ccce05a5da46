// .rlx files that are not there, cannot be written, or miss what should stand beside them.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "ir/text.h"
#include "rlx/graph_file.h"
#include "rlx/io.h"
#include "rlx/ops.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

Graph with_constant() {
  Graph g("g");
  g.output(g.constant(Tensor(f32, {100})));
  return g;
}

}  // namespace

TEST_CASE("a file that is not there is named") {
  Error error = error_of([] { load_graph("no/such.rlx"); });
  CHECK(error.code() == ErrorCode::not_found);
  CHECK(std::string(error.what()) ==
        "cannot open 'no/such.rlx': No such file or directory; check the path and its permissions\n"
        "  while loading 'no/such.rlx'");
}

TEST_CASE("a path that cannot be written is named, and nothing is left there") {
  CHECK(message_of([] { save_graph("no/such.rlx", parse_graph("graph @g { return }")); }) ==
        "cannot create 'no/such.rlx': No such file or directory; nothing was changed\n  while saving 'no/such.rlx'");
  CHECK(message_of([] { save_graph("no/such.rlx", with_constant()); }).find("while saving 'no/such.rlx'") !=
        std::string::npos);
  TemporaryFolder folder;
  CHECK(message_of([&] { save_graph(folder / "", with_constant()); }).find("while saving") != std::string::npos);
  if (geteuid() != 0) {  // root writes anywhere
    REQUIRE(chmod((folder / "").c_str(), 0500) == 0);
    CHECK(error_of([&] { save_graph(folder / "x.rlx", with_constant()); }).code() == ErrorCode::io);
    REQUIRE(chmod((folder / "").c_str(), 0700) == 0);
  }
  CHECK(folder.file_count() == 0);
}

TEST_CASE("constants that should stand beside the file and do not are named") {
  TemporaryFolder folder;
  save_graph(folder / "g.rlx", with_constant());
  std::filesystem::remove(folder / "g.safetensors");
  std::string message = message_of([&] { load_graph(folder / "g.rlx"); });
  CHECK(message.starts_with("cannot open '" + (folder / "g.safetensors") + "': No such file or directory"));
  CHECK(message.find("while reading the node at line 3") != std::string::npos);
  CHECK(message.find("while loading '" + (folder / "g.rlx") + "'") != std::string::npos);

  write_safetensors(folder / "g.safetensors", {{"other", Tensor(f32, {100})}});
  CHECK(message_of([&] { load_graph(folder / "g.rlx"); }).find("'constant_0'") != std::string::npos);
  write_safetensors(folder / "g.safetensors", {{"constant_0", Tensor(f32, {99})}});
  CHECK(message_of([&] {
          load_graph(folder / "g.rlx");
        }).find("expected constant 'constant_0' to be f32[100]; the file beside this text has f32[99]") !=
        std::string::npos);
}

TEST_CASE("a text that names constants elsewhere needs its file") {
  CHECK(message_of([] {
          parse_graph_text("rlx 1\ngraph @g { %0 = constant() {value = f32[2] @\"w\"} : f32[2] return %0 }");
        }) ==
        "line 2: expected the elements of constant 'w' (this text has no file beside it) before \"} : f32[2] return %0 "
        "}\"\n"
        "  while reading the node at line 2");
}

TEST_CASE("a constant with too few or too many numbers is refused") {
  CHECK(message_of([] { parse_graph("graph @g { %0 = constant() {value = f32[3] [1, 2]} : f32[3] return %0 }"); }) ==
        "line 1: expected ',' before \"]} : f32[3] return %0 }\"\n  while reading the node at line 1");
  CHECK(message_of([] { parse_graph("graph @g { %0 = constant() {value = f32[1] [1, 2]} : f32[1] return %0 }"); }) ==
        "line 1: expected ']' before \", 2]} : f32[1] return %0\"\n  while reading the node at line 1");
}
