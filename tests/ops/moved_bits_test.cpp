// Ops that only move data move bits: a NaN arrives with its payload and its sign, quiet or signalling.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "reference/interpreter.h"
#include "rlx/session.h"
#include "support/compare.h"

using namespace rlx;

namespace {

uint64_t bits_of(const Tensor& t, size_t i) {
  uint64_t bits = 0;
  std::memcpy(&bits, t.data() + i * byte_size(t.dtype()), byte_size(t.dtype()));
  return bits;
}

/// NaNs that all differ: exponent all ones, a mantissa that counts, every other one negative. Signalling if `quiet` is
/// not set: the mantissa's highest bit is 0.
Tensor nans(DType dtype, const Shape& shape, uint64_t first, bool quiet) {
  Tensor t(dtype, shape);
  int mantissa = info(dtype).mantissa_bits, width = info(dtype).bits;
  uint64_t exponent = ((uint64_t{1} << (width - 1 - mantissa)) - 1) << mantissa;
  uint64_t payloads = (uint64_t{1} << (mantissa - 1)) - 1;
  for (size_t i = 0; i < t.element_count(); ++i) {
    uint64_t bits = exponent | (1 + (first + i) % payloads) | (uint64_t{i % 2} << (width - 1)) |
                    (uint64_t{quiet} << (mantissa - 1));
    std::memcpy(t.mutable_data() + i * byte_size(dtype), &bits, byte_size(dtype));
  }
  return t;
}

/// A NaN in `out` whose bits `in` does not have. Numbers are what padding adds, the default NaN is what an index out of
/// range reads.
std::string foreign_bits(const Tensor& out, Tensors in, DType dtype) {
  if (out.dtype() != dtype) return "";
  std::set<uint64_t> known;
  for (const Tensor& t : in)
    if (t.dtype() == dtype)
      for (size_t i = 0; i < t.element_count(); ++i) known.insert(bits_of(t, i));
  uint64_t fill = encode_float(dtype, NAN);
  bool only_fill = out.element_count() > 0;
  for (size_t i = 0; i < out.element_count(); ++i) {
    only_fill = only_fill && bits_of(out, i) == fill;
    if (std::isnan(load_number(out, i)) && bits_of(out, i) != fill && !known.contains(bits_of(out, i)))
      return text_of("element ", i, " has bits ", bits_of(out, i), ", which no operand has");
  }
  return only_fill ? "every element is the default NaN" : "";
}

}  // namespace

TEST_CASE("ops that move data keep every bit of a NaN, by the reference and on the CPU") {
  Session session(Device::cpu(), {1});
  int seen = 0;
  for (const OpDef* op : all_ops()) {
    if (!op->moves_data || op->operands.empty()) continue;
    for (const Sample& s : op->samples())
      for (DType dtype : {f16, bf16, f32, f64})
        for (bool quiet : {true, false}) {
          std::vector<Type> types;
          bool generic = false;
          for (size_t i = 0; i < s.dims.size(); ++i) {
            DType t = i < s.dtypes.size() ? s.dtypes[i] : f64;
            generic = generic || t == f64;
            types.push_back({t == f64 ? dtype : t, s.dims[i]});
          }
          if (!generic) continue;
          std::vector<Tensor> in;
          uint64_t count = 0;
          for (const Type& t : types) {
            in.push_back(t.dtype == dtype ? nans(dtype, shape_of(t.dims), count, quiet)
                                          : random_tensor(t.dtype, shape_of(t.dims), 7 + count, s.lo, s.hi));
            count += in.back().element_count();
          }
          try {
            infer_types(*op, types, s.attrs);
          } catch (const Error&) {
            continue;  // not a dtype of this op
          }
          Graph g = trace(types, [&](Graph& to, Values v) { return to.emit(*op, {v.begin(), v.end()}, s.attrs); });
          auto wanted = interpret(g, in), got = session.compile(g).run_ordered(in);
          for (size_t r = 0; r < wanted.size(); ++r) {
            auto why = foreign_bits(wanted[r], in, dtype);
            std::string what = text_of(op->name, " of ", dtype, quiet ? ", quiet" : ", signalling");
            CHECK_MESSAGE(why.empty(), what, ", by the reference: ", why);
            CHECK_MESSAGE(got[r] == wanted[r], what, ", on the CPU");
          }
          ++seen;
        }
  }
  CHECK(seen > 100);
}
