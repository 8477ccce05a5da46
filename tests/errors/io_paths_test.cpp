// Paths that cannot be read or written, and that nothing is left half-written.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "rlx/io.h"
#include "support/io_files.h"

using namespace rlx;
using namespace rlx::test;

TEST_CASE("a file that is not there is named") {
  Error error = error_of([] { SafetensorsFile::open("no/such/model.safetensors"); });
  CHECK(error.code() == ErrorCode::not_found);
  CHECK(std::string(error.what()) ==
        "cannot open 'no/such/model.safetensors': No such file or directory; check the path and its "
        "permissions");
  CHECK(error_of([] { read_npy("no/such/x.npy"); }).code() == ErrorCode::not_found);
  CHECK(error_of([] { NpzFile::open("no/such/x.npz"); }).code() == ErrorCode::not_found);
}

TEST_CASE("a folder or a pipe is no file") {
  TemporaryFolder folder;
  CHECK(message_of([] { FileBytes::read("tests"); }) == "cannot read 'tests': it is a directory; name a file");
  std::string pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(message_of([&] { FileBytes::read(pipe); }) == "cannot read '" + pipe + "': it is no regular file; name a file");
}

TEST_CASE("a path that cannot be written is named") {
  Tensor t(f32, {2});
  CHECK(message_of([&] { write_npy("no/such/x.npy", t); }) ==
        "cannot create 'no/such/x.npy': No such file or directory; nothing was changed\n"
        "  while writing the .npy file 'no/such/x.npy'");
  CHECK(message_of([&] {
          write_npy("tests", t);
        }).starts_with("cannot write 'tests': Is a directory; nothing was changed"));
  CHECK(message_of([&] {
          write_safetensors("README.md/x", {});
        }).starts_with("cannot create 'README.md/x': Not a directory"));
  CHECK(message_of([&] {
          write_npz("no/x.npz", {});
        }).starts_with("cannot create 'no/x.npz': No such file or directory"));
}

TEST_CASE("a full device is an error") {
  if (access("/dev/full", W_OK) != 0) {
    MESSAGE("skipped: this system has no /dev/full");
    return;
  }
  CHECK(message_of([] {
          write_npy("/dev/full", Tensor(f32, {2}));
        }).starts_with("cannot write '/dev/full': No space left on device"));
}

TEST_CASE("a device is written to, never replaced") {
  write_npy("/dev/null", Tensor(f32, {2}));
  CHECK(message_of([] {
          write_npz("/dev/null", {{"x", Tensor(f32, {2})}});
        }).starts_with("cannot write '/dev/null': this format needs a regular file; name one"));
  struct stat status {};
  REQUIRE(stat("/dev/null", &status) == 0);
  CHECK(S_ISCHR(status.st_mode));
}

TEST_CASE("a file that cannot be written whole leaves the old one as it was, and nothing beside it") {
  TemporaryFolder folder;
  std::string path = folder / "x";
  put_file(path, "old");
  // A limit on the size of files stands for a disk that is full.
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 50'000;
  auto ignore = std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  Tensor large(f32, {100'000});
  std::string npy, safetensors, npz;
  try {
    npy = message_of([&] { write_npy(path, large); });
    safetensors = message_of([&] { write_safetensors(path, {{"x", large}}); });
    npz = message_of([&] { write_npz(path, {{"x", large}}); });
  } catch (...) {
    CHECK(false);
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, ignore);
  CHECK(npy == "cannot write '" + path + "': File too large; nothing was changed\n  while writing the .npy file '" +
                   path + "'");
  CHECK(safetensors.starts_with("cannot write '" + path + "': File too large; nothing was changed"));
  CHECK(npz.starts_with("the archive cannot be written: "));
  CHECK(file_content(path) == "old");
  CHECK(folder.file_count() == 1);
}

TEST_CASE("a written file follows a link and keeps the permissions of the one it replaces") {
  TemporaryFolder folder;
  put_file(folder / "real", "old");
  REQUIRE(chmod((folder / "real").c_str(), 0640) == 0);
  std::filesystem::create_symlink("real", folder / "link");
  write_npy(folder / "link", Tensor(f32, {2}));
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(read_npy(folder / "real") == Tensor(f32, {2}));
  struct stat status {};
  REQUIRE(stat((folder / "real").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0640);
}

TEST_CASE("only pages of the mapping itself can be released") {
  auto file = FileBytes::map("README.md");
  std::byte elsewhere[16] = {};
  CHECK(message_of([&] { file->release(elsewhere); }) ==
        "the range to release does not lie in the mapping of 'README.md'");
  file->release({});
}
