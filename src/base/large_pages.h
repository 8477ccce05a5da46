// Memory that is read from end to end, in pages as large as the system has them: each page costs an address
// translation, and prefetching by the processor ends where one ends.
#pragma once

#include <cstddef>

namespace rlx {

/// Asks that `bytes` at `data` be backed by large pages (Linux: transparent huge pages, where the administrator lets
/// programs ask). Best asked before the memory is first written; blocks below some megabytes are left alone.
void prefer_large_pages(void* data, size_t bytes) noexcept;

}  // namespace rlx
