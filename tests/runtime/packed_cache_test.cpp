// Packed weights on disk: taken where program, weights and machine are the same, and made again where anything is not.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "backends/cpu/lowering.h"
#include "backends/cpu/packed_file.h"
#include "io/file_stamp.h"
#include "reference/interpreter.h"
#include "rlx/io.h"
#include "rlx/log.h"
#include "rlx/ops.h"
#include "rlx/ops/fused_blocks.h"
#include "rlx/session.h"
#include "support/compare.h"
#include "support/io_files.h"

using namespace rlx;
namespace fs = std::filesystem;

namespace {

/// Products with two weights, one of which is computed of a param.
Graph two_layers() {
  Graph g("two_layers");
  Value x = g.input("x", f32, {Dim::symbol("N"), 512});
  Value h = linear(x, g.param("w0", f32, {896, 512}), g.param("b0", f32, {896}));
  g.output(matmul(h, exp(g.param("w1", f32, {896, 64}))), "y");
  return g;
}
NamedTensors weights(uint64_t seed) {
  const Graph g = two_layers();
  NamedTensors all;
  for (Ref r : g.params()) all.emplace(g.node(r).name, random_tensor(f32, shape_of(g.type(r).dims), seed++, -0.1, 0.1));
  return all;
}
std::vector<Tensor> by_reference(const NamedTensors& params, Tensors inputs) {
  return interpret(two_layers(), inputs, {params.begin(), params.end()});
}

struct Model {
  test::TemporaryFolder folder;
  std::string file = folder / "weights.safetensors", cache = folder / "cache";

  explicit Model(uint64_t seed = 1) { write(seed); }
  void write(uint64_t seed) const {
    write_safetensors(file, weights(seed));
    settle();
  }
  /// What was written just now might be written again within the same tick, and is not relied upon.
  static void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(250)); }

  std::vector<Tensor> run(const Graph& g = two_layers(), int threads = 1, int64_t rows = 3) const {
    const auto opened = SafetensorsFile::open(file);
    CompileOptions options;
    options.cache_dir = cache;
    CompiledGraph compiled = Session(Device::cpu(), {threads}).compile(g, options);
    for (const auto& param : compiled.signature().params) compiled.set_param(param.name, opened.tensor(param.name));
    return compiled.run_ordered(inputs(rows));
  }
  /// Is anything kept of a file that lies here?
  bool keeps() const {
    if (flushed_stamp(file)) return true;
    MESSAGE("the file system of '", file, "' does not stamp stores through mappings: nothing is kept, skipped");
    return false;
  }
  static std::vector<Tensor> inputs(int64_t rows = 3) { return {random_tensor(f32, {rows, 512}, 7)}; }
  /// What a session gives that keeps nothing.
  std::vector<Tensor> plain(int64_t rows = 3) const {
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(two_layers(), {});
    const auto opened = SafetensorsFile::open(file);
    for (const auto& param : compiled.signature().params) compiled.set_param(param.name, opened.tensor(param.name));
    return compiled.run_ordered(inputs(rows));
  }
  std::vector<std::string> packed_files() const {
    std::vector<std::string> all;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(cache, none))
      if (entry.path().extension() == ".packed") all.push_back(entry.path().string());
    return all;
  }
  std::string only_file() const {
    REQUIRE(packed_files().size() == 1);
    return packed_files()[0];
  }
};

/// What the header says a file was made of.
std::string made_of(const std::string& path) {
  const std::string text = test::file_content(path);
  uint64_t bytes = 0;
  std::memcpy(&bytes, text.data() + 8, sizeof bytes);
  return nlohmann::json::parse(text.substr(16, bytes)).at("of");
}
/// The file with another header, its pieces where they were.
std::string with_header(const std::string& file, const std::function<void(nlohmann::json&)>& change) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, file.data() + 8, sizeof bytes);
  auto header = nlohmann::json::parse(file.substr(16, bytes));
  change(header);
  std::string text = header.dump();
  REQUIRE(text.size() <= bytes);
  text.resize(bytes, ' ');
  return file.substr(0, 16) + text + file.substr(16 + bytes);
}

}  // namespace

