// Writes the operations of an ML Program, one after another, into blocks that nest. It knows names, constants and the
// shapes of what it emits; which operations stand for an op of ours is the lowerings' business.
#pragma once

#include <functional>
#include <set>

#include "io/mil.h"
#include "rlx/element.h"

namespace rlx::coreml {

/// A value of the program that is being written.
struct Var {
  std::string name;
  DType dtype = f32;  ///< f16, f32, i32 or boolean, what programs compute with; i8 or u8 of codes
  /// Of rank 0 only for parameters and literal scalars; a graph's scalars are carried as [1]. An extent below 0 is
  /// open: a prediction decides it, and it stands for the dim that `Emitter::dim` gives. Equal ones are equal dims.
  Shape shape = {};
};
/// Whether a prediction decides an extent of the shape.
bool is_open(const Shape& shape);
/// The type that a program declares for it; open extents are unknown.
mil::ValueType type_of(const Var& v);

/// An argument by the name that the operation gives it: one value, or several of a variadic one.
struct Argument {
  std::string_view name;
  std::vector<Var> values;
  Argument(std::string_view n, Var value) : name(n), values{std::move(value)} {}
  Argument(std::string_view n, std::vector<Var> all) : name(n), values(std::move(all)) {}
};
using Arguments = std::vector<Argument>;

class Emitter {
 public:
  /// `opset` is 5 to 8: CoreML5 (iOS 15) to CoreML8 (iOS 18).
  explicit Emitter(int opset) : opset_(opset) { begin_block(); }
  int opset() const { return opset_; }

  // ---- blocks ----
  void begin_block(std::vector<Var> inputs = {});
  /// What was emitted since `begin_block`, with these results, as far as anything reads it.
  mil::Block end_block(const std::vector<Var>& outputs);
  /// A name that nothing has yet: `hint` with what is no letter, digit or '_' replaced, and a number behind it if
  /// needed.
  std::string fresh(std::string_view hint);

  // ---- constants ----
  /// A constant in one of the dtypes that programs compute with. Equal small ones are emitted once a block.
  Var constant(const Tensor& value);
  Var number(DType dtype, double value) { return constant(full(dtype, {}, value)); }
  /// What a norm adds to a variance: of f16 the least number that it has, where it would be 0.
  Var epsilon(DType dtype, double value) { return number(dtype, dtype == f16 ? std::max(value, 0x1p-24) : value); }
  Var integer(int64_t value) { return number(i32, static_cast<double>(value)); }
  Var integers(const Shape& values);
  Var flag(bool value) { return constant(Tensor::scalar(value)); }
  Var text(std::string_view value);

  // ---- extents ----
  /// Where the number of a symbol is found: an input's extent along an axis. The first one counts.
  void define(const std::string& symbol, const Var& input, size_t axis);
  /// The extent that stands for a dim in shapes here. Fails for a symbol that is not defined.
  int64_t extent(const Dim& dim);
  Dim dim(int64_t extent) const;
  /// The shape in which a value of that type is carried: [1] for a scalar.
  Shape carried(const Type& type);
  Shape extents(const Dims& dims);
  /// Of extents that may be open.
  int64_t product(int64_t a, int64_t b) { return extent(dim(a) * dim(b)); }
  int64_t sum(int64_t a, int64_t b) { return extent(dim(a) + dim(b)); }
  int64_t difference(int64_t a, int64_t b) { return extent(dim(a) - dim(b)); }
  /// Elements of a shape: an extent itself.
  int64_t count(const Shape& shape);
  /// Row-major strides of a shape, extents too.
  Shape strides(const Shape& shape);
  /// An extent's number, i32 [1]: a constant, or computed.
  Var size(int64_t extent);
  /// The numbers of all, i32 [n].
  Var sizes(const Shape& shape);
  /// 0, 1, ... below an extent, i32 [extent].
  Var counting(int64_t extent);

  /// What `f` emits, in the outermost block, and once for all that ask with that key: it may read nothing but constants
  /// and extents.
  Var once(const std::string& key, const std::function<Var()>& f);

  // ---- operations ----
  Var emit(std::string_view type, const Arguments& arguments, DType dtype, Shape shape);
  std::vector<Var> emit_many(std::string_view type, const Arguments& arguments, std::vector<Var> results,
                             std::vector<mil::Block> blocks = {});

