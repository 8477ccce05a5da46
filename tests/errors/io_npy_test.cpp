// What a damaged or foreign .npy file is answered with.
#include <doctest/doctest.h>

#include "rlx/io.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

std::string npy(const std::string& header, const std::string& data = "", char version = 1) {
  std::string out = std::string("\x93NUMPY") + version + '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += static_cast<char>(header.size() >> (8 * i));
  return out + header + data;
}
std::string refusal(const std::string& content) {
  std::string context = "\n  while reading the .npy file 'x.npy'";
  std::string text = message_of([&] { parse_npy(std::as_bytes(std::span(content)), nullptr, "x.npy"); });
  REQUIRE(text.ends_with(context));
  return text.substr(0, text.size() - context.size());
}
std::string refused_golden(const std::string& name) { return refusal(file_content("tests/golden/io/" + name)); }
std::string refused_shape(const std::string& shape, const std::string& data = "") {
  return refusal(npy("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}", data));
}

}  // namespace

TEST_CASE("a file that is no .npy file says so") {
  CHECK(refusal("hello, this is text") == "the file has 19 bytes and does not begin with \\x93NUMPY, as .npy files do");
  CHECK(refusal("") == "the file has 0 bytes and does not begin with \\x93NUMPY, as .npy files do");
  CHECK(refusal("\x93NUMPY\1") == "the file has 7 bytes and ends within the header");
  CHECK(refused_golden("stored.npz").ends_with("as .npy files do; it looks like a .npz archive"));
  CHECK(refusal(npy("{}", "", 9)) == "the file has version 9.0 of the .npy format; 1.0, 2.0 and 3.0 are known");
}

TEST_CASE("hostile .npy header lengths are refused") {
  CHECK(refusal(std::string("\x93NUMPY\1\0\xff\xff{}", 12)) ==
        "byte 8 tells of a header of 65535 bytes, but the file has 12 bytes in all; it is cut or damaged");
  CHECK(refusal(std::string("\x93NUMPY\2\0\xff\xff\xff\xff{}", 14)) ==
        "byte 8 tells of a header of 4294967295 bytes, but the file has 14 bytes in all; it is cut or damaged");
  CHECK(refusal(npy(std::string(70'000, ' '), "", 2)) ==
        "byte 8 tells of a header of 70000 bytes; no tensor needs more than 65536");
}

TEST_CASE("a .npy file cut at any byte is refused") {
  for (std::string name : {"f4.npy", "version2.npy", "big_c16.npy"}) {
    std::string whole = file_content("tests/golden/io/" + name);
    for (size_t size = 0; size < whole.size(); ++size) {
      CAPTURE(size);
      CHECK_FALSE(refusal(whole.substr(0, size)).empty());
    }
  }
}

TEST_CASE("data that are too short or too long for the header tell both sizes") {
  CHECK(refused_shape("(2,)", "123") ==
        "the header tells of f32[2], 8 bytes from byte 65 on, but the file has 3 there; it is cut: copy it "
        "again");
  CHECK(refused_shape("(2,)", "123456789") ==
        "the header tells of f32[2], 8 bytes from byte 65 on, but the file has 9 there; it is damaged, or "
        "holds more than one "
        "array");
}

TEST_CASE("hostile .npy shapes do not overflow") {
  CHECK(refused_shape("(4294967296, 4294967296, 4294967296)")
            .starts_with("damaged header: the shape is impossible: more elements than memory can ever hold"));
  CHECK(refused_shape("(99999999999999999999,)") ==
        "damaged header: expected an extent that memory can hold at byte 61 of the file, found '999999999999'");
  CHECK(refused_shape("(-1,)") ==
        "damaged header: expected an extent: 0, 1, 2 ... at byte 61 of the file, found '-1,)}'");
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  CHECK(refused_shape(many + ")") == "damaged header: the dictionary at byte 10 has a shape of more than 64 dims");
}

TEST_CASE("a header that is no dictionary of NumPy's tells where it departs") {
  CHECK(refused_shape("3").starts_with("damaged header: expected '(' at byte 60 of the file, found '3}'"));
  CHECK(refused_shape("(3)") ==
        "damaged header: expected ',' before the ')' of a tuple of one number at byte 63 of the file, found "
        "'}'");
  CHECK(refused_shape("(3 4)") == "damaged header: expected ',' or ')' at byte 63 of the file, found '4)}'");
  CHECK(refused_shape("(__import__('os').system('true'),)")
            .starts_with("damaged header: expected an extent: 0, 1, 2 ... at byte 61"));
  CHECK(refused_shape("()} # more").starts_with("damaged header: expected nothing but spaces at byte 64"));
  CHECK(refusal(npy("{'descr': '<f4', 'shape': ()}")) ==
        "damaged header: the dictionary at byte 10 has no 'fortran_order', which every header has");
  CHECK(refusal(npy("{'descr': '<f4', 'descr': '<f4'}")) ==
        "damaged header: the dictionary at byte 10 has 'descr' twice");
  CHECK(refusal(npy("{'x': 1}")) ==
        "damaged header: the dictionary at byte 10 has the unknown key 'x'; there are 'descr', "
        "'fortran_order' and 'shape'");
  CHECK(refusal(npy("{'fortran_order': 1}")) ==
        "damaged header: expected True or False at byte 28 of the file, found '1}'");
  CHECK(refusal(npy("{'descr': '\\x3cf4'}"))
            .starts_with("damaged header: expected the end of a string without escapes at byte 21"));
  CHECK(refusal(npy("{'descr': '<f")) ==
        "damaged header: expected the end of a string without escapes at byte 23 of the file, found 'its end'");
}

TEST_CASE("arrays that are no tensors say why, and what to save instead") {
  CHECK(refused_golden("structured.npy") ==
        "the array is structured (its dtype has named fields), which is no tensor; save its fields as arrays "
        "of their own: "
        "np.savez(path, **{f: a[f] for f in a.dtype.names})");
  CHECK(refused_golden("object.npy") ==
        "the array has dtype '|O' (Python objects), which only Python can read; save numbers: "
        "np.save(path, a.astype('float32'))");
  CHECK(refused_golden("text.npy") == "the array has dtype '<U2' (text), which is no tensor; save numbers");
  CHECK(refused_golden("date.npy") ==
        "the array has dtype '<M8[D]' (dates or times); save it as integers: a.astype('int64')");
  CHECK(refusal(npy("{'descr': '<V2', 'fortran_order': False, 'shape': ()}")) ==
        "the array has dtype '<V2' (raw bytes, as which NumPy saves bfloat16 and the 8-bit floats); which "
        "type they were is "
        "lost: use safetensors, or save a.astype('float32')");
  CHECK(refusal(npy("{'descr': '<f16', 'fortran_order': False, 'shape': ()}")) ==
        "the array has dtype '<f16'; save it as one of NumPy's bool, int, uint, float or complex types: "
        "a.astype('float32')");
}

TEST_CASE("a bool that is neither 0 nor 1 is refused with its place") {
  CHECK(refusal(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", "\1\7")) ==
        "byte 66 is 7 in an array of bool, which holds 0 and 1; the file is damaged, or the array is uint8");
}

TEST_CASE("a dtype that NumPy does not have is refused before anything is written") {
  TemporaryFolder folder;
  CHECK(message_of([&] { write_npy(folder / "x.npy", Tensor(bf16, {2})); }) ==
        "NumPy has no dtype bf16; convert the tensor (f32 holds every low-precision float), or write "
        "safetensors\n"
        "  while writing the .npy file '" +
            folder / "x.npy" + "'");
  CHECK(folder.file_count() == 0);
}
