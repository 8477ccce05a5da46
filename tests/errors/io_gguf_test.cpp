// What a damaged, foreign or hostile GGUF file is answered with, and a wrong request to a good one.
#include <doctest/doctest.h>

#include <cstring>

#include "rlx/gguf.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

/// The bytes of a file, number by number, as version 3 has them.
struct Bytes {
  std::string text = "GGUF";
  template <class T>
  Bytes& number(T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    text.append(bytes, sizeof value);
    return *this;
  }
  Bytes& string(const std::string& value) {
    number<uint64_t>(value.size());
    text += value;
    return *this;
  }
};
Bytes start(uint64_t tensors, uint64_t values) {
  Bytes b;
  return b.number<uint32_t>(3).number(tensors).number(values);
}
Bytes& tensor(Bytes& b, const std::string& name, std::vector<uint64_t> extents, uint32_t kind, uint64_t offset) {
  b.string(name).number(static_cast<uint32_t>(extents.size()));
  for (uint64_t extent : extents) b.number(extent);
  return b.number(kind).number(offset);
}
std::string with_data(Bytes b, size_t bytes) {
  b.text.resize((b.text.size() + 31) / 32 * 32 + bytes);
  return b.text;
}

std::string refusal(const std::string& content, ErrorCode code = ErrorCode::parse) {
  Error error = error_of([&] { GgufFile::read(std::as_bytes(std::span(content)), nullptr, "m.gguf"); });
  CHECK(error.code() == code);
  std::string text = error.what();
  CHECK(text.find("'m.gguf'") != std::string::npos);
  return text.substr(0, text.find('\n'));
}
std::string refused_tensor(std::vector<uint64_t> extents, uint32_t kind, uint64_t offset = 0, size_t data = 64,
                           ErrorCode code = ErrorCode::parse) {
  Bytes b = start(1, 0);
  return refusal(with_data(tensor(b, "w", std::move(extents), kind, offset), data), code);
}

constexpr const char* kDamaged = "the file is cut or damaged; download or copy it again";

}  // namespace

TEST_CASE("what is no GGUF file is recognized") {
  CHECK(refusal("") ==
        "it does not begin with 'GGUF'; the file is damaged, or is no GGUF file; download or copy it again");
  CHECK(refusal("version https://git-lfs.github.com/spec/v1\n").ends_with("run `git lfs pull`, or download it again"));
  CHECK(refusal("tjgg1234").ends_with("it is a model of ggml from before GGUF; convert it anew with llama.cpp"));
  CHECK(refusal("GGUF") == std::string("the file ends at byte 4, within the version at byte 4; ") + kDamaged);
  CHECK(refusal(Bytes().number<uint32_t>(4).text, ErrorCode::unsupported) ==
        "it is of version 4 of the format; 1 to 3 are read");
  CHECK(refusal(Bytes().number<uint32_t>(0).text, ErrorCode::unsupported).starts_with("it is of version 0"));
}

TEST_CASE("counts and lengths that the file has no room for are refused before memory is taken") {
  const uint64_t huge = uint64_t{1} << 60;
  CHECK(refusal(start(huge, 0).text) ==
        text_of("byte 8 tells of ", huge, " tensors, for which the 8 bytes that follow have no room; ", kDamaged));
  CHECK(refusal(start(0, huge).text).starts_with(text_of("byte 16 tells of ", huge, " values of metadata")));
  CHECK(refusal(start(0, UINT64_MAX).number<uint64_t>(0).text).find("values of metadata") != std::string::npos);
  // A key, a string and a name of 4 GiB; an array of 2^60 items of each size.
  CHECK(refusal(start(0, 1).number(uint64_t{1} << 32).number<uint64_t>(0).text).find("4294967296 bytes of a key") !=
        std::string::npos);
  CHECK(refusal(start(0, 1).string("k").number<uint32_t>(8).number(uint64_t{1} << 32).text)
            .find("4294967296 bytes of a string") != std::string::npos);
  for (uint32_t type = 0; type < 13; ++type) {
    CAPTURE(type);
    const auto text = refusal(start(0, 1).string("k").number<uint32_t>(9).number(type).number(huge).number(huge).text);
    CHECK(text.find(text_of(huge, " items of an array")) != std::string::npos);
  }
  CHECK(refused_tensor({huge, huge, huge}, 0).find("has an impossible shape") != std::string::npos);
  CHECK(refused_tensor({UINT64_MAX}, 0).find("has an extent of 18446744073709551615") != std::string::npos);
  CHECK(refused_tensor({huge >> 10}, 24)
            .starts_with("the file is cut: it has 128 bytes, of which data begin at byte 64"));
}

