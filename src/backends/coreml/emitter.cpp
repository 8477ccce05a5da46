// Operations of an ML Program; see the header.
#include "backends/coreml/emitter.h"

namespace rlx::coreml {
namespace {

mil::ValueType type_of(const Var& v) { return mil::ValueType::tensor(mil::data_type_of(v.dtype), v.shape); }

constexpr size_t kSmall = 256;  // bytes of a constant that is looked for among those that are there already

}  // namespace

Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (const Shape* s : {&a, &b})
    for (size_t d = 0; d < s->size(); ++d) {
      int64_t& extent = result[result.size() - s->size() + d];
      if ((*s)[d] != 1) extent = (*s)[d];
    }
  return result;
}

void Emitter::begin_block(std::vector<Var> inputs) {
  scopes_.emplace_back();
  for (const Var& in : inputs) scopes_.back().block.inputs.push_back({in.name, type_of(in)});
}

mil::Block Emitter::end_block(const std::vector<Var>& outputs) {
  mil::Block block = std::move(scopes_.back().block);
  scopes_.pop_back();
  for (const Var& out : outputs) block.outputs.push_back(out.name);
  return block;
}

std::string Emitter::fresh(std::string_view hint) {
  std::string name;
  for (char c : hint) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_', digit = c >= '0' && c <= '9';
    if (digit && name.empty()) name = "_";
    name += letter || digit ? c : '_';
  }
  if (name.empty()) name = "value";
  std::string candidate = name;
  while (!names_.insert(candidate).second) candidate = text_of(name, "_", counts_[name]++);
  return candidate;
}

Var Emitter::emit_constant(mil::Value value, std::string_view hint, DType dtype, Shape shape) {
  Var var{fresh(hint), dtype, std::move(shape)};
  mil::Operation op;
  op.type = "const";
  op.outputs.push_back({var.name, value.type});
  op.attributes.emplace("name", mil::Value::of(var.name));
  op.attributes.emplace("val", std::move(value));
  scopes_.back().block.operations.push_back(std::move(op));
  return var;
}

Var Emitter::constant(const Tensor& value) {
  std::string key;
  if (value.byte_count() <= kSmall) {
    key = text_of(value.type(), ":");
    key.append(reinterpret_cast<const char*>(value.data()), value.byte_count());
    for (const Scope& scope : scopes_)
      if (auto found = scope.constants.find(key); found != scope.constants.end()) return found->second;
  }
  Var var = emit_constant(mil::Value::of(value), "c", value.dtype(), value.shape());
  if (!key.empty()) scopes_.back().constants.emplace(std::move(key), var);
  return var;
}

Var Emitter::integers(const Shape& values) {
  std::vector<int32_t> narrow;
  for (int64_t v : values) narrow.push_back(static_cast<int32_t>(v));
  return constant(Tensor::of<int32_t>({static_cast<int64_t>(narrow.size())}, narrow));
}

Var Emitter::text(std::string_view value) {
  std::string key = text_of("text:", value);
  for (const Scope& scope : scopes_)
    if (auto found = scope.constants.find(key); found != scope.constants.end()) return found->second;
  Var var = emit_constant(mil::Value::of(std::string(value)), "t", boolean, {});
  scopes_.back().constants.emplace(std::move(key), var);
  return var;
}

std::vector<Var> Emitter::emit_many(std::string_view type, const Arguments& arguments, std::vector<Var> results,
                                    std::vector<mil::Block> blocks) {
  mil::Operation op;
  op.type = type;
  for (const Argument& argument : arguments) {
    mil::Argument& bindings = op.inputs[std::string(argument.name)];
    for (const Var& v : argument.values) bindings.emplace_back(v.name);
  }
  for (Var& result : results) {
    if (result.name.empty()) result.name = fresh(type);
    op.outputs.push_back({result.name, type_of(result)});
  }
  op.blocks = std::move(blocks);
  op.attributes.emplace("name", mil::Value::of(results.at(0).name));
  scopes_.back().block.operations.push_back(std::move(op));
  return results;
}

Var Emitter::emit(std::string_view type, const Arguments& arguments, DType dtype, Shape shape) {
  return emit_many(type, arguments, {{"", dtype, std::move(shape)}})[0];
}

