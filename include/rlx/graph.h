// Values, nodes, graphs. A `Graph` grows by appending nodes and never changes one; its types are inferred as it
// grows. A sub-graph is closed: it sees only its own inputs, so what it captures is passed in as an operand.
#pragma once

#include <deque>
#include <memory>
#include <span>

#include "rlx/tensor.h"

namespace rlx {

struct OpDef;
class Graph;

/// A graph as an attribute: copied cheaply, compared by content.
class Subgraph {
 public:
  Subgraph() = default;
  Subgraph(Graph graph);
  explicit operator bool() const { return graph_ != nullptr; }
  /// Fails if there is none.
  const Graph& operator*() const;
  const Graph* operator->() const { return &**this; }
  bool operator==(const Subgraph&) const;
  friend void print(std::ostream&, const Subgraph&);
  friend void parse(Scanner&, Subgraph&);
  friend size_t hash_of(const Subgraph&);
  friend void map(Subgraph& g, const AttrMapper& mapper) {
    if (g) g = mapper.subgraph(g);
  }
  friend std::string kind_name(const Subgraph&) { return "graph"; }

 private:
  std::shared_ptr<const Graph> graph_;
};

struct NoAttrs {
  static constexpr auto fields(auto use) { return use(); }
  bool operator==(const NoAttrs&) const = default;
};

/// Any attribute struct, immutable and shared. The struct's own functions stay reachable through one table per
/// struct, whose address also tells which struct it is.
class Attrs {
 public:
  Attrs() = default;
  template <Attributes A>
  Attrs(A a) {
    static_assert(kFieldsComplete<A>, "a member of this attribute struct is missing in its `fields` table");
    if constexpr (!std::is_same_v<A, NoAttrs>) {
      held_ = std::make_shared<const A>(std::move(a));
      table_ = &kTable<A>;
    }
  }
  bool empty() const { return !held_; }
  template <Attributes A>
  bool holds() const {
    if constexpr (std::is_same_v<A, NoAttrs>) return empty();
    else return table_ == &kTable<A>;
  }
  /// The struct; fails if another op's attributes are held.
  template <Attributes A>
  const A& as() const {
    static const A kDefaults{};
    if constexpr (std::is_same_v<A, NoAttrs>) return kDefaults;
    if (empty()) return kDefaults;
    if (!holds<A>()) fail(ErrorCode::internal, "these attributes belong to another op");
    return *static_cast<const A*>(held_.get());
  }
  bool operator==(const Attrs& o) const {
    return table_ == o.table_ && (held_ == o.held_ || table_->equal(held_.get(), o.held_.get()));
  }
  /// A copy with every dim and sub-graph replaced.
  Attrs mapped(const AttrMapper& mapper) const {
    Attrs copy = *this;
    if (!empty()) copy.held_ = table_->mapped(held_.get(), mapper);
    return copy;
  }
  friend void print(std::ostream& out, const Attrs& a) {
    if (!a.empty()) a.table_->print(out, a.held_.get());
  }
  friend size_t hash_of(const Attrs& a) { return a.empty() ? 0 : a.table_->hash(a.held_.get()); }

 private:
  struct Table {
    bool (*equal)(const void*, const void*);
    void (*print)(std::ostream&, const void*);
    size_t (*hash)(const void*);
    std::shared_ptr<const void> (*mapped)(const void*, const AttrMapper&);
  };
  template <class A>
  static const A& get(const void* held) {
    return *static_cast<const A*>(held);
  }
  template <class A>
  static constexpr Table kTable = {
      [](const void* a, const void* b) { return get<A>(a) == get<A>(b); },
      [](std::ostream& out, const void* a) { print(out, get<A>(a)); },
      [](const void* a) { return hash_of(get<A>(a)); },
      [](const void* a, const AttrMapper& mapper) -> std::shared_ptr<const void> {
        auto copy = std::make_shared<A>(get<A>(a));
        map(*copy, mapper);
        return copy;
      },
  };
  std::shared_ptr<const void> held_;
  const Table* table_ = nullptr;
};

/// The `result`-th result of the `node`-th node.
struct Ref {
  int32_t node = -1, result = 0;
  auto operator<=>(const Ref&) const = default;
};

struct Node {
  const OpDef* op;
  Attrs attrs;
  std::vector<Ref> operands;
  std::vector<Type> types;  ///< of its results
  std::string name;         ///< of an input or param; of other nodes the scope that they were emitted in
};

/// A result in a graph that is being built, valid while that graph lives, also after a move. An empty Value means
/// "absent": an optional operand left out.
class Value {
 public:
  Value() = default;
  explicit operator bool() const { return body_ != nullptr; }
  const Type& type() const;
  const Dims& dims() const { return type().dims; }
  DType dtype() const { return type().dtype; }
  int64_t rank() const { return static_cast<int64_t>(dims().size()); }
  /// The extent of `axis`; negative axes count from the end. Fails if there is no such axis.
  const Dim& dim(int64_t axis) const;
  Ref ref() const { return ref_; }
  /// The graph this value belongs to; fails for an absent value.
  Graph& graph() const;
  bool operator==(const Value&) const = default;

