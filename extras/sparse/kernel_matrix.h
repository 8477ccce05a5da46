// What the kernels share: the matrix as the operands of one run hold it, read as the family's semantics say, whatever
// the index operands hold.
#pragma once

#include <complex>
#include <span>

#include "extras/sparse/compressed.h"
#include "extras/sparse/kernels.h"

namespace rlx::sparse {

/// The pointers in ascending order; `sorted` keeps them where they were not.
template <class I>
std::span<const I> ascending(std::span<const I> pointers, std::vector<I>& sorted) {
  if (std::is_sorted(pointers.begin(), pointers.end())) return pointers;
  sorted.assign(pointers.begin(), pointers.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

/// Numbers of the attributes, as they are when a kernel is prepared.
struct Matrix {
  SparseFormat format;
  int64_t rows, columns, entries;
};
template <class A>
Matrix matrix_of(const KernelSite& site) {
  const A& a = site.attrs<A>();
  return {a.format, a.rows.value(), a.columns.value(), site.operands[1].count()};
}
/// How many dense operands there are in operand `i`, and how far apart the values of two are (0: shared).
struct Batch {
  int64_t count, values_apart, width;
};
inline Batch batch_of(const KernelSite& site, size_t dense) {
  const Shape& shape = site.operands[dense].shape;
  int64_t count = 1;
  for (size_t d = 0; d + 2 < shape.size(); ++d) count *= shape[d];
  return {count, site.operands[2].shape.size() > 1 ? site.operands[2].shape.back() : 0, shape.back()};
}

/// Calls visit(entry, row, column) for each entry that is in range.
template <class I, class F>
void for_each_place(const Matrix& m, const I* first, const I* second, F visit) {
  if (m.format == SparseFormat::coo) {
    for (int64_t e = 0; e < m.entries; ++e)
      if (static_cast<uint64_t>(first[e]) < static_cast<uint64_t>(m.rows) &&
          static_cast<uint64_t>(second[e]) < static_cast<uint64_t>(m.columns))
        visit(e, static_cast<int64_t>(first[e]), static_cast<int64_t>(second[e]));
    return;
  }
  bool by_rows = m.format == SparseFormat::csr;
  int64_t lines = by_rows ? m.rows : m.columns, others = by_rows ? m.columns : m.rows;
  std::vector<I> sorted;
  auto pointers = ascending(std::span(first, static_cast<size_t>(lines) + 1), sorted);
  auto bound = [&](I p) { return std::clamp<int64_t>(p, 0, m.entries); };
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t e = bound(pointers[line]), last = bound(pointers[line + 1]); e < last; ++e) {
      auto other = static_cast<int64_t>(second[e]);
      if (static_cast<uint64_t>(other) >= static_cast<uint64_t>(others)) continue;
      by_rows ? visit(e, line, other) : visit(e, other, line);
    }
}

/// Rows of the matrix (of its transpose, if that is what is solved with), entries of one place added up.
template <class T, class I>
Compressed<T> rows_of(const Matrix& m, bool transposed, const KernelRun& args, const T* values) {
  std::vector<Place<T>> places;
  places.reserve(static_cast<size_t>(m.entries));
  for_each_place(m, args.in<I>(0), args.in<I>(1), [&](int64_t e, int64_t r, int64_t c) {
    places.push_back(transposed ? Place<T>{c, r, values[e]} : Place<T>{r, c, values[e]});
  });
  return compressed(m.rows, std::move(places));
}

template <class... T>
std::string refusal(Types operands, Types, const Attrs&) {
  if (((operands[2].dtype == dtype_of<T>()) || ...)) return "";
  return text_of("no sparse kernel takes ", operands[2]);
}

/// Registers Prepare<T, I> for the dtypes T of the values and I of the indices.
template <class... T, class Prepare>
void register_kernel(const OpDef& op, const char* name, Prepare prepare) {
  register_cpu_kernel({&op, name, refusal<T...>, [prepare](const KernelSite& site) {
                         PreparedKernel made;
                         auto of = [&]<class V>() {
                           if (site.operands[2].dtype != dtype_of<V>()) return;
                           made = site.operands[0].dtype == i64 ? prepare.template operator()<V, int64_t>(site)
                                                                : prepare.template operator()<V, int32_t>(site);
                         };
                         (of.template operator()<T>(), ...);
                         return made;
                       }});
}
#define RLX_SPARSE_KERNEL(op_name, kernel_name, prepare, ...) \
  register_kernel<__VA_ARGS__>(op::op_name, kernel_name,      \
                               []<class T, class I>(const KernelSite& site) { return prepare<T, I>(site); })
#define RLX_SPARSE_REAL float, double
#define RLX_SPARSE_ALL float, double, std::complex<float>, std::complex<double>

}  // namespace rlx::sparse
