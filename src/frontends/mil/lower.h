// How a program becomes a graph: names stand for items, an operation is a call whose arguments a handler reads and
// whose results it gives. The handlers stand in the table of mil_ops.def, a file a family.
//
// Sizes that only data decide (non_zero, range_1d of a computed end, loops whose carries grow) have no place in a
// graph. Where the inputs of a run are at hand, such a value is computed while lowering and becomes an assumption: the
// graph is right for every run whose value is the same, and has it as an output, so that the runtime can see whether it
// is.
#pragma once

#include <set>

#include "frontends/mil/evaluate.h"
#include "io/mil.h"
#include "rlx/ops.h"

namespace rlx::mlprogram {

struct Item;
using ItemPtr = std::shared_ptr<Item>;

/// A list of tensors of one type, side by side along dim 0. Until the first write its elements' dims may be unknown.
struct ListItem {
  DType dtype = f32;
  std::optional<Dims> dims = {};  ///< of an element
  int64_t length = 0;
  bool dynamic = true;
  Value stacked = {};  ///< [length, dims...]; absent while `dims` are
};

/// What a name stands for.
struct Item {
  std::optional<Tensor> constant = {};  ///< of a tensor that is written in the program
  Value value = {};                     ///< of a tensor; of a constant one, once it was asked for
  std::optional<std::vector<std::string>> strings = {};
  std::optional<ListItem> list = {};
  std::string state = {};             ///< the state that it is a handle of
  std::vector<ItemPtr> members = {};  ///< of a dictionary: its keys, its values

  Item() = default;
  Item(Value v) : value(v) {}
  Item(ListItem l) : list(std::move(l)) {}
};

/// What a whole function becomes.
struct Assumption {
  std::string what;  ///< for messages
  Tensor value;
};
struct Lowered {
  Graph graph = Graph();
  std::vector<std::string> inputs =
      {};  ///< of the function, in order; then the graph's inputs are `states`, and the key
  std::vector<std::string> states = {};  ///< each is an input, and an output that holds its new value
  bool random_key = false;  ///< the last input is a key, u32[2], to be fed afresh each run, named `kRandomKey`
  size_t results = 0;       ///< the first so many outputs are the function's, then states, then assumptions
  std::vector<Assumption> assumptions = {};
  /// Of a classifier: the outputs that hold the place of the label and the probabilities, and the labels.
  struct Classifier {
    std::string label, probabilities;
    std::vector<std::string> names;     ///< empty if labels are integers: the output is the label then
    std::vector<int64_t> numbers = {};  ///< those integers
  };
  std::optional<Classifier> classifier = {};
};
inline constexpr const char* kRandomKey = "random_key";

struct LowerOptions {
  std::string function = {};                ///< the default one if empty
  std::map<std::string, Dims> dims = {};    ///< of inputs; a dim that is not said here and is not fixed is a symbol
  bool f32 = false;                         ///< f16 becomes f32 throughout
  std::map<std::string, Tensor> data = {};  ///< inputs, states and key of a run, for what data decide
  std::vector<Tensor> known = {};           ///< values of the first assumptions, where a run has shown them
};

/// The tensor of a literal, wherever its data stand.
using TensorOf = std::function<Tensor(const mil::Value&)>;

/// Fails naming the operation that cannot be lowered, and why.
Lowered lower(const mil::Model& model, const TensorOf& tensor_of, const LowerOptions& options);
/// The attribute "name" of an operation, or the name of its first output.
std::string name_of(const mil::Operation& op);
/// The function of that name, or the default one if it is empty; fails naming those that there are.
std::pair<std::string, const mil::Function&> find_function(const mil::Model& model, const std::string& name);
/// The rank is known only when the program runs.
bool is_variadic(const mil::ValueType& type);

/// A value is needed while lowering that depends on what is fed.
struct NeedsData : Error {
  using Error::Error;
};

/// What one lowering has in common for all of its graphs.
struct Lowering {
  const LowerOptions& options;
  const TensorOf& tensor_of;
  int opset;  ///< of "CoreML5" (iOS 15) to "CoreML8" (iOS 18) and later
  Graph* main;
  Evaluator* evaluator;  ///< of the main graph
  std::vector<std::pair<Value, Assumption>> assumptions = {};
  std::map<Ref, Tensor> assumed = {};
  std::optional<Lowered::Classifier> classifier = {};
  int64_t unrolled = 0;  ///< trips of loops that were written out
};

/// Names as they are seen from one block. Blocks of control flow have a graph of their own, and what they capture was
/// handed in; blocks that are written out in place share the graph of the block around them.
class Scope {
 public:
  Scope(Lowering& lowering, Graph& graph, Scope* outer = nullptr);

