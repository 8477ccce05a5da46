// The table that is the CPU's claim: which op, when, by which kernel, and what its operands may look like. Claim and
// kernel stand in one row, so they cannot drift apart.
#pragma once

#include <map>
#include <mutex>

#include "backends/cpu/step.h"
#include "kernels/conv/amx_convolution.h"
#include "kernels/conv/onednn_convolution.h"
#include "kernels/gemm/gemm.h"
#include "kernels/memory/aligned_memory.h"
#include "passes/legalize.h"
#include "plan/executor.h"
#include "plan/planner.h"

namespace rlx::cpu {

class PackedFile;

/// Weights packed for the kernels, shared by every shape that a graph is run for.
class PackedCache {
 public:
  PackedCache() = default;
  /// `kept`: the packed weights that an earlier process stored, or null. `names`: the params' names, by the addresses
  /// of their data.
  PackedCache(std::shared_ptr<const PackedFile> kept, std::map<const void*, std::string> names)
      : kept_(std::move(kept)), names_(std::move(names)) {}

  std::shared_ptr<const kernels::PackedWeights> pack(const kernels::WeightsSpec& spec, const Tensor& weights);
  /// The weights packed for oneDNN's convolutions; null if oneDNN is not built in.
  std::shared_ptr<kernels::ConvolutionWeights> convolution(const Tensor& weights);
  /// The weights packed for matrix tiles; null if those do not support the convolution.
  std::shared_ptr<const kernels::TiledWeights> tiled(const Tensor& weights, const kernels::ConvolutionArgs& args,
                                                     int threads);
  /// `count` floats, which `write` packs: for kernels that compute rows of outputs.
  using Count = int64_t (*)(const kernels::ConvolutionArgs&);
  using Write = void (*)(const kernels::ConvolutionArgs&, float*) noexcept;
  std::shared_ptr<const std::vector<float>> rows(const Tensor& weights, const kernels::ConvolutionArgs& args,
                                                 Count count, Write write);
  /// Codes of weights, `bytes` of them, as `write` packs them. `layout` tells apart what is packed of the same codes.
  std::shared_ptr<const kernels::AlignedMemory> codes(const Tensor& weights, const std::string& layout, size_t bytes,
                                                      const std::function<void(char*)>& write);
  /// A tensor of the same type that lies where these codes are packed, for a caller that then forgets them: it stands
  /// for them in calls of codes() and nowhere else, as its elements are in another order. Null if they are not packed,
  /// or in several layouts.
  std::optional<Tensor> packed_in_place_of(const Tensor& codes);
  size_t bytes() const;
  /// How often weights of products were packed that were packed in another form already: a kernel for more rows, or
  /// for other elements beside them, reads them in another order. Each is said, at the level info.
  size_t second_forms() const;
  /// The weights of named params that were packed here, by the names under which they can be stored. They stay where
  /// they are.
  std::map<std::string, std::span<const std::byte>, std::less<>> made() const;

 private:
  template <class List, class Make>
  auto convolution_weights(List& list, const Tensor& weights, const kernels::ConvolutionArgs& args, Make make);

  struct Entry {
    const void* data;
    kernels::WeightsSpec spec;
    std::shared_ptr<const kernels::PackedWeights> packed;
    std::string made = {};  ///< the piece's name, if it was packed here and can be stored
  };
  std::shared_ptr<const PackedFile> kept_;
  std::map<const void*, std::string> names_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  size_t second_forms_ = 0;
  std::vector<std::pair<const void*, std::shared_ptr<kernels::ConvolutionWeights>>> convolutions_;
  std::vector<std::pair<kernels::ConvolutionArgs, std::shared_ptr<const kernels::TiledWeights>>> tiled_;
  struct Codes {
    size_t bytes;
    std::shared_ptr<const kernels::AlignedMemory> packed;
  };
  std::map<std::pair<const void*, std::string>, Codes> codes_;  // by the codes' address and the layout
  std::map<Write, std::vector<std::pair<kernels::ConvolutionArgs, std::shared_ptr<const std::vector<float>>>>> rows_;
};

/// A sub-graph that a step runs, and which of its inputs are constant or updated.
struct Body {
  const Graph& graph;
  std::vector<const Tensor*> bound = {};  ///< inputs that are this tensor in every run: weights are packed once
  std::vector<Update> updates = {};
};

/// The arguments with which a row of the table makes its step.
struct LoweringContext {
  const Node& node;
  std::vector<View> operands, results;
  int threads;
  kernels::ProductPolicy policy;  ///< what the step's products may do
  PackedCache& packed;
  /// The tensor of an operand that is a param or a constant; null for anything else.
  const std::function<const Tensor*(size_t operand)>& bound;
  /// Plans a sub-graph, whose inputs and results are dense.
  const std::function<BodyPlan(const Body&)>& body_plan;
  std::vector<bool> unread = {};  ///< by result: neither a node nor an output of the graph reads it

  template <class A>
  const A& attrs() const {
    return node.attrs.as<A>();
  }
};

using When = std::string (*)(const Question&);  ///< empty, or why not
using How = std::unique_ptr<Step> (*)(const LoweringContext&);
using Strided = bool (*)(const Node&, size_t operand, const Shape&, std::span<const int64_t> strides);

/// Which operand's buffer result 0 may overwrite, if that operand has its size and is not read later. `carries`: the
/// result of each carry of a loop may overwrite the carry's first value, if the body updates it in place. `params`: in
/// an optimizer's step, the new param may overwrite the param, and each new state the old one.
enum class Overwrites { none, first, any, carries, params };

struct Lowering {
  const OpDef* op;
  When when;
  How how;
  Strided strided = nullptr;  ///< which strides its operands may have; null: dense only
  Overwrites overwrites = Overwrites::none;
};

std::span<const Lowering> lowerings();
/// The row that takes the node, or null; then `why_not` gives the reason. Kernels from outside the library
/// (rlx/kernel.h) are tried first, and share one row. An op that is not in the table and has only a reference is taken
/// by a row that runs the reference.
const Lowering* find_lowering(const Question&, std::string& why_not);
/// Whether the row is the one that runs the op's reference.
bool runs_reference(const Lowering&);

/// The table's answers to the storage planner, for this graph.
StorageRules storage_rules(const Graph&);

namespace when {
std::string always(const Question&);
/// No operand or result is of a packed or block dtype: each element has an address.
std::string is_byte_sized(const Question&);
/// f32, f16, bf16 or f64 throughout.
std::string is_float(const Question&);
}  // namespace when

namespace strided {
inline bool any(const Node&, size_t, const Shape&, std::span<const int64_t>) { return true; }
/// The elements of the last dim are contiguous.
inline bool rows(const Node&, size_t, const Shape& shape, std::span<const int64_t> strides) {
  return shape.empty() || shape.back() == 1 || strides.back() == 1;
}
}  // namespace strided

}  // namespace rlx::cpu
