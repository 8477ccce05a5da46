// The bytes of model.mlmodel, written. Field numbers as in mil_decode.cpp; maps in the order of their keys.
#include <bit>

#include "io/mil_codec.h"
#include "io/names_in_messages.h"
#include "io/wire.h"

namespace rlx::mil {
namespace {

using wire::Writer;

uint64_t bits_of(int64_t v) { return static_cast<uint64_t>(v); }  // negative ones take ten bytes, as in the format

void write_dimension(Writer& w, const Dimension& d) {
  if (d.size) w.message(1, [&](Writer& inner) { inner.number(1, bits_of(*d.size)); });
  else w.message(2, [&](Writer& inner) { inner.number(1, d.variadic); });
}

void write_type(Writer& w, const ValueType& t) {
  switch (t.kind) {
    case ValueType::Kind::tensor:
      return w.message(1, [&](Writer& inner) {
        inner.number(1, bits_of(static_cast<int32_t>(t.dtype)));
        inner.number(2, t.dims.size());
        for (const Dimension& d : t.dims) inner.message(3, [&](Writer& dim) { write_dimension(dim, d); });
      });
    case ValueType::Kind::list:
      return w.message(2, [&](Writer& inner) {
        inner.message(1, [&](Writer& element) { write_type(element, t.inner.at(0)); });
        if (t.length) inner.message(2, [&](Writer& length) { write_dimension(length, *t.length); });
      });
    case ValueType::Kind::tuple:
      return w.message(3, [&](Writer& inner) {
        for (const ValueType& part : t.inner) inner.message(1, [&](Writer& p) { write_type(p, part); });
      });
    case ValueType::Kind::dictionary:
      return w.message(4, [&](Writer& inner) {
        inner.message(1, [&](Writer& key) { write_type(key, t.inner.at(0)); });
        inner.message(2, [&](Writer& value) { write_type(value, t.inner.at(1)); });
      });
    case ValueType::Kind::state:
      return w.message(
          5, [&](Writer& inner) { inner.message(1, [&](Writer& wrapped) { write_type(wrapped, t.inner.at(0)); }); });
  }
}

/// A tensor's elements in the field that their dtype has.
void write_elements(Writer& w, const Tensor& t) {
  auto packed = [&](uint32_t field, auto values, auto append) {
    w.message(field, [&](Writer& list) {
      if (values.empty()) return;
      Writer elements;
      for (auto v : values) append(elements, v);
      list.always_bytes(1, elements.bytes());
    });
  };
  auto varint = [](Writer& e, auto v) { e.varint(static_cast<uint64_t>(static_cast<int64_t>(v))); };
  auto raw = [](Writer& e, auto v) { e.raw(v); };
  switch (t.dtype()) {
    case f32: return packed(1, t.values<float>(), raw);
    case i16: return packed(2, t.values<int16_t>(), varint);
    case u16: return packed(2, t.values<uint16_t>(), varint);
    case i32: return packed(2, t.values<int32_t>(), varint);
    case rlx::boolean: return packed(3, t.values<bool>(), varint);
    case i64: return packed(5, t.values<int64_t>(), varint);
    case u64: return packed(5, t.values<uint64_t>(), varint);
    case f64: return packed(6, t.values<double>(), raw);
    default: {
      size_t bytes = (t.element_count() * static_cast<size_t>(info(t.dtype()).bits) + 7) / 8;
      std::string_view data(reinterpret_cast<const char*>(t.data()), bytes);
      return w.message(7, [&](Writer& list) {
        if (!data.empty()) list.always_bytes(1, data);
      });
    }
  }
}

struct ModelWriter {
  const BlobPlacer& place;

  void write_value(Writer& w, const Value& v, bool may_move) const {
    w.text(1, v.doc);
    w.message(2, [&](Writer& type) { write_type(type, v.type); });
    auto blob = [&](const BlobRef& ref) {
      w.message(5, [&](Writer& inner) {
        inner.text(1, ref.file);
        inner.number(2, ref.offset);
      });
    };
    auto immediate = [&](uint32_t field, auto fill) {
      w.message(3, [&](Writer& inner) { inner.message(field, fill); });
    };
    if (auto* tensor = std::get_if<Tensor>(&v.data)) {
      std::optional<BlobRef> elsewhere;
      if (may_move && place) elsewhere = place(*tensor);
      if (elsewhere) blob(*elsewhere);
      else immediate(1, [&](Writer& t) { write_elements(t, *tensor); });
    } else if (auto* strings = std::get_if<std::vector<std::string>>(&v.data)) {
      immediate(1, [&](Writer& t) {
        t.message(4, [&](Writer& list) {
          for (const std::string& s : *strings) list.always_text(1, s);
        });
      });
    } else if (auto* parts = std::get_if<std::vector<Value>>(&v.data)) {
      immediate(v.type.kind == ValueType::Kind::tuple ? 2 : 3, [&](Writer& list) {
        for (const Value& part : *parts) list.message(1, [&](Writer& p) { write_value(p, part, false); });
      });
    } else if (auto* pairs = std::get_if<Value::Dictionary>(&v.data)) {
      immediate(4, [&](Writer& list) {
        for (const auto& pair : *pairs)
          list.message(1, [&](Writer& p) {
            p.message(1, [&](Writer& key) { write_value(key, pair.first, false); });
            p.message(2, [&](Writer& value) { write_value(value, pair.second, false); });
          });
      });
    } else {
      blob(std::get<BlobRef>(v.data));
    }
  }

