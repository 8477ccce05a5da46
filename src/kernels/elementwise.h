// A register machine for element-wise programs: it evaluates a whole fused region tile by tile, in scratch that
// stays in L1. The program is built once (values in SSA form, `finish` assigns registers), then run for any extents
// and strides without allocating. Neighbours: elementwise_kernels.h has the loop behind each op, move.h moves
// without computing.
//
//   ElementwiseProgram p;
//   auto x = p.load(f32, 0);
//   p.store(p.apply(ElementwiseOp::gelu_erf, f32, p.apply(ElementwiseOp::add, f32, x, p.load(f32, 1))), 0);
//   p.finish();
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/elementwise_chain.h"
#include "rlx/dtype.h"

namespace rlx::kernels {

// Semantics are StableHLO's, and these where it leaves a choice: integer x / 0 = -1 (all bits set), x % 0 = x, the
// lowest value / -1 wraps; shifts by the width or more give 0 (arithmetic: the sign); max and min pass NaN on;
// float to integer truncates, saturates, and takes NaN to 0; compare on complex knows eq and ne only.
// `total_*` order floats as IEEE 754 totalOrder does: -NaN < -inf < ... -0 < +0 ... < inf < NaN.
// The formatter never settles on a list of macro calls.
// clang-format off
#define RLX_ELEMENTWISE_OPS(RLX_OP)                                                                                    \
  /* one operand */                                                                                                    \
  RLX_OP(abs)                                                                                                          \
  RLX_OP(neg)                                                                                                          \
  RLX_OP(sign)                                                                                                         \
  RLX_OP(floor)                                                                                                        \
  RLX_OP(ceil)                                                                                                         \
  RLX_OP(round_nearest_even)                                                                                           \
  RLX_OP(round_nearest_afz) RLX_OP(trunc) RLX_OP(exp) RLX_OP(exp2) RLX_OP(expm1) RLX_OP(log) RLX_OP(log2)              \
      RLX_OP(log1p) RLX_OP(sqrt) RLX_OP(rsqrt) RLX_OP(cbrt) RLX_OP(reciprocal) RLX_OP(sin) RLX_OP(cos) RLX_OP(tan)     \
          RLX_OP(asin) RLX_OP(acos) RLX_OP(atan) RLX_OP(sinh) RLX_OP(cosh) RLX_OP(tanh) RLX_OP(asinh) RLX_OP(acosh)    \
              RLX_OP(atanh) RLX_OP(erf) RLX_OP(erfc) RLX_OP(lgamma) RLX_OP(logistic) RLX_OP(gelu_erf) RLX_OP(gelu_tanh) RLX_OP(relu)  \
                  RLX_OP(silu) RLX_OP(logical_not) RLX_OP(popcnt) RLX_OP(clz) RLX_OP(is_finite) RLX_OP(real)           \
                      RLX_OP(imag) RLX_OP(conj) RLX_OP(convert) /* two operands */                                     \
      RLX_OP(complex) RLX_OP(add) RLX_OP(sub) RLX_OP(mul) RLX_OP(div) RLX_OP(rem) RLX_OP(pow) RLX_OP(max) RLX_OP(min)  \
          RLX_OP(logical_and) RLX_OP(logical_or) RLX_OP(logical_xor) RLX_OP(shift_left) RLX_OP(shift_right_logical)    \
              RLX_OP(shift_right_arithmetic) RLX_OP(atan2) RLX_OP(eq) RLX_OP(ne) RLX_OP(lt) RLX_OP(le) RLX_OP(gt)      \
                  RLX_OP(ge) RLX_OP(total_eq) RLX_OP(total_ne) RLX_OP(total_lt) RLX_OP(total_le) RLX_OP(total_gt)      \
                      RLX_OP(total_ge) /* three operands: select(pred, on_true, on_false), clamp(low, x, high), fma(a, \
                                          b, c) = a b + c */                                                           \
      RLX_OP(select) RLX_OP(clamp) RLX_OP(fma)
// clang-format on

enum class ElementwiseOp : uint8_t {
#define RLX_OP(name) name,
  RLX_ELEMENTWISE_OPS(RLX_OP)
#undef RLX_OP
};

inline constexpr int kMaxElementwiseRank = 8;

/// Where an operand or a result lies: element (i0, i1, ...) of the iteration space is at data + sum of i_d *
/// strides[d] elements. A stride of 0 broadcasts.
struct ElementwiseBuffer {
  void* data = nullptr;  ///< operands are only read
  int64_t strides[kMaxElementwiseRank]{};
};

/// The iteration space and the buffers, numbered as in `load` and `store`. Few dims are fast: call
/// `merge_elementwise_dims` when extents are known.
struct ElementwiseCall {
  int rank = 0;
  int64_t dims[kMaxElementwiseRank]{};
  const ElementwiseBuffer* operands = nullptr;
  const ElementwiseBuffer* results = nullptr;
  int64_t element_count() const;
};

/// Merges neighbouring dims that every buffer walks in one stride, and drops dims of extent 1.
void merge_elementwise_dims(int& rank, int64_t* dims, ElementwiseBuffer* buffers, int buffer_count) noexcept;

namespace elementwise {
struct Step;
struct PlannedChain;
}  // namespace elementwise

class ElementwiseProgram {
 public:
  using Value = uint16_t;
  static constexpr Value kNone = 0xffff;

