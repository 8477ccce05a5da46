// What a damaged, foreign or hostile safetensors file is answered with, and a wrong request to a good one.
#include <doctest/doctest.h>

#include "rlx/io.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

std::string with_length(uint64_t length, const std::string& rest) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(length >> (8 * i));
  return out + rest;
}
/// A file of that header and of `data` bytes behind it.
std::string file_of(const std::string& header, size_t data = 0) {
  return with_length(header.size(), header + std::string(data, '\1'));
}
std::string refusal(const std::string& content) {
  Error error = error_of([&] { SafetensorsFile::read(std::as_bytes(std::span(content)), nullptr, "m.safetensors"); });
  CHECK(error.code() == ErrorCode::parse);
  std::string context = "\n  while reading the safetensors file 'm.safetensors'", text = error.what();
  REQUIRE(text.ends_with(context));
  return text.substr(0, text.size() - context.size());
}
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}
std::string refused_entry(const std::string& dtype, const std::string& shape, const std::string& offsets, size_t data) {
  return refusal(file_of(R"({"w":)" + entry(dtype, shape, offsets) + "}", data));
}

constexpr const char* kDtypes =
    "BOOL, F4, F6_E2M3, F6_E3M2, U8, I8, F8_E5M2, F8_E4M3, F8_E8M0, F8_E4M3FNUZ, F8_E5M2FNUZ, "
    "I16, U16, F16, BF16, I32, U32, F32, C64, F64, I64, U64";

}  // namespace

TEST_CASE("a file too short for a header length says so") {
  CHECK(refusal("1234567") ==
        "the file has 7 bytes; a safetensors file begins with 8 that tell the length of its header; "
        "the file is cut, or is no safetensors file");
}

TEST_CASE("a header longer than the file or than any header is refused before memory is taken for it") {
  CHECK(refusal(with_length(100, "{}")) ==
        "bytes 0 to 8 tell of a header of 100 bytes, but the file has 2 bytes after them, and a header at "
        "most 100000000; "
        "the file is cut or damaged, or is no safetensors file; download or copy it again");
  CHECK(refusal(with_length(UINT64_MAX, "{}"))
            .starts_with("bytes 0 to 8 tell of a header of 18446744073709551615 bytes"));
  CHECK(refusal(with_length(100'000'001, std::string(100'000'001, ' '))).find("a header at most 100000000") !=
        std::string::npos);
}

TEST_CASE("a file of another kind is recognized") {
  auto advice = [](const std::string& content) {
    std::string text = refusal(content);
    return text.substr(text.find("100000000; ") + 11);
  };
  CHECK(advice("version https://git-lfs.github.com/spec/v1\noid sha256:00\n") ==
        "it is a Git LFS pointer, not the file itself; run `git lfs pull`, or download it again");
  CHECK(advice(std::string("PK\3\4\x14\0\0\0\x08\0", 10)) ==
        "it looks like a zip archive, maybe a PyTorch checkpoint or .npz; convert it first");
  CHECK(advice(std::string("GGUF\3\0\0\0", 8)) == "it looks like a GGUF file");
  CHECK(advice("<!DOCTYPE html>") == "it looks like a web page; download the file itself");
}

TEST_CASE("JSON that breaks off or is none tells where") {
  CHECK(refusal(file_of("{\"w\":{\"dtype\":")) ==
        "damaged header: its JSON breaks off at byte 22 of the file, at '\"dtype\":'; download or copy the "
        "file again");
  CHECK(refusal(file_of("{\"w\" 5}")).starts_with("damaged header: its JSON breaks off at byte 13 of the file"));
  CHECK(refusal(file_of("{\"\xff\":1}"))
            .starts_with("damaged header: its JSON breaks off at byte 10 of the file, at '\"?'"));
  CHECK(refusal(file_of("{} {}")).starts_with("damaged header: its JSON breaks off at byte 11"));
  CHECK(refusal(file_of("[]")) ==
        "damaged header: byte 8 of the file is not the '{' with which a safetensors header begins");
}

