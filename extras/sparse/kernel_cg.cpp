// Conjugate gradients on the CPU: the lower triangle is mirrored once a run, so that every product goes over rows,
// which threads can share. The arithmetic is that of cg.cpp, column by column.
#include <cmath>
#include <limits>

#include "extras/sparse/kernel_matrix.h"

namespace rlx::sparse {
namespace {

/// Both triangles, from the entries on and below the diagonal; every diagonal entry is there, `shift` added to it.
template <class T>
Compressed<T> mirrored(const Compressed<T>& lower, int64_t n, T shift) {
  std::vector<Place<T>> places;
  places.reserve(2 * lower.values.size() + static_cast<size_t>(n));
  for (int64_t r = 0; r < n; ++r) {
    places.push_back({r, r, shift});
    for (int64_t e = lower.pointers[r]; e < lower.pointers[r + 1]; ++e) {
      places.push_back({r, lower.columns[e], lower.values[e]});
      if (lower.columns[e] != r) places.push_back({lower.columns[e], r, lower.values[e]});
    }
  }
  return compressed(n, std::move(places));
}

/// z = M^-1 r.
template <class T>
class Conditioner {
 public:
  Conditioner(Preconditioner kind, const Compressed<T>& a, int64_t n) : kind_(kind), n_(n) {
    if (kind == Preconditioner::none) return;
    diagonal_.resize(static_cast<size_t>(n));
    for (int64_t r = 0; r < n; ++r)
      for (int64_t e = a.pointers[r]; e < a.pointers[r + 1]; ++e)
        if (a.columns[e] == r) diagonal_[r] = a.values[e];
    if (kind == Preconditioner::ilu0) factorize(a);
  }
  void apply(const T* r, T* z) const {
    for (int64_t i = 0; i < n_; ++i) z[i] = kind_ == Preconditioner::jacobi ? r[i] / diagonal_[i] : r[i];
    if (kind_ != Preconditioner::ilu0) return;
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t e = lower_.pointers[i]; e < lower_.pointers[i + 1]; ++e)
        z[i] -= lower_.values[e] * z[lower_.columns[e]];
    for (int64_t i = 0; i < n_; ++i) z[i] /= diagonal_[i];
    for (int64_t i = n_; i-- > 0;)
      for (int64_t e = lower_.pointers[i]; e < lower_.pointers[i + 1]; ++e)
        z[lower_.columns[e]] -= lower_.values[e] * z[i];
  }

 private:
  /// L D Lᵀ without fill, row by row: l_rc = (a_rc - sum_k l_rk d_k l_ck) / d_c over the entries k < c that both rows
  /// have.
  void factorize(const Compressed<T>& a) {
    lower_.pointers.assign(static_cast<size_t>(n_) + 1, 0);
    for (int64_t r = 0; r < n_; ++r) {
      for (int64_t e = a.pointers[r]; e < a.pointers[r + 1] && a.columns[e] < r; ++e) {
        lower_.columns.push_back(a.columns[e]), lower_.values.push_back(a.values[e]);
      }
      auto begin = lower_.pointers[r], end = static_cast<int64_t>(lower_.columns.size());
      lower_.pointers[r + 1] = end;
      T d = diagonal_[r];
      for (int64_t e = begin; e < end; ++e) {
        int64_t c = lower_.columns[e];
        T sum = lower_.values[e];
        for (int64_t i = begin, j = lower_.pointers[c]; i < e && j < lower_.pointers[c + 1];) {
          int64_t left = lower_.columns[i], right = lower_.columns[j];
          if (left == right) sum -= lower_.values[i] * diagonal_[left] * lower_.values[j];
          i += left <= right, j += right <= left;
        }
        lower_.values[e] = sum / diagonal_[c];
        d -= lower_.values[e] * lower_.values[e] * diagonal_[c];
      }
      diagonal_[r] = d;
    }
  }

