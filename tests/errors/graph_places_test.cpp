// Places that their dtype does not hold: an op that gives i32 refuses an axis of more than 2^31 places, where it is
// built or, of a symbolic extent, before the run that meets it; no place comes out negative.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include "autodiff/transforms.h"
#include "ir/text.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr int64_t kMost = int64_t{1} << 31, kBeyond = kMost + 24;

/// Zeros that cost no memory as long as nobody looks at them.
struct Untouched {
  explicit Untouched(size_t size) : size_(size) {
    data_ = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(data_ != MAP_FAILED);
  }
  ~Untouched() { munmap(data_, size_); }
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;
  const std::byte* data() const { return static_cast<const std::byte*>(data_); }

 private:
  void* data_;
  size_t size_;
};

std::string refusal_of(const Type& x, const std::function<void(Value)>& build) {
  return message_of([&] {
    Graph g("places");
    build(g.input("x", x));
  });
}

}  // namespace

TEST_CASE("positions of i32 along more than 2^31 places are refused, with what to do instead") {
  const Type longest{u8, {2, kMost}}, x{u8, {2, kBeyond}};
  const std::string there =
      "i32, which holds 2147483648 of them, and there are 2147483672 along axis 1 of u8[2, 2147483672]";
  CHECK(refusal_of(x, [](Value v) { argmax(v, 1); }) ==
        "argmax numbers places in " + there +
            "; for i64 places take reduce_min of an i64 iota where x equals its extreme\n  while building "
            "'argmax(u8[2, 2147483672]) {axis = 1}'");
  const std::string by_sort = "; for i64 places sort x together with an i64 iota\n  while building ";
  CHECK(refusal_of(x, [](Value v) { argsort(v, 1); }) ==
        "argsort numbers places in " + there + by_sort + "'argsort(u8[2, 2147483672]) {axis = 1}'");
  CHECK(refusal_of(x, [](Value v) { top_k(v, 3, 1); }) ==
        "top_k numbers places in " + there + by_sort + "'top_k(u8[2, 2147483672]) {k = 3, axis = 1}'");
  CHECK(refusal_of(x, [](Value v) { argmin(v, 1); }).starts_with("argmin numbers places in " + there));
  Graph g("whole");
  const Value whole = g.input("x", longest);
  CHECK(argmax(whole, 1).type() == Type{i32, {2}});
  CHECK(argsort(whole, 1).type() == Type{i32, longest.dims});
  CHECK(argmax(g.input("rows", x), 0).type() == Type{i32, {kBeyond}});  // along the short axis
}

TEST_CASE("an iota fits its dtype") {
  Graph g("counts");
  CHECK(
      message_of([&] {
        iota(g, {i8, {300}}, 0);
      }) ==
      "iota numbers places in i8, which holds 128 of them, and there are 300 along axis 0 of i8[300]; ask for a wider "
      "dtype, and convert it where numbers are to wrap\n  while building 'iota() {type = i8[300]}'");
  CHECK(message_of([&] { iota(g, {i32, {kBeyond}}, 0); }).starts_with("iota numbers places in i32"));
  CHECK(iota(g, {u8, {256}}, 0).type() == Type{u8, {256}});
  CHECK(iota(g, {i64, {kBeyond}}, 0).type() == Type{i64, {kBeyond}});
  CHECK(iota(g, {f16, {5000}}, 0).type() == Type{f16, {5000}});  // floats round
}

TEST_CASE("a symbolic extent that turns out to be beyond i32 ends the run with the same message, and at once") {
  Untouched zeros(static_cast<size_t>(kBeyond));
  const Tensor x = Tensor::borrow(u8, {kBeyond}, {zeros.data(), static_cast<size_t>(kBeyond)});
  Graph g("run");
  g.output(argmax(g.input("x", u8, {Dim::symbol("N")}), 0), "y");
  CHECK(message_of([&] {
          Session(Device::cpu(), {1}).compile(g).run_ordered(std::array{x});
        }).starts_with("argmax numbers places in i32, which holds 2147483648 of them, and there are 2147483672"));
}

TEST_CASE("what is sorted along with others is numbered in i64 where i32 does not do") {
  for (int64_t n : {int64_t{5}, kBeyond}) {
    const Graph sorted = trace(std::vector{Type{f32, {n}}}, [](Values v) { return sort({v[0]}, {0})[0]; });
    const std::string gradient = text(vjp(sorted, {true}, {true}));
    CHECK_MESSAGE(gradient.find("= iota(") != std::string::npos, gradient);
    CHECK_MESSAGE(gradient.find(text_of(n == kBeyond ? "i64[" : "i32[", n, "]")) != std::string::npos, gradient);
  }
}
