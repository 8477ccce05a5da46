// The Metal kernels of the device mlx (src/backends/mlx/metal) as C++: their bodies run here thread by thread, on the
// processor, also where this build has no MLX. That a GPU computes the same is not tested: none was there.
#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "backends/mlx/metal/kernels.h"
#include "ir/text.h"
#include "mlx/modes.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/io.h"
#include "rlx/ops.h"
#include "support/compare.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

// ---- what Metal has and C++ has not ----

/// Metal's half and bfloat: numbers are converted to f32, computed there, and rounded when they are stored.
template <DType D>
struct Narrow {
  uint16_t bits;
  explicit Narrow(float v) : bits(static_cast<uint16_t>(encode_float(D, v))) {}
  explicit operator float() const { return static_cast<float>(decode_float(D, bits)); }
};

struct Position {
  size_t x, y, z;
};

/// 32 threads that run one after another, each up to the first sum that lacks the others' parts. That sum is then
/// known, and they run again.
class SimdGroup {
 public:
  template <class F>
  void run(F thread) {
    known_.clear();
    for (size_t waiting = 32; waiting > 0;) {
      float total = 0;
      waiting = 0;
      for (size_t lane = 0; lane < 32; ++lane) {
        asked_ = 0;
        try {
          thread(lane);
        } catch (const Part& part) {
          total += part.value, ++waiting;
        }
      }
      known_.push_back(total);
      REQUIRE((waiting == 0 || waiting == 32));  // Metal leaves open what a sum of some of the threads is
    }
  }
  float sum(float part) {
    if (asked_ == known_.size()) throw Part{part};
    return known_[asked_++];
  }

 private:
  struct Part {
    float value;
  };
  std::vector<float> known_;
  size_t asked_ = 0;
};

// ---- the kernels: each is what mlx::core::fast::metal_kernel makes of its body, one thread of it ----

#define RLX_METAL_BODY(...) __VA_ARGS__

template <class T, int N>
void selective_scan_thread(const Position& thread_position_in_grid, const int* x_shape, const T* x, const T* delta,
                           const T* a, const T* b, const T* c, const T* state, T* y, T* last_state) {
  using std::exp;
#include "backends/mlx/metal/selective_scan.inc"
}

template <class T, int N, bool gate_per_channel>
void gated_delta_net_thread(const Position& thread_position_in_grid, SimdGroup& group, const int* v_shape, const T* q,
                            const T* k, const T* v, const T* g, const T* beta, const T* state, T* y, T* last_state) {
  using std::exp, std::sqrt;
  const auto simd_sum = [&](float part) { return group.sum(part); };
#include "backends/mlx/metal/gated_delta_net.inc"
}

#undef RLX_METAL_BODY

// ---- launches: what lower_recurrent.cpp does by MLX ----

/// Calls f.operator()<T, N>() for the dtype and the extent.
template <class F>
void with_template_arguments(DType dtype, int64_t n, F f) {
  bool found = false;
  const auto for_extents = [&]<class T, int... N>(std::integer_sequence<int, N...>) {
    ((n == N ? (found = true, f.template operator()<T, N>()) : void()), ...);
  };
  using Extents = std::integer_sequence<int, 1, 2, 3, 4, 16, 19, 21, 31, 32, 33, 64, 128>;
  if (dtype == f32) for_extents.template operator()<float>(Extents());
  if (dtype == f16) for_extents.template operator()<Narrow<f16>>(Extents());
  if (dtype == bf16) for_extents.template operator()<Narrow<bf16>>(Extents());
  REQUIRE_MESSAGE(found, "no kernel is compiled here for ", n);
}
template <class T>
const T* in(const std::vector<Tensor>& inputs, size_t i) {
  return reinterpret_cast<const T*>(inputs.at(i).bytes().data());
}
template <class T>
T* out(std::vector<Tensor>& outputs, size_t i) {
  return reinterpret_cast<T*>(outputs.at(i).mutable_data());
}
std::vector<int> extents(const Tensor& t) { return {t.shape().begin(), t.shape().end()}; }
template <class F>
void for_threads(const mlx_backend::Grid& grid, F f) {
  for_each_index({grid[2], grid[1], grid[0]}, [&](const Axes& at) {
    f(Position{static_cast<size_t>(at[2]), static_cast<size_t>(at[1]), static_cast<size_t>(at[0])});
  });
}