TEST_CASE("JSON that is no header tells what stands where it should not") {
  CHECK(refusal(file_of(R"({"w":5})")) == "damaged header: under 'w' stands the number 5 instead of an object");
  CHECK(refusal(file_of(R"({"w":[]})")) == "damaged header: under 'w' stands an array instead of an object");
  CHECK(refusal(file_of(R"({"w":null})")) == "damaged header: under 'w' stands null instead of an object");
  CHECK(refusal(file_of(R"({"w":{}})")) == "damaged header: tensor 'w' has no dtype");
  CHECK(refusal(file_of(R"({"w":{"dtype":"U8","shape":[]}})")) == "damaged header: tensor 'w' has no data_offsets");
  CHECK(refusal(file_of(R"({"w":{"dtype":"U8","dtype":"U8"}})")) == "damaged header: tensor 'w' has its dtype twice");
  CHECK(refusal(file_of(R"({"w":{"dtype":7}})")) == "damaged header: tensor 'w' has the number 7 for its dtype");
  CHECK(refusal(file_of(R"({"w":{"shape":{}}})")) == "damaged header: tensor 'w' has an object for its shape");
  CHECK(refusal(file_of(R"({"w":{"shape":[[]]}})")) ==
        "damaged header: tensor 'w' has an array in its shape, where extents stand: 0, 1, 2 ...");
  CHECK(refusal(file_of(R"({"w":{"shape":[-1]}})")) ==
        "damaged header: tensor 'w' has the negative number -1 in its shape, where extents stand: 0, 1, 2 ...");
  CHECK(refusal(file_of(R"({"w":{"data_offsets":["0"]}})")) ==
        "damaged header: tensor 'w' has the string '0' in its data_offsets, where two byte offsets stand");
  CHECK(refused_entry("U8", "[1]", "[0]", 1) ==
        "damaged header: tensor 'w' needs two data_offsets, where its data begin and end; it has 1");
  CHECK(refused_entry("U8", "[1]", "[0,1,2]", 1) ==
        "damaged header: tensor 'w' has more than two data_offsets; they are where its data begin and end");
  CHECK(refusal(file_of(R"({"__metadata__":{"k":1}})")) ==
        "damaged header: in __metadata__, 'k' is the number 1; the format allows strings only");
  CHECK(refusal(file_of(R"({"__metadata__":{"k":"1","k":"2"}})")) == "damaged header: __metadata__ has 'k' twice");
  CHECK(refusal(file_of(R"({"__metadata__":{},"__metadata__":{}})")) == "damaged header: it has __metadata__ twice");
}

