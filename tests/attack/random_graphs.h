// Graphs drawn from the whole op table, with what they are fed: odd uses of ops, one behind another, joined by
// converts, slices and reshapes; branches and loops whose bodies are drawn in the same way; symbols in place of some
// extents.
#pragma once

#include <map>
#include <string>

#include "attack/op_uses.h"

namespace rlx::attack {

struct Fed {
  Graph graph;
  std::vector<Tensor> inputs = {};  ///< in the order of the graph's
  std::map<std::string, Tensor> params = {};
  bool operator==(const Fed&) const = default;
};

/// The ops that graphs are made of: the table without leaves.
const std::vector<const OpDef*>& drawable_ops();

/// What values are like; a graph has a mood, and about half of its inputs share it.
enum class Mood { own, ties, zeros, tiny, huge, wide, special };
constexpr std::array<std::string_view, 7> names_of(Mood) {
  return {"own", "ties", "zeros", "tiny", "huge", "wide", "special"};
}
/// Numbers from [lo, hi), or what the mood makes of them.
Tensor drawn_tensor(const Type& type, double lo, double hi, Mood mood, Random& random);

/// The `index`-th graph of a seed. Its first op is the index-th of the table, so that all have their turn.
Fed drawn_graph(uint64_t seed, uint64_t index);
uint64_t seed_of(uint64_t seed, uint64_t index, uint64_t what);

}  // namespace rlx::attack
