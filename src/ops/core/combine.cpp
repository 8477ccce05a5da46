// Combining elements; see the header.
#include "ops/core/combine.h"

namespace rlx {

Tensor initial_value(Reduction kind, DType dtype) {
  bool real = is_float(dtype), is_signed = kind_of(dtype) == Kind::signed_int;
  int bits = info(dtype).bits;
  switch (kind) {
    case Reduction::prod:
    case Reduction::all: return full(dtype, {}, 1);
    case Reduction::max:
      if (real) return full(dtype, {}, -std::numeric_limits<double>::infinity());
      return full(dtype, {}, is_signed ? -std::ldexp(1.0, bits - 1) : 0);
    case Reduction::min: {
      if (real) return full(dtype, {}, std::numeric_limits<double>::infinity());
      Tensor t(dtype, {});  // the highest value of a wide integer is no double
      if (is_signed) store<int64_t>(t, 0, static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1));
      else store<uint64_t>(t, 0, ~uint64_t{0});
      return t;
    }
    default: return full(dtype, {}, 0);
  }
}

void require_reducible(const Type& t, Reduction kind) {
  switch (kind) {
    case Reduction::sum:
    case Reduction::prod: return require_kind(t, kNumber);
    case Reduction::max:
    case Reduction::min: return require_kind(t, kBool | kInteger | kReal);
    case Reduction::all:
    case Reduction::any: return require_kind(t, kBool);
    case Reduction::custom: return;
  }
}

void require_combiner(const Subgraph& body, Types xs, Types inits) {
  std::vector<Type> scalars;
  for (const Type& t : xs) scalars.push_back({t.dtype, {}});
  if (!std::equal(scalars.begin(), scalars.end(), inits.begin(), inits.end()))
    fail(ErrorCode::shape_mismatch, "each initial value must be a scalar of its operand's dtype");
  auto wanted = scalars;
  wanted.insert(wanted.end(), scalars.begin(), scalars.end());
  if (body->input_types() != wanted || body->output_types() != scalars) {
    std::ostringstream out;
    print(out << "the combiner must map ", wanted);
    print(out << " to ", scalars);
    print(out << "; it maps ", body->input_types());
    print(out << " to ", body->output_types());
    fail(ErrorCode::shape_mismatch, out.str());
  }
}

Combiner::Cells::Cells(Shape shape, const Combiner& combiner)
    : Cells(
          [&] {
            std::vector<Tensor> start;
            for (const Tensor& init : combiner.inits_)
              start.push_back(moved(init, shape, [](const Axes&) { return 0; }));
            return start;
          }(),
          combiner) {}
Combiner::Cells::Cells(std::vector<Tensor> start, const Combiner& combiner)
    : combiner_(combiner), shape_(start[0].shape()), cells_(std::move(start)) {
  // A named float reduction runs in f64 and rounds once.
  if (combiner.kind_ != Reduction::custom && is_float(cells_[0].dtype())) real_ = Array<double>(cells_[0]).data;
}

void Combiner::Cells::add(const Axes& index, size_t at) {
  size_t cell = offset_of(shape_, index);
  if (!real_.empty()) {
    real_[cell] = combined(combiner_.kind_, real_[cell], load<double>(combiner_.xs_[0], at));
    return;
  }
  if (combiner_.kind_ != Reduction::custom) {
    with_element_type(cells_[0].dtype(), [&]<class T>() {
      store<T>(cells_[0], cell, combined(combiner_.kind_, load<T>(cells_[0], cell), load<T>(combiner_.xs_[0], at)));
    });
    return;
  }
  std::vector<Tensor> arguments;
  for (const Tensor& t : cells_) arguments.push_back(moved(t, {}, [&](const Axes&) { return int64_t(cell); }));
  for (const Tensor& t : combiner_.xs_) arguments.push_back(moved(t, {}, [&](const Axes&) { return int64_t(at); }));
  auto next = combiner_.run_(*combiner_.body_, arguments);
  for (size_t r = 0; r < next.size(); ++r)
    with_element_type(next[r].dtype(), [&]<class T>() { store<T>(cells_[r], cell, load<T>(next[r], 0)); });
}

std::vector<Tensor> Combiner::Cells::results() const {
  auto results = cells_;
  for (size_t i = 0; i < real_.size(); ++i) store<double>(results[0], i, real_[i]);
  return results;
}

}  // namespace rlx
