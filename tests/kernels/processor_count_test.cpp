// Quotas of control groups, as Linux writes them for a container (docker run --cpus 1.5) and for services.
#include "kernels/threads/processor_count.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "kernels/threads/thread_pool.h"
#include "support/io_files.h"

using namespace rlx::kernels;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

}  // namespace

TEST_CASE("control groups of version 2: the least quota of the group and of those above it") {
  const rlx::test::TemporaryFolder folder;
  const fs::path mounted = folder / ".";
  CHECK(std::isinf(control_group_processors("0::/work.slice/unit.service\n", mounted)));  // no files
  write(mounted / "work.slice/unit.service/cpu.max", "max 100000\n");
  CHECK(std::isinf(control_group_processors("0::/work.slice/unit.service\n", mounted)));
  write(mounted / "work.slice/cpu.max", "350000 100000\n");
  CHECK(control_group_processors("0::/work.slice/unit.service\n", mounted) == 3.5);
  write(mounted / "work.slice/unit.service/cpu.max", "150000 100000\n");
  CHECK(control_group_processors("0::/work.slice/unit.service\n", mounted) == 1.5);
  CHECK(control_group_processors("0::/work.slice", mounted) == 3.5);
  CHECK(std::isinf(control_group_processors("0::/other\n", mounted)));
}

TEST_CASE("a container sees its group as the mounted folder, whatever its path is") {
  const rlx::test::TemporaryFolder folder;
  const fs::path mounted = folder / ".";
  write(mounted / "cpu.max", "50000 100000\n");
  for (const char* group : {"0::/\n", "0::/docker/abc\n", "0::/../../system.slice/docker-abc.scope\n"})
    CHECK(control_group_processors(group, mounted) == 0.5);
}

TEST_CASE("control groups of version 1, alone and beside version 2") {
  const rlx::test::TemporaryFolder folder;
  const fs::path mounted = folder / ".";
  const char* membership = "9:name=systemd:/a\n5:memory:/a/b\n4:cpu,cpuacct:/a/b\n0::/a\n";
  write(mounted / "memory/a/b/cpu.cfs_quota_us", "1000\n");  // another controller's folder
  write(mounted / "memory/a/b/cpu.cfs_period_us", "100000\n");
  write(mounted / "cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
  write(mounted / "cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
  CHECK(std::isinf(control_group_processors(membership, mounted)));
  write(mounted / "cpu,cpuacct/a/cpu.cfs_quota_us", "200000\n");
  write(mounted / "cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  CHECK(control_group_processors(membership, mounted) == 2);
  write(mounted / "cpu/cpu.cfs_quota_us", "120000\n");
  write(mounted / "cpu/cpu.cfs_period_us", "100000\n");
  CHECK(control_group_processors(membership, mounted) == 1.2);
  write(mounted / "unified/a/cpu.max", "70000 100000\n");
  CHECK(control_group_processors(membership, mounted) == 0.7);
}

TEST_CASE("what is no quota is none") {
  const rlx::test::TemporaryFolder folder;
  const fs::path mounted = folder / ".";
  for (const char* text : {"", "0 100000", "-5 100000", "100000", "100000 0", "many 100000", "1e999 1"}) {
    CAPTURE(text);
    write(mounted / "cpu.max", text);
    CHECK(std::isinf(control_group_processors("0::/\n", mounted)));
  }
  for (const char* membership : {"", "\n\n", "0", "0:", "0:cpuset:/", ":::::", "4:cpuacct"}) {
    CAPTURE(membership);
    write(mounted / "cpu/cpu.cfs_quota_us", "100000");
    write(mounted / "cpu/cpu.cfs_period_us", "100000");
    CHECK(std::isinf(control_group_processors(membership, mounted)));
  }
}

TEST_CASE("this process has a processor") {
  CHECK(processor_count() >= 1);
  CHECK(ThreadPool::hardware_threads() == processor_count());
}