TEST_CASE("values of unknown types, bools of 2, deep arrays and keys that are there twice are refused") {
  CHECK(refusal(start(0, 1).string("k").number<uint32_t>(13).number<uint64_t>(0).text) ==
        text_of("byte 33 is the type 13 of a value; there are 0 to 12; ", kDamaged));
  CHECK(refusal(start(0, 1).string("k").number<uint32_t>(7).number<uint8_t>(2).text) ==
        "byte 37 is 2, where a bool is 0 or 1");
  Bytes deep = start(0, 1).string("k").number<uint32_t>(9);
  for (int i = 0; i < 10'000; ++i) deep.number<uint32_t>(9).number<uint64_t>(1);
  CHECK(refusal(deep.text) == "byte 133 begins an array deeper than 8 levels");
  Bytes twice = start(0, 2);
  for (int i = 0; i < 2; ++i) twice.string("k").number<uint32_t>(4).number<uint32_t>(1);
  CHECK(refusal(twice.text) == "it has the key 'k' twice");
}

TEST_CASE("an alignment that is no power of two is refused") {
  for (uint32_t alignment : {0u, 3u, 48u, 1u << 31})
    CHECK(refusal(start(0, 1).string("general.alignment").number<uint32_t>(4).number(alignment).text) ==
          text_of("'general.alignment' is ", alignment, ", and has to be a power of two up to 2^30"));
  CHECK(refusal(start(0, 1).string("general.alignment").number<uint32_t>(8).string("32").text) ==
        "'general.alignment' is string '32', and has to be an integer that is not negative");
}

TEST_CASE("a tensor of an unknown kind, of too many dims or of broken blocks is refused by its name") {
  CHECK(refused_tensor({4}, 99, 0, 64, ErrorCode::unsupported)
            .starts_with("tensor 'w' is of the unknown kind 99; there are F32, F16, Q4_0,"));
  CHECK(refused_tensor({4}, 4, 0, 64, ErrorCode::unsupported) ==
        "tensor 'w' is of kind Q4_2, which ggml gave up in 2023; convert the model anew");
  CHECK(refused_tensor({32}, 9, 0, 64, ErrorCode::unsupported).starts_with("tensor 'w' is of kind Q8_1, which ggml"));
  CHECK(refused_tensor({1, 1, 1, 1, 1}, 0) == "tensor 'w' has 5 dims; the format allows 4");
  CHECK(refused_tensor({33}, 2) ==
        "tensor 'w' has an impossible shape: q4_0 holds blocks of 32 along the last dim, which is 33");
  CHECK(refused_tensor({16}, 40) == "tensor 'w' has rows of 16 elements, where NVFP4 has groups of 64");
}

TEST_CASE("tensors that are unaligned, outside of the file, over each other or there twice are refused") {
  CHECK(refused_tensor({4}, 0, 8) == "tensor 'w' has the offset 8, which is no multiple of the file's alignment, 32");
  CHECK(refused_tensor({4}, 0, 64) ==
        "the file is cut: it has 128 bytes, of which data begin at byte 64, and tensor 'w' has 16 of them from offset "
        "64 on; download or copy it again");
  CHECK(refused_tensor({4}, 0, UINT64_MAX - 31).starts_with("the file is cut"));
  CHECK(refused_tensor({17}, 0).starts_with("the file is cut"));
  Bytes b = start(2, 0);
  tensor(b, "a", {16}, 0, 0);
  tensor(b, "b", {4}, 0, 32);
  CHECK(refusal(with_data(b, 64)) ==
        "the data of tensor 'a' (F32 f32[16], bytes 96 to 160 of the file) and of tensor 'b' (F32 f32[4], bytes 128 to "
        "144 of the file) overlap; the file is damaged");
  Bytes same = start(2, 0);
  tensor(same, "a", {1}, 0, 0);
  tensor(same, "a", {1}, 0, 32);
  CHECK(refusal(with_data(same, 64)) == "'m.gguf' has tensor 'a' twice; the file is damaged");
}

TEST_CASE("many tensors in one small file take little time, and none may hide in another") {
  // 100,000 tensors without an element, all at one place, are allowed; with elements they overlap.
  Bytes empty = start(100'000, 0);
  for (int i = 0; i < 100'000; ++i) tensor(empty, std::to_string(i), {0}, 0, 0);
  const std::string file = with_data(empty, 0);
  CHECK(GgufFile::read(std::as_bytes(std::span(file))).entries().size() == 100'000);
}

TEST_CASE("parts that are missing, renamed or of another file are named") {
  TemporaryFolder folder;
  const std::string golden = "tests/golden/gguf/parts-0000";
  for (const char* i : {"1", "2"})
    put_file(folder / ("x-0000" + std::string(i) + "-of-00003.gguf"), file_content(golden + i + "-of-00003.gguf"));
  Error missing = error_of([&] { GgufFile::open(folder / "x-00001-of-00003.gguf"); });
  CHECK(missing.code() == ErrorCode::not_found);
  CHECK(std::string(missing.what()).find("x-00003-of-00003.gguf") != std::string::npos);
  put_file(folder / "x-00003-of-00003.gguf", file_content(golden + "2-of-00003.gguf"));
  Error other = error_of([&] { GgufFile::open(folder / "x-00001-of-00003.gguf"); });
  CHECK(std::string(other.what()).find("says that it is part 2 of 3") != std::string::npos);
  put_file(folder / "renamed.gguf", file_content(golden + "1-of-00003.gguf"));
  Error renamed = error_of([&] { GgufFile::open(folder / "renamed.gguf"); });
  CHECK(std::string(renamed.what()).find("is not called as such a part is, X-00001-of-00003.gguf") !=
        std::string::npos);
}

TEST_CASE("a wrong request to a good GGUF file says what there is") {
  const auto file = GgufFile::open("tests/golden/gguf/every_kind.gguf");
  Error error = error_of([&] { file.tensor("blocks.q4_x"); });
  CHECK(error.code() == ErrorCode::not_found);
  CHECK(std::string(error.what()).find("has no tensor 'blocks.q4_x' among its 36; the nearest are") !=
        std::string::npos);
  CHECK(error_of([&] { file.tensor("plain.F32", f16, {3, 5}); }).code() == ErrorCode::shape_mismatch);
  CHECK(file.value("missing") == nullptr);
}

TEST_CASE("what GGUF cannot hold is refused before a file is made") {
  TemporaryFolder folder;
  auto refused = [&](std::vector<std::pair<std::string, Tensor>> tensors, const GgufMetadata& metadata = {},
                     const GgufWriteOptions& options = {}) {
    Error error = error_of([&] { write_gguf(folder / "x.gguf", tensors, metadata, options); });
    CHECK(folder.file_count() == 0);
    return std::string(error.what());
  };
  const Tensor x(f32, {2});
  CHECK(refused({{"x", Tensor(c64, {2})}}).find("GGUF has no kind for c64") != std::string::npos);
  CHECK(refused({{"x", Tensor(u8, {2})}}).find("GGUF has no kind for u8") != std::string::npos);
  CHECK(refused({{"x", Tensor(f32, {1, 1, 1, 1, 1})}}).find("has 5 dims, and GGUF has at most 4") != std::string::npos);
  CHECK(refused({{"x", Tensor(nvfp4, {16})}}).find("whole groups of 64") != std::string::npos);
  CHECK(refused({{std::string(64, 'n'), x}}).find("has 64 bytes") != std::string::npos);
  CHECK(refused({{"x", x}, {"x", x}}).find("two tensors called 'x'") != std::string::npos);
  CHECK(refused({}, {{"k", true}, {"k", false}}).find("two keys of metadata called 'k'") != std::string::npos);
  CHECK(refused({}, {{"split.no", uint16_t{0}}}).find("'split.no'") != std::string::npos);
  CHECK(refused({}, {{"general.alignment", uint64_t{32}}}).find("has to be a u32") != std::string::npos);
  CHECK(refused({}, {{"general.alignment", uint32_t{1} << 17}}).find("padded to it") != std::string::npos);
  const std::string aligned = refused({}, {{"general.alignment", uint32_t{1} << 30}});
  CHECK(
      aligned.starts_with("'general.alignment' is u32 1073741824, and has to be a u32 that is a power of two up to "
                          "65536, as each tensor is padded to it; without the key it is 32\n"));
  CHECK(refused({}, {}, {.version = 4}).find("and not 4") != std::string::npos);
  CHECK(refused({}, {}, {.version = 2, .byte_order = std::endian::big}).find("of version 3") != std::string::npos);
}

TEST_CASE("a GGUF file of a larger alignment than is written is read") {
  const uint32_t large = 1 << 17;
  Bytes b = tensor(start(1, 1).string("general.alignment").number<uint32_t>(4).number(large), "w", {2}, 0, 0);
  b.text.resize(large + 8);
  const auto file = GgufFile::read(std::as_bytes(std::span(b.text)));
  CHECK(file.alignment() == large);
  CHECK(file.find("w")->offset == large);
  TemporaryFolder folder;
  write_gguf(folder / "x.gguf", {{"w", file.tensor("w")}}, {{"general.alignment", uint32_t{1} << 16}});
  CHECK(file_content(folder / "x.gguf").size() == 2 << 16);
}

TEST_CASE("JSON of metadata that nests 100,000 levels deep is refused where it is deeper than its type") {
  const auto nested = [](const char* begin, const char* open, const char* close) {
    std::string text = begin;
    for (int i = 0; i < 100'000; ++i) text += open;
    text += '1';
    for (int i = 0; i < 100'000; ++i) text += close;
    return text;
  };
  const auto refused = [](const std::string& text) {
    Error error = error_of([&] { parse_gguf_json(text); });
    CHECK(error.code() == ErrorCode::invalid_argument);
    const std::string message = error.what();
    return message.substr(0, message.find('\n'));
  };
  CHECK(refused(nested("", "[", "]")) == "metadata are a JSON object, {key: [type, value]}, and not an array");
  CHECK(refused(nested("", "{\"a\":", "}")) == "a value is [type, value], and not an object");
  CHECK(refused(nested("{\"a\": ", "[", "]") + "}") ==
        "a value is [type, value], where the type is a string, and not an array");
  CHECK(refused(nested("{\"a\": [\"u8\", ", "[", "]") + "]}") == "an array is no u8");
  CHECK(refused(nested("{\"a\": [\"array array u8\", ", "[", "]") + "]}") == "an array is no u8");
  std::string begin = "{\"a\": [\"";
  for (int i = 0; i < 100'000; ++i) begin += "array ";
  const std::string long_type = refused(nested((begin + "u8\", ").c_str(), "[", "]") + "]}");
  CHECK(long_type.starts_with("arrays are nested at most 8 levels deep, and 'array array "));
  CHECK(long_type.ends_with("...' has 100000"));
}

TEST_CASE("arrays of metadata nested deeper than a file may have them are not told as JSON either") {
  GgufArray deep{std::vector<uint8_t>{1}};
  for (int i = 1; i < 8; ++i) deep = GgufArray{std::vector<GgufArray>{deep}};
  CHECK(gguf_json(GgufValue(deep)) == "[[[[[[[[1]]]]]]]]");
  const GgufMetadata metadata = {{"deep", deep}};
  CHECK(parse_gguf_json(gguf_json(metadata)) == metadata);
  deep = GgufArray{std::vector<GgufArray>{deep}};
  const GgufMetadata deeper = {{"deep", deep}};
  const std::string message = "arrays of metadata are nested deeper than 8 levels";
  CHECK(error_of([&] { gguf_json(GgufValue(deep)); }).what() == message);
  CHECK(error_of([&] { gguf_json(deeper); }).what() == message);
}

TEST_CASE("a key that JSON of metadata has twice is refused by its name") {
  CHECK(std::string(error_of([] { parse_gguf_json(R"({"a": ["u8", 1], "b": ["u8", 2], "a": ["u8", 3]})"); }).what())
            .starts_with("there are two keys of metadata called 'a'"));
}

TEST_CASE("messages about values and names of a megabyte are short and printable") {
  TemporaryFolder folder;
  const std::string large(1'000'000, '\x1b');
  const GgufArray all{std::vector<uint8_t>(1'000'000)};
  const auto check_short = [](auto f) {
    const std::string text = error_of(f).what();
    INFO(text.substr(0, 1000));
    CHECK(text.size() < 1000);
    CHECK(text.find('\x1b') == std::string::npos);
  };
  const auto read = [](const Bytes& b) {
    return [content = b.text] { GgufFile::read(std::as_bytes(std::span(content))); };
  };
  check_short(read(start(0, 1).string("general.alignment").number<uint32_t>(8).string(large)));
  Bytes array = start(0, 1).string("split.no").number<uint32_t>(9).number<uint32_t>(0).number<uint64_t>(large.size());
  array.text += large;
  check_short(read(array));
  check_short(read(start(0, 1).string(large).number<uint32_t>(99)));
  Bytes named = start(1, 0);
  check_short(read(tensor(named, large, {4}, 99, 0)));
  for (const GgufValue& value : {GgufValue(large), GgufValue(all)})
    check_short([&] { write_gguf(folder / "x.gguf", {}, {{"general.alignment", value}}); });
  check_short([&] { write_gguf(folder / "x.gguf", {{large, Tensor(f32, {1})}}); });
  for (DType dtype : {f32, u8})
    check_short([&] { write_gguf(folder / "x.gguf", {{"x", Tensor(dtype, Shape(100'000, 1))}}); });
  check_short([&] { write_gguf(folder / "x.gguf", {}, {{large, true}, {large, true}}); });
  const std::string digits(1'000'000, '7'), letters(1'000'000, 'x');
  for (const std::string& text : {"{\"a\": [\"u8\", " + digits + "]}", "{\"a\": [\"u8\", \"" + letters + "\"]}",
                                  "{\"a\": [\"" + letters + "\", 1]}", "{\"" + letters + "\": 1}",
                                  "{\"a\": \"" + letters, letters, "{\"a\": [\"u8\", \"" + large + "\"]}"})
    check_short([&] { parse_gguf_json(text); });
}
