// The option that says whether fused ops on f16 and bf16 round between one another.
#pragma once

#include <array>
#include <string_view>

namespace rlx {

/// strict: the result of each op of the graph, of a composite one too, is rounded to its dtype once, also where ops are
/// fused (docs/ir.md, "Low precision"). relaxed: ops on f16 and bf16 that are fused are computed in f32 and rounded
/// once, where the fused op ends. f32 and wider are the same under both. A graph of f32 that is computed in f16 or
/// bf16 (CompileOptions::compute) rounds its fused ops as if relaxed, whatever this says.
enum class Rounding { strict, relaxed };
constexpr std::array<std::string_view, 2> names_of(Rounding) { return {"strict", "relaxed"}; }

}  // namespace rlx
