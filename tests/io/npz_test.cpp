// .npz archives: what NumPy writes is read, and what is written is read again.
#include <doctest/doctest.h>

#include <thread>

#include "rlx/io.h"
#include "support/golden_arrays.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {
const std::string kGolden = "tests/golden/io/";

NamedTensors expected_members() {
  NamedTensors all;
  auto expected = expected_arrays().at("npz");  // which `items` refers to
  for (const auto& [name, entry] : expected.items()) all.emplace(name, described(entry));
  return all;
}
}  // namespace

TEST_CASE("stored and deflated archives of NumPy are read, names in any script, in their order") {
  for (std::string name : {"stored.npz", "deflated.npz"}) {
    CAPTURE(name);
    NpzFile file = NpzFile::open(kGolden + name);
    CHECK(file.names() == std::vector<std::string>{"weight", "mask", "schritt_ä", "nested/bias"});
    CHECK(file.contains("nested/bias"));
    CHECK_FALSE(file.contains("README.txt"));
    CHECK(file.arrays() == expected_members());
  }
}

TEST_CASE("written archives hold NumPy's own .npy files and are the same each time") {
  TemporaryFolder folder;
  NamedTensors arrays = expected_members();
  for (NpzCompression compression : {NpzCompression::stored, NpzCompression::deflated}) {
    write_npz(folder / "a.npz", arrays, compression);
    write_npz(folder / "b.npz", arrays, compression);
    std::string content = file_content(folder / "a.npz");
    CHECK(content == file_content(folder / "b.npz"));
    CHECK(NpzFile::open(folder / "a.npz").arrays() == arrays);
    // A stored member stands in the archive as it would stand in a file.
    write_npy(folder / "w.npy", arrays.at("weight"));
    bool found = content.find(file_content(folder / "w.npy")) != std::string::npos;
    CHECK(found == (compression == NpzCompression::stored));
    // A thousand zeros of f16 take little room.
    CHECK((content.size() < 2000) == (compression == NpzCompression::deflated));
    CHECK(folder.file_count() == 3);
    std::filesystem::remove(folder / "a.npz");
    std::filesystem::remove(folder / "b.npz");
    std::filesystem::remove(folder / "w.npy");
  }
}

TEST_CASE("types are told without the elements, and are those of the arrays") {
  for (std::string name : {"stored.npz", "deflated.npz"}) {
    NpzFile file = NpzFile::open(kGolden + name);
    for (const std::string& each : file.names()) CHECK(file.type(each) == file.array(each).type());
  }
  TemporaryFolder folder;
  write_npy(folder / "w.npy", Tensor(f16, {3, 0, 7}));
  CHECK(read_npy_type(folder / "w.npy") == Type{f16, {3, 0, 7}});
}

TEST_CASE("an archive without arrays is an archive") {
  TemporaryFolder folder;
  write_npz(folder / "none.npz", {});
  CHECK(file_content(folder / "none.npz").size() == 22);
  CHECK(NpzFile::open(folder / "none.npz").names().empty());
}

TEST_CASE("empty arrays and scalars pass through an archive") {
  TemporaryFolder folder;
  NamedTensors arrays{{"empty", Tensor(f32, {0, 3})}, {"scalar", Tensor::scalar<int64_t>(-5)}};
  write_npz(folder / "x.npz", arrays);
  CHECK(NpzFile::open(folder / "x.npz").arrays() == arrays);
}

TEST_CASE("several threads read from one archive") {
  NpzFile file = NpzFile::open(kGolden + "deflated.npz");
  NamedTensors expected = expected_members();
  std::vector<std::thread> threads;
  std::vector<char> same(4, 0);
  for (size_t t = 0; t < same.size(); ++t)
    threads.emplace_back([&, t] {
      bool all = true;
      for (int i = 0; i < 50; ++i)
        for (const auto& [name, tensor] : expected) all = all && file.array(name) == tensor;
      same[t] = all;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(same == std::vector<char>(4, 1));
}
