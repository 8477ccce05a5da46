// See the header.
#include "kernels/memory/cache_sizes.h"

#if defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(__unix__)
#include <unistd.h>
#endif

namespace rlx::kernels {
namespace {

CacheSizes read_cache_sizes() noexcept {
  CacheSizes sizes;
  const auto replace = [](int64_t& size, int64_t told) {
    if (told > 0) size = told;
  };
#if defined(__APPLE__)
  const auto told_by_system = [](const char* name) -> int64_t {
    int64_t value = 0;
    size_t bytes = sizeof value;
    return sysctlbyname(name, &value, &bytes, nullptr, 0) == 0 ? value : 0;
  };
  replace(sizes.l2_bytes, told_by_system("hw.l2cachesize"));
  replace(sizes.l3_bytes, told_by_system("hw.l3cachesize"));
#elif defined(_SC_LEVEL2_CACHE_SIZE) && defined(_SC_LEVEL3_CACHE_SIZE)
  replace(sizes.l2_bytes, sysconf(_SC_LEVEL2_CACHE_SIZE));
  replace(sizes.l3_bytes, sysconf(_SC_LEVEL3_CACHE_SIZE));
#else
  static_cast<void>(replace);
#endif
  return sizes;
}

}  // namespace

CacheSizes cache_sizes() noexcept {
  static const CacheSizes sizes = read_cache_sizes();
  return sizes;
}

}  // namespace rlx::kernels
