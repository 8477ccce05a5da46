// A .rlx file that does not begin as one, or begins as one of another version.
#include <doctest/doctest.h>

#include "rlx/graph_file.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

TEST_CASE("a file without the version line is refused, and the message shows the line") {
  CHECK(message_of([] { parse_graph_text("graph @g { return }"); }) ==
        "line 1: expected the version line 'rlx 1' that begins a .rlx file before \"graph @g { return }\"");
  CHECK(message_of([] { parse_graph_text(""); }) ==
        "line 1: expected the version line 'rlx 1' that begins a .rlx file before the end of the text");
  CHECK(message_of([] { parse_graph_text("// only a comment\n"); }) ==
        "line 2: expected the version line 'rlx 1' that begins a .rlx file before the end of the text");
  CHECK(message_of([] { parse_graph_text("rlx1 graph @g { return }"); }) ==
        "line 1: expected the version line 'rlx 1' that begins a .rlx file before \"rlx1 graph @g { return }\"");
  CHECK(message_of([] {
          parse_graph_text(
              "\x7f"
              "ELF\x02\x01");
        }) == "line 1: expected the version line 'rlx 1' that begins a .rlx file before \"\\x7fELF\\x02\\x01\"");
}

TEST_CASE("another version is refused with the one that this build reads") {
  Error error = error_of([] { parse_graph_text("rlx 2\ngraph @g { return }"); });
  CHECK(error.code() == ErrorCode::unsupported);
  CHECK(std::string(error.what()) == "this is version 2 of the .rlx format; this build reads version 1");
  CHECK(message_of([] { parse_graph_text("rlx one"); }) == "line 1: expected a number before \"one\"");
}

TEST_CASE("what follows the graph is refused") {
  CHECK(message_of([] { parse_graph_text("rlx 1\ngraph @g { return }\ngraph @h { return }"); }) ==
        "line 3: expected the end of the file before \"graph @h { return }\"");
}

TEST_CASE("a graph that is cut off is refused where it ends") {
  std::string whole = "rlx 1\ngraph @g {\n  %0 = input() @\"x\" : f32[2]\n  return %0 @\"y\"\n}\n";
  CHECK_NOTHROW(parse_graph_text(whole));
  for (size_t end = 0; end + 2 < whole.size(); ++end) {
    Error error = error_of([&] { parse_graph_text(std::string_view(whole).substr(0, end)); });
    CHECK(error.code() == ErrorCode::parse);
  }
  CHECK(message_of([] { parse_graph_text("rlx 1\ngraph @g {\n  %0 = input() @\"x"); }) ==
        "line 3: expected a closing quote before the end of the text\n  while reading the node at line 3");
}