void Emitter::emit_effect(std::string_view type, const Arguments& arguments) {
  mil::Operation op;
  op.type = type;
  for (const Argument& argument : arguments)
    for (const Var& v : argument.values) op.inputs[std::string(argument.name)].emplace_back(v.name);
  op.attributes.emplace("name", mil::Value::of(fresh(type)));
  scopes_.back().block.operations.push_back(std::move(op));
}

void Emitter::classify(const Var& probabilities, const std::vector<std::string>& labels, const std::string& label_name,
                       const std::string& probabilities_name) {
  mil::ValueType text = mil::ValueType::tensor(mil::DataType::string, {});
  mil::Value list;
  list.type.kind = mil::ValueType::Kind::list;
  list.type.inner = {text};
  list.type.length = mil::Dimension{static_cast<int64_t>(labels.size())};
  std::vector<mil::Value> values;
  for (const std::string& label : labels) values.push_back(mil::Value::of(label));
  list.data = std::move(values);
  mil::ValueType dictionary;
  dictionary.kind = mil::ValueType::Kind::dictionary;
  dictionary.inner = {text, mil::ValueType::tensor(mil::DataType::float64, {})};
  mil::Operation op;
  op.type = "classify";
  op.inputs["probabilities"].emplace_back(probabilities.name);
  op.inputs["classes"].emplace_back(std::move(list));
  op.outputs = {{label_name, text}, {probabilities_name, dictionary}};
  op.attributes.emplace("name", mil::Value::of(label_name));
  scopes_.back().block.operations.push_back(std::move(op));
}

Var Emitter::emit_literals(std::string_view type, const std::vector<std::pair<std::string_view, Tensor>>& literals,
                           DType dtype, Shape shape) {
  mil::Operation op;
  op.type = type;
  for (const auto& [name, tensor] : literals) op.inputs[std::string(name)].emplace_back(mil::Value::of(tensor));
  Var result{fresh(type), dtype, std::move(shape)};
  op.outputs.push_back({result.name, type_of(result)});
  op.attributes.emplace("name", mil::Value::of(result.name));
  scopes_.back().block.operations.push_back(std::move(op));
  return result;
}

Var Emitter::binary(std::string_view type, const Var& x, const Var& y) {
  return emit(type, {{"x", x}, {"y", y}}, x.dtype, broadcast_shape(x.shape, y.shape));
}
Var Emitter::test(std::string_view type, const Var& x, const Var& y) {
  return emit(type, {{"x", x}, {"y", y}}, boolean, broadcast_shape(x.shape, y.shape));
}
Var Emitter::select(const Var& condition, const Var& on_true, const Var& on_false) {
  Shape shape = broadcast_shape(condition.shape, broadcast_shape(on_true.shape, on_false.shape));
  // Its operands have one shape: those of fewer elements are stretched.
  auto whole = [&](const Var& v) {
    if (v.shape == shape) return v;
    Shape padded = v.shape;
    padded.insert(padded.begin(), shape.size() - padded.size(), 1);
    Var reshaped = v.shape == padded ? v : v.shape.empty() ? filled(v, 1) : reshape(v, padded);
    if (reshaped.shape != padded) reshaped = reshape(reshaped, padded);
    return broadcast(reshaped, shape);
  };
  return emit("select", {{"cond", whole(condition)}, {"a", whole(on_true)}, {"b", whole(on_false)}}, on_true.dtype,
              shape);
}
Var Emitter::clamp(const Var& x, double low, double high) {
  return binary("minimum", binary("maximum", x, number(x.dtype, low)), number(x.dtype, high));
}
Var Emitter::cast(const Var& x, DType dtype) {
  if (x.dtype == dtype) return x;
  std::string_view name = dtype == f16 ? "fp16" : dtype == f32 ? "fp32" : dtype == i32 ? "int32" : "bool";
  return emit("cast", {{"x", x}, {"dtype", text(name)}}, dtype, x.shape);
}
Var Emitter::log(const Var& x) { return emit("log", {{"x", x}, {"epsilon", number(x.dtype, 0)}}, x.dtype, x.shape); }

