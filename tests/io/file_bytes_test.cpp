// Files in memory: what they hold, what becomes of them when the file is cut, and the memory that mapped ones give
// back.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "rlx/io.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

// Bytes of files that this process has in memory right now (proc(5), statm: "shared").
size_t resident_file_bytes() {
  size_t total = 0, resident = 0, shared = 0;
  std::ifstream("/proc/self/statm") >> total >> resident >> shared;
  return shared * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("a mapped file has the bytes of the file") {
  TemporaryFolder folder;
  put_file(folder / "x", "content");
  auto file = FileBytes::map(folder / "x");
  CHECK(file->path() == folder / "x");
  CHECK(std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()) == "content");
}

TEST_CASE("an empty file is mapped as no bytes") {
  TemporaryFolder folder;
  put_file(folder / "x", "");
  CHECK(FileBytes::map(folder / "x")->bytes().empty());
}

TEST_CASE("released pages leave the memory, and come back with their content") {
  TemporaryFolder folder;
  constexpr size_t kBytes = 32 << 20;
  put_file(folder / "x", std::string(kBytes, '\1'));
  auto file = FileBytes::map(folder / "x");
  auto sum = [&] {
    size_t total = 0;
    for (std::byte b : file->bytes()) total += std::to_integer<size_t>(b);
    return total;
  };
  size_t before = resident_file_bytes();
  CHECK(sum() == kBytes);
  if (resident_file_bytes() < before + kBytes / 2) {
    MESSAGE("skipped: this system does not tell the resident bytes of mapped files");
    return;
  }
  file->release(file->bytes());
  CHECK(resident_file_bytes() < before + kBytes / 2);
  CHECK(sum() == kBytes);
}

