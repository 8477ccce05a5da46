// GGUF files: what ggml's Python package writes is read, and what is written is what the package writes
// (tests/golden/generate/gguf_files.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "rlx/blocks.h"
#include "rlx/gguf.h"
#include "rlx/lazy_tensor.h"
#include "support/io_files.h"
#include "support/sanitized.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const std::string kGolden = "tests/golden/gguf/";

nlohmann::json golden_metadata(const std::string& name) {
  return nlohmann::json::parse(file_content(kGolden + "metadata.json")).at(name);
}
/// The tensors of a file in its order.
std::vector<std::pair<std::string, Tensor>> in_order(const GgufFile& file) {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& entry : file.entries()) all.emplace_back(entry.name, file.tensor(entry.name));
  return all;
}
void check_tensors(const GgufFile& file) {
  const auto expected = SafetensorsFile::open(kGolden + "expected.safetensors");
  for (const auto& entry : file.entries()) {
    CAPTURE(entry.name);
    const Tensor read = file.tensor(entry.name), bytes = expected.tensor(entry.name + "/bytes");
    const Tensor values = expected.tensor(entry.name + "/values");
    CHECK(read.type() == Type{entry.dtype, Dims(values.shape().begin(), values.shape().end())});
    CHECK(std::equal(read.bytes().begin(), read.bytes().end(), bytes.bytes().begin(), bytes.bytes().end()));
    if (is_block(entry.dtype)) CHECK(dequantized(read) == values);
  }
}

}  // namespace

TEST_CASE("every kind of tensor and of value that the gguf package writes is read bit for bit") {
  for (FileAccess access : {FileAccess::copied, FileAccess::mapped}) {
    const auto file = GgufFile::open(kGolden + "every_kind.gguf", access);
    CHECK(file.version() == 3);
    CHECK(file.byte_order() == std::endian::little);
    CHECK(file.alignment() == 32);
    CHECK(file.entries().size() == 36);
    check_tensors(file);
    CHECK(nlohmann::json::parse(gguf_json(file.metadata())) == golden_metadata("every_kind"));
  }
}

TEST_CASE("GGUF of the older versions and of the other byte order says the same") {
  const auto newest = GgufFile::open(kGolden + "every_kind.gguf");
  const auto second = GgufFile::open(kGolden + "version2.gguf");
  CHECK(second.version() == 2);
  CHECK(second.tensors() == newest.tensors());
  CHECK(second.metadata() == newest.metadata());

  const auto first = GgufFile::open(kGolden + "version1.gguf");
  CHECK(first.version() == 1);
  CHECK(first.tensor("w") == Tensor::of<float>({3, 2}, {0, 1, 2, 3, 4, 5}));
  CHECK(nlohmann::json::parse(gguf_json(first.metadata())) == golden_metadata("version1"));

  const auto big = GgufFile::open(kGolden + "big_endian.gguf");
  CHECK(big.byte_order() == std::endian::big);
  CHECK(big.metadata() == newest.metadata());
  CHECK(big.entries().size() == 17);
  check_tensors(big);
}

TEST_CASE("a GGUF file in parts is opened by any of them") {
  const auto whole = GgufFile::open(kGolden + "every_kind.gguf").tensors();
  for (const char* name : {"parts-00001-of-00003.gguf", "parts-00003-of-00003.gguf"}) {
    CAPTURE(name);
    const auto file = GgufFile::open(kGolden + name);
    CHECK(file.paths().size() == 3);
    CHECK(file.entries().size() == 11);
    CHECK(file.entries().front().name == "scalar");
    CHECK(file.find("plain.BF16")->part == 2);
    for (const auto& each : file.tensors()) CHECK_MESSAGE(each.second == whole.at(each.first), each.first);
    CHECK(*file.value("split.count") == GgufValue(uint16_t{3}));
    CHECK(*file.value("split.no") == GgufValue(uint16_t{0}));
    CHECK(*file.value("one.u8") == GgufValue(uint8_t{200}));
  }
}

TEST_CASE("a written GGUF file equals that of the gguf package byte for byte") {
  TemporaryFolder folder;
  struct Written {
    const char* name;
    GgufWriteOptions options;
  };
  for (const Written& each :
       {Written{"every_kind.gguf", {}}, Written{"version2.gguf", {.version = 2}},
        Written{"version1.gguf", {.version = 1}}, Written{"big_endian.gguf", {.byte_order = std::endian::big}}}) {
    CAPTURE(each.name);
    const auto file = GgufFile::open(kGolden + each.name);
    write_gguf(folder / each.name, in_order(file), file.metadata(), each.options);
    CHECK(file_content(folder / each.name) == file_content(kGolden + each.name));
  }
}

