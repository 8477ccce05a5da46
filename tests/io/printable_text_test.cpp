// What comes from files and is shown: valid UTF-8, and no control characters but newline and tab.
#include <doctest/doctest.h>

#include "base/printable_text.h"
#include "io/names_in_messages.h"
#include "rlx/scanner.h"

using namespace rlx;

TEST_CASE("text without control characters stays as it is, in any script") {
  for (const char* text : {"", "plain", "two\nlines\tand a tab", "größe 名前 🙂 \u00a0", "\U0010ffff"})
    CHECK(printable_text(text) == text);
}

TEST_CASE("control characters and bytes that are no UTF-8 are spelled out") {
  CHECK(printable_text("\x1b]0;title\x07") == "\\x1b]0;title\\x07");
  CHECK(printable_text(std::string("a\0b\rc", 5)) == "a\\x00b\\x0dc");
  CHECK(printable_text("\x7f") == "\\u007f");
  CHECK(printable_text("\u009b31m") == "\\u009b31m");  // what begins a sequence, as ESC [ does
  CHECK(printable_text("\xff\xfe") == "\\xff\\xfe");
  CHECK(printable_text("\xc3") == "\\xc3");                             // cut
  CHECK(printable_text("\xc0\x80") == "\\xc0\\x80");                    // overlong
  CHECK(printable_text("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // a surrogate
  CHECK(printable_text("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // past the last character
  CHECK(printable_line("a\nb\tc\x1b") == "a b c\\x1b");
}

TEST_CASE("whatever the bytes, what is shown is valid, printable, and shown unchanged again") {
  uint64_t state = 20261123;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int i = 0; i < 24; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto byte = static_cast<unsigned char>(state >> 56);
      // Half of them such as begin and go on with characters of several bytes.
      bytes += static_cast<char>(i % 2 ? byte : 0x80 | byte);
    }
    const std::string shown = printable_text(bytes);
    for (std::string_view rest = shown; !rest.empty();) {
      const size_t size = utf8_character_bytes(rest);
      REQUIRE(size > 0);
      REQUIRE((rest[0] == '\n' || rest[0] == '\t' || !is_control_character(rest, size)));
      rest.remove_prefix(size);
    }
    CHECK(printable_text(shown) == shown);
  }
}

TEST_CASE("names in messages and texts of graphs are printable too, and the latter are read again as they were") {
  CHECK(quoted_name("a\x1b[2J\n\xff") == "'a\\x1b[2J\\x0a\\xff'");
  for (std::string name : {std::string("\xff\xfe \xc3"), std::string("\u009b \x7f \x01"), std::string("größe 名前")}) {
    std::ostringstream out;
    write_quoted(out, name);
    CHECK(printable_text(out.str()) == out.str());
    CHECK(Scanner(out.str()).quoted() == name);
  }
}
