// Wrong uses of each op. op_uses.txt is the table, one use a line, with the message that it must give; what can be made
// of an op's samples (operands too few and too many, dtypes, ranks, extents and attributes changed) is made here for
// every op: whatever is refused is refused with a message that holds the actual values, and whatever is taken runs.
#include <doctest/doctest.h>

#include <set>

#include "ir/leaves.h"
#include "ir/text.h"
#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/io_files.h"
#include "support/sanitized.h"

using namespace rlx;

namespace {

/// `op(types) {attributes} -> message`: its first line begins so.
struct Use {
  int line;
  std::string op, types, attrs, message;
};
std::vector<Use> table() {
  std::istringstream lines(test::file_content("tests/errors/op_uses.txt"));
  std::vector<Use> uses;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    size_t open = line.find('('), close = line.find(')', open), arrow = line.find(" -> ", close);
    REQUIRE_MESSAGE(arrow != std::string::npos, "line ", number, " is no row: ", line);
    std::string attrs = arrow > close + 2 ? line.substr(close + 2, arrow - close - 2) : "";
    uses.push_back(
        {number, line.substr(0, open), line.substr(open + 1, close - open - 1), attrs, line.substr(arrow + 4)});
  }
  return uses;
}

std::vector<Type> types_of(std::string_view text) {
  Scanner in(text);
  std::vector<Type> types;
  while (!in.at_end()) {
    if (!types.empty()) in.expect(",");
    parse(in, types.emplace_back());
  }
  return types;
}
Attrs attrs_of(const OpDef& op, std::string_view text) {
  Scanner in(text);
  return text.empty() ? Attrs() : op.parse_attrs(in);
}
Graph graph_of(const OpDef& op, const std::vector<Type>& types, const Attrs& attrs) {
  return trace(types, [&](Graph& g, Values in) { return g.emit(op, {in.begin(), in.end()}, attrs); });
}
std::string first_line(const Error& e) {
  std::string what = e.what();
  return what.substr(0, what.find('\n'));
}
bool is_leaf(const OpDef* op) { return op == &op::input || op == &op::param || op == &op::constant; }

std::string text_of_types(const std::vector<Type>& types) {
  std::string text;
  for (const Type& t : types) text += text_of(text.empty() ? "" : ", ", t);
  return text;
}
std::string text_of_attrs(const Attrs& attrs) {
  std::ostringstream out;
  print(out, attrs);
  return out.str();
}

/// What an op is asked for, and what of it is wrong, if anything is.
struct Question {
  const OpDef& op;
  std::vector<Type> types;
  Attrs attrs;
  std::string text() const {
    std::string a = text_of_attrs(attrs);
    return text_of(op.name, "(", text_of_types(types), ")", a.empty() || a == "{}" ? "" : " " + a);
  }
};

/// A message says what is wrong with the actual values: it holds an operand's type or dtype, or a number of the
/// question.
bool holds_values(const std::string& message, const Question& q) {
  if (std::any_of(message.begin(), message.end(), [](char c) { return std::isdigit(static_cast<unsigned char>(c)); }))
    return true;
  for (const Type& t : q.types)
    if (message.find(std::string(name_of(t.dtype))) != std::string::npos) return true;
  for (const char* word : {"nan", "inf", "'", "\""})  // an attribute's value, or a quoted word
    if (message.find(word) != std::string::npos) return true;
  for (const char* words : {" is empty", "got ", "`"})  // `names` of attributes that are missing
    if (message.find(words) != std::string::npos) return true;
  return false;
}

constexpr int64_t kMostElements = 1 << 18;  // of a mutated use that is taken and run
bool is_small(const Graph& g) {
  for (const Node& node : g.nodes())
    for (const Type& t : node.types) {
      if (!is_static(t.dims)) return false;
      double count = 1;
      for (const Dim& d : t.dims) count *= double(d.value());
      if (count > kMostElements) return false;
    }
  return true;
}

struct Counts {
  size_t refused = 0, taken = 0, run = 0;
};

