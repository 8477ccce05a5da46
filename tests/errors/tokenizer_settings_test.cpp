// What settings of a tokenizer that cannot work are answered with.
#include <doctest/doctest.h>

#include "rlx/tokenizer.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

Tokenizer letters() { return Tokenizer::from_vocabulary("[UNK]\n[CLS]\n[SEP]\na\nb\n"); }

}  // namespace

TEST_CASE("truncation that leaves no room for special tokens is refused") {
  Tokenizer tokenizer = letters();
  CHECK(error_of([&] { tokenizer.set_truncation(Truncation{.max_length = 1}); }).code() == ErrorCode::invalid_argument);
  CHECK(message_of([&] { tokenizer.set_truncation(Truncation{.max_length = 1}); }) ==
        "truncation to 1 tokens leaves no room for the 2 special tokens of a text; choose a max_length of 2 "
        "or more, or "
        "encode without special tokens");
  tokenizer.set_truncation(Truncation{.max_length = 2});
  CHECK(tokenizer.encode("a b").size() == 2);
  CHECK(message_of([&] { tokenizer.encode_pair("a", "b"); }) ==
        "truncation to 2 tokens leaves no room for the 3 special tokens of two texts; choose a max_length of "
        "3 or more, "
        "or encode without special tokens");
  CHECK(tokenizer.encode_pair("a", "b", false).size() == 2);
}

TEST_CASE("a stride that leaves no step is refused") {
  Tokenizer tokenizer = letters();
  CHECK(
      message_of([&] { tokenizer.set_truncation(Truncation{.max_length = 5, .keep_overflow = true, .stride = 3}); }) ==
      "a stride of 3 needs pieces of more tokens than 3, which is what a max_length of 5 leaves beside "
      "special tokens");
  tokenizer.set_truncation(Truncation{.max_length = 6, .keep_overflow = true, .stride = 3});
  CHECK(message_of([&] { tokenizer.encode_pair("a a a a a", "b b b b b"); }) ==
        "pieces of 1 tokens cannot agree by a stride of 3; choose a smaller stride or a larger max_length");
}

TEST_CASE("truncation of a text that is not there, or not long enough, is refused") {
  Tokenizer tokenizer = letters();
  tokenizer.set_truncation(Truncation{.max_length = 4, .strategy = Truncation::Strategy::only_second});
  CHECK(message_of([&] { tokenizer.encode("a b a b"); }) ==
        "truncation is to cut the second text only, but there is one text, of 4 tokens, and room for 2");
  tokenizer.set_truncation(Truncation{.max_length = 5, .strategy = Truncation::Strategy::only_first});
  CHECK(message_of([&] { tokenizer.encode_pair("a", "b b b"); }) ==
        "truncation is to cut the first text only, but the other one has 3 tokens and there is room for 2");
}

TEST_CASE("padding beyond all measure is refused") {
  Tokenizer tokenizer = letters();
  CHECK(message_of([&] { tokenizer.set_padding(Padding{.pad_to_multiple_of = size_t{1} << 40}); }) ==
        "padding to 0 tokens, a multiple of 1099511627776, is beyond the 1048576 that an encoding is padded "
        "to");
}

TEST_CASE("overflow that multiplies without end is refused") {
  Tokenizer tokenizer = letters();
  tokenizer.set_truncation(Truncation{.max_length = 5, .keep_overflow = true});
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "a ";
  CHECK(message_of([&] { tokenizer.encode_pair(text, text); }) ==
        "the overflow of two texts makes 3999999 combinations, more than 65536; truncate one text only");
}
