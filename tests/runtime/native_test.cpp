// Ops that the CPU has kernels of its own for, in odd shapes and every dtype they take: the report says native, and the
// numbers are the reference's, with one thread and with several.
#include <doctest/doctest.h>

#include "reference/interpreter.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

using Build = std::function<Value(Values)>;

/// `tolerance` is that of difference().
void check_native(const std::vector<Type>& types, const Build& f, std::vector<Tensor> inputs = {},
                  double tolerance = -1) {
  Graph g = trace(types, f);
  std::ostringstream what;
  auto lines = dispatch_report(g, Device::cpu()).lines;
  REQUIRE(lines.size() == 1);
  print(what << lines[0].op << " of ", types);
  CHECK_MESSAGE(lines[0].verdict == Verdict::native, what.str(), ": ", lines[0].reason);
  if (inputs.empty())
    for (const Type& t : types)
      inputs.push_back(random_tensor(t.dtype, shape_of(t.dims), 5 + inputs.size(),
                                     kind_of(t.dtype) == Kind::unsigned_int ? 0 : -2, is_integer(t.dtype) ? 9 : 2));
  auto wanted = interpret(g, inputs);
  for (int threads : {1, 3})
    CHECK_MESSAGE(difference(Session(Device::cpu(), {threads}).compile(g).run_ordered(inputs), wanted, tolerance) == "",
                  what.str(), ", ", threads, " threads");
}

const std::vector<DType> kFloats = {f32, f64, f16, bf16};
const std::vector<DType> kReals = {f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64};

}  // namespace

TEST_CASE("running sums, products and maxima along any axis") {
  for (DType t : kReals)
    for (const Dims& dims : {Dims{70, 33}, Dims{3, 5, 40}, Dims{2, 0, 3}, Dims{0, 4}, Dims{200, 1}})
      for (int64_t axis = 0; axis < int64_t(dims.size()); ++axis)
        for (bool reverse : {false, true}) {
          check_native({{t, dims}}, [=](Values v) { return cumsum(v[0], axis, !reverse, reverse); });
          check_native({{t, dims}}, [=](Values v) { return cummax(v[0], axis, reverse, reverse); });
        }
  for (DType t : {f32, f64, i32, u8}) check_native({{t, {5, 17, 3}}}, [](Values v) { return cumprod(v[0], 1); });
  for (DType t : {c64, c128}) check_native({{t, {5, 17, 3}}}, [](Values v) { return cumsum(v[0], 1); });
}

TEST_CASE("places of extremes along any axis") {
  for (DType t : kReals)
    for (const Dims& dims : {Dims{70, 33}, Dims{3, 5, 40}, Dims{0, 4}, Dims{300, 2}})
      for (int64_t axis = 0; axis < int64_t(dims.size()); ++axis) {
        if (dims[size_t(axis)] == Dim(0)) continue;
        check_native({{t, dims}}, [=](Values v) { return argmax(v[0], axis); });
        check_native({{t, dims}}, [=](Values v) { return argmin(v[0], axis, true); });
      }
}

TEST_CASE("cross-entropies and their gradient, with labels that are no class among others") {
  for (DType t : kFloats)
    for (DType label : {i32, u8, i64})
      for (const Dims& dims : {Dims{70, 33}, Dims{3, 5, 40}, Dims{0, 4}, Dims{9}, Dims{300, 5}}) {
        Dims rows(dims.begin(), dims.end() - 1);
        check_native({{t, dims}, {label, rows}},
                     [](Values v) { return softmax_cross_entropy_with_logits(v[0], v[1]); });
        check_native({{t, dims}, {label, rows}, {t, rows}},
                     [](Values v) { return softmax_cross_entropy_backward(v[0], v[1], v[2]); });
        check_native({{t, dims}, {t, dims}}, [](Values v) { return softmax_cross_entropy(v[0], v[1]); });
      }
  for (DType t : {f32, f64}) {
    check_native({{t, {70, 33}}, {i32, {70}}}, [](Values v) { return nll(v[0], v[1]); });
    check_native({{t, {7, 6, 33}}, {u8, {7, 33}}}, [](Values v) { return nll(v[0], v[1], 1); });
  }
}

TEST_CASE("norms with gamma and beta by channel, and their gradient") {
  for (DType t : kFloats)
    for (const Dims& dims : {Dims{2, 6, 5}, Dims{1, 6, 40, 3}, Dims{30, 6, 2, 2, 2}, Dims{0, 6, 4}, Dims{2, 6, 0}}) {
      Type x{t, dims}, c{t, {6}};
      check_native({x, c, c}, [](Values v) { return group_norm(v[0], 3, v[1], v[2], 1e-3); });
      check_native({x, c}, [](Values v) { return group_norm(v[0], 2, v[1]); });
      check_native({x}, [](Values v) { return group_norm(v[0], 1); });
      check_native({x, c, c}, [](Values v) { return instance_norm(v[0], v[1], v[2]); });
      check_native({x, c}, [](Values v) { return instance_norm(v[0], {}, v[1], 1e-3); });
      check_native({x, c, c}, [](Values v) { return layer_norm_2d(v[0], v[1], v[2], 1e-3); });
      check_native({x}, [](Values v) { return layer_norm_2d(v[0]); });
      if (t != f32 && t != f64) continue;
      for (size_t result = 0; result < 3; ++result)
        check_native({x, c, x}, [=](Values v) {
          return group_norm_backward(v[0], v[1], v[2], GroupNormAttrs{.num_groups = 3, .epsilon = 1e-2})[result];
        });
      check_native({x, x}, [](Values v) {
        return group_norm_backward(v[0], {}, v[1], GroupNormAttrs{.has_gamma = false, .has_beta = false})[0];
      });
    }
}

