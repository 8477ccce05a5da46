// See the header.
#include "judge/cases.h"

#include <sstream>

#include "judge/compare.h"

namespace rlx {

std::vector<Tensor> Case::inputs(uint64_t seed) const {
  std::vector<Tensor> all;
  for (const Type& t : types) all.push_back(random_tensor(t.dtype, shape_of(t.dims), seed + all.size(), lo, hi));
  return all;
}
Graph Case::graph(const OpDef& op) const {
  return trace(types, [&](Graph& g, Values in) { return g.emit(op, {in.begin(), in.end()}, attrs); });
}
Case case_of(const Sample& s) {
  Case c{{}, s.attrs, s.lo, s.hi};
  for (size_t i = 0; i < s.dims.size(); ++i) c.types.push_back({i < s.dtypes.size() ? s.dtypes[i] : f64, s.dims[i]});
  return c;
}
std::vector<Case> cases_of(const OpDef& op, const Sample& s) {
  std::vector<Case> all = {case_of(s)};
  bool generic = std::any_of(all[0].types.begin(), all[0].types.end(), [](const Type& t) { return t.dtype == f64; });
  if (!generic) return all;
  for (DType t : {f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean, c64, c128}) {
    Case c = all[0];
    for (Type& type : c.types)
      if (type.dtype == f64) type.dtype = t;
    try {
      infer_types(op, c.types, c.attrs);
    } catch (const Error&) {
      continue;  // not a dtype of this op
    }
    if (is_integer(t)) c.lo = std::min(c.lo, -3.0), c.hi = std::max(c.hi, 9.0);
    if (kind_of(t) == Kind::unsigned_int || op.name == "pow") c.lo = 0;
    all.push_back(std::move(c));
  }
  return all;
}

std::string Case::text() const {
  std::ostringstream out;
  print(out, types);
  if (!attrs.empty()) print(out << " ", attrs);
  return out.str();
}

}  // namespace rlx
