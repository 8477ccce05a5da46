// LSTM: one layer for one step and for some, with states to start from or without; x from the rows' distribution, both
// weight matrices from the weights'. Measured are the states h of all steps and the last cells c.
//
// The unit of an element is a running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, 3.3) of
// first order: each operation adds one rounding, 2^-24 of its result (and 2^-150, half the least subnormal number), to
// what its operands' units move it by. With E(v) for the unit of v,
//
//   a = W x + U h + b       E(a) = sum |W| |x| + sum |U| (|h| + E(h)) + |b|         in units of 2^-24
//   i = sigmoid(a)          E(i) = i (1 - i) E(a) + i,    E(tanh a) = (1 - tanh^2 a) E(a) + |tanh a|
//   c' = f c + i g          E(c') = E(f) |c| + f E(c) + E(i) |g| + i E(g) + |f c| + |i g|
//   h' = o tanh(c')         likewise
//
// First order means small E(a): x is divided by a power of two where sum |W| |x| would exceed 2^6, and U likewise. At
// most four steps, as errors grow from step to step.
#include <algorithm>
#include <cmath>

#include "bench/product_accuracy/products.h"

namespace rlx::accuracy {
namespace {

constexpr double kUnit = 0x1p-24;

struct LstmSize {
  int64_t batch = 1, steps = 1, inputs = 1, hidden = 1;
  bool has_state = false, has_bias = false;

  int64_t gates() const { return 4 * hidden; }
  std::string text() const {
    return text_of(batch, 'x', steps, 'x', inputs, " to ", hidden, has_state ? " from a state" : "",
                   has_bias ? " with bias" : "");
  }
};

/// A number and its unit, in units of 2^-24.
struct Measured {
  double value = 0, unit = 0;
};
double rounding(double value) { return std::fabs(value) + 0x1p-126; }
Measured operator+(Measured a, Measured b) {
  const double sum = a.value + b.value;
  return {sum, a.unit + b.unit + rounding(sum)};
}
Measured operator*(Measured a, Measured b) {
  const double y = a.value * b.value;
  return {y, a.unit * std::fabs(b.value) + std::fabs(a.value) * b.unit + rounding(y)};
}
Measured sigmoid_of(Measured a) {
  const double y = 1 / (1 + std::exp(-a.value));
  return {y, y * (1 - y) * a.unit + rounding(y)};
}
Measured tanh_of(Measured a) {
  const double y = std::tanh(a.value);
  return {y, (1 - y * y) * a.unit + rounding(y)};
}
float sigmoid_of(float a) { return 1 / (1 + std::exp(-a)); }
float tanh_of(float a) { return std::tanh(a); }

/// One sequence's step: h and c of `hidden` elements from the gates' sums i, f, g, o.
template <class T>
void step(const std::vector<T>& sums, T* h, T* c, int64_t hidden) {
  for (int64_t j = 0; j < hidden; ++j) {
    const auto at = [&](int64_t gate) { return sums[static_cast<size_t>(gate * hidden + j)]; };
    c[j] = sigmoid_of(at(1)) * c[j] + sigmoid_of(at(0)) * tanh_of(at(2));
    h[j] = sigmoid_of(at(3)) * tanh_of(c[j]);
  }
}

struct LstmCase final : Case {
  LstmSize size;

  LstmCase(const LstmSize& s, const Filling& filling, Random& random) : size(s) {
    Matrix x(s.batch * s.steps, s.inputs), w(s.inputs, s.gates()), u(s.hidden, s.gates());
    filling.rows(x, random), filling.weights(w, random), filling.weights(u, random);
    terms = s.inputs + s.hidden;
    limit_sums(x, w, u);
    const auto draw = [&](int64_t count, float most) {
      std::vector<float> all(static_cast<size_t>(count));
      for (float& v : all) v = uniform(random, -most, most);
      return all;
    };
    const Shape states{1, s.batch, s.hidden};
    operands = {{"x", {s.batch, s.steps, s.inputs}, std::move(x.values)},
                {"w_ih", {s.gates() * s.inputs}, transposed(w), true},
                {"w_hh", {s.gates() * s.hidden}, transposed(u), true},
                {"bias", {s.gates()}, draw(s.gates(), s.has_bias ? 1.0f : 0.0f), true},
                {"h0", states, draw(s.batch * s.hidden, s.has_state ? 1.0f : 0.0f)},
                {"c0", states, draw(s.batch * s.hidden, s.has_state ? 2.0f : 0.0f)}};
    for (const Measured& m : exact_results()) exact.push_back(m.value), unit.push_back(kUnit * m.unit);
  }

  std::vector<Value> build(const std::vector<Value>& v) const override {
    const auto results = size.has_state ? lstm(v[0], v[1], v[2], v[3], {size.hidden}, v[4], v[5])
                                        : lstm(v[0], v[1], v[2], v[3], {size.hidden});
    return {results[0], results[2]};
  }