TEST_CASE("weights that one session packed are taken by the next, and by other widths and shapes") {
  const Model model;
  if (!model.keeps()) return;
  const auto wanted = model.plain();
  CHECK(difference(wanted, by_reference(weights(1), Model::inputs()), 1e-4) == "");
  CHECK(difference(model.run(), wanted, 0) == "");
  const std::string path = model.only_file(), kept = test::file_content(path);
  CHECK(kept.size() > size_t{896 * (512 + 64) * 3});  // of each weight three bytes at least
  CHECK(difference(model.run(), wanted, 0) == "");
  CHECK(difference(model.run(two_layers(), 2), wanted, 1e-5) == "");
  CHECK(difference(model.run(two_layers(), 1, 9), model.plain(9), 0) == "");
  CHECK(test::file_content(model.only_file()) == kept);  // nothing was made again
}

TEST_CASE("weights that are found packed are not read from their file if access is when_read") {
  const Model model;
  if (!model.keeps()) return;
  const auto start = [&] {
    const auto opened = SafetensorsFile::open(model.file, FileAccess::when_read);
    CompileOptions options;
    options.cache_dir = model.cache;
    CompiledGraph compiled = Session(Device::cpu(), {1}).compile(two_layers(), options);
    for (const auto& param : compiled.signature().params) compiled.set_param(param.name, opened.tensor(param.name));
    CHECK(difference(compiled.run_ordered(Model::inputs()), model.plain(), 0) == "");
    std::set<std::string> read;  // elements that nobody has read are zeros in memory
    for (const std::string& name : opened.names()) {
      const auto bytes = opened.tensor(name).place();
      if (std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; })) read.insert(name);
    }
    return read;
  };
  CHECK(start() == std::set<std::string>{"b0", "w0", "w1"});
  CHECK(start() == std::set<std::string>{"b0"});
}

TEST_CASE("what is taken is what was kept: the file is really read") {
  const Model model;
  if (!model.keeps()) return;
  const auto wanted = model.run();
  const std::string path = model.only_file(), of = made_of(path);
  NamedTensors negative = weights(1);
  for (float& v : negative.at("w0").mutable_values<float>()) v = -v;
  Model turned;
  write_safetensors(turned.file, negative);
  Model::settle();
  turned.run();
  const auto pieces = cpu::PackedFile::open(turned.only_file(), made_of(turned.only_file()), 1);
  cpu::PackedFile::write(path, of, pieces->pieces());
  const auto other = by_reference(negative, Model::inputs());
  CHECK(difference(model.run(), other, 1e-4) == "");
  CHECK(difference(model.run(), wanted, 1e-4) != "");
}

TEST_CASE("a file that is damaged, or is of something else, is left aside and made again") {
  const Model model;
  if (!model.keeps()) return;
  const auto wanted = model.run();
  const std::string path = model.only_file(), sound = test::file_content(path);
  auto piece = [](nlohmann::json& header) -> nlohmann::json& { return header.at("pieces").at(0); };
  const struct {
    const char* what;
    std::string content;
  } cases[] = {
      {"empty", ""},
      {"cut in the header", sound.substr(0, 40)},
      {"cut in a piece", sound.substr(0, sound.size() / 2)},
      {"without the page behind it", sound.substr(0, sound.size() - 4096)},
      {"another magic", "RLXPACK2" + sound.substr(8)},
      {"a header longer than the file", sound.substr(0, 8) + std::string(8, '\xff') + sound.substr(16)},
      {"no JSON", sound.substr(0, 16) + "]" + sound.substr(17)},
      {"no pieces", with_header(sound, [](auto& h) { h.erase("pieces"); })},
      {"a piece without a name", with_header(sound, [&](auto& h) { piece(h).erase("name"); })},
      {"a name that is a number", with_header(sound, [&](auto& h) { piece(h)["name"] = 7; })},
      {"an offset behind the end", with_header(sound, [&](auto& h) { piece(h)["offset"] = uint64_t{1} << 62; })},
      {"an offset below 0", with_header(sound, [&](auto& h) { piece(h)["offset"] = -4096; })},
      {"an offset that is no count", with_header(sound, [&](auto& h) { piece(h)["offset"] = 1e300; })},
      {"an offset between pages", with_header(sound, [&](auto& h) { piece(h)["offset"] = 4097; })},
      {"more bytes than there are", with_header(sound, [&](auto& h) { piece(h)["bytes"] = ~uint64_t{0}; })},
      {"another sum", with_header(sound, [&](auto& h) { piece(h)["sum"] = 1; })},
      {"of another version", with_header(sound,
                                         [](auto& h) {
                                           std::string of = h.at("of");
                                           h["of"] = of.replace(of.find("rlx"), 3, "RLX");
                                         })},
      {"of other weights", with_header(sound,
                                       [](auto& h) {
                                         std::string of = h.at("of");
                                         h["of"] = of.replace(of.find("bytes"), 1, "B");
                                       })},
      {"one bit in the last piece",
       [&] {
         std::string changed = sound;
         changed[sound.size() - 4096 - 4096] ^= 1;
         return changed;
       }()},
  };
  for (const auto& c : cases) {
    CAPTURE(c.what);
    test::put_file(path, c.content);
    CHECK(difference(model.run(), wanted, 0) == "");
    CHECK(test::file_content(model.only_file()) == sound);
  }
  // Pieces of other sizes are no weights of this spec, whatever their sums.
  {
    const std::string of = made_of(path);
    const auto file = cpu::PackedFile::open(path, of, 1);
    cpu::PackedFile::Pieces halves;
    for (const auto& [name, bytes] : file->pieces()) halves.emplace(name, bytes.first(bytes.size() / 2));
    cpu::PackedFile::write(path, of, halves);
  }
  CHECK(difference(model.run(), wanted, 0) == "");
}

