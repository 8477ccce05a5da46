// Printing and parsing; see the header.
#include "ir/text.h"

#include "ir/leaves.h"
#include "ir/verify.h"

namespace rlx {
namespace {

int depth_slot() {  // of the stream, where the printer keeps its indentation
  static const int slot = std::ios_base::xalloc();
  return slot;
}

using Names = std::map<Ref, int>;

std::vector<Ref> results_of(const Graph& g, size_t node) {
  std::vector<Ref> refs;
  for (size_t r = 0; r < g.nodes()[node].types.size(); ++r) refs.push_back({int32_t(node), int32_t(r)});
  return refs;
}
void print_names(std::ostream& out, const Names& names, const std::vector<Ref>& refs) {
  const char* comma = "";
  for (Ref r : refs) out << std::exchange(comma, ", ") << "%" << names.at(r);
}

struct Parser {
  Scanner& in;
  const OpDef* extra;
  Graph g;
  std::map<int64_t, Value> named;

  Value value() {
    in.expect("%");
    auto name = in.number<int64_t>();
    auto found = named.find(name);
    if (found == named.end())
      in.unexpected(
          text_of("a value defined above instead of %", name, " (a graph is a DAG: values come before their uses)"));
    return found->second;
  }
  std::vector<int64_t> result_names() {
    std::vector<int64_t> names;
    do {
      in.expect("%");
      names.push_back(in.number<int64_t>());
      if (named.contains(names.back()) || std::count(names.begin(), names.end(), names.back()) > 1)
        in.unexpected(text_of("a new name instead of %", names.back()));
    } while (in.accept(","));
    return names;
  }
  std::string name() { return in.accept("@") ? in.quoted() : ""; }

  void node() {
    auto names = result_names();
    in.expect("=");
    std::string_view op_name = in.word();
    const OpDef& op = extra && extra->name == op_name ? *extra : find_op(op_name);
    std::vector<Value> operands;
    in.expect("(");
    while (!in.accept(")")) {
      if (!operands.empty()) in.expect(",");
      operands.push_back(value());
    }
    Attrs attrs;
    if (in.peek() == '{') attrs = op.parse_attrs(in);
    std::string scope = name();
    std::vector<Value> results;
    in.expect(":");
    if (&op == &op::input || &op == &op::param) {
      Type type;
      parse(in, type);
      if (!operands.empty()) in.unexpected(text_of("no operands of '", op.name, "'"));
      results = {&op == &op::input ? g.input(scope, type) : g.param(scope, type)};
    } else {
      g.set_scope(scope);
      results = g.emit(op, std::move(operands), attrs);
      for (size_t r = 0; r < results.size(); ++r) {
        if (r) in.expect(",");
        Type stated;
        parse(in, stated);
        if (stated != results[r].type())
          fail(ErrorCode::parse, op.name, " gives ", results[r].type(), " here, the text says ", stated);
      }
    }
    if (results.size() != names.size())
      in.unexpected(text_of(results.size(), " results of ", op.name, " instead of ", names.size()));
    for (size_t r = 0; r < results.size(); ++r) named.emplace(names[r], results[r]);
  }

  Graph graph() {
    in.expect("graph");
    in.expect("@");
    g = Graph(in.peek() == '"' ? in.quoted() : std::string(in.word()));
    in.expect("{");
    while (!in.accept_word("return"))
      with_context([start = in] { return text_of("reading the node at line ", start.line()); }, [&] { node(); });
    while (!in.accept("}")) {
      if (!g.outputs().empty()) in.expect(",");
      Value v = value();
      g.output(v, name());
    }
    g.set_scope("");
    return std::move(g);
  }
};

}  // namespace

void print(std::ostream& out, const Graph& g, int indent) {
  std::string margin(static_cast<size_t>(2 * indent), ' ');
  Names names;
  for (size_t n = 0; n < g.nodes().size(); ++n)
    for (Ref r : results_of(g, n)) names.emplace(r, int(names.size()));
  long depth = std::exchange(out.iword(depth_slot()), long{indent});  // what a nested block adds to
  bool plain = !g.name().empty();
  for (char c : g.name()) plain = plain && (std::isalnum(static_cast<unsigned char>(c)) || c == '_');
  out << "graph @";
  if (plain) out << g.name();
  else write_quoted(out, g.name());
  out << " {\n";
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    print_names(out << margin << "  ", names, results_of(g, n));
    print_names(out << " = " << node.op->name << "(", names, node.operands);
    out << ")";
    if (!node.attrs.empty()) print(out << " ", node.attrs);
    if (!node.name.empty()) write_quoted(out << " @", node.name);
    const char* colon = " : ";
    for (const Type& type : node.types) out << std::exchange(colon, ", ") << type;
    out << "\n";
  }
  const char* comma = "return ";
  out << margin << "  ";
  if (g.outputs().empty()) out << "return ";
  for (const Output& o : g.outputs()) {
    out << std::exchange(comma, ", ") << "%" << names.at(o.ref);
    write_quoted(out << " @", o.name);
  }
  out << "\n" << margin << "}";
  out.iword(depth_slot()) = depth;
}
void print(std::ostream& out, const Subgraph& g) {
  if (!g) {
    out << "none";
    return;
  }
  print(out, *g, 1 + static_cast<int>(out.iword(depth_slot())));
}
void parse(Scanner& in, Subgraph& g) {
  if (in.accept_word("none")) {
    g = {};
    return;
  }
  if (in.depth >= Scanner::kMaxDepth) in.unexpected(text_of("sub-graphs nested at most ", Scanner::kMaxDepth, " deep"));
  ++in.depth;
  g = parse_graph(in);
  --in.depth;
}

std::string text(const Graph& g) {
  std::ostringstream out;
  print(out, g);
  return out.str() + "\n";
}
Graph parse_graph(Scanner& in, const OpDef* extra) { return Parser{in, extra, Graph(), {}}.graph(); }
Graph parse_graph(std::string_view text, const OpDef* extra) {
  Scanner in(text);
  Graph g = parse_graph(in, extra);
  if (!in.at_end()) in.unexpected("the end of the text");
  return g;
}

GraphFile graph_file_of(const Graph& g) {
  constexpr size_t kLargeConstant = 256;  // bytes
  GraphFile file;
  std::ostringstream out;
  const ConstantsElsewhere large(out, kLargeConstant, [&](const Tensor& t) {
    for (const auto& [name, known] : file.constants)
      if (known == t) return name;
    std::string name = text_of("constant_", file.constants.size());
    file.constants.emplace(name, t);
    return name;
  });
  out << "rlx 1\n";
  print(out, g);
  out << "\n";
  file.text = out.str();
  return file;
}
Graph parse_graph_file(std::string_view text, const std::function<Tensor(std::string_view)>& constant) {
  Scanner in(text);
  if (constant) in.tensors = &constant;
  if (!in.accept_word("rlx")) in.unexpected("the version line 'rlx 1' that begins a .rlx file");
  auto version = in.number<int64_t>();
  if (version != 1)
    fail(ErrorCode::unsupported, "this is version ", version, " of the .rlx format; this build reads version 1");
  Graph g = parse_graph(in);
  if (!in.at_end()) in.unexpected("the end of the file");
  verify(g);
  return g;
}

}  // namespace rlx
