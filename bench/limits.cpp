// What this machine can do at most: multiply-adds of f32 in registers, and bytes through memory. `bench/yardstick`
// compares with these. One JSON line:
//
//   limits [THREADS [MIB]]
//
// Each figure comes from many pieces of a millisecond and less, begun together on all threads behind a barrier: the
// best piece is the machine's limit even if other programs share it; how far the median lies below says how much they
// do. Bandwidth is that of the best tenth, as single pieces may lie in a cache. triad: a = b + 3 c with stores that
// bypass the caches, three times the bytes of an array; read: a sum, of four places at once. Arrays have MIB mebibytes,
// by default 64, as much as the largest operand of the yardstick's cases, and are in large pages, as the library's are:
// what of one stays in a shared cache from run to run stays there here too, and one stream in small pages is slower
// than any kernel has to be. With the size of a language model's weights it is memory that is measured: then nothing is
// read twice.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/large_pages.h"
#include "kernels/vector/highway_targets.h"

#include "hwy/cache_control.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/limits.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::bench {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

constexpr int kChains = 12;  // more than any processor needs to hide the latency, and as many as 16 registers hold

/// `rounds` times 12 multiply-adds of a vector; the result keeps the compiler from leaving them out.
float multiply_adds(int64_t rounds, float seed) {
  const Tag d;
  const auto factor = hn::Set(d, 0.999f), term = hn::Set(d, 1e-3f * seed);
  // Each chain begins elsewhere: equal ones would be computed once.
  auto start = [&](int chain) HWY_ATTR { return hn::Set(d, seed + static_cast<float>(chain)); };
  auto a0 = start(0), a1 = start(1), a2 = start(2), a3 = start(3), a4 = start(4), a5 = start(5);
  auto b0 = start(6), b1 = start(7), b2 = start(8), b3 = start(9), b4 = start(10), b5 = start(11);
  for (int64_t i = 0; i < rounds; ++i) {
    a0 = hn::MulAdd(a0, factor, term), a1 = hn::MulAdd(a1, factor, term), a2 = hn::MulAdd(a2, factor, term);
    a3 = hn::MulAdd(a3, factor, term), a4 = hn::MulAdd(a4, factor, term), a5 = hn::MulAdd(a5, factor, term);
    b0 = hn::MulAdd(b0, factor, term), b1 = hn::MulAdd(b1, factor, term), b2 = hn::MulAdd(b2, factor, term);
    b3 = hn::MulAdd(b3, factor, term), b4 = hn::MulAdd(b4, factor, term), b5 = hn::MulAdd(b5, factor, term);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(hn::Add(a4, a5), hn::Add(b0, b1)));
  return hn::GetLane(hn::Add(sum, hn::Add(hn::Add(b2, b3), hn::Add(b4, b5))));
}
double flops_of_round() { return 2.0 * kChains * static_cast<double>(hn::Lanes(Tag())); }

