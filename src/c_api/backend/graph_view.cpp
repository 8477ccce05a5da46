// See the header.
#include "c_api/backend/graph_view.h"

#include <charconv>
#include <map>
#include <optional>

#include "ir/leaves.h"
#include "ir/rewrite.h"

namespace rlx::c {
namespace {

/// What stands between the commas of "{a = [1, 2], b = 3}" or "[1, 2]"; commas within brackets and quotes separate
/// nothing.
std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  if (list.size() < 2) return parts;
  list = list.substr(1, list.size() - 2);
  int depth = 0;
  bool is_quoted = false;
  size_t begin = 0;
  const auto add = [&](size_t end) {
    const size_t first = list.find_first_not_of(" \n", begin);
    if (first < end) parts.push_back(list.substr(first, end - first));
    begin = end + 1;
  };
  for (size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (is_quoted) {
      if (c == '\\') ++i;
      else if (c == '"') is_quoted = false;
    } else if (c == '"') {
      is_quoted = true;
    } else if (c == '{' || c == '[' || c == '(') {
      ++depth;
    } else if (c == '}' || c == ']' || c == ')') {
      --depth;
    } else if (c == ',' && depth == 0) {
      add(i);
    }
  }
  add(list.size());
  return parts;
}

/// The attributes that have another value than their default, as text.
std::map<std::string, std::string, std::less<>> given_attributes(const Attrs& attrs) {
  std::ostringstream out;
  print(out, attrs);
  std::map<std::string, std::string, std::less<>> given;
  const std::string printed = out.str();
  for (std::string_view part : split(printed))
    if (const size_t equals = part.find(" = "); equals != std::string_view::npos)
      given.emplace(part.substr(0, equals), part.substr(equals + 3));
  return given;
}

template <class T>
std::optional<T> number_from(std::string_view text) {
  if (text == "true" || text == "false") return static_cast<T>(text == "true");
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}
/// A number or a list of numbers; nothing if it is anything else.
template <class T>
std::optional<std::vector<T>> numbers_from(std::string_view text) {
  std::vector<T> all;
  for (std::string_view part : text.starts_with("[") ? split(text) : std::vector{text}) {
    const auto value = number_from<T>(part);
    if (!value) return std::nullopt;
    all.push_back(*value);
  }
  return all;
}

rlx_value value_of(Ref r) { return {r.node, r.result}; }

}  // namespace

GraphView::GraphView(const Graph& g) {
  for (const Node& node : g.nodes()) {
    rlx_node& made = nodes_.emplace_back();
    made = {};
    made.struct_size = sizeof made;
    made.op = text(std::string(node.op->name));
    made.name = text(node.name);
    auto& operands = values_.emplace_back();
    for (Ref r : node.operands) operands.push_back(value_of(r));
    made.operands = operands.data(), made.operand_count = operands.size();
    auto& results = type_lists_.emplace_back();
    for (const Type& t : node.types) results.push_back(type(t));
    made.results = results.data(), made.result_count = results.size();
    if (node.op == &op::constant) made.data = node.attrs.as<ConstantAttrs>().value.data();
    else add_attributes(node, made);
    node_list_.push_back(&made);
  }
  auto& inputs = values_.emplace_back();
  for (Ref r : g.inputs()) inputs.push_back(value_of(r));
  auto& params = values_.emplace_back();
  for (Ref r : g.params()) params.push_back(value_of(r));
  auto& outputs = values_.emplace_back();
  for (const Output& o : g.outputs()) {
    outputs.push_back(value_of(o.ref));
    output_names_.push_back(text(o.name));
  }
  view_ = {sizeof view_,  text(g.name()), node_list_.data(), node_list_.size(), inputs.data(),       inputs.size(),
           params.data(), params.size(),  outputs.data(),    outputs.size(),    output_names_.data()};
}

const char* GraphView::text(std::string of) { return texts_.emplace_back(std::move(of)).c_str(); }

const rlx_type* GraphView::type(const Type& t) {
  auto& dims = integers_.emplace_back();
  for (const Dim& d : t.dims) dims.push_back(d.is_static() ? d.value() : -1);
  const int64_t size = is_static(t.dims) ? static_cast<int64_t>(byte_count(t.dtype, shape_of(t.dims))) : -1;
  types_.push_back(
      {sizeof(rlx_type), text(text_of(t)), text(std::string(name_of(t.dtype))), dims.data(), dims.size(), size});
  return &types_.back();
}

void GraphView::add_attributes(const Node& node, rlx_node& into) {
  auto& list = attribute_lists_.emplace_back();
  const auto given = given_attributes(node.attrs);
  const size_t first_body = bodies_.size();
  with_subgraphs(node.attrs, [&](const Graph& body) { return bodies_.push_back(body), body; });
  size_t next_body = first_body;
  for (const AttrInfo& info : node.op->describe_attrs()) {
    const auto found = given.find(info.name);
    rlx_attribute& made = attributes_.emplace_back();
    made = {};
    made.struct_size = sizeof made;
    made.name = text(info.name);
    made.text = text(found == given.end() ? info.default_text : found->second);
    if (info.kind == "graph") {
      if (found != given.end() && next_body < bodies_.size()) {  // one that is absent is not printed
        views_.push_back(std::make_unique<GraphView>(bodies_[next_body++]));
        made.graph = views_.back()->get();
      }
    } else if (info.kind.find("string") == std::string::npos) {
      if (auto numbers = numbers_from<double>(made.text)) {
        made.count = numbers->size();
        made.numbers = numbers_.emplace_back(std::move(*numbers)).data();
        auto integers = numbers_from<int64_t>(made.text);
        if (integers && info.kind.find("float") == std::string::npos)
          made.integers = integers_.emplace_back(std::move(*integers)).data();
      }
    }
    list.push_back(&made);
  }
  into.attributes = list.data(), into.attribute_count = list.size();
}

}  // namespace rlx::c