  std::vector<float> by_peer(Peer peer) const override {
    const LstmSize& s = size;
    const std::vector<float>&x = operands[0].values, &w = operands[1].values, &u = operands[2].values,
          &bias = operands[3].values;
    const std::vector<float> inputs = product(peer, x, w, {s.batch * s.steps, s.inputs, s.gates(), true});
    const auto sums_of = [&](int64_t at, const std::vector<float>& h) {
      std::vector<float> sums = product(peer, h, u, {1, s.hidden, s.gates(), true});
      for (size_t j = 0; j < sums.size(); ++j)
        sums[j] = inputs[static_cast<size_t>(at) * sums.size() + j] + bias[j] + sums[j];
      return sums;
    };
    return all_steps<float>(operands[4].values, operands[5].values, sums_of);
  }

 private:
  /// `sums_of` makes the gates' sums of row `at` of x and of a state.
  template <class T, class F>
  std::vector<T> all_steps(const std::vector<T>& h0, const std::vector<T>& c0, F sums_of) const {
    std::vector<T> y, last;
    for (int64_t b = 0; b < size.batch; ++b) {
      const auto begin = static_cast<std::ptrdiff_t>(b * size.hidden), end = begin + size.hidden;
      std::vector<T> h(h0.begin() + begin, h0.begin() + end), c(c0.begin() + begin, c0.begin() + end);
      for (int64_t t = 0; t < size.steps; ++t) {
        step(sums_of(b * size.steps + t, h), h.data(), c.data(), size.hidden);
        y.insert(y.end(), h.begin(), h.end());
      }
      last.insert(last.end(), c.begin(), c.end());
    }
    y.insert(y.end(), last.begin(), last.end());
    return y;
  }

  std::vector<Measured> exact_results() const {
    const LstmSize& s = size;
    const std::vector<double> x = widened(operands[0].values), w = widened(operands[1].values),
                              u = widened(operands[2].values), bias = widened(operands[3].values),
                              u_size = magnitudes(u);
    const ProductSize of_inputs{s.batch * s.steps, s.inputs, s.gates(), true}, of_state{1, s.hidden, s.gates(), true};
    const std::vector<double> inputs = product(x, w, of_inputs),
                              inputs_size = product(magnitudes(x), magnitudes(w), of_inputs);
    const auto sums_of = [&](int64_t at, const std::vector<Measured>& h) {
      std::vector<double> values, moves;
      for (const Measured& m : h) values.push_back(m.value), moves.push_back(std::fabs(m.value) + m.unit);
      const std::vector<double> sums = product(values, u, of_state), sums_size = product(moves, u_size, of_state);
      std::vector<Measured> all(sums.size());
      for (size_t j = 0; j < all.size(); ++j) {
        const size_t row = static_cast<size_t>(at) * all.size() + j;
        all[j] = {inputs[row] + sums[j] + bias[j], inputs_size[row] + sums_size[j] + rounding(bias[j])};
      }
      return all;
    };
    const auto measured = [](const std::vector<float>& values) {
      std::vector<Measured> all;
      for (const float v : values) all.push_back({static_cast<double>(v), 0});
      return all;
    };
    return all_steps<Measured>(measured(operands[4].values), measured(operands[5].values), sums_of);
  }

  static void limit_sums(Matrix& x, const Matrix& w, Matrix& u) {
    constexpr double kMost = 64;
    const std::vector<double> sums =
        product(magnitudes(widened(x.values)), magnitudes(widened(w.values)), ProductSize{x.rows, x.cols, w.cols});
    scale_below(x.values, *std::max_element(sums.begin(), sums.end()), kMost);
    const std::vector<double> ones(static_cast<size_t>(u.rows), 1.0),
        columns = product(ones, magnitudes(widened(u.values)), ProductSize{1, u.rows, u.cols});
    scale_below(u.values, *std::max_element(columns.begin(), columns.end()), kMost);
  }
};

Problem lstm_problem(const LstmSize& s, unsigned seed) {
  return {s.text(), seed, [s](const Filling& f, Random& r) { return std::make_unique<LstmCase>(s, f, r); }};
}

std::vector<Problem> lstms() {
  std::vector<Problem> all;
  for (const LstmSize& s :
       {LstmSize{1, 1, 64, 48}, LstmSize{24, 1, 100, 64}, LstmSize{13, 1, 64, 33, true},
        LstmSize{2, 4, 256, 64, true, true}, LstmSize{16, 3, 48, 40, false, true}, LstmSize{1, 4, 700, 96},
        LstmSize{3, 2, 1, 1, true, true}, LstmSize{40, 1, 20, 17, false, true}, LstmSize{5, 8, 33, 21, true},
        LstmSize{1, 1, 1500, 24, true, true}, LstmSize{64, 1, 90, 16}})
    all.push_back(lstm_problem(s, static_cast<unsigned>(all.size()) + 1));
  return all;
}

Problem random_lstm(Random& r) {
  return lstm_problem({mostly_small(r, 1, 32), between(r, 1, 4), mostly_small(r, 1, 300), mostly_small(r, 1, 100),
                       r() % 2 == 0, r() % 2 == 0},
                      0);
}

}  // namespace

const Op kLstm{"lstm", lstms, random_lstm};

}  // namespace rlx::accuracy
