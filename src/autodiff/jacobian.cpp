// Jacobians and Hessians: forward or reverse mode, batched over the unit vectors.
#include "autodiff/named.h"
#include "autodiff/transforms.h"
#include "ir/rewrite.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/shape.h"

namespace rlx {
namespace {

/// The unit vectors of a type: [n, dims...].
Value units(Graph& to, const Type& t) {
  Dim n = element_count(t.dims);
  Type square{i64, {n, n}};
  Value eye = convert(compare(iota(to, square, 0), iota(to, square, 1), Comparison::eq), t.dtype);
  return reshape(eye, prepend(n, t.dims));
}

struct Problem {
  Closed c;
  Mask wrt;
  size_t at;  // of the one that is meant
  Type x, y;

  Problem(const Graph& g, const std::string& name) : c(g), wrt(c.wrt({name})), at(0) {
    while (!wrt[at]) ++at;
    if (g.outputs().empty()) fail(ErrorCode::invalid_argument, "graph '", g.name(), "' has no output");
    x = c.leaves[at].types[0], y = g.type(g.outputs()[0].ref);
    if (!has_derivative(y.dtype))
      fail(ErrorCode::invalid_argument, "output '", g.outputs()[0].name, "' is ", y, ": it has no derivative");
    if (is_complex(x.dtype) != is_complex(y.dtype))
      fail(ErrorCode::unsupported, "a Jacobian from ", x, " to ", y, "; take real and imaginary parts apart first");
  }
  Mask first_output() const {
    Mask given(c.graph.outputs().size());
    given[0] = true;
    return given;
  }
};

/// A transformed graph whose last input is batched over units of `t`; the result's dims are units, then the rest.
Value over_units(const Graph& transformed, std::vector<Value> inputs, const Type& t, size_t result) {
  Graph& to = inputs[0].graph();
  Mask batched(transformed.inputs().size());
  batched.back() = true;
  inputs.push_back(units(to, t));
  return splice(to, batch(transformed, batched, element_count(t.dims)), inputs)[result];
}

Value jacobian_forward(const Problem& p, const std::vector<Value>& inputs) {
  Value columns = over_units(jvp(p.c.graph, p.wrt), inputs, p.x, p.c.graph.outputs().size());
  Value rows = move_axis(columns, 0, int64_t(p.y.rank()));
  Dims dims = p.y.dims;
  dims.insert(dims.end(), p.x.dims.begin(), p.x.dims.end());
  return reshape(rows, dims);
}
Value jacobian_reverse(const Problem& p, const std::vector<Value>& inputs) {
  Value rows = over_units(vjp(p.c.graph, p.wrt, p.first_output()), inputs, p.y, 0);
  Dims dims = p.y.dims;
  dims.insert(dims.end(), p.x.dims.begin(), p.x.dims.end());
  return reshape(rows, dims);
}

}  // namespace

Graph jacfwd(const Graph& g, const std::string& wrt) {
  Problem p(g, wrt);
  Graph to(g.name());
  to.output(jacobian_forward(p, p.c.leaves_in(to)), "jacobian");
  return prune(to);
}
Graph jacrev(const Graph& g, const std::string& wrt) {
  Problem p(g, wrt);
  Graph to(g.name());
  to.output(jacobian_reverse(p, p.c.leaves_in(to)), "jacobian");
  return prune(to);
}
Graph hessian(const Graph& g, const std::string& wrt) {
  Problem p(g, wrt);
  Graph first(g.name());
  first.output(jacobian_reverse(p, p.c.leaves_in(first)), "hessian");
  Problem second(first, wrt);
  Graph to(g.name());
  to.output(jacobian_forward(second, second.c.leaves_in(to)), "hessian");
  return prune(to);
}

}  // namespace rlx
