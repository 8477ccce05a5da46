// `scan`: a body over the slices of the xs. Its vjp stacks the carry of each step on the way forward and scans over
// them in the other direction.
#include "ops/control/scan_rules.h"

#include <cmath>
#include <map>

#include "ir/rewrite.h"
#include "ops/control/loop_products.h"
#include "rlx/ops/linear.h"

namespace rlx {

std::vector<Value> scan(Graph& g, std::vector<Value> operands, ScanAttrs attrs) {
  return g.emit(op::scan, std::move(operands), std::move(attrs));
}
std::vector<Value> checkpointed_scan(Graph& g, std::vector<Value> operands, ScanAttrs a, Checkpointing checkpointing,
                                     int64_t every) {
  if (checkpointing == Checkpointing::all) return scan(g, std::move(operands), std::move(a));
  return g.emit(op::checkpointed_scan, std::move(operands),
                CheckpointedScanAttrs{a.carries, a.xs, a.length, a.reverse, a.body, checkpointing, every});
}

namespace {

Type without_front(const Type& t) { return {t.dtype, {t.dims.begin() + 1, t.dims.end()}}; }

/// The types of a body's inputs: carries, slices, captured.
std::vector<Type> body_types(Values carries, Values slices, Values captured) {
  std::vector<Type> types = types_of_values(carries);
  for (const Value& v : slices) types.push_back(without_front(v.type()));
  for (const Value& v : captured) types.push_back(v.type());
  return types;
}

std::vector<Tensor> run_scan(Tensors in, const ScanAttrs& a, const Run& run) {
  ScanParts<Tensor> part(in, a);
  int64_t length = a.length.value();
  std::vector<Tensor> state(part.carries.begin(), part.carries.end()), ys;
  auto types = a.body->output_types();
  for (size_t i = part.carries.size(); i < types.size(); ++i) {
    Shape shape = shape_of(types[i].dims);
    shape.insert(shape.begin(), length);
    ys.emplace_back(types[i].dtype, shape);
  }
  for (int64_t step = 0; step < length; ++step) {
    auto at = static_cast<size_t>(a.reverse ? length - 1 - step : step);
    auto args = state;
    for (const Tensor& x : part.xs) {
      Shape shape(x.shape().begin() + 1, x.shape().end());
      size_t bytes = x.byte_count() / static_cast<size_t>(length);
      args.push_back(Tensor::borrow(x.dtype(), shape, x.bytes().subspan(at * bytes, bytes), x.owner()));
    }
    args.insert(args.end(), part.captured.begin(), part.captured.end());
    auto out = run(*a.body, args);
    for (size_t i = 0; i < ys.size(); ++i) {
      const Tensor& y = out[state.size() + i];
      if (y.byte_count() > 0) std::memcpy(ys[i].mutable_data() + at * y.byte_count(), y.data(), y.byte_count());
    }
    std::copy_n(out.begin(), state.size(), state.begin());
  }
  return joined(state, ys);
}

/// Those cotangents of captured operands that every step would add a product to: the steps stack the operands of these
/// products instead, and one product is made of all steps in the end. Only where the stacks take no more memory in a
/// step than the sum that would be read and written there (the more rows a step has, the less there is to gain), nor
/// more than twice what is stacked anyway: the chunks of a checkpointed loop stay as small as they are.
class StackedProducts {
 public:
  /// `step` is the vjp of a body: its outputs from `first` on are the cotangents, its inputs begin with `slices` that
  /// are stacked already, behind which the captured operands stand.
  StackedProducts(const Graph& step, size_t first, size_t slices, size_t captured) : step_(step) {
    const auto& inputs = step.inputs();
    auto input_of = [&](Ref r) { return size_t(std::find(inputs.begin(), inputs.end(), r) - inputs.begin()); };
    Dim given = 0;
    for (size_t i = 0; i < slices; ++i) given = given + element_count(step.type(inputs[i]).dims);
    for (size_t i = first; i < step.outputs().size(); ++i) {
      Ref sum = step.outputs()[i].ref;
      auto operands = operands_of_products(step_, sum);
      Dim room = element_count(step.type(sum).dims), needed = 0;
      bool same_in_all_steps = false;
      for (Ref r : operands) {
        size_t input = input_of(r);
        if (input >= slices) needed = needed + element_count(step.type(r).dims);
        same_in_all_steps = same_in_all_steps || (input >= slices && input < slices + captured);
      }
      if (operands.empty() || same_in_all_steps || !needed.is_static() || !room.is_static() || !given.is_static() ||
          needed.value() > std::min(room.value(), 2 * given.value()))
        continue;
      sums_.emplace(i, sum);
      for (Ref r : operands)
        if (size_t input = input_of(r); input < slices) slices_.emplace(r, input);
        else if (std::find(to_stack_.begin(), to_stack_.end(), r) == to_stack_.end()) to_stack_.push_back(r);
    }
  }
  bool stands_for(size_t output) const { return sums_.contains(output); }
  const std::vector<Ref>& to_stack() const { return to_stack_; }
  /// `stacks` are those of `to_stack`.
  Value sum(size_t output, Values slices, Values stacks) const {
    return sum_over_steps(step_, sums_.at(output), [&](Ref r) {
      if (auto known = slices_.find(r); known != slices_.end()) return slices[known->second];
      return stacks[size_t(std::find(to_stack_.begin(), to_stack_.end(), r) - to_stack_.begin())];
    });
  }

