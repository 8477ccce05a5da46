// Safetensors headers as text; see the header. The format: the README of the reference implementation
// (Hugging Face, "safetensors", 2022).
#include "io/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/names_in_messages.h"

namespace rlx {
namespace {

// In the order of the reference implementation, which is roughly that of alignment: the order of tensors in a
// file.
constexpr std::pair<std::string_view, DType> kNames[] = {
    {"BOOL", boolean},
    {"F4", f4e2m1fn},
    {"F6_E2M3", f6e2m3fn},
    {"F6_E3M2", f6e3m2fn},
    {"U8", u8},
    {"I8", i8},
    {"F8_E5M2", f8e5m2},
    {"F8_E4M3", f8e4m3fn},
    {"F8_E8M0", f8e8m0fnu},
    {"F8_E4M3FNUZ", f8e4m3fnuz},
    {"F8_E5M2FNUZ", f8e5m2fnuz},
    {"I16", i16},
    {"U16", u16},
    {"F16", f16},
    {"BF16", bf16},
    {"I32", i32},
    {"U32", u32},
    {"F32", f32},
    {"C64", c64},
    {"F64", f64},
    {"I64", i64},
    {"U64", u64},
};

constexpr size_t kMostDims = 64;  // NumPy's limit, the largest of those who write such files
constexpr size_t kDeepest = 16;   // nesting of values that the format does not know

using json = nlohmann::json;

// Called by the JSON parser for each token, in order. It knows by `place_` what the next token may be.
class Reader {
 public:
  SafetensorsHeader take() { return std::move(header_); }

  bool null() {
    if (place_ == Place::tensors && is_metadata_) return is_metadata_ = false, true;  // serde writes "none" so
    return scalar("null");
  }
  bool boolean(bool value) { return scalar(value ? "true" : "false"); }
  bool number_integer(json::number_integer_t value) { return scalar(text_of("the negative number ", value)); }
  bool number_float(json::number_float_t, const std::string& text) {
    return scalar("the number " + quoted_name(text) + ", which is not whole or does not fit 64 bits");
  }
  bool number_unsigned(json::number_unsigned_t value) {
    if (place_ == Place::shape) {
      if (value > uint64_t{INT64_MAX}) refuse("has an extent of ", value, " in its shape; no memory can hold that");
      if (tensor_.shape.size() == kMostDims) refuse("has more than ", kMostDims, " dims");
      tensor_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ == Place::offsets) {
      if (offsets_.size() == 2) refuse("has more than two data_offsets; they are where its data begin and end");
      offsets_.push_back(value);
      return true;
    }
    return scalar(text_of("the number ", value));
  }
  bool string(std::string& value) {
    if (place_ == Place::metadata) {
      auto [at, fresh] = header_.metadata.emplace(std::move(key_), std::move(value));
      if (!fresh) fail(ErrorCode::parse, "damaged header: __metadata__ has ", quoted_name(at->first), " twice");
      return true;
    }
    if (place_ == Place::tensor && field_ == Field::dtype) {
      tensor_.dtype = dtype_of_name(value);
      return true;
    }
    return scalar("the string " + quoted_name(value));
  }
  bool binary(json::binary_t&) { return scalar("bytes"); }

  bool start_object(size_t) {
    if (enter_unknown()) return true;
    if (place_ == Place::outside) {
      place_ = Place::tensors;
    } else if (place_ == Place::tensors && is_metadata_) {
      place_ = Place::metadata;
    } else if (place_ == Place::tensors) {
      place_ = Place::tensor;
      tensor_ = {std::move(key_), f32, {}, 0, 0};
      seen_ = {};
      offsets_.clear();
    } else {
      return scalar("an object");
    }
    return true;
  }
  bool key(std::string& name) {
    if (unknown_depth_ > 0) return true;
    key_ = std::move(name);
    if (place_ == Place::tensors) {
      is_metadata_ = key_ == "__metadata__";
      if (is_metadata_ && std::exchange(has_metadata_, true))
        fail(ErrorCode::parse, "damaged header: it has __metadata__ twice");
    } else if (place_ == Place::tensor) {
      field_ = key_ == "dtype"          ? Field::dtype
               : key_ == "shape"        ? Field::shape
               : key_ == "data_offsets" ? Field::offsets
                                        : Field::unknown;
      // Fields from a later version of the format are passed over, as the reference implementation does.
      if (field_ != Field::unknown && std::exchange(seen_[static_cast<size_t>(field_)], true))
        refuse("has its ", key_, " twice");
    }
    return true;
  }
  bool end_object() {
    if (leave_unknown()) return true;
    if (place_ == Place::tensors) {
      place_ = Place::outside;
    } else if (place_ == Place::metadata) {
      place_ = Place::tensors;
    } else {
      for (auto [field, name] :
           {std::pair{Field::dtype, "dtype"}, {Field::shape, "shape"}, {Field::offsets, "data_offsets"}})
        if (!seen_[static_cast<size_t>(field)]) refuse("has no ", name);
      if (offsets_.size() != 2)
        refuse("needs two data_offsets, where its data begin and end; it has ", offsets_.size());
      tensor_.begin = offsets_[0];
      tensor_.end = offsets_[1];
      header_.tensors.push_back(std::move(tensor_));
      place_ = Place::tensors;
    }
    return true;
  }
  bool start_array(size_t) {
    if (enter_unknown()) return true;
    if (place_ == Place::tensor && field_ == Field::shape) place_ = Place::shape;
    else if (place_ == Place::tensor && field_ == Field::offsets) place_ = Place::offsets;
    else return scalar("an array");
    return true;
  }
  bool end_array() {
    if (!leave_unknown()) place_ = Place::tensor;
    return true;
  }
  bool parse_error(size_t position, const std::string& token, const json::exception&) {
    // The token may hold anything, also bytes that are no UTF-8, which a message must not.
    std::string shown = token.substr(0, 40);
    for (char& c : shown)
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    fail(ErrorCode::parse, "damaged header: its JSON breaks off at byte ", position + 7, " of the file, at ",
         quoted_name(shown), "; download or copy the file again");
  }

