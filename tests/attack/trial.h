// One graph, compiled one way for the CPU, beside the reference: what has to hold of it, and what is counted.
#pragma once

#include "attack/noise.h"
#include "attack/random_graphs.h"
#include "rlx/session.h"

namespace rlx::attack {

/// What is done with the graph before it is compiled.
enum class Transform { none, vjp, jvp, vmap };
constexpr std::array<std::string_view, 4> names_of(Transform) { return {"none", "vjp", "jvp", "vmap"}; }

struct Way {
  int threads = 1;
  CompileOptions options = {};
};
std::string text_of_way(const Way& way);
Way parse_way(const std::string& text);

struct Trial {
  Fed fed;
  Way way = {};
  Transform transform = Transform::none;
  uint64_t seed = 0;  ///< of what the transform's graph is fed, and of the noise
};
/// The index-th trials of a seed: a graph, then perhaps what a transform makes of it. Throws Broken.
std::vector<Trial> drawn_trials(uint64_t seed, uint64_t index);
/// The transform done: a trial of the graph that it makes.
Trial transformed(const Trial& trial);

enum class Fault {
  none,
  drawing,         ///< a rule of an op that is no refusal, while the graph was drawn
  verifying,       ///< a graph that does not verify
  transforming,    ///< a transform failed in another way than for want of a derivative
  reference,       ///< the reference threw something else than a refusal
  refusing,        ///< one of the two refused, the other did not
  failing,         ///< the native side threw something else than a refusal
  differing,       ///< other numbers than the reference's
  rerunning,       ///< two runs differ
  recompiling,     ///< a second compile gives other bits
  rereading,       ///< the text reads back as another graph
  input_changing,  ///< a run changed an input
  crashing,
  hanging
};
constexpr std::array<std::string_view, 14> names_of(Fault) {
  return {"none",      "drawing",   "verifying",   "transforming", "reference",      "refusing", "failing",
          "differing", "rerunning", "recompiling", "rereading",    "input changing", "crashing", "hanging"};
}

/// Where a trial is: whoever watches it from outside knows by that whose fault an end without word is.
enum class Phase { drawing, transforming, reference, compiling, running, comparing, reading };
constexpr std::array<std::string_view, 7> names_of(Phase) {
  return {"drawing", "transforming", "reference", "compiling", "running", "comparing", "reading"};
}

/// What native may refuse although the reference does not, each with its reason. Nothing else.
struct Refusal {
  std::string_view says, why;
};
constexpr Refusal kRefusals[] = {
    {"is above 8", "kernels of the CPU take eight dims, and gradients of windows may have ten"},
    {"is for a given size, not for",
     "portable forms of factorizations are written out for a number of rows, not for a symbol"},
    {"is made of others only if that is a number", "the portable form of a transform is written out for its length"},
    {"is smaller is not known for", "the portable form of a factorization is written out for the smaller extent"},
    {"cannot be cut into chunks before that is a number", "checkpoints need to know how many steps there are"},
    {"no kernel converts packed elements and",
     "the CPU converts what is narrower than a byte to numbers of one part alone"},
    {"is packed: its elements have no address", "the CPU does not move elements that are narrower than a byte"},
};

/// Plain numbers, so that they can lie in memory that is shared with a child that may crash.
struct Counts {
  static constexpr size_t kMostOps = 1024;
  size_t graphs = 0, nodes = 0, symbolic = 0, compiled = 0, transformed[4] = {}, without_rule = 0;
  size_t elements = 0, finite = 0, beyond_tolerance = 0, excused[4] = {};
  size_t refused_by_both = 0, refused[std::size(kRefusals)] = {}, slow_reference = 0, slow_noise = 0;
  size_t refused_empty_symbol = 0;  // a symbol was 0, which the op's native form finds out when it runs
  uint32_t reached[kMostOps] = {}, reached_by_transform[kMostOps] = {};  // by place in all_ops()
};

struct Outcome {
  Fault fault = Fault::none;
  std::string why = {};
};
/// `enter` is called before each phase.
Outcome tried(const Trial& trial, Counts& counts, const std::function<void(Phase)>& enter);

/// By place in all_ops(): the ops of a graph and of its sub-graphs.
std::vector<size_t> ops_of(const Graph& g);

}  // namespace rlx::attack
