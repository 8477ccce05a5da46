// See the header.
#include "base/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

namespace rlx {

size_t memory_limit() {
  size_t limit = SIZE_MAX;
  const auto pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) limit = static_cast<size_t>(pages) * static_cast<size_t>(page);
  rlimit addresses{};
  if (getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
    limit = std::min(limit, static_cast<size_t>(addresses.rlim_cur));
  // Of control groups, version 2 and version 1, as a container sees its own. "max" is no number.
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    size_t bytes = 0;
    if (std::ifstream(path) >> bytes) limit = std::min(limit, bytes);
  }
  return limit;
}

}  // namespace rlx
