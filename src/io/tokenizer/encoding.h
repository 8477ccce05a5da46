// What is done to encodings after the model: they are cut to length, joined, filled up.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "rlx/tokenizer.h"

namespace rlx::tokenizer {

/// No encoding is padded beyond this, whatever a file asks for.
constexpr size_t kMaxPaddedLength = size_t{1} << 20;
/// Nor are more pieces of overflow made of one input than this.
constexpr size_t kMaxOverflow = size_t{1} << 16;

/// Makes room for `size` tokens.
void reserve(Encoding& encoding, size_t size);

/// Appends `other`; pieces of overflow are combined, each with each and with the other's beginning.
void append(Encoding& encoding, Encoding other);

/// Cuts one or two encodings so that they have `max_length` tokens together. `truncation` says how; its own
/// length is not read, because room for special tokens has been subtracted.
void truncate(Encoding& first, Encoding* second, size_t max_length, const Truncation& truncation);

/// The length that encodings of which the longest is `longest` are padded to.
size_t padded_length(size_t longest, const Padding& padding);
/// Fills up to `length`, the overflow too.
void pad(Encoding& encoding, size_t length, const Padding& padding);

}  // namespace rlx::tokenizer
