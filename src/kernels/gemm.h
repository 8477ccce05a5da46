// Products: y = act(alpha x W + bias) + residual with weights that were packed once, and the batched product of two
// operands that both come at run time. Everything that a shape decides is decided in a prepared object, whose
// run() neither allocates nor locks. Behind one interface stand oneDNN (gemm_onednn.cpp) where it was built in, our own
// with Highway (gemm_highway.cpp) everywhere, and slices of integers (gemm_sliced.cpp) on processors with matrix tiles.
//
// Each output is accumulated in f32 (in f64 for f64; by slices in integers) and rounded once to y's dtype. For a given
// shape and thread count, results are deterministic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "rlx/dtype.h"

namespace rlx::kernels {

class ThreadPool;

/// gelu_erf: x (1 + erf(x / sqrt 2)) / 2; gelu_tanh: its tanh form; silu: x sigmoid(x).
/// relu6: x limited to [0, 6]; hard_swish: x relu6(x + 3) / 6.
enum class Activation : uint8_t { none, relu, gelu_erf, gelu_tanh, silu, sigmoid, tanh, relu6, hard_swish };

/// Which implementation computes a product. `automatic` takes the one that measures faster for the case, and the
/// other where that one does not offer it.
enum class GemmBackend : uint8_t { automatic, onednn, highway };

/// A matrix that is added: none, one of its own, or what y held before.
enum class Residual : uint8_t { none, separate, in_place };

/// What follows the sum: act(alpha sum + bias) + residual, or with `residual_first` act(alpha sum + bias + residual).
struct Epilogue {
  double alpha = 1;
  bool bias = false;  ///< one value per column
  DType bias_dtype = f32;
  Activation activation = Activation::none;
  Residual residual = Residual::none;  ///< of y's dtype
  bool residual_first = false;
  /// Round to y's dtype after the sum and after each step, as separate ops would; f16 and bf16 only.
  bool round_each_step = false;

  bool operator==(const Epilogue&) const = default;
};

/// The weights as they are stored before packing: element (i, j) of the [k, n] matrix is at i * k_stride +
/// j * n_stride. An [n, k] matrix (each output's weights together) has strides {1, k}.
struct WeightsSpec {
  int64_t k = 0, n = 0;
  int64_t k_stride = 0, n_stride = 0;
  DType dtype = f32;    ///< f32, bf16, f16, or f64
  DType x_dtype = f32;  ///< of the other operand: f64 if and only if the weights are, else any of the others
  int threads = 1;      ///< the most that will run products with them
  int64_t rows = 0;     ///< rows_for_packing() of the products that they are for
  GemmBackend backend = GemmBackend::automatic;
};
/// What packing these weights asks of the m rows of a product: the fewest that are multiplied as many are, or 0 if
/// these are fewer, or if rows decide nothing here. Large weights are packed one way for all.
int64_t rows_for_packing(const WeightsSpec& spec, int64_t m);

/// One product's shape. Strides are the distances between rows, in elements; within a row elements are adjacent.
struct GemmSpec {
  int64_t m = 0;
  int64_t x_stride = 0, y_stride = 0, residual_stride = 0;
  DType y_dtype = f32;
  Epilogue epilogue;
  int threads = 1;

  bool operator==(const GemmSpec&) const = default;
};

struct GemmOperands {
  const void* x = nullptr;
  void* y = nullptr;  ///< overlaps no operand
  const void* bias = nullptr;
  const void* residual = nullptr;  ///< for Residual::separate
  /// Packed weights that will be read next, by another product: memory may be asked for them meanwhile.
  std::span<const std::byte> ahead = {};
};

/// What an implementation makes of a spec; see PreparedProduct.
template <class Operands>
class ProductPlan {
 public:
  virtual ~ProductPlan() = default;
  virtual size_t scratch_bytes() const = 0;
  virtual void run(const Operands& operands, void* scratch, ThreadPool& pool) const noexcept = 0;
};

/// A product that is ready to run. Cheap to copy; keeps its weights alive; one object may run on several threads at
/// once, each with scratch memory of its own.
template <class Operands>
class PreparedProduct {
 public:
  PreparedProduct() = default;
  explicit PreparedProduct(std::shared_ptr<const ProductPlan<Operands>> plan) : plan_(std::move(plan)) {}

  /// Bytes of scratch memory, aligned to 64, that run() needs. May be 0.
  size_t scratch_bytes() const { return plan_->scratch_bytes(); }
  void run(const Operands& operands, void* scratch, ThreadPool& pool) const noexcept {
    plan_->run(operands, scratch, pool);
  }
  explicit operator bool() const { return plan_ != nullptr; }

