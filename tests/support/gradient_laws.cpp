// The laws of derivatives and batches. Derivatives are compared with central differences of the reference, in f64 and,
// where an op takes complex numbers, in c128; in the other dtypes their graphs must verify.
//
// Pairings are those of docs/ir.md, "Derivatives of complex functions": <ct, y> is the real part of the sum of ct * y.
#include <cstdlib>
#include <cstring>

#include "autodiff/transforms.h"
#include "ir/verify.h"
#include "reference/interpreter.h"
#include "support/compare.h"
#include "support/laws.h"
#include "support/sanitized.h"

namespace rlx::laws {
namespace {

std::vector<Tensor> joined(Tensors a, Tensors b) {
  std::vector<Tensor> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return all;
}
bool any(const Mask& mask) { return std::find(mask.begin(), mask.end(), true) != mask.end(); }

std::vector<Tensor> random_like(const std::vector<Type>& types, uint64_t seed) {
  std::vector<Tensor> all;
  for (const Type& t : types) all.push_back(random_tensor(t.dtype, shape_of(t.dims), seed + all.size(), -1, 1));
  return all;
}
std::vector<Type> where(const std::vector<Type>& types, const Mask& mask) {
  std::vector<Type> some;
  for (size_t i = 0; i < types.size(); ++i)
    if (mask[i]) some.push_back(types[i]);
  return some;
}

Complex element(const Tensor& t, size_t i) {
  return is_complex(t.dtype()) ? load<Complex>(t, i) : Complex(load<double>(t, i));
}
/// False if y has a NaN.
bool zero_where_infinite(Tensor& ct, const Tensor& y) {
  for (size_t i = 0; i < ct.element_count(); ++i) {
    Complex v = element(y, i);
    if (std::isnan(v.real()) || std::isnan(v.imag())) return false;
    if (std::isfinite(v.real()) && std::isfinite(v.imag())) continue;
    if (is_complex(ct.dtype())) store<Complex>(ct, i, 0);
    else store<double>(ct, i, 0);
  }
  return true;
}
/// Elements whose cotangent is 0 do not count, also if they are not finite.
double paired(const Tensor& ct, const Tensor& y) {
  double sum = 0;
  for (size_t i = 0; i < ct.element_count(); ++i)
    if (Complex w = element(ct, i); w != Complex(0)) sum += (w * element(y, i)).real();
  return sum;
}

/// The op on one sample, with cotangents for its differentiable results.
struct Differentiated {
  Case c;
  Graph g;
  std::vector<Tensor> inputs;
  Mask wrt, given;
  std::vector<Tensor> cts;
  bool finite = true;  // no value is NaN

