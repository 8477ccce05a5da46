// See the header.
#include "tools/plugins.h"

#include <dlfcn.h>

#include <filesystem>

#include "rlx/error.h"

namespace rlx::tools {

void load_plugins(const std::vector<std::string>& paths) {
  for (const std::string& path : paths)
    with_context([&] { return "loading '" + path + "'"; },
                 [&] {
                   // A word without a slash would be looked for among the system's libraries.
                   void* library = dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
                   const char* why = library ? nullptr : dlerror();
                   if (!library) fail(ErrorCode::io, "it is no library that can be loaded: ", why ? why : "no reason");
                   auto* registers = reinterpret_cast<void (*)()>(dlsym(library, "rlx_register"));
                   if (!registers)
                     fail(ErrorCode::not_found,
                          "it has no function rlx_register; declare it as extern \"C\" void "
                          "rlx_register(), and register ops and kernels there");
                   registers();
                 });
}

}  // namespace rlx::tools
