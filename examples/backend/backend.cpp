// A whole backend outside of RLX's tree: memory of its own, a table of the ops that it claims, and plain loops. Copy
// the folder, and replace each part by what your device does. It links to nothing: rlx/backend.h is the contract.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rlx/backend.h"

namespace {
const rlx_backend_api* rlx = nullptr;  // what RLX does for us; set when it loads us

using Dims = std::vector<int64_t>;
using Pointers = char* const*;  // to the elements of each node's result
using Step = std::function<void(Pointers)>;
using Refusal = const char*;  // null: taken
// A node, as it is asked about and prepared. Each op here has one result.
struct Site {
  const rlx_graph_view* graph;
  const rlx_node* node;
  size_t index;

  const rlx_type& in(size_t i) const { return *rlx_type_of(graph, node->operands[i]); }
  const rlx_type& out() const { return *node->results[0]; }
  size_t at(size_t operand) const { return size_t(node->operands[operand].node); }
  std::string word(const char* name) const { return rlx_attribute_of(node, name)->text; }
  Dims list(const char* name) const {
    const rlx_attribute* a = rlx_attribute_of(node, name);
    return {a->integers, a->integers + a->count};
  }
};
bool is(const rlx_type& t, const char* dtype) { return std::strcmp(t.dtype, dtype) == 0; }
size_t size_of(const rlx_type& t) { return is(t, "f32") ? 4 : is(t, "i64") ? 8 : is(t, "bool") ? 1 : 0; }
template <class T>
T* elements(Pointers p, size_t node) {
  return reinterpret_cast<T*>(p[node]);
}
// Extents, and how far apart elements are. With its places, in row-major order, all that is not element-wise is loops.
struct View {
  Dims dims, strides;
  View() = default;
  explicit View(const rlx_type& t) : dims(t.dims, t.dims + t.rank), strides(t.rank, 1) {
    for (size_t i = t.rank; i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  }
  View only(const Dims& axes) const {
    View some;
    for (int64_t a : axes) some.dims.push_back(dims[size_t(a)]), some.strides.push_back(strides[size_t(a)]);
    return some;
  }
  View without(const Dims& axes) const {
    Dims rest;
    for (int64_t a = 0; a < int64_t(dims.size()); ++a)
      if (std::find(axes.begin(), axes.end(), a) == axes.end()) rest.push_back(a);
    return only(rest);
  }
  Dims places(int64_t begin = 0) const {
    Dims all{begin};
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      Dims next;
      for (int64_t base : all)
        for (int64_t i = 0; i < dims[axis]; ++i) next.push_back(base + i * strides[axis]);
      all = std::move(next);
    }
    return all;
  }
};

Refusal known_types(const Site& s) {
  bool all = size_of(s.out()) > 0;
  for (size_t i = 0; i < s.node->operand_count; ++i) all &= size_of(s.in(i)) > 0;
  return all ? nullptr : "it has f32, i64 and bool, and nothing else";
}
Refusal of_f32(const Site& s) {
  for (size_t i = 0; i < s.node->operand_count; ++i)
    if (!is(s.in(i), "f32")) return "it computes with f32 alone";
  return known_types(s);
}
template <auto kFunction, class To = float, class From = float>  // of one operand, or of two
Step each(const Site& s) {
  return [x = s.at(0), z = s.at(s.node->operand_count - 1), y = s.index,
          n = s.out().size / int64_t(sizeof(To))](Pointers p) {
    for (int64_t i = 0; i < n; ++i)
      if constexpr (std::is_invocable_v<decltype(kFunction), From>)
        elements<To>(p, y)[i] = kFunction(elements<From>(p, x)[i]);
      else elements<To>(p, y)[i] = kFunction(elements<From>(p, x)[i], elements<From>(p, z)[i]);
  };
}
float larger(float a, float b) { return a > b || std::isnan(a) ? a : b; }
Refusal may_convert(const Site& s) {
  return is(s.in(0), "i64") && !is(s.out(), "i64") ? known_types(s) : "it converts i64 to f32 and bool";
}
Step convert(const Site& s) {
  if (is(s.out(), "bool")) return each<[](int64_t x) { return x != 0; }, bool, int64_t>(s);
  return each<[](int64_t x) { return float(x); }, float, int64_t>(s);
}
Refusal may_compare(const Site& s) {
  return s.word("direction") == "eq" && s.word("total_order") == "false" ? of_f32(s) : "it compares for equality";
}
Step select(const Site& s) {
  return [c = s.at(0), a = s.at(1), b = s.at(2), y = s.index, n = s.in(0).size, size = size_of(s.out())](Pointers p) {
    for (size_t i = 0; i < size_t(n); ++i) std::memcpy(p[y] + i * size, p[p[c][i] ? a : b] + i * size, size);
  };
}
Step moved(const Site& s, Dims from) {
  return [x = s.at(0), y = s.index, size = size_of(s.out()), from = std::move(from)](Pointers p) {
    for (size_t i = 0; i < from.size(); ++i) std::memcpy(p[y] + i * size, p[x] + size_t(from[i]) * size, size);
  };
}
Step reshape(const Site& s) { return moved(s, View(s.out()).places()); }
Step transpose(const Site& s) { return moved(s, View(s.in(0)).only(s.list("permutation")).places()); }
Step broadcast(const Site& s) {
  const View x(s.in(0));
  View y(s.out());
  const Dims axes = s.list("axes");
  y.strides.assign(y.dims.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) y.strides[size_t(axes[i])] = x.dims[i] == 1 ? 0 : x.strides[i];
  return moved(s, y.places());
}
Step slice(const Site& s) {
  View x(s.in(0));
  const Dims starts = s.list("starts"), steps = s.list("strides");
  int64_t begin = 0;
  for (size_t i = 0; i < starts.size(); ++i)
    begin += starts[i] * x.strides[i], x.strides[i] *= steps.empty() ? 1 : steps[i];
  x.dims = View(s.out()).dims;
  return moved(s, x.places(begin));
}
Refusal may_gather(const Site& s) {
  const Dims first{0}, offset = s.list("offset_dims");
  const int64_t batch = int64_t(s.in(1).rank);
  const bool is_row = s.list("start_index_map") == first && s.list("collapsed_slice_dims") == first &&
                      s.list("operand_batching_dims").empty() && s.list("index_vector_dim") == Dims{batch} &&
                      (offset.empty() || offset[0] == batch) && s.word("out_of_range") == "fill";
  return is_row && is(s.in(0), "f32") && is(s.in(1), "i64") ? nullptr : "it gathers rows of f32 by i64";
}
Step gather(const Site& s) {  // what an embedding reads: rows by their numbers
  const View x(s.in(0));
  View row = x.without({0});
  for (size_t i = 0; i < row.dims.size(); ++i) row.dims[i] = s.list("slice_sizes")[i + 1];
  return [table = s.at(0), at = s.at(1), y = s.index, places = row.places(), rows = x.dims[0], stride = x.strides[0],
          n = s.in(1).size / 8](Pointers p) {
    float* to = elements<float>(p, y);
    for (int64_t i = 0; i < n; ++i)
      for (const int64_t place : places) {
        const int64_t row = elements<int64_t>(p, at)[i];
        *to++ = row >= 0 && row < rows ? elements<float>(p, table)[row * stride + place] : NAN;
      }
  };
}
Refusal may_reduce(const Site& s) {
  return s.word("kind") == "sum" || s.word("kind") == "max" ? of_f32(s) : "it reduces by sum and max";
}
Step reduce(const Site& s) {
  const View x(s.in(0));
  Dims axes = s.list("axes");
  for (int64_t& axis : axes) axis += axis < 0 ? int64_t(x.dims.size()) : 0;
  return [from = s.at(0), y = s.index, is_sum = s.word("kind") == "sum", kept = x.without(axes).places(),
          reduced = x.only(axes).places()](Pointers p) {
    for (size_t i = 0; i < kept.size(); ++i) {
      double result = is_sum ? 0 : -INFINITY;
      for (int64_t place : reduced) {
        const float v = elements<float>(p, from)[kept[i] + place];
        result = is_sum ? result + v : larger(float(result), v);
      }
      elements<float>(p, y)[i] = float(result);
    }
  };
}
Step dot_general(const Site& s) {
  const auto side = [&](size_t operand, const char* batch, const char* contract) {
    const View x(s.in(operand));
    Dims shared = s.list(batch), summed = s.list(contract), both = shared;
    both.insert(both.end(), summed.begin(), summed.end());
    return std::array{x.only(shared).places(), x.without(both).places(), x.only(summed).places()};
  };
  return [l = side(0, "lhs_batch", "lhs_contract"), r = side(1, "rhs_batch", "rhs_contract"), a = s.at(0), b = s.at(1),
          y = s.index](Pointers p) {
    float* to = elements<float>(p, y);
    for (size_t batch = 0; batch < l[0].size(); ++batch)
      for (int64_t row : l[1])
        for (int64_t column : r[1]) {
          const float* lhs = elements<float>(p, a) + l[0][batch] + row;
          const float* rhs = elements<float>(p, b) + r[0][batch] + column;
          double sum = 0;
          for (size_t k = 0; k < l[2].size(); ++k) sum += double{lhs[l[2][k]]} * rhs[r[2][k]];
          *to++ = float(sum);
        }
  };
}

// The claims: op, when, how.
struct Row {
  const char* op;
  Refusal (*refuse)(const Site&);
  Step (*prepare)(const Site&);
};
const Row kRows[] = {
    {"add", of_f32, each<[](float a, float b) { return a + b; }>},
    {"sub", of_f32, each<[](float a, float b) { return a - b; }>},
    {"mul", of_f32, each<[](float a, float b) { return a * b; }>},
    {"div", of_f32, each<[](float a, float b) { return a / b; }>},
    {"maximum", of_f32, each<larger>},
    {"exp", of_f32, each<[](float x) { return std::exp(x); }>},
    {"erf", of_f32, each<[](float x) { return std::erf(x); }>},
    {"sqrt", of_f32, each<[](float x) { return std::sqrt(x); }>},
    {"rsqrt", of_f32, each<[](float x) { return 1 / std::sqrt(x); }>},
    {"is_finite", of_f32, each<[](float x) { return std::isfinite(x); }, bool>},
    {"convert", may_convert, convert},
    {"compare", may_compare, each<[](float a, float b) { return a == b; }, bool>},
    {"select", known_types, select},
    {"reshape", known_types, reshape},
    {"broadcast_in_dim", known_types, broadcast},
    {"transpose", known_types, transpose},
    {"slice", known_types, slice},
    {"gather", may_gather, gather},
    {"reduce", may_reduce, reduce},
    {"dot_general", of_f32, dot_general},
};
const Row* row_of(const rlx_node* node) {  // null of leaves, too
  const Row* row = std::find_if(kRows, std::end(kRows), [&](const Row& r) { return !std::strcmp(r.op, node->op); });
  return row == std::end(kRows) ? nullptr : row;
}
rlx_status supports(void*, const rlx_graph_view* graph, rlx_error** error) {
  const size_t last = graph->node_count - 1;
  const Row* row = row_of(graph->nodes[last]);
  const Refusal why = row ? row->refuse({graph, graph->nodes[last], last}) : "its table has no row for it";
  return why ? rlx->fail(error, RLX_UNSUPPORTED, why) : RLX_OK;
}

// A step for each node.
struct Program {
  const rlx_graph_view* graph;
  std::vector<std::pair<size_t, Step>> steps;
};
rlx_status compile(void*, const rlx_compile_request* request, void** executable, rlx_error**) {
  std::unique_ptr<Program> made(new Program{request->graph, {}});
  for (size_t i = 0; i < request->graph->node_count; ++i)
    if (const Row* row = row_of(request->graph->nodes[i]))
      made->steps.emplace_back(i, row->prepare({request->graph, request->graph->nodes[i], i}));
  *executable = made.release();
  return RLX_OK;
}
void free_executable(void*, void* executable) { delete static_cast<Program*>(executable); }
char* start_of(const rlx_argument* a) { return static_cast<char*>(a->buffer) + a->offset; }
rlx_status launch(void*, void* executable, const rlx_launch* run, rlx_error** error) {
  const auto& [graph, steps] = *static_cast<const Program*>(executable);
  std::vector<char*> at(graph->node_count);
  std::vector<std::unique_ptr<char[]>> owned;
  for (size_t i = 0; i < at.size(); ++i) at[i] = static_cast<char*>(const_cast<void*>(graph->nodes[i]->data));
  for (size_t i = 0; i < graph->input_count; ++i) at[size_t(graph->inputs[i].node)] = start_of(run->inputs[i]);
  for (size_t i = 0; i < graph->param_count; ++i) at[size_t(graph->params[i].node)] = start_of(run->params[i]);
  for (const auto& [node, step] : steps) {
    if (rlx->is_cancelled(run->cancel)) return rlx->fail(error, RLX_CANCELLED, "it stopped between two steps");
    at[node] = owned.emplace_back(new char[size_t(graph->nodes[node]->results[0]->size) + 1]).get();
    step(at.data());
  }
  for (size_t i = 0; i < graph->output_count; ++i)
    std::copy_n(at[size_t(graph->outputs[i].node)], run->outputs[i]->size, start_of(run->outputs[i]));
  return RLX_OK;
}

rlx_status open(void*, int, const char*, rlx_target*, void**, rlx_error**) { return RLX_OK; }
rlx_status allocate(void*, size_t size, void** buffer, rlx_error** error) {
  *buffer = std::malloc(size);
  return *buffer ? RLX_OK : rlx->fail(error, RLX_OUT_OF_MEMORY, "malloc has no such piece");
}
void free_buffer(void*, void* buffer) { std::free(buffer); }
rlx_status write(void*, void* to, size_t offset, const void* from, size_t size, rlx_completion, rlx_error**) {
  return std::memcpy(static_cast<char*>(to) + offset, from, size), RLX_OK;
}
rlx_status read(void*, void* to, const void* from, size_t offset, size_t size, rlx_completion, rlx_error**) {
  return std::memcpy(to, static_cast<const char*>(from) + offset, size), RLX_OK;
}
}  // namespace

extern "C" rlx_status rlx_register_backends(const rlx_backend_api* api, rlx_error** error) {
  rlx = api;
  rlx_backend table{};
  table.struct_size = sizeof table;
  table.name = "plain", table.version = "1", table.description = "plain loops over memory of its own";
  table.open = open, table.supports = supports;
  table.compile = compile, table.free_executable = free_executable, table.launch = launch;
  table.allocate = allocate, table.free = free_buffer, table.write = write, table.read = read;
  return api->register_backend(&table, error);
}
