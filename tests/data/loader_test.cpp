// The loader: every example once an epoch, in an order that the seed alone decides, from any position on.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "rlx/data.h"
#include "rlx/element.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

std::shared_ptr<const Dataset> numbers(int64_t n) {
  Tensor x(i64, {n}), y(f32, {n, 2});
  for (int64_t i = 0; i < n; ++i) {
    x.mutable_values<int64_t>()[static_cast<size_t>(i)] = i;
    y.mutable_values<float>()[static_cast<size_t>(2 * i + 1)] = static_cast<float>(i);
  }
  return arrays_dataset({{"x", x}, {"y", y}});
}
std::vector<int64_t> x_of(const Loader::Batch& batch) {
  auto values = batch.tensors[0].second.values<int64_t>();
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("Philox and the shuffle are those of the definition") {
  auto golden = SafetensorsFile::open("tests/golden/data/data.safetensors");
  RandomStream random((uint64_t{1} << 40) + 7, 1, 3, 5);
  for (uint32_t word : golden.tensor("random/words").values<uint32_t>()) CHECK(random.next() == word);
  auto order = shuffled(100, RandomStream((uint64_t{1} << 40) + 7, 1, 3, 5));
  CHECK(Tensor::of<int64_t>({100}, order) == golden.tensor("random/shuffled"));
}

TEST_CASE("normal and uniform numbers have their moments, and places of a shuffle are equally likely") {
  RandomStream random(11);
  constexpr int kCount = 40000;
  double sum = 0, squares = 0, uniform = 0;
  for (int i = 0; i < kCount; ++i) {
    double v = random.normal();
    sum += v, squares += v * v;
    uniform += random.uniform();
  }
  CHECK(std::abs(sum / kCount) < 5 / std::sqrt(kCount));
  CHECK(std::abs(squares / kCount - 1) < 5 * std::sqrt(2.0 / kCount));
  CHECK(std::abs(uniform / kCount - 0.5) < 5 / std::sqrt(12.0 * kCount));
  int counts[5][5] = {};
  for (uint32_t epoch = 0; epoch < 5000; ++epoch) {
    auto order = shuffled(5, RandomStream(3, 1, epoch));
    for (size_t i = 0; i < 5; ++i) ++counts[i][order[i]];
  }
  double chi = 0;
  for (auto& row : counts)
    for (int count : row) chi += (count - 1000.0) * (count - 1000.0) / 1000;
  CHECK(chi < 45);  // 16 degrees of freedom: 39.3 is passed once in a thousand
}

TEST_CASE("an epoch has each example once, in an order of its own") {
  for (int prefetch : {0, 1, 3}) {
    Loader loader(numbers(10), {.batch_size = 4, .seed = 5, .prefetch = prefetch});
    CHECK(loader.batches_per_epoch() == 3);
    std::set<std::vector<int64_t>> orders;
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      std::vector<int64_t> all;
      for (int64_t b = 0; b < 3; ++b) {
        CHECK(loader.position() == Loader::Position{epoch, b});
        Loader::Batch batch = loader.next();
        CHECK(batch.position == Loader::Position{epoch, b});
        CHECK(batch.ends_epoch == (b == 2));
        auto x = x_of(batch);
        CHECK(x.size() == (b == 2 ? 2 : 4));
        for (size_t i = 0; i < x.size(); ++i)  // arrays stay together
          CHECK(load_number(batch.tensors[1].second, 2 * i + 1) == static_cast<double>(x[i]));
        all.insert(all.end(), x.begin(), x.end());
      }
      orders.insert(all);
      std::sort(all.begin(), all.end());
      for (size_t i = 0; i < 10; ++i) CHECK(all[i] == static_cast<int64_t>(i));
    }
    CHECK(orders.size() == 4);
  }
}

TEST_CASE("without shuffling the order stays, and the last batch may be dropped") {
  Loader loader(numbers(10), {.batch_size = 4, .shuffle = false, .drop_last = true});
  CHECK(loader.batches_per_epoch() == 2);
  for (int epoch = 0; epoch < 2; ++epoch) {
    CHECK(x_of(loader.next()) == std::vector<int64_t>{0, 1, 2, 3});
    CHECK(x_of(loader.next()) == std::vector<int64_t>{4, 5, 6, 7});
  }
}

TEST_CASE("a loader goes on in the middle of an epoch with the batches that it would have had") {
  auto draw = [](std::vector<NamedTensor>& batch, std::span<RandomStream> random) {
    auto x = batch[0].second.mutable_values<int64_t>();
    for (size_t i = 0; i < random.size(); ++i) x[i] += 1000 * static_cast<int64_t>(random[i].below(1000));
  };
  LoaderOptions options{.batch_size = 3, .seed = 9, .transforms = {draw}};
  Loader whole(numbers(11), options);
  std::vector<std::vector<int64_t>> all;
  std::vector<std::string> states;
  for (int i = 0; i < 12; ++i) states.push_back(whole.state()), all.push_back(x_of(whole.next()));
  for (size_t from : {size_t{7}, size_t{0}, size_t{4}, size_t{11}})
    for (int prefetch : {0, 2}) {
      options.prefetch = prefetch;
      Loader resumed(numbers(11), options);
      resumed.next();
      resumed.restore(states[from]);
      for (size_t i = from; i < 12; ++i) CHECK(x_of(resumed.next()) == all[i]);
    }
  options.seed = 10;
  Loader other(numbers(11), options);
  CHECK_THROWS_WITH_AS(other.restore(states[3]), doctest::Contains("'seed=9'; this one has 'seed=10'"), Error);
  CHECK_THROWS_WITH_AS(other.restore("nonsense"), doctest::Contains("no position of a loader"), Error);
  CHECK_THROWS_WITH_AS(other.seek({0, 4}), doctest::Contains("an epoch has 4 batches"), Error);
}

