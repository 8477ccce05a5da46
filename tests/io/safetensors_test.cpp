// Safetensors files: what the Python package writes is read, and what is written is what the package writes.
#include <doctest/doctest.h>

#include <chrono>

#include "rlx/io.h"
#include "support/golden_arrays.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const std::string kGolden = "tests/golden/io/";

#if defined(__has_feature)
constexpr double kSlowdown = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ? 20 : 1;
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlowdown = 20;
#else
constexpr double kSlowdown = 1;
#endif

}  // namespace

TEST_CASE("every dtype of the safetensors package is read bit for bit") {
  auto expected = expected_arrays().at("all_dtypes.safetensors");
  SafetensorsFile file = SafetensorsFile::open(kGolden + "all_dtypes.safetensors");
  CHECK(file.entries().size() == expected.size());
  CHECK(file.metadata().empty());
  for (const auto& item : expected.items()) {
    const std::string& name = item.key();
    CAPTURE(name);
    CHECK(file.tensor(name) == described(item.value()));
  }
}

TEST_CASE("a written safetensors file equals that of the safetensors package byte for byte") {
  TemporaryFolder folder;
  for (std::string name : {"all_dtypes.safetensors", "names.safetensors", "nothing.safetensors"}) {
    CAPTURE(name);
    SafetensorsFile file = SafetensorsFile::open(kGolden + name);
    write_safetensors(folder / name, file.tensors(), file.metadata());
    CHECK(file_content(folder / name) == file_content(kGolden + name));
  }
}

TEST_CASE("names and metadata that JSON escapes are read as they were given") {
  auto file = SafetensorsFile::open(kGolden + "names.safetensors");
  auto names = expected_arrays().at("names.safetensors").get<std::vector<std::string>>();
  CHECK(file.names().size() == names.size());
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(file.tensor(name) == Tensor::of<float>({2}, {1, 2}));
  }
  CHECK(file.metadata() == SafetensorsFile::Metadata{{"format \"x\"\n", "pt ü\t"}});
}

TEST_CASE("tensors borrow from the mapped file and keep it after it is closed") {
  Tensor t;
  {
    auto file = SafetensorsFile::open(kGolden + "all_dtypes.safetensors");
    t = file.tensor("matrix.f32");
    CHECK(t.data() == file.tensor("matrix.f32").data());
  }
  CHECK(t == described(expected_arrays().at("all_dtypes.safetensors").at("matrix.f32")));
}

TEST_CASE("a tensor that stands unaligned in the file is copied to where its elements can be read") {
  auto file = SafetensorsFile::open(kGolden + "unaligned.safetensors");
  Tensor b = file.tensor("b");
  CHECK(reinterpret_cast<uintptr_t>(b.data()) % alignof(float) == 0);
  CHECK(b == Tensor::of<float>({2}, {0.5f, -3}));
  CHECK(file.tensor("a") == Tensor::of<uint8_t>({1}, {7}));
  CHECK(file.names() == std::vector<std::string>{"a", "b"});  // in the order of the data, not of the header
}

TEST_CASE("six-bit floats keep their packed bytes") {
  auto file = SafetensorsFile::open(kGolden + "six_bits.safetensors");
  CHECK(file.tensor("x").type() == Type{f6e2m3fn, {2, 4}});
  CHECK(file.tensor("y").type() == Type{f6e3m2fn, {4}});
  CHECK(std::to_integer<int>(file.tensor("y").data()[2]) == 8);
}

TEST_CASE("find tells where a tensor stands without reading it") {
  auto file = SafetensorsFile::open(kGolden + "unaligned.safetensors");
  const SafetensorsFile::Entry* b = file.find("b");
  REQUIRE(b);
  CHECK(b->byte_count == 8);
  CHECK(b->offset + b->byte_count == file_content(kGolden + "unaligned.safetensors").size());
  CHECK_FALSE(file.find("c"));
}

TEST_CASE("a safetensors file is read from memory as from the disk") {
  std::string content = file_content(kGolden + "all_dtypes.safetensors");
  auto from_memory = SafetensorsFile::read(std::as_bytes(std::span(content)), nullptr, "somewhere");
  CHECK(from_memory.path() == "somewhere");
  CHECK(from_memory.tensors() == SafetensorsFile::open(kGolden + "all_dtypes.safetensors").tensors());
}

TEST_CASE("a safetensors file may be written over while its tensors are in use") {
  TemporaryFolder folder;
  std::string path = folder / "x.safetensors";
  write_safetensors(path, {{"x", Tensor::of<float>({3}, {1, 2, 3})}});
  NamedTensors tensors = SafetensorsFile::open(path).tensors();
  write_safetensors(path, {{"y", tensors.at("x")}}, {{"step", "2"}});
  CHECK(tensors.at("x") == Tensor::of<float>({3}, {1, 2, 3}));
  auto again = SafetensorsFile::open(path);
  CHECK(again.tensor("y", f32, {3}) == tensors.at("x"));
  CHECK(again.metadata().at("step") == "2");
  CHECK(folder.file_count() == 1);
}

TEST_CASE("a safetensors file of 90 MB opens in less than a millisecond") {
  TemporaryFolder folder;
  NamedTensors tensors;
  // As many tensors and bytes as the sentence encoder all-MiniLM-L6-v2 has.
  for (int i = 0; i < 103; ++i)
    tensors.emplace("encoder.layer." + std::to_string(i) + ".weight", Tensor(f32, {220'000}));
  write_safetensors(folder / "large.safetensors", tensors);
  CHECK(std::filesystem::file_size(folder / "large.safetensors") > 90'000'000);
  double best = 1;
  // The best of some: another process may take the processor in between.
  for (int i = 0; i < 20; ++i) {
    auto begin = std::chrono::steady_clock::now();
    auto file = SafetensorsFile::open(folder / "large.safetensors");
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    CHECK(file.entries().size() == 103);
  }
  MESSAGE("opened in " << best * 1e6 << " microseconds");
  CHECK(best < 1e-3 * kSlowdown);
}
