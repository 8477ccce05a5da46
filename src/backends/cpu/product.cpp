// Packed products; see the header.
#include "backends/cpu/product.h"

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
  auto same = [&](const Entry& e) {
    return e.data == weights.data() && e.spec.k == spec.k && e.spec.n == spec.n && e.spec.k_stride == spec.k_stride &&
           e.spec.n_stride == spec.n_stride && e.spec.dtype == spec.dtype && e.spec.x_dtype == spec.x_dtype &&
           e.spec.threads == spec.threads && e.spec.rows == spec.rows && e.spec.policy == spec.policy;
  };
  std::scoped_lock lock(mutex_);
  for (const Entry& e : entries_)
    if (same(e)) return e.packed;
  auto named = names_.find(weights.data());
  std::string piece = named == names_.end() ? "" : piece_name(named->second, spec);
  if (kept_ && !piece.empty())
    if (auto adopted = kernels::PackedWeights::adopt(spec, kept_->find(piece), kept_))
      return entries_.emplace_back(Entry{weights.data(), spec, std::move(adopted)}).packed;
  auto packed = kernels::PackedWeights::pack(spec, weights.data());
  if (packed->packed().empty()) piece.clear();
  for (const Entry& e : entries_)
    if (e.data == weights.data()) {
      ++second_forms_;
      log_message(LogLevel::info, "packed ", named == names_.end() ? "a constant" : "'" + named->second + "'",
                  " once more, ", packed->packed().size(), " bytes, as ", form_name(spec),
                  "; the products before these read it as ", form_name(e.spec));
      break;
    }
  entries_.push_back({weights.data(), spec, std::move(packed), std::move(piece)});
  // The original weights are not read again: if they are mapped from a file, the system may have the pages back.
  release_pages(weights);
  return entries_.back().packed;
}

std::map<std::string, std::span<const std::byte>, std::less<>> PackedCache::made() const {
  std::scoped_lock lock(mutex_);
  std::map<std::string, std::span<const std::byte>, std::less<>> pieces;
  for (const Entry& e : entries_)
    if (!e.made.empty()) pieces.emplace(e.made, e.packed->packed());
  return pieces;
}

/// Looks in a list for these weights, packed for a convolution that reads them in the same order. If there are none,
/// packs them and adds them to the list.
template <class List, class Make>
auto PackedCache::convolution_weights(List& list, const Tensor& weights, const kernels::ConvolutionArgs& args,
                                      Make make) {
  kernels::ConvolutionArgs own = args;
  own.w = weights.data();
  auto same = [&](const kernels::ConvolutionArgs& a) {
    return a.w == own.w && a.in_channels == own.in_channels && a.out_channels == own.out_channels &&
           std::equal(a.kernel, a.kernel + a.spatial, own.kernel) && a.w_out_stride == own.w_out_stride &&
           a.w_in_stride == own.w_in_stride && std::equal(a.w_strides, a.w_strides + a.spatial, own.w_strides);
  };
  std::scoped_lock lock(mutex_);
  for (const auto& [known, packed] : list)
    if (same(known)) return packed;
  auto packed = make(own);
  if (packed) release_pages(weights);  // as in pack()
  return list.emplace_back(own, std::move(packed)).second;
}

std::shared_ptr<kernels::ConvolutionWeights> PackedCache::convolution(const Tensor& weights) {
  std::scoped_lock lock(mutex_);
  for (const auto& [data, packed] : convolutions_)
    if (data == weights.data()) return packed;
  return convolutions_.emplace_back(weights.data(), kernels::convolution_weights(weights.data())).second;
}

std::shared_ptr<const kernels::TiledWeights> PackedCache::tiled(const Tensor& weights,
                                                                const kernels::ConvolutionArgs& args, int threads) {
  return convolution_weights(tiled_, weights, args,
                             [&](const kernels::ConvolutionArgs& own) { return kernels::tiled_weights(own, threads); });
}

std::shared_ptr<const std::vector<float>> PackedCache::rows(const Tensor& weights, const kernels::ConvolutionArgs& args,
                                                            Count count, Write write) {
  std::unique_lock lock(mutex_);
  auto& list = rows_[write];
  lock.unlock();  // the reference stays valid: elements of a map do not move
  return convolution_weights(list, weights, args, [&](const kernels::ConvolutionArgs& own) {
    auto packed = std::make_shared<std::vector<float>>(count(own));
    write(own, packed->data());
    return packed;
  });
}

