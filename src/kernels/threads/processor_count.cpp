// See the header.
#include "kernels/threads/processor_count.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <ios>
#include <iterator>
#include <limits>
#include <locale>
#include <string>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace rlx::kernels {
namespace {

namespace fs = std::filesystem;
constexpr double kNoQuota = std::numeric_limits<double>::infinity();

double processors_of(double quota, double period) { return quota > 0 && period > 0 ? quota / period : kNoQuota; }

/// A file whose numbers are written as in C, whatever the program's locale is.
std::ifstream opened(const fs::path& path) {
  std::ifstream file(path);
  file.imbue(std::locale::classic());
  return file;
}
double quota_of_version_2(const fs::path& group) {
  double quota = 0, period = 0;
  std::ifstream file = opened(group / "cpu.max");  // "max 100000" has no number, and no quota
  return file >> quota >> period ? processors_of(quota, period) : kNoQuota;
}
double quota_of_version_1(const fs::path& group) {
  double quota = 0, period = 0;  // a quota of -1 is none
  return opened(group / "cpu.cfs_quota_us") >> quota && opened(group / "cpu.cfs_period_us") >> period
             ? processors_of(quota, period)
             : kNoQuota;
}

/// Of a group and all above it. A container often sees its own group as the mounted folder, while the path is the
/// host's: groups that do not exist here have no file, and the mounted folder is always looked at.
template <class Quota>
double least_quota(const fs::path& mounted, std::string_view group, Quota quota) {
  double least = quota(mounted);
  fs::path within = fs::path(group).relative_path();
  if (std::find(within.begin(), within.end(), "..") != within.end()) return least;  // a group outside of this container
  for (; !within.empty(); within = within.parent_path()) least = std::min(least, quota(mounted / within));
  return least;
}

/// Whether one of the names, which have commas between them, is "cpu".
bool has_cpu(std::string_view controllers) {
  while (true) {
    const size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == "cpu") return true;
    if (comma == std::string_view::npos) return false;
    controllers.remove_prefix(comma + 1);
  }
}

double processors_by_quota() {
#if defined(__linux__)
  try {
    std::ifstream file("/proc/self/cgroup");
    const std::string membership{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    return control_group_processors(membership, "/sys/fs/cgroup");
  } catch (const std::ios_base::failure&) {  // a file that opens and cannot be read
    return kNoQuota;
  }
#else
  return kNoQuota;
#endif
}

}  // namespace

double control_group_processors(std::string_view membership, const fs::path& mounted) {
  double least = kNoQuota;
  while (!membership.empty()) {  // a line is "number:controllers:/group"; version 2 has no controllers in it
    const size_t end = std::min(membership.find('\n'), membership.size());
    std::string_view line = membership.substr(0, end);
    membership.remove_prefix(std::min(end + 1, membership.size()));
    const size_t first = line.find(':'), second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) {
      least = std::min(least, least_quota(mounted, group, quota_of_version_2));
      least = std::min(least, least_quota(mounted / "unified", group, quota_of_version_2));  // beside version 1
    } else if (has_cpu(controllers)) {
      for (const std::string_view folder : {controllers, std::string_view("cpu")})
        least = std::min(least, least_quota(mounted / folder, group, quota_of_version_1));
    }
  }
  return least;
}

int processor_count() {
  int allowed = 0;
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) allowed = CPU_COUNT(&set);
#endif
  if (allowed < 1) allowed = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  static const double quota = processors_by_quota();
  return static_cast<int>(std::max(1.0, std::min<double>(allowed, std::ceil(quota))));
}

}  // namespace rlx::kernels