Var Emitter::reshape(const Var& x, const Shape& shape) {
  if (x.shape == shape) return x;
  if (x.shape.empty()) return reshape(emit("expand_dims", {{"x", x}, {"axes", integers({0})}}, x.dtype, {1}), shape);
  return emit("reshape", {{"x", x}, {"shape", integers(shape)}}, x.dtype, shape);
}
Var Emitter::transpose(const Var& x, const Axes& permutation) {
  bool identity = true;
  Shape shape;
  for (size_t d = 0; d < permutation.size(); ++d) {
    identity &= permutation[d] == static_cast<int64_t>(d);
    shape.push_back(x.shape[static_cast<size_t>(permutation[d])]);
  }
  if (identity) return x;
  return emit("transpose", {{"x", x}, {"perm", integers(permutation)}}, x.dtype, std::move(shape));
}
Var Emitter::broadcast(const Var& x, const Shape& shape) {
  if (x.shape == shape) return x;
  Shape repeats;
  for (size_t d = 0; d < shape.size(); ++d) repeats.push_back(shape[d] / x.shape[d]);
  return emit("tile", {{"x", x}, {"reps", integers(repeats)}}, x.dtype, shape);
}
Var Emitter::concat(const std::vector<Var>& xs, int64_t axis) {
  if (xs.size() == 1) return xs[0];
  Shape shape = xs[0].shape;
  shape[static_cast<size_t>(axis)] = 0;
  for (const Var& x : xs) shape[static_cast<size_t>(axis)] += x.shape[static_cast<size_t>(axis)];
  return emit("concat", {{"values", xs}, {"axis", integer(axis)}, {"interleave", flag(false)}}, xs[0].dtype, shape);
}
Var Emitter::slice(const Var& x, const Shape& starts, const Shape& limits, const Axes& strides) {
  Shape shape;
  bool whole = true;
  for (size_t d = 0; d < starts.size(); ++d) {
    shape.push_back((limits[d] - starts[d] + strides[d] - 1) / strides[d]);
    whole &= starts[d] == 0 && limits[d] == x.shape[d] && strides[d] == 1;
  }
  if (whole) return x;
  return emit("slice_by_index",
              {{"x", x}, {"begin", integers(starts)}, {"end", integers(limits)}, {"stride", integers(strides)}},
              x.dtype, shape);
}
Var Emitter::filled(const Var& scalar, int64_t count) { return broadcast(reshape(scalar, {1}), {count}); }
Var Emitter::gather_flat(const Var& x, const Var& indices) {
  if (x.dtype == boolean) return cast(gather_flat(cast(x, i32), indices), boolean);
  return emit("gather", {{"x", x}, {"indices", indices}, {"axis", integer(0)}}, x.dtype, indices.shape);
}
Var Emitter::scatter_flat(const Var& x, const Var& indices, const Var& updates, std::string_view mode) {
  if (x.dtype == boolean) return cast(scatter_flat(cast(x, i32), indices, cast(updates, i32), mode), boolean);
  return emit("scatter",
              {{"data", x}, {"indices", indices}, {"updates", updates}, {"axis", integer(0)}, {"mode", text(mode)}},
              x.dtype, x.shape);
}
Var Emitter::reduce(std::string_view type, const Var& x, const Axes& axes, bool keep_dims) {
  Shape kept, dropped;
  for (size_t d = 0; d < x.shape.size(); ++d) {
    bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    kept.push_back(reduced ? 1 : x.shape[d]);
    if (!reduced) dropped.push_back(x.shape[d]);
  }
  // A reduction of all dims keeps them and is reshaped: the operation would give rank 0.
  bool keep = keep_dims || dropped.empty();
  Var r = emit(type, {{"x", x}, {"axes", integers(axes)}, {"keep_dims", flag(keep)}}, x.dtype, keep ? kept : dropped);
  return keep_dims || !dropped.empty() ? r : reshape(r, {1});
}
Var Emitter::pad(const Var& x, const Shape& low, const Shape& high, const Var& value) {
  Var padded = x;
  for (size_t d = 0; d < low.size(); ++d) {
    auto piece = [&](int64_t extent) {
      Shape shape = padded.shape;
      shape[d] = extent;
      return broadcast(reshape(value, Shape(shape.size(), 1)), shape);
    };
    std::vector<Var> parts;
    if (low[d] > 0) parts.push_back(piece(low[d]));
    parts.push_back(padded);
    if (high[d] > 0) parts.push_back(piece(high[d]));
    padded = concat(parts, static_cast<int64_t>(d));
  }
  return padded;
}

}  // namespace rlx::coreml