  template <class Fill>
  static void write_entry(Writer& w, uint32_t field, std::string_view key, Fill fill) {
    w.message(field, [&](Writer& entry) {
      entry.always_text(1, key);
      entry.message(2, fill);
    });
  }
  void write_attributes(Writer& w, uint32_t field, const Values& values, bool may_move = false) const {
    for (const auto& item : values)
      write_entry(w, field, item.first, [&](Writer& value) { write_value(value, item.second, may_move); });
  }
  static void write_named(Writer& w, uint32_t field, const NamedType& named) {
    w.message(field, [&](Writer& inner) {
      inner.text(1, named.name);
      inner.message(2, [&](Writer& type) { write_type(type, named.type); });
    });
  }

  void write_operation(Writer& w, const Operation& op) const {
    w.text(1, op.type);
    // Consts and the constexpr ops may have their data in a file; all others get theirs from those.
    bool holds_data = op.type == "const" || op.type.starts_with("constexpr_");
    for (const auto& input : op.inputs)
      write_entry(w, 2, input.first, [&](Writer& argument) {
        for (const Binding& b : input.second)
          argument.message(1, [&](Writer& binding) {
            if (auto* name = std::get_if<std::string>(&b)) binding.always_text(1, *name);
            else binding.message(2, [&](Writer& value) { write_value(value, std::get<Value>(b), holds_data); });
          });
      });
    for (const NamedType& out : op.outputs) write_named(w, 3, out);
    for (const Block& block : op.blocks) w.message(4, [&](Writer& inner) { write_block(inner, block); });
    write_attributes(w, 5, op.attributes, holds_data);
  }

  void write_block(Writer& w, const Block& block) const {
    for (const NamedType& in : block.inputs) write_named(w, 1, in);
    for (const std::string& out : block.outputs) w.always_text(2, out);
    for (const Operation& op : block.operations) w.message(3, [&](Writer& inner) { write_operation(inner, op); });
    write_attributes(w, 4, block.attributes);
  }

  void write_function(Writer& w, const Function& function) const {
    for (const NamedType& in : function.inputs) write_named(w, 1, in);
    w.text(2, function.opset);
    for (const auto& item : function.blocks)
      write_entry(w, 3, item.first, [&](Writer& block) { write_block(block, item.second); });
    write_attributes(w, 4, function.attributes);
  }

