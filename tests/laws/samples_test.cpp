// The samples themselves: laws say something of an op only where its samples reach. At least four an op, one of them in
// low precision, one of an odd shape.
#include <doctest/doctest.h>

#include <set>

#include "ir/leaves.h"
#include "support/laws.h"

using namespace rlx;

namespace {

constexpr size_t kLeastSamples = 4;

bool is_leaf(const OpDef* op) { return op == &op::input || op == &op::param || op == &op::constant; }

/// Narrower than the 32 bits that a program usually computes in: f16, bf16, 8-bit floats and blocks, integers of at
/// most 16 bits.
bool is_low(DType t) {
  if (is_block(t)) return true;
  return t != boolean && !is_complex(t) && info(t).bits <= 16;
}
/// Rank 0, or an extent of 0, of 1, or of an odd number.
bool is_odd(const Dims& dims) {
  return dims.empty() || std::any_of(dims.begin(), dims.end(), [](const Dim& d) {
           return d.is_static() && (d.value() == 0 || d.value() % 2 == 1);
         });
}

/// The types of operands and results in every dtype in which the laws run the sample.
std::vector<std::vector<Type>> types_of(const OpDef& op, const Sample& s) {
  std::vector<std::vector<Type>> all;
  for (const laws::Case& c : laws::cases_of(op, s)) {
    auto types = infer_types(op, c.types, c.attrs);
    types.insert(types.begin(), c.types.begin(), c.types.end());
    all.push_back(std::move(types));
  }
  return all;
}
bool reaches(const OpDef& op, bool (*wanted)(const Type&)) {
  for (const Sample& s : op.samples())
    for (const auto& types : types_of(op, s))
      if (std::any_of(types.begin(), types.end(), wanted)) return true;
  return false;
}

/// Ops that take no narrow dtype at all, and why.
struct Exception {
  std::string_view op, why;
};
constexpr std::string_view kComplexIsWide = "complex numbers are pairs of f32 or of f64";
constexpr std::string_view kLapackIsWide = "factorizations are of f32 and f64, as LAPACK's are";
constexpr std::string_view kSpectraAreWide = "functions of matrices are made of eigenvalues, which are of f32 and f64";
constexpr std::string_view kKeysAreWords = "a key is two words of 32 bits, and so are keys and places made of it";
constexpr std::string_view kFixedPointIsWide = "numbers in fixed point are 32 bits, their products 64";
constexpr Exception kNoLowPrecision[] = {
    {"real", kComplexIsWide},
    {"imag", kComplexIsWide},
    {"complex", kComplexIsWide},
    {"conjugate", kComplexIsWide},
    {"complex_norm_sq", kComplexIsWide},
    {"complex_norm_sq_backward", kComplexIsWide},
    {"fft", kComplexIsWide},
    {"fft_q", kFixedPointIsWide},
    {"rng_split", kKeysAreWords},
    {"rng_permutation", kKeysAreWords},
    {"lu", kLapackIsWide},
    {"cholesky", kLapackIsWide},
    {"geqrf", kLapackIsWide},
    {"householder_product", kLapackIsWide},
    {"qr", kLapackIsWide},
    {"triangular_solve", kLapackIsWide},
    {"solve", kLapackIsWide},
    {"inverse", kLapackIsWide},
    {"det", kLapackIsWide},
    {"slogdet", kLapackIsWide},
    {"eigh", kLapackIsWide},
    {"eigh_backward", kLapackIsWide},
    {"svd", kLapackIsWide},
    {"eig", kLapackIsWide},
    {"pinv", kLapackIsWide},
    {"lstsq", kLapackIsWide},
    {"expm", kLapackIsWide},
    {"bimap", kSpectraAreWide},
    {"reeig", kSpectraAreWide},
    {"reeig_backward", kSpectraAreWide},
    {"logeig", kSpectraAreWide},
    {"logeig_backward", kSpectraAreWide},
    {"spd_matrix_fn", kSpectraAreWide},
    {"spd_matrix_fn_backward", kSpectraAreWide},
    {"spd_matrix_fn_hessian", kSpectraAreWide},
    {"spd_log_map", kSpectraAreWide},
    {"spd_log_map_backward", kSpectraAreWide},
    {"spd_exp_map", kSpectraAreWide},
    {"spd_exp_map_backward", kSpectraAreWide},
    {"spd_parallel_transport", kSpectraAreWide},
    {"spd_parallel_transport_backward", kSpectraAreWide},
    {"spd_batch_norm", kSpectraAreWide},
    {"spd_batch_norm_backward", kSpectraAreWide},
    {"spd_karcher_mean", kSpectraAreWide},
    {"spd_karcher_mean_backward", kSpectraAreWide},
    {"spd_karcher_solve", kSpectraAreWide},
};

}  // namespace

TEST_CASE("every op has at least four samples") {
  size_t samples = 0, ops = 0;
  for (const OpDef* op : all_ops()) {
    if (is_leaf(op)) continue;
    ++ops, samples += op->samples().size();
    CHECK_MESSAGE(op->samples().size() >= kLeastSamples, op->name, " has ", op->samples().size());
  }
  MESSAGE(samples, " samples of ", ops, " ops");
}

TEST_CASE("every op is sampled in low precision, but for those that take none") {
  std::set<std::string_view> excepted;
  for (const Exception& e : kNoLowPrecision) excepted.insert(e.op);
  MESSAGE(excepted.size(), " ops take no low precision");
  auto is_low_type = [](const Type& t) { return is_low(t.dtype); };
  for (const OpDef* op : all_ops()) {
    if (is_leaf(op)) continue;
    bool low = reaches(*op, is_low_type);
    if (excepted.erase(op->name) > 0) CHECK_MESSAGE(!low, op->name, " is sampled in low precision: it is no exception");
    else CHECK_MESSAGE(low, op->name, " has no sample in low precision");
  }
  for (std::string_view name : excepted) FAIL_CHECK("there is no op ", name);
}

TEST_CASE("every op is sampled at an odd shape") {
  for (const OpDef* op : all_ops())
    if (!is_leaf(op))
      CHECK_MESSAGE(reaches(*op, [](const Type& t) { return is_odd(t.dims); }), op->name, " has only even shapes");
}

TEST_CASE("what is counted as low and as odd is") {
  for (DType t : {f16, bf16, i8, q4_0, f8e4m3fn}) CHECK(is_low(t));
  for (DType t : {f32, i32, u32, boolean, c64}) CHECK(!is_low(t));
  for (const Dims& dims : {Dims{}, Dims{4, 0}, Dims{1, 8}, Dims{2, 3}}) CHECK(is_odd(dims));
  for (const Dims& dims : {Dims{2, 8}, Dims{Dim::symbol("N")}}) CHECK(!is_odd(dims));
}
