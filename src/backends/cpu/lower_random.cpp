// rng_bits: random bits. Keys are handled one after another, and the blocks of each are split over threads.
#include "backends/cpu/lowerings.h"
#include "kernels/random/random.h"
#include "rlx/ops.h"

namespace rlx::cpu {

Prepared lower_rng_bits(const LoweringContext& c) {
  const auto& a = c.attrs<RngBitsAttrs>();
  auto generator = a.algorithm == RngAlgorithm::philox     ? kernels::BitGenerator::philox
                   : a.algorithm == RngAlgorithm::threefry ? kernels::BitGenerator::threefry
                                                           : kernels::BitGenerator::threefry_original;
  int64_t keys = c.operands[0].count() / 2, count = keys ? c.results[0].count() / keys : 0;
  size_t bytes = byte_size(a.dtype);
  int64_t blocks = kernels::random_blocks(generator, count, bytes);
  bool counts_on = c.operands.size() > 1;
  return make_step(std::string(names_of(a.algorithm)[size_t(a.algorithm)]), 0, [=](const StepArgs& args) {
    for (int64_t key = 0; key < keys; ++key)
      for_ranges(args, blocks, 64, static_cast<double>(blocks) * 3, [&](int64_t begin, int64_t end, int64_t) {
        kernels::random_bits(generator, args.in<uint32_t>(0) + 2 * key, count, bytes, begin, end,
                             args.out<std::byte>() + static_cast<size_t>(key * count) * bytes,
                             counts_on ? args.in<uint32_t>(1) + 4 * key : nullptr);
      });
  });
}

}  // namespace rlx::cpu