/// Asks; where it is taken, and small, runs it by the reference and on the CPU, which agree on whether there is a
/// result.
void ask(const Question& q, Counts& counts) {
  std::optional<Graph> g;
  try {
    g = graph_of(q.op, q.types, q.attrs);
  } catch (const Error& e) {
    ++counts.refused;
    CHECK_MESSAGE(e.code() != ErrorCode::internal, q.text(), ": ", first_line(e));
    CHECK_MESSAGE(holds_values(first_line(e), q), q.text(), " is refused without its values: ", first_line(e));
    std::string where = text_of("while building '", q.op.name, "(");
    CHECK_MESSAGE(std::string(e.what()).find(where) != std::string::npos, q.text(), " is refused without its place");
    return;
  }
  ++counts.taken;
  if (!is_small(*g)) return;
  ++counts.run;
  std::vector<Tensor> inputs;
  for (const Type& t : q.types)
    inputs.push_back(random_tensor(t.dtype, shape_of(t.dims), 7 + inputs.size(), -300, 300));
  auto refusal = [&](auto run) -> std::string {
    try {
      run();
    } catch (const Error& e) {
      return first_line(e);
    }
    return "";
  };
  static Session session(Device::cpu(), {1});
  std::string reference = refusal([&] { interpret(*g, inputs); });
  CHECK_MESSAGE(reference == "", q.text(), " is taken, and then refused: ", reference);
  // What is narrower than a byte may be refused on the CPU when it compiles: a backend says what it does not take.
  bool packed = std::any_of(q.types.begin(), q.types.end(),
                            [](const Type& t) { return !is_byte_sized(t.dtype) && !is_block(t.dtype); });
  std::optional<CompiledGraph> compiled;
  std::string cpu = refusal([&] { compiled = session.compile(*g); });
  CHECK_MESSAGE((cpu == "" || (packed && cpu.starts_with("cpu cannot run this graph"))), q.text(),
                " is taken, and not compiled: ", cpu);
  if (!compiled) return;
  cpu = refusal([&] { compiled->run_ordered(inputs); });
  CHECK_MESSAGE(cpu == "", q.text(), " is taken, and then refused on the CPU: ", cpu);
}

/// Values of an attribute that are wrong for most ops, by the kind that it has.
std::vector<std::string> values_of(const std::string& kind) {
  if (kind.starts_with("int")) return {"99", "-99", "0", "-1", "9223372036854775807", "-9223372036854775808"};
  if (kind.starts_with("float")) return {"nan", "inf", "-1", "0"};
  if (kind.starts_with("list of int")) return {"[]", "[99]", "[-99]", "[0, 0]", "[0]", "[-1, -1, -1]"};
  if (kind.starts_with("dtype")) return {"bool", "i32", "c64", "q4_0", "f8e4m3fn", "f32"};
  if (kind.starts_with("list of dim")) return {"[]", "[99]", "[-1]", "[7, 9]"};
  if (kind.starts_with("dim")) return {"99", "-1", "0"};
  if (kind.starts_with("graph")) return {"none"};
  if (kind.starts_with("bool")) return {"true", "false"};
  return {};
}
/// The attributes' text with one of them set to another value.
std::string with_value(const std::string& attrs, const std::string& name, const std::string& value) {
  std::string set = name + " = " + value;
  if (attrs.empty() || attrs == "{}") return "{" + set + "}";
  for (const char* before : {"{", ", "}) {
    size_t at = attrs.find(before + name + " = ");
    if (at == std::string::npos) continue;
    at += std::string_view(before).size();
    size_t end = at;
    for (int depth = 0; end < attrs.size(); ++end) {
      char c = attrs[end];
      depth += c == '[' || c == '{';
      if ((c == ']' || c == '}') && depth-- == 0) break;
      if (c == ',' && depth == 0) break;
    }
    return attrs.substr(0, at) + set + attrs.substr(end);
  }
  return "{" + set + ", " + attrs.substr(1);
}

