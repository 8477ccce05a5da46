// matmul, x [m, k] times w [k, n], and linear, whose w is [n, k].
#include "bench/product_accuracy/products.h"

namespace rlx::accuracy {
namespace {

struct ProductCase final : Case {
  ProductSize size;

  ProductCase(const ProductSize& s, const Filling& filling, Random& random) : size(s) {
    Matrix x(s.m, s.k), w(s.k, s.n);
    filling.rows(x, random), filling.weights(w, random);
    terms = s.k, is_exact = filling.one_hot;
    operands = {{"x", {s.m, s.k}, std::move(x.values)}, {"w", {s.k, s.n}, {}, true}};
    if (s.turned) operands[1].dims = {s.n, s.k}, operands[1].values = transposed(w);
    else operands[1].values = std::move(w.values);
    const std::vector<double> left = widened(operands[0].values), right = widened(operands[1].values);
    exact = product(left, right, s);
    set_units(unit, product(magnitudes(left), magnitudes(right), s));
  }
  std::vector<Value> build(const std::vector<Value>& v) const override {
    return {size.turned ? linear(v[0], v[1]) : matmul(v[0], v[1])};
  }
  std::vector<float> by_peer(Peer peer) const override {
    return product(peer, operands[0].values, operands[1].values, size);
  }
};

Problem product_problem(const ProductSize& s) {
  return {text_of(s.m, 'x', s.k, 'x', s.n), static_cast<unsigned>(s.m * 31 + s.k * 7 + s.n),
          [s](const Filling& f, Random& r) { return std::make_unique<ProductCase>(s, f, r); }};
}

// Around where kernels change: few rows and many, k that no vector divides, and long sums.
template <bool kTurned>
std::vector<Problem> products() {
  std::vector<Problem> all;
  for (ProductSize s :
       {ProductSize{1, 64, 48}, ProductSize{1, 4096, 256}, ProductSize{11, 256, 128}, ProductSize{12, 256, 128},
        ProductSize{16, 384, 384}, ProductSize{17, 97, 81}, ProductSize{33, 1000, 77}, ProductSize{64, 1536, 384},
        ProductSize{128, 384, 512}, ProductSize{24, 4096, 96}, ProductSize{40, 20000, 64}}) {
    s.turned = kTurned;
    all.push_back(product_problem(s));
  }
  return all;
}

template <bool kTurned>
Problem random_product(Random& r) {
  ProductSize s{mostly_small(r, 1, 160), mostly_small(r, 1, 3000), mostly_small(r, 1, 400), kTurned};
  if (r() % 4 == 0) s.k = 1 + (s.k - 1) % 64;
  return product_problem(s);
}

}  // namespace

const Op kMatmul{"matmul", products<false>, random_product<false>};
const Op kLinear{"linear", products<true>, random_product<true>};

}  // namespace rlx::accuracy
