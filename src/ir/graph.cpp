// Building, comparing and hashing graphs.
#include "rlx/graph.h"

#include <algorithm>
#include <atomic>

#include "base/growth_limit.h"
#include "base/user_code.h"
#include "ir/leaves.h"
#include "ir/used_ops.h"
#include "rlx/op_def.h"

namespace rlx {

struct GraphBody {
  Graph* owner;  // follows the Graph when it moves, so that Values stay good
  std::string name, scope;
  std::deque<Node> nodes;
  std::vector<Ref> inputs, params;
  std::vector<Output> outputs;
  std::vector<size_t>
      leaf_hashes;  // of the names of inputs and params: a graph has hundreds, and is copied by each pass
};

Graph::Graph(std::string name) : body_(new GraphBody{this, std::move(name), {}, {}, {}, {}, {}, {}}) {}
Graph::Graph(const Graph& o) : body_(new GraphBody(*o.body_)) { body_->owner = this; }
Graph::Graph(Graph&& o) noexcept : body_(std::move(o.body_)) { body_->owner = this; }
Graph& Graph::operator=(Graph o) noexcept {
  body_ = std::move(o.body_);
  body_->owner = this;
  return *this;
}
Graph::~Graph() = default;

const std::string& Graph::name() const { return body_->name; }
const std::deque<Node>& Graph::nodes() const { return body_->nodes; }
const std::vector<Ref>& Graph::inputs() const { return body_->inputs; }
const std::vector<Ref>& Graph::params() const { return body_->params; }
const std::vector<Output>& Graph::outputs() const { return body_->outputs; }
const std::string& Graph::scope() const { return body_->scope; }
void Graph::set_scope(std::string scope) { body_->scope = std::move(scope); }
Value Graph::value(Ref ref) { return {body_.get(), ref}; }

std::vector<Type> Graph::input_types() const {
  std::vector<Type> types;
  for (Ref r : inputs()) types.push_back(type(r));
  return types;
}
std::vector<Type> Graph::output_types() const {
  std::vector<Type> types;
  for (const Output& o : outputs()) types.push_back(type(o.ref));
  return types;
}

bool Graph::operator==(const Graph& o) const {
  auto same = [](const Node& a, const Node& b) {
    return a.op == b.op && a.operands == b.operands && a.types == b.types && a.name == b.name && a.attrs == b.attrs;
  };
  return name() == o.name() && inputs() == o.inputs() && params() == o.params() && outputs() == o.outputs() &&
         std::equal(nodes().begin(), nodes().end(), o.nodes().begin(), o.nodes().end(), same);
}
size_t hash_of(const Graph& g) {
  size_t h = g.nodes().size();
  for (const Node& node : g.nodes()) {
    h = mix(h, mix(std::hash<std::string_view>{}(node.op->name), hash_of(node.attrs)));
    for (Ref r : node.operands) h = mix(h, static_cast<size_t>(r.node) * 31 + static_cast<size_t>(r.result));
    h = mix(h, hash_of(node.types));
    h = mix(h, hash_of(node.name));
  }
  for (const Output& o : g.outputs())
    h = mix(h, mix(hash_of(o.name), static_cast<size_t>(o.ref.node) * 31 + static_cast<size_t>(o.ref.result)));
  return h;
}

Value Graph::leaf(const OpDef& op, std::string name, Type type) {
  if (name.empty()) fail(ErrorCode::invalid_argument, "an ", op.name, " needs a name: it is fed or bound by it");
  const size_t hash = std::hash<std::string_view>{}(name);
  if (std::find(body_->leaf_hashes.begin(), body_->leaf_hashes.end(), hash) != body_->leaf_hashes.end())
    for (auto* leaves : {&body_->inputs, &body_->params})
      for (Ref r : *leaves)
        if (node(r).name == name)
          fail(ErrorCode::invalid_argument, "graph '", this->name(), "' already has an ", node(r).op->name, " named '",
               name, "'; inputs and params share one set of names");
  if (rlx::is_static(type.dims)) byte_count(type.dtype, shape_of(type.dims));
  body_->nodes.push_back({&op, {}, {}, {std::move(type)}, std::move(name)});
  body_->leaf_hashes.push_back(hash);
  return {body_.get(), {static_cast<int32_t>(body_->nodes.size() - 1), 0}};
}
Value Graph::input(std::string name, Type type) {
  Value v = leaf(op::input, std::move(name), std::move(type));
  body_->inputs.push_back(v.ref());
  return v;
}
Value Graph::param(std::string name, Type type) {
  Value v = leaf(op::param, std::move(name), std::move(type));
  body_->params.push_back(v.ref());
  return v;
}
Value Graph::constant(Tensor value) { return emit(op::constant, {}, ConstantAttrs{std::move(value)})[0]; }

std::vector<Value> Graph::emit(const OpDef& op, std::vector<Value> operands, Attrs attrs) {
  GrowthLimit::count_node();
  Node node{&op, std::move(attrs), {}, {}, body_->scope};
  std::vector<Type> types;
  auto describe = [&] {
    std::ostringstream out;
    out << "building '" << op.name << "(";
    for (size_t i = 0; i < types.size(); ++i) out << (i ? ", " : "") << types[i];
    out << ")";
    if (!node.attrs.empty() && &op != &op::constant) print(out << " ", node.attrs);
    out << "'";
    if (!node.name.empty()) out << " of '" << node.name << "'";
    return out.str();
  };
  with_context(describe, [&] {
    for (const Value& v : operands) {
      if (!v) fail(ErrorCode::invalid_argument, "operand ", types.size(), " is absent");
      if (v.body_ != body_.get())
        fail(ErrorCode::invalid_argument, "operand ", types.size(),
             " belongs to another graph; pass it in as an input");
      node.operands.push_back(v.ref());
      types.push_back(v.type());
    }
    node.types = infer_types(op, types, node.attrs);
  });
  std::vector<Value> results;
  auto at = static_cast<int32_t>(body_->nodes.size());
  for (int32_t r = 0; r < static_cast<int32_t>(node.types.size()); ++r) results.push_back({body_.get(), {at, r}});
  body_->nodes.push_back(std::move(node));
  return results;
}

void Graph::output(Value value, std::string name) {
  if (!value) fail(ErrorCode::invalid_argument, "output ", outputs().size(), " is absent");
  if (value.body_ != body_.get()) fail(ErrorCode::invalid_argument, "an output belongs to another graph");
  if (name.empty()) name = outputs().empty() ? "output" : text_of("output_", outputs().size());
  for (const Output& o : outputs())
    if (o.name == name)
      fail(ErrorCode::invalid_argument, "graph '", this->name(), "' already has an output named '", name, "'");
  body_->outputs.push_back({value.ref(), std::move(name)});
}

// ---- values and sub-graphs ----
Graph& Value::graph() const {
  if (!body_) fail(ErrorCode::invalid_argument, "this value is absent; ask before using one that may be left out");
  return *body_->owner;
}
const Type& Value::type() const { return graph().type(ref_); }
const Dim& Value::dim(int64_t axis) const {
  if (axis < -rank() || axis >= rank()) fail(ErrorCode::invalid_argument, "there is no axis ", axis, " in ", type());
  return dims()[static_cast<size_t>(axis < 0 ? axis + rank() : axis)];
}

Subgraph::Subgraph(Graph graph) : graph_(std::make_shared<const Graph>(std::move(graph))) {}
const Graph& Subgraph::operator*() const {
  if (!graph_) fail(ErrorCode::invalid_argument, "a sub-graph attribute was left out");
  return *graph_;
}
bool Subgraph::operator==(const Subgraph& o) const {
  return graph_ == o.graph_ || (graph_ && o.graph_ && *graph_ == *o.graph_);
}
size_t hash_of(const Subgraph& g) { return g ? hash_of(*g) : 0; }

// ---- ops that are used ----
namespace {
std::atomic<UsedOps*> noting{nullptr};
}
UsedOps::UsedOps() {
  UsedOps* none = nullptr;
  if (!noting.compare_exchange_strong(none, this)) fail(ErrorCode::internal, "used ops are being noted already");
}
UsedOps::~UsedOps() { noting = nullptr; }
std::set<std::string_view> UsedOps::names() const {
  std::scoped_lock lock(mutex_);
  return names_;
}
void UsedOps::note(const OpDef& op) {
  std::scoped_lock lock(mutex_);
  names_.insert(op.name);
}

// ---- operands ----
std::vector<Type> infer_types(const OpDef& op, Types operands, const Attrs& attrs) {
  if (UsedOps* used = noting.load(std::memory_order_relaxed)) used->note(op);
  size_t least = 0, most = op.operands.size();
  for (std::string_view name : op.operands) {
    least += !name.ends_with("?") && !name.ends_with("...");
    if (name.ends_with("...")) most = SIZE_MAX;
  }
  if (operands.size() < least || operands.size() > most) {
    std::string list;
    for (std::string_view name : op.operands) list += (list.empty() ? "" : ", ") + std::string(name);
    fail(ErrorCode::invalid_argument, op.name, " takes (", list, "), got ", operands.size(), " operand",
         operands.size() == 1 ? "" : "s");
  }
  if (!op.takes(attrs)) fail(ErrorCode::invalid_argument, "the attributes given to ", op.name, " belong to another op");
  std::vector<Type> types =
      user_code([&] { return text_of("the inference of '", op.name, "'"); }, [&] { return op.infer(operands, attrs); });
  for (const Type& t : types)
    for (const Dim& d : t.dims)
      if (d.is_static() && d.value() < 0)
        fail(ErrorCode::invalid_argument, "the result would be ", t, "; an extent cannot be negative");
  return types;
}

}  // namespace rlx