  ElementwiseProgram();
  ~ElementwiseProgram();
  ElementwiseProgram(ElementwiseProgram&&) noexcept;
  ElementwiseProgram& operator=(ElementwiseProgram&&) noexcept;

  Value load(DType dtype, int operand);
  Value constant(DType dtype, std::complex<double> value);
  Value integer(DType dtype, int64_t value);  ///< for what a double cannot hold
  /// `out` is the result's dtype: that of the operands except for convert, compare (boolean), is_finite (boolean),
  /// and abs, real, imag, complex. f16 and bf16 results are rounded; give f32 to keep the unrounded value.
  /// An rlx::Error (unsupported) if the op has no meaning for these dtypes.
  Value apply(ElementwiseOp op, DType out, Value a, Value b = kNone, Value c = kNone);
  /// Writes a value as its own dtype to result buffer `result`. A value may be stored several times.
  void store(Value value, int result);

  /// Assigns registers and picks the kernels; the program can be run after this, and no longer changed.
  void finish();

  /// Per calling thread, aligned to 64 bytes.
  size_t scratch_bytes() const;
  /// Elements that one pass works on: split ranges at multiples of this.
  int64_t tile() const { return tile_; }
  DType dtype_of(Value value) const;  ///< until `finish`, which numbers values anew

  /// Elements [begin, end) of the iteration space in row-major order. A result may overlap an operand only if both
  /// have the same data and strides.
  void run(const ElementwiseCall& call, int64_t begin, int64_t end, void* scratch) const noexcept;

 private:
  struct Node {
    enum class What : uint8_t { load, constant, op } what;
    ElementwiseOp op;
    DType dtype;
    Value a = kNone, b = kNone, c = kNone;
    int operand = 0;
    std::complex<double> value = 0;
    int64_t integer = 0;
  };
  class Run;
  struct Stored {
    Value value;
    int result;
  };

  /// Places in scratch, which values share that do not live at one time.
  struct Places {
    std::vector<uint8_t> bytes;  ///< of an element in each
    std::vector<uint16_t> of;    ///< the place of each value
  };
  void put_in_order();
  Places make_steps();
  void lay_out(const Places& places);
  void link_chains(size_t& offset);

  std::vector<Node> nodes_;
  std::vector<Stored> stores_;
  std::vector<elementwise::Step> steps_;  ///< first those that run once per call, then those of each tile
  size_t once_ = 0;                       ///< how many run once
  int64_t tile_ = 0, dense_tile_ = 0;     ///< elements; the latter if all arrays are dense
  bool only_chains_ = false;              ///< which need no registers for tiles
  // Offsets in scratch: of each register, of strided operands' and results' elements side by side, of the registers'
  // pointers, of the layouts of operands and results, of what runs of chains need.
  std::vector<size_t> register_at_;
  size_t raw_at_ = 0, pointers_at_ = 0, layouts_at_ = 0, chains_at_ = 0, scratch_bytes_ = 0;
  elementwise::ChainTarget chain_;
  std::vector<elementwise::PlannedChain> chains_;
  int operands_ = 0, results_ = 0;
  size_t share_ =
      0;  ///< of memory's work: bytes of each operand and result with a block of a chain, or kPiece of an op
  bool stores_late_ = true;
};

}  // namespace rlx::kernels
