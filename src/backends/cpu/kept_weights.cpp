// See the header.
#include "backends/cpu/kept_weights.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/hash.h"
#include "base/log.h"
#include "io/cache_folder.h"
#include "kernels/gemm/gemm.h"
#include "rlx/error.h"
#include "rlx/version.h"

namespace rlx::cpu {
namespace {

std::string value_name(const std::string& name, const Type& type) { return text_of("value ", name, ' ', type); }

}  // namespace

KeptWeights::KeptWeights(const std::string& prefix, const Graph& prologue, const std::map<std::string, Tensor>& params,
                         int threads) {
  if (prefix.empty()) return;
  WeightsIdentity weights = weights_identity(params);
  if (weights.text.empty()) return;
  weight_files_ = std::move(weights.files);
  of_ = text_of("rlx ", RLX_VERSION, "\n", kernels::packed_form(), "\nprologue ", hex_text(hash_of(prologue)), "\n",
                weights.text);
  path_ = text_of(prefix, '-', hex_text(fnv1a(of_)), kPackedSuffix);
  std::error_code error;
  if (std::filesystem::exists(path_, error)) find(threads);
  // The files must be flushed before anything is packed (see flushed_stamp), and params that were copied before that
  // must still equal the files.
  if (!file_ && !(are_as_mapped() && std::all_of(weight_files_.begin(), weight_files_.end(), [](const auto& file) {
                    return equals_copies(file.first, file.second);
                  })))
    path_.clear();
}

bool KeptWeights::are_as_mapped() const {
  return std::all_of(weight_files_.begin(), weight_files_.end(),
                     [](const auto& file) { return flushed_stamp(file.first) == file.second; });
}

void KeptWeights::find(int threads) {
  try {
    require_own_entry(path_);
    file_ = PackedFile::open(path_, of_, threads);
    // Mark the file beside it: the times of the file itself must tell whether it was changed.
    mark_as_used(path_ + kCheckedSuffix);
  } catch (const std::exception& e) {
    log_message(LogLevel::warning, "the packed weights '", path_, "' are left aside and made again: ", e.what());
  }
}

std::optional<Tensor> KeptWeights::value(const std::string& name, const Type& type) const {
  if (!file_) return std::nullopt;
  const Shape shape = shape_of(type.dims);
  const auto bytes = file_->find(value_name(name, type));
  if (bytes.empty() || bytes.size() != byte_count(type.dtype, shape)) return std::nullopt;
  return Tensor::borrow(type.dtype, shape, bytes, file_);
}

void KeptWeights::keep(PackedFile::Pieces packed, const std::map<std::string, Tensor>& values) {
  constexpr size_t kMin = size_t{1} << 20;  // fewer bytes are packed faster than a file is opened
  if (!is_used()) return;
  for (const auto& [name, value] : values)
    if (value.byte_count() > 0) packed.emplace(value_name(name, value.type()), value.bytes());
  size_t bytes = 0;
  bool is_new = false;
  for (const auto& [name, piece] : packed) {
    bytes += piece.size();
    is_new |= !file_ || file_->find(name).empty();
  }
  if (!is_new || bytes < kMin) return;
  if (file_) packed.insert(file_->pieces().begin(), file_->pieces().end());
  try {
    const std::string folder = std::filesystem::path(path_).parent_path().string();
    make_cache_folder(folder);
    if (are_as_mapped()) PackedFile::write(path_, of_, packed);
    trim_cache_folder(folder, path_);
  } catch (const std::exception& e) {
    log_message(LogLevel::warning, "the packed weights could not be kept: ", e.what());
  }
  path_.clear();  // the file is written once: weights that later shapes need in other layouts are not added to it
}

}  // namespace rlx::cpu