TEST_CASE("sums are compared once in each state of the file, and again when anything about it has changed") {
  const Model model;
  if (!model.keeps()) return;
  const auto wanted = model.run();
  const std::string path = model.only_file(), checked = path + ".checked", sound = test::file_content(path);
  CHECK(!fs::exists(checked));
  Model::settle();
  CHECK(difference(model.run(), wanted, 0) == "");
  if (!fs::exists("/proc/sys/kernel/random/boot_id")) {
    MESSAGE("this system does not say since when it runs: sums are compared each time, the rest is skipped");
    return;
  }
  const std::string said = test::file_content(checked);
  CHECK(said.starts_with("rlx checked 1\n"));
  for (const std::string& other : {std::string(), said + "x", said.substr(0, 30), std::string(100000, 'x')}) {
    test::put_file(checked, other);
    CHECK(difference(model.run(), wanted, 0) == "");
    CHECK(test::file_content(checked) == said);
  }
  std::string changed = sound;
  changed[4096 * 3 + 7] ^= 4;
  const auto time = fs::last_write_time(path);
  test::put_file(path, changed);    // the same file, as long as before ...
  fs::last_write_time(path, time);  // ... and as old, as far as a program can make it so
  Model::settle();
  CHECK(difference(model.run(), wanted, 0) == "");
  CHECK(test::file_content(path) == sound);
}

TEST_CASE("weights that were written over in place are not taken for those that were packed") {
  const Model model;
  if (!model.keeps()) return;
  const auto before = model.run();
  const auto time = fs::last_write_time(model.file);
  const std::string other = model.folder / "other.safetensors";
  write_safetensors(other, weights(5));
  const std::string content = test::file_content(other);
  CHECK(content.size() == test::file_content(model.file).size());
  test::put_file(model.file, content);  // the same file, as long as before
  fs::last_write_time(model.file, time);
  Model::settle();
  const auto after = model.run();
  CHECK(difference(after, model.plain(), 0) == "");
  CHECK(difference(after, before, 1e-3) != "");
  CHECK(model.packed_files().size() == 2);
}

TEST_CASE("stores through a mapping that has stored before are seen") {
  const Model model;
  if (!model.keeps()) return;
  const int fd = open(model.file.c_str(), O_RDWR);
  REQUIRE(fd >= 0);
  const size_t size = fs::file_size(model.file);
  void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  REQUIRE(mapped != MAP_FAILED);
  auto* begin = static_cast<char*>(mapped);
  auto store = [&](uint64_t seed) {  // the weights alone: the header stays
    const NamedTensors all = weights(seed);
    const auto opened = SafetensorsFile::open(model.file);
    for (const auto& entry : opened.entries())
      std::memcpy(begin + entry.offset, all.at(entry.name).bytes().data(), entry.byte_count);
  };
  store(3);
  Model::settle();
  const auto first = model.run();
  CHECK(difference(first, model.plain(), 0) == "");
  CHECK(model.packed_files().size() == 1);
  store(4);  // to pages that have been stored to
  CHECK(difference(model.run(), model.plain(), 0) == "");
  CHECK(difference(model.plain(), first, 1e-3) != "");
  munmap(mapped, size);
}