TEST_CASE("JSON nested without end is refused at a stated depth") {
  std::string deep(100'000, '[');
  CHECK(refusal(file_of(R"({"w":{"x":)" + deep)) == "damaged header: tensor 'w' has 'x' nested deeper than 16 levels");
  CHECK(refusal(file_of(R"({"w":)" + deep)) == "damaged header: under 'w' stands an array instead of an object");
}

TEST_CASE("a dtype that is unknown is named together with those that are known") {
  CHECK(refused_entry("Q4", "[1]", "[0,1]", 1) ==
        std::string("damaged header: tensor 'w' has the unknown dtype 'Q4'; there are ") + kDtypes);
}

TEST_CASE("hostile shapes do not overflow") {
  CHECK(
      refused_entry("F32", "[4294967296,4294967296]", "[0,0]", 0)
          .starts_with("damaged header: tensor 'w' has an impossible shape: more elements than memory can ever hold"));
  CHECK(refused_entry("U8", "[18446744073709551615]", "[0,1]", 1) ==
        "damaged header: tensor 'w' has an extent of 18446744073709551615 in its shape; no memory can hold "
        "that");
  CHECK(refused_entry("U8", "[1e400]", "[0,1]", 1).starts_with("damaged header: its JSON breaks off"));
  CHECK(refused_entry("U8", "[99999999999999999999]", "[0,1]", 1) ==
        "damaged header: tensor 'w' has the number '99999999999999999999', which is not whole or does not "
        "fit 64 bits in "
        "its shape, where extents stand: 0, 1, 2 ...");
  std::string dims = "[1";
  for (int i = 0; i < 64; ++i) dims += ",1";
  CHECK(refused_entry("U8", dims + "]", "[0,1]", 1) == "damaged header: tensor 'w' has more than 64 dims");
  CHECK(refused_entry("F4", "[3]", "[0,1]", 1) ==
        "damaged header: tensor 'w' has an impossible shape: 3 elements of 4 bits "
        "do not fill whole bytes");
}

TEST_CASE("offsets that do not fit the type, the neighbours or the file are refused") {
  CHECK(refused_entry("F32", "[2]", "[0,4]", 4) ==
        "damaged header: tensor 'w' has data_offsets [0, 4], 4 bytes; its type f32[2] takes 8");
  CHECK(refused_entry("F32", "[2]", "[8,0]", 8) ==
        "damaged header: tensor 'w' has data_offsets [8, 0], which end before they begin");
  CHECK(refused_entry("U8", "[2]", "[2,4]", 4) ==
        "damaged header: tensor 'w' has data_offsets [2, 4], but the data before it end at 0; there must be "
        "no gap");
  CHECK(refused_entry("U8", "[1]", "[18446744073709551614,18446744073709551615]", 1).find("there must be no gap") !=
        std::string::npos);
  std::string two = R"({"a":)" + entry("U8", "[4]", "[0,4]") + R"(,"b":)" + entry("U8", "[3]", "[3,6]") + "}";
  CHECK(refusal(file_of(two, 6)) ==
        "damaged header: tensor 'b' has data_offsets [3, 6], but 'a' before it ends at 4; tensors must not "
        "overlap");
  CHECK(refusal(file_of(R"({"a":)" + entry("U8", "[1]", "[0,1]") + "}", 3)) ==
        "the file has 64 bytes, but its tensors end at byte 62; the bytes behind belong to no tensor: the "
        "file or its header "
        "is damaged");
}

TEST_CASE("two tensors of one name are refused") {
  CHECK(refusal(file_of(R"({"a":)" + entry("U8", "[1]", "[0,1]") + R"(,"a":)" + entry("U8", "[1]", "[1,2]") + "}",
                        2)) == "damaged header: it has tensor 'a' twice");
}

TEST_CASE("a cut file names the first tensor that is not whole") {
  std::string header = R"({"a":)" + entry("F32", "[2]", "[0,8]") + R"(,"b":)" + entry("F32", "[4]", "[8,24]") + "}";
  size_t data = 8 + header.size();
  CHECK(refusal(file_of(header, 20)) == text_of("the file is cut: it has ", data + 20,
                                                " bytes, but tensor 'b' (f32[4], bytes ", data + 8, " to ", data + 24,
                                                " of the file) is not whole; download or copy it again"));
}

TEST_CASE("a file cut at any byte is refused") {
  std::string whole = file_content("tests/golden/io/all_dtypes.safetensors");
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    CHECK_FALSE(refusal(whole.substr(0, size)).empty());
  }
}

TEST_CASE("a bool that is neither 0 nor 1 is refused when its tensor is asked for") {
  std::string content = file_of(R"({"mask":)" + entry("BOOL", "[3]", "[0,3]") + "}", 3);
  content.back() = 2;
  auto file = SafetensorsFile::read(std::as_bytes(std::span(content)), nullptr, "m.safetensors");
  size_t at = content.size() - 1;
  CHECK(message_of([&] { file.tensor("mask"); }) ==
        text_of("byte ", at, " of 'm.safetensors' is 2 in tensor 'mask' (bool[3], bytes ", at - 2, " to ", at + 1,
                " of the file); a bool is 0 or 1; the file is damaged, or the tensor is u8"));
}

TEST_CASE("a missing tensor suggests the nearest names") {
  auto file = SafetensorsFile::open("tests/golden/io/all_dtypes.safetensors");
  Error error = error_of([&] { file.tensor("matrx.f32"); });
  CHECK(error.code() == ErrorCode::not_found);
  CHECK(std::string(error.what()) ==
        "'tests/golden/io/all_dtypes.safetensors' has no tensor 'matrx.f32' among its 59; the nearest are "
        "'matrix.f32', "
        "'matrix.i32' and 'matrix.u32'");
  CHECK(message_of([] { SafetensorsFile::open("tests/golden/io/nothing.safetensors").tensor("x"); }) ==
        "'tests/golden/io/nothing.safetensors' has no tensor 'x' among its 0; there are none");
}

TEST_CASE("a tensor of another dtype or shape than needed tells both") {
  auto file = SafetensorsFile::open("tests/golden/io/all_dtypes.safetensors");
  std::string expected = "tensor 'matrix.f16' of 'tests/golden/io/all_dtypes.safetensors' is f16[3, 2], but ";
  CHECK(message_of([&] {
          file.tensor("matrix.f16", f32, {3, 2});
        }) == expected + "f32[3, 2] is needed; is this the file of another model or version?");
  CHECK(message_of([&] {
          file.tensor("matrix.f16", f16, {2, 3});
        }) == expected + "f16[2, 3] is needed; is this the file of another model or version?");
}

TEST_CASE("tensors that safetensors cannot hold are refused before anything is written") {
  TemporaryFolder folder;
  std::string path = folder / "x.safetensors", context = "\n  while writing the safetensors file '" + path + "'";
  auto refusal_of = [&](NamedTensors tensors) { return message_of([&] { write_safetensors(path, tensors); }); };
  CHECK(refusal_of({{"w", Tensor(c128, {2})}}) ==
        "tensor 'w' is c128[2], and safetensors has no dtype c128; convert it first" + context);
  CHECK(refusal_of({{"w", Tensor(f4e2m1fn, {3})}}) ==
        "tensor 'w' is f4e2m1fn[3], which does not fill whole bytes, as safetensors demands; pad it first" + context);
  CHECK(refusal_of({{"__metadata__", Tensor(u8, {3})}}) ==
        "a tensor cannot be called '__metadata__'; the format keeps that name" + context);
  CHECK(refusal_of({{"a\xff", Tensor(u8, {3})}}).find("is not UTF-8, which safetensors demands") != std::string::npos);
  CHECK(folder.file_count() == 0);
}