  /// An operation without results: what is written to a state.
  void emit_effect(std::string_view type, const Arguments& arguments);
  /// The label with the greatest probability, by its name in the program, and all probabilities by label.
  void classify(const Var& probabilities, const std::vector<std::string>& labels, const std::string& label_name,
                const std::string& probabilities_name);
  using Literals = std::vector<std::pair<std::string_view, Tensor>>;
  /// An operation whose arguments are literals, or what another such one gives: a constexpr of iOS 18.
  Var emit_literals(std::string_view type, const Literals& literals, DType dtype, Shape shape,
                    const Arguments& others = {});
  /// An operation whose arguments are attributes: a constexpr of iOS 16.
  Var emit_attributes(std::string_view type, const Literals& attributes, DType dtype, Shape shape);

  // Element-wise, of operands that broadcast.
  Var unary(std::string_view type, const Var& x) { return emit(type, {{"x", x}}, x.dtype, x.shape); }
  Var binary(std::string_view type, const Var& x, const Var& y);
  /// A comparison or a logical op: the result is boolean.
  Var test(std::string_view type, const Var& x, const Var& y);
  Var add(const Var& x, const Var& y) { return binary("add", x, y); }
  Var sub(const Var& x, const Var& y) { return binary("sub", x, y); }
  Var mul(const Var& x, const Var& y) { return binary("mul", x, y); }
  Var add(const Var& x, double y) { return add(x, number(x.dtype, y)); }
  Var sub(const Var& x, double y) { return sub(x, number(x.dtype, y)); }
  Var mul(const Var& x, double y) { return mul(x, number(x.dtype, y)); }
  Var test(std::string_view type, const Var& x, double y) { return test(type, x, number(x.dtype, y)); }
  Var both(const Var& x, const Var& y) { return test("logical_and", x, y); }
  Var either(const Var& x, const Var& y) { return test("logical_or", x, y); }
  Var negated(const Var& x) { return emit("logical_not", {{"x", x}}, boolean, x.shape); }
  Var select(const Var& condition, const Var& on_true, const Var& on_false);
  /// min(max(x, low), high)
  Var clamp(const Var& x, double low, double high);
  /// The same of places, from 0 to the last one.
  Var clamp(const Var& places, const Var& last) {
    return binary("minimum", binary("maximum", places, integer(0)), last);
  }
  /// x itself if it has that dtype.
  Var cast(const Var& x, DType dtype);
  Var log(const Var& x);  ///< without the epsilon that the operation adds by default
  /// The product of matrices, whose batches broadcast.
  Var matmul(const Var& x, const Var& y, bool transpose_x, bool transpose_y, Shape shape);

  // Moving data.
  Var reshape(const Var& x, const Shape& shape);
  Var flat(const Var& x) { return reshape(x, {count(x.shape)}); }
  Var transpose(const Var& x, const Axes& permutation);
  Var broadcast(const Var& x, const Shape& shape);  ///< of the same rank; extents of 1 stretch
  Var concat(const std::vector<Var>& xs, int64_t axis);
  /// Elements starts, starts + strides, ... before limits.
  Var slice(const Var& x, const Shape& starts, const Shape& limits, const Axes& strides);
  /// [n] of equal elements.
  Var filled(const Var& scalar, int64_t count);
  /// The elements of a flat x that the indices, of any shape, name: all in range.
  Var gather_flat(const Var& x, const Var& indices);
  /// A flat x into which updates, as many as the flat indices, are put.
  Var scatter_flat(const Var& x, const Var& indices, const Var& updates, std::string_view mode);
  Var reduce(std::string_view type, const Var& x, const Axes& axes, bool keep_dims = false);
  Var pad(const Var& x, const Shape& low, const Shape& high, const Var& value);

 private:
  struct Scope {
    mil::Block block;
    std::map<std::string, Var> constants;  // by dtype, shape and bytes
  };
  void put(mil::Operation op);
  Var emit_constant(mil::Value value, std::string_view hint, DType dtype, Shape shape);
  /// What `f` emits stands in the outermost block, which every other one sees.
  template <class F>
  Var outside(F f);
  Var symbol_size(const std::string& symbol);
  int opset_;
  struct Source {
    Var input;
    size_t axis;
  };
  std::map<std::string, Source> symbols_;
  std::vector<Dim> open_;             // the dim of the extent -1 - i
  std::map<std::string, Var> sizes_;  // of open extents and of symbols, by their texts, in the outermost block
  std::map<std::string, Var> once_;   // by their keys, there too
  std::vector<Scope> scopes_;
  std::map<std::string, int, std::less<>> uses_;                         // of a name, by operations and results
  std::map<std::string, Var, std::less<>> widened_;                      // what an i32 was before its cast
  std::map<std::string, std::pair<Var, Axes>, std::less<>> transposed_;  // what it was before, and how
  std::set<std::string, std::less<>> names_;
  std::map<std::string, int, std::less<>> counts_;
};

/// The shape to which both broadcast, as NumPy has it.
Shape broadcast_shape(const Shape& a, const Shape& b);

}  // namespace rlx::coreml