/// Counts are multiples of 64 floats, pointers are aligned to 64 bytes.
float triad(float* a, const float* b, const float* c, int64_t count) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto three = hn::Set(d, 3.0f);
  for (int64_t i = 0; i < count; i += lanes)
    hn::Stream(hn::MulAdd(three, hn::Load(d, c + i), hn::Load(d, b + i)), d, a + i);
  hwy::FlushStream();
  return 0;
}
float sum_of(const float* a, int64_t count) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  const int64_t quarter = count / 4;  // the processor's prefetching follows each of several streams
  for (int64_t i = 0; i < quarter; i += lanes) {
    s0 = hn::Add(s0, hn::Load(d, a + i)), s1 = hn::Add(s1, hn::Load(d, a + i + quarter));
    s2 = hn::Add(s2, hn::Load(d, a + i + 2 * quarter)), s3 = hn::Add(s3, hn::Load(d, a + i + 3 * quarter));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::bench {
namespace {
HWY_EXPORT(multiply_adds);
HWY_EXPORT(flops_of_round);
HWY_EXPORT(triad);
HWY_EXPORT(sum_of);

constexpr int kPieces = 300;
volatile float sink;

/// Seconds that each of many pieces takes on all threads, sorted. `work(thread, piece)` is begun by all at once.
template <class Work>
std::vector<double> seconds_of(int threads, Work work) {
  std::vector<double> pieces(kPieces), own(static_cast<size_t>(threads));
  std::atomic<int> arrived{0}, left{0}, begun{-1};
  auto body = [&](int thread) {
    for (int piece = 0; piece < kPieces; ++piece) {
      arrived.fetch_add(1);
      if (thread == 0) {
        while (arrived.load() != threads * (piece + 1)) std::this_thread::yield();
        begun.store(piece);
      } else {
        while (begun.load() < piece) std::this_thread::yield();
      }
      const auto begin = std::chrono::steady_clock::now();
      work(thread, piece);
      own[static_cast<size_t>(thread)] =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      left.fetch_add(1);
      if (thread != 0) continue;
      while (left.load() != threads * (piece + 1)) std::this_thread::yield();
      pieces[static_cast<size_t>(piece)] = *std::max_element(own.begin(), own.end());
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(body, thread);
  body(0);
  for (std::thread& other : others) other.join();
  std::sort(pieces.begin(), pieces.end());
  return pieces;
}

int measure(int threads, int64_t mebibytes) {
  constexpr int64_t kRounds = 20000, kPiece = int64_t{512} << 10;  // floats
  const int64_t array_size = mebibytes << 18;                      // floats
  std::vector<float*> arrays;
  for (int i = 0; i < 3; ++i) {
    auto* array =
        static_cast<float*>(std::aligned_alloc(size_t{2} << 20, static_cast<size_t>(array_size) * sizeof(float)));
    if (!array)
      return std::fprintf(stderr, "limits: no memory for 3 arrays of %lld floats\n", (long long)array_size), 1;
    prefer_large_pages(array, static_cast<size_t>(array_size) * sizeof(float));
    std::fill(array, array + array_size, static_cast<float>(i));
    arrays.push_back(array);
  }
  auto at = [&](int thread, int piece) { return (int64_t{piece} * threads + thread) * kPiece % array_size; };
  const auto fma = seconds_of(threads, [&](int thread, int) {
    sink = HWY_DYNAMIC_DISPATCH(multiply_adds)(kRounds, 1.0f + static_cast<float>(thread));
  });
  const auto triads = seconds_of(threads, [&](int thread, int piece) {
    const int64_t i = at(thread, piece);
    sink = HWY_DYNAMIC_DISPATCH(triad)(arrays[0] + i, arrays[1] + i, arrays[2] + i, kPiece);
  });
  const auto reads = seconds_of(threads, [&](int thread, int piece) {
    sink = HWY_DYNAMIC_DISPATCH(sum_of)(arrays[0] + at(thread, piece), kPiece);
  });
  const double flops = HWY_DYNAMIC_DISPATCH(flops_of_round)() * static_cast<double>(kRounds) * threads;
  const double bytes = sizeof(float) * static_cast<double>(kPiece) * threads;
  std::printf(
      "{\"threads\": %d, \"fma_gflops\": %.1f, \"fma_median_gflops\": %.1f, \"triad_gbs\": %.2f, \"read_gbs\": %.2f}\n",
      threads, flops / fma[0] * 1e-9, flops / fma[kPieces / 2] * 1e-9, 3 * bytes / triads[kPieces / 10] * 1e-9,
      bytes / reads[kPieces / 10] * 1e-9);
  for (float* array : arrays) std::free(array);
  return 0;
}

}  // namespace
}  // namespace rlx::bench

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (threads < 1 || threads > 256) return std::fprintf(stderr, "limits: THREADS is 1 to 256, not '%s'\n", argv[1]), 2;
  const int mebibytes = argc > 2 ? std::atoi(argv[2]) : 64;
  if (mebibytes < 2 || mebibytes > 65536 || mebibytes % 2 != 0)  // a piece has 2
    return std::fprintf(stderr, "limits: MIB is an even number from 2 to 65536, not '%s'\n", argv[2]), 2;
  return rlx::bench::measure(threads, mebibytes);
}
#endif  // HWY_ONCE