  Differentiated(const OpDef& op, Case settled)
      : c(std::move(settled)), g(c.graph(op)), inputs(c.inputs()), wrt(differentiable_inputs(g)),
        given(differentiable_outputs(g)), cts(random_like(where(g.output_types(), given), kSeed + 100)) {
    // There is no derivative where the value itself is infinite, and nothing to compare where it is NaN.
    auto out = interpret(g, inputs);
    for (size_t r = 0, next = 0; r < out.size(); ++r)
      if (given[r]) finite &= zero_where_infinite(cts[next++], out[r]);
  }
  bool applies(const OpDef& op) const { return op.differentiable && any(wrt) && any(given) && finite; }
};

/// The sample's own dtypes if they and the results' are wide floats, and c128 in their place where the op takes it.
std::vector<Case> wide_cases(const OpDef& op, const Sample& s) {
  std::vector<Case> some;
  for (Case& c : cases_of(op, s)) {
    auto types = c.graph(op).output_types();
    types.insert(types.end(), c.types.begin(), c.types.end());
    bool wide = std::all_of(types.begin(), types.end(), [](const Type& t) {
      return (!is_float(t.dtype) && !is_complex(t.dtype)) || t.dtype == f64 || t.dtype == c128;
    });
    if (wide &&
        (some.empty() || std::any_of(c.types.begin(), c.types.end(), [](const Type& t) { return t.dtype == c128; })))
      some.push_back(std::move(c));
  }
  return some;
}

/// How far apart the elements of a gradient lie that are measured. Some 24 are; all where everything was asked for, and
/// two under a sanitizer. The distance is odd, so that they lie in many columns.
size_t step_of_measured(const Tensor& gradient) {
  if (test::checks_all()) return 1;
  return gradient.element_count() / (test::sanitized() ? 2 : 24) | 1;
}

/// d <cts, g> / d inputs[wrt] by central differences. For a complex input the cotangent w has <w, dx> = the change.
/// Elements that are not measured are those of `got`.
Tensor numeric_gradient(const Graph& g, std::vector<Tensor> inputs, size_t wrt, Tensors cts, const Mask& given,
                        const Tensor& got) {
  constexpr double kStep = 1e-5;
  Tensor gradient = Tensor::uninitialized(got.dtype(), got.shape());
  if (got.byte_count()) std::memcpy(gradient.mutable_data(), got.data(), got.byte_count());
  const Tensor point = inputs[wrt];
  auto change = [&](size_t i, auto at, auto step) {
    double sum = 0;
    for (double sign : {1.0, -1.0}) {
      inputs[wrt] = point;
      store(inputs[wrt], i, at + sign * step);
      auto out = interpret(g, inputs);
      for (size_t r = 0, next = 0; r < out.size(); ++r)
        if (given[r]) sum += sign * paired(cts[next++], out[r]);
    }
    return sum / (2 * kStep);
  };
  for (size_t i = 0; i < got.element_count(); i += step_of_measured(got)) {
    if (is_complex(point.dtype())) {
      Complex at = load<Complex>(point, i);
      store(gradient, i, Complex(change(i, at, Complex(kStep, 0)), -change(i, at, Complex(0, kStep))));
    } else {
      store(gradient, i, change(i, load<double>(point, i), kStep));
    }
  }
  return gradient;
}

/// With all cotangents, then with each alone: an absent one must mean zero. In other dtypes: the graph verifies. An op
/// whose gradient stands for another has only the latter: what it says is in its own tests.
Finding vjp_is_gradient(const OpDef& op, const Sample& s) {
  bool applied = false;
  for (const Case& c : wide_cases(op, s)) {
    Differentiated d(op, c);
    if (!d.applies(op) || op.surrogate_gradient) continue;
    applied = true;
    for (size_t only = 0; only <= d.cts.size(); ++only) {
      if (only < d.cts.size() && d.cts.size() == 1) continue;
      Mask given = d.given;
      auto passed = d.cts;
      if (only < d.cts.size()) {
        passed = {d.cts[only]};
        for (size_t r = 0, next = 0; r < given.size(); ++r)
          if (given[r]) given[r] = next++ == only;
      }
      auto got = interpret(vjp(d.g, d.wrt, given), joined(d.inputs, passed));
      std::vector<Tensor> wanted;
      for (size_t i = 0; i < d.inputs.size(); ++i)
        if (d.wrt[i]) wanted.push_back(numeric_gradient(d.g, d.inputs, i, passed, given, got[wanted.size()]));
      // Central differences with a step of 1e-5 are good to some 1e-10 / 1e-5.
      if (auto why = difference(got, wanted, 5e-6); !why.empty()) return finding(why);
    }
  }
  for (const Case& c : cases_of(op, s)) {
    Graph g = c.graph(op);
    Mask wrt = differentiable_inputs(g), given = differentiable_outputs(g);
    if (!op.differentiable || !any(wrt) || !any(given)) continue;
    verify(vjp(g, wrt, given));
    verify(jvp(g, wrt));
  }
  return applied ? Finding{} : kNotApplicable;
}

Finding jvp_transposes_vjp(const OpDef& op, const Sample& s) {
  bool applied = false;
  for (const Case& c : wide_cases(op, s)) {
    Differentiated d(op, c);
    if (!d.applies(op)) continue;
    applied = true;
    auto tangents = random_like(where(d.g.input_types(), d.wrt), kSeed + 200);
    auto pulled = interpret(vjp(d.g, d.wrt, d.given), joined(d.inputs, d.cts));
    auto pushed = interpret(jvp(d.g, d.wrt), joined(d.inputs, tangents));
    size_t results = d.given.size();
    if (auto why = difference(Tensors(pushed).first(results), interpret(d.g, d.inputs), 1e-11); !why.empty())
      return finding("forward mode's values: " + why);
    double forward = 0, reverse = 0;
    for (size_t i = 0; i < d.cts.size(); ++i) forward += paired(d.cts[i], pushed[results + i]);
    for (size_t i = 0; i < tangents.size(); ++i) reverse += paired(pulled[i], tangents[i]);
    bool close =
        std::abs(forward - reverse) <= 1e-9 * (1 + std::abs(reverse)) || (std::isnan(forward) && std::isnan(reverse));
    if (!close) return finding(text_of("<ct, J v> = ", forward, ", <J' ct, v> = ", reverse));
  }
  return applied ? Finding{} : kNotApplicable;
}

Tensor stacked(std::span<const Tensor> lanes) {
  Shape shape = lanes[0].shape();
  shape.insert(shape.begin(), int64_t(lanes.size()));
  Tensor all(lanes[0].dtype(), shape);
  size_t bytes = lanes[0].byte_count();
  if (bytes > 0)
    for (size_t lane = 0; lane < lanes.size(); ++lane)
      std::memcpy(all.mutable_data() + lane * bytes, lanes[lane].data(), bytes);
  return all;
}
/// lanes[l][t]: tensor t of lane l.
std::vector<Tensor> stacked_each(const std::vector<std::vector<Tensor>>& lanes) {
  std::vector<Tensor> all;
  for (size_t t = 0; t < lanes[0].size(); ++t) {
    std::vector<Tensor> each;
    for (const auto& lane : lanes) each.push_back(lane[t]);
    all.push_back(stacked(each));
  }
  return all;
}

/// All operands batched, then each alone with the others shared.
Finding batch_is_loop(const OpDef& op, const Sample& s) {
  if (s.dims.empty()) return kNotApplicable;
  constexpr int64_t kLanes = 3;
  for (const Case& c : cases_of(op, s)) {
    if (std::any_of(c.types.begin(), c.types.end(), [](const Type& t) {
          return !is_byte_sized(t.dtype) && !is_block(t.dtype);  // lanes would not fill whole bytes
        }))
      continue;
    Graph g = c.graph(op);
    std::vector<std::vector<Tensor>> lanes;
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes.push_back(c.inputs(kSeed + 1000 * uint64_t(lane)));
    for (size_t only = 0; only <= s.dims.size(); ++only) {
      Mask batched(s.dims.size(), only == s.dims.size());
      if (only < s.dims.size()) batched[only] = true;
      if (only < s.dims.size() && s.dims.size() == 1) continue;
      std::vector<std::vector<Tensor>> results;
      auto wide = stacked_each(lanes);
      for (auto lane : lanes) {
        for (size_t i = 0; i < lane.size(); ++i)
          if (!batched[i]) lane[i] = wide[i] = lanes[0][i];
        results.push_back(interpret(g, lane));
      }
      auto why = difference(interpret(batch(g, batched, kLanes), wide), stacked_each(results));
      if (!why.empty())
        return finding(text_of(only == s.dims.size() ? std::string("all operands") : text_of("operand ", only),
                               " batched, ", c.types[0], ": ", why));
    }
  }
  return {};
}

/// The gradient's graph is a graph like any other: its own gradient is right, it batches, prints and reads back.
Finding gradient_transforms(const OpDef& op, const Sample& s) {
  auto cases = wide_cases(op, s);
  if (cases.empty()) return kNotApplicable;
  Differentiated d(op, cases[0]);
  if (!d.applies(op)) return kNotApplicable;
  Graph g = vjp(d.g, d.wrt, d.given);
  auto inputs = joined(d.inputs, d.cts);
  Mask wrt = differentiable_inputs(g), given = differentiable_outputs(g);
  auto cts = random_like(g.output_types(), kSeed + 300);
  auto second = interpret(vjp(g, wrt, given), joined(inputs, cts));
  std::vector<Tensor> wanted;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (wrt[i]) wanted.push_back(numeric_gradient(g, inputs, i, cts, given, second[wanted.size()]));
  if (auto why = difference(second, wanted, 2e-5); !why.empty() && !op.surrogate_gradient)
    return finding("gradient of the gradient: " + why);

  std::vector<std::vector<Tensor>> lanes = {inputs, joined(d.c.inputs(kSeed + 1000), d.cts)}, results;
  for (const auto& lane : lanes) results.push_back(interpret(g, lane));
  auto why =
      difference(interpret(batch(g, Mask(inputs.size(), true), 2), stacked_each(lanes)), stacked_each(results), 1e-11);
  return finding(why.empty() ? "" : "batch of the gradient: " + why);
}

}  // namespace

std::vector<Law> gradient_laws() {
  return {
      {"vjp_is_gradient", "vjp = central differences in f64, with all cotangents and with each alone", vjp_is_gradient},
      {"jvp_transposes_vjp", "<ct, J v> = <J' ct, v>", jvp_transposes_vjp},
      {"batch_is_loop", "the batched op = a loop over its slices, for each choice of batched operands", batch_is_loop},
      {"gradient_transforms", "the gradient of the gradient, and the batch of the gradient, are right",
       gradient_transforms}};
}

}  // namespace rlx::laws
