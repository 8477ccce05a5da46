// RLX_STATIC_TLS before a thread-local variable on the path of every run of a graph: the variable lies at a fixed
// distance from the thread's pointer, where it costs one load. By default a shared library calls a function for each
// access, because it may be loaded late (dlopen). One such variable puts all thread-local variables of the library, of
// its Rust part too, into the room that glibc keeps free for libraries loaded late, some 1,600 bytes for all of them:
// so there may be no large ones (tests/api/thread_local_bytes.py). Other C libraries keep no room.
#pragma once

#include <version>  // defines __GLIBC__

#if defined(__GLIBC__)
#define RLX_STATIC_TLS [[gnu::tls_model("initial-exec")]]
#else
#define RLX_STATIC_TLS
#endif
