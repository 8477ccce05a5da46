// Slices: reading them, and putting others in their place.
#include "frontends/mil/handlers.h"
#include "frontends/mil/known_dims.h"
#include "rlx/element.h"

namespace rlx::mlprogram {
namespace {

Axes mask(Call& op, const std::string& name, size_t rank) {
  Axes m = op.integers(name, Axes(rank, 0));
  if (m.empty()) m = Axes(rank, 0);
  if (m.size() != rank) op.wrong("'", name, "' has ", m.size(), " entries, x has ", rank, " dims");
  return m;
}

/// The elements of a list of places, where they are known; else the tensor that holds them.
struct Places {
  std::optional<Dims> known;
  Value computed = {};
};
Places places(Call& op, const std::string& name, size_t rank) {
  Places p;
  ItemPtr item = op.item(name);
  if (item->constant) {
    p.known = op.dims(name);
  } else {
    p.computed = op.scope().value_of(item, name);
    p.known = known_dims(op.graph(), p.computed.ref());
    Scope& scope = op.scope();
    // A constant is known; what data decide stays a value, as long as nothing's size depends on it.
    if (!p.known && scope.lowering().main == &op.graph() && scope.lowering().evaluator->is_constant(p.computed.ref()))
      p.known = op.dims(name);
    if (!p.known && scope.lowering().main != &op.graph())
      if (auto t = scope.elements(p.computed, name)) p.known = op.dims(name);
  }
  size_t count = p.known ? p.known->size() : static_cast<size_t>(element_count(shape_of(p.computed.dims())));
  if (count != rank && !(rank == 0 && count <= 1))
    op.wrong("'", name, "' has ", count, " entries, x has ", rank, " dims");
  return p;
}

/// Entry `i` of a vector as a scalar, counted from the front.
Value place(Value vector, size_t i, const Dim& extent) {
  Value v = convert(vector, i32);
  if (v.rank() == 1) v = rlx::reshape(slice_axis(v, 0, static_cast<int64_t>(i), static_cast<int64_t>(i) + 1), {});
  Value from_end = v + rlx::extent(v.graph(), extent, i32);
  return rlx::select(compare(v, zeros_like(v), Comparison::lt), from_end, v);
}

/// NumPy's x[begin:end:stride] of a known extent: the first place, and how many.
std::pair<int64_t, int64_t> run_of(std::optional<int64_t> begin, std::optional<int64_t> end, int64_t stride,
                                   int64_t extent) {
  auto bounded = [&](int64_t v) {
    if (v < 0) v += extent;
    return stride > 0 ? std::clamp<int64_t>(v, 0, extent) : std::clamp<int64_t>(v, -1, extent - 1);
  };
  int64_t from = begin ? bounded(*begin) : stride > 0 ? 0 : extent - 1;
  int64_t to = end ? bounded(*end) : stride > 0 ? extent : -1;
  int64_t count = stride > 0 ? (to - from + stride - 1) / stride : (from - to - stride - 1) / -stride;
  return {from, std::max<int64_t>(count, 0)};
}

Dim from_front(const Dim& v, const Dim& extent) { return v.is_static() && v.value() < 0 ? extent + v : v; }

}  // namespace

SliceSpec slice_spec(Call& op, Value x, const Dims* update) {
  size_t rank = x.dims().size();
  Axes begin_mask = mask(op, "begin_mask", rank), end_mask = mask(op, "end_mask", rank);
  Axes squeeze = mask(op, "squeeze_mask", rank), strides = op.integers("stride", Axes(rank, 1));
  if (strides.size() != rank) op.wrong("'stride' has ", strides.size(), " entries, x has ", rank, " dims");
  for (int64_t s : strides)
    if (s == 0) op.wrong("a stride is 0");
  Places begin = places(op, "begin", rank), end = places(op, "end", rank);
  // The extents of the result that do not follow from where it begins and ends: those of the update, those that the
  // program fixes. If any dim needs more than that to be sliced, data must say where.
  std::vector<std::optional<Dim>> sizes(rank);
  bool needs_data = false;
  for (size_t d = 0, left = 0; d < rank; ++d) {
    if (squeeze[d]) {
      sizes[d] = 1;
    } else if (update) {
      if (left < update->size()) sizes[d] = (*update)[left++];
    } else {
      const mil::ValueType& declared = op.declared(0);
      if (!is_variadic(declared) && left < declared.dims.size() && declared.dims[left].size)
        sizes[d] = *declared.dims[left].size;
      ++left;
    }
    bool begin_known = begin_mask[d] || begin.known, end_known = end_mask[d] || squeeze[d] || end.known;
    if (begin_known && end_known) continue;
    needs_data = needs_data || !sizes[d] || (strides[d] != 1 && !squeeze[d]);
  }
  if (needs_data) {
    if (!begin.known) begin.known = op.dims("begin");
    if (!end.known) end.known = op.dims("end");
  }
  SliceSpec spec;
  spec.strides = strides;
  for (size_t d = 0; d < rank; ++d) {
    const Dim& extent = x.dims()[d];
    if (squeeze[d]) {
      spec.squeezed.push_back(static_cast<int64_t>(d));
      spec.strides[d] = 1;
    }
    bool from_start = begin_mask[d] != 0, to_end = end_mask[d] != 0 || squeeze[d] != 0;
    if (!begin.known && !from_start) {
      spec.starts.emplace_back(0), spec.sizes.push_back(*sizes[d]);
      continue;
    }
    bool fixed = extent.is_static() && (from_start || (*begin.known)[d].is_static()) &&
                 (to_end || (end.known && (*end.known)[d].is_static()));
    if (fixed) {
      std::optional<int64_t> b, e;
      if (!from_start) b = (*begin.known)[d].value();
      if (!to_end) e = (*end.known)[d].value();
      auto [from, count] = run_of(b, e, spec.strides[d], extent.value());
      if (squeeze[d]) {
        from = b ? (*b < 0 ? *b + extent.value() : *b) : 0, count = 1;
        if (from < 0 || from >= extent.value()) op.wrong("index ", *b, " is out of range of dim ", d, " of ", x.type());
      }
      spec.starts.emplace_back(from), spec.sizes.emplace_back(count);
      continue;
    }
    if (spec.strides[d] != 1)
      throw NeedsData(ErrorCode::unsupported,
                      text_of("a slice of stride ", spec.strides[d], " of a dim whose extent is a symbol (", x.type(),
                              "): give the sizes of all inputs"));
    Dim from = from_start ? Dim(0) : from_front((*begin.known)[d], extent);
    Dim count = squeeze[d]  ? Dim(1)
                : to_end    ? extent - from
                : end.known ? from_front((*end.known)[d], extent) - from
                            : *sizes[d];
    spec.starts.push_back(from), spec.sizes.push_back(count);
  }
  if (!begin.known) {
    for (size_t d = 0; d < rank; ++d)
      if (!begin_mask[d]) spec.dynamic = true;
    if (spec.dynamic)
      for (size_t d = 0; d < rank; ++d)
        spec.computed.push_back(begin_mask[d] ? scalar(op.graph(), 0, i32) : place(begin.computed, d, x.dims()[d]));
  }
  return spec;
}

namespace {

Value sliced(Value x, const SliceSpec& spec) {
  if (spec.dynamic) return dynamic_slice(x, spec.computed, spec.sizes);
  Dims starts = spec.starts, limits;
  Axes strides, backward;
  for (size_t d = 0; d < starts.size(); ++d) {
    int64_t s = spec.strides[d];
    strides.push_back(s < 0 ? -s : s);
    if (s < 0) {
      backward.push_back(static_cast<int64_t>(d));
      int64_t count = spec.sizes[d].value(), from = starts[d].value();
      starts[d] = count ? from + (count - 1) * s : 0;
      limits.push_back(count ? Dim(from + 1) : Dim(0));
    } else if (s == 1) {
      limits.push_back(starts[d] + spec.sizes[d]);
    } else {
      int64_t count = spec.sizes[d].value();
      limits.push_back(count ? starts[d] + Dim((count - 1) * s + 1) : starts[d]);
    }
  }
  Value y = rlx::slice(x, starts, limits, strides);
  return backward.empty() ? y : rlx::reverse(y, backward);
}

}  // namespace

MIL_OP(slice_by_index) {
  Value x = op("x");
  SliceSpec spec = slice_spec(op, x);
  Value y = sliced(x, spec);
  return one(spec.squeezed.empty() ? y : rlx::squeeze(y, spec.squeezed));
}

MIL_OP(slice_by_size) {
  Value x = op("x");
  size_t rank = x.dims().size();
  Places begin = places(op, "begin", rank);
  Dims sizes = op.dims("size");
  if (sizes.size() != rank) op.wrong("'size' has ", sizes.size(), " entries, x has ", rank, " dims");
  bool to_end = false;
  for (const Dim& s : sizes) to_end = to_end || s == Dim(-1);
  if (!begin.known && to_end) begin.known = op.dims("begin");
  if (begin.known) {
    Dims limits;
    for (size_t d = 0; d < rank; ++d) {
      Dim& from = (*begin.known)[d];
      from = from_front(from, x.dims()[d]);
      limits.push_back(sizes[d] == Dim(-1) ? x.dims()[d] : from + sizes[d]);
    }
    return one(rlx::slice(x, *begin.known, limits));
  }
  std::vector<Value> starts;
  for (size_t d = 0; d < rank; ++d) starts.push_back(place(begin.computed, d, x.dims()[d]));
  return one(dynamic_slice(x, starts, sizes));
}

MIL_OP(slice_update) {
  Value x = op("x"), update = op("update");
  SliceSpec spec = slice_spec(op, x, &update.dims());
  Dims whole = spec.sizes;
  Value u = rlx::reshape(update, whole);  // with the squeezed dims
  for (const Dim& d : whole)
    if (d == Dim(0)) return one(x);
  bool dense = true;
  for (int64_t s : spec.strides) dense = dense && s == 1;
  if (dense) {
    std::vector<Value> starts = spec.computed;
    if (!spec.dynamic)
      for (const Dim& s : spec.starts) starts.push_back(rlx::extent(op.graph(), s, i32));
    return one(dynamic_update_slice(x, u, starts));
  }
  if (spec.dynamic) op.refuse("a slice with strides whose beginning is computed");
  // Spread over x's dims, and chosen where something was put.
  PadAttrs spread;
  Axes backward;
  for (size_t d = 0; d < whole.size(); ++d) {
    int64_t s = spec.strides[d], count = whole[d].value(), from = spec.starts[d].value();
    if (s < 0) backward.push_back(static_cast<int64_t>(d)), from += (count - 1) * s, s = -s;
    spread.low.emplace_back(from);
    spread.high.push_back(x.dims()[d] - Dim(from + (count - 1) * s + 1));
    spread.interior.push_back(s - 1);
  }
  if (!backward.empty()) u = rlx::reverse(u, backward);
  Value there = full(op.graph(), 1, {boolean, whole});
  u = rlx::pad(u, scalar(op.graph(), 0, u.dtype()), spread);
  there = rlx::pad(there, scalar(op.graph(), 0, boolean), spread);
  return one(rlx::select(there, u, x));
}

}  // namespace rlx::mlprogram
