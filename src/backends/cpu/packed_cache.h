// The packed forms of constant weights: packed when the first step asks for a form, and shared by the steps of all
// shapes that a graph is run for. The kernels define the forms; packed_file.h stores them for later processes. Users:
// product.cpp and the steps of convolutions, through LoweringContext::packed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/conv/amx_convolution.h"
#include "kernels/conv/onednn_convolution.h"
#include "kernels/gemm/gemm.h"
#include "kernels/memory/aligned_memory.h"
#include "rlx/tensor.h"

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
  /// Weights as `write` packs them into memory of `bytes` bytes; it is called once for each `layout`, and not at all if
  /// an earlier process has stored that. `layout` is the name of the packed form, which tells it from all others that
  /// these weights can have in processes of the same kernels::packed_form(): it is stored for later processes under
  /// that name.
  std::shared_ptr<const kernels::AlignedMemory> in_layout(const Tensor& weights, const std::string& layout,
                                                          size_t bytes, const std::function<void(char*)>& write);
  /// A tensor of the same type in the memory of the packed form, for a caller that then drops `weights`: in_layout()
  /// takes it in their place, and nothing else may read it, as its elements are in another order. Empty if the weights
  /// are not packed, are in several layouts, are that memory already, or have more bytes than the packed form.
  std::optional<Tensor> packed_in_place_of(const Tensor& weights);
  size_t bytes() const;
  /// How often weights of products were packed that were packed in another form already: a kernel for more rows, or
  /// for other elements beside them, reads them in another order. Each is said, at the level info.
  size_t second_forms() const;
  /// The weights of named params that were packed here, by the names under which they can be stored. They stay where
  /// they are.
  std::map<std::string, std::span<const std::byte>, std::less<>> made() const;

 private:
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
  struct PackedInLayout {
    size_t bytes = 0;
    std::shared_ptr<const kernels::AlignedMemory> packed = {};
    std::string made = {};  ///< as in Entry
  };
  // By the address of the weights and the layout.
  std::map<std::pair<const void*, std::string>, PackedInLayout> in_layouts_;
};

}  // namespace rlx::cpu
