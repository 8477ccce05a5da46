// Shared libraries of a user's, and the functions that a backend in one of them calls.
#include <dlfcn.h>

#include <filesystem>

#include "backends/registry.h"
#include "base/user_code.h"
#include "c_api/backend/plugin_backend.h"
#include "c_api/handles.h"
#include "rlx/plugin.h"

namespace rlx {
namespace {

using c::guarded;
using c::required;

rlx_status register_table(const rlx_backend* table, rlx_error** error) {
  return guarded(error, [&] {
    const auto kept = std::make_shared<const c::PluginTable>(required(table, "table"));
    for (const std::string& option : kept->options)
      if (option.find_first_not_of("0123456789") == std::string::npos || option.find(':') != std::string::npos)
        fail(ErrorCode::invalid_argument, "the backend '", kept->name, "' has the option '", option,
             "'; an option is a word without a colon, and no number");
    BackendEntry entry{kept->name};
    entry.open = [kept](const Device& device) { return c::make_plugin_backend(c::PluginDevice::open(kept, device)); };
    entry.options = kept->options;
    entry.devices = std::max(1, kept->functions.device_count);
    register_backend(std::move(entry));
  });
}

rlx_status fail_with(rlx_error** error, rlx_status status, const char* message) {
  if (status == RLX_OK) status = RLX_INTERNAL;
  return c::store(error, status, message ? message : "");
}

int is_run_cancelled(const rlx_cancel* cancel) {
  return cancel && reinterpret_cast<const c::PluginCancel*>(cancel)->is_set();
}

const rlx_backend_api kFunctions = {sizeof kFunctions, register_table, fail_with, is_run_cancelled,
                                    c::PluginDevice::complete};

/// What the library calls that it links to; another than ours is of a second copy of RLX, whose lists nobody sees.
bool brings_rlx(void* library) {
  void* theirs = dlsym(library, "rlx_load_plugin");
  return theirs && theirs != reinterpret_cast<void*>(&rlx_load_plugin);
}

}  // namespace

void load_plugin(const std::string& path) {
  with_context(
      [&] { return "loading '" + path + "'"; },
      [&] {
        // A word without a slash would be looked for among the system's libraries, and nothing is this program itself.
        std::error_code no_folder;
        const std::string file = std::filesystem::absolute(path, no_folder).string();
        if (path.empty() || no_folder)
          fail(ErrorCode::io,
               "it is no library that can be loaded: ", path.empty() ? "the path is empty" : no_folder.message());
        void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
        const char* why = library ? nullptr : dlerror();
        if (!library) fail(ErrorCode::io, "it is no library that can be loaded: ", why ? why : "no reason");
        if (brings_rlx(library))
          fail(ErrorCode::unsupported,
               "it is linked to another copy of RLX than this process uses, and would register "
               "what it brings there; a backend needs rlx/backend.h alone, and no library to link to");
        auto* ops = reinterpret_cast<void (*)()>(dlsym(library, "rlx_register"));
        auto* backends = reinterpret_cast<rlx_register_backends_function>(dlsym(library, "rlx_register_backends"));
        if (!ops && !backends)
          fail(ErrorCode::not_found,
               "it has no function rlx_register_backends, which registers backends (rlx/backend.h), and none called "
               "rlx_register; declare that as extern \"C\" void rlx_register(), and register ops and kernels there");
        if (ops) user_code("the library's rlx_register", ops);
        if (!backends) return;
        struct Stored {  // also when the function stores an error and throws
          rlx_error* error = nullptr;
          ~Stored() { rlx_error_free(error); }
        } stored;
        const rlx_status status =
            user_code("the library's rlx_register_backends", [&] { return backends(&kFunctions, &stored.error); });
        if (status != RLX_OK)
          fail(c::code_of(status, ErrorCode::internal),
               stored.error ? stored.error->message : "its rlx_register_backends failed, and gave no reason");
      });
}

}  // namespace rlx

extern "C" {

const rlx_backend_api* rlx_backend_functions(void) { return &rlx::kFunctions; }

rlx_status rlx_load_plugin(const char* path, rlx_error** error) {
  return rlx::c::guarded(error, [&] { rlx::load_plugin(rlx::c::required_text(path, "path")); });
}

}  // extern "C"
