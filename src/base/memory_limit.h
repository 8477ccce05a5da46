// How much memory this process may have.
#pragma once

#include <cstddef>

namespace rlx {

/// The least of the machine's memory, the process's limit of addresses and its control group's limit, in bytes. A limit
/// that the system does not tell is ignored; without any it is SIZE_MAX. It is the whole, not what is free.
size_t memory_limit();

}  // namespace rlx
