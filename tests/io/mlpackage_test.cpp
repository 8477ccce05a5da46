// Core ML packages and files of weights: what Apple's writers wrote is read, and what was written is read again;
// packages that are damaged or made to do harm are refused.
#include "io/mlpackage.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "io/atomic_file.h"
#include "io/mil_codec.h"
#include "io/wire.h"
#include "rlx/element.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace fs = std::filesystem;

namespace {

const std::string kGolden = "tests/golden/mlpackage/";
const std::string kModel = "/Data/com.apple.CoreML/model.mlmodel";
const std::string kWeights = "/Data/com.apple.CoreML/weights/weight.bin";

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

const mil::Operation& find_operation(const mil::Block& block, std::string_view type) {
  for (const mil::Operation& op : block.operations)
    if (op.type == type) return op;
  FAIL("there is no " << type);
  return block.operations.front();
}

mil::Operation make_const(const std::string& name, Tensor tensor) {
  mil::Value value = mil::Value::of(std::move(tensor));
  mil::ValueType type = value.type;
  return {.type = "const",
          .outputs = {{name, type}},
          .blocks = {},
          .attributes = {{"name", mil::Value::of(name)}, {"val", std::move(value)}}};
}

/// A model with these constants and an input that is returned.
mil::Model model_of(std::vector<Tensor> constants, int32_t version = 8) {
  mil::Model model{.specification_version = version};
  mil::ValueType type = mil::ValueType::tensor(mil::DataType::float32, {2});
  mil::Block block{.outputs = {"x"}};
  for (Tensor& t : constants) block.operations.push_back(make_const("c" + std::to_string(block.operations.size()), t));
  std::string opset = "CoreML" + std::to_string(version - 1);
  model.program.functions["main"] = {.inputs = {{"x", type}}, .opset = opset, .blocks = {{opset, block}}};
  model.main.inputs = {{.name = "x", .shape = {2}, .dtype = f32}};
  model.main.outputs = model.main.inputs;
  return model;
}

std::string with_replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("every type of blob that Apple's writer writes is read") {
  auto file = MilBlobFile::open(kGolden + "every_type.bin");
  auto expected = nlohmann::json::parse(file_content(kGolden + "every_type.json"));
  auto entries = file.entries();
  REQUIRE(entries.size() == expected.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    CAPTURE(i);
    DType dtype = dtype_named(expected[i]["dtype"].get<std::string>());
    auto values = expected[i]["values"].get<std::vector<double>>();
    CHECK(entries[i].dtype == dtype);
    CHECK(entries[i].record == expected[i]["offset"].get<uint64_t>());
    Tensor t = file.tensor(entries[i].record, dtype, {13});
    for (size_t e = 0; e < values.size(); ++e) CHECK(load_number(t, e) == values[e]);
  }
}

TEST_CASE("a file of weights is written as Apple's writer writes it, byte for byte") {
  auto file = MilBlobFile::open(kGolden + "every_type.bin");
  MilBlobLayout layout;
  for (const auto& entry : file.entries())
    CHECK(layout.add(file.tensor(entry.record, entry.dtype, {entry.count})) == entry.record);
  TemporaryFolder folder;
  AtomicFile out(folder / "again.bin");
  layout.write(out);
  out.commit();
  CHECK(layout.byte_count() == file.byte_count());
  CHECK(file_content(folder / "again.bin") == file_content(kGolden + "every_type.bin"));
}

TEST_CASE("equal blobs stand in the file once, others of the same bytes do not") {
  MilBlobLayout layout;
  uint64_t first = layout.add(Tensor::of<float>({4}, {1, 2, 3, 4}));
  CHECK(layout.add(Tensor::of<float>({2, 2}, {1, 2, 3, 4})) == first);
  CHECK(layout.add(Tensor::of<float>({4}, {1, 2, 3, 5})) != first);
  CHECK(layout.add(Tensor(u8, {16})) != layout.add(Tensor(i8, {16})));
  CHECK(layout.count() == 4);
  CHECK(message_of([&] { layout.add(Tensor(f64, {2})); }).find("no elements of f64") != std::string::npos);
}

TEST_CASE("a program that Apple's exporter wrote is read whole") {
  MlPackage package = MlPackage::open(kGolden + "loop.mlpackage");
  const mil::Model& model = package.model();
  CHECK(model.specification_version == 8);
  CHECK(model.metadata.description == "A loop");
  CHECK(model.metadata.author == "RLX");
  CHECK(model.metadata.version == "3");
  CHECK(model.metadata.user.contains("com.github.apple.coremltools.version"));
  REQUIRE(model.main.inputs.size() == 2);
  CHECK(model.main.inputs[0].name == "x");
  CHECK(model.main.inputs[0].doc == "what is multiplied");
  CHECK(model.main.inputs[0].shape == Shape{2, 3});
  CHECK(model.main.inputs[0].dtype == f32);
  CHECK(model.main.inputs[1].dtype == i32);
  CHECK(model.main.outputs.at(0).name == "result");

  const mil::Function& main = model.program.functions.at("main");
  CHECK(main.opset == "CoreML7");
  CHECK(text_of(main.inputs.at(0).type) == "fp32[2, 3]");
  const mil::Block& body = main.body();
  CHECK(body.outputs == std::vector<std::string>{"result"});
  const mil::Operation& weight = find_operation(body, "const");
  CHECK(weight.outputs.size() == 1);
  const mil::Operation& product = find_operation(body, "matmul");
  CHECK(std::get<std::string>(product.inputs.at("x").at(0)) == "x");
  CHECK(*product.attributes.at("name").text() == "product");
  const mil::Operation& loop = find_operation(body, "while_loop");
  CHECK(loop.inputs.at("loop_vars").size() == 2);
  REQUIRE(loop.blocks.size() == 2);
  CHECK(loop.blocks[0].inputs.size() == 2);
  const mil::Operation& gelu = find_operation(loop.blocks[1], "gelu");
  CHECK(gelu.outputs.at(0).type == mil::ValueType::tensor(mil::DataType::float32, {2, 4}));

  Tensor large;
  for (const mil::Operation& op : body.operations)
    if (op.type == "const" && op.attributes.at("val").type.dims.size() == 2)
      large = package.tensor(op.attributes.at("val"));
  CHECK(large == Tensor::of<float>({3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST_CASE("ranges of sizes are read") {
  MlPackage package = MlPackage::open(kGolden + "ranges.mlpackage");
  const mil::Feature& image = package.model().main.inputs.at(0);
  CHECK(image.shape == Shape{1, 3, 4, 4});
  REQUIRE(image.flexibility.ranges.size() == 4);
  CHECK(image.flexibility.ranges[2].lower == 2);
  CHECK(image.flexibility.ranges[2].upper == 9);
  CHECK(text_of(package.model().program.functions.at("main").inputs[0].type) == "fp32[1, 3, ?, ?]");
}

TEST_CASE("a model that was read is written so that it is read as the same") {
  for (std::string name : {"loop.mlpackage", "ranges.mlpackage"}) {
    CAPTURE(name);
    MlPackage package = MlPackage::open(kGolden + name);
    std::string bytes = mil::encode_model(package.model());
    mil::Model again = mil::decode_model(bytes_of(bytes));
    CHECK(mil::encode_model(again) == bytes);
    CHECK(again.program.functions.at("main").body().operations.size() ==
          package.model().program.functions.at("main").body().operations.size());
  }
}

TEST_CASE("literals of every type are written and read") {
  std::vector<Tensor> all;
  for (DType dtype :
       {boolean, f16, f32, f64, bf16, i8, i16, i32, i64, i4, u8, u16, u32, u64, u4, u2, u1, u6, u3, f8e4m3fn, f8e5m2})
    for (Shape shape : {Shape{}, Shape{3}, Shape{0, 2}}) {
      Tensor t(dtype, shape);
      for (size_t i = 0; i < t.element_count(); ++i)
        with_element_type(dtype, [&]<class T>() { store<T>(t, i, static_cast<T>(i % 2 ? 1 : 0)); });
      all.push_back(t);
    }
  all.push_back(Tensor::of<int32_t>({3}, {-1, 0, 2147483647}));
  all.push_back(Tensor::of<int16_t>({2}, {-32768, 32767}));
  all.push_back(Tensor::of<uint32_t>({2}, {4294967295u, 7}));
  all.push_back(Tensor::of<uint64_t>({1}, {18446744073709551615u}));
  std::string bytes = mil::encode_model(model_of(all));
  mil::Model model = mil::decode_model(bytes_of(bytes));
  const auto& ops = model.program.functions.at("main").body().operations;
  REQUIRE(ops.size() == all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    CAPTURE(all[i].type());
    CHECK(std::get<Tensor>(ops[i].attributes.at("val").data) == all[i]);
  }
}

TEST_CASE("constants of ten elements stand in the file of weights, shared, and the package is the same each time") {
  Tensor large = full(f32, {3, 4}, 2), small = full(f32, {9}, 1), whole = Tensor(i32, {16});
  TemporaryFolder folder;
  std::string path = folder / "x.mlpackage";
  mil::Model model = model_of({large, small, large, whole});
  MlPackageSizes sizes = write_mlpackage(path, model);
  CHECK(sizes.weights == 64 + 64 + 48);
  CHECK(fs::file_size(path + kWeights) == sizes.weights);
  CHECK(fs::file_size(path + kModel) == sizes.model);
  MlPackage package = MlPackage::open(path);
  const auto& ops = package.model().program.functions.at("main").body().operations;
  CHECK(std::holds_alternative<mil::BlobRef>(ops[0].attributes.at("val").data));
  CHECK(std::holds_alternative<Tensor>(ops[1].attributes.at("val").data));
  CHECK(std::holds_alternative<Tensor>(ops[3].attributes.at("val").data));  // integers only from version 9 on
  CHECK(package.tensor(ops[2].attributes.at("val")) == large);
  CHECK(package.weights("@model_path/weights/weight.bin").count() == 1);

  std::string manifest = file_content(path + "/Manifest.json"), bytes = file_content(path + kModel);
  write_mlpackage(folder / "y.mlpackage", model);
  CHECK(file_content(folder / "y.mlpackage/Manifest.json") == manifest);
  CHECK(file_content(folder / ("y.mlpackage" + kModel)) == bytes);
  model = model_of({large, small, large, whole}, 9);
  CHECK(write_mlpackage(path, model).weights == 64 + 64 + 64 + 64 + 64);  // over the old one
  CHECK(file_content(path + "/Manifest.json") != manifest);
  CHECK(folder.file_count() == 2);  // nothing else is left there
  CHECK(MlPackage::open(path + "/").model().specification_version == 9);
}

TEST_CASE("a package without large constants has no file of weights") {
  TemporaryFolder folder;
  CHECK(write_mlpackage(folder / "x.mlpackage", model_of({Tensor(f32, {3})})).weights == 0);
  CHECK_FALSE(fs::exists(folder / "x.mlpackage/Data/com.apple.CoreML/weights"));
  CHECK(MlPackage::open(folder / "x.mlpackage").model().main.inputs.size() == 1);
}

TEST_CASE("what is no package is not replaced by one") {
  TemporaryFolder folder;
  fs::create_directory(folder / "mine");
  put_file(folder / "mine/letter.txt", "dear");
  put_file(folder / "file", "text");
  CHECK(message_of([&] { write_mlpackage(folder / "mine", model_of({})); }).find("is not replaced") !=
        std::string::npos);
  CHECK(message_of([&] { write_mlpackage(folder / "file", model_of({})); }).find("is not replaced") !=
        std::string::npos);
  CHECK(error_of([&] { write_mlpackage(folder / "no/x.mlpackage", model_of({})); }).code() == ErrorCode::not_found);
  CHECK(file_content(folder / "mine/letter.txt") == "dear");
  // Others have manifests of this name, too.
  put_file(folder / "mine/Manifest.json", "{}");
  CHECK(message_of([&] { write_mlpackage(folder / "mine", model_of({})); }).find("'letter.txt' is no part of one") !=
        std::string::npos);
  CHECK(file_content(folder / "mine/letter.txt") == "dear");
  CHECK(folder.file_count() == 2);
}

TEST_CASE("a model that no loader could read is refused before anything is written") {
  TemporaryFolder folder;
  // A constant that claims 2 GiB: what is too large is known before its bytes are read.
  std::byte byte{};
  Tensor huge = Tensor::borrow(u8, {int64_t{1} << 31}, {&byte, size_t{1} << 31});
  try {
    write_mlpackage(folder / "x.mlpackage", model_of({huge}));
    FAIL("it was written");
  } catch (const TooLarge& error) {
    CHECK(error.code() == ErrorCode::too_large);
    CHECK(error.bytes == uint64_t{1} << 31);
    CHECK(error.limit == (uint64_t{1} << 31) - 1);
    CHECK(std::string(error.what()).find("u8[2147483648]") != std::string::npos);
  }
  CHECK(folder.file_count() == 0);
}

TEST_CASE("paths that lead out of a package are refused") {
  TemporaryFolder folder;
  std::string path = folder / "x.mlpackage";
  write_mlpackage(path, model_of({full(f32, {10}, 1)}));
  std::string manifest = file_content(path + "/Manifest.json");
  put_file(folder / "model.mlmodel", file_content(path + kModel));
  for (std::string hostile : {"../../model.mlmodel", "/etc/passwd", "com.apple.CoreML/../../../model.mlmodel", ""}) {
    CAPTURE(hostile);
    put_file(path + "/Manifest.json", with_replaced(manifest, "com.apple.CoreML/model.mlmodel", hostile));
    CHECK(message_of([&] { MlPackage::open(path); }).find("leads out of the package") != std::string::npos);
  }
  fs::create_symlink(folder / "model.mlmodel", path + "/Data/link.mlmodel");
  put_file(path + "/Manifest.json", with_replaced(manifest, "com.apple.CoreML/model.mlmodel", "link.mlmodel"));
  CHECK(message_of([&] { MlPackage::open(path); }).find("leads out of the package") != std::string::npos);

  put_file(path + "/Manifest.json", manifest);
  MlPackage package = MlPackage::open(path);
  CHECK(message_of([&] { package.weights("@model_path/../../../model.mlmodel"); }).find("leads out") !=
        std::string::npos);
  CHECK(message_of([&] { package.weights("/etc/passwd"); }).find("@model_path/") != std::string::npos);
  CHECK(error_of([&] { package.weights("@model_path/weights/other.bin"); }).code() == ErrorCode::not_found);
}

TEST_CASE("damaged manifests are refused") {
  TemporaryFolder folder;
  std::string path = folder / "x.mlpackage";
  write_mlpackage(path, model_of({}));
  std::string manifest = file_content(path + "/Manifest.json");
  struct Row {
    std::string from, to, message;
  };
  for (const Row& row : std::initializer_list<Row>{{"{", "[", "no JSON object"},
                                                   {"rootModelIdentifier", "root", "\"rootModelIdentifier\""},
                                                   {"itemInfoEntries", "items", "\"itemInfoEntries\""},
                                                   {"\"path\"", "\"where\"", "has no \"path\""},
                                                   {"1.0.0", "2.0.0", "format version '2.0.0'"},
                                                   {"\"1.0.0\"", "1", "\"fileFormatVersion\""}}) {
    CAPTURE(row.from);
    put_file(path + "/Manifest.json", with_replaced(manifest, row.from, row.to));
    CHECK(message_of([&] { MlPackage::open(path); }).find(row.message) != std::string::npos);
  }
  fs::remove(path + "/Manifest.json");
  CHECK(error_of([&] { MlPackage::open(path); }).code() == ErrorCode::not_found);
  CHECK(error_of([&] { MlPackage::open(folder / "none"); }).code() == ErrorCode::not_found);
  CHECK(error_of([&] { MlPackage::open(kGolden + "every_type.bin"); }).code() == ErrorCode::parse);
}

TEST_CASE("damaged files of weights are refused") {
  std::string good = file_content(kGolden + "every_type.bin");
  auto read = [](const std::string& bytes) { return MilBlobFile::read(bytes_of(bytes)); };
  auto changed = [&](size_t at, uint64_t value, size_t width) {
    std::string bytes = good;
    std::memcpy(bytes.data() + at, &value, width);
    return bytes;
  };
  auto refusal = [&](const std::string& bytes) { return message_of([&] { read(bytes).at(64); }); };
  CHECK(refusal(good.substr(0, 63)).find("it is cut") != std::string::npos);
  CHECK(refusal(changed(4, 1, 4)).find("version 1") != std::string::npos);
  CHECK(refusal(changed(64, 0xDEADBEEE, 4)).find("mark of a record") != std::string::npos);
  CHECK(refusal(changed(68, 99, 4)).find("element type 99") != std::string::npos);
  CHECK(refusal(changed(68, 0, 4)).find("element type 0") != std::string::npos);
  CHECK(refusal(changed(72, good.size(), 8)).find("end behind the file") != std::string::npos);
  CHECK(refusal(changed(72, ~uint64_t{0}, 8)).find("end behind the file") != std::string::npos);
  CHECK(refusal(changed(72, 51, 8)).find("no whole number") != std::string::npos);
  CHECK(refusal(changed(80, 64, 8)).find("not behind its record") != std::string::npos);
  CHECK(refusal(changed(80, 130, 8)).find("not behind its record") != std::string::npos);
  CHECK(refusal(changed(80, ~uint64_t{63}, 8)).find("end behind the file") != std::string::npos);
  auto at = [&](uint64_t offset) { return message_of([&] { read(good).at(offset); }); };
  CHECK(at(0).find("multiples of 64") != std::string::npos);
  CHECK(at(65).find("multiples of 64") != std::string::npos);
  CHECK(at(~uint64_t{63}).find("behind the end") != std::string::npos);
  CHECK(at(good.size() / 64 * 64).find("behind the end") != std::string::npos);
  CHECK(message_of([&] { read(changed(0, ~uint64_t{0}, 4)).entries(); }).find("and there are 14") != std::string::npos);
  CHECK(message_of([&] { read(changed(0, 2, 4)).entries(); }).find("tells of 2 blobs") != std::string::npos);
  CHECK(message_of([&] { read(good).tensor(64, f32, {12}); }).find("13 elements of f32") != std::string::npos);
  CHECK(message_of([&] { read(good).tensor(64, f16, {13}); }).find("13 elements of f32") != std::string::npos);
}

TEST_CASE("a model cut anywhere is an error, or one that is read") {
  std::string bytes = file_content(kGolden + "loop.mlpackage" + kModel);
  size_t refused = 0;
  for (size_t length = 0; length < bytes.size(); ++length) try {
      mil::decode_model(bytes_of(bytes).first(length));
    } catch (const Error&) {
      ++refused;
    }
  CHECK(refused == bytes.size());
}

TEST_CASE("models of other kinds and messages without end are refused") {
  wire::Writer neural;
  neural.number(1, 4);
  neural.message(500, [](wire::Writer&) {});
  CHECK(message_of([&] {
          mil::decode_model(bytes_of(neural.bytes()));
        }).find("a neural network (specification version 4)") != std::string::npos);
  CHECK(message_of([&] { mil::decode_model({}); }).find("there is nothing in it") != std::string::npos);

  // Types in types: a list of lists of lists ...
  std::string type;
  for (int i = 0; i < 1000; ++i) {
    wire::Writer inner, list;
    inner.always_bytes(1, type);
    list.always_bytes(2, inner.bytes());
    type = list.take();
  }
  wire::Writer named, function, entry, program, model;
  named.always_bytes(2, type);
  function.always_bytes(1, named.bytes());
  entry.always_text(1, "main");
  entry.always_bytes(2, function.bytes());
  program.always_bytes(2, entry.bytes());
  model.always_bytes(502, program.bytes());
  CHECK(message_of([&] { mil::decode_model(bytes_of(model.bytes())); }).find("deeper than 200") != std::string::npos);
}

TEST_CASE("a literal takes memory for what it has, not for what its type claims") {
  mil::Model model = model_of({Tensor(f32, {3}), Tensor(u8, {3})});
  auto& ops = model.program.functions.at("main").blocks.begin()->second.operations;
  for (size_t i : {size_t{0}, size_t{1}}) {
    auto type = ops[i].attributes.at("val").type;
    ops[i].attributes.at("val").type = mil::ValueType::tensor(type.dtype, {1 << 20, 1 << 20});
    std::string bytes = mil::encode_model(model);
    CHECK(message_of([&] { mil::decode_model(bytes_of(bytes)); }).find("instead of 1099511627776") !=
          std::string::npos);
    ops[i].attributes.at("val").type = type;
  }
}

TEST_CASE("names that are not UTF-8 are neither written nor read") {
  mil::Model model = model_of({});
  model.metadata.author = "\xff\xfe";
  CHECK(error_of([&] { mil::encode_model(model); }).code() == ErrorCode::invalid_argument);
  model.metadata.author = "Ana";
  std::string bytes = with_replaced(mil::encode_model(model), "Ana", "\xc0\x80!");
  CHECK(message_of([&] { mil::decode_model(bytes_of(bytes)); }).find("UTF-8") != std::string::npos);
}
