#include "bench/product_accuracy/products.h"

#include <algorithm>
#include <cmath>

#include "kernels/conv/onednn.h"

#if RLX_HAS_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

extern "C" {
void sgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k, const float* alpha,
            const float* a, const int* lda, const float* b, const int* ldb, const float* beta, float* c, const int* ldc,
            size_t, size_t);
void dgemm_(const char* trans_a, const char* trans_b, const int* m, const int* n, const int* k, const double* alpha,
            const double* a, const int* lda, const double* b, const int* ldb, const double* beta, double* c,
            const int* ldc, size_t, size_t);
}

namespace rlx::accuracy {
namespace {

/// A row-major product by a BLAS, whose matrices are column-major: y' = w' x'.
template <class T, class Gemm>
std::vector<T> by_blas(Gemm gemm, std::span<const T> x, std::span<const T> w, const ProductSize& s) {
  std::vector<T> y(static_cast<size_t>(s.m * s.n));
  const int m = static_cast<int>(s.m), n = static_cast<int>(s.n), k = static_cast<int>(s.k);
  const T one = 1, zero = 0;
  gemm(s.turned ? "T" : "N", "N", &n, &m, &k, &one, w.data(), s.turned ? &k : &n, x.data(), &k, &zero, y.data(), &n,
       size_t{1}, size_t{1});
  return y;
}

std::vector<float> by_onednn(std::span<const float> x, std::span<const float> w, const ProductSize& s) {
  std::vector<float> y(static_cast<size_t>(s.m * s.n));
#if RLX_HAS_ONEDNN
  const kernels::SingleThreadedOpenMp guard;
  using dnnl::memory;
  constexpr auto kF32 = memory::data_type::f32;
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const memory::desc x_type({s.m, s.k}, kF32, memory::dims{s.k, 1}), y_type({s.m, s.n}, kF32, memory::dims{s.n, 1});
  const memory::desc w_type({s.k, s.n}, kF32, s.turned ? memory::dims{1, s.k} : memory::dims{s.n, 1});
  const memory::desc packed_type({s.k, s.n}, kF32, memory::format_tag::any);
  const dnnl::matmul::primitive_desc plan(engine, x_type, packed_type, y_type);
  memory x_memory(x_type, engine, const_cast<float*>(x.data())), w_memory(w_type, engine, const_cast<float*>(w.data()));
  memory packed(plan.weights_desc(), engine), y_memory(y_type, engine, y.data());
  dnnl::reorder(w_memory, packed).execute(stream, w_memory, packed);
  dnnl::matmul(plan).execute(stream, {{DNNL_ARG_SRC, x_memory}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, y_memory}});
  stream.wait();
#else
  (void)x, (void)w;
#endif
  return y;
}

}  // namespace

std::vector<float> product(Peer peer, std::span<const float> x, std::span<const float> w, ProductSize size) {
  return peer == Peer::openblas ? by_blas<float>(sgemm_, x, w, size) : by_onednn(x, w, size);
}
std::vector<double> product(std::span<const double> x, std::span<const double> w, ProductSize size) {
  return by_blas<double>(dgemm_, x, w, size);
}

std::vector<double> widened(std::span<const float> values) { return {values.begin(), values.end()}; }
std::vector<double> magnitudes(std::span<const double> values) {
  std::vector<double> all(values.begin(), values.end());
  for (double& v : all) v = std::fabs(v);
  return all;
}
std::vector<float> transposed(const Matrix& m) {
  std::vector<float> turned(m.values.size());
  for (int64_t i = 0; i < m.rows; ++i)
    for (int64_t j = 0; j < m.cols; ++j) turned[static_cast<size_t>(j * m.rows + i)] = m.at(i, j);
  return turned;
}

void set_units(std::vector<double>& unit, const std::vector<double>& magnitude) {
  unit = magnitude;
  for (double& v : unit) v = 0x1p-24 * v + 0x1p-150;
}

void scale_below(std::span<float> values, double most, double limit) {
  if (!(most > limit)) return;
  const int exponent = -static_cast<int>(std::ceil(std::log2(most / limit)));
  for (float& v : values) v = std::ldexp(v, exponent);
}

}  // namespace rlx::accuracy
