// What framework.mm uses of the system's names and numbers.
#pragma once

#include <stddef.h>

extern "C" int sysctlbyname(const char* name, void* old, size_t* old_size, void* now, size_t now_size);
