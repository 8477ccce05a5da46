// Sparse LU by Eigen: the host's solver in two parts, and the kernel of sparse_solve, which keeps the symbolic part
// from run to run for as long as the pattern is the same.
#include <limits>
#include <mutex>
#include <type_traits>
#include <variant>

#include "extras/sparse/kernel_matrix.h"
#include "rlx/extras/sparse_matrix.h"

#if RLX_HAS_EIGEN
#include <Eigen/SparseLU>
#endif

namespace rlx {

#if RLX_HAS_EIGEN
namespace sparse {
namespace {

/// A factorization of matrices of one pattern. Places are those of the entries, column by column; several entries may
/// have one.
template <class T>
class Lu {
 public:
  using Sparse = Eigen::SparseMatrix<T, Eigen::ColMajor, int>;
  using Real = typename Eigen::NumTraits<T>::Real;

  /// Symbolic; the diagonal is part of the pattern, for a shift.
  Lu(int64_t n, const std::vector<Place<int64_t>>& places) : diagonal_(static_cast<size_t>(n)) {
    if (n > std::numeric_limits<int>::max() || std::ssize(places) + n > std::numeric_limits<int>::max())
      fail(ErrorCode::unsupported, "a factorization of ", n, " columns and ", places.size(),
           " entries: at most 2^31 - 1");
    std::vector<Eigen::Triplet<T, int>> all;
    for (const auto& p : places) all.emplace_back(static_cast<int>(p.row), static_cast<int>(p.column), T{1});
    for (int64_t i = 0; i < n; ++i) all.emplace_back(static_cast<int>(i), static_cast<int>(i), T{1});
    matrix_.resize(static_cast<int>(n), static_cast<int>(n));
    matrix_.setFromTriplets(all.begin(), all.end());
    auto slot_of = [&](int64_t row, int64_t column) {
      const int *begin = matrix_.innerIndexPtr() + matrix_.outerIndexPtr()[column],
                *end = matrix_.innerIndexPtr() + matrix_.outerIndexPtr()[column + 1];
      return static_cast<int>(std::lower_bound(begin, end, row) - matrix_.innerIndexPtr());
    };
    for (const auto& p : places) slots_.emplace_back(p.value, slot_of(p.row, p.column));
    for (int64_t i = 0; i < n; ++i) diagonal_[static_cast<size_t>(i)] = slot_of(i, i);
    if (n > 0) lu_.analyzePattern(matrix_);
  }
  /// Numeric; false if the matrix is singular.
  bool factor(const T* values, double shift) {
    std::fill_n(matrix_.valuePtr(), matrix_.nonZeros(), T{0});
    for (auto [entry, slot] : slots_) matrix_.valuePtr()[slot] += values[entry];
    for (int slot : diagonal_) matrix_.valuePtr()[slot] += static_cast<Real>(shift);
    if (matrix_.rows() == 0) return true;
    lu_.factorize(matrix_);
    return lu_.info() == Eigen::Success;
  }
  /// x, b: [n, width], row by row.
  void solve(const T* b, T* x, int64_t width, bool transposed) {
    if (matrix_.rows() == 0 || width == 0) return;
    using Dense = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
    using Rows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    Dense right = Eigen::Map<const Rows>(b, matrix_.rows(), width), solution;
    if (transposed) solution = lu_.transpose().solve(right);
    else solution = lu_.solve(right);
    Eigen::Map<Rows>(x, matrix_.rows(), width) = solution;
  }
  int64_t fill() const { return static_cast<int64_t>(lu_.nnzL()) + static_cast<int64_t>(lu_.nnzU()); }

 private:
  Sparse matrix_;
  std::vector<std::pair<int64_t, int>> slots_;  // entry, and where it stands
  std::vector<int> diagonal_;
  Eigen::SparseLU<Sparse, Eigen::COLAMDOrdering<int>> lu_;
};

template <class I>
std::vector<Place<int64_t>> places_in(const Matrix& m, const I* first, const I* second) {
  std::vector<Place<int64_t>> places;
  for_each_place(m, first, second, [&](int64_t e, int64_t r, int64_t c) { places.push_back({r, c, e}); });
  return places;
}

/// Factorizations that no run is using, with the index operands that they were made for.
template <class T, class I>
class Factorizations {
 public:
  struct Kept {
    std::vector<I> first, second;
    Lu<T> lu;
  };
  std::unique_ptr<Kept> take(const Matrix& m, std::span<const I> first, std::span<const I> second) {
    {
      std::scoped_lock lock(mutex_);
      for (auto& kept : idle_)
        if (std::equal(first.begin(), first.end(), kept->first.begin(), kept->first.end()) &&
            std::equal(second.begin(), second.end(), kept->second.begin(), kept->second.end())) {
          std::unique_ptr<Kept> taken = std::move(kept);
          idle_.erase(idle_.begin() + (&kept - idle_.data()));
          return taken;
        }
    }
    return std::unique_ptr<Kept>(new Kept{{first.begin(), first.end()},
                                          {second.begin(), second.end()},
                                          Lu<T>(m.rows, places_in(m, first.data(), second.data()))});
  }
  void give_back(std::unique_ptr<Kept> kept) {
    constexpr size_t kMost = 4;
    std::scoped_lock lock(mutex_);
    if (idle_.size() >= kMost) idle_.erase(idle_.begin());
    idle_.push_back(std::move(kept));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Kept>> idle_;
};

template <class T>
T not_a_number() {
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::quiet_NaN();
  else return {not_a_number<typename T::value_type>(), not_a_number<typename T::value_type>()};
}

template <class T, class I>
PreparedKernel prepare_solve(const KernelSite& site) {
  Matrix m = matrix_of<SparseSolveAttrs>(site);
  Batch batch = batch_of(site, 3);
  auto attrs = site.attrs<SparseSolveAttrs>();
  auto known = std::make_shared<Factorizations<T, I>>();
  auto pointers = static_cast<size_t>(site.operands[0].count());
  auto run = [=, transposed = attrs.transposed, shift = attrs.shift](const KernelRun& args) {
    auto kept = known->take(m, {args.in<I>(0), pointers}, {args.in<I>(1), static_cast<size_t>(m.entries)});
    bool regular = true;
    int64_t size = m.rows * batch.width;
    for (int64_t i = 0; i < batch.count; ++i) {
      if (i == 0 || batch.values_apart) regular = kept->lu.factor(args.in<T>(2) + i * batch.values_apart, shift);
      if (regular) kept->lu.solve(args.in<T>(3) + i * size, args.out<T>() + i * size, batch.width, transposed);
      else std::fill_n(args.out<T>() + i * size, size, not_a_number<T>());
    }
    known->give_back(std::move(kept));
  };
  return {run};
}

}  // namespace

void register_lu_kernel() { RLX_SPARSE_KERNEL(sparse_solve, "sparse LU by Eigen", prepare_solve, RLX_SPARSE_ALL); }

}  // namespace sparse

struct SparseLu::State {
  int64_t n, entries;
  DType dtype;
  std::vector<sparse::Place<int64_t>> places;
  std::variant<std::monostate, sparse::Lu<float>, sparse::Lu<double>, sparse::Lu<std::complex<float>>,
               sparse::Lu<std::complex<double>>>
      lu;
  bool factored = false;