  Preconditioner kind_;
  int64_t n_;
  std::vector<T> diagonal_;
  Compressed<T> lower_;
};

template <class T>
void multiply(const KernelRun& args, const Compressed<T>& a, int64_t n, const T* x, T* y) {
  auto rows = [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      T sum = 0;
      for (int64_t e = a.pointers[r]; e < a.pointers[r + 1]; ++e) sum += a.values[e] * x[a.columns[e]];
      y[r] = sum;
    }
  };
  constexpr int64_t kEntriesPerPart = 16384;
  int64_t parts = std::clamp<int64_t>(a.pointers[n] / kEntriesPerPart, 1, args.threads());
  if (parts == 1) return rows(0, n);
  args.parallel_for(parts, [&](int64_t part) { rows(n * part / parts, n * (part + 1) / parts); });
}

template <class T>
T inner(const std::vector<T>& u, const std::vector<T>& v) {
  T sum = 0;
  for (size_t i = 0; i < u.size(); ++i) sum += u[i] * v[i];
  return sum;
}

/// The steps taken, negative if the tolerance was not reached; x[i * stride] is the solution.
template <class T>
int32_t solve_column(const KernelRun& args, const Compressed<T>& a, const Conditioner<T>& conditioner,
                     const SparseCgAttrs& attrs, int64_t n, int64_t stride, const T* b, T* x) {
  std::vector<T> solution(static_cast<size_t>(n)), r(solution), z(solution), p, image(solution);
  for (int64_t i = 0; i < n; ++i) r[i] = b[i * stride];
  double relative = std::max(attrs.tolerance, 4.0 * std::numeric_limits<T>::epsilon());
  conditioner.apply(r.data(), z.data());
  p = z;
  T rz = inner(r, z), square = inner(r, r), enough = square * static_cast<T>(relative * relative);
  int32_t steps = 0;
  for (; square > enough && steps < attrs.max_iterations; ++steps) {
    multiply(args, a, n, p.data(), image.data());
    T curvature = inner(p, image);
    if (!(curvature > 0)) break;  // not positive definite
    T along = rz / curvature;
    for (int64_t i = 0; i < n; ++i) solution[i] += along * p[i], r[i] -= along * image[i];
    conditioner.apply(r.data(), z.data());
    T next = inner(r, z), share = next / rz;
    for (int64_t i = 0; i < n; ++i) p[i] = z[i] + share * p[i];
    rz = next, square = inner(r, r);
  }
  // A residual that is not finite compares as if it were reached: 0 would look like a solution.
  const T lost = square * 0;
  for (int64_t i = 0; i < n; ++i) x[i * stride] = solution[i] + lost;
  return square <= enough ? steps : -steps;
}

template <class T, class I>
PreparedKernel prepare_cg(const KernelSite& site) {
  Matrix m = matrix_of<SparseCgAttrs>(site);
  Batch batch = batch_of(site, 3);
  auto run = [m, batch, attrs = site.attrs<SparseCgAttrs>()](const KernelRun& args) {
    Compressed<T> a;
    std::optional<Conditioner<T>> conditioner;
    int64_t n = m.rows;
    for (int64_t i = 0; i < batch.count; ++i) {
      if (i == 0 || batch.values_apart) {
        const T* values = args.in<T>(2) + i * batch.values_apart;
        std::vector<Place<T>> lower;
        for_each_place(m, args.in<I>(0), args.in<I>(1), [&](int64_t e, int64_t r, int64_t c) {
          if (c <= r) lower.push_back({r, c, values[e]});
        });
        a = mirrored(compressed(n, std::move(lower)), n, static_cast<T>(attrs.shift));
        conditioner.emplace(attrs.preconditioner, a, n);
      }
      for (int64_t k = 0; k < batch.width; ++k) {
        int64_t at = i * n * batch.width + k;
        args.out<int32_t>(1)[i * batch.width + k] =
            solve_column(args, a, *conditioner, attrs, n, batch.width, args.in<T>(3) + at, args.out<T>() + at);
      }
    }
  };
  return {run};
}

}  // namespace

void register_cg_kernel() { RLX_SPARSE_KERNEL(sparse_cg, "conjugate gradients", prepare_cg, RLX_SPARSE_REAL); }

}  // namespace rlx::sparse
