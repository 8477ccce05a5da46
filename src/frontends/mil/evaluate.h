// The values of a graph that is still growing: what constants alone decide, and, where the inputs of one run are at
// hand, what they decide. Results are kept, so that asking again after more nodes were added computes only those.
#pragma once

#include <map>
#include <optional>

#include "rlx/graph.h"

namespace rlx::mlprogram {

class Evaluator {
 public:
  explicit Evaluator(const Graph& g) : graph_(&g) {}
  /// The number that this run feeds to an input.
  void feed(Ref input, Tensor value) { values_[input] = std::move(value); }
  /// True if no input, param or symbol has a say in it.
  bool is_constant(Ref r);
  /// The value, by the reference kernels; nothing if it depends on an input that was not fed.
  std::optional<Tensor> value(Ref r);

  /// What all questions together may cost, as their values are kept: a program that somebody made to do harm must not
  /// take all memory, or for ever.
  struct Budget {
    int64_t trips = 100'000;
    int64_t bytes = int64_t{1} << 31;
    void take_trip();
    void take(const std::vector<Type>& results);
  };

 private:
  enum class Source : uint8_t { unknown, constants, inputs };
  Source source_of(int32_t node);

  const Graph* graph_;
  std::vector<Source> sources_;
  std::map<Ref, Tensor> values_;
  Budget budget_;
};

}  // namespace rlx::mlprogram
