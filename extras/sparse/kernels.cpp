// Kernels of products and substitutions for the CPU, f32, f64, c64 and c128. They mean what the decompositions mean,
// whatever the index operands hold; what is out of range is looked at entry by entry, for the operands are data.
#include "extras/sparse/kernels.h"

#include <limits>
#include <type_traits>

#include "extras/sparse/kernel_matrix.h"

namespace rlx::sparse {
namespace {

/// Sizes of one product with a compressed matrix: its lines, what its indices count, the width of the dense operand.
struct Lines {
  int64_t lines, others, entries, width;
};

constexpr int64_t kEntriesPerPart = 16384;  // some ten microseconds: less is not worth a thread

/// Whether all of the indices are in range, so that the loops below need not ask. No early end: this vectorizes.
template <class I>
bool all_in_range(const I* index, int64_t count, int64_t size) {
  using U = std::make_unsigned_t<I>;
  if (static_cast<uint64_t>(size) > static_cast<uint64_t>(std::numeric_limits<I>::max())) {
    return std::all_of(index, index + count, [](I i) { return i >= 0; });
  }
  U outside = 0;
  for (int64_t e = 0; e < count; ++e) outside |= static_cast<U>(static_cast<U>(index[e]) >= static_cast<U>(size));
  return outside == 0;
}

/// y[line] = sum of value * x[index] over the line's entries: the direction in which lines are independent.
template <bool kAsk, class T, class I>
void gather_some(const Lines& s, int64_t begin, int64_t end, const I* pointers, const I* index, const T* values,
                 const T* x, T* y) {
  auto bound = [&](I p) { return kAsk ? std::clamp<int64_t>(p, 0, s.entries) : static_cast<int64_t>(p); };
  auto outside = [&](I i) { return kAsk && static_cast<uint64_t>(i) >= static_cast<uint64_t>(s.others); };
  for (int64_t line = begin; line < end; ++line) {
    int64_t e = bound(pointers[line]), last = bound(pointers[line + 1]);
    if (s.width == 1) {
      T sum = 0;
      for (; e < last; ++e)
        if (!outside(index[e])) sum += values[e] * x[index[e]];
      y[line] = sum;
      continue;
    }
    T* to = y + line * s.width;
    std::fill_n(to, s.width, T{0});
    for (; e < last; ++e) {
      if (outside(index[e])) continue;
      const T* from = x + static_cast<int64_t>(index[e]) * s.width;
      const T value = values[e];
      for (int64_t k = 0; k < s.width; ++k) to[k] += value * from[k];
    }
  }
}
template <class T, class I>
void gather_lines(const KernelRun& run, const Lines& s, bool ask, std::span<const I> pointers, const I* index,
                  const T* values, const T* x, T* y) {
  auto lines = [&](int64_t begin, int64_t end) {
    if (ask) gather_some<true>(s, begin, end, pointers.data(), index, values, x, y);
    else gather_some<false>(s, begin, end, pointers.data(), index, values, x, y);
  };
  int64_t parts = std::clamp<int64_t>(s.entries * s.width / kEntriesPerPart, 1, 4 * int64_t{run.threads()});
  if (parts == 1 || run.threads() == 1) return lines(0, s.lines);
  // Parts of equally many entries, not lines: a few long lines are common.
  auto line_at = [&](int64_t part) {
    if (part == parts) return s.lines;
    auto target = static_cast<I>(s.entries * part / parts);
    int64_t line = std::lower_bound(pointers.begin(), pointers.end(), target) - pointers.begin();
    return part == 0 ? int64_t{0} : std::min(line, s.lines);
  };
  run.parallel_for(parts, [&](int64_t part) { lines(line_at(part), line_at(part + 1)); });
}

/// y[index] += value * x[line]: the other direction, for columns [begin, end) of the dense operand.
template <bool kAsk, class T, class I>
void scatter_some(const Lines& s, int64_t begin, int64_t end, const I* pointers, const I* index, const T* values,
                  const T* x, T* y) {
  auto bound = [&](I p) { return kAsk ? std::clamp<int64_t>(p, 0, s.entries) : static_cast<int64_t>(p); };
  auto outside = [&](I i) { return kAsk && static_cast<uint64_t>(i) >= static_cast<uint64_t>(s.others); };
  for (int64_t row = 0; row < s.others; ++row) std::fill_n(y + row * s.width + begin, end - begin, T{0});
  for (int64_t line = 0; line < s.lines; ++line) {
    int64_t e = bound(pointers[line]), last = bound(pointers[line + 1]);
    if (s.width == 1) {
      const T value = x[line];
      for (; e < last; ++e)
        if (!outside(index[e])) y[index[e]] += values[e] * value;
      continue;
    }
    const T* from = x + line * s.width;
    for (; e < last; ++e) {
      if (outside(index[e])) continue;
      T* to = y + static_cast<int64_t>(index[e]) * s.width;
      const T value = values[e];
      for (int64_t k = begin; k < end; ++k) to[k] += value * from[k];
    }
  }
}
/// Columns of the dense operand are split over the threads.
template <class T, class I>
void scatter_lines(const KernelRun& run, const Lines& s, bool ask, std::span<const I> pointers, const I* index,
                   const T* values, const T* x, T* y) {
  auto columns = [&](int64_t begin, int64_t end) {
    if (ask) scatter_some<true>(s, begin, end, pointers.data(), index, values, x, y);
    else scatter_some<false>(s, begin, end, pointers.data(), index, values, x, y);
  };
  constexpr int64_t kColumns = 16;  // a cache line of f32 or two of f64
  int64_t parts = s.entries * s.width < 2 * kEntriesPerPart ? 1 : std::max<int64_t>(s.width / kColumns, 1);
  parts = std::min<int64_t>(parts, run.threads());
  if (parts == 1) return columns(0, s.width);
  run.parallel_for(parts, [&](int64_t part) { columns(s.width * part / parts, s.width * (part + 1) / parts); });
}

/// y += the products of single entries with their rows.
template <class T, class I>
void scatter_entries(const Lines& s, const I* own, const I* other, const T* values, const T* x, T* y) {
  std::fill_n(y, s.lines * s.width, T{0});
  for (int64_t e = 0; e < s.entries; ++e) {
    if (static_cast<uint64_t>(own[e]) >= static_cast<uint64_t>(s.lines) ||
        static_cast<uint64_t>(other[e]) >= static_cast<uint64_t>(s.others))
      continue;
    T* to = y + static_cast<int64_t>(own[e]) * s.width;
    const T* from = x + static_cast<int64_t>(other[e]) * s.width;
    for (int64_t k = 0; k < s.width; ++k) to[k] += values[e] * from[k];
  }
}

template <class T, class I>
PreparedKernel prepare_matmul(const KernelSite& site) {
  Matrix m = matrix_of<SparseProductAttrs>(site);
  bool transposed = site.attrs<SparseProductAttrs>().transposed;
  Batch batch = batch_of(site, 3);
  int64_t from = transposed ? m.rows : m.columns, to = transposed ? m.columns : m.rows;
  auto run = [=](const KernelRun& args) {
    const I *first = args.in<I>(0), *second = args.in<I>(1);
    std::vector<I> sorted;
    std::span<const I> pointers;
    int64_t lines = m.format == SparseFormat::csr ? m.rows : m.columns;
    if (m.format != SparseFormat::coo) pointers = ascending(std::span(first, static_cast<size_t>(lines) + 1), sorted);
    bool ask = m.format == SparseFormat::coo || pointers.front() < 0 || pointers.back() > m.entries ||
               !all_in_range(second, m.entries, m.format == SparseFormat::csr ? m.columns : m.rows);
    for (int64_t i = 0; i < batch.count; ++i) {
      const T* values = args.in<T>(2) + i * batch.values_apart;
      const T* x = args.in<T>(3) + i * from * batch.width;
      T* y = args.out<T>() + i * to * batch.width;
      if (m.format == SparseFormat::coo) {
        scatter_entries<T, I>({to, from, m.entries, batch.width}, transposed ? second : first,
                              transposed ? first : second, values, x, y);
        continue;
      }
      Lines s{lines, m.format == SparseFormat::csr ? m.columns : m.rows, m.entries, batch.width};
      if ((m.format == SparseFormat::csr) != transposed) gather_lines(args, s, ask, pointers, second, values, x, y);
      else scatter_lines(args, s, ask, pointers, second, values, x, y);
    }
  };
  return {run};
}

template <class T, class I>
PreparedKernel prepare_sampled(const KernelSite& site) {
  Matrix m = matrix_of<SparseAttrs>(site);
  int64_t width = site.operands[2].shape.back();
  int64_t count = 1;
  for (size_t d = 0; d + 2 < site.operands[2].shape.size(); ++d) count *= site.operands[2].shape[d];
  auto run = [=](const KernelRun& args) {
    std::fill_n(args.out<T>(), count * m.entries, T{0});
    for (int64_t i = 0; i < count; ++i) {
      const T *u = args.in<T>(2) + i * m.rows * width, *v = args.in<T>(3) + i * m.columns * width;
      T* y = args.out<T>() + i * m.entries;
      for_each_place(m, args.in<I>(0), args.in<I>(1), [&](int64_t e, int64_t r, int64_t c) {
        T sum = 0;
        for (int64_t k = 0; k < width; ++k) sum += u[r * width + k] * v[c * width + k];
        y[e] = sum;
      });
    }
  };
  return {run};
}

template <class T, class I>
PreparedKernel prepare_to_dense(const KernelSite& site) {
  Matrix m = matrix_of<SparseAttrs>(site);
  int64_t cells = m.rows * m.columns, count = site.results[0].count();
  auto run = [=](const KernelRun& args) {
    std::fill_n(args.out<T>(), count, T{0});
    for (int64_t i = 0; cells > 0 && i < count / cells; ++i)
      for_each_place(m, args.in<I>(0), args.in<I>(1), [&](int64_t e, int64_t r, int64_t c) {
        args.out<T>()[i * cells + r * m.columns + c] += args.in<T>(2)[i * m.entries + e];
      });
  };
  return {run};
}

template <class T, class I>
PreparedKernel prepare_sample(const KernelSite& site) {
  Matrix m = matrix_of<SparseAttrs>(site);
  int64_t cells = m.rows * m.columns, count = site.results[0].count();
  auto run = [=](const KernelRun& args) {
    std::fill_n(args.out<T>(), count, T{0});
    for (int64_t i = 0; m.entries > 0 && i < count / m.entries; ++i)
      for_each_place(m, args.in<I>(0), args.in<I>(1), [&](int64_t e, int64_t r, int64_t c) {
        args.out<T>()[i * m.entries + e] = args.in<T>(2)[i * cells + r * m.columns + c];
      });
  };
  return {run};
}

template <class T, class I>
PreparedKernel prepare_triangular(const KernelSite& site) {
  Matrix m = matrix_of<SparseTriangularAttrs>(site);
  auto a = site.attrs<SparseTriangularAttrs>();
  Batch batch = batch_of(site, 3);
  bool transposed = a.transposed, lower = a.lower != a.transposed, unit = a.unit_diagonal;
  auto run = [=](const KernelRun& args) {
    Compressed<T> rows;
    int64_t n = m.rows, width = batch.width;
    for (int64_t i = 0; i < batch.count; ++i) {
      if (i == 0 || batch.values_apart)
        rows = rows_of<T, I>(m, transposed, args, args.in<T>(2) + i * batch.values_apart);
      T* x = args.out<T>() + i * n * width;
      std::copy_n(args.in<T>(3) + i * n * width, n * width, x);
      for (int64_t step = 0; step < n; ++step) {
        int64_t r = lower ? step : n - 1 - step;
        T on = 0;
        for (int64_t e = rows.pointers[r]; e < rows.pointers[r + 1]; ++e) {
          int64_t c = rows.columns[e];
          if (c == r) on = rows.values[e];
          else if ((c < r) == lower)
            for (int64_t k = 0; k < width; ++k) x[r * width + k] -= rows.values[e] * x[c * width + k];
        }
        if (!unit)
          for (int64_t k = 0; k < width; ++k) x[r * width + k] /= on;
      }
    }
  };
  return {run};
}

}  // namespace

void register_kernels() {
  RLX_SPARSE_KERNEL(sparse_matmul, "sparse product", prepare_matmul, RLX_SPARSE_ALL);
  RLX_SPARSE_KERNEL(sparse_sampled_matmul, "sampled product", prepare_sampled, RLX_SPARSE_ALL);
  RLX_SPARSE_KERNEL(sparse_to_dense, "sparse to dense", prepare_to_dense, RLX_SPARSE_ALL);
  RLX_SPARSE_KERNEL(sparse_sample, "dense to sparse", prepare_sample, RLX_SPARSE_ALL);
  RLX_SPARSE_KERNEL(sparse_triangular_solve, "sparse substitution", prepare_triangular, RLX_SPARSE_ALL);
  register_cg_kernel();
  register_lu_kernel();
}

}  // namespace rlx::sparse