TEST_CASE("weights whose stores are not seen are not kept: files in memory") {
  if (!fs::is_directory("/dev/shm")) {
    MESSAGE("this system has no /dev/shm: not tested");
    return;
  }
  const Model model;
  if (!model.keeps()) return;
  std::string name = "/dev/shm/rlx-test-XXXXXX";
  const int fd = mkstemp(name.data());
  REQUIRE(fd >= 0);
  close(fd);
  test::put_file(name, test::file_content(model.file));
  Model in_memory;
  in_memory.file = name;
  Model::settle();
  CHECK(difference(in_memory.run(), model.plain(), 0) == "");
  CHECK(in_memory.packed_files().empty());
  fs::remove(name);
}

TEST_CASE("links in the folder are replaced, and what they stand for is left alone") {
  const Model model;
  if (!model.keeps()) return;
  const auto wanted = model.run();
  Model::settle();
  model.run();
  const std::string path = model.only_file(), sound = test::file_content(path), victim = model.folder / "victim";
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(model.cache)) entries.push_back(entry.path());
  CHECK(entries.size() == 3);  // the compiled graph, packed weights, and that these are right
  for (const bool is_there : {true, false})
    for (const fs::path& entry : entries) {
      CAPTURE(entry.string());
      if (is_there) test::put_file(victim, "mine");
      else fs::remove(victim);
      const auto time = is_there ? fs::last_write_time(victim) : fs::file_time_type();
      fs::remove(entry);
      fs::create_symlink(victim, entry);
      CHECK(difference(model.run(), wanted, 0) == "");
      Model::settle();
      CHECK(difference(model.run(), wanted, 0) == "");
      CHECK(fs::is_regular_file(fs::symlink_status(entry)));
      CHECK(fs::exists(victim) == is_there);
      if (!is_there) continue;
      CHECK(test::file_content(victim) == "mine");
      CHECK(fs::last_write_time(victim) == time);
    }
  CHECK(test::file_content(path) == sound);
}

TEST_CASE("what others may write to is not believed") {
  const Model model;
  if (!model.keeps()) return;
  const auto wanted = model.run();
  CHECK(fs::status(model.cache).permissions() == fs::perms::owner_all);
  constexpr auto kPrivate = fs::perms::owner_read | fs::perms::owner_write;
  const std::string path = model.only_file(), of = made_of(path);
  for (const auto& entry : fs::directory_iterator(model.cache)) CHECK(entry.status().permissions() == kPrivate);
  const Model other(2);
  other.run();
  const auto others = cpu::PackedFile::open(other.only_file(), made_of(other.only_file()), 1);
  auto put_others = [&] { cpu::PackedFile::write(path, of, others->pieces()); };
  put_others();
  CHECK(difference(model.run(), wanted, 1e-3) != "");  // from a folder of one's own it is believed
  for (const auto who : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(path, kPrivate | who);
    CHECK(difference(model.run(), wanted, 0) == "");
    CHECK(fs::status(path).permissions() == kPrivate);  // made again
    put_others();
    fs::permissions(model.cache, fs::perms::owner_all | who);
    CHECK(difference(model.run(), wanted, 0) == "");
    fs::permissions(model.cache, fs::perms::owner_all);
  }
  fs::remove_all(model.cache);
  fs::create_directory(model.cache);
  fs::permissions(model.cache, fs::perms::all);
  CHECK(difference(model.run(), wanted, 0) == "");
  CHECK(fs::is_empty(model.cache));
}

TEST_CASE("params may have names that are no UTF-8, or are full of quotes") {
  const Model model;
  if (!model.keeps()) return;
  for (const std::string name : {"w\xff\xc3", "w\xc3\xbf\xc3\x83", "w\xe4\xb8\xad", "w\"\\\n\x01\x02\x7f"}) {
    CAPTURE(name);
    Graph g("odd");
    g.output(linear(g.input("x", f32, {3, 512}), g.param(name, f32, {896, 512})), "y");
    const auto opened = SafetensorsFile::open(model.file);
    const auto before = model.packed_files();
    std::vector<Tensor> first;
    fs::file_time_type written;
    for (int i = 0; i < 2; ++i) {
      CompileOptions options;
      options.cache_dir = model.cache;
      CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, options);
      compiled.set_param(name, opened.tensor("w0"));
      const auto given = compiled.run_ordered(Model::inputs());
      auto now = model.packed_files();
      std::erase_if(now, [&](const auto& path) { return std::count(before.begin(), before.end(), path) > 0; });
      REQUIRE(now.size() == 1);
      if (i == 0) first = given, written = fs::last_write_time(now[0]);
      CHECK(difference(given, first, 0) == "");
      CHECK(fs::last_write_time(now[0]) == written);  // found, and not made again
    }
  }
}

