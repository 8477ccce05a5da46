// What an executable keeps of its params for the next process: packed weights and what is computed of params alone.
// Found by the program, by where the params are mapped from, and by how this processor packs; what is damaged or of
// something else is left aside with a word.
#pragma once

#include <optional>

#include "backends/cpu/packed_file.h"
#include "rlx/graph.h"

namespace rlx::cpu {

class KeptWeights {
 public:
  KeptWeights() = default;
  /// Looks for what was kept. `prefix`: how the file's path begins; empty: nothing is kept. `prologue` computes what
  /// depends on `params`, which are all that were bound.
  KeptWeights(const std::string& prefix, const Graph& prologue, const std::map<std::string, Tensor>& params,
              int threads);

  bool is_used() const { return !path_.empty(); }
  /// Null if there was none.
  const std::shared_ptr<const PackedFile>& file() const { return file_; }
  std::optional<Tensor> value(const std::string& name, const Type& type) const;

  /// Writes the file anew if there is more to keep than it has, and worth it. A folder that cannot be written costs a
  /// line on standard error.
  void keep(PackedFile::Pieces packed, const std::map<std::string, Tensor>& values);

 private:
  void find(int threads);
  /// Whether the weights' files are what they were when they were mapped, and stores to them will be seen.
  bool are_as_mapped() const;

  std::string path_, of_;
  std::map<std::string, FileStamp> weight_files_;  // by path
  std::shared_ptr<const PackedFile> file_;
};

}  // namespace rlx::cpu