const size_t kSamplesChanged = test::sanitized() ? 1 : 2;

std::vector<Question> samples_of(const OpDef& op) {
  std::vector<Question> all;
  for (const Sample& s : op.samples()) {
    if (all.size() == kSamplesChanged) break;
    Question q{op, {}, s.attrs};
    for (size_t i = 0; i < s.dims.size(); ++i) q.types.push_back({i < s.dtypes.size() ? s.dtypes[i] : f64, s.dims[i]});
    all.push_back(std::move(q));
  }
  return all;
}

}  // namespace

TEST_CASE("each wrong use in the table gives its message, and where it is") {
  size_t rows = 0;
  for (const Use& use : table()) {
    ++rows;
    try {
      const OpDef& op = find_op(use.op);
      graph_of(op, types_of(use.types), attrs_of(op, use.attrs));
      FAIL_CHECK("op_uses.txt:", use.line, ": ", use.op, "(", use.types, ") ", use.attrs, " is taken");
    } catch (const Error& e) {
      CHECK_MESSAGE(std::string(e.what()).starts_with(use.message), "op_uses.txt:", use.line, ": ", use.op, "(",
                    use.types, ") ", use.attrs, " gives: ", first_line(e));
    }
  }
  MESSAGE(rows, " wrong uses");
}

TEST_CASE("every op has wrong uses in the table") {
  std::map<std::string, size_t> rows;
  for (const Use& use : table()) ++rows[use.op];
  for (const OpDef* op : all_ops())
    if (!is_leaf(op) && op != &op::optimization_barrier)  // which takes whatever it is given
      CHECK_MESSAGE(rows[std::string(op->name)] > 0, op->name, " has no row in tests/errors/op_uses.txt");
}

TEST_CASE("too few and too many operands are counted, for every op") {
  for (const OpDef* op : all_ops()) {
    if (is_leaf(op)) continue;
    size_t least = 0;
    bool any_number = false;
    for (std::string_view name : op->operands) {
      least += !name.ends_with("?") && !name.ends_with("...");
      any_number = any_number || name.ends_with("...");
    }
    auto message = [&](size_t count) {
      return first_line(test::error_of([&] { graph_of(*op, std::vector<Type>(count, {f32, {2, 2}}), {}); }));
    };
    if (least > 0) {
      std::string few = message(least - 1);
      CHECK_MESSAGE(few.starts_with(text_of(op->name, " takes (")), op->name, ": ", few);
      CHECK_MESSAGE(few.find(text_of("got ", least - 1, " operand")) != std::string::npos, op->name, ": ", few);
    }
    if (!any_number) {
      std::string many = message(op->operands.size() + 1);
      CHECK_MESSAGE(many.find(text_of("got ", op->operands.size() + 1, " operand")) != std::string::npos, op->name,
                    ": ", many);
    }
  }
}

TEST_CASE("an attribute that an op has not, has twice, or has of another kind, is named, for every op") {
  size_t attributes = 0;
  for (const OpDef* op : all_ops()) {
    auto message = [&](const std::string& attrs) { return first_line(test::error_of([&] { attrs_of(*op, attrs); })); };
    std::string list;
    for (const AttrInfo& a : op->describe_attrs()) list += (list.empty() ? "" : ", ") + a.name;
    CHECK(message("{no_such_attribute = 1}")
              .starts_with("line 1: expected a known attribute (" + list + ") instead of 'no_such_attribute'"));
    for (const AttrInfo& a : op->describe_attrs()) {
      ++attributes;
      if (!a.kind.starts_with("list of") && a.kind != "string" && a.kind != "tensor" && a.default_text != "" &&
          a.default_text.find('"') == std::string::npos) {
        std::string twice =
            message("{" + a.name + " = " + a.default_text + ", " + a.name + " = " + a.default_text + "}");
        CHECK_MESSAGE(twice.starts_with("line 1: expected '" + a.name + "' only once"), op->name, ": ", twice);
      }
      // No value of any kind of attribute but a string begins with a semicolon.
      std::string other = message("{" + a.name + " = ;}");
      CHECK_MESSAGE(other.find("expected") != std::string::npos, op->name, " ", a.name, ": ", other);
      if (a.kind.find('|') != std::string::npos && !a.kind.starts_with("list")) {
        std::string word = message("{" + a.name + " = no_such_word}");
        CHECK_MESSAGE(word.find("expected one of ") != std::string::npos, op->name, " ", a.name, ": ", word);
        CHECK_MESSAGE(word.find("instead of 'no_such_word'") != std::string::npos, op->name, " ", a.name, ": ", word);
      }
    }
  }
  MESSAGE(attributes, " attributes");
}