  void write_program(Writer& w, const Program& program) const {
    w.number(1, bits_of(program.version));
    for (const auto& item : program.functions)
      write_entry(w, 2, item.first, [&](Writer& function) { write_function(function, item.second); });
    w.text(3, program.doc);
    write_attributes(w, 4, program.attributes);
  }
};

// ---- descriptions ----

void write_range(Writer& w, uint32_t field, const Feature::Range& range) {
  w.message(field, [&](Writer& inner) {
    inner.number(1, bits_of(range.lower));
    inner.number(2, bits_of(range.upper.value_or(-1)));
  });
}

void write_extents(Writer& w, const Shape& shape) {
  if (shape.empty()) return;
  Writer elements;
  for (int64_t extent : shape) elements.varint(bits_of(extent));
  w.always_bytes(1, elements.bytes());
}

uint64_t array_code(DType dtype) {
  switch (dtype) {
    case f32: return 65568;
    case f64: return 65600;
    case i32: return 131104;
    case i8: return 131080;
    case f16: return 65552;
    default: fail(ErrorCode::unsupported, "Core ML's arrays have no elements of ", dtype);
  }
}

void write_array(Writer& w, const Feature& feature) {
  write_extents(w, feature.shape);
  if (feature.dtype) w.number(2, array_code(*feature.dtype));
  if (!feature.flexibility.shapes.empty())
    w.message(21, [&](Writer& all) {
      for (const Shape& shape : feature.flexibility.shapes)
        all.message(1, [&](Writer& one) { write_extents(one, shape); });
    });
  if (!feature.flexibility.ranges.empty())
    w.message(31, [&](Writer& all) {
      for (const Feature::Range& range : feature.flexibility.ranges) write_range(all, 1, range);
    });
  if (!feature.default_value) return;
  if (feature.dtype == i32) w.always_number(41, bits_of(static_cast<int64_t>(*feature.default_value)));
  else if (feature.dtype == f64) w.always_fixed64(61, std::bit_cast<uint64_t>(*feature.default_value));
  else w.always_fixed32(51, std::bit_cast<uint32_t>(static_cast<float>(*feature.default_value)));
}

void write_image(Writer& w, const Feature& feature) {
  const Feature::Flexibility& flexible = feature.flexibility;
  auto is_size = [](const Shape& shape) { return shape.size() == 2; };
  if (!is_size(feature.shape) || !std::all_of(flexible.shapes.begin(), flexible.shapes.end(), is_size) ||
      (!flexible.ranges.empty() && flexible.ranges.size() != 2))
    fail(ErrorCode::invalid_argument, "the image ", quoted_name(feature.name),
         " needs a height and a width, and sizes likewise");
  w.number(1, bits_of(feature.shape[1]));
  w.number(2, bits_of(feature.shape[0]));
  w.number(3, bits_of(static_cast<int32_t>(feature.color_space)));
  if (!flexible.shapes.empty())
    w.message(21, [&](Writer& all) {
      for (const Shape& size : flexible.shapes)
        all.message(1, [&](Writer& one) {
          one.number(1, bits_of(size[1]));
          one.number(2, bits_of(size[0]));
        });
    });
  if (!flexible.ranges.empty())
    w.message(31, [&](Writer& both) {
      write_range(both, 1, flexible.ranges[0]);
      write_range(both, 2, flexible.ranges[1]);
    });
}

void write_feature_type(Writer& w, const Feature& feature) {
  auto nothing = [](Writer&) {};
  switch (feature.kind) {
    case Feature::Kind::unknown: break;
    case Feature::Kind::int64: w.message(1, nothing); break;
    case Feature::Kind::real64: w.message(2, nothing); break;
    case Feature::Kind::string: w.message(3, nothing); break;
    case Feature::Kind::image: w.message(4, [&](Writer& inner) { write_image(inner, feature); }); break;
    case Feature::Kind::array: w.message(5, [&](Writer& inner) { write_array(inner, feature); }); break;
    case Feature::Kind::dictionary:
      w.message(6, [&](Writer& inner) { inner.message(feature.string_keys ? 2 : 1, nothing); });
      break;
    case Feature::Kind::sequence:
      w.message(7, [&](Writer& inner) { inner.message(feature.string_keys ? 3 : 1, nothing); });
      break;
    case Feature::Kind::state:
      w.message(8, [&](Writer& inner) { inner.message(1, [&](Writer& array) { write_array(array, feature); }); });
      break;
  }
  w.number(1000, feature.optional);
}

void write_features(Writer& w, uint32_t field, const std::vector<Feature>& features) {
  for (const Feature& feature : features)
    w.message(field, [&](Writer& inner) {
      inner.text(1, feature.name);
      inner.text(2, feature.doc);
      inner.message(3, [&](Writer& type) { write_feature_type(type, feature); });
    });
}

void write_metadata(Writer& w, const Metadata& metadata) {
  w.text(1, metadata.description);
  w.text(2, metadata.version);
  w.text(3, metadata.author);
  w.text(4, metadata.license);
  for (const auto& item : metadata.user)
    w.message(100, [&](Writer& entry) {
      entry.always_text(1, item.first);
      entry.always_text(2, item.second);
    });
}

void write_description(Writer& w, const Model& model) {
  write_features(w, 1, model.main.inputs);
  write_features(w, 10, model.main.outputs);
  w.text(11, model.main.predicted_feature);
  w.text(12, model.main.predicted_probabilities);
  write_features(w, 13, model.main.states);
  for (const FunctionDescription& f : model.functions)
    w.message(20, [&](Writer& inner) {
      inner.text(1, f.name);
      write_features(inner, 2, f.inputs);
      write_features(inner, 3, f.outputs);
      inner.text(4, f.predicted_feature);
      inner.text(5, f.predicted_probabilities);
      write_features(inner, 6, f.states);
    });
  w.text(21, model.default_function);
  w.message(100, [&](Writer& inner) { write_metadata(inner, model.metadata); });
}

}  // namespace

std::string encode_model(const Model& model, const BlobPlacer& place) {
  Writer w;
  w.number(1, bits_of(model.specification_version));
  w.message(2, [&](Writer& description) { write_description(description, model); });
  w.message(502, [&](Writer& program) { ModelWriter{place}.write_program(program, model.program); });
  return w.take();
}

}  // namespace rlx::mil
