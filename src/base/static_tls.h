// RLX_STATIC_TLS before a thread-local variable that every run of a graph reads: it lies at a fixed distance from the
// thread's pointer, where it costs one load. By default a shared library calls a function for each access, because it
// may be loaded late (dlopen); for those glibc keeps some hundred bytes free, so only a few small variables may have
// this. Other C libraries keep none.
#pragma once

#include <version>  // defines __GLIBC__

#if defined(__GLIBC__)
#define RLX_STATIC_TLS [[gnu::tls_model("initial-exec")]]
#else
#define RLX_STATIC_TLS
#endif
