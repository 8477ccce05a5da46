// What a MilBuilder refuses, and what it says then; after each refusal the program is as it was.
#include <doctest/doctest.h>

#include <limits>

#include "rlx/mil_builder.h"
#include "support/io_files.h"

namespace rlx::test {
namespace {

using MilValues = std::vector<MilValue>;

/// A builder with what the mistakes need.
struct Ready {
  MilBuilder b;
  MilValue x, half, n, ids, on;
  explicit Ready(int ios = 0) : b({.minimum_ios = ios}) {
    x = b.input("x", {f32, {2, 3}});
    if (ios != 15) half = b.input("half", {f16, {2, 3}});
    n = b.input("n", {i32, {1}});
    ids = b.input("ids", {i32, {2}});
    on = b.op("greater", {{"x", b.op("squeeze", {{"x", n}, {"axes", {0}}})}, {"y", 0}}, "on");
  }
};

struct Mistake {
  const char* what;
  std::function<void(Ready&)> make;
  ErrorCode code;
  std::vector<const char*> says;
  int ios = 0;
};

const std::vector<Mistake>& mistakes() {
  using E = ErrorCode;
  static const std::vector<Mistake> all = {
      {"an op that there is not",
       [](Ready& r) {
         r.b.op("relue", {{"x", r.x}});
       },
       E::not_found,
       {"MIL has no op 'relue'; the nearest are 'relu'", "while adding relue"}},
      {"an op of a newer system",
       [](Ready& r) {
         r.b.op("scaled_dot_product_attention", {{"query", r.x}, {"key", r.x}, {"value", r.x}});
       },
       E::unsupported,
       {"is there from CoreML8 on, not in CoreML7: ask for a minimum_ios of 18"},
       17},
      {"an argument that the op has not",
       [](Ready& r) {
         r.b.op("leaky_relu", {{"x", r.x}, {"alfa", 0.1}});
       },
       E::invalid_argument,
       {"there is no parameter 'alfa' in CoreML8; the nearest are 'alpha' and 'x': leaky_relu(x, alpha)",
        "the parameter 'alpha' is missing"}},
      {"an argument of a newer system",
       [](Ready& r) {
         r.b.op("gather", {{"x", r.x}, {"indices", r.ids}, {"validate_indices", false}});
       },
       E::invalid_argument,
       {"no parameter 'validate_indices' in CoreML6; it is there from CoreML7"},
       16},
      {"an argument of an older system",
       [](Ready& r) {
         r.b.op_many(
             "non_maximum_suppression",
             {{"boxes", r.x}, {"scores", r.x}, {"iou_threshold", 0.5}, {"score_threshold", 0.5}, {"max_boxes", 3}});
       },
       E::invalid_argument,
       {"no parameter 'score_threshold' in CoreML8; it is there up to CoreML6"},
       18},
      {"an argument that is missing",
       [](Ready& r) {
         r.b.op("add", {{"x", r.x}});
       },
       E::invalid_argument,
       {"the parameter 'y' is missing; it takes fp16, fp32, int32"}},
      {"an argument that is given twice",
       [](Ready& r) {
         r.b.op("add", {{"x", r.x}, {"y", 1}, {"y", 2}});
       },
       E::invalid_argument,
       {"'y' is given twice"}},
      {"a dtype that the op does not take",
       [](Ready& r) {
         r.b.op("relu", {{"x", r.n}});
       },
       E::shape_mismatch,
       {"'x' is of int32; it takes fp16, fp32"}},
      {"two dtypes that are to be one",
       [](Ready& r) {
         r.b.op("add", {{"x", r.x}, {"y", r.half}});
       },
       E::shape_mismatch,
       {"'y' is of fp16 and 'x' of fp32; they are to be of one"}},
      {"text for a number",
       [](Ready& r) {
         r.b.op("softmax", {{"x", r.x}, {"axis", "last"}});
       },
       E::shape_mismatch,
       {"'axis' is the text 'last'; it takes int32"}},
      {"a number for text",
       [](Ready& r) {
         r.b.op("gelu", {{"x", r.x}, {"mode", 1}});
       },
       E::shape_mismatch,
       {"'mode' is a number; it takes string"}},
      {"a fraction for an integer",
       [](Ready& r) {
         r.b.op("softmax", {{"x", r.x}, {"axis", 0.5}});
       },
       E::shape_mismatch,
       {"'axis' is a number with a fraction; it takes int32"}},
      {"a bool for a number",
       [](Ready& r) {
         r.b.op("softmax", {{"x", r.x}, {"axis", true}});
       },
       E::shape_mismatch,
       {"'axis' is a bool; it takes int32"}},
      {"a number for a bool",
       [](Ready& r) {
         r.b.op("matmul", {{"x", r.x}, {"y", r.x}, {"transpose_y", 1}});
       },
       E::shape_mismatch,
       {"'transpose_y' is a number; it takes bool"}},
      {"a number that its dtype has not",
       [](Ready& r) {
         r.b.op("rsqrt", {{"x", r.half}, {"epsilon", 1e-12}});
       },
       E::shape_mismatch,
       {"'epsilon' is 1e-12, which fp16 does not hold: it would be 0; give a Tensor"}},
      {"an integer that its dtype has not",
       [](Ready& r) {
         r.b.op("softmax", {{"x", r.x}, {"axis", int64_t{1} << 40}});
       },
       E::shape_mismatch,
       {"'axis' is 1.09951e+12, which int32 does not hold"}},
      {"a value that is computed for a constant",
       [](Ready& r) {
         r.b.op("softmax", {{"x", r.x}, {"axis", r.b.op("squeeze", {{"x", r.n}, {"axes", {0}}})}});
       },
       E::invalid_argument,
       {"'axis' is to be a constant, and 'squeeze_1' is computed"}},
      {"several values for one",
       [](Ready& r) {
         r.b.op("relu", {{"x", MilValues{r.x, r.x}}});
       },
       E::invalid_argument,
       {"'x' takes one value, and is given 2"}},
      {"shapes that do not fit",
       [](Ready& r) {
         r.b.op("matmul", {{"x", r.x}, {"y", r.x}}, "product");
       },
       E::shape_mismatch,
       {"f32[2, 3]", "while adding matmul 'product'"}},
      {"an axis that the tensor has not",
       [](Ready& r) {
         r.b.op("softmax", {{"x", r.x}, {"axis", 7}});
       },
       E::invalid_argument,
       {"7"}},
      {"a state for a tensor",
       [](Ready& r) {
         r.b.op("relu", {{"x", r.b.state("kept", {f16, {2}})}});
       },
       E::shape_mismatch,
       {"'x' is state(fp16[2]); it takes a tensor of fp16, fp32"}},
      {"a tensor for a state",
       [](Ready& r) {
         r.b.op("read_state", {{"input", r.x}});
       },
       E::shape_mismatch,
       {"'input' is fp32[2, 3]; it takes a state"}},
      {"a name that is taken",
       [](Ready& r) {
         r.b.op("relu", {{"x", r.x}}, "half");
       },
       E::invalid_argument,
       {"the name 'half' is taken in this function"}},
      {"a name that is no identifier",
       [](Ready& r) {
         r.b.op("relu", {{"x", r.x}}, "1st");
       },
       E::invalid_argument,
       {"the name '1st' is no identifier: letters, digits, '_' and '@', no digit first"}},
      {"no value at all",
       [](Ready& r) {
         r.b.op("relu", {{"x", MilValue()}});
       },
       E::invalid_argument,
       {"'x' is no value"}},
      {"a value of another program",
       [](Ready& r) {
         Ready other;
         r.b.op("relu", {{"x", other.x}});
       },
       E::invalid_argument,
       {"'x' 'x' is of another program"}},
      {"a value of another function",
       [](Ready& r) {
         r.b.output(r.b.op("relu", {{"x", r.x}}));
         r.b.function("second");
         r.b.op("relu", {{"x", r.x}});
       },
       E::invalid_argument,
       {"'x' is of another function, or of a block that has ended"}},
      {"a value of a branch, behind it",
       [](Ready& r) {
         MilValue inside;
         r.b.cond(
             r.on,
             [&] {
               return MilValues{inside = r.b.op("relu", {{"x", r.x}})};
             },
             [&] { return MilValues{r.x}; });
         r.b.op("relu", {{"x", inside}});
       },
       E::invalid_argument,
       {"a block that has ended; only the results of a block count behind it"}},
      {"a pred that is no bool",
       [](Ready& r) {
         r.b.cond(
             r.x, [&] { return MilValues{r.x}; }, [&] { return MilValues{r.x}; });
       },
       E::shape_mismatch,
       {"the pred 'x' is fp32[2, 3]; it is to be bool[]: compare it"}},
      {"a pred that is no scalar",
       [](Ready& r) {
         r.b.cond(
             r.b.op("greater", {{"x", r.n}, {"y", 0}}), [&] { return MilValues{r.x}; }, [&] { return MilValues{r.x}; });
       },
       E::shape_mismatch,
       {"is bool[1]; it is to be bool[]: squeeze it"}},
      {"branches of two types",
       [](Ready& r) {
         r.b.cond(
             r.on, [&] { return MilValues{r.x}; },
             [&] {
               return MilValues{r.b.op("transpose", {{"x", r.x}, {"perm", {1, 0}}})};
             });
       },
       E::shape_mismatch,
       {"the branches give result 0 as fp32[2, 3] and fp32[3, 2]"}},
      {"branches of other counts",
       [](Ready& r) {
         r.b.cond(
             r.on, [&] { return MilValues{r.x}; },
             [&] {
               return MilValues{r.x, r.x};
             });
       },
       E::invalid_argument,
       {"the branches give 1 and 2 results"}},
      {"a loop that carries what grows",
       [](Ready& r) {
         r.b.while_loop(
             {r.x}, [&](const MilValues&) { return r.on; },
             [&](const MilValues& v) {
               return MilValues{r.b.op("concat", {{"values", {v[0], r.x}}, {"axis", 0}})};
             });
       },
       E::shape_mismatch,
       {"the loop carries 'x' as fp32[2, 3], and the body gives fp32[4, 3]; a dim that changes is a symbol"}},
      {"a body of other counts",
       [](Ready& r) {
         r.b.while_loop(
             {r.x}, [&](const MilValues&) { return r.on; }, [&](const MilValues&) { return MilValues{}; });
       },
       E::invalid_argument,
       {"the loop has 1 vars, and the body gives 0"}},
      {"an end without a beginning",
       [](Ready& r) { r.b.end_cond({r.x}); },
       E::invalid_argument,
       {"end_cond without a begin_else before it"}},
      {"control flow as an op",
       [](Ready& r) {
         r.b.op("cond", {{"pred", r.on}});
       },
       E::invalid_argument,
       {"'cond' has blocks; the builder's own cond makes it"}},
      {"a stated type that is wrong",
       [](Ready& r) {
         r.b.op("relu", {{"x", r.x}}, "", {{f32, {3, 3}}});
       },
       E::shape_mismatch,
       {"its result is stated as fp32[3, 3], and is fp32[2, 3]"}},
      {"a type that data decide",
       [](Ready& r) {
         r.b.op("non_zero", {{"x", r.x}});
       },
       E::unsupported,
       {"`types` may state it", "while adding non_zero"}},
      {"two symbols that are to be one",
       [](Ready& r) {
         const Type one{f32, {Dim::symbol("N"), 3}}, other{f32, {Dim::symbol("M"), 3}};
         r.b.op("add", {{"x", r.b.input("one", one)}, {"y", r.b.input("other", other)}});
       },
       E::unsupported,
       {"sizes that are equal want one symbol, or `types` may state it"}},
      {"compressed weights that are computed",
       [](Ready& r) {
         r.b.op("constexpr_affine_dequantize", {{"quantized_data", Tensor(i8, {2, 2})},
                                                {"zero_point", Tensor::scalar(int8_t{0})},
                                                {"scale", r.b.op("relu", {{"x", r.x}})},
                                                {"axis", 0}});
       },
       E::shape_mismatch,
       {"'scale' is computed by 'relu_0'; in CoreML8 it stands in the place: give a Tensor"}},
      {"a name that the results of a loop have",
       [](Ready& r) {
         r.b.op("relu", {{"x", r.x}}, "loop_1");
         r.b.while_loop(
             {r.x, r.n}, [&](const MilValues&) { return r.on; }, [&](const MilValues& v) { return v; }, "loop");
       },
       E::invalid_argument,
       {"the name 'loop_1' is taken in this function"}},
      {"an op of an old system beside one of a new",
       [](Ready& r) {
         MilBuilder b;
         MilValues kept = b.op_many("non_maximum_suppression",
                                    {{"boxes", b.input("boxes", {f32, {1, 3, 4}})},
                                     {"scores", b.input("scores", {f32, {1, 3, 1}})},
                                     {"iou_threshold", 0.5},
                                     {"score_threshold", 0.5},
                                     {"max_boxes", 3}},
                                    "nms");
         b.output(kept[0]);
         CHECK(b.report().minimum_ios == 15);
         MilValue kept_state = b.state("kept", {f16, {2}});
         CHECK(b.op("read_state", {{"input", kept_state}}).type() == Type{f16, {2}});
         (void)r;
         b.report();
       },
       E::invalid_argument,
       {"Core ML would refuse the program: main/non_maximum_suppression 'nms': there is no parameter 'score_threshold' "
        "in CoreML8; it is there up to CoreML6",
        "it is of CoreML8, which a state needs"}},
      {"several results for one",
       [](Ready& r) {
         r.b.op("split", {{"x", r.x}, {"num_splits", 2}, {"axis", 0}});
       },
       E::invalid_argument,
       {"'split' gives 2 results, which `op_many` has"}},
      {"an input of a dtype that Core ML does not pass",
       [](Ready& r) {
         r.b.input("i", {i64, {2}});
       },
       E::unsupported,
       {"it is i64[2]; inputs are f32, f16 or i32", "while adding the input 'i'"}},
      {"an input of no dims",
       [](Ready& r) {
         r.b.input("i", {f32, {}});
       },
       E::unsupported,
       {"a scalar is [1]"}},
      {"an input of f16 on iOS 15",
       [](Ready& r) {
         r.b.input("h", {f16, {2}});
       },
       E::unsupported,
       {"an input of fp16 needs iOS 16, and the program is for iOS 15: ask for a minimum_ios of 16"},
       15},
      {"sizes of no symbol",
       [](Ready& r) {
         r.b.input("i", {f32, {2}}, {.sizes = {{"N", {}}}});
       },
       E::not_found,
       {"sizes are given for N, which is no dim of f32[2]"}},
      {"a dim that is no plain symbol",
       [](Ready& r) {
         r.b.input("i", {f32, {Dim::symbol("N") * 2}});
       },
       E::unsupported,
       {"is no plain symbol"}},
      {"a state of f32",
       [](Ready& r) {
         r.b.state("s", {f32, {2}});
       },
       E::unsupported,
       {"it is f32[2]; states are f16"}},
      {"an output of a dtype that Core ML does not pass",
       [](Ready& r) { r.b.output(r.on); },
       E::unsupported,
       {"it is bool[]; outputs are fp32, fp16 or int32: cast it first"}},
      {"an input as an output without a name",
       [](Ready& r) { r.b.output(r.x); },
       E::invalid_argument,
       {"'x' is an input; give a name to the output"}},
      {"a constant of a dtype that programs have not",
       [](Ready& r) { r.b.constant(Tensor(c64, {2})); },
       E::unsupported,
       {"an ML Program has no elements of c64"}},
      {"nothing that comes out",
       [](Ready& r) { r.b.report(); },
       E::invalid_argument,
       {"the function 'main' has no output"}},
      {"a block that is open at the end",
       [](Ready& r) {
         r.b.output(r.b.op("relu", {{"x", r.x}}));
         r.b.begin_cond(r.on, "open");
         r.b.report();
       },
       E::invalid_argument,
       {"has a block that is open: end the cond 'open' first"}},
      {"one function that is not called main",
       [](Ready&) {
         MilBuilder b;
         b.function("decode");
         b.output(b.op("relu", {{"x", b.input("x", {f32, {2}})}}));
         b.report();
       },
       E::invalid_argument,
       {"the only function is called 'decode'; that of a program with one is called 'main'"}},
      {"several functions on iOS 17",
       [](Ready& r) { r.b.function("second"); },
       E::unsupported,
       {"a program of several functions needs iOS 18"},
       17},
      {"a system that there is not",
       [](Ready&) { MilBuilder({.minimum_ios = 14}); },
       E::invalid_argument,
       {"minimum_ios is 14; it must be 15 to 18, or 0"}},
  };
  return all;
}

}  // namespace

TEST_CASE("a mistake in building is named where it is made, with what was given and what is taken") {
  CHECK(mistakes().size() >= 50);
  for (const Mistake& mistake : mistakes()) {
    CAPTURE(std::string(mistake.what));
    Ready r(mistake.ios);
    Error e = error_of([&] { mistake.make(r); });
    INFO(e.what());
    CHECK(e.code() == mistake.code);
    for (const char* part : mistake.says) CHECK_MESSAGE(std::string(e.what()).find(part) != std::string::npos, part);
  }
}

TEST_CASE("a call that is refused leaves the program as it was") {
  auto built = [](bool with_mistakes) {
    Ready r;
    auto wrong = [&](const std::function<void()>& f) {
      if (with_mistakes) error_of(f);
    };
    wrong([&] { r.b.op("conv", {{"x", r.x}, {"weight", Tensor(f32, {2, 2})}}, "y"); });
    wrong([&] { r.b.op("add", {{"x", r.x}, {"y", "one"}}, "y"); });
    wrong([&] { r.b.input("z", {f64, {2}}); });
    wrong([&] {
      r.b.cond(
          r.on,
          [&] {
            return MilValues{r.b.op("relu", {{"x", r.x}}, "y")};
          },
          [&] { return MilValues{r.n}; }, "branch");
    });
    wrong([&] {
      r.b.while_loop(
          {r.x}, [&](const MilValues&) { return r.on; },
          [&](const MilValues& v) -> MilValues {
            return {r.b.op("tanh", {{"x", v[0]}, {"y", v[0]}}, "y")};
          },
          "branch");
    });
    wrong([&] { r.b.op("relu", {{"x", r.n}}); });
    wrong([&] { r.b.op("split", {{"x", r.x}, {"num_splits", 2}, {"axis", 0}}, "y"); });
    wrong([&] { r.b.output(r.on); });
    wrong([&] { r.b.op("scaled_dot_product_attention", {{"query", r.x}}, "y"); });
    MilValue y = r.b.op("add", {{"x", r.x}, {"y", 1}}, "y");
    r.b.output(r.b.cond(
        r.on, [&] { return MilValues{r.x}; }, [&] { return MilValues{y}; }, "branch")[0]);
    return std::tuple(r.b.report().model_bytes, r.b.report().minimum_ios, r.b.op("relu", {{"x", y}}).name());
  };
  CHECK(built(true) == built(false));
}

TEST_CASE("what each op takes is told") {
  CHECK(mil_ops().size() == 168);
  CHECK(mil_signature("clip") == "clip(x, alpha, beta)");
  for (const int ios : {std::numeric_limits<int>::min(), 14, 19})
    CHECK(error_of([ios] { mil_signature("clip", ios); }).what() ==
          doctest::Contains("ML Programs are for iOS 15 to 18"));
  CHECK(mil_signature("softmax", 15) == "softmax(x, axis?)");
  CHECK(error_of([] { mil_signature("read_state", 17); }).what() == doctest::Contains("from CoreML8 on"));
}

}  // namespace rlx::test
