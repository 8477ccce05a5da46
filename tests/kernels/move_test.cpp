// Copies, pad, gather, fill and iota against index arithmetic.
#include "kernels/index/move.h"

#include <numeric>

#include "kernels/kernel_test.h"

using namespace rlx;
using namespace rlx::kernels;
using namespace rlx::test;

namespace {

using Bytes = std::vector<unsigned char>;

Bytes random_bytes(int64_t count, uint64_t seed) {
  Random r(seed);
  Bytes b(static_cast<size_t>(count));
  for (unsigned char& v : b) v = static_cast<unsigned char>(r.bits());
  return b;
}

/// Copies with `plan`, in ranges of chunks of random size.
void run(const CopyPlan& plan, const void* src, void* dst, Random& r) {
  for (int64_t chunk = 0; chunk < plan.chunks;) {
    const int64_t end = std::min(plan.chunks, chunk + 1 + r.below(plan.chunks));
    copy_strided(plan, src, dst, chunk, end);
    chunk = end;
  }
}

}  // namespace

TEST_CASE("strided copies move every element to its position and touch nothing else") {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Random r(seed);
    const int64_t bytes = int64_t{1} << r.below(5);
    const auto rank = static_cast<int>(r.below(6));
    std::vector<int64_t> dims(static_cast<size_t>(rank)), order(dims.size()), src(dims.size()), dst(dims.size());
    for (int64_t& d : dims) d = seed % 50 == 7 ? r.below(2) : 1 + r.below(rank <= 2 ? 150 : 9);
    // The destination in row-major order with gaps; the source in another order, some dims reversed or broadcast.
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i-- > 1;)
      std::swap(order[i], order[static_cast<size_t>(r.below(static_cast<int64_t>(i) + 1))]);
    int64_t dst_size = bytes, src_size = bytes, src_origin = 0;
    for (size_t d = dims.size(); d-- > 0;) {
      dst[d] = dst_size;
      dst_size *= dims[d] + (r.below(3) == 0 ? 1 : 0);
    }
    for (size_t d : order) {
      const int64_t how = r.below(6);
      src[d] = how == 0 ? 0 : how == 1 ? -src_size : src_size;
      if (how == 1) src_origin += (dims[d] - 1) * src_size;
      if (how != 0) src_size *= dims[d] + (r.below(4) == 0 ? 1 : 0);
    }
    const Bytes from = random_bytes(src_size + bytes, seed);
    Bytes to(static_cast<size_t>(dst_size + bytes), 0xee), want = to;
    int64_t count = 1;
    for (int64_t d : dims) count *= d;
    for (int64_t i = 0; i < count; ++i) {
      int64_t s = std::max<int64_t>(src_origin, 0), t = 0, rest = i;
      for (size_t d = dims.size(); d-- > 0; rest /= dims[d]) s += rest % dims[d] * src[d], t += rest % dims[d] * dst[d];
      std::memcpy(&want[static_cast<size_t>(t)], &from[static_cast<size_t>(s)], static_cast<size_t>(bytes));
    }
    const CopyPlan plan = plan_copy(bytes, rank, dims.data(), src.data(), dst.data());
    CHECK((count == 0) == (plan.chunks == 0));
    run(plan, from.data() + std::max<int64_t>(src_origin, 0), to.data(), r);
    CAPTURE(seed);
    REQUIRE((to == want));
  }
}

TEST_CASE("a large transpose is exact for every element size") {
  for (int64_t bytes : {1, 2, 4, 8, 16}) {
    const int64_t rows = 301, cols = 517;
    const Bytes from = random_bytes(rows * cols * bytes, 1);
    Bytes to(from.size());
    const int64_t dims[] = {cols, rows}, src[] = {bytes, cols * bytes}, dst[] = {rows * bytes, bytes};
    const CopyPlan plan = plan_copy(bytes, 2, dims, src, dst);
    Random r(2);
    run(plan, from.data(), to.data(), r);
    bool equal = true;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j)
        equal =
            equal && std::memcmp(&to[static_cast<size_t>((j * rows + i) * bytes)],
                                 &from[static_cast<size_t>((i * cols + j) * bytes)], static_cast<size_t>(bytes)) == 0;
    CHECK(equal);
  }
}

TEST_CASE("pad inserts gaps between elements, crops with negative padding, and leaves the rest filled") {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Random r(seed);
    const auto rank = static_cast<int>(r.below(4));
    std::vector<int64_t> dims, low, high, interior, out;
    int64_t count = 1, out_count = 1;
    for (int d = 0; d < rank; ++d) {
      dims.push_back(r.below(7));
      interior.push_back(r.below(3));
      low.push_back(r.below(12) - 6);
      high.push_back(r.below(12) - 6);
      const int64_t spread = dims.back() > 0 ? (dims.back() - 1) * (interior.back() + 1) + 1 : 0;
      if (low.back() + spread + high.back() < 0) high.back() = -low.back() - spread;
      out.push_back(low.back() + spread + high.back());
      count *= dims.back();
      out_count *= out.back();
    }
    std::vector<int32_t> x(static_cast<size_t>(count) + 1), y(static_cast<size_t>(out_count) + 1), want(y.size(), -7);
    std::iota(x.begin(), x.end(), 1);
    const int32_t filler = -7;
    fill(y.data(), &filler, 4, 0, out_count + 1);
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = 0, rest = i, stride = 1;
      bool inside = true;
      for (int d = rank - 1; d >= 0; --d) {
        const auto e = static_cast<size_t>(d);
        const int64_t to = low[e] + rest % dims[e] * (interior[e] + 1);
        inside = inside && to >= 0 && to < out[e];
        at += to * stride, stride *= out[e], rest /= dims[e];
      }
      if (inside) want[static_cast<size_t>(at)] = x[static_cast<size_t>(i)];
    }
    const PadPlan plan = plan_pad(4, rank, dims.data(), low.data(), high.data(), interior.data());
    if (plan.copy.chunks > 0)
      copy_strided(plan.copy, reinterpret_cast<unsigned char*>(x.data()) + plan.src_offset,
                   reinterpret_cast<unsigned char*>(y.data()) + plan.dst_offset, 0, plan.copy.chunks);
    CAPTURE(seed);
    REQUIRE(y == want);
  }
}

TEST_CASE("iota counts along its axis in every dtype") {
  for (size_t k = 0; k < kDTypeCount; ++k) {
    const auto t = static_cast<DType>(k);
    if (!is_byte_sized(t) || is_complex(t) || is_block(t)) continue;
    Elements y(t, 2 * 5 * 3), one(t, 1);
    iota(y.data(), t, 5, 3, 0, 11);
    iota(y.data(), t, 5, 3, 11, 30);
    for (int64_t i = 0; i < 30; ++i) {
      one.set(0, static_cast<double>(i / 3 % 5));
      REQUIRE((y[i] == one[0] || std::isnan(one[0])));
    }
  }
  std::vector<std::complex<float>> z(4);
  iota(z.data(), c64, 4, 1, 0, 4);
  CHECK(z[3] == std::complex<float>(3, 0));
  std::vector<int8_t> narrow(300);
  iota(narrow.data(), i8, 300, 1, 0, 300);
  CHECK(narrow[299] == static_cast<int8_t>(299 - 256));
}
