// Runs a case by RLX, and measures the errors of a result.
#include "bench/product_accuracy/case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace rlx::accuracy {
namespace {

double half_ulp(double exact) {
  const auto f = std::fabs(static_cast<float>(exact));
  if (!std::isfinite(f)) return std::numeric_limits<double>::infinity();
  return static_cast<double>(std::nextafterf(f, std::numeric_limits<float>::infinity()) - f) / 2;
}

}  // namespace

bool is_one_hot(const Distribution& rows) {
  const std::string_view name = rows.name;
  return name == "identity" || name == "one-hot of any size";
}

std::vector<double> errors_in_units(const Case& c, const std::vector<float>& y) {
  std::vector<double> all(c.exact.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const double off = std::fabs(static_cast<double>(y[i]) - c.exact[i]) - half_ulp(c.exact[i]) * (1 + 1e-6);
    all[i] = off <= 0 ? 0 : off / c.unit[i];
    if (!(off == off)) all[i] = std::numeric_limits<double>::infinity();
  }
  return all;
}

Errors summary(std::vector<double> all, int64_t terms) {
  if (all.empty()) return {};
  Errors e;
  e.worst = *std::max_element(all.begin(), all.end());
  const size_t at = all.size() - 1 - all.size() / 1000;
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(at), all.end());
  e.thousandth = all[at];
  e.worst_of_root = e.worst / std::sqrt(static_cast<double>(terms));
  return e;
}

std::vector<float> by_rlx(const Case& c, bool constant, const CompileOptions& options) {
  Graph g("product");
  std::vector<Value> operands;
  for (const Operand& o : c.operands) {
    const Dims dims(o.dims.begin(), o.dims.end());
    operands.push_back(constant && o.is_weight ? g.param(o.name, f32, dims) : g.input(o.name, f32, dims));
  }
  for (const Value v : c.build(operands)) g.output(v);
  static const Session session(Device::cpu(), SessionOptions{1});
  CompiledGraph compiled = session.compile(g, options);
  std::vector<NamedTensor> inputs;
  for (const Operand& o : c.operands) {
    const Tensor values = Tensor::of<float>(o.dims, o.values);
    if (constant && o.is_weight) compiled.set_param(o.name, values);
    else inputs.emplace_back(o.name, values);
  }
  std::vector<float> y;
  for (const Tensor& t : compiled.run(inputs)) y.insert(y.end(), t.values<float>().begin(), t.values<float>().end());
  return y;
}

}  // namespace rlx::accuracy
