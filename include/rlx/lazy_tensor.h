// Tensors that are made when they are written: a file of several GB is written with one of its tensors in memory at a
// time.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rlx/gguf.h"

namespace rlx {

/// What a tensor is, and how it is made. `make` may be called several times, and gives the same each time.
class LazyTensor {
 public:
  /// One that is there.
  LazyTensor(Tensor made);  // NOLINT(google-explicit-constructor): a tensor is the simplest of them
  LazyTensor(DType dtype, Shape shape, std::function<Tensor()> make);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  size_t rank() const { return shape_.size(); }
  size_t element_count() const;
  size_t byte_count() const { return byte_count_; }
  Type type() const { return {dtype_, Dims(shape_.begin(), shape_.end())}; }
  /// Fails if what was made is of another type.
  Tensor make() const;
  /// Another one that is made of it. The pages of a mapped file that were read for it are released.
  LazyTensor changed(DType dtype, Shape shape, std::function<Tensor(const Tensor&)> change) const;

 private:
  DType dtype_;
  Shape shape_;
  size_t byte_count_;
  std::function<Tensor()> make_;
};

using NamedLazyTensors = std::map<std::string, LazyTensor, std::less<>>;

/// As write_gguf and write_safetensors, with the same bytes: each tensor is made, written and let go, and so are the
/// pages of the mapped file that it stands in.
void stream_gguf(const std::string& path, const std::vector<std::pair<std::string, LazyTensor>>& tensors,
                 const GgufMetadata& metadata = {}, const GgufWriteOptions& options = {});
void stream_safetensors(const std::string& path, const NamedLazyTensors& tensors,
                        const SafetensorsFile::Metadata& metadata = {});
/// Several files as Hugging Face lays them out, "model-00001-of-00003.safetensors" and an index beside them
/// ("model.safetensors.index.json") for the `path` "model.safetensors": a new one begins before a tensor with which the
/// last one would have more bytes of tensors. What fits into one, or `most_file_bytes` = 0, becomes the file `path`.
/// Fails if a file of the other form would stay beside it (`path`, or an index), as readers could take that one.
void stream_safetensors_shards(const std::string& path, const NamedLazyTensors& tensors,
                               const SafetensorsFile::Metadata& metadata, uint64_t most_file_bytes);

}  // namespace rlx
