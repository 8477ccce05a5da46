// Codes of element types, types as text, and what is found in a model by name; see the header.
#include "io/mil.h"

#include "io/names_in_messages.h"

namespace rlx::mil {
namespace {

struct Code {
  DataType code;
  DType dtype;
  std::string_view name;
};
constexpr Code kCodes[] = {
    {DataType::boolean, rlx::boolean, "bool"},
    {DataType::float16, f16, "fp16"},
    {DataType::float32, f32, "fp32"},
    {DataType::float64, f64, "fp64"},
    {DataType::bfloat16, bf16, "bf16"},
    {DataType::int8, i8, "int8"},
    {DataType::int16, i16, "int16"},
    {DataType::int32, i32, "int32"},
    {DataType::int64, i64, "int64"},
    {DataType::int4, i4, "int4"},
    {DataType::uint8, u8, "uint8"},
    {DataType::uint16, u16, "uint16"},
    {DataType::uint32, u32, "uint32"},
    {DataType::uint64, u64, "uint64"},
    {DataType::uint4, u4, "uint4"},
    {DataType::uint2, u2, "uint2"},
    {DataType::uint1, u1, "uint1"},
    {DataType::uint6, u6, "uint6"},
    {DataType::uint3, u3, "uint3"},
    {DataType::float8e4m3fn, f8e4m3fn, "fp8e4m3fn"},
    {DataType::float8e5m2, f8e5m2, "fp8e5m2"},
};

void print_dim(std::ostream& out, const Dimension& d) {
  if (d.size) out << *d.size;
  else out << (d.variadic ? "..." : "?");
}

}  // namespace

std::optional<DType> dtype_of(DataType code) {
  for (const Code& row : kCodes)
    if (row.code == code) return row.dtype;
  return std::nullopt;
}

DataType data_type_of(DType dtype) {
  for (const Code& row : kCodes)
    if (row.dtype == dtype) return row.code;
  return DataType::unknown;
}

std::string name_of(DataType code) {
  if (code == DataType::string) return "string";
  for (const Code& row : kCodes)
    if (row.code == code) return std::string(row.name);
  return text_of("element type ", static_cast<int32_t>(code));
}

ValueType ValueType::tensor(DataType dtype, const Shape& shape) {
  ValueType t{.kind = Kind::tensor, .dtype = dtype};
  for (int64_t extent : shape) t.dims.push_back({extent});
  return t;
}

ValueType ValueType::of(const Type& type) {
  ValueType t{.kind = Kind::tensor, .dtype = data_type_of(type.dtype)};
  for (const Dim& d : type.dims) t.dims.push_back(d.is_static() ? Dimension{d.value()} : Dimension{});
  return t;
}

std::optional<Shape> ValueType::shape() const {
  Shape shape;
  for (const Dimension& d : dims) {
    if (!d.size) return std::nullopt;
    shape.push_back(*d.size);
  }
  return shape;
}

std::ostream& operator<<(std::ostream& out, const ValueType& t) {
  auto all_inner = [&] {
    for (size_t i = 0; i < t.inner.size(); ++i) out << (i ? ", " : "") << t.inner[i];
  };
  switch (t.kind) {
    case ValueType::Kind::tensor:
      out << name_of(t.dtype) << "[";
      for (size_t i = 0; i < t.dims.size(); ++i) print_dim(out << (i ? ", " : ""), t.dims[i]);
      return out << "]";
    case ValueType::Kind::list:
      out << "list(";
      all_inner();
      if (t.length) print_dim(out << ", ", *t.length);
      return out << ")";
    case ValueType::Kind::tuple: out << "tuple("; break;
    case ValueType::Kind::dictionary: out << "dictionary("; break;
    case ValueType::Kind::state: out << "state("; break;
  }
  all_inner();
  return out << ")";
}

Value Value::of(Tensor tensor) {
  DataType code = data_type_of(tensor.dtype());
  if (code == DataType::unknown)
    fail(ErrorCode::unsupported, "an ML Program has no elements of ", tensor.dtype(), "; convert the tensor ",
         tensor.type(), " first");
  ValueType type = ValueType::tensor(code, tensor.shape());
  return {std::move(type), std::move(tensor)};
}

Value Value::of(std::string text) {
  return {ValueType::tensor(DataType::string, {}), std::vector<std::string>{std::move(text)}};
}

const std::string* Value::text() const {
  auto* strings = std::get_if<std::vector<std::string>>(&data);
  return strings && strings->size() == 1 ? &strings->front() : nullptr;
}

const Block& Function::body() const {
  auto found = blocks.find(opset);
  if (found != blocks.end()) return found->second;
  std::string list;
  for (const auto& [name, block] : blocks) list += (list.empty() ? "" : ", ") + quoted_name(name);
  fail(ErrorCode::parse, "the function is for opset ", quoted_name(opset), ", and has ",
       list.empty() ? "no body at all" : "bodies for " + list + " only", "; the model is damaged");
}

const FunctionDescription& Model::description_of(std::string_view function) const {
  if (functions.empty()) {
    if (function == default_function_name()) return main;
    fail(ErrorCode::not_found, "there is no function ", quoted_name(function), "; this model has one, ",
         quoted_name(default_function_name()));
  }
  std::vector<std::string_view> names;
  for (const FunctionDescription& f : functions) {
    if (f.name == function) return f;
    names.push_back(f.name);
  }
  fail(ErrorCode::not_found, "there is no function ", quoted_name(function), " among the ", names.size(),
       " of this model", nearest_names(function, names));
}

std::string_view Model::default_function_name() const {
  if (!default_function.empty()) return default_function;
  return functions.empty() ? std::string_view("main") : std::string_view(functions.front().name);
}

}  // namespace rlx::mil