 private:
  Graph step_;
  std::map<size_t, Ref> sums_;
  std::map<Ref, size_t> slices_;  // operands that are slices of what is stacked already
  std::vector<Ref> to_stack_;
};

}  // namespace

std::vector<Type> scan_types(Types in, const ScanAttrs& a) {
  if (a.carries < 0 || a.xs < 0 || in.size() < static_cast<size_t>(a.carries) + static_cast<size_t>(a.xs))
    fail(ErrorCode::invalid_argument, "a scan of ", a.carries, " carries and ", a.xs, " xs got ", in.size(),
         " operands");
  std::vector<Type> wanted(in.begin(), in.end()), out = required(a.body, "body").output_types();
  auto carries = static_cast<size_t>(a.carries);
  for (size_t i = carries; i < carries + static_cast<size_t>(a.xs); ++i) {
    if (in[i].rank() == 0 || in[i].dims[0] != a.length)
      fail(ErrorCode::shape_mismatch, "operand ", i, ", ", in[i], ", has no ", a.length, " slices along dim 0");
    if (!is_byte_sized(in[i].dtype))
      fail(ErrorCode::unsupported, "slices of ", in[i], " share bytes; convert it to a wider dtype first");
    wanted[i] = without_front(in[i]);
  }
  require_types("body's input", wanted, a.body->input_types());
  require_types("body's carry", in.first(carries), Types(out).first(std::min(carries, out.size())));
  for (size_t i = carries; i < out.size(); ++i) {
    if (!is_byte_sized(out[i].dtype))
      fail(ErrorCode::unsupported, "slices of ", out[i], " share bytes; convert it to a wider dtype first");
    out[i].dims = prepend(a.length, out[i].dims);
  }
  return out;
}

std::vector<Value> scan_saving_carries(Graph& g, Values in, const ScanAttrs& a) {
  ScanAttrs stacking = a;
  stacking.body = trace(a.body->input_types(), [&](Graph& b, Values v) {
    return joined(inlined(b, *a.body, v), v.first(static_cast<size_t>(a.carries)));
  });
  return scan(g, {in.begin(), in.end()}, stacking);
}

Many<Value> scan_vjp(Values in, Values carried, Values carry_cts, Values y_cts, const ScanAttrs& a,
                     const Transforms& t) {
  ScanParts<Value> part(in, a);
  size_t n = part.carries.size(), primal = n + part.xs.size();
  Mask moving = floats(part.carries), flowing = floats(part.xs), held = floats(part.captured);
  std::vector<Value> d_carry, d_held;
  for (size_t i = 0; i < n; ++i)
    if (moving[i]) d_carry.push_back(or_zero(carry_cts[i], in[i]));
  Graph step = t.vjp(*a.body, joined(moving, flowing, held), joined(moving, mask_of(y_cts)));
  size_t own = step.outputs().size(), held_at = d_carry.size() + where(part.xs, flowing).size();

  // Carries: cotangents of carries and captured. Xs: the stacked carries, xs, cotangents of ys.
  auto slices = joined(carried, part.xs, present(y_cts));
  StackedProducts products(step, held_at, primal, part.captured.size());
  for (size_t i = held_at; i < own; ++i)
    if (!products.stands_for(i)) d_held.push_back(zeros_like(where(part.captured, held)[i - held_at]));
  for (Ref r : products.to_stack()) step.output(step.value(r));
  auto state = joined(d_carry, d_held);
  Graph body = prune(trace(body_types(state, slices, part.captured), [&](Graph& b, Values v) {
    Values dc = v.first(d_carry.size()), dk = v.subspan(dc.size(), d_held.size());
    Values given = v.subspan(state.size(), primal), rest = v.subspan(state.size() + primal);
    size_t ys = slices.size() - primal;
    auto d = inlined(b, step, joined(given, rest.subspan(ys), dc, rest.first(ys)));
    std::vector<Value> next(d.begin(), d.begin() + static_cast<std::ptrdiff_t>(dc.size()));
    for (size_t i = held_at; i < own; ++i)
      if (!products.stands_for(i)) next.push_back(dk[next.size() - dc.size()] + d[i]);
    return joined(next, Values(d).subspan(dc.size(), held_at - dc.size()), Values(d).subspan(own));
  }));
  auto d = scan(in[0].graph(), joined(state, slices, part.captured),
                {int64_t(state.size()), int64_t(slices.size()), a.length, !a.reverse, body});
  std::vector<Value> of_held;
  size_t summed = d_carry.size(), stacks = state.size() + held_at - d_carry.size();
  for (size_t i = held_at; i < own; ++i)
    of_held.push_back(products.stands_for(i) ? products.sum(i, slices, Values(d).subspan(stacks)) : d[summed++]);
  return joined(spread(d, moving), spread(d, flowing, state.size()), spread(of_held, held));
}

OpDef define_scan() {
  return define<ScanAttrs>({
      .name = "scan",
      .doc =
          "`body` over the slices of the xs along dim 0, carrying the carries; the ys of all steps come back stacked",
      .source = "jax.lax.scan",
      .operands = {"operands..."},
      .covers = {"Scan", "ScanBackward", "ScanBackwardXs"},  // its vjp is a scan from the end
      .infer = [](Types in, const ScanAttrs& a) { return Many<Type>(scan_types(in, a)); },
      .reference = [](Tensors in, const ScanAttrs& a, const Run& run) { return Many<Tensor>(run_scan(in, a, run)); },
      .save = [](Values in, const ScanAttrs& a) { return Many<Value>(scan_saving_carries(in[0].graph(), in, a)); },
      .vjp =
          [](Values in, Values out, Values cts, const ScanAttrs& a, const Transforms& t) {
            auto n = static_cast<size_t>(a.carries);
            return scan_vjp(in, out.last(n), cts.first(n), cts.subspan(n), a, t);
          },
      .jvp = [](Values in, Values tangents, const ScanAttrs& a, const Transforms& t) -> Many<Value> {
        ScanParts<Value> part(in, a), d(tangents, a);
        Mask moving = floats(part.carries);
        std::vector<Value> d_carry;
        for (size_t i = 0; i < moving.size(); ++i)
          if (moving[i]) d_carry.push_back(or_zero(tangents[i], in[i]));
        Graph step_jvp = t.jvp(*a.body, joined(moving, mask_of(d.xs), mask_of(d.captured)));
        auto state = joined(part.carries, d_carry), slices = joined(part.xs, present(d.xs)),
             held = joined(part.captured, present(d.captured));
        size_t n = part.carries.size(), ys = a.body->outputs().size() - n;
        Graph body = trace(body_types(state, slices, held), [&](Graph& b, Values v) {
          Values c = v.first(state.size()), x = v.subspan(state.size(), slices.size()), k = v.last(held.size());
          size_t xs = part.xs.size(), ks = part.captured.size();
          auto out = inlined(b, step_jvp,
                             joined(c.first(n), x.first(xs), k.first(ks), c.subspan(n), x.subspan(xs), k.subspan(ks)));
          Values o = out;  // carries, ys, tangents of the float carries, tangents of the float ys
          return joined(o.first(n), o.subspan(n + ys, d_carry.size()), o.subspan(n, ys),
                        o.subspan(n + ys + d_carry.size()));
        });
        auto out = scan(in[0].graph(), joined(state, slices, held),
                        {int64_t(state.size()), int64_t(slices.size()), a.length, a.reverse, body});
        Values o = out;
        return joined(o.first(n), o.subspan(state.size(), ys), o.subspan(n, d_carry.size()),
                      o.subspan(state.size() + ys));
      },
      .batch = [](Values in, const Mask& batched, const ScanAttrs& a, const Transforms& t) -> Many<Value> {
        Dim size = batch_size(in, batched);
        Mask lanes = batched;
        std::vector<Value> operands(in.begin(), in.end());
        auto n = static_cast<size_t>(a.carries);
        for (size_t i = 0; i < n + static_cast<size_t>(a.xs); ++i) {
          if (i < n && !batched[i]) operands[i] = repeat_front(in[i], size);
          if (i < n) lanes[i] = true;
          else if (batched[i]) operands[i] = move_axis(in[i], 1, 0);
        }
        ScanAttrs wide = a;
        wide.body = t.batch(*a.body, lanes, size);
        auto out = scan(in[0].graph(), operands, wide);
        for (size_t i = n; i < out.size(); ++i) out[i] = move_axis(out[i], 1, 0);
        return out;
      },
      .samples =
          [] {  // carries h[2] and a counter; xs u[2], v[]; captured w[2, 2]; ys: two
            std::vector<Type> in = {{f64, {2}}, {i64, {}}, {f64, {2}}, {f64, {}}, {f64, {2, 2}}};
            Graph body = trace(in, [](Values v) {
              Value h = tanh(reduce_sum(v[4] * v[0], {1}) + v[2]);
              return std::vector{h, v[1] + 1.0, reduce_sum(h * v[2], {0}) * v[3], h};
            });
            ScanAttrs forwards{2, 2, 3, false, body}, backwards{2, 2, 3, true, body}, none{2, 2, 0, false, body};
            std::vector<Dims> dims = {{2}, {}, {3, 2}, {3}, {2, 2}}, empty = {{2}, {}, {0, 2}, {0}, {2, 2}};
            std::vector<DType> dtypes = {f64, i64};
            Graph map = trace(std::vector<Type>{{f64, {1, 2}}}, [](Values v) { return std::vector{exp(v[0]), v[0]}; });
            Graph growth = trace(std::vector<Type>{{f64, {}}, {f64, {}}, {f64, {}}}, [](Values v) {
              return std::vector{v[1], v[0] + v[1] * v[2], v[0], v[1]};  // two carries that change places
            });
            Type row{f64, {1, 4}}, weights{f64, {4, 4}};  // a recurrent cell; one of its weights is used twice
            Graph cell = trace(std::vector{row, row, weights, weights}, [](Values v) {
              Value h = tanh(matmul(v[1], v[2]) + matmul(v[0], v[2]) + linear(v[0], v[3]));
              return std::vector{h, h};
            });
            std::vector<Type> low = {{bf16, {3}}, {bf16, {3}}};
            Graph decay = trace(low, [](Values v) { return std::vector{v[0] * 0.5 + v[1], v[0]}; });
            return std::vector<Sample>{
                {.dims = {{3}, {5, 3}}, .dtypes = {bf16, bf16}, .attrs = ScanAttrs{1, 1, 5, true, decay}},
                {.dims = dims, .dtypes = dtypes, .attrs = forwards},
                {.dims = dims, .dtypes = dtypes, .attrs = backwards},
                {.dims = empty, .dtypes = dtypes, .attrs = none},
                {.dims = {{4, 1, 2}}, .attrs = ScanAttrs{0, 1, 4, false, map}},
                {.dims = {{}, {}, {}}, .attrs = ScanAttrs{2, 0, 5, false, growth}},
                {.dims = {{1, 4}, {3, 1, 4}, {4, 4}, {4, 4}}, .attrs = ScanAttrs{1, 1, 3, true, cell}}};
          },
  });
}

namespace {

/// `scan` in chunks of k steps, each recomputed in reverse mode; what is left over comes at the end.
std::vector<Value> in_chunks(Graph& g, Values in, const ScanAttrs& a, int64_t k, Checkpointing inside) {
  ScanParts<Value> part(in, a);
  int64_t length = a.length.value(), chunks = length / k, rest = length - chunks * k;
  size_t n = part.carries.size(), ys = a.body->outputs().size() - n;
  auto steps = [&](Value x, int64_t first, int64_t count) { return slice_axis(x, 0, first, first + count); };
  int64_t main_at = a.reverse ? rest : 0, rest_at = a.reverse ? 0 : chunks * k;

  std::vector<Value> main_xs;
  for (const Value& x : part.xs) {
    Value all = steps(x, main_at, chunks * k);
    Dims dims = all.dims();
    dims[0] = k;
    main_xs.push_back(reshape(all, prepend(chunks, dims)));
  }
  ScanAttrs inner = a;
  inner.length = k;
  Graph chunk = trace(body_types(part.carries, main_xs, part.captured), [&](Graph& whole, Values v) {
    Graph body = trace(types_of_values(v), [&](Graph& b, Values w) {
      return checkpointed_scan(b, {w.begin(), w.end()}, inner, inside, 1);
    });
    if (v.empty()) return inlined(whole, body, v);  // nothing to keep, nothing to differentiate
    return remat({v.begin(), v.end()}, body);
  });
  ScanAttrs outer = a;
  outer.length = chunks, outer.body = chunk;
  auto out = scan(g, joined(part.carries, main_xs, part.captured), outer);
  for (size_t i = n; i < out.size(); ++i) {  // [chunks, k, ...] to [chunks k, ...]
    Dims dims = out[i].dims();
    dims.erase(dims.begin());
    dims[0] = chunks * k;
    out[i] = reshape(out[i], dims);
  }
  if (rest == 0) return out;

  std::vector<Value> rest_xs;
  for (const Value& x : part.xs) rest_xs.push_back(steps(x, rest_at, rest));
  ScanAttrs tail = a;
  tail.length = rest;
  auto last = scan(g, joined(Values(out).first(n), rest_xs, part.captured), tail);
  for (size_t i = n; i < n + ys; ++i)
    last[i] = a.reverse ? concatenate({last[i], out[i]}, 0) : concatenate({out[i], last[i]}, 0);
  return last;
}

ScanAttrs as_scan(const CheckpointedScanAttrs& a) { return {a.carries, a.xs, a.length, a.reverse, a.body}; }

}  // namespace

OpDef define_checkpointed_scan() {
  return define<CheckpointedScanAttrs>({
      .name = "checkpointed_scan",
      .doc = "a scan whose reverse mode keeps the carries of some steps and computes the others again",
      .source = "Griewank, Walther, ACM TOMS 26 (2000); Chen et al., arXiv:1604.06174",
      .operands = {"operands..."},
      .infer =
          [](Types in, const CheckpointedScanAttrs& a) {
            if (a.every < 1)
              fail(ErrorCode::invalid_argument, "every = ", a.every, " is no number of steps; it is at least 1");
            return Many<Type>(scan_types(in, as_scan(a)));
          },
      .decompose = [](Graph& g, Values in, const CheckpointedScanAttrs& a) -> Many<Value> {
        if (!a.length.is_static())
          fail(ErrorCode::unsupported, "a scan of ", a.length,
               " steps cannot be cut into chunks before that is a number; ", "use checkpointing = all");
        int64_t length = a.length.value(), k = 1;
        bool recursive = a.checkpointing == Checkpointing::recursive;
        switch (a.checkpointing) {
          case Checkpointing::all: k = length; break;
          case Checkpointing::every: k = a.every; break;
          case Checkpointing::sqrt: k = static_cast<int64_t>(std::ceil(std::sqrt(double(length)))); break;
          case Checkpointing::recursive: k = length <= 4 ? length : length / 2; break;
        }
        if (k >= length) return scan(g, {in.begin(), in.end()}, as_scan(a));
        return in_chunks(g, in, as_scan(a), k, recursive ? Checkpointing::recursive : Checkpointing::all);
      },
      .samples =
          [] {
            std::vector<Type> in = {{f64, {2}}, {f64, {2}}, {f64, {2}}};
            Graph body = trace(in, [](Values v) {
              Value h = tanh(v[0] * v[2] + v[1]);
              return std::vector{h, h * v[1]};
            });
            auto sample = [&](int64_t length, bool reverse, Checkpointing kind, int64_t every) {
              return Sample{.dims = {{2}, {length, 2}, {2}},
                            .attrs = CheckpointedScanAttrs{1, 1, length, reverse, body, kind, every}};
            };
            std::vector<Type> low = {{f16, {1}}, {f16, {1}}};
            Graph decay = trace(low, [](Values v) { return std::vector{v[0] * 0.5 + v[1], v[0]}; });
            Sample narrow{.dims = {{1}, {5, 1}},
                          .dtypes = {f16, f16},
                          .attrs = CheckpointedScanAttrs{1, 1, 5, false, decay, Checkpointing::every, 2}};
            return std::vector{narrow, sample(7, false, Checkpointing::every, 3),
                               sample(7, true, Checkpointing::every, 2), sample(10, false, Checkpointing::sqrt, 1),
                               sample(11, true, Checkpointing::recursive, 1)};
          },
  });
}

}  // namespace rlx