TEST_CASE("operands of other dtypes, ranks and extents are refused with their values, or run") {
  Counts counts;
  for (const OpDef* op : all_ops()) {
    if (is_leaf(op)) continue;
    for (const Question& q : samples_of(*op))
      for (size_t i = 0; i < q.types.size(); ++i) {
        auto with = [&](const Type& t) {
          Question other = q;
          other.types[i] = t;
          ask(other, counts);
        };
        for (DType t : {boolean, i32, f32, c64, q4_0, f8e4m3fn, i4}) {
          Type changed{t, q.types[i].dims};
          if (is_block(t) && !changed.dims.empty()) changed.dims.back() = info(t).block_elements;
          if (t == q.types[i].dtype || (is_block(t) && changed.dims.empty())) continue;
          with(changed);
        }
        Dims dims = q.types[i].dims;
        for (size_t d = 0; d < dims.size(); ++d) {
          Type longer = q.types[i];
          longer.dims[d] = longer.dims[d] + Dim(1);
          if (!is_block(longer.dtype) || d + 1 < dims.size()) with(longer);
        }
        Type deeper = q.types[i];
        deeper.dims.insert(deeper.dims.begin(), 2);
        with(deeper);
        if (!dims.empty() && !is_block(q.types[i].dtype)) with({q.types[i].dtype, {}});
      }
  }
  MESSAGE(counts.refused, " uses refused, ", counts.taken, " taken, ", counts.run, " of them run");
}

TEST_CASE("attributes of other values are refused with them, or run") {
  Counts counts;
  for (const OpDef* op : all_ops()) {
    if (is_leaf(op)) continue;
    for (const Question& q : samples_of(*op))
      for (const AttrInfo& a : op->describe_attrs())
        for (const std::string& value : values_of(a.kind)) {
          std::string changed = with_value(text_of_attrs(q.attrs), a.name, value);
          try {
            ask({*op, q.types, attrs_of(*op, changed)}, counts);
          } catch (const Error& e) {  // "none" of a graph, a dim that is negative: refused when read
            ++counts.refused;
            CHECK_MESSAGE(e.code() != ErrorCode::internal, op->name, " ", changed, ": ", first_line(e));
          }
        }
  }
  MESSAGE(counts.refused, " uses refused, ", counts.taken, " taken, ", counts.run, " of them run");
}

TEST_CASE("an axis beyond the rank is refused with both, for every op that has one") {
  size_t ops = 0;
  for (const OpDef* op : all_ops())
    for (const AttrInfo& a : op->describe_attrs()) {
      bool one = a.name == "axis" && a.kind.starts_with("int"), several = a.name == "axes" && a.kind == "list of int";
      auto samples = samples_of(*op);
      if ((!one && !several) || samples.empty() || samples[0].types.empty()) continue;
      ++ops;
      std::string changed = with_value(text_of_attrs(samples[0].attrs), a.name, one ? "77" : "[77]");
      Question q = samples[0];
      std::string message;
      try {
        graph_of(*op, q.types, attrs_of(*op, changed));
      } catch (const Error& e) {
        message = first_line(e);
      }
      CHECK_MESSAGE(message.find("77") != std::string::npos, op->name, " ", changed, ": ", message);
    }
  MESSAGE(ops, " ops with an axis");
}
