// Attention: one kernel call per batch, head and range of queries, reading q, k and v where they lie.
#include "backends/cpu/lowerings.h"
#include "kernels/attention.h"
#include "rlx/ops/attention.h"

namespace rlx::cpu {
namespace {

/// Where an operand's batches, heads and positions stand, in elements.
struct Heads {
  int64_t batch = 1, positions = 1, width = 1;
  int64_t batch_stride = 0, head_stride = 0, row_stride = 0;

  Heads(const View& v, AttentionLayout layout, int64_t heads) {
    size_t rank = v.shape.size();
    if (layout == AttentionLayout::packed) {
      bool batched = rank == 3;
      batch = batched ? v.shape[0] : 1;
      batch_stride = batched ? v.strides[0] : 0;
      positions = v.shape[rank - 2], row_stride = v.strides[rank - 2];
      width = v.shape[rank - 1] / heads;
      head_stride = width;
      return;
    }
    bool heads_first = layout == AttentionLayout::bhsd;
    batch = v.shape[0], batch_stride = v.strides[0];
    head_stride = v.strides[heads_first ? 1 : 2];
    positions = v.shape[heads_first ? 2 : 1], row_stride = v.strides[heads_first ? 2 : 1];
    width = v.shape[3];
  }
  int64_t offset(int64_t b, int64_t h) const { return b * batch_stride + h * head_stride; }
};

}  // namespace

std::string when_attention(const Question& q) {
  if (auto why = when::is_float({q.node, q.operands.first(3)}); !why.empty()) return why;
  const auto& a = q.node.attrs.as<AttentionAttrs>();
  DType t = q.operands[0].dtype;
  for (const Type& other : q.operands.first(3))
    if (other.dtype != t) return text_of("q, k and v of ", t, " and ", other.dtype);
  if (a.mask == AttentionMask::none) return "";
  DType mask = q.operands[3].dtype;
  if (a.mask == AttentionMask::key_padding && mask != boolean && mask != f32 && mask != t)
    return text_of("a key mask of ", mask, " beside ", t);
  if (a.mask == AttentionMask::bias && mask != f32 && mask != t) return text_of("a bias of ", mask, " beside ", t);
  return "";
}

bool attention_strided(const Node& node, size_t operand, const Shape& shape, std::span<const int64_t> strides) {
  if (operand < 3) return strided::rows(node, operand, shape, strides);
  return node.attrs.as<AttentionAttrs>().mask == AttentionMask::bias;
}

Prepared lower_attention(const LoweringContext& c) {
  const auto& a = c.attrs<AttentionAttrs>();
  int64_t kv_heads = a.kv_heads.value_or(a.heads), group = a.heads / std::max<int64_t>(kv_heads, 1);
  Heads q(c.operands[0], a.layout, a.heads), k(c.operands[1], a.layout, kv_heads), v(c.operands[2], a.layout, kv_heads),
      y(c.results[0], a.layout, a.heads);
  kernels::AttentionArgs args;
  args.dtype = c.operands[0].dtype;
  args.q_stride = q.row_stride, args.k_stride = k.row_stride, args.v_stride = v.row_stride,
  args.out_stride = y.row_stride;
  args.q_rows = q.positions, args.k_rows = k.positions;
  args.head_dim = q.width, args.value_dim = v.width;
  args.scale = a.scale.value_or(1 / std::sqrt(static_cast<double>(q.width)));
  args.soft_cap = a.softcap.value_or(0);
  if (a.window) args.left = *a.window, args.right = *a.window;
  if (a.causal) args.right = 0;
  int64_t mask_batch_stride = 0, bias_batch_stride = 0, bias_head_stride = 0;
  size_t mask_bytes = 0;
  if (a.mask != AttentionMask::none) {
    const View& m = c.operands[3];
    mask_bytes = m.element_bytes();
    if (a.mask == AttentionMask::key_padding) {  // [B or 1, ..., Sk], dense
      args.key_mask_dtype = m.dtype;
      mask_batch_stride = m.count() == args.k_rows ? 0 : args.k_rows;
    } else {  // broadcasts to [B, H, Sq, Sk], right-aligned
      args.bias_dtype = m.dtype;
      auto stride = [&](size_t from_end) {
        return m.shape.size() < from_end || m.shape[m.shape.size() - from_end] == 1
                   ? 0
                   : m.strides[m.strides.size() - from_end];
      };
      args.bias_col_stride = stride(1), args.bias_row_stride = stride(2);
      bias_head_stride = stride(3), bias_batch_stride = stride(4);
    }
  }
  AttentionMask mask = a.mask;
  int64_t heads = a.heads, block = kernels::attention_row_block();
  int64_t blocks = (q.positions + block - 1) / block, tasks = q.batch * heads * blocks;
  size_t per_thread = (kernels::attention_scratch_bytes(args) + 63) / 64 * 64;
  auto bytes = static_cast<int64_t>(c.operands[0].element_bytes());
  double work =
      static_cast<double>(q.batch * heads * q.positions * k.positions) * static_cast<double>(q.width + v.width) * 0.02;
  return make_step("flash_attention", per_thread * static_cast<size_t>(c.threads), [=](const StepArgs& step) {
    for_ranges(step, tasks, 1, work, [&](int64_t begin, int64_t end, int64_t part) {
      kernels::AttentionArgs call = args;
      while (begin < end) {  // all blocks of a head that fall to this part, in one call
        int64_t head = begin / blocks, first = begin % blocks, last = std::min(blocks, first + end - begin);
        int64_t b = head / heads, h = head % heads;
        auto at = [&](size_t i, const Heads& layout, int64_t which) {
          return step.in<std::byte>(i) + layout.offset(b, which) * bytes;
        };
        call.q = at(0, q, h), call.k = at(1, k, h / group), call.v = at(2, v, h / group);
        call.out = step.out<std::byte>() + y.offset(b, h) * bytes;
        auto mask_at = [&](int64_t element) {
          return step.in<std::byte>(3) + element * static_cast<int64_t>(mask_bytes);
        };
        if (mask == AttentionMask::key_padding) call.key_mask = mask_at(b * mask_batch_stride);
        if (mask == AttentionMask::bias) call.bias = mask_at(b * bias_batch_stride + h * bias_head_stride);
        kernels::attention(call, first * block, std::min(last * block, call.q_rows),
                           step.scratch + per_thread * static_cast<size_t>(part));
        begin += last - first;
      }
    });
  });
}

}  // namespace rlx::cpu