 private:
  enum class Place { outside, tensors, metadata, tensor, shape, offsets };
  enum class Field { dtype, shape, offsets, unknown };

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ErrorCode::parse, "damaged header: tensor ", quoted_name(tensor_.name), " ", parts...);
  }

  // A token that fits only where anything does.
  bool scalar(const std::string& what) {
    if (unknown_depth_ > 0 || (place_ == Place::tensor && field_ == Field::unknown)) return true;
    switch (place_) {
      case Place::outside:
        fail(ErrorCode::parse, "damaged header: it is ", what, " instead of an object with the tensors by their names");
      case Place::tensors:
        fail(ErrorCode::parse, "damaged header: under ", quoted_name(key_), " stands ", what, " instead of an object");
      case Place::metadata:
        fail(ErrorCode::parse, "damaged header: in __metadata__, ", quoted_name(key_), " is ", what,
             "; the format allows strings only");
      case Place::tensor: refuse("has ", what, " for its ", key_);
      case Place::shape: refuse("has ", what, " in its shape, where extents stand: 0, 1, 2 ...");
      case Place::offsets: break;
    }
    refuse("has ", what, " in its data_offsets, where two byte offsets stand");
  }

  bool enter_unknown() {
    if (unknown_depth_ == 0 && !(place_ == Place::tensor && field_ == Field::unknown)) return false;
    if (++unknown_depth_ > kDeepest) refuse("has ", quoted_name(key_), " nested deeper than ", kDeepest, " levels");
    return true;
  }
  bool leave_unknown() {
    if (unknown_depth_ == 0) return false;
    --unknown_depth_;
    return true;
  }

  DType dtype_of_name(const std::string& name) const {
    for (const auto& [known, dtype] : kNames)
      if (known == name) return dtype;
    std::string all;
    for (const auto& entry : kNames) (all += all.empty() ? "" : ", ") += entry.first;
    refuse("has the unknown dtype ", quoted_name(name), "; there are ", all);
  }

  SafetensorsHeader header_;
  Place place_ = Place::outside;
  std::string key_;
  bool is_metadata_ = false, has_metadata_ = false;
  SafetensorsHeader::Tensor tensor_{"", f32, {}, 0, 0};  // the one being read
  Field field_ = Field::unknown;
  std::array<bool, 3> seen_ = {};
  std::vector<uint64_t> offsets_;
  size_t unknown_depth_ = 0;
};

std::string json_string(const std::string& text) {
  try {
    return json(text).dump();
  } catch (const json::type_error&) {
    fail(ErrorCode::invalid_argument, "the name or value ", quoted_name(text),
         " is not UTF-8, which safetensors demands");
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text) {
  // The format asks for it, so that the first bytes tell such a file from others.
  if (!text.starts_with('{'))
    fail(ErrorCode::parse, "damaged header: byte 8 of the file is not the '{' with which a safetensors header begins");
  Reader reader;
  json::sax_parse(text.data(), text.data() + text.size(), &reader);
  return reader.take();
}

std::string safetensors_header_text(const SafetensorsHeader& header) {
  std::string out = "{";
  if (!header.metadata.empty()) {
    out += "\"__metadata__\":{";
    for (const auto& [key, value] : header.metadata) {
      if (out.back() != '{') out += ',';
      out += json_string(key) + ":" + json_string(value);
    }
    out += '}';
  }
  for (const SafetensorsHeader::Tensor& tensor : header.tensors) {
    if (out.size() > 1) out += ',';
    out += json_string(tensor.name) + ":{\"dtype\":\"" + std::string(safetensors_name(tensor.dtype).value()) +
           "\",\"shape\":[";
    for (int64_t extent : tensor.shape) {
      if (out.back() != '[') out += ',';
      out += std::to_string(extent);
    }
    out += "],\"data_offsets\":[" + std::to_string(tensor.begin) + "," + std::to_string(tensor.end) + "]}";
  }
  out += '}';
  return out.append((8 - out.size() % 8) % 8, ' ');
}

std::optional<std::string_view> safetensors_name(DType dtype) {
  size_t rank = safetensors_rank(dtype);
  if (rank == std::size(kNames)) return std::nullopt;
  return kNames[rank].first;
}

size_t safetensors_rank(DType dtype) {
  auto found =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& entry) { return entry.second == dtype; });
  return static_cast<size_t>(found - std::begin(kNames));
}

}  // namespace rlx