TEST_CASE("what goes wrong on the loader's thread is thrown by next") {
  auto broken = [](std::vector<NamedTensor>&, std::span<RandomStream>) {
    fail(ErrorCode::invalid_argument, "a transform that fails");
  };
  Loader loader(numbers(4), {.transforms = {broken}});
  for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH_AS(loader.next(), "a transform that fails", Error);
  Loader moved = std::move(loader);
  CHECK_THROWS_WITH_AS(moved.next(), "a transform that fails", Error);
}

TEST_CASE("what a transform or a data set of the user's throws arrives as an error that names it, from either thread") {
  struct Torn : Dataset {
    int64_t size() const override { return 4; }
    std::vector<NamedTensor> gather(std::span<const int64_t>) const override { throw std::runtime_error("torn"); }
  };
  const Transform broken = [](std::vector<NamedTensor>&, std::span<RandomStream>) { throw 7; };
  for (int prefetch : {0, 2}) {
    Loader transformed(numbers(4), {.prefetch = prefetch, .transforms = {broken}});
    CHECK_THROWS_WITH_AS(transformed.next(), "transform 0 of the loader threw what is no std::exception", Error);
    Loader torn(std::make_shared<Torn>(), {.prefetch = prefetch});
    CHECK_THROWS_WITH_AS(torn.next(), "the data set threw: torn", Error);
  }
}

TEST_CASE("data that make no batches are refused") {
  CHECK_THROWS_WITH_AS(Loader(numbers(3), {.batch_size = 4, .drop_last = true}),
                       doctest::Contains("no whole batch of 4"), Error);
  CHECK_THROWS_WITH_AS(Loader(numbers(3), {.batch_size = 0}), doctest::Contains("at least 1 example, not 0"), Error);
  CHECK_THROWS_WITH_AS(arrays_dataset({{"x", Tensor(f32, {3})}, {"y", Tensor(f32, {4})}}),
                       doctest::Contains("'y' have 4 examples (f32[4]), 'x' 3"), Error);
  CHECK_THROWS_WITH_AS(arrays_dataset({{"x", Tensor(f32, {})}}), doctest::Contains("counts the examples"), Error);
  CHECK_THROWS_WITH_AS(arrays_dataset({}), doctest::Contains("an array at least"), Error);
  CHECK_THROWS_WITH_AS(range_of(numbers(3), 1, 4), doctest::Contains("1 to 4 of 3"), Error);
}

TEST_CASE("windows are cut out of a long row, targets one place further") {
  Tensor tokens = Tensor::of<uint8_t>({9}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  auto data = windows_dataset(tokens, 3, 2);
  CHECK(data->size() == 3);
  auto batch = data->gather(std::array<int64_t, 2>{2, 0});
  CHECK(batch[0] == NamedTensor{"x", Tensor::of<uint8_t>({2, 3}, {4, 5, 6, 0, 1, 2})});
  CHECK(batch[1] == NamedTensor{"t", Tensor::of<uint8_t>({2, 3}, {5, 6, 7, 1, 2, 3})});
  auto part = range_of(data, 1, 3);
  CHECK(part->size() == 2);
  CHECK(part->gather(std::array<int64_t, 1>{1})[0].second == Tensor::of<uint8_t>({1, 3}, {4, 5, 6}));
  CHECK(windows_dataset(tokens, 8)->size() == 1);
  CHECK_THROWS_WITH_AS(windows_dataset(tokens, 9), doctest::Contains("there are 9 tokens"), Error);
}

TEST_CASE("shifted images keep their pixels, but for those that leave") {
  Tensor images(f32, {64, 2, 4, 5});
  for (size_t i = 0; i < images.element_count(); ++i) store<double>(images, i, static_cast<double>(i % 40 + 1));
  Loader loader(arrays_dataset({{"x", images}}),
                {.batch_size = 64, .shuffle = false, .transforms = {random_shifts("x", 2)}});
  auto batch = loader.next();
  const Tensor& moved = batch.tensors[0].second;
  std::map<std::pair<int64_t, int64_t>, int> seen;
  auto at = [](const Tensor& t, int64_t n, int64_t c, int64_t row, int64_t column) {
    return row < 0 || row > 3 || column < 0 || column > 4 ? 0
                                                          : load_number(t, offset_of(t.shape(), {n, c, row, column}));
  };
  for (int64_t n = 0; n < 64; ++n) {
    int fits = 0;
    for (int64_t down = -2; down <= 2; ++down)
      for (int64_t right = -2; right <= 2; ++right) {
        bool same = true;
        for_each_index({2, 4, 5}, [&](const Axes& i) {
          same &= at(moved, n, i[0], i[1], i[2]) == at(images, n, i[0], i[1] - down, i[2] - right);
        });
        if (same) ++fits, ++seen[{down, right}];
      }
    CHECK(fits == 1);
  }
  CHECK(seen.size() > 15);  // of 25
}
