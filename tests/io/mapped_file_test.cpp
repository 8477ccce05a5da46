// Mapped files: what they hold, and the memory that they give back.
#include <doctest/doctest.h>

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
  auto file = MappedFile::open(folder / "x");
  CHECK(file->path() == folder / "x");
  CHECK(std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()) == "content");
}

TEST_CASE("an empty file is mapped as no bytes") {
  TemporaryFolder folder;
  put_file(folder / "x", "");
  CHECK(MappedFile::open(folder / "x")->bytes().empty());
}

TEST_CASE("released pages leave the memory, and come back with their content") {
  TemporaryFolder folder;
  constexpr size_t kBytes = 32 << 20;
  put_file(folder / "x", std::string(kBytes, '\1'));
  auto file = MappedFile::open(folder / "x");
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
  auto file = MappedFile::open(folder / "x");
  Tensor borrowed = Tensor::borrow(u8, {50'000}, file->bytes().subspan(7, 50'000), file);
  CHECK(release_pages(borrowed));
  CHECK(borrowed.values<uint8_t>()[49'999] == 2);
  Tensor owned(u8, {50'000});
  owned.mutable_data()[40'000] = std::byte{9};
  CHECK_FALSE(release_pages(owned));
  CHECK(owned.values<uint8_t>()[40'000] == 9);
  CHECK_FALSE(release_pages(Tensor()));
}
