// Any bytes as a .rlx file: refused with an rlx::Error, or read; what is read, printed and read again is the same, and
// if it is small it runs, by the reference and on the CPU, or is refused with an rlx::Error by both.
#include <cstdlib>

#include "ir/leaves.h"
#include "ir/verify.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/graph_file.h"
#include "rlx/session.h"

using namespace rlx;

namespace {

constexpr double kMostElements = 1000, kMostWork = 1e6;

double elements_of(const Type& type) {
  double count = 1;
  for (const Dim& d : type.dims) {
    if (!d.is_static()) return 2 * kMostElements;
    count *= static_cast<double>(std::max<int64_t>(d.value(), 1));  // an extent of 0 must not hide the others
  }
  return count;
}

/// Bounds what a run may cost: elements of every node, times the product of the numbers among its attributes (windows,
/// bins, paddings: whatever they are, a rule loops over no more).
bool is_small(const Graph& g, int depth = 0) {
  double elements = 0, work = 0;
  if (g.nodes().size() > 100 || depth > 3) return false;
  for (const Node& node : g.nodes()) {
    double own = 1;
    for (const Type& t : node.types) own += elements_of(t);
    for (Ref r : node.operands) own += elements_of(g.type(r));
    elements += own;
    double factor = 1;
    if (node.op != &op::constant && !node.attrs.empty()) {
      std::ostringstream out;
      print(out, node.attrs);
      std::string text = out.str();
      for (size_t i = 0; i < text.size();) {
        size_t end = i;
        while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
        if (end > i) factor *= std::max(1.0, std::strtod(text.substr(i, end - i).c_str(), nullptr));
        i = std::max(end, i + 1);
      }
    }
    work += own * factor;
    bool bodies_are_small = true;
    node.attrs.mapped({[](const Dim& d) { return d; },
                       [&](const Subgraph& body) {
                         bodies_are_small = bodies_are_small && (!body || is_small(*body, depth + 1));
                         return body;
                       }});
    if (!bodies_are_small) return false;
  }
  return elements <= kMostElements && work <= kMostWork;
}

/// Zeros, ones and small numbers of both signs, so that indices are sometimes in range and sometimes not.
Tensor numbers(const Type& type, int64_t seed) {
  Tensor t(type.dtype, shape_of(type.dims));
  if (is_block(t.dtype())) return t;
  with_element_type(t.dtype(), [&]<class T>() {
    for (size_t i = 0; i < t.element_count(); ++i) {
      int64_t v = (static_cast<int64_t>(i) * 7 + seed) % 11 - 3;
      if constexpr (std::is_same_v<T, uint64_t>) v = v < 0 ? -v : v;
      if constexpr (std::is_integral_v<T>) store<T>(t, i, static_cast<T>(v));
      else store<T>(t, i, T(static_cast<double>(v)));
    }
  });
  return t;
}

void run(const Graph& g) {
  std::vector<Tensor> inputs;
  std::map<std::string, Tensor> params;
  for (const Type& t : g.input_types()) inputs.push_back(numbers(t, static_cast<int64_t>(inputs.size())));
  for (Ref r : g.params()) params.emplace(g.node(r).name, numbers(g.type(r), 5));
  auto right_types = [&](Tensors outputs) {
    auto wanted = g.output_types();
    if (outputs.size() != wanted.size()) std::abort();
    for (size_t o = 0; o < outputs.size(); ++o)
      if (outputs[o].type() != wanted[o]) std::abort();
  };
  try {
    right_types(interpret(g, inputs, params));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
  }
  try {
    static const Session session(Device::cpu(), {1});
    CompiledGraph compiled = session.compile(g, CompileOptions());
    for (const auto& [name, value] : params) compiled.set_param(name, value);
    right_types(compiled.run_ordered(inputs));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::optional<Graph> g;
  try {
    g = parse_graph_text({reinterpret_cast<const char*>(data), size});
  } catch (const Error& error) {
    if (*error.what() == '\0' || error.code() == ErrorCode::internal) throw;
    return 0;
  }
  std::string printed = graph_text(*g);
  Graph again = parse_graph_text(printed);
  if (graph_text(again) != printed) std::abort();
  bool has_nan = printed.find("nan") != std::string::npos;  // an attribute that is NaN equals nothing
  if (!has_nan && (!(again == *g) || hash_of(again) != hash_of(*g))) std::abort();
  verify(again);
  if (is_small(*g)) run(*g);
  return 0;
}