TEST_CASE("what a killed process left half written goes after an hour") {
  const Model model;
  if (!model.keeps()) return;
  fs::create_directory(model.cache);
  const std::string old = model.cache + "/.rlx-123-4.tmp", young = model.cache + "/.rlx-123-5.tmp",
                    other = model.cache + "/.rlx-notes";
  for (const std::string& path : {old, young, other}) test::put_file(path, "half");
  for (const std::string& path : {old, other})
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::minutes(61));
  model.run();
  CHECK(!fs::exists(old));
  CHECK(fs::exists(young));
  CHECK(fs::exists(other));
}

TEST_CASE("weights that are in memory, or that were written a moment ago, leave nothing behind") {
  const Model model;
  if (!model.keeps()) return;
  CompileOptions options;
  options.cache_dir = model.cache;
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(two_layers(), options);
  const NamedTensors in_memory = weights(1);
  compiled.set_params({in_memory.begin(), in_memory.end()});
  CHECK(difference(compiled.run_ordered(Model::inputs()), model.plain(), 0) == "");
  CHECK(model.packed_files().empty());
  // On a machine that is busy the moment may have passed: then again.
  bool in_time = false;
  for (uint64_t tries = 0; tries < 20 && !in_time; ++tries) {
    const auto begin = std::chrono::steady_clock::now();
    write_safetensors(model.file, weights(2 + tries));
    const auto got = model.run();
    in_time = std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(180);
    CHECK(difference(got, model.plain(), 0) == "");
    if (in_time) CHECK(model.packed_files().empty());
    for (const std::string& late : model.packed_files()) fs::remove(late);
  }
  if (!in_time) MESSAGE("the machine was too busy to see that");
}

TEST_CASE("a param that is bound anew is packed anew, and what was kept stays right") {
  const Model model;
  if (!model.keeps()) return;
  const auto wanted = model.run();
  const auto opened = SafetensorsFile::open(model.file);
  CompileOptions options;
  options.cache_dir = model.cache;
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(two_layers(), options);
  for (const auto& param : compiled.signature().params) compiled.set_param(param.name, opened.tensor(param.name));
  CHECK(difference(compiled.run_ordered(Model::inputs()), wanted, 0) == "");
  NamedTensors mixed = weights(1);
  mixed.at("w0") = random_tensor(f32, {896, 512}, 77, -0.1, 0.1);
  compiled.set_param("w0", mixed.at("w0"));
  CHECK(difference(compiled.run_ordered(Model::inputs()), by_reference(mixed, Model::inputs()), 1e-4) == "");
  CHECK(difference(model.run(), wanted, 0) == "");
}

