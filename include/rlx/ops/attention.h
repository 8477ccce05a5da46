// Attention and rotary positions. The layout is always said, never guessed from extents.
#pragma once

#include "rlx/ops/shape.h"

namespace rlx {

namespace op {
extern const OpDef attention, rope, axial_rope2d;
}  // namespace op

/// Where heads (H), positions (S) and the elements of a head (D) stand behind the batch.
enum class AttentionLayout { bhsd, bshd, packed };
constexpr std::array<std::string_view, 3> names_of(AttentionLayout) {
  return {"bhsd", "bshd", "packed"};  // [B, H, S, D]; [B, S, H, D]; [B, S, H*D], or [S, H*D] for a batch of 1
}
enum class AttentionMask { none, key_padding, bias };
constexpr std::array<std::string_view, 3> names_of(AttentionMask) { return {"none", "key_padding", "bias"}; }

struct AttentionAttrs {
  int64_t heads = 1;                     ///< of q
  std::optional<int64_t> kv_heads = {};  ///< of k and v; query head h reads head h / (heads / kv_heads) of them
  AttentionLayout layout = AttentionLayout::bhsd;
  bool causal = false;                       ///< query i stands at position p = Sk - Sq + i and sees no key behind p
  std::optional<int64_t> window = {};        ///< and none further than that from p, on either side
  AttentionMask mask = AttentionMask::none;  ///< what the fourth operand is; there is one unless `none`
  std::optional<double> scale = {};          ///< 1 / sqrt(D) where left out
  std::optional<double> softcap = {};
  RLX_FIELDS(AttentionAttrs, field("heads", &AttentionAttrs::heads), field("kv_heads", &AttentionAttrs::kv_heads),
             field("layout", &AttentionAttrs::layout), field("causal", &AttentionAttrs::causal),
             field("window", &AttentionAttrs::window), field("mask", &AttentionAttrs::mask),
             field("scale", &AttentionAttrs::scale), field("softcap", &AttentionAttrs::softcap));
};
/// s = q kᵀ scale; s = softcap tanh(s / softcap); s + bias; -inf for masked keys; softmax(s) v. A query that
/// sees no key gives zeros. v may be of another width than q and k; the result has q's layout and v's width.
/// A key_padding mask is [B, Sk] (or [Sk], [1, Sk], [B, 1, 1, Sk], ...), bool, or a number: >= 0.5 keeps the
/// key. A bias is any float and broadcasts to [B, H, Sq, Sk]; -inf masks.
Value attention(Value q, Value k, Value v, AttentionAttrs attrs);
Value attention(Value q, Value k, Value v, Value mask, AttentionAttrs attrs);

/// Which elements of a head turn together: i and i + n/2, or 2i and 2i + 1.
enum class RopeStyle { neox, gptj };
constexpr std::array<std::string_view, 2> names_of(RopeStyle) { return {"neox", "gptj"}; }
struct RopeAttrs {
  int64_t heads = 1;
  AttentionLayout layout = AttentionLayout::bhsd;
  std::optional<int64_t> rotary_dims = {};  ///< the first n elements of a head turn; all where left out
  RopeStyle style = RopeStyle::neox;
  RLX_FIELDS(RopeAttrs, field("heads", &RopeAttrs::heads), field("layout", &RopeAttrs::layout),
             field("rotary_dims", &RopeAttrs::rotary_dims), field("style", &RopeAttrs::style));
};
/// Rotary positions: pair i of position s turns by the angle whose cosine and sine are cos[s, i] and sin[s,
/// i], for i < rotary_dims / 2. The tables, of any float, are [S, m] for all batches, or [B*S, m] or [B or 1,
/// S, m]; m may be larger than needed, the first columns count. Without a last dim they are dense: [S * n/2]
/// or [B * S * n/2].
Value rope(Value x, Value cos, Value sin, RopeAttrs attrs);

struct AxialRope2dAttrs {
  int64_t end_x = 1, end_y = 1;
  double theta = 10000;
  int64_t repeat_factor = 1;
  int64_t heads = 1;
  AttentionLayout layout = AttentionLayout::packed;
  RLX_FIELDS(AxialRope2dAttrs, field("end_x", &AxialRope2dAttrs::end_x), field("end_y", &AxialRope2dAttrs::end_y),
             field("theta", &AxialRope2dAttrs::theta), field("repeat_factor", &AxialRope2dAttrs::repeat_factor),
             field("heads", &AxialRope2dAttrs::heads), field("layout", &AxialRope2dAttrs::layout));
};
/// Rotary positions on a grid: token t stands at x = p mod end_x, y = p div end_x, p = t / repeat_factor.
/// Adjacent pairs turn, in the first half of a head by x theta^(-4c/D), in the second by y theta^(-4c/D), c <
/// D/4.
Value axial_rope2d(Value x, AxialRope2dAttrs attrs);

}  // namespace rlx
