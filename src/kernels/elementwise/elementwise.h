// A register machine for element-wise programs. It evaluates a whole fused region tile by tile, and its registers
// (arrays of one tile each) lie in scratch memory that stays in L1. A program is built once in SSA form, compiled once
// (`compile` assigns registers and kernels), then run for any extents and strides without allocating. Sequences of f32
// ops run as threaded code on vector registers (threaded_code.h). Neighbours: loops.h declares the loop of each op;
// kernels/index/move.h moves elements without computing.
//
//   ElementwiseProgram p;
//   auto x = p.load(f32, 0);
//   p.store(p.apply(ElementwiseOp::gelu_erf, f32, p.apply(ElementwiseOp::add, f32, x, p.load(f32, 1))), 0);
//   p.compile();
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/elementwise/threaded_code.h"
#include "rlx/dtype.h"

namespace rlx::kernels {

// Semantics are StableHLO's. Where it leaves a choice: integer x / 0 = -1 (all bits set), x % 0 = x, the lowest value /
// -1 wraps; shifts by the width or more give 0 (arithmetic right shifts: the sign in all bits); max and min propagate
// NaN; float to integer truncates, saturates, and maps NaN to 0; complex numbers can only be compared by eq and ne.
// `total_*` order floats as IEEE 754 totalOrder does: -NaN < -inf < ... -0 < +0 ... < inf < NaN.
// clang-format is off because it changes this list each time it runs.
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
/// strides[d], in elements. A stride of 0 broadcasts.
struct ElementwiseBuffer {
  void* data = nullptr;  ///< operands are only read
  int64_t strides[kMaxElementwiseRank]{};
};

/// The iteration space of a run, and its buffers: operands and results are numbered as in `load` and `store`. Fewer
/// dims run faster: call `merge_elementwise_dims` when extents are known.
struct ElementwiseCall {
  int rank = 0;
  int64_t dims[kMaxElementwiseRank]{};
  const ElementwiseBuffer* operands = nullptr;
  const ElementwiseBuffer* results = nullptr;
  int64_t element_count() const;
};

/// Merges neighbouring dims that a single stride walks in every buffer, and drops dims of extent 1.
void merge_elementwise_dims(int& rank, int64_t* dims, ElementwiseBuffer* buffers, int buffer_count) noexcept;

namespace elementwise {
struct Step;
struct PlannedThreadedCode;
}  // namespace elementwise

class ElementwiseProgram {
 public:
  using Value = uint16_t;
  static constexpr Value kNone = 0xffff;

  ElementwiseProgram();
  ~ElementwiseProgram();
  ElementwiseProgram(ElementwiseProgram&&) noexcept;
  ElementwiseProgram& operator=(ElementwiseProgram&&) noexcept;

  /// The elements of operand buffer `operand`, one for each index of the iteration space.
  Value load(DType dtype, int operand);
  /// The same number for all elements.
  Value constant(DType dtype, std::complex<double> value);
  Value integer(DType dtype, int64_t value);  ///< the same for integers, some of which a double cannot represent
  /// Applies an op to values. `out` is the result's dtype: that of the operands, except for convert, comparisons and
  /// is_finite (boolean), abs, real, imag and complex. Results of f16 and bf16 are rounded; pass `out` = f32 to keep
  /// the unrounded value. Throws an rlx::Error (unsupported) if the op is not defined for these dtypes.
  Value apply(ElementwiseOp op, DType out, Value a, Value b = kNone, Value c = kNone);
  /// Writes a value as its own dtype to result buffer `result`. A value may be stored several times.
  void store(Value value, int result);

  /// Orders the ops, assigns registers and selects the kernels. Call it once, after the last `store`; the program can
  /// then be run, but not changed.
  void compile();

  /// Size of the scratch that each thread passes to `run`, which must be aligned to 64 bytes.
  size_t scratch_bytes() const;
  /// Elements per tile: callers that split a range over threads split it at multiples of this.
  int64_t tile() const { return tile_; }
  DType dtype_of(Value value) const;  ///< only before `compile`, which renumbers the values

  /// Computes elements [begin, end) of the iteration space, in row-major order. A result may overlap an operand only if
  /// both have the same data and strides.
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

  /// Register allocation. A slot holds one tile in scratch; values whose lifetimes do not overlap share a slot.
  struct Slots {
    std::vector<uint8_t> bytes;  ///< of an element, by slot
    std::vector<uint16_t> of;    ///< the slot of each value
  };
  void read_through_widenings();
  void put_in_order();
  Slots make_steps();
  void lay_out(const Slots& slots);
  void make_threaded_code(size_t& offset);

  std::vector<Node> nodes_;
  std::vector<Stored> stores_;
  std::vector<elementwise::Step> steps_;  ///< first those that run once per call, then those that run for each tile
  size_t once_ = 0;                       ///< how many steps run once per call: those of the constants
  int64_t tile_ = 0;                      ///< elements of a tile
  int64_t dense_tile_ = 0;                ///< the same, if every array is dense or a single element
  bool only_threaded_code_ = false;       ///< all ops run as threaded code: no register holds a tile
  // Offsets in scratch: of each value's register; of the buffer in which elements of strided operands and results are
  // gathered; of the registers' current pointers; of the layouts of operands and results; of the state of threaded
  // code.
  std::vector<size_t> register_at_;
  size_t raw_at_ = 0, pointers_at_ = 0, layouts_at_ = 0, threaded_codes_at_ = 0, scratch_bytes_ = 0;
  elementwise::ThreadedCodeTarget threaded_target_;
  std::vector<elementwise::PlannedThreadedCode> threaded_codes_;
  int operands_ = 0, results_ = 0;
  /// The prefetches and streaming stores between arithmetic: how many bytes of each operand and result they move after
  /// a block of threaded code, or after kPiece elements of another op.
  size_t traffic_share_ = 0;
  bool stores_late_ = true;          ///< whether no result is written before the last operand has been read
  double threaded_gain_ns_ = 0;      ///< how much sooner threaded code computes a block than the ops' kernels
  int64_t min_threaded_blocks_ = 0;  ///< the number of blocks from which on threaded code is faster than the kernels
};

}  // namespace rlx::kernels