TEST_CASE("files of lazy tensors are written with one of them in memory at a time, and have the same bytes") {
  TemporaryFolder folder;
  const auto file = GgufFile::open(kGolden + "every_kind.gguf", FileAccess::mapped);
  int alive = 0, most_alive = 0, made = 0;
  std::vector<std::pair<std::string, LazyTensor>> lazy;
  for (const auto& entry : file.entries())
    lazy.emplace_back(entry.name, LazyTensor(entry.dtype, entry.shape, [&, name = entry.name] {
                        ++made, most_alive = std::max(most_alive, ++alive);
                        // It may be a copy, which the owner keeps.
                        const std::shared_ptr<const Tensor> t(new Tensor(file.tensor(name)), [&](const Tensor* gone) {
                          --alive;
                          delete gone;
                        });
                        return Tensor::borrow(t->dtype(), t->shape(), t->bytes(), t);
                      }));
  stream_gguf(folder / "lazy.gguf", lazy, file.metadata());
  CHECK(file_content(folder / "lazy.gguf") == file_content(kGolden + "every_kind.gguf"));
  CHECK((made == 36 && most_alive == 1 && alive == 0));
  NamedLazyTensors numbers;
  NamedTensors there;
  for (const auto& [name, tensor] : lazy) {
    if (is_block(tensor.dtype())) continue;
    numbers.emplace(name, tensor);
    there.emplace(name, file.tensor(name));
  }
  write_safetensors(folder / "a.safetensors", there, {{"k", "v"}});
  made = most_alive = 0;
  stream_safetensors(folder / "b.safetensors", numbers, {{"k", "v"}});
  CHECK(file_content(folder / "a.safetensors") == file_content(folder / "b.safetensors"));
  CHECK((made == static_cast<int>(numbers.size()) && most_alive == 1));
  const LazyTensor wrong(f32, {2}, [] { return Tensor(f32, {3}); });
  CHECK_THROWS_WITH_AS(wrong.make(), doctest::Contains("was to be f32[2] was made as f32[3]"), Error);
  // What cannot be made leaves no file.
  lazy.back().second = LazyTensor(f32, {2}, []() -> Tensor { fail(ErrorCode::io, "gone"); });
  CHECK_THROWS_AS(stream_gguf(folder / "none.gguf", lazy), Error);
  CHECK(!std::filesystem::exists(folder / "none.gguf"));
}

TEST_CASE("written in parts, a GGUF file is found whole again") {
  TemporaryFolder folder;
  const auto file = GgufFile::open(kGolden + "every_kind.gguf");
  write_gguf(folder / "model.gguf", in_order(file), file.metadata(), {.most_part_bytes = 4000});
  CHECK(folder.file_count() > 2);
  const auto count = folder.file_count();
  char first[64];
  std::snprintf(first, sizeof first, "model-00001-of-%05zu.gguf", count);
  const auto again = GgufFile::open(folder / first);
  CHECK(again.paths().size() == count);
  CHECK(again.names() == file.names());
  CHECK(again.tensors() == file.tensors());
}

TEST_CASE("arrays in arrays, other alignments and names of the largest size come back as they were written") {
  TemporaryFolder folder;
  const GgufArray numbers{std::vector<int16_t>{1, -2}}, words{std::vector<std::string>{"a", ""}}, none{};
  const GgufMetadata metadata = {
      {"general.alignment", uint32_t{4096}},
      {"nested", GgufArray{std::vector<GgufArray>{numbers, numbers, GgufArray{std::vector<int16_t>{}}}}},
      {"mixed", GgufArray{std::vector<GgufArray>{numbers, words, none}}},
      {"empty", none}};
  const std::string name(63, 'n');
  write_gguf(folder / "x.gguf", {{name, Tensor::of<float>({2}, {1, 2})}, {"b", Tensor::of<int8_t>({1}, {3})}},
             metadata);
  const auto file = GgufFile::open(folder / "x.gguf");
  CHECK(file.metadata() == metadata);
  CHECK(file.alignment() == 4096);
  CHECK(file.find(name)->offset == 4096);
  CHECK(file.find("b")->offset == 8192);
  CHECK(file.tensor("b", i8, {1}) == Tensor::of<int8_t>({1}, {3}));
  CHECK(file_content(folder / "x.gguf").size() == 3 * 4096);
}

