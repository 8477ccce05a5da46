// How much memory this process may have.
#pragma once

#include <cstddef>

namespace rlx {

/// The least of the machine's memory, the process's limit of addresses and its control group's limit, in bytes. A limit
/// that the system does not tell is none.
size_t memory_limit();

}  // namespace rlx