 private:
  std::shared_ptr<const ProductPlan<Operands>> plan_;
};
using PreparedGemm = PreparedProduct<GemmOperands>;

/// Weights in the order in which the kernels read them; immutable, shared between threads and run states.
class PackedWeights {
 public:
  /// Copies the weights. Throws rlx::Error (unsupported) for dtypes or a backend that are not offered.
  static std::shared_ptr<const PackedWeights> pack(const WeightsSpec& spec, const void* data);
  /// Takes what `packed()` gave of equal weights under an equal spec, in a process that `packed_form()` says the same
  /// of. They start at a multiple of 64, a vector may be read behind their end, and `owner` keeps them. Null if their
  /// number is not what the spec takes.
  static std::shared_ptr<const PackedWeights> adopt(const WeightsSpec& spec, std::span<const std::byte> packed,
                                                    std::shared_ptr<const void> owner);

  virtual ~PackedWeights();

  /// The product for that shape. The latest shapes are kept, so that asking again for one of them is a look-up,
  /// which does not allocate. Safe from several threads; what it returns keeps what it needs of the weights alive.
  /// Throws rlx::Error (unsupported) for dtypes, or for what an implementation that was asked for does not offer.
  PreparedGemm prepare(const GemmSpec& spec) const;

  int64_t k() const { return k_; }
  int64_t n() const { return n_; }
  size_t bytes() const { return bytes_; }
  /// The implementation that was chosen; never `automatic`.
  GemmBackend backend() const { return backend_; }
  /// True if they are in slices of integers (sliced_weights.h), and products go by those.
  virtual bool are_sliced() const { return false; }
  /// The weights as they were packed, to be kept and adopted; empty for an implementation that does not say.
  virtual std::span<const std::byte> packed() const { return {}; }
  /// The block of memory that they lie in, and the bytes of it in use; weights of others may lie in it too.
  virtual std::pair<const void*, size_t> block() const { return {this, bytes_}; }

  /// For implementations: a plan for a spec that was checked, not kept.
  virtual std::shared_ptr<const ProductPlan<GemmOperands>> plan(const GemmSpec& spec) const = 0;

 protected:
  PackedWeights(const WeightsSpec& spec, GemmBackend backend, size_t bytes);

 private:
  struct Plans;
  int64_t k_, n_;
  DType dtype_, x_dtype_;
  size_t bytes_;
  GemmBackend backend_;
  std::unique_ptr<Plans> plans_;
};

/// y[b..., i, j] = act(alpha sum_k lhs[b..., i, k] rhs[b..., k, j] + bias[j]) + residual[b..., i, j].
/// All strides are in elements and may be anything, 0 and negative included (y's must keep its elements apart), so
/// that a transposed or broadcast operand needs no copy. A separate residual has y's strides.
struct BatchedGemmSpec {
  static constexpr int kMaxBatchRank = 6;

  int64_t m = 0, n = 0, k = 0;
  int64_t lhs_m_stride = 0, lhs_k_stride = 1;
  int64_t rhs_k_stride = 0, rhs_n_stride = 1;
  int64_t y_m_stride = 0, y_n_stride = 1;
  int batch_rank = 0;
  int64_t batch_dims[kMaxBatchRank] = {};
  int64_t lhs_batch_strides[kMaxBatchRank] = {};
  int64_t rhs_batch_strides[kMaxBatchRank] = {};
  int64_t y_batch_strides[kMaxBatchRank] = {};
  DType lhs_dtype = f32, rhs_dtype = f32, y_dtype = f32;  ///< all f64, or any of f32, bf16, f16
  Epilogue epilogue;
  int threads = 1;
  GemmBackend backend = GemmBackend::automatic;

  bool operator==(const BatchedGemmSpec&) const = default;
};

struct BatchedGemmOperands {
  const void* lhs = nullptr;
  const void* rhs = nullptr;
  void* y = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
};

using PreparedBatchedGemm = PreparedProduct<BatchedGemmOperands>;

/// Kept like PackedWeights::prepare's, for the whole process.
PreparedBatchedGemm prepare_batched_gemm(const BatchedGemmSpec& spec);

/// True if this build has that implementation and the processor can run it.
bool has_gemm_backend(GemmBackend backend);

/// In which form weights are packed here; changes whenever `adopt` could not take what was packed elsewhere.
std::string packed_form();

}  // namespace rlx::kernels