  Lowering& lowering() { return lowering_; }
  Graph& graph() { return graph_; }
  void define(const std::string& name, ItemPtr item);
  /// Fails if there is no such name.
  ItemPtr find(const std::string& name);
  ItemPtr try_find(const std::string& name);

  /// A state's value now; writing it makes another. Their names are those of the function's inputs.
  Value state(const std::string& name);
  void set_state(const std::string& name, Value value);
  bool has_state(const std::string& name);

  /// Runs the operations of a block, and returns its outputs.
  std::vector<ItemPtr> run(const mil::Block& block);

  Value value_of(const ItemPtr& item, const std::string& name);
  /// The elements of a value, if constants decide it, or data that are at hand; nothing otherwise.
  std::optional<Tensor> elements(Value value, const std::string& what);

 private:
  Lowering& lowering_;
  Graph& graph_;
  Scope* outer_;
  std::optional<Evaluator> evaluator_;  // of a graph that is not the main one
  std::map<std::string, ItemPtr> names_;
  std::map<std::string, Value> states_;
};

/// What a handler gives: an item for each output.
using Results = Many<ItemPtr>;

/// One operation being lowered. Reading an argument marks it as known; one that nobody has read is an error, so that no
/// parameter is passed over in silence.
class Call {
 public:
  Call(Scope& scope, const mil::Operation& op, bool widen);

  Scope& scope() { return scope_; }
  Graph& graph() { return scope_.graph(); }
  const mil::Operation& op() const { return op_; }
  int opset() const { return scope_.lowering().opset; }

  bool has(const std::string& name);
  /// A tensor; fails if it is not given.
  Value operator()(const std::string& name);
  /// A tensor, or nothing.
  Value maybe(const std::string& name);
  std::vector<Value> all(const std::string& name);
  ItemPtr item(const std::string& name);
  std::vector<ItemPtr> items(const std::string& name);

  // Parameters, by value: whatever dtype they have. Without a default they are required.
  Tensor constant(const std::string& name);
  std::optional<Tensor> try_constant(const std::string& name);
  double number(const std::string& name, std::optional<double> otherwise = {});
  int64_t integer(const std::string& name, std::optional<int64_t> otherwise = {});
  bool flag(const std::string& name, std::optional<bool> otherwise = {});
  std::string word(const std::string& name, std::optional<std::string> otherwise = {});
  Axes integers(const std::string& name);
  Axes integers(const std::string& name, Axes otherwise);
  /// The elements of a tensor of integers as extents, known or symbolic.
  Dims dims(const std::string& name);
  /// Arguments that say nothing in the mode at hand.
  void ignore(const std::string& name) { read_.insert(name); }

  /// As this lowering has it: f16 may be f32.
  DType dtype(DType declared) const;
  const mil::ValueType& declared(size_t output) const;  ///< fails if there is no such output, or it is no tensor

  /// Fails, saying that this form of the op cannot be done here.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... why) const {
    fail(ErrorCode::unsupported, why...);
  }
  template <class... Parts>
  [[noreturn]] void wrong(const Parts&... why) const {
    fail(ErrorCode::invalid_argument, why...);
  }

  /// The results, checked against what the program declares.
  std::vector<ItemPtr> finish(Results results);

 private:
  const mil::Argument* argument(const std::string& name);
  ItemPtr bound(const mil::Binding& binding);
  Value tensor(const ItemPtr& item, const std::string& name);

  Scope& scope_;
  const mil::Operation& op_;
  bool widen_;
  std::set<std::string> read_;
  std::map<std::string, mil::Argument, std::less<>> attributes_;  // what stands as an attribute, as arguments
};

inline ItemPtr make_item(Value v) { return std::make_shared<Item>(v); }
inline ItemPtr make_item(Item item) { return std::make_shared<Item>(std::move(item)); }
ItemPtr make_constant(Tensor t);

/// One value as a handler's result, or several.
inline Results one(Value v) { return Results(make_item(v)); }
inline Results several(const std::vector<Value>& values) {
  std::vector<ItemPtr> items;
  for (Value v : values) items.push_back(make_item(v));
  return Results(std::move(items));
}

struct Handler {
  std::string_view name;
  Results (*lower)(Call&);
  /// Several ops of ours stand for the one: f16 operands come as f32 and the results are rounded once.
  bool widen;
};
/// Null if MIL has no op of that name.
const Handler* find_handler(std::string_view op);
std::vector<std::string_view> handled_ops();

}  // namespace rlx::mlprogram