TEST_CASE("the folder is kept within its limit: what was used the longest ago goes, other files stay") {
  const Model model;
  if (!model.keeps()) return;
  const char* before = std::getenv("RLX_CACHE_MIB");
  const std::string limit_before = before ? before : "";
  setenv("RLX_CACHE_MIB", "5", 1);  // each model takes about 1.6
  fs::create_directories(model.cache);
  const std::string other = model.cache + "/notes-eager-of-mine.txt";
  test::put_file(other, std::string(6 << 20, 'x'));
  auto named = [](const std::string& name) {
    Graph g(name);
    Value x = g.input("x", f32, {Dim::symbol("N"), 512});
    g.output(linear(x, g.param("w0", f32, {896, 512}), g.param("b0", f32, {896})), name);
    return g;
  };
  std::vector<std::string> first, latest;
  for (int i = 0; i < 6; ++i) {
    model.run(named(text_of("model", i)));
    if (i == 0) first = model.packed_files();
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  uintmax_t sum = 0;
  for (const std::string& path : model.packed_files()) sum += fs::file_size(path);
  CHECK(sum <= uintmax_t{5} << 20);
  CHECK(model.packed_files().size() >= 2);
  CHECK(!fs::exists(first.at(0)));
  CHECK(fs::exists(other));
  // The latest is there, and was not made again.
  latest = model.packed_files();
  model.run(named("model5"));
  auto now = model.packed_files();
  std::sort(latest.begin(), latest.end()), std::sort(now.begin(), now.end());
  CHECK(now == latest);
  if (before) setenv("RLX_CACHE_MIB", limit_before.c_str(), 1);
  else unsetenv("RLX_CACHE_MIB");
}

TEST_CASE("a second form of a weight is counted, and said with its reason") {
  std::string said;
  const std::optional<LogLevel> before = log_level();
  set_log_level(LogLevel::info);
  set_log_sink([&](LogLevel, std::string_view message) { said += message; });
  const Tensor weights = random_tensor(f32, {48, 32}, 1), others = random_tensor(f32, {48, 32}, 2);
  cpu::PackedCache cache(nullptr, {{weights.data(), "w"}});
  kernels::WeightsSpec spec{.k = 32, .n = 48, .k_stride = 1, .n_stride = 32};
  cache.pack(spec, weights), cache.pack(spec, weights), cache.pack(spec, others);
  CHECK(cache.second_forms() == 0);
  CHECK(said == "");
  spec.rows = 12;
  cache.pack(spec, weights), cache.pack(spec, weights);
  set_log_sink({});
  set_log_level(before);
  CHECK(cache.second_forms() == 1);
  CHECK(said.find("packed 'w' once more") != std::string::npos);
  CHECK(said.find("as 32x48 by 1,32 of f32 for f32, rows from 12; the products before") != std::string::npos);
  CHECK(said.find("these read it as 32x48 by 1,32 of f32 for f32") != std::string::npos);
}

TEST_CASE("weights in a layout of a kernel's own are kept under its name, and taken from there") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "kept.packed";
  const Tensor weights = random_tensor(f32, {48, 32}, 1), nameless = random_tensor(f32, {48, 32}, 2);
  int packed = 0;
  const auto copy = [&](const Tensor& from) {
    return [&packed, from](char* out) { ++packed, std::memcpy(out, from.data(), from.byte_count()); };
  };
  const std::map<const void*, std::string> names = {{weights.data(), "w"}};
  cpu::PackedCache first(nullptr, names);
  first.in_layout(weights, "a", weights.byte_count(), copy(weights));
  first.in_layout(weights, "a", weights.byte_count(), copy(weights));
  first.in_layout(nameless, "a", weights.byte_count(), copy(nameless));
  CHECK(packed == 2);
  const auto made = first.made();
  REQUIRE(made.size() == 1);
  CHECK(made.begin()->first == "w as a");
  cpu::PackedFile::write(path, "of", made);

  packed = 0;
  cpu::PackedCache second(cpu::PackedFile::open(path, "of", 1), names);
  const auto taken = second.in_layout(weights, "a", weights.byte_count(), copy(weights));
  CHECK(packed == 0);
  CHECK(std::memcmp(taken->get(), weights.data(), weights.byte_count()) == 0);
  CHECK(second.made().empty());
  CHECK(second.bytes() == weights.byte_count());
  second.in_layout(weights, "b", weights.byte_count(), copy(weights));  // another layout
  CHECK(packed == 1);
  CHECK(second.made().size() == 1);

  cpu::PackedCache third(cpu::PackedFile::open(path, "of", 1), names);  // as many bytes as the layout has, or none
  third.in_layout(weights, "a", weights.byte_count() - 64,
                  [&](char* out) { ++packed, std::memset(out, 0, weights.byte_count() - 64); });
  CHECK(packed == 2);
}