 private:
  friend class Graph;
  struct GraphBody* body_ = nullptr;
  Ref ref_;
  Value(GraphBody* body, Ref ref) : body_(body), ref_(ref) {}
};

/// What a rule of an op (OpDef) returns: one thing or several, whichever is convenient there.
template <class T>
struct Many : std::vector<T> {
  using std::vector<T>::vector;
  Many(T one) : std::vector<T>{std::move(one)} {}
  Many(std::vector<T> all) : std::vector<T>(std::move(all)) {}
};
using Types = std::span<const Type>;
using Values = std::span<const Value>;
using Tensors = std::span<const Tensor>;

struct Output {
  Ref ref;
  std::string name;
  bool operator==(const Output&) const = default;
};

class Graph {
 public:
  explicit Graph(std::string name = "main");
  Graph(const Graph&);
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph) noexcept;
  ~Graph();

  // ---- building ----
  /// A value that is fed at each run. Names of inputs and params are unique; fails otherwise.
  Value input(std::string name, DType dtype, Dims dims) { return input(std::move(name), {dtype, std::move(dims)}); }
  Value input(std::string name, Type type);
  /// A value that is bound once, after compiling, by name.
  Value param(std::string name, DType dtype, Dims dims) { return param(std::move(name), {dtype, std::move(dims)}); }
  Value param(std::string name, Type type);
  Value constant(Tensor value);
  /// Adds a node; its types come from the op's `infer`. An error names the op, its operand types and attributes.
  std::vector<Value> emit(const OpDef& op, std::vector<Value> operands, Attrs attrs = {});
  /// Declares a result. Without a name it is called "output", or "output_<n>" after n others.
  void output(Value value, std::string name = "");
  /// Nodes emitted from now on carry this name in reports and errors: "encoder.layer.0.attention".
  void set_scope(std::string scope);
  const std::string& scope() const;

  // ---- reading ----
  const std::string& name() const;
  const std::deque<Node>& nodes() const;  // a deque, so that a `const Type&` survives the next emit
  const Node& node(Ref r) const { return nodes()[static_cast<size_t>(r.node)]; }
  const Type& type(Ref r) const { return node(r).types[static_cast<size_t>(r.result)]; }
  const std::vector<Ref>& inputs() const;
  const std::vector<Ref>& params() const;
  const std::vector<Output>& outputs() const;
  std::vector<Type> input_types() const;
  std::vector<Type> output_types() const;
  Value value(Ref ref);
  bool operator==(const Graph&) const;

 private:
  Value leaf(const OpDef& op, std::string name, Type type);
  std::unique_ptr<GraphBody> body_;
};
size_t hash_of(const Graph&);

struct ConstantAttrs {
  Tensor value;
  RLX_FIELDS(ConstantAttrs, field("value", &ConstantAttrs::value));
};

/// The graph of `body`, a function from the inputs' Values (and, if it wants, the graph) to one or several.
template <class F>
Graph trace(Types inputs, F body) {
  Graph g;
  std::vector<Value> in;
  for (const Type& type : inputs) in.push_back(g.input(text_of("x", in.size()), type));
  Many<Value> out;
  if constexpr (std::is_invocable_v<F, Graph&, Values>) out = Many<Value>(body(g, Values(in)));
  else out = Many<Value>(body(Values(in)));
  for (const Value& v : out) g.output(v);
  return g;
}

}  // namespace rlx