std::shared_ptr<const kernels::AlignedMemory> PackedCache::codes(const Tensor& weights, const std::string& layout,
                                                                 size_t bytes,
                                                                 const std::function<void(char*)>& write) {
  std::scoped_lock lock(mutex_);
  Codes& codes = codes_[{weights.data(), layout}];
  if (codes.packed) return codes.packed;
  auto memory = kernels::aligned_memory(bytes);
  write(memory.get());
  codes = {bytes, std::make_shared<const kernels::AlignedMemory>(std::move(memory))};
  release_pages(weights);  // as in pack()
  return codes.packed;
}

std::optional<Tensor> PackedCache::packed_in_place_of(const Tensor& codes) {
  std::scoped_lock lock(mutex_);
  const auto first = codes_.lower_bound({codes.data(), std::string()});
  if (first == codes_.end() || first->first.first != codes.data()) return {};
  if (auto next = std::next(first); next != codes_.end() && next->first.first == codes.data()) return {};
  const Codes& packed = first->second;
  const auto* bytes = reinterpret_cast<const std::byte*>(packed.packed->get());
  if (bytes == codes.data() || packed.bytes < codes.byte_count()) return {};
  Tensor tensor = Tensor::borrow(codes.dtype(), codes.shape(), {bytes, codes.byte_count()}, packed.packed);
  auto entry = codes_.extract(first);
  entry.key().first = bytes;
  codes_.insert(std::move(entry));
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
  for (const auto& [name, codes] : codes_)
    if (codes.packed) blocks.insert(kernels::block_of(*codes.packed, codes.bytes));
  size_t total = 0;
  for (const auto& [block, bytes] : blocks) total += bytes;
  for (const auto& [data, packed] : convolutions_)
    if (packed) total += packed->bytes();
  for (const auto& [args, packed] : tiled_)
    if (packed) total += packed->bytes();
  for (const auto& [write, list] : rows_)
    for (const auto& [args, packed] : list) total += packed->size() * sizeof(float);
  return total;
}

namespace {

class PackedStep final : public Step {
 public:
  PackedStep(Text kernel, kernels::PreparedGemm gemm, std::span<const std::byte> weights, int bias, int residual)
      : kernel_(std::move(kernel)), gemm_(std::move(gemm)), weights_(weights), bias_(bias), residual_(residual) {}
  size_t scratch_bytes() const override { return gemm_.scratch_bytes(); }
  bool reads_operand(size_t i) const override { return i != 1; }
  std::string kernel() const override { return kernel_(); }
  std::span<const std::byte> packed_weights() const override { return weights_; }
  void prefetch_read(std::span<const std::byte> weights) override { prefetch_ = weights; }
  void run(const StepArgs& args) const noexcept override {
    auto operand = [&](int i) { return i >= 0 ? args.in(static_cast<size_t>(i)) : nullptr; };
    gemm_.run({args.in(0), args.out(), operand(bias_), operand(residual_), prefetch_}, args.scratch, thread_pool());
  }

 private:
  Text kernel_;
  kernels::PreparedGemm gemm_;
  std::span<const std::byte> weights_, prefetch_;
  int bias_, residual_;
};

}  // namespace

std::unique_ptr<Step> packed_product(const LoweringContext& c, const Product& p, const ProductEpilogue& e) {
  const Tensor* weights = c.bound(1);
  DType x = c.operands[0].dtype, w = c.operands[1].dtype, y = c.results[0].dtype;
  if (!weights || (w == f64) != (x == f64) || (y == f64) != (x == f64)) return nullptr;
  kernels::WeightsSpec spec{p.k, p.n, p.w_k_stride, p.w_n_stride, w, x, c.threads};
  spec.policy = c.policy;
  spec.rows = kernels::rows_for_packing(spec, p.m);
  auto packed = c.packed.pack(spec, *weights);
  kernels::GemmSpec gemm;
  gemm.m = p.m;
  gemm.x_stride = p.x_stride, gemm.y_stride = p.n, gemm.residual_stride = e.residual_stride;
  gemm.y_dtype = y;
  gemm.threads = c.threads;
  gemm.epilogue.activation = e.activation, gemm.epilogue.residual_first = e.residual_first;
  if (e.bias >= 0) gemm.epilogue.bias = true, gemm.epilogue.bias_dtype = c.operands[size_t(e.bias)].dtype;
  if (e.residual >= 0) gemm.epilogue.residual = kernels::Residual::separate;
  auto prepared = packed->prepare(gemm);
  const auto kernel = [are_split = packed->are_split(), w, m = p.m, k = p.k, n = p.n] {
    return text_of(are_split ? "ozaki" : "packed", " ", w, " ", m, "x", k, "x", n);
  };
  auto step = std::make_unique<PackedStep>(kernel, prepared, packed->packed(), e.bias, e.residual);
  step->set_strategy([prepared] { return prepared.strategy(); });
  return step;
}

}  // namespace rlx::cpu
