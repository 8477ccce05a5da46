// Large pages, for memory that is read from end to end: each page costs an address translation, and the processor's
// prefetching ends at the end of a page.
#pragma once

#include <cstddef>

namespace rlx {

/// Asks the system to back `bytes` bytes at `data` with large pages (Linux: transparent huge pages, where the
/// administrator lets programs ask for them). It is best called before the memory is first written. Blocks below a few
/// megabytes are left alone.
void prefer_large_pages(void* data, size_t bytes) noexcept;

}  // namespace rlx
