// Products: y = act(alpha x W + bias) + residual with weights W that are packed once, and the batched product of two
// operands that are known only at run time. All that a shape decides is decided in a prepared object, whose run()
// neither allocates nor locks. There are two implementations: fma_gemm.cpp and batched.cpp, which take every product
// (vectors of multiply-adds, or bf16 matrix tiles by amx_gemm.h), and ozaki_gemm.cpp, which splits constant f32 weights
// into integers where the policy allows row-relative errors and the processor has matrix tiles.
//
// Each output is accumulated in f32 (of f64 operands in f64, of Ozaki splits in i32) and rounded once to y's dtype,
// behind the epilogue. For a given shape and thread count, results are deterministic.
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

/// The matrix that is added: none, an operand of its own, or the contents of y before the product.
enum class Residual : uint8_t { none, separate, in_place };

/// What is done to the sums: act(alpha sum + bias) + residual, or with `residual_first` act(alpha sum + bias +
/// residual).
struct Epilogue {
  double alpha = 1;
  bool bias = false;  ///< one value per column
  DType bias_dtype = f32;
  Activation activation = Activation::none;
  Residual residual = Residual::none;  ///< of y's dtype
  bool residual_first = false;

  bool operator==(const Epilogue&) const = default;
};

/// What products may do, as chosen in the compile options (Accuracy, batch_invariant and Compute in rlx/compile.h).
struct ProductPolicy {
  bool row_relative = false;     ///< errors may be relative to the largest numbers of a row and of a column
  bool batch_invariant = false;  ///< the bits of a row depend on that row and the other operand alone
  bool int8 = false;             ///< beside weights in blocks, x may be rounded to integers of 15 bits

  bool operator==(const ProductPolicy&) const = default;
};

/// The weights as they are stored before packing: element (i, j) of the [k, n] matrix is at i * k_stride +
/// j * n_stride. An [n, k] matrix (each output's weights together) has strides {1, k}.
struct WeightsSpec {
  int64_t k = 0, n = 0;
  int64_t k_stride = 0, n_stride = 0;
  DType dtype = f32;    ///< f32, bf16, f16, or f64
  DType x_dtype = f32;  ///< of the other operand: f64 if and only if the weights are, else any of the others
  int threads = 1;      ///< that pack them
  int64_t rows = 0;     ///< rows_for_packing() of the products that they are for
  ProductPolicy policy = {};
};
/// The value of WeightsSpec::rows for products of m rows: the smallest number of rows for which weights of this size
/// are split into integers (1 for large weights), or 0 if m is smaller or these weights are never split. Specs that
/// differ in nothing else are packed alike if this is equal.
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
  /// Packed weights of the product that runs next; this product may prefetch them. May be empty.
  std::span<const std::byte> prefetch = {};
};

/// An implementation's plan for one spec; callers see it as PreparedProduct.
template <class Operands>
class ProductPlan {
 public:
  virtual ~ProductPlan() = default;
  virtual size_t scratch_bytes() const = 0;
  /// ProductStrategy::text() of the plan.
  virtual std::string strategy() const = 0;
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
  /// How it is computed, and why (product_plan.h): "multiply-adds, 4 x 1 tasks: there are no matrix tiles".
  std::string strategy() const { return plan_->strategy(); }
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
  /// Copies the weights. Throws rlx::Error (unsupported) for other dtypes than WeightsSpec names.
  static std::shared_ptr<const PackedWeights> pack(const WeightsSpec& spec, const void* data);
  /// Uses, without a copy, the bytes that `packed()` returned for the same weights and an equal spec, in a process with
  /// the same `packed_form()`. They must be aligned to 64 and readable for one vector behind their end; `owner` keeps
  /// them alive. Null if their number is not what the spec needs.
  static std::shared_ptr<const PackedWeights> adopt(const WeightsSpec& spec, std::span<const std::byte> packed,
                                                    std::shared_ptr<const void> owner);

  virtual ~PackedWeights();

  /// The product for that shape. The plans of the latest shapes are cached: preparing one of them again is a look-up,
  /// which does not allocate. May be called from several threads; the result keeps alive what it needs of the weights.
  /// Throws rlx::Error for dtypes, extents and epilogues that products do not support.
  PreparedGemm prepare(const GemmSpec& spec) const;

  int64_t k() const { return k_; }
  int64_t n() const { return n_; }
  size_t bytes() const { return bytes_; }
  /// True if the weights are stored as Ozaki splits (ozaki/split_weights.h), so that their products are computed so.
  virtual bool are_split() const { return false; }
  /// The packed bytes, which can be stored and given to adopt(); empty if an implementation does not offer them.
  virtual std::span<const std::byte> packed() const { return {}; }
  /// The block of memory that they lie in, and the bytes of it in use; weights of others may lie in it too.
  virtual std::pair<const void*, size_t> block() const { return {this, bytes_}; }

  /// For implementations: a new plan for a spec that was checked; prepare() caches it.
  virtual std::shared_ptr<const ProductPlan<GemmOperands>> plan(const GemmSpec& spec) const = 0;

 protected:
  PackedWeights(const WeightsSpec& spec, size_t bytes);

 private:
  struct Plans;
  int64_t k_, n_;
  DType dtype_, x_dtype_;
  size_t bytes_;
  std::unique_ptr<Plans> plans_;
};

/// y[b..., i, j] = act(alpha sum_k lhs[b..., i, k] rhs[b..., k, j] + bias[j]) + residual[b..., i, j].
/// Strides are in elements. Those of lhs and rhs may be any numbers, 0 and negative ones included, so that a transposed
/// or broadcast operand needs no copy; y's must not map two elements to one address. A separate residual has y's
/// strides.
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
  ProductPolicy policy = {};

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

/// As PackedWeights::prepare(), with one cache of plans for the whole process.
PreparedBatchedGemm prepare_batched_gemm(const BatchedGemmSpec& spec);

/// Names the layout in which this process packs weights; it differs wherever `adopt` could not use the bytes.
std::string packed_form();

}  // namespace rlx::kernels