/// Results of the types `types`, whose elements the kernel must write: they are NaN before.
std::vector<Tensor> unwritten(const std::vector<Type>& types) {
  std::vector<Tensor> all;
  for (const Type& t : types) all.push_back(full(t.dtype, shape_of(t.dims), NAN));
  return all;
}
std::vector<Tensor> run_selective_scan(std::vector<Tensor> inputs, const std::vector<Type>& types) {
  std::vector<Tensor> results = unwritten(types);
  if (inputs.size() < 6) inputs.push_back(full(types[1].dtype, shape_of(types[1].dims), 0));
  const std::vector<int> shape = extents(inputs[0]);
  with_template_arguments(types[0].dtype, inputs[2].shape()[1], [&]<class T, int N>() {
    for_threads(mlx_backend::grid_of_selective_scan(shape[0], shape[2]), [&](const Position& at) {
      selective_scan_thread<T, N>(at, shape.data(), in<T>(inputs, 0), in<T>(inputs, 1), in<T>(inputs, 2),
                                  in<T>(inputs, 3), in<T>(inputs, 4), in<T>(inputs, 5), out<T>(results, 0),
                                  out<T>(results, 1));
    });
  });
  return results;
}
std::vector<Tensor> run_gated_delta_net(std::vector<Tensor> inputs, const std::vector<Type>& types) {
  std::vector<Tensor> results = unwritten(types);
  if (inputs.size() < 6) inputs.push_back(full(types[1].dtype, shape_of(types[1].dims), 0));
  const std::vector<int> shape = extents(inputs[2]);
  mlx_backend::Grid groups = mlx_backend::grid_of_gated_delta_net(shape[0], shape[2], shape[3]);
  REQUIRE(groups[0] == 32);
  groups[0] = 1;
  SimdGroup group;
  with_template_arguments(types[0].dtype, inputs[1].shape()[3], [&]<class T, int N>() {
    const auto run = [&]<bool PerChannel>() {
      for_threads(groups, [&](const Position& at) {
        group.run([&](size_t lane) {
          gated_delta_net_thread<T, N, PerChannel>(
              {lane, at.y, at.z}, group, shape.data(), in<T>(inputs, 0), in<T>(inputs, 1), in<T>(inputs, 2),
              in<T>(inputs, 3), in<T>(inputs, 4), in<T>(inputs, 5), out<T>(results, 0), out<T>(results, 1));
        });
      });
    };
    if (inputs[3].shape().size() == 4) run.template operator()<true>();
    else run.template operator()<false>();
  });
  return results;
}

/// The results of the graph's one node by its kernel.
std::vector<Tensor> by_kernel(const Graph& g, const std::vector<Tensor>& inputs) {
  const bool scans = g.nodes().back().op == &op::selective_scan;
  return scans ? run_selective_scan(inputs, g.output_types()) : run_gated_delta_net(inputs, g.output_types());
}

Graph graph_of(const OpDef& op, const std::vector<Type>& types) {
  return trace(types, [&](Graph& to, Values in) { return to.emit(op, {in.begin(), in.end()}); });
}

/// How the node of that op runs on mlx, and why.
DispatchLine line_of(const Graph& g, const OpDef& op) {
  const DispatchReport report = Session(Device::mlx()).compile(g).report();
  for (const DispatchLine& line : report.lines)
    if (line.op == op.name) return line;
  FAIL("no line for ", std::string(op.name));
  return {};
}

}  // namespace

TEST_CASE("the Metal kernels give what JAX computed in f64, for every golden case of their ops") {
  const SafetensorsFile file = SafetensorsFile::open("tests/golden/ops/state_space.safetensors");
  const std::string text = test::file_content("tests/golden/ops/state_space.rlx");
  Scanner scanner(text);
  scanner.expect("rlx");
  scanner.number<int64_t>();
  size_t cases = 0;
  while (!scanner.at_end()) {
    const Graph g = parse_graph(scanner);
    const Node& last = g.nodes().back();
    if ((last.op != &op::selective_scan && last.op != &op::gated_delta_net) || last.types[0].dtype == f64) continue;
    CAPTURE(g.name());
    std::vector<Tensor> inputs, wanted;
    for (size_t i = 0; i < g.inputs().size(); ++i) inputs.push_back(file.tensor(text_of(g.name(), "/in", i)));
    for (size_t i = 0; i < 2; ++i) wanted.push_back(file.tensor(text_of(g.name(), "/out", i)));
    CHECK(difference(by_kernel(g, inputs), wanted) == "");
    ++cases;
  }
  MESSAGE(cases, " cases");
  CHECK(cases >= 24);
}