TEST_CASE("weights of convolutions, and those in 8 bits, that are found packed are neither read nor packed") {
  // Not of matrix tiles, which pack convolutions' weights in a form that is not kept.
  Graph g("convolution");
  Value image = g.input("x", f32, {1, 64, 8, 8});
  g.output(conv(image, g.param("kernel", f32, {512, 64, 3, 3})), "y");
  Graph depthwise("depthwise");
  FusedConvAttrs attrs;
  attrs.groups = 32768, attrs.channels_last = true;  // so many that the file is worth keeping
  const Value pixels = depthwise.input("x", f32, {1, 3, 3, 32768}),
              taps = depthwise.param("kernel", f32, {32768, 1, 3, 3});
  depthwise.output(fused_conv(pixels, taps, {}, {}, attrs), "y");
  Graph product("product");
  product.output(linear(product.input("x", f32, {3, 512}), product.param("w", f32, {2048, 512})), "y");
  const struct {
    const char* what;
    const Graph& graph;
    Compute compute;
    std::string piece;
  } cases[] = {{"convolution", g, Compute::as_f32, "multiply-adds"},
               {"depthwise convolution", depthwise, Compute::as_f32, "depthwise of channels"},
               {"product in 8 bits", product, Compute::as_i8, "int8"}};
  for (const auto& c : cases) {
    CAPTURE(c.what);
    const test::TemporaryFolder folder;
    const std::string file = folder / "weights.safetensors", cache = folder / "cache";
    NamedTensors params;
    std::vector<Tensor> inputs;
    for (Ref r : c.graph.params())
      params.emplace(c.graph.node(r).name, random_tensor(f32, shape_of(c.graph.type(r).dims), 1, -0.1, 0.1));
    for (const Type& t : c.graph.input_types()) inputs.push_back(random_tensor(f32, shape_of(t.dims), 2));
    write_safetensors(file, params);
    Model::settle();
    if (!flushed_stamp(file)) {
      MESSAGE("skipped: stores to files of this system's temporary folder are not seen");
      return;
    }
    const auto start = [&] {
      const auto opened = SafetensorsFile::open(file, FileAccess::when_read);
      CompileOptions options;
      options.cache_dir = cache, options.compute = c.compute;
      CompiledGraph compiled = Session(Device::cpu(), {1}).compile(c.graph, options);
      const std::string name = params.begin()->first;
      compiled.set_param(name, opened.tensor(name));
      auto results = compiled.run_ordered(inputs);
      const auto bytes = opened.tensor(name).place();
      const bool is_read = std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; });
      return std::pair(std::move(results), is_read);
    };
    const auto [wanted, is_read] = start();
    CHECK(is_read);
    std::string kept;
    for (const auto& entry : fs::directory_iterator(cache))
      if (entry.path().extension() == ".packed") kept = entry.path().string();
    if (c.compute == Compute::as_f32 && kept.empty()) {
      MESSAGE("skipped: this processor's kernel of convolutions has a form that is not kept");
      continue;
    }
    REQUIRE(!kept.empty());
    const auto pieces = cpu::PackedFile::open(kept, made_of(kept), 1);
    CHECK(std::any_of(pieces->pieces().begin(), pieces->pieces().end(),
                      [&](const auto& piece) { return piece.first.find(" as " + c.piece) != std::string::npos; }));
    const auto [again, is_read_again] = start();
    CHECK(difference(again, wanted, 0) == "");
    CHECK(!is_read_again);
  }
}

TEST_CASE("the same 8-bit weights in two products of other extents are packed for each") {
  Graph g("two products");
  const Value w = g.param("w", i8, {96, 1}), scale = g.input("scale", f32, {1}), scales = g.input("scales", f32, {96});
  g.output(dynamic_quantize_matmul(g.input("x", f32, {2, 96}), w, scale), "column");  // strides 1 and 1, as below
  g.output(dynamic_quantize_matmul(g.input("z", f32, {2, 1}), w, scales, {}, true), "row");
  const Tensor weights = random_tensor(i8, {96, 1}, 1);
  std::vector<Tensor> inputs;
  for (const Type& t : g.input_types())
    inputs.push_back(random_tensor(f32, shape_of(t.dims), 2 + inputs.size(), 0.5, 1));
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, {});
  compiled.set_param("w", weights);
  CHECK(difference(compiled.run_ordered(inputs), interpret(g, inputs, {{"w", weights}})) == "");
}

TEST_CASE("memory that packed weights hold is counted by the pages of their slabs, once for each") {
  Graph g("many");
  Value x = g.input("x", f32, {8, 256}), y = x;
  for (int i = 0; i < 12; ++i) y = linear(y, g.param(text_of("w", i), f32, {256, 256}));
  g.output(y);
  CompiledGraph compiled = Session(Device::cpu(), {1}).compile(g, {});
  for (int i = 0; i < 12; ++i) compiled.set_param(text_of("w", i), random_tensor(f32, {256, 256}, 1, -0.1, 0.1));
  compiled.run_ordered({{random_tensor(f32, {8, 256}, 2)}});
  const size_t pieces = size_t{12} * 256 * 256 * 4;  // 3 MiB
  CHECK(compiled.memory_bytes() >= pieces);
  CHECK(compiled.memory_bytes() <= pieces + (size_t{20} << 20));  // two slabs at most, of which others may use a part
}
