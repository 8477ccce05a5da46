// What a damaged or hostile .npz archive is answered with.
#include <doctest/doctest.h>

#include "rlx/io.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const std::string kDeflated = "tests/golden/io/deflated.npz";

NpzFile read(const std::string& content, uint64_t limit = kNpzByteLimit) {
  return NpzFile::read(std::as_bytes(std::span(content)), nullptr, "x.npz", limit);
}
/// Sets the 4 bytes at `offset` of the n-th central directory entry (APPNOTE 6.3.10, 4.3.12).
std::string with_directory_field(std::string content, size_t n, size_t offset, uint32_t value) {
  size_t at = content.find("PK\1\2");
  for (; n > 0; --n) at = content.find("PK\1\2", at + 1);
  REQUIRE(at != std::string::npos);
  for (size_t i = 0; i < 4; ++i) content[at + offset + i] = static_cast<char>(value >> (8 * i));
  return content;
}
constexpr size_t kMethod = 10, kPackedSize = 20, kSize = 24;

}  // namespace

TEST_CASE("a file that is no zip archive or is cut says so") {
  std::string text = message_of([] { read("this is no archive"); });
  CHECK(text.starts_with("the 18 bytes are no whole zip archive: "));
  CHECK(
      text.ends_with("; the list of members stands at its end, so a cut file has none: copy it again\n"
                     "  while reading the .npz file 'x.npz'"));
  std::string whole = file_content(kDeflated);
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(message_of([&] { read(whole.substr(0, size)); }).empty());
  }
}

TEST_CASE("a missing array suggests the nearest names") {
  CHECK(message_of([] { NpzFile::open(kDeflated).array("weigth"); }) ==
        "'tests/golden/io/deflated.npz' has no array 'weigth' among its 4; the nearest are 'weight', 'mask' "
        "and 'schritt_ä'");
}

TEST_CASE("an array that unpacks to more than the limit is refused before it is unpacked") {
  TemporaryFolder folder;
  write_npz(folder / "bomb.npz", {{"zeros", Tensor(u8, {10'000'000})}}, NpzCompression::deflated);
  std::string path = folder / "bomb.npz";
  CHECK(std::filesystem::file_size(path) < 20'000);
  NpzFile file = NpzFile::open(path, 1'000'000);
  Error error = error_of([&] { file.array("zeros"); });
  CHECK(error.code() == ErrorCode::out_of_memory);
  CHECK(std::string(error.what()) == "array 'zeros' of '" + path +
                                         "' would unpack to 10000128 bytes, more than the limit of "
                                         "1000000; if that is meant, give NpzFile::open a higher limit (the program: "
                                         "rlx --npz-limit BYTES)");
  CHECK(NpzFile::open(path).array("zeros").byte_count() == 10'000'000);
}

TEST_CASE("arrays that are within the limit one by one are refused if they are not together") {
  TemporaryFolder folder;
  NamedTensors arrays;
  for (int i = 0; i < 4; ++i) arrays.emplace(std::to_string(i), Tensor(u8, {500'000}));
  write_npz(folder / "x.npz", arrays, NpzCompression::deflated);
  NpzFile file = NpzFile::open(folder / "x.npz", 1'000'000);
  CHECK(file.array("3") == arrays.at("3"));
  CHECK(message_of([&] { file.arrays(); }) ==
        "the arrays of '" + folder / "x.npz" +
            "' would unpack to more bytes than the limit of 1000000; read them one by one, "
            "or give NpzFile::open a higher limit (the program: rlx --npz-limit BYTES)");
}

TEST_CASE("without a limit an archive unpacks to 32 times its bytes, or to a gibibyte") {
  TemporaryFolder folder;
  const int64_t bytes = (int64_t{1} << 30) + 1;
  write_npz(folder / "bomb.npz", {{"zeros", Tensor(u8, {bytes})}}, NpzCompression::deflated);
  const NpzFile file = NpzFile::open(folder / "bomb.npz");
  CHECK(error_of([&] { file.array("zeros"); }).code() == ErrorCode::out_of_memory);
  CHECK(file.type("zeros") == Type{u8, {bytes}});  // of which a few bytes are unpacked
}

TEST_CASE("a stored archive is never larger than its limit, whatever that is") {
  CHECK(NpzFile::open("tests/golden/io/stored.npz", 1).arrays().size() == 4);
}

TEST_CASE("sizes that no packing can give are refused before memory is taken") {
  std::string whole = file_content(kDeflated);
  CHECK(message_of([&] {
          read(with_directory_field(whole, 0, kSize, 0xfffffff0));
        }).find("array 'weight' (member 0 of the archive) claims to unpack from ") == 0);
  CHECK(message_of([&] {
          read(with_directory_field(whole, 0, kPackedSize, 0xfffffff0));
        }).find("claims 4294967280 packed bytes, but the whole file has 831") != std::string::npos);
  CHECK(message_of([&] {
          read(with_directory_field(whole, 1, kMethod, 14));
        }).starts_with("array 'mask' (member 1 of the archive) is packed by method 14; np.savez stores (0)"));
}

TEST_CASE("a size that is not that of the data is noticed") {
  std::string whole = file_content(kDeflated);
  for (uint32_t size : {100u, 175u, 177u, 200u}) {
    CAPTURE(size);
    CHECK_FALSE(message_of([&] { read(with_directory_field(whole, 0, kSize, size)).array("weight"); }).empty());
  }
}

TEST_CASE("damaged data are noticed by their checksum") {
  std::string whole = file_content("tests/golden/io/stored.npz");
  size_t at = whole.find("NUMPY") + 130;  // within the data of the first array
  whole[at] = static_cast<char>(whole[at] ^ 1);
  CHECK(message_of([&] { read(whole).array("weight"); }) ==
        "the data break off at byte 176 of 176: CRC error; the archive is damaged: copy it again\n"
        "  while unpacking 'weight' of 'x.npz'");
}

TEST_CASE("a member that is no array of ours names itself and the archive") {
  TemporaryFolder folder;
  std::string whole = file_content("tests/golden/io/stored.npz");
  CHECK(message_of([&] {
          read(whole).array("README.txt");
        }).starts_with("'x.npz' has no array 'README.txt' among its 4"));
  CHECK(message_of([&] {
          write_npz(folder / "x.npz", {{"w", Tensor(bf16, {2})}});
        }) ==
        "NumPy has no dtype bf16; convert the tensor (f32 holds every low-precision float), or write "
        "safetensors\n"
        "  while adding array 'w'\n  while writing the .npz file '" +
            folder / "x.npz" + "'");
  CHECK(folder.file_count() == 0);
}