  /// f<T>(the factorization of T), for the values' T.
  template <class F>
  auto with(F f) {
    switch (dtype) {
      case f32: return f.template operator()<float>(std::get<1>(lu));
      case f64: return f.template operator()<double>(std::get<2>(lu));
      case c64: return f.template operator()<std::complex<float>>(std::get<3>(lu));
      default: return f.template operator()<std::complex<double>>(std::get<4>(lu));
    }
  }
};

SparseLu::SparseLu(const SparseMatrix& pattern) : state_(std::make_unique<State>()) {
  sparse::require_square({pattern.format(), pattern.rows(), pattern.columns()});
  State& s = *state_;
  s.n = pattern.rows(), s.entries = pattern.entries(), s.dtype = pattern.values().dtype();
  sparse::Matrix m{pattern.format(), s.n, s.n, s.entries};
  auto places = [&]<class I>() {
    return sparse::places_in(m, pattern.first().values<I>().data(), pattern.second().values<I>().data());
  };
  s.places = pattern.first().dtype() == i64 ? places.operator()<int64_t>() : places.operator()<int32_t>();
  switch (s.dtype) {
    case f32: s.lu.emplace<1>(s.n, s.places); break;
    case f64: s.lu.emplace<2>(s.n, s.places); break;
    case c64: s.lu.emplace<3>(s.n, s.places); break;
    case c128: s.lu.emplace<4>(s.n, s.places); break;
    default:
      fail(ErrorCode::unsupported, "a sparse LU factorization of ", s.dtype, "; f32, f64, c64 and c128 have one");
  }
}
void SparseLu::factor(const Tensor& values, double shift) {
  State& s = *state_;
  if (values.dtype() != s.dtype || values.shape() != Shape{s.entries})
    fail(ErrorCode::shape_mismatch, "the pattern has ", s.entries, " entries of ", s.dtype, "; got values of ",
         values.type());
  s.factored = s.with([&]<class T>(sparse::Lu<T>& lu) { return lu.factor(values.values<T>().data(), shift); });
  if (!s.factored)
    fail(ErrorCode::invalid_argument, "the matrix of ", s.n, " rows and ", s.entries, " entries is singular");
}
Tensor SparseLu::solve(const Tensor& b, bool transposed) const {
  State& s = *state_;
  if (!s.factored) fail(ErrorCode::invalid_argument, "factor() comes before solve(), and must succeed");
  const Shape& shape = b.shape();
  if (b.dtype() != s.dtype || shape.empty() || shape.size() > 2 || shape[0] != s.n)
    fail(ErrorCode::shape_mismatch, "b must be ", s.dtype, "[", s.n, "] or ", s.dtype, "[", s.n, ", k]; got ",
         b.type());
  Tensor x(b.dtype(), shape);
  int64_t width = shape.size() == 2 ? shape[1] : 1;
  s.with([&]<class T>(sparse::Lu<T>& lu) {
    lu.solve(b.values<T>().data(), x.mutable_values<T>().data(), width, transposed);
  });
  return x;
}
int64_t SparseLu::fill() const {
  return state_->factored && state_->n > 0 ? state_->with([]<class T>(sparse::Lu<T>& lu) { return lu.fill(); }) : 0;
}

#else

namespace sparse {
void register_lu_kernel() {}
}  // namespace sparse

struct SparseLu::State {};
SparseLu::SparseLu(const SparseMatrix&) {
  fail(ErrorCode::unsupported,
       "this build is without Eigen, which SparseLu stands on: install libeigen3-dev and configure "
       "again, or use sparse_solve in a graph");
}
void SparseLu::factor(const Tensor&, double) {}
Tensor SparseLu::solve(const Tensor&, bool) const { return {}; }
int64_t SparseLu::fill() const { return 0; }

#endif

SparseLu::~SparseLu() = default;
SparseLu::SparseLu(SparseLu&&) noexcept = default;

}  // namespace rlx