TEST_CASE("metadata become JSON and come back from it") {
  const auto file = GgufFile::open(kGolden + "every_kind.gguf");
  CHECK(parse_gguf_json(gguf_json(file.metadata())) == file.metadata());
  const GgufMetadata odd = {{"nested", GgufArray{std::vector<GgufArray>{GgufArray{std::vector<float>{1.5f}}}}},
                            {"infinite", -std::numeric_limits<double>::infinity()}};
  CHECK(gguf_json(odd) == R"({"nested": ["array array f32", [[1.5]]], "infinite": ["f64", "-inf"]})");
  CHECK(parse_gguf_json(gguf_json(odd)) == odd);
  CHECK(gguf_json(GgufMetadata{{"text", std::string("\xff")}}) == "{\"text\": [\"string\", \"\xef\xbf\xbd\"]}");
  for (const char* wrong :
       {R"({"a": ["u8", 256]})", R"({"a": ["u8", -1]})", R"({"a": ["i8", 1.5]})", R"({"a": ["x", 1]})", R"({"a": 1})",
        R"({"a": ["array u8", 1]})", R"({"a": ["array u8", [300]]})", "[1", "[]", R"({"a": ["bool", 1]})",
        R"({"a": ["f32", 1e300]})", R"({"a": ["string", 1]})"}) {
    INFO(wrong);
    CHECK(error_of([&] { parse_gguf_json(wrong); }).code() == ErrorCode::invalid_argument);
  }
  std::string deep = "array";
  for (int i = 0; i < 100'000; ++i) deep += " array";
  const std::string nested =
      "{\"a\": [\"" + deep + "\", " + std::string(100'000, '[') + std::string(100'000, ']') + "]}";
  CHECK(error_of([&] { parse_gguf_json(nested); }).code() == ErrorCode::invalid_argument);
}

TEST_CASE("a type and a value that do not fit each other are refused by the key") {
  struct Wrong {
    const char *text, *message;
  };
  for (const Wrong& wrong :
       {Wrong{R"({"a": ["array array", [[1]]]})",
              "there is an array 2 levels deep, of which the type 'array array' does not say what it holds"},
        Wrong{R"({"a": ["array u8", [1, [2]]]})", "an array is no u8"},
        Wrong{R"({"a": ["array array u8", [1]]})", "'1' is no array"},
        Wrong{R"({"a": ["array u8 array", []]})", "'array u8 array' is no type of a value in a GGUF file"},
        Wrong{R"({"a": ["u8", {"b": 1}]})",
              "a value is [type, value], where the value is a number, string, bool or array, and not an object"},
        Wrong{R"({"a": []})", "a value is [type, value], where the type is a string, and not the end"},
        Wrong{R"({"a": ["u8", 1, 2]})", "a value is [type, value], where the end follows, and not '2'"}}) {
    const std::string text = error_of([&] { parse_gguf_json(wrong.text); }).what();
    CHECK(text == std::string(wrong.message) + "\n  while reading metadata from JSON, the value of 'a'");
  }
  CHECK(std::string(error_of([] { parse_gguf_json("[]"); }).what())
            .starts_with("metadata are a JSON object, {key: [type, value]}, and not an array"));
  CHECK(parse_gguf_json(R"({"a": ["array array", []]})") == GgufMetadata{{"a", GgufArray{std::vector<GgufArray>{}}}});
}

// Where each key is looked up among all before it, this takes minutes.
TEST_CASE("300,000 keys of JSON become metadata in their order, and soon" *
          doctest::timeout(test::sanitized() ? 300 : 30)) {
  GgufMetadata metadata;
  for (uint32_t i = 0; i < 300'000; ++i) metadata.emplace_back("key " + std::to_string(i * 7'919 % 300'000), i);
  CHECK(parse_gguf_json(gguf_json(metadata)) == metadata);
}

TEST_CASE("tensors borrow from the GGUF file and keep it after it is closed") {
  Tensor t;
  {
    const auto file = GgufFile::open(kGolden + "every_kind.gguf");
    t = file.tensor("blocks.q4_k");
    CHECK(t.data() == file.tensor("blocks.q4_k").data());
  }
  CHECK(t.shape() == Shape{3, 512});
}