TEST_CASE("only tensors that borrow from a mapped file have pages to release") {
  TemporaryFolder folder;
  put_file(folder / "x", std::string(100'000, '\2'));
  auto file = FileBytes::map(folder / "x");
  Tensor borrowed = Tensor::borrow(u8, {50'000}, file->bytes().subspan(7, 50'000), file);
  CHECK(release_pages(borrowed));
  CHECK(borrowed.values<uint8_t>()[49'999] == 2);
  Tensor owned(u8, {50'000});
  owned.mutable_data()[40'000] = std::byte{9};
  CHECK_FALSE(release_pages(owned));
  CHECK(owned.values<uint8_t>()[40'000] == 9);
  CHECK_FALSE(release_pages(Tensor()));
}

TEST_CASE("a copy stays as it was read when another process cuts or rewrites the file") {
  TemporaryFolder folder;
  constexpr size_t kBytes = 1 << 20;
  put_file(folder / "x", std::string(kBytes, '\1'));
  auto whole = FileBytes::read(folder / "x");
  auto part = FileBytes::open(folder / "x");
  part->load(100, 1000);
  REQUIRE(truncate((folder / "x").c_str(), 10) == 0);
  CHECK(std::all_of(whole->bytes().begin(), whole->bytes().end(), [](std::byte b) { return b == std::byte{1}; }));
  CHECK(part->bytes()[100] == std::byte{1});
  part->load(100, 1000);  // is there already
  const std::string message = message_of([&] { part->load(0, kBytes); });
  CHECK(message.find("was changed while it was read: it had 1048576 bytes and now has 10") != std::string::npos);
  put_file(folder / "x", std::string(kBytes, '\2'));  // as long as it was
  CHECK(error_of([&] { part->load(0, kBytes); }).code() == ErrorCode::io);
  CHECK(whole->bytes()[kBytes / 2] == std::byte{1});
}

TEST_CASE("tensors of a file that is cut while they are used are as they were read, and others are an error") {
  TemporaryFolder folder;
  const std::string path = folder / "x.safetensors";
  const std::vector<float> ones(300'000, 1.0F), twos(300'000, 2.0F);
  write_safetensors(path, {{"ones", Tensor::of<float>({300'000}, ones)}, {"twos", Tensor::of<float>({300'000}, twos)}});
  SafetensorsFile file = SafetensorsFile::open(path);
  Tensor read = file.tensor("ones");
  REQUIRE(truncate(path.c_str(), 4096) == 0);
  CHECK(std::equal(ones.begin(), ones.end(), read.values<float>().begin()));
  CHECK(file.tensor("ones") == read);
  const std::string message = message_of([&] { file.tensor("twos"); });
  CHECK(message.find("was changed while it was read: it had ") != std::string::npos);
  CHECK(message.find("reading tensor 'twos'") != std::string::npos);
}

TEST_CASE("with when_read a tensor's elements are read when somebody first asks for them, by any of its copies") {
  TemporaryFolder folder;
  const std::string path = folder / "x.safetensors";
  write_safetensors(path, {{"bits", Tensor::of<bool>({2}, {true, false})},
                           {"ones", Tensor::of<float>({4}, {1, 1, 1, 1})},
                           {"twos", Tensor::of<float>({4}, {2, 2, 2, 2})}});
  auto file = SafetensorsFile::open(path, FileAccess::when_read);
  const Tensor ones = file.tensor("ones"), square = ones.reshaped({2, 2}), twos = file.tensor("twos");
  Tensor changed = ones;
  CHECK(ones.place()[3] == std::byte{0});  // the upper byte of 1.0F, 0x3f800000
  CHECK(file.tensor("bits").values<bool>()[0]);
  {
    std::vector<std::thread> threads;
    std::atomic<int> right = 0;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { right += square.values<float>()[3] == 1; });
    for (std::thread& t : threads) t.join();
    CHECK(right == 4);
  }
  CHECK(ones.place()[3] == std::byte{0x3f});
  changed.mutable_values<float>()[0] = 5;
  CHECK(ones.values<float>()[0] == 1);
  REQUIRE(truncate(path.c_str(), 100) == 0);
  CHECK(square == Tensor::of<float>({2, 2}, {1, 1, 1, 1}));
  for (int i = 0; i < 2; ++i) {  // each time
    const std::string message = message_of([&] { static_cast<void>(twos.bytes()); });
    CHECK(message.find("was changed while it was read: it had ") != std::string::npos);
    CHECK(message.find("reading tensor 'twos'") != std::string::npos);
  }
}

TEST_CASE("a file that is replaced by another one is read on as it was") {
  TemporaryFolder folder;
  put_file(folder / "x", std::string(5000, '\1'));
  put_file(folder / "y", std::string(10, '\2'));
  auto file = FileBytes::open(folder / "x");
  std::filesystem::rename(folder / "y", folder / "x");
  file->load(0, 5000);
  CHECK(file->bytes()[4999] == std::byte{1});
}

TEST_CASE("what is not asked for is not read, and takes no memory") {
  TemporaryFolder folder;
  put_file(folder / "x", "12345678");
  std::filesystem::resize_file(folder / "x", uint64_t{1} << 42);  // 4 TiB of nothing
  auto file = FileBytes::open(folder / "x");
  file->load(0, 8);
  CHECK(file->bytes()[7] == std::byte{'8'});
  CHECK(file->bytes().size() == uint64_t{1} << 42);
}

TEST_CASE("whether a file still holds what was copied of it is compared byte by byte") {
  TemporaryFolder folder;
  put_file(folder / "x", std::string(5000, '\1'));
  auto file = FileBytes::open(folder / "x");
  file->load(0, 100);
  CHECK(file->is_as_loaded());
  put_file(folder / "x", std::string(100, '\1') + std::string(4900, '\2'));
  CHECK(file->is_as_loaded());  // what was copied of it
  put_file(folder / "x", std::string(99, '\1') + std::string(4901, '\2'));
  CHECK_FALSE(file->is_as_loaded());
}
