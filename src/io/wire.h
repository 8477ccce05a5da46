// Protocol buffers' encoding, as far as files of Core ML need it: fields of a message one after another, and the same
// written. What a field's number means is the caller's business.
//
// Source: protobuf.dev, "Encoding".
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "rlx/error.h"

namespace rlx::wire {

/// How a field's value is stored.
enum class Kind : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// Messages nest no deeper than this: what reads them recurses.
inline constexpr int kDepthLimit = 200;

struct Field;

/// The fields of a message. The bytes must stay for as long as fields are read.
class Message {
 public:
  explicit Message(std::string_view bytes, int depth = 0);
  /// The next field; false at the end. Fails where the bytes follow no encoding.
  bool next(Field& field);
  bool at_end() const { return rest_.empty(); }
  uint64_t varint();
  uint32_t fixed32();
  uint64_t fixed64();

 private:
  std::string_view rest_;
  int depth_;
};

struct Field {
  uint32_t number = 0;
  Kind kind = Kind::varint;
  uint64_t value = 0;           ///< of all kinds but bytes
  std::string_view bytes = {};  ///< of bytes
  int depth = 0;

  /// The value of a field that holds a number, bytes or a message; each fails where the field holds another kind.
  uint64_t number_value() const;
  std::string_view bytes_value() const;
  std::string text() const;  ///< fails unless it is UTF-8
  Message message() const { return Message(bytes_value(), depth + 1); }
  /// Calls `f` with each number of a repeated field, packed or one at a time. `Kind` is that of one number.
  template <Kind kKind, class F>
  void each_number(F f) const;

 private:
  [[noreturn]] void refuse(std::string_view wanted) const;
};

template <Kind kKind, class F>
void Field::each_number(F f) const {
  if (kind == kKind) return f(value);
  Message packed(bytes_value(), depth);
  while (!packed.at_end()) {
    if constexpr (kKind == Kind::varint) f(packed.varint());
    else if constexpr (kKind == Kind::fixed32) f(uint64_t{packed.fixed32()});
    else f(packed.fixed64());
  }
}

/// Appends fields to a message. Values that are a field's default (0, false, "") are left out by `number` and `text`,
/// as the format's third version has it; `always_...` writes them, for members of a oneof.
class Writer {
 public:
  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

  void number(uint32_t field, uint64_t value) {
    if (value) always_number(field, value);
  }
  void always_number(uint32_t field, uint64_t value) {
    tag(field, Kind::varint);
    varint(value);
  }
  void text(uint32_t field, std::string_view value) {
    if (!value.empty()) always_text(field, value);
  }
  /// Fails unless it is UTF-8.
  void always_text(uint32_t field, std::string_view value);
  void always_bytes(uint32_t field, std::string_view value) {
    tag(field, Kind::bytes);
    varint(value.size());
    bytes_ += value;
  }
  void always_fixed32(uint32_t field, uint32_t value) {
    tag(field, Kind::fixed32);
    raw(value);
  }
  void always_fixed64(uint32_t field, uint64_t value) {
    tag(field, Kind::fixed64);
    raw(value);
  }
  /// A message that `fill(Writer&)` writes.
  template <class Fill>
  void message(uint32_t field, Fill fill) {
    Writer inner;
    fill(inner);
    always_bytes(field, inner.bytes_);
  }
  /// Without a tag: elements of a packed field.
  void varint(uint64_t value);
  template <class T>
  void raw(T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    bytes_.append(bytes, sizeof value);
  }

 private:
  void tag(uint32_t field, Kind kind) { varint(uint64_t{field} << 3 | static_cast<uint64_t>(kind)); }
  std::string bytes_;
};

}  // namespace rlx::wire
