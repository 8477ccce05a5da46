// The bytes of model.mlmodel, read. Field numbers are those of coremltools' mlmodel/format/MIL.proto, Model.proto and
// FeatureTypes.proto; each function reads one kind of message.
#include <bit>
#include <limits>
#include <map>

#include "io/mil_codec.h"
#include "io/names_in_messages.h"
#include "io/wire.h"

namespace rlx::mil {
namespace {

using wire::Field;
using wire::Message;

/// Calls `f` with each field.
template <class F>
void each_field(Message m, F f) {
  for (Field field; m.next(field);) f(field);
}

int64_t extent_of(uint64_t size) {
  if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    fail(ErrorCode::parse, "an extent of ", size, " is too large for any tensor");
  return static_cast<int64_t>(size);
}

Dimension read_dimension(Message m) {
  Dimension d;
  each_field(m, [&](const Field& f) {
    if (f.number == 1) {  // constant
      d = {0, false};
      each_field(f.message(), [&](const Field& inner) {
        if (inner.number == 1) d.size = extent_of(inner.number_value());
      });
    } else if (f.number == 2) {  // unknown
      d = {};
      each_field(f.message(), [&](const Field& inner) {
        if (inner.number == 1) d.variadic = inner.number_value() != 0;
      });
    }
  });
  return d;
}

ValueType read_type(Message m);

ValueType read_tensor_type(Message m) {
  ValueType type;
  int64_t rank = 0;
  each_field(m, [&](const Field& f) {
    if (f.number == 1) type.dtype = static_cast<DataType>(static_cast<int32_t>(f.number_value()));
    else if (f.number == 2) rank = static_cast<int64_t>(f.number_value());
    else if (f.number == 3) type.dims.push_back(read_dimension(f.message()));
  });
  bool any_rank = type.dims.size() == 1 && type.dims[0].variadic;
  if (!any_rank && rank != -1 && rank != static_cast<int64_t>(type.dims.size()))
    fail(ErrorCode::parse, "a tensor type tells of rank ", rank, " and has ", type.dims.size(), " dims");
  return type;
}

ValueType read_type(Message m) {
  using Kind = ValueType::Kind;
  std::optional<ValueType> type;
  // A type whose parts are the types in fields 1 and, if it has one, 2.
  auto compound = [&](Kind kind, Message parts, size_t wanted) {
    type = ValueType{.kind = kind};
    each_field(parts, [&](const Field& f) {
      if (f.number == 1 || (f.number == 2 && kind == Kind::dictionary)) type->inner.push_back(read_type(f.message()));
      else if (f.number == 2 && kind == Kind::list) type->length = read_dimension(f.message());
    });
    if (wanted && type->inner.size() != wanted)
      fail(ErrorCode::parse, "a type of a list, dictionary or state has ", type->inner.size(), " parts instead of ",
           wanted);
  };
  each_field(m, [&](const Field& f) {
    switch (f.number) {
      case 1: type = read_tensor_type(f.message()); break;
      case 2: compound(Kind::list, f.message(), 1); break;
      case 3: compound(Kind::tuple, f.message(), 0); break;
      case 4: compound(Kind::dictionary, f.message(), 2); break;
      case 5: compound(Kind::state, f.message(), 1); break;
      default: break;
    }
  });
  if (!type) fail(ErrorCode::parse, "a value has no type");
  return *type;
}

// ---- literals ----

/// Which field of a literal holds elements of a dtype; 7, raw bytes, where it has none of its own.
uint32_t field_of(DType dtype) {
  switch (dtype) {
    case f32: return 1;
    case i16:
    case u16:
    case i32: return 2;
    case rlx::boolean: return 3;
    case i64:
    case u64: return 5;
    case f64: return 6;
    default: return 7;
  }
}

template <class T, wire::Kind kKind, class Convert>
Tensor read_numbers(const ValueType& type, const Shape& shape, Message m, Convert convert) {
  // Counted first: memory is taken for what is there, not for what a type claims.
  size_t count = 0, wanted = static_cast<size_t>(rlx::element_count(shape));
  each_field(m, [&](const Field& f) {
    if (f.number == 1) f.each_number<kKind>([&](uint64_t) { ++count; });
  });
  if (count != wanted)
    fail(ErrorCode::parse, "a literal of type ", type, " has ", count, " elements instead of ", wanted);
  Tensor tensor = Tensor::uninitialized(rlx::dtype_of<T>(), shape);
  T* to = tensor.mutable_values<T>().data();
  each_field(m, [&](const Field& f) {
    if (f.number == 1) f.each_number<kKind>([&](uint64_t v) { *to++ = convert(v); });
  });
  return tensor;
}

Tensor read_bytes(const ValueType& type, DType dtype, const Shape& shape, Message m) {
  std::string_view bytes;
  each_field(m, [&](const Field& f) {
    if (f.number == 1) bytes = f.bytes_value();
  });
  uint64_t wanted =
      (static_cast<uint64_t>(rlx::element_count(shape)) * static_cast<uint64_t>(info(dtype).bits) + 7) / 8;
  if (bytes.size() != wanted)
    fail(ErrorCode::parse, "a literal of type ", type, " has ", bytes.size(), " bytes instead of ", wanted);
  Tensor tensor(dtype, shape);
  if (!bytes.empty()) std::memcpy(tensor.mutable_data(), bytes.data(), bytes.size());
  return tensor;
}

std::variant<Tensor, std::vector<std::string>> read_tensor(const ValueType& type, Message m) {
  auto shape = type.shape();
  if (!shape) fail(ErrorCode::parse, "a literal of type ", type, " has dims that are not known");
  int64_t count = rlx::element_count(*shape);
  std::optional<Field> held;
  each_field(m, [&](const Field& f) {
    if (f.number >= 1 && f.number <= 7) held = f;
  });
  if (type.dtype == DataType::string) {
    std::vector<std::string> strings;
    if (held && held->number == 4)
      each_field(held->message(), [&](const Field& f) {
        if (f.number == 1) strings.push_back(f.text());
      });
    if (static_cast<int64_t>(strings.size()) != count)
      fail(ErrorCode::parse, "a literal of type ", type, " has ", strings.size(), " strings");
    return strings;
  }
  auto dtype = dtype_of(type.dtype);
  if (!dtype) fail(ErrorCode::parse, "a literal is of ", name_of(type.dtype), ", which is not known");
  if (!held) {
    if (count != 0) fail(ErrorCode::parse, "a literal of type ", type, " has no elements");
    return Tensor(*dtype, *shape);
  }
  // Apple's writer keeps unsigned 32-bit integers as bytes; their field would be that of the signed ones.
  if (held->number != field_of(*dtype) && held->number != 7 && !(*dtype == u32 && held->number == 2) && count != 0)
    fail(ErrorCode::parse, "a literal of type ", type, " holds its data in the field of another type");
  if (count == 0) return Tensor(*dtype, *shape);
  Message data = held->message();
  using wire::Kind;
  if (held->number == 7) {
    if (*dtype == rlx::boolean) fail(ErrorCode::parse, "a literal of type ", type, " holds its data as bytes");
    return read_bytes(type, *dtype, *shape, data);
  }
  switch (*dtype) {
    case f32:
      return read_numbers<float, Kind::fixed32>(
          type, *shape, data, [](uint64_t v) { return std::bit_cast<float>(static_cast<uint32_t>(v)); });
    case f64:
      return read_numbers<double, Kind::fixed64>(type, *shape, data,
                                                 [](uint64_t v) { return std::bit_cast<double>(v); });
    case rlx::boolean: return read_numbers<bool, Kind::varint>(type, *shape, data, [](uint64_t v) { return v != 0; });
    case i16:
      return read_numbers<int16_t, Kind::varint>(type, *shape, data,
                                                 [](uint64_t v) { return static_cast<int16_t>(v); });
    case u16:
      return read_numbers<uint16_t, Kind::varint>(type, *shape, data,
                                                  [](uint64_t v) { return static_cast<uint16_t>(v); });
    case i32:
      return read_numbers<int32_t, Kind::varint>(type, *shape, data,
                                                 [](uint64_t v) { return static_cast<int32_t>(v); });
    case u32:
      return read_numbers<uint32_t, Kind::varint>(type, *shape, data,
                                                  [](uint64_t v) { return static_cast<uint32_t>(v); });
    case i64:
      return read_numbers<int64_t, Kind::varint>(type, *shape, data,
                                                 [](uint64_t v) { return static_cast<int64_t>(v); });
    case u64: return read_numbers<uint64_t, Kind::varint>(type, *shape, data, [](uint64_t v) { return v; });
    default: fail(ErrorCode::parse, "a literal of type ", type, " holds its data in the field of another type");
  }
}

Value read_value(Message m);

std::vector<Value> read_all_values(Message m) {
  std::vector<Value> all;
  each_field(m, [&](const Field& f) {
    if (f.number == 1) all.push_back(read_value(f.message()));
  });
  return all;
}

void read_immediate(Value& value, Message m) {
  using Kind = ValueType::Kind;
  bool found = false;
  each_field(m, [&](const Field& f) {
    if (f.number < 1 || f.number > 4) return;
    constexpr Kind kKinds[] = {Kind::tensor, Kind::tuple, Kind::list, Kind::dictionary};
    if (value.type.kind != kKinds[f.number - 1])
      fail(ErrorCode::parse, "a literal of type ", value.type, " holds a value of another type");
    found = true;
    if (f.number == 1) {
      std::visit([&](auto&& data) { value.data = std::move(data); }, read_tensor(value.type, f.message()));
    } else if (f.number == 4) {
      Value::Dictionary pairs;
      each_field(f.message(), [&](const Field& pair) {
        if (pair.number != 1) return;
        std::optional<Value> key, held;
        each_field(pair.message(), [&](const Field& half) {
          if (half.number == 1) key = read_value(half.message());
          else if (half.number == 2) held = read_value(half.message());
        });
        if (!key || !held) fail(ErrorCode::parse, "a literal of type ", value.type, " has a pair without key or value");
        pairs.emplace_back(std::move(*key), std::move(*held));
      });
      value.data = std::move(pairs);
    } else {
      value.data = read_all_values(f.message());
    }
  });
  if (!found) fail(ErrorCode::parse, "a literal of type ", value.type, " has no value");
}

Value read_value(Message m) {
  Value value;
  std::optional<Field> type, immediate, blob;
  each_field(m, [&](const Field& f) {
    if (f.number == 1) value.doc = f.text();
    else if (f.number == 2) type = f;
    else if (f.number == 3) immediate = f;
    else if (f.number == 5) blob = f;
  });
  if (!type) fail(ErrorCode::parse, "a literal has no type");
  value.type = read_type(type->message());
  if (blob) {
    if (value.type.kind != ValueType::Kind::tensor)
      fail(ErrorCode::parse, "a literal of type ", value.type, " stands in a file of weights");
    BlobRef ref{"", 0};
    each_field(blob->message(), [&](const Field& f) {
      if (f.number == 1) ref.file = f.text();
      else if (f.number == 2) ref.offset = f.number_value();
    });
    value.data = std::move(ref);
  } else if (immediate) {
    read_immediate(value, immediate->message());
  } else {
    fail(ErrorCode::parse, "a literal of type ", value.type, " has no value");
  }
  return value;
}

// ---- programs ----

/// An entry of a map: `read(name, message)`.
template <class Read>
void read_entry(const Field& entry, Read read) {
  std::string key;
  std::optional<Field> value;
  each_field(entry.message(), [&](const Field& f) {
    if (f.number == 1) key = f.text();
    else if (f.number == 2) value = f;
  });
  read(std::move(key), value ? value->message() : Message(std::string_view()));
}

void read_attribute(Values& values, const Field& entry) {
  read_entry(entry, [&](std::string name, Message m) { values.insert_or_assign(std::move(name), read_value(m)); });
}

NamedType read_named_type(Message m) {
  NamedType named;
  std::optional<Field> type;
  each_field(m, [&](const Field& f) {
    if (f.number == 1) named.name = f.text();
    else if (f.number == 2) type = f;
  });
  if (!type) fail(ErrorCode::parse, quoted_name(named.name), " has no type");
  named.type = read_type(type->message());
  return named;
}

Argument read_argument(Message m) {
  Argument bindings;
  each_field(m, [&](const Field& f) {
    if (f.number != 1) return;
    std::optional<Binding> binding;
    each_field(f.message(), [&](const Field& inner) {
      if (inner.number == 1) binding = inner.text();
      else if (inner.number == 2) binding = read_value(inner.message());
    });
    if (!binding) fail(ErrorCode::parse, "an argument is neither a name nor a literal");
    bindings.push_back(std::move(*binding));
  });
  return bindings;
}

Block read_block(Message m);

Operation read_operation(Message m) {
  Operation op;
  // The type comes first in Apple's files, and names the operation in what goes wrong behind it.
  auto doing = [&] {
    auto name = op.attributes.find("name");
    const std::string* text = name == op.attributes.end() ? nullptr : name->second.text();
    return text_of("reading the operation ", quoted_name(op.type), text ? ", " + quoted_name(*text) : "");
  };
  with_context(doing, [&] {
    each_field(m, [&](const Field& f) {
      switch (f.number) {
        case 1: op.type = f.text(); break;
        case 2:
          read_entry(f, [&](std::string name, Message argument) {
            op.inputs.insert_or_assign(std::move(name), read_argument(argument));
          });
          break;
        case 3: op.outputs.push_back(read_named_type(f.message())); break;
        case 4: op.blocks.push_back(read_block(f.message())); break;
        case 5: read_attribute(op.attributes, f); break;
        default: break;
      }
    });
  });
  return op;
}

Block read_block(Message m) {
  Block block;
  each_field(m, [&](const Field& f) {
    switch (f.number) {
      case 1: block.inputs.push_back(read_named_type(f.message())); break;
      case 2: block.outputs.push_back(f.text()); break;
      case 3: block.operations.push_back(read_operation(f.message())); break;
      case 4: read_attribute(block.attributes, f); break;
      default: break;
    }
  });
  return block;
}

Function read_function(Message m) {
  Function function;
  each_field(m, [&](const Field& f) {
    switch (f.number) {
      case 1: function.inputs.push_back(read_named_type(f.message())); break;
      case 2: function.opset = f.text(); break;
      case 3:
        read_entry(f, [&](std::string opset, Message block) {
          function.blocks.insert_or_assign(std::move(opset), read_block(block));
        });
        break;
      case 4: read_attribute(function.attributes, f); break;
      default: break;
    }
  });
  return function;
}

Program read_program(Message m) {
  Program program{.version = 0};
  each_field(m, [&](const Field& f) {
    switch (f.number) {
      case 1: program.version = static_cast<int64_t>(f.number_value()); break;
      case 2:
        read_entry(f, [&](const std::string& name, Message function) {
          with_context([&] { return "reading the function " + quoted_name(name); },
                       [&] { program.functions.insert_or_assign(name, read_function(function)); });
        });
        break;
      case 3: program.doc = f.text(); break;
      case 4: read_attribute(program.attributes, f); break;
      default: break;
    }
  });
  return program;
}

// ---- descriptions ----

Feature::Range read_range(Message m) {
  Feature::Range range;
  int64_t upper = 0;
  each_field(m, [&](const Field& f) {
    if (f.number == 1) range.lower = extent_of(f.number_value());
    else if (f.number == 2) upper = static_cast<int64_t>(f.number_value());
  });
  if (upper >= 0) range.upper = upper;
  return range;
}

Shape read_shape(Message m) {
  Shape shape;
  each_field(m, [&](const Field& f) {
    if (f.number == 1) f.each_number<wire::Kind::varint>([&](uint64_t v) { shape.push_back(static_cast<int64_t>(v)); });
  });
  return shape;
}

std::optional<DType> array_dtype(uint64_t code) {
  switch (code) {
    case 65568: return f32;
    case 65600: return f64;
    case 131104: return i32;
    case 131080: return i8;
    case 65552: return f16;
    default: return std::nullopt;
  }
}

void read_array(Feature& feature, Message m) {
  each_field(m, [&](const Field& f) {
    switch (f.number) {
      case 1:
        f.each_number<wire::Kind::varint>([&](uint64_t v) { feature.shape.push_back(static_cast<int64_t>(v)); });
        break;
      case 2: feature.dtype = array_dtype(f.number_value()); break;
      case 21:
        each_field(f.message(), [&](const Field& shape) {
          if (shape.number == 1) feature.flexibility.shapes.push_back(read_shape(shape.message()));
        });
        break;
      case 31:
        each_field(f.message(), [&](const Field& range) {
          if (range.number == 1) feature.flexibility.ranges.push_back(read_range(range.message()));
        });
        break;
      case 41: feature.default_value = static_cast<int32_t>(f.number_value()); break;
      case 51: feature.default_value = std::bit_cast<float>(static_cast<uint32_t>(f.number_value())); break;
      case 61: feature.default_value = std::bit_cast<double>(f.number_value()); break;
      default: break;
    }
  });
}

void read_image(Feature& feature, Message m) {
  feature.shape = {0, 0};
  each_field(m, [&](const Field& f) {
    switch (f.number) {
      case 1: feature.shape[1] = static_cast<int64_t>(f.number_value()); break;
      case 2: feature.shape[0] = static_cast<int64_t>(f.number_value()); break;
      case 3: feature.color_space = static_cast<Feature::ColorSpace>(static_cast<int32_t>(f.number_value())); break;
      case 21:
        each_field(f.message(), [&](const Field& size) {
          if (size.number != 1) return;
          Shape extents(2);
          each_field(size.message(), [&](const Field& extent) {
            if (extent.number == 1) extents[1] = extent_of(extent.number_value());
            else if (extent.number == 2) extents[0] = extent_of(extent.number_value());
          });
          feature.flexibility.shapes.push_back(std::move(extents));
        });
        break;
      case 31:
        feature.flexibility.ranges.resize(2);
        each_field(f.message(), [&](const Field& range) {
          if (range.number == 1 || range.number == 2)
            feature.flexibility.ranges[range.number - 1] = read_range(range.message());
        });
        break;
      default: break;
    }
  });
}

void read_feature_type(Feature& feature, Message m) {
  using Kind = Feature::Kind;
  // Whether the keys, or the elements, are strings: which of two fields is there.
  auto strings_by = [&](const Field& f, uint32_t number) {
    each_field(f.message(), [&](const Field& inner) { feature.string_keys |= inner.number == number; });
  };
  each_field(m, [&](const Field& f) {
    switch (f.number) {
      case 1: feature.kind = Kind::int64; break;
      case 2: feature.kind = Kind::real64; break;
      case 3: feature.kind = Kind::string; break;
      case 4: feature.kind = Kind::image, read_image(feature, f.message()); break;
      case 5: feature.kind = Kind::array, read_array(feature, f.message()); break;
      case 6: feature.kind = Kind::dictionary, strings_by(f, 2); break;
      case 7: feature.kind = Kind::sequence, strings_by(f, 3); break;
      case 8:
        feature.kind = Kind::state;
        each_field(f.message(), [&](const Field& array) {
          if (array.number == 1) read_array(feature, array.message());
        });
        break;
      case 1000: feature.optional = f.number_value() != 0; break;
      default: break;
    }
  });
}

Feature read_feature(Message m) {
  Feature feature{.name = "", .kind = Feature::Kind::unknown};
  each_field(m, [&](const Field& f) {
    if (f.number == 1) feature.name = f.text();
    else if (f.number == 2) feature.doc = f.text();
    else if (f.number == 3) read_feature_type(feature, f.message());
  });
  return feature;
}

FunctionDescription read_function_description(Message m) {
  FunctionDescription d;
  each_field(m, [&](const Field& f) {
    switch (f.number) {
      case 1: d.name = f.text(); break;
      case 2: d.inputs.push_back(read_feature(f.message())); break;
      case 3: d.outputs.push_back(read_feature(f.message())); break;
      case 4: d.predicted_feature = f.text(); break;
      case 5: d.predicted_probabilities = f.text(); break;
      case 6: d.states.push_back(read_feature(f.message())); break;
      default: break;
    }
  });
  return d;
}

Metadata read_metadata(Message m) {
  Metadata d;
  each_field(m, [&](const Field& f) {
    switch (f.number) {
      case 1: d.description = f.text(); break;
      case 2: d.version = f.text(); break;
      case 3: d.author = f.text(); break;
      case 4: d.license = f.text(); break;
      case 100: {
        std::string key, value;
        each_field(f.message(), [&](const Field& half) {
          if (half.number == 1) key = half.text();
          else if (half.number == 2) value = half.text();
        });
        d.user.insert_or_assign(std::move(key), std::move(value));
        break;
      }
      default: break;
    }
  });
  return d;
}

void read_description(Model& model, Message m) {
  each_field(m, [&](const Field& f) {
    switch (f.number) {
      case 1: model.main.inputs.push_back(read_feature(f.message())); break;
      case 10: model.main.outputs.push_back(read_feature(f.message())); break;
      case 11: model.main.predicted_feature = f.text(); break;
      case 12: model.main.predicted_probabilities = f.text(); break;
      case 13: model.main.states.push_back(read_feature(f.message())); break;
      case 20: model.functions.push_back(read_function_description(f.message())); break;
      case 21: model.default_function = f.text(); break;
      case 100: model.metadata = read_metadata(f.message()); break;
      default: break;
    }
  });
}

/// Fails for a model that is no ML Program. `kind` is the number of its field in Model.proto, 0 if there is none.
[[noreturn]] void refuse_kind(uint32_t kind, int32_t specification_version) {
  static const std::map<uint32_t, const char*> kKinds = {{200, "a pipeline that classifies"},
                                                         {201, "a pipeline that gives numbers"},
                                                         {202, "a pipeline of models"},
                                                         {300, "a linear regression"},
                                                         {301, "a support vector regression"},
                                                         {302, "a regression by trees"},
                                                         {303, "a neural network that gives numbers"},
                                                         {304, "a Bayesian probit regression"},
                                                         {400, "a linear classifier"},
                                                         {401, "a support vector classifier"},
                                                         {402, "a classifier by trees"},
                                                         {403, "a neural network that classifies"},
                                                         {404, "a classifier by nearest neighbours"},
                                                         {500, "a neural network"},
                                                         {501, "a recommender"},
                                                         {555, "a model of custom code"},
                                                         {556, "a link to another model"},
                                                         {560, "a threshold of classes"},
                                                         {600, "a one-hot encoder"},
                                                         {601, "an imputer"},
                                                         {602, "a joiner of features"},
                                                         {603, "a vectorizer of dictionaries"},
                                                         {604, "a scaler"},
                                                         {606, "a mapping of categories"},
                                                         {607, "a normalizer"},
                                                         {609, "an extractor of elements"},
                                                         {610, "non-maximum suppression"},
                                                         {900, "the identity"},
                                                         {2000, "a classifier of texts of Create ML"},
                                                         {2001, "a tagger of words of Create ML"},
                                                         {2002, "a feature print of images of Apple's Vision"},
                                                         {2003, "a preprocessing of sounds of Apple's"},
                                                         {2004, "a gazetteer of Create ML"},
                                                         {2005, "a word embedding of Create ML"},
                                                         {2006, "a feature print of sounds of Apple's"},
                                                         {3000, "a model within a model"}};
  const auto found = kKinds.find(kind);
  const std::string what = found != kKinds.end() ? found->second
                           : kind                ? text_of("of kind ", kind)
                                                 : "of no kind: there is nothing in it";
  const bool is_network = kind == 303 || kind == 403 || kind == 500;
  const char* remedy = is_network                   ? "convert the network that it was made of anew, by coremltools: "
                                                      "ct.convert(model, convert_to=\"mlprogram\"), then save(\"X.mlpackage\")"
                       : kind >= 200 && kind <= 202 ? "load the models that it holds one by one, each as an ML Program"
                                                    : "only ML Programs are read, which coremltools makes of networks";
  fail(ErrorCode::unsupported, "the model is ", what, " (specification version ", specification_version,
       "), not an ML Program, which there are from version 6 on; ", remedy);
}

}  // namespace

Model decode_model(std::span<const std::byte> bytes) {
  if (bytes.size() > kModelByteLimit)
    fail(ErrorCode::parse, "a model has ", bytes.size(), " bytes; no message is larger than ", kModelByteLimit);
  Model model;
  std::optional<Field> program;
  uint32_t other = 0;
  each_field(Message(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())), [&](const Field& f) {
    if (f.number == 1) model.specification_version = static_cast<int32_t>(f.number_value());
    else if (f.number == 2) read_description(model, f.message());
    else if (f.number == 502) program = f;
    else if (f.number >= 200) other = f.number;
  });
  if (!program) refuse_kind(other, model.specification_version);
  model.program = read_program(program->message());
  return model;
}

}  // namespace rlx::mil
