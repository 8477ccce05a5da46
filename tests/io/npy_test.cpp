// .npy files: what NumPy writes is read, and what is written is what NumPy writes.
#include <doctest/doctest.h>

#include "io/file_stamp.h"
#include "rlx/io.h"
#include "support/golden_arrays.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {
const std::string kGolden = "tests/golden/io/";
}

TEST_CASE("arrays of every dtype, byte order, memory order and version are read as NumPy sees them") {
  auto expected = expected_arrays().at("npy");
  CHECK(expected.size() == 30);
  for (const auto& item : expected.items()) {
    const std::string& name = item.key();
    CAPTURE(name);
    CHECK(read_npy(kGolden + name + ".npy") == described(item.value()));
  }
}

TEST_CASE("a written .npy file equals NumPy's byte for byte") {
  TemporaryFolder folder;
  for (std::string name : {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16",
                           "scalar", "vector", "empty", "deep"}) {
    CAPTURE(name);
    write_npy(folder / "x.npy", read_npy(kGolden + name + ".npy"));
    CHECK(file_content(folder / "x.npy") == file_content(kGolden + name + ".npy"));
  }
}

TEST_CASE("arrays in another order than ours are written in ours") {
  TemporaryFolder folder;
  for (std::string name : {"fortran", "fortran_big", "big_c8", "version3"}) {
    CAPTURE(name);
    Tensor t = read_npy(kGolden + name + ".npy");
    write_npy(folder / "x.npy", t);
    CHECK(read_npy(folder / "x.npy") == t);
  }
}

TEST_CASE("an array in our own order is borrowed from what was read of the file") {
  Tensor t = read_npy(kGolden + "f4.npy");
  CHECK(file_origin(t.bytes())->path == kGolden + "f4.npy");
  CHECK(t == described(expected_arrays().at("npy").at("f4")));
}

TEST_CASE("an array that stands unaligned in memory is copied to where its elements can be read") {
  std::string content = "x" + file_content(kGolden + "f8.npy");
  Tensor t = parse_npy(std::as_bytes(std::span(content)).subspan(1));
  CHECK(reinterpret_cast<uintptr_t>(t.data()) % alignof(double) == 0);
  CHECK(t == described(expected_arrays().at("npy").at("f8")));
}

TEST_CASE("a header may be spelt in any way that is the same Python") {
  auto file = [](std::string header) {
    return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + '\0' + header + std::string(8, '\1');
  };
  for (std::string header : {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
                             "{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"<f4\"}   \n",
                             " { 'shape' : ( 2L , ) , 'descr' : '=f4' , 'fortran_order' : True , } \n"}) {
    CAPTURE(header);
    std::string content = file(header);
    CHECK(parse_npy(std::as_bytes(std::span(content))).type() == Type{f32, {2}});
  }
}
