// Reading and writing protocol buffers' encoding; see the header.
#include "io/wire.h"

#include <bit>

#include "io/tokenizer/utf8.h"

namespace rlx::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "the encoding is little-endian");

[[noreturn]] void cut() {
  fail(ErrorCode::parse, "a message ends in the middle of a field; the file is cut or damaged");
}

bool is_utf8(std::string_view text) { return tokenizer::valid_utf8_prefix(text) == text.size(); }

}  // namespace

Message::Message(std::string_view bytes, int depth) : rest_(bytes), depth_(depth) {
  if (depth > kDepthLimit) fail(ErrorCode::parse, "messages nest deeper than ", kDepthLimit, " levels");
}

uint64_t Message::varint() {
  uint64_t value = 0;
  for (unsigned i = 0; i < 10; ++i) {
    if (i >= rest_.size()) cut();
    auto byte = static_cast<unsigned char>(rest_[i]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      rest_.remove_prefix(i + 1);
      return value;
    }
  }
  fail(ErrorCode::parse, "a number has more than 10 bytes; the file is damaged, or holds no model");
}

uint32_t Message::fixed32() {
  if (rest_.size() < 4) cut();
  uint32_t value;
  std::memcpy(&value, rest_.data(), 4);
  rest_.remove_prefix(4);
  return value;
}

uint64_t Message::fixed64() {
  if (rest_.size() < 8) cut();
  uint64_t value;
  std::memcpy(&value, rest_.data(), 8);
  rest_.remove_prefix(8);
  return value;
}

bool Message::next(Field& field) {
  if (rest_.empty()) return false;
  uint64_t tag = varint();
  field = {.number = static_cast<uint32_t>(tag >> 3), .kind = static_cast<Kind>(tag & 7), .depth = depth_};
  if (tag >> 32 != 0 || field.number == 0)
    fail(ErrorCode::parse, "a field has the number ", tag >> 3, "; the file is damaged, or holds no model");
  switch (field.kind) {
    case Kind::varint: field.value = varint(); return true;
    case Kind::fixed64: field.value = fixed64(); return true;
    case Kind::fixed32: field.value = fixed32(); return true;
    case Kind::bytes: {
      uint64_t length = varint();
      if (length > rest_.size()) cut();
      field.bytes = rest_.substr(0, length);
      rest_.remove_prefix(length);
      return true;
    }
  }
  fail(ErrorCode::parse, "field ", field.number, " has an encoding of kind ", tag & 7,
       ", which no file of this format has; the file is damaged, or holds no model");
}

void Field::refuse(std::string_view wanted) const {
  fail(ErrorCode::parse, "field ", number, " should hold ", wanted, "; the file is damaged, or holds no model");
}
uint64_t Field::number_value() const {
  if (kind == Kind::bytes) refuse("a number");
  return value;
}
std::string_view Field::bytes_value() const {
  if (kind != Kind::bytes) refuse("a text or a message");
  return bytes;
}
std::string Field::text() const {
  if (!is_utf8(bytes_value())) refuse("text in UTF-8");
  return std::string(bytes);
}

void Writer::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
  bytes_ += static_cast<char>(value);
}

void Writer::always_text(uint32_t field, std::string_view value) {
  if (!is_utf8(value))
    fail(ErrorCode::invalid_argument, "a name or text of ", value.size(),
         " bytes is not UTF-8; files of this format hold no other");
  always_bytes(field, value);
}

}  // namespace rlx::wire
