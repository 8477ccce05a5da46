// Cutting, joining and padding of encodings; see the header.
#include "io/tokenizer/encoding.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "rlx/error.h"

namespace rlx::tokenizer {
namespace {

/// Calls `visit` with the same member of both encodings, for each member that has one element per token.
template <class From, class Visit>
void for_each_column(Encoding& to, From& from, const Visit& visit) {
  visit(to.ids, from.ids);
  visit(to.type_ids, from.type_ids);
  visit(to.attention_mask, from.attention_mask);
  visit(to.special_tokens_mask, from.special_tokens_mask);
  visit(to.words, from.words);
  visit(to.offsets, from.offsets);
  visit(to.tokens, from.tokens);
}

Encoding slice(const Encoding& encoding, size_t begin, size_t end) {
  Encoding part;
  for_each_column(part, encoding, [&](auto& to, const auto& from) {
    to.assign(from.begin() + static_cast<std::ptrdiff_t>(begin), from.begin() + static_cast<std::ptrdiff_t>(end));
  });
  return part;
}

Encoding joined(const Encoding& first, const Encoding& second) {
  Encoding both = slice(first, 0, first.size());
  append(both, slice(second, 0, second.size()));
  return both;
}

/// Cuts one encoding to `length` tokens; the pieces of the overflow have as many, the last one what is left.
void cut(Encoding& encoding, size_t length, const Truncation& truncation) {
  size_t total = encoding.size();
  if (total <= length) return;
  bool right = truncation.side == Side::right;
  Encoding kept = right ? slice(encoding, 0, length) : slice(encoding, total - length, total);
  if (truncation.keep_overflow) {
    if (length == 0) {
      kept.overflowing.push_back(std::move(encoding));
    } else {
      if (truncation.stride >= length)
        fail(ErrorCode::invalid_argument, "pieces of ", length, " tokens cannot agree by a stride of ",
             truncation.stride, "; choose a smaller stride or a larger max_length");
      size_t step = length - truncation.stride;
      if ((total - length) / step >= kMaxOverflow)
        fail(ErrorCode::out_of_memory, total, " tokens in pieces of ", length, " with a stride of ", truncation.stride,
             " make more than ", kMaxOverflow, " pieces");
      // `done` tokens are in the pieces so far, counted from where the first piece begins.
      for (size_t begin = step, done = length; done < total; begin += step) {
        done = std::min(begin + length, total);
        kept.overflowing.push_back(right ? slice(encoding, begin, done) : slice(encoding, total - done, total - begin));
      }
    }
  }
  encoding = std::move(kept);
}

}  // namespace

void reserve(Encoding& encoding, size_t size) {
  for_each_column(encoding, encoding, [&](auto& column, auto&) { column.reserve(size); });
}

void append(Encoding& encoding, Encoding other) {
  size_t combinations = (encoding.overflowing.size() + 1) * (other.overflowing.size() + 1) - 1;
  if (combinations > kMaxOverflow)
    fail(ErrorCode::out_of_memory, "the overflow of two texts makes ", combinations, " combinations, more than ",
         kMaxOverflow, "; truncate one text only");
  std::vector<Encoding> overflowing;
  overflowing.reserve(combinations);
  for (const Encoding& piece : encoding.overflowing) {
    overflowing.push_back(joined(piece, other));
    for (const Encoding& others : other.overflowing) overflowing.push_back(joined(piece, others));
  }
  for (const Encoding& others : other.overflowing) overflowing.push_back(joined(encoding, others));
  for_each_column(encoding, other, [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  });
  encoding.overflowing = std::move(overflowing);
}

void truncate(Encoding& first, Encoding* second, size_t max_length, const Truncation& truncation) {
  size_t n1 = first.size(), n2 = second ? second->size() : 0;
  if (n1 + n2 <= max_length) return;
  switch (truncation.strategy) {
    case Truncation::Strategy::longest_first: {
      if (!second) return cut(first, max_length, truncation);
      // The shorter one keeps all it has while that is at most half; of an odd rest, the longer one gets more.
      size_t shorter = std::min(n1, n2);
      size_t keep_shorter = std::min(shorter, max_length / 2);
      size_t keep_longer = max_length - keep_shorter;
      cut(first, n1 <= n2 ? keep_shorter : keep_longer, truncation);
      cut(*second, n1 <= n2 ? keep_longer : keep_shorter, truncation);
      return;
    }
    case Truncation::Strategy::only_first:
    case Truncation::Strategy::only_second: {
      bool cut_first = truncation.strategy == Truncation::Strategy::only_first;
      if (!cut_first && !second)
        fail(ErrorCode::invalid_argument, "truncation is to cut the second text only, but there is one text, of ", n1,
             " tokens, and room for ", max_length);
      size_t other = cut_first ? n2 : n1;
      if (other >= max_length && max_length > 0)
        fail(ErrorCode::invalid_argument, "truncation is to cut the ", cut_first ? "first" : "second",
             " text only, but the other one has ", other, " tokens and there is room for ", max_length);
      cut(cut_first ? first : *second, max_length - std::min(max_length, other), truncation);
      if (max_length == 0) cut(cut_first && second ? *second : first, 0, truncation);
      return;
    }
  }
}

size_t padded_length(size_t longest, const Padding& padding) {
  size_t length = padding.length.value_or(longest);
  size_t multiple = padding.pad_to_multiple_of;
  if (multiple > 1 && length % multiple != 0) length += multiple - length % multiple;
  return length;
}

void pad(Encoding& encoding, size_t length, const Padding& padding) {
  for (Encoding& piece : encoding.overflowing) pad(piece, length, padding);
  if (encoding.size() >= length) return;
  size_t count = length - encoding.size();
  auto fill = [&](auto& column, const auto& value) {
    column.insert(padding.side == Side::right ? column.end() : column.begin(), count, value);
  };
  fill(encoding.ids, padding.id);
  fill(encoding.type_ids, padding.type_id);
  fill(encoding.attention_mask, 0);
  fill(encoding.special_tokens_mask, 1);
  fill(encoding.words, -1);
  fill(encoding.offsets, TextSpan{});
  fill(encoding.tokens, padding.token);
}

}  // namespace rlx::tokenizer
