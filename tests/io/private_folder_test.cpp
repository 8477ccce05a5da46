// Folders for temporary files: nobody else looks into them, and none stays.
#include "io/private_folder.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

namespace {

/// TMPDIR for as long as the object lives.
struct Elsewhere {
  TemporaryFolder folder;
  std::string before = std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "";
  Elsewhere() { setenv("TMPDIR", (folder / "").c_str(), 1); }
  ~Elsewhere() { before.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before.c_str(), 1); }
};

}  // namespace

TEST_CASE("a private folder is its user's alone, has no name that can be guessed, and goes with its object") {
  Elsewhere elsewhere;
  std::string first, second;
  {
    PrivateFolder one("rlx-some-"), two("rlx-some-");
    first = one.path(), second = two.path();
    struct stat status {};
    REQUIRE(stat(first.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0700);
    CHECK(first.substr(0, first.size() - 6) == second.substr(0, second.size() - 6));
    CHECK(first != second);
    put_file(one.path() + "/x", "content");
    CHECK(elsewhere.folder.file_count() == 2);
  }
  CHECK(elsewhere.folder.file_count() == 0);
}

TEST_CASE("folders that are not private folders stay, whatever their names begin with") {
  Elsewhere elsewhere;
  for (const char* name : {"rlx-some-experiments", "rlx-some-abcdef", "rlx-some-abc_ef"}) {
    REQUIRE(mkdir((elsewhere.folder / name).c_str(), 0755) == 0);
    put_file(elsewhere.folder / name + "/thesis.txt", "years of work");
  }
  REQUIRE(chmod((elsewhere.folder / "rlx-some-abc_ef").c_str(), 0700) == 0);
  { PrivateFolder one("rlx-some-"); }
  for (const char* name : {"rlx-some-experiments", "rlx-some-abcdef", "rlx-some-abc_ef"})
    CHECK(std::filesystem::exists(elsewhere.folder / name + "/thesis.txt"));
}

TEST_CASE("a private folder that a killed process left is removed by the next one, and those in use are not") {
  Elsewhere elsewhere;
  PrivateFolder in_use("rlx-some-");
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    PrivateFolder left("rlx-some-");
    put_file(left.path() + "/model", "secret");
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char got = 0;
  REQUIRE(read(ready[0], &got, 1) == 1);
  CHECK(elsewhere.folder.file_count() == 2);
  { PrivateFolder another("rlx-some-"); }
  CHECK(elsewhere.folder.file_count() == 2);  // the child lives
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(elsewhere.folder.file_count() == 2);
  { PrivateFolder another("rlx-other-"); }
  CHECK(elsewhere.folder.file_count() == 2);
  { PrivateFolder another("rlx-some-"); }
  CHECK(elsewhere.folder.file_count() == 1);
  CHECK(std::filesystem::exists(in_use.path()));
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("a link that has the name of a folder that was left is not followed") {
  Elsewhere elsewhere;
  TemporaryFolder target;
  put_file(target / "x", "content");
  std::filesystem::create_directory_symlink(target / "", elsewhere.folder / "rlx-some-abcdef");
  { PrivateFolder another("rlx-some-"); }
  CHECK(file_content(target / "x") == "content");
}
