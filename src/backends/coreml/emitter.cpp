// Operations of an ML Program; see the header.
#include "backends/coreml/emitter.h"

#include "base/growth_limit.h"
#include "rlx/fields.h"

namespace rlx::coreml {
namespace {

constexpr size_t kSmall = 256;  // bytes of a constant that is looked for among those that are there already

}  // namespace

bool is_open(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; });
}

mil::ValueType type_of(const Var& v) {
  mil::ValueType type = mil::ValueType::tensor(mil::data_type_of(v.dtype), v.shape);
  for (mil::Dimension& d : type.dims)
    if (*d.size < 0) d.size.reset();
  return type;
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
  for (const Var& out : outputs) {
    ++uses_[out.name];
    block.outputs.push_back(out.name);
  }
  // Without what nothing reads: from the end on, so that what it alone read goes too.
  auto unread = [&](const mil::Operation& op) {
    if (op.outputs.empty() || !op.blocks.empty()) return false;
    for (const mil::NamedType& out : op.outputs)
      if (uses_[out.name] > 0) return false;
    for (const auto& [name, bindings] : op.inputs)
      for (const mil::Binding& b : bindings)
        if (const auto* read = std::get_if<std::string>(&b)) --uses_[*read];
    return true;
  };
  std::vector<mil::Operation>& all = block.operations;
  auto kept = std::remove_if(all.rbegin(), all.rend(), unread);
  all.erase(all.begin(), kept.base());
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

void Emitter::put(mil::Operation op) {
  GrowthLimit::count_node();
  scopes_.back().block.operations.push_back(std::move(op));
}

Var Emitter::emit_constant(mil::Value value, std::string_view hint, DType dtype, Shape shape) {
  Var var{fresh(hint), dtype, std::move(shape)};
  mil::Operation op;
  op.type = "const";
  op.outputs.push_back({var.name, value.type});
  op.attributes.emplace("name", mil::Value::of(var.name));
  op.attributes.emplace("val", std::move(value));
  put(std::move(op));
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

void Emitter::define(const std::string& symbol, const Var& input, size_t axis) {
  symbols_.emplace(symbol, Source{input, axis});
}

int64_t Emitter::extent(const Dim& dim) {
  if (dim.is_static()) return dim.value();
  dim.for_each_symbol([&](const std::string& symbol) {
    if (!symbols_.contains(symbol))
      fail(ErrorCode::unsupported, "the symbol ", symbol, " is no dim of an input, so a prediction does not tell it");
  });
  auto found = std::find(open_.begin(), open_.end(), dim);
  if (found == open_.end()) found = open_.insert(found, dim);
  return -1 - (found - open_.begin());
}

Dim Emitter::dim(int64_t extent) const {
  if (extent >= 0) return extent;
  const auto place = static_cast<size_t>(-1 - extent);
  if (place >= open_.size())
    fail(ErrorCode::internal, "an extent of ", extent, " stands for none of ", open_.size(), " open sizes");
  return open_[place];
}

Shape Emitter::carried(const Type& type) { return type.dims.empty() ? Shape{1} : extents(type.dims); }

Shape Emitter::extents(const Dims& dims) {
  Shape shape;
  for (const Dim& d : dims) shape.push_back(extent(d));
  return shape;
}

Shape Emitter::strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = product(strides[d], shape[d]);
  return strides;
}

int64_t Emitter::count(const Shape& shape) {
  if (!is_open(shape)) return element_count(shape);
  Dim all = 1;
  for (int64_t each : shape) all = all * dim(each);
  return extent(all);
}

template <class F>
Var Emitter::outside(F f) {
  std::vector<Scope> inner(std::make_move_iterator(scopes_.begin() + 1), std::make_move_iterator(scopes_.end()));
  scopes_.resize(1);
  Var made = f();
  scopes_.insert(scopes_.end(), std::make_move_iterator(inner.begin()), std::make_move_iterator(inner.end()));
  return made;
}

Var Emitter::once(const std::string& key, const std::function<Var()>& f) {
  if (auto found = once_.find(key); found != once_.end()) return found->second;
  return once_.emplace(key, outside(f)).first->second;
}

Var Emitter::symbol_size(const std::string& symbol) {
  if (auto found = sizes_.find(symbol); found != sizes_.end()) return found->second;
  const Source& source = symbols_.at(symbol);
  auto rank = static_cast<int64_t>(source.input.shape.size()), axis = static_cast<int64_t>(source.axis);
  Var shape = emit("shape", {{"x", source.input}}, i32, {rank});
  Var number = rank == 1 ? shape : slice(shape, {axis}, {axis + 1}, {1});
  return sizes_.emplace(symbol, number).first->second;
}

Var Emitter::size(int64_t extent) {
  if (extent >= 0) return integers({extent});
  std::string text = text_of(dim(extent));
  if (auto found = sizes_.find(text); found != sizes_.end()) return found->second;
  Var made = outside([&] {
    // The polynomial as it is printed: a sum of products of numbers and symbols.
    Scanner in(text);
    std::optional<Var> sum;
    do {
      std::optional<Var> product;
      do {
        char c = in.peek();
        bool number = c == '-' || (c >= '0' && c <= '9');
        Var factor = number ? integers({in.number<int64_t>()}) : symbol_size(std::string(in.word()));
        product = product ? mul(*product, factor) : factor;
      } while (in.accept("*"));
      sum = sum ? add(*sum, *product) : *product;
    } while (in.accept("+"));
    return *sum;
  });
  return sizes_.emplace(text, made).first->second;
}

Var Emitter::sizes(const Shape& shape) {
  if (!is_open(shape)) return integers(shape);
  std::vector<Var> parts;
  Shape known;
  auto flush = [&] {
    if (!known.empty()) parts.push_back(integers(known));
    known.clear();
  };
  for (int64_t extent : shape) {
    if (extent >= 0) {
      known.push_back(extent);
      continue;
    }
    flush();
    parts.push_back(size(extent));
  }
  flush();
  return concat(parts, 0);
}

Var Emitter::counting(int64_t extent) {
  if (extent < 0) {
    Var end = emit("squeeze", {{"x", size(extent)}, {"axes", integers({0})}}, i32, {});
    return emit("range_1d", {{"start", integer(0)}, {"end", end}, {"step", integer(1)}}, i32, {extent});
  }
  Tensor numbers(i32, {extent});
  for (size_t i = 0; i < numbers.element_count(); ++i) numbers.mutable_values<int32_t>()[i] = static_cast<int32_t>(i);
  return constant(numbers);
}

std::vector<Var> Emitter::emit_many(std::string_view type, const Arguments& arguments, std::vector<Var> results,
                                    std::vector<mil::Block> blocks) {
  mil::Operation op;
  op.type = type;
  for (const Argument& argument : arguments) {
    mil::Argument& bindings = op.inputs[std::string(argument.name)];
    for (const Var& v : argument.values) bindings.emplace_back(v.name), ++uses_[v.name];
  }
  for (Var& result : results) {
    if (result.name.empty()) result.name = fresh(type);
    op.outputs.push_back({result.name, type_of(result)});
  }
  op.blocks = std::move(blocks);
  op.attributes.emplace("name", mil::Value::of(results.at(0).name));
  put(std::move(op));
  return results;
}

Var Emitter::emit(std::string_view type, const Arguments& arguments, DType dtype, Shape shape) {
  return emit_many(type, arguments, {{"", dtype, std::move(shape)}})[0];
}

void Emitter::emit_effect(std::string_view type, const Arguments& arguments) {
  mil::Operation op;
  op.type = type;
  for (const Argument& argument : arguments)
    for (const Var& v : argument.values) op.inputs[std::string(argument.name)].emplace_back(v.name), ++uses_[v.name];
  op.attributes.emplace("name", mil::Value::of(fresh(type)));
  put(std::move(op));
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
  ++uses_[probabilities.name];
  op.inputs["classes"].emplace_back(std::move(list));
  op.outputs = {{label_name, text}, {probabilities_name, dictionary}};
  op.attributes.emplace("name", mil::Value::of(label_name));
  put(std::move(op));
}

Var Emitter::emit_literals(std::string_view type, const Literals& literals, DType dtype, Shape shape,
                           const Arguments& others) {
  mil::Operation op;
  op.type = type;
  for (const auto& [name, tensor] : literals) op.inputs[std::string(name)].emplace_back(mil::Value::of(tensor));
  for (const Argument& argument : others)
    for (const Var& v : argument.values) op.inputs[std::string(argument.name)].emplace_back(v.name), ++uses_[v.name];
  Var result{fresh(type), dtype, std::move(shape)};
  op.outputs.push_back({result.name, type_of(result)});
  op.attributes.emplace("name", mil::Value::of(result.name));
  put(std::move(op));
  return result;
}

Var Emitter::emit_attributes(std::string_view type, const Literals& attributes, DType dtype, Shape shape) {
  mil::Operation op;
  op.type = type;
  for (const auto& [name, tensor] : attributes) op.attributes.emplace(std::string(name), mil::Value::of(tensor));
  Var result{fresh(type), dtype, std::move(shape)};
  op.outputs.push_back({result.name, type_of(result)});
  op.attributes.emplace("name", mil::Value::of(result.name));
  put(std::move(op));
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
  if (auto found = widened_.find(x.name); found != widened_.end() && found->second.dtype == dtype) return found->second;
  std::string_view name = dtype == f16   ? "fp16"
                          : dtype == f32 ? "fp32"
                          : dtype == i32 ? "int32"
                          : dtype == i8  ? "int8"
                          : dtype == u8  ? "uint8"
                                         : "bool";
  Var to = emit("cast", {{"x", x}, {"dtype", text(name)}}, dtype, x.shape);
  if (dtype == i32 && (x.dtype == i8 || x.dtype == u8)) widened_.emplace(to.name, x);
  return to;
}
Var Emitter::log(const Var& x) { return emit("log", {{"x", x}, {"epsilon", number(x.dtype, 0)}}, x.dtype, x.shape); }

Var Emitter::matmul(const Var& x, const Var& y, bool transpose_x, bool transpose_y, Shape shape) {
  return emit("matmul", {{"x", x}, {"y", y}, {"transpose_x", flag(transpose_x)}, {"transpose_y", flag(transpose_y)}},
              x.dtype, std::move(shape));
}

Var Emitter::reshape(const Var& x, const Shape& shape) {
  if (x.shape == shape) return x;
  if (x.shape.empty()) return reshape(emit("expand_dims", {{"x", x}, {"axes", integers({0})}}, x.dtype, {1}), shape);
  // One extent that is open follows from the others.
  auto open = [](int64_t each) { return each < 0; };
  if (std::count_if(shape.begin(), shape.end(), open) > 1)
    return emit("reshape", {{"x", x}, {"shape", sizes(shape)}}, x.dtype, shape);
  Shape given = shape;
  std::replace_if(given.begin(), given.end(), open, -1);
  return emit("reshape", {{"x", x}, {"shape", integers(given)}}, x.dtype, shape);
}
Var Emitter::transpose(const Var& x, const Axes& permutation) {
  bool identity = true;
  Shape shape;
  for (size_t d = 0; d < permutation.size(); ++d) {
    identity &= permutation[d] == static_cast<int64_t>(d);
    shape.push_back(x.shape[static_cast<size_t>(permutation[d])]);
  }
  if (identity) return x;
  if (auto found = transposed_.find(x.name); found != transposed_.end()) {
    const auto& [from, first] = found->second;
    Axes both;
    for (int64_t d : permutation) both.push_back(first[static_cast<size_t>(d)]);
    return transpose(from, both);
  }
  Var to = emit("transpose", {{"x", x}, {"perm", integers(permutation)}}, x.dtype, std::move(shape));
  transposed_.emplace(to.name, std::pair(x, permutation));
  return to;
}
Var Emitter::broadcast(const Var& x, const Shape& shape) {
  if (x.shape == shape) return x;
  Shape repeats;
  for (size_t d = 0; d < shape.size(); ++d)
    repeats.push_back(shape[d] == x.shape[d] ? 1 : x.shape[d] == 1 ? shape[d] : shape[d] / x.shape[d]);
  return emit("tile", {{"x", x}, {"reps", sizes(repeats)}}, x.dtype, shape);
}
Var Emitter::concat(const std::vector<Var>& xs, int64_t axis) {
  if (xs.size() == 1) return xs[0];
  Shape shape = xs[0].shape;
  Dim along = 0;
  for (const Var& x : xs) along = along + dim(x.shape[static_cast<size_t>(axis)]);
  shape[static_cast<size_t>(axis)] = extent(along);
  return emit("concat", {{"values", xs}, {"axis", integer(axis)}, {"interleave", flag(false)}}, xs[0].dtype, shape);
}
Var Emitter::slice(const Var& x, const Shape& starts, const Shape& limits, const Axes& strides) {
  Shape shape;
  bool whole = true;
  for (size_t d = 0; d < starts.size(); ++d) {
    bool open = limits[d] < 0 || starts[d] < 0;
    if (open && strides[d] != 1)
      fail(ErrorCode::unsupported, "a slice with steps of an extent that a prediction decides");
    shape.push_back(open ? extent(dim(limits[d]) - dim(starts[d]))
                         : (limits[d] - starts[d] + strides[d] - 1) / strides[d]);
    whole &= starts[d] == 0 && limits[d] == x.shape[d] && strides[d] == 1;
  }
  if (whole) return x;
  return emit("slice_by_index",
              {{"x", x}, {"begin", sizes(starts)}, {"end", sizes(limits)}, {"stride", integers(strides)}}, x.dtype,
              shape);
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
