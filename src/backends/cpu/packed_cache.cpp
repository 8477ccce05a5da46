// See the header.
#include "backends/cpu/packed_cache.h"

#include <algorithm>

#include "backends/cpu/packed_file.h"
#include "base/log.h"
#include "rlx/io.h"

namespace rlx::cpu {
namespace {

/// Which of the forms of a param's weights this is. It leaves out WeightsSpec::threads, on which the layout does not
/// depend.
std::string form_name(const kernels::WeightsSpec& s) {
  return text_of(s.k, 'x', s.n, " by ", s.k_stride, ',', s.n_stride, " of ", s.dtype, " for ", s.x_dtype,
                 s.rows > 0 ? text_of(", rows from ", s.rows) : "", s.policy.row_relative ? ", row relative" : "");
}
/// The name under which packed weights are stored.
std::string piece_name(const std::string& param, const kernels::WeightsSpec& s) {
  return text_of(param, ' ', form_name(s));
}

}  // namespace

std::shared_ptr<const kernels::PackedWeights> PackedCache::pack(const kernels::WeightsSpec& spec,
                                                                const Tensor& weights) {
  const std::byte* data = weights.place().data();  // what an earlier process packed is not read
  auto same = [&](const Entry& e) {
    return e.data == data && e.spec.k == spec.k && e.spec.n == spec.n && e.spec.k_stride == spec.k_stride &&
           e.spec.n_stride == spec.n_stride && e.spec.dtype == spec.dtype && e.spec.x_dtype == spec.x_dtype &&
           e.spec.threads == spec.threads && e.spec.rows == spec.rows && e.spec.policy == spec.policy;
  };
  std::scoped_lock lock(mutex_);
  for (const Entry& e : entries_)
    if (same(e)) return e.packed;
  auto named = names_.find(data);
  std::string piece = named == names_.end() ? "" : piece_name(named->second, spec);
  if (kept_ && !piece.empty())
    if (auto adopted = kernels::PackedWeights::adopt(spec, kept_->find(piece), kept_))
      return entries_.emplace_back(Entry{data, spec, std::move(adopted)}).packed;
  auto packed = kernels::PackedWeights::pack(spec, weights.data());
  if (packed->packed().empty()) piece.clear();
  for (const Entry& e : entries_)
    if (e.data == data) {
      ++second_forms_;
      log_message(LogLevel::info, "packed ", named == names_.end() ? "a constant" : "'" + named->second + "'",
                  " once more, ", packed->packed().size(), " bytes, as ", form_name(spec),
                  "; the products before these read it as ", form_name(e.spec));
      break;
    }
  entries_.push_back({data, spec, std::move(packed), std::move(piece)});
  // The original weights are not read again: if they are mapped from a file, the system may have the pages back.
  release_pages(weights);
  return entries_.back().packed;
}

std::map<std::string, std::span<const std::byte>, std::less<>> PackedCache::made() const {
  std::scoped_lock lock(mutex_);
  std::map<std::string, std::span<const std::byte>, std::less<>> pieces;
  for (const Entry& e : entries_)
    if (!e.made.empty()) pieces.emplace(e.made, e.packed->packed());
  for (const auto& [name, e] : in_layouts_)
    if (!e.made.empty())
      pieces.emplace(e.made, std::span(reinterpret_cast<const std::byte*>(e.packed->get()), e.bytes));
  return pieces;
}

std::shared_ptr<kernels::ConvolutionWeights> PackedCache::convolution(const Tensor& weights) {
  std::scoped_lock lock(mutex_);
  for (const auto& [data, packed] : convolutions_)
    if (data == weights.data()) return packed;
  return convolutions_.emplace_back(weights.data(), kernels::convolution_weights(weights.data())).second;
}

std::shared_ptr<const kernels::TiledWeights> PackedCache::tiled(const Tensor& weights,
                                                                const kernels::ConvolutionArgs& args, int threads) {
  kernels::ConvolutionArgs own = args;
  own.w = weights.data();
  // A convolution that reads the same weights in the same order takes what is packed.
  auto same = [&](const kernels::ConvolutionArgs& a) {
    return a.w == own.w && a.in_channels == own.in_channels && a.out_channels == own.out_channels &&
           std::equal(a.kernel, a.kernel + a.spatial, own.kernel) && a.w_out_stride == own.w_out_stride &&
           a.w_in_stride == own.w_in_stride && std::equal(a.w_strides, a.w_strides + a.spatial, own.w_strides);
  };
  std::scoped_lock lock(mutex_);
  for (const auto& [known, packed] : tiled_)
    if (same(known)) return packed;
  auto packed = kernels::tiled_weights(own, threads);
  if (packed) release_pages(weights);  // as in pack()
  return tiled_.emplace_back(own, std::move(packed)).second;
}

std::shared_ptr<const kernels::AlignedMemory> PackedCache::in_layout(const Tensor& weights, const std::string& layout,
                                                                     size_t bytes,
                                                                     const std::function<void(char*)>& write) {
  const std::byte* data = weights.place().data();  // as in pack()
  std::scoped_lock lock(mutex_);
  const std::pair key{data, layout};
  if (const auto known = in_layouts_.find(key); known != in_layouts_.end()) {
    if (known->second.bytes != bytes)
      fail(ErrorCode::internal, "weights packed as ", layout, " have ", known->second.bytes, " bytes, wanted ", bytes);
    return known->second.packed;
  }
  const auto named = names_.find(data);
  std::string piece = named == names_.end() ? "" : text_of(named->second, " as ", layout);
  if (kept_ && !piece.empty())
    if (const auto kept = kept_->find(piece); bytes > 0 && kept.size() == bytes) {
      const PackedInLayout found{
          bytes, std::make_shared<const kernels::AlignedMemory>(kernels::adopted_memory(kept, kept_)), {}};
      return in_layouts_.emplace(key, found).first->second.packed;
    }
  auto memory = kernels::aligned_memory(bytes);
  write(memory.get());
  if (bytes == 0) piece.clear();
  PackedInLayout made{bytes, std::make_shared<const kernels::AlignedMemory>(std::move(memory)), std::move(piece)};
  release_pages(weights);  // as in pack()
  return in_layouts_.emplace(key, std::move(made)).first->second.packed;
}

std::optional<Tensor> PackedCache::packed_in_place_of(const Tensor& weights) {
  std::scoped_lock lock(mutex_);
  const std::byte* data = weights.place().data();
  const auto first = in_layouts_.lower_bound({data, std::string()});
  if (first == in_layouts_.end() || first->first.first != data) return {};
  if (auto next = std::next(first); next != in_layouts_.end() && next->first.first == data) return {};
  const PackedInLayout& packed = first->second;
  const auto* bytes = reinterpret_cast<const std::byte*>(packed.packed->get());
  if (bytes == data || packed.bytes < weights.byte_count()) return {};
  Tensor tensor = Tensor::borrow(weights.dtype(), weights.shape(), {bytes, weights.byte_count()}, packed.packed);
  auto entry = in_layouts_.extract(first);
  entry.key().first = bytes;
  in_layouts_.insert(std::move(entry));
  return tensor;
}

size_t PackedCache::second_forms() const {
  std::scoped_lock lock(mutex_);
  return second_forms_;
}

size_t PackedCache::bytes() const {
  std::scoped_lock lock(mutex_);
  std::map<const void*, size_t> blocks;  // a block may hold the weights of several entries
  for (const Entry& e : entries_) blocks.insert(e.packed->block());
  for (const auto& [name, entry] : in_layouts_)
    if (entry.packed) blocks.insert(kernels::block_of(*entry.packed, entry.bytes));
  size_t total = 0;
  for (const auto& [block, bytes] : blocks) total += bytes;
  for (const auto& [data, packed] : convolutions_)
    if (packed) total += packed->bytes();
  for (const auto& [args, packed] : tiled_)
    if (packed) total += packed->bytes();
  return total;
}

}  // namespace rlx::cpu
