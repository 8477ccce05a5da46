// What `rlx search` keeps between runs: the vectors of the lines of a text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rlx/models.h"

namespace rlx::tools {

/// Vectors by the contents of lines, for one model in one setting. A line that was changed is embedded anew, one that
/// moved is not. The file is a cache: what does not fit, or is damaged, counts for nothing, and is written again.
class SearchIndex {
 public:
  /// `file`: where it is kept; empty: nowhere. `made_by`: what tells the model and the setting (see `made_by_text`).
  SearchIndex(std::string file, std::string made_by) : file_(std::move(file)), made_by_(std::move(made_by)) {}

  /// f32[lines, width], by what was kept and `embed` for the rest; keeps it, whole or not at all.
  Tensor vectors_of(const std::vector<std::string>& lines, int64_t width,
                    const std::function<Tensor(const std::vector<std::string>&)>& embed) const;

 private:
  std::string file_, made_by_;
};

/// Fails if there is a file of that name that no SearchIndex wrote: it is not to be replaced.
void require_index_or_none(const std::string& file);
/// The contents of the model's files, by their checksums, and `setting`: what vectors depend on.
std::string made_by_text(const std::string& model_folder, const std::string& setting);
/// The file for a text in the folder of caches (RLX_CACHE_DIR, else ~/.cache/rlx); empty without such a folder. Those
/// that were written the longest ago are removed where all together take more than a GiB.
std::string index_file_of(const std::string& corpus, const std::string& model_folder);

}  // namespace rlx::tools