TEST_CASE("the Metal kernels agree with the reference for states that fill their threads, and for those that do not") {
  uint64_t seed = 1;
  for (const DType dtype : {f32, f16, bf16}) {
    for (const int64_t n : {1, 3, 31, 32, 33, 64, 128}) {
      for (const bool has_state : {false, true}) {
        CAPTURE(dtype);
        CAPTURE(n);
        CAPTURE(has_state);
        const auto check = [&](const OpDef& op, std::vector<Dims> dims, size_t decays) {
          if (!has_state) dims.pop_back();
          std::vector<Type> types;
          std::vector<Tensor> inputs;
          for (const Dims& d : dims) {
            // Decays below 0, so that states do not grow; keys as short as a norm makes them.
            const double most = 1 / std::sqrt(static_cast<double>(n));
            const bool is_decay = types.size() == decays;
            types.push_back({dtype, d});
            inputs.push_back(random_tensor(dtype, shape_of(d), ++seed, is_decay ? -1 : -most, is_decay ? 0 : most));
          }
          const Graph g = graph_of(op, types);
          CHECK(difference(by_kernel(g, inputs), interpret(g, inputs)) == "");
        };
        if (n <= mlx_backend::kMaxScanStates)
          check(op::selective_scan, {{2, 3, 5}, {2, 3, 5}, {5, n}, {2, 3, n}, {2, 3, n}, {2, 5, n}}, 2);
        const Dims keys = {2, 3, 3, n}, gates = {2, 3, 3}, values = {2, 3, 3, 2}, state = {2, 3, n, 2};
        check(op::gated_delta_net, {keys, keys, values, gates, gates, state}, 3);
        check(op::gated_delta_net, {keys, keys, values, keys, gates, state}, 3);
      }
    }
  }
}

TEST_CASE("a kernel forgets by a decay of minus infinity, and what is not a number stays in its channel") {
  const Graph scan = graph_of(
      op::selective_scan,
      {{f32, {1, 1, 2}}, {f32, {1, 1, 2}}, {f32, {2, 1}}, {f32, {1, 1, 1}}, {f32, {1, 1, 1}}, {f32, {1, 2, 1}}});
  const auto one = [](float v) { return Tensor::of<float>({1, 1, 1}, {v}); };
  const auto two = [](const Shape& shape, float v, float w) { return Tensor::of<float>(shape, {v, w}); };
  const std::vector<Tensor> results =
      by_kernel(scan, {two({1, 1, 2}, 3, NAN), two({1, 1, 2}, 1, 1), two({2, 1}, -INFINITY, 0), one(1), one(1),
                       two({1, 2, 1}, 1e30F, 0)});
  for (const Tensor& t : results) CHECK((t.values<float>()[0] == 3 && std::isnan(t.values<float>()[1])));
}

TEST_CASE("what a kernel does not take stays composed on mlx, and the report says why") {
  if (!test::mlx_is_here()) return;
  const auto scan = [](DType t, Dim n) {
    return graph_of(op::selective_scan, {{t, {1, 2, 3}}, {t, {1, 2, 3}}, {t, {3, n}}, {t, {1, 2, n}}, {t, {1, 2, n}}});
  };
  const auto why = [&](DType t, Dim n) { return line_of(scan(t, n), op::selective_scan).reason; };
  CHECK(why(f64, 4).find("computes in f32") != std::string::npos);
  CHECK(why(f32, Dim::symbol("N")).find("a known size of state") != std::string::npos);
  CHECK(why(f32, 65).find("1 to 64 numbers of a state") != std::string::npos);
  CHECK(why(f32, 0).find("1 to 64 numbers of a state") != std::string::npos);
  const DispatchLine line = line_of(scan(f32, 64), op::selective_scan);
  if (line.verdict == Verdict::native) return;  // an Apple GPU
  CHECK(line.verdict == Verdict::composed);
  CHECK(line.reason.find("for Apple's GPU") != std::string::npos);
  const Dims keys = {1, 2, 1, 1024}, gates = {1, 2, 1};
  const Graph delta =
      graph_of(op::gated_delta_net, {{f16, keys}, {f16, keys}, {f16, keys}, {f16, gates}, {f16, gates}});
  CHECK(line_of(delta, op::gated_delta_net).reason.find("for Apple's GPU") != std::string::npos);
}
