// See the header. The kernels are in split_blocks_avx512.cpp and split_blocks_avx2.cpp, a file for each instruction
// set.
#include "kernels/quant/split_blocks.h"

#include <algorithm>
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#endif

#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/partial_sums.h"
#include "kernels/quant/split_pieces.h"
#include "kernels/quant/vnni.h"
#include "kernels/vector/instruction_set.h"

namespace rlx::kernels {

#if defined(__x86_64__) && defined(__linux__)
namespace {

using split::kPiece, split::Piece;

/// Each lane of the shortest vectors adds a sum for 32 elements, and is not longer than a partial sum.
constexpr int64_t kMaxElements = 64 * kPartialSumTerms;

bool has_vnni() { return has_int8_dot_isa(Int8DotIsa::avx512_vnni); }
/// With FMA and F16C, of which clang 14's __builtin_cpu_supports does not know the latter.
bool has_avx2() {
  static const bool has = [] {
    constexpr unsigned kF16C = 1u << 29;
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
           (c & kF16C) != 0;
  }();
  return has && is_permitted(InstructionSet::avx2);
}

template <int kDigits, class Multiply>
void multiply_pieces(const BlockWeightsProduct& p, const void* row, int64_t begin, int64_t end, Multiply multiply) {
  constexpr int64_t kColumns = BlockWeightsProduct::kColumns;
  const int64_t row_bytes = p.k / info(p.format).block_elements * info(p.format).block_bytes;
  BlockProduct y;
  y.y = p.y, y.y_dtype = p.y_dtype, y.y_row_stride = p.y_stride;
  y.bias = p.bias, y.residual = p.residual, y.residual_row_stride = p.residual_stride, y.epilogue = &p.epilogue;
  for (int64_t j = begin; j < end; j += kColumns) {
    alignas(64) float sums[kColumns] = {};
    const int64_t columns = std::min(kColumns, end - j);
    multiply(p.format, static_cast<const Piece<kDigits>*>(row),
             {reinterpret_cast<const uint8_t*>(p.w) + j * row_bytes, row_bytes, p.k / kPiece}, columns, sums);
    apply_epilogue(y, sums, kColumns, 0, 1, j, columns);
  }
}

}  // namespace

bool splits_rows_beside(SplitDigits digits, DType format, int64_t k) {
  return (format == q8_0 || format == q4_k || format == q6_k) && k > 0 && k % kPiece == 0 && k <= kMaxElements &&
         (has_vnni() || (digits == SplitDigits::two && has_avx2()));
}
size_t split_row_bytes(SplitDigits digits, int64_t k) {
  return static_cast<size_t>(k / kPiece) * (digits == SplitDigits::two ? sizeof(Piece<2>) : sizeof(Piece<3>));
}
bool split_row(SplitDigits digits, DType format, const float* x, int64_t k, void* to) noexcept {
  if (digits == SplitDigits::three) return split::split_for_avx512(format, x, k, static_cast<Piece<3>*>(to));
  return has_vnni() ? split::split_for_avx512(format, x, k, static_cast<Piece<2>*>(to))
                    : split::split_for_avx2(format, x, k, static_cast<Piece<2>*>(to));
}
void multiply_split_row(SplitDigits digits, const BlockWeightsProduct& p, const void* row, int64_t begin,
                        int64_t end) noexcept {
  using Two = void (*)(DType, const Piece<2>*, const split::Columns&, int64_t, float*);
  using Three = void (*)(DType, const Piece<3>*, const split::Columns&, int64_t, float*);
  if (digits == SplitDigits::three) return multiply_pieces<3>(p, row, begin, end, Three{split::multiply_by_avx512});
  multiply_pieces<2>(
      p, row, begin, end,
      static_cast<const Piece<2>*>(row)->is_for_avx2 ? Two{split::multiply_by_avx2} : Two{split::multiply_by_avx512});
}

#else

bool splits_rows_beside(SplitDigits, DType, int64_t) { return false; }
size_t split_row_bytes(SplitDigits, int64_t) { return 0; }
bool split_row(SplitDigits, DType, const float*, int64_t, void*) noexcept { return false; }
void multiply_split_row(SplitDigits, const BlockWeightsProduct&, const void*, int64_t, int64_t) noexcept {}

#endif

}  // namespace rlx::kernels
