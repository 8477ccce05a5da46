// Compiled models are kept by content, and the oldest go.
#include "backends/coreml_framework/compiled_cache.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "rlx/error.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::coreml_framework;
using namespace rlx::test;
namespace fs = std::filesystem;

namespace {

fs::path package_with(const fs::path& folder, const std::string& model) {
  fs::create_directories(folder / "Data");
  put_file((folder / "Manifest.json").string(), "{}");
  put_file((folder / "Data" / "model.mlmodel").string(), model);
  return folder;
}

/// What a compiler leaves behind: a folder with a file of that many bytes.
std::string compiled_in(const fs::path& folder, size_t bytes) {
  fs::create_directories(folder);
  put_file((folder / "coremldata.bin").string(), std::string(bytes, 'x'));
  return folder.string();
}

}  // namespace

TEST_CASE("a key is of the content and of the system") {
  TemporaryFolder dir;
  fs::path root(dir / "root");
  fs::create_directories(root);
  std::string one = content_key(package_with(root / "a.mlpackage", "abc").string(), "14.0");
  CHECK(one.size() == 32);
  CHECK(content_key(package_with(root / "elsewhere" / "b.mlpackage", "abc").string(), "14.0") == one);
  CHECK(content_key((root / "a.mlpackage").string(), "15.0") != one);
  CHECK(content_key(package_with(root / "c.mlpackage", "abd").string(), "14.0") != one);
  // The same bytes under another name are another content.
  fs::rename(root / "c.mlpackage" / "Manifest.json", root / "c.mlpackage" / "Manifest");
  CHECK(content_key(package_with(root / "c.mlpackage", "abc").string(), "14.0") != one);
  fs::create_directories(root / "empty");
  CHECK_THROWS_AS(content_key((root / "empty").string(), "14.0"), Error);
}

TEST_CASE("what was compiled once is found again") {
  TemporaryFolder dir;
  fs::path root(dir / "root");
  fs::create_directories(root);
  CompiledCache cache;
  cache.folder = (root / "cache" / "deep").string();
  int compiled = 0;
  auto compile = [&] { return ++compiled, compiled_in(root / ("made" + std::to_string(compiled)), 10); };
  std::string path = cache.find_or_make("k1", compile).path;
  CHECK(fs::exists(fs::path(path) / "coremldata.bin"));
  CHECK(cache.find_or_make("k1", compile).path == path);
  CHECK(compiled == 1);
  CHECK(cache.find_or_make("k2", compile).path != path);
  CHECK(compiled == 2);
  // Somebody else was faster while this one compiled: theirs stays, nothing is left lying about.
  std::string other = cache
                          .find_or_make("k3",
                                        [&] {
                                          compiled_in(fs::path(cache.folder) / "k3.mlmodelc", 77);
                                          return compile();
                                        })
                          .path;
  CHECK(fs::file_size(fs::path(other) / "coremldata.bin") == 77);
  CHECK(!fs::exists(root / "made3"));
  CHECK(std::distance(fs::directory_iterator(cache.folder), fs::directory_iterator()) == 3);
}

TEST_CASE("a folder that others can write to keeps nothing, and nothing in it is loaded") {
  TemporaryFolder dir;
  fs::path root(dir / "root");
  CompiledCache cache;
  cache.folder = (root / "cache").string();
  compiled_in(fs::path(cache.folder) / "k1.mlmodelc", 77);
  fs::permissions(cache.folder, fs::perms::all);
  const CompiledModel model = cache.find_or_make("k1", [&] { return compiled_in(root / "made", 10); });
  CHECK(model.path == (root / "made").string());
  CHECK(!model.kept);
  // One that is made here is the user's alone.
  cache.folder = (root / "new" / "cache").string();
  CHECK(cache.find_or_make("k1", [&] { return compiled_in(root / "made", 10); }).kept);
  CHECK((fs::status(cache.folder).permissions() & fs::perms::all) == fs::perms::owner_all);
}

TEST_CASE("entries that were used longest ago go first") {
  TemporaryFolder dir;
  fs::path root(dir / "root");
  fs::create_directories(root);
  CompiledCache cache;
  cache.folder = (root / "cache").string(), cache.most_bytes = 250;
  auto make = [&](const std::string& key) {
    return cache.find_or_make(key, [&] { return compiled_in(root / "made", 100); }).path;
  };
  std::string a = make("a"), b = make("b");
  auto now = fs::file_time_type::clock::now();
  fs::last_write_time(a, now - std::chrono::hours(2));
  fs::last_write_time(b, now - std::chrono::hours(1));
  CHECK(make("a") == a);  // used: now b is the oldest
  make("c");
  CHECK(fs::exists(a));
  CHECK(!fs::exists(b));
  cache.most_bytes = 10;  // less than one: the one in use stays
  std::string d = make("d");
  CHECK(fs::exists(d));
  CHECK(!fs::exists(a));
}

TEST_CASE("a cache that cannot be written to fails nobody") {
  TemporaryFolder dir;
  fs::path root(dir / "root");
  fs::create_directories(root);
  put_file((root / "file").string(), "in the way");
  CompiledCache cache;
  cache.folder = (root / "file" / "cache").string();  // below a file
  CompiledModel made = cache.find_or_make("k", [&] { return compiled_in(root / "made", 10); });
  CHECK(!made.kept);
  CHECK(fs::exists(fs::path(made.path) / "coremldata.bin"));
  // A file stands where the entry would: neither the move nor the copy can take its place.
  cache.folder = (root / "cache").string();
  fs::create_directories(cache.folder);
  put_file((root / "cache" / "k.mlmodelc").string(), "in the way");
  made = cache.find_or_make("k", [&] { return compiled_in(root / "again", 10); });
  CHECK(!made.kept);
  CHECK(made.path == (root / "again").string());
  CHECK(fs::exists(fs::path(made.path) / "coremldata.bin"));
  CHECK(std::distance(fs::directory_iterator(cache.folder), fs::directory_iterator()) == 1);  // and nothing half done
}

TEST_CASE("what ended in the middle of a removal goes, and what is being removed is no entry") {
  TemporaryFolder dir;
  fs::path root(dir / "root");
  CompiledCache cache;
  cache.folder = (root / "cache").string(), cache.most_bytes = 150;
  std::string left = compiled_in(fs::path(cache.folder) / ".aside-x-1-0", 1000);
  std::string young = compiled_in(fs::path(cache.folder) / ".aside-y-1-0", 1000);
  fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::hours(3));
  std::string a = cache.find_or_make("a", [&] { return compiled_in(root / "made", 100); }).path;
  CHECK(fs::exists(a));  // the others' bytes do not count
  CHECK(!fs::exists(left));
  CHECK(fs::exists(young));  // may be somebody's who is at it
}