TEST_CASE("padding by places of x, and resizing to the nearest place") {
  for (DType t : {f32, f64, f16, i8, u64, boolean, c128})
    for (const Dims& dims : {Dims{3, 5, 7}, Dims{2, 40, 33}, Dims{4, 3, 1}}) {
      Type x{t, dims};
      check_native({x}, [](Values v) { return pad_mode(v[0], PadMode::replicate, {0, 2, 3}, {1, 0, 9}); });
      check_native({x}, [](Values v) { return pad_mode(v[0], PadMode::reflect, {1, 2, 0}, {0, 1, 0}); });
      check_native({x}, [](Values v) { return pad_mode(v[0], PadMode::circular, {2, 3, 1}, {1, 0, 1}); });
      check_native({x}, [](Values v) { return interpolate(v[0], {9, 16}); });
      check_native({x}, [](Values v) { return interpolate(v[0], {2, 3, 2}); });
      check_native({x}, [](Values v) { return interpolate(v[0], {0}); });
      check_native({x}, [](Values v) { return resize_nearest2x(v[0]); });
    }
  check_native({{f32, {0, 4}}}, [](Values v) { return resize_nearest2x(v[0]); });
}

TEST_CASE("quantize") {
  for (DType t : {f32, f16, bf16})
    for (DType code : {i8, u8, i16, u16}) {
      QuantizeAttrs one{.axis = {}, .dtype = code}, by_row{.axis = 1, .dtype = code};
      for (const Dims& dims : {Dims{3, 5, 7}, Dims{2, 40, 33}, Dims{0, 5, 2}}) {
        Tensor x = random_tensor(t, shape_of(dims), 1, -9, 9);
        Tensor scale = random_tensor(t, {dims[1].value()}, 2, 0.01, 0.5),
               zero = random_tensor(i32, {dims[1].value()}, 3, 0, 9);
        Tensor single = random_tensor(t, {}, 4, 0.01, 0.5);
        check_native({x.type(), single.type()}, [=](Values v) { return quantize(v[0], v[1], {}, one); }, {x, single});
        check_native({x.type(), scale.type(), zero.type()},
                     [=](Values v) { return quantize(v[0], v[1], v[2], by_row); }, {x, scale, zero});
      }
    }
}

TEST_CASE("rows that choose a matrix each, and sums of outer products by segment") {
  for (DType t : kFloats)
    for (DType index : {i32, i64, u8, i16})
      for (int64_t m : {0, 1, 7, 70}) {
        const Tensor x = random_tensor(t, {m, 19}, 1, -2, 2), w = random_tensor(t, {4, 19, 33}, 2, -2, 2),
                     y = random_tensor(t, {m, 33}, 3, -2, 2),
                     at = random_tensor(index, {m}, 4, index == u8 ? 0 : -1, 5);
        check_native({x.type(), w.type(), at.type()}, [](Values v) { return grouped_matmul(v[0], v[1], v[2]); },
                     {x, w, at});
        check_native({x.type(), y.type(), at.type()}, [](Values v) { return segment_matmul(v[0], v[1], v[2], 4); },
                     {x, y, at});
      }
}

TEST_CASE("rows of one packed expert go together, as many as there are, and rows of none are NaN") {
  // Sums of 256 terms of either sign, in f32 beside f64.
  for (DType format : {q4_k, q8_0})
    for (DType t : {f32, bf16})
      for (int64_t m : {1, 30, 90}) {
        const Tensor x = random_tensor(t, {m, 256}, 1, -1, 1), w = random_tensor(format, {3, 70, 256}, 2, -1, 1),
                     at = random_tensor(i16, {m}, 3, -1, 4);
        check_native(
            {x.type(), w.type(), at.type()}, [](Values v) { return dequant_grouped_matmul(v[0], v[1], v[2]); },
            {x, w, at}, t == f32 ? 1e-5 : -1);
      }
  for (int64_t m : {1, 30, 90}) {
    const Tensor x = random_tensor(f32, {m, 64}, 1, -1, 1), w = random_tensor(i8, {3, 64, 70}, 2, -99, 99),
                 at = random_tensor(i32, {m}, 3, -1, 4), scale = random_tensor(f32, {3, 2, 70}, 4, 0, 0.01);
    check_native(
        {x.type(), w.type(), at.type(), scale.type()},
        [](Values v) { return dequant_grouped_matmul(v[0], v[1], v[2], {.scale = v[3]}, 32, true); }, {x, w, at, scale},
        1e-5);
  }
}

TEST_CASE("rows added where indices say, some of them nowhere") {
  for (DType t : {f32, f64, i8, i64, u16, c64})
    for (DType index : {i32, i64, u8}) {
      for (const Dims& dims : {Dims{40, 5}, Dims{40, 33}, Dims{40}}) {
        Tensor x = random_tensor(t, shape_of(dims), 1, 0, 9),
               at = random_tensor(index, {40}, 2, index == u8 ? 0 : -2, 12);
        check_native({x.type(), at.type()}, [](Values v) { return scatter_add_rows(v[0], v[1], 9, 0); }, {x, at});
      }
      Tensor x = random_tensor(t, {3, 4, 5, 6}, 1, 0, 9), at = random_tensor(index, {4, 5}, 2, 0, 9);
      check_native({x.type(), at.type()}, [](Values v) { return scatter_add_rows(v[0], v[1], 7, 1); }, {x, at});
      check_native({{t, {3, 0, 5, 6}}, {index, {0, 5}}}, [](Values v) { return scatter_add_rows(v[0], v[1], 7, 1); });
    }
}
