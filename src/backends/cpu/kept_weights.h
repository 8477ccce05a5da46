// The file in which an executable stores, for later processes, its packed weights and the values that depend on params
// alone. Its name depends on the version of rlx, the prologue (passes/hoist_params.h), the files of the params, and the
// layout in which this processor packs. A file that is damaged, or was made of something else, is ignored with a
// message.
#pragma once

#include <optional>

#include "backends/cpu/packed_file.h"
#include "rlx/graph.h"

namespace rlx::cpu {

class KeptWeights {
 public:
  KeptWeights() = default;
  /// Looks for the file, whose path begins with `prefix`; if that is empty, nothing is stored. `prologue` computes the
  /// values that depend on `params`, which are all bound params.
  KeptWeights(const std::string& prefix, const Graph& prologue, const std::map<std::string, Tensor>& params,
              int threads);

  bool is_used() const { return !path_.empty(); }
  /// The file that was found, or null if there was none.
  const std::shared_ptr<const PackedFile>& file() const { return file_; }
  std::optional<Tensor> value(const std::string& name, const Type& type) const;

  /// Writes a new file if there is more to store than the present one has, and enough to be worth a file. If the folder
  /// cannot be written, a message goes to standard error.
  void keep(PackedFile::Pieces packed, const std::map<std::string, Tensor>& values);

 private:
  void find(int threads);
  /// Whether the files of the weights have not changed since they were mapped, and a change from now on would be
  /// noticed.
  bool are_as_mapped() const;

  std::string path_, of_;
  std::map<std::string, FileStamp> weight_files_;  // by path
  std::shared_ptr<const PackedFile> file_;
};

}  // namespace rlx::cpu
