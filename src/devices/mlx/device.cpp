// See the header. A program that runs nothing on MLX never loads it: the backend is a library of its own, beside ours
// in the folder rlx/.
#include "devices/mlx/device.h"
#include "devices/mlx/function.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include "backends/mlx/module.h"
#include "compile/pipeline.h"
#include "ir/rewrite.h"
#include "rlx/ops/op.h"
#include "runtime/work_queue.h"

namespace rlx {
namespace {

constexpr std::array<std::string_view, 3> kModes{"lazy", "eager", "compiled"};

struct Opened {
  mlx_backend::Module* module = nullptr;
  std::string why;  // it cannot be used
};

/// Each library of ours has a module that is linked to it: librlx_mlx, and librlx_mlx_c of librlx_c.
std::string path_of_module() {
  Dl_info about{};
  if (dladdr(reinterpret_cast<void*>(&make_mlx_device), &about) == 0 || !about.dli_fname) return "";
  std::error_code error;
  const std::filesystem::path ours = std::filesystem::canonical(about.dli_fname, error);
  if (error) return "";
  const bool is_c = ours.filename().string().starts_with("librlx_c.");
  return (ours.parent_path() / "rlx" / (is_c ? "librlx_mlx_c.so" : "librlx_mlx.so")).string();
}

Opened open_module() {
  const std::string path = path_of_module();
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error))
    return {nullptr, "this build has no MLX: scripts/deps installs it, and -DRLX_MLX=ON builds with it"};
  const auto failure = [](const std::string& file) -> Opened {
    const char* why = dlerror();
    return {nullptr,
            text_of("MLX cannot be loaded: ", why ? why : file, "; RLX_MLX_LIBRARY names its library (libmlx)")};
  };
  // The loader takes a library of this name that is loaded already.
  if (const char* mlx = std::getenv("RLX_MLX_LIBRARY"); mlx && *mlx)
    if (!dlopen(mlx, RTLD_NOW | RTLD_LOCAL)) return failure(mlx);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return failure(path);
  auto* entry = reinterpret_cast<mlx_backend::Module* (*)(int)>(dlsym(library, mlx_backend::kEntry));
  mlx_backend::Module* module = entry ? entry(mlx_backend::kVersion) : nullptr;
  if (!module) return {nullptr, text_of(path, " is of another version of RLX; build it again")};
  if (module->ops() != &op::input)
    return {nullptr, text_of(path, " uses another copy of RLX than this program; build both again")};
  if (std::string why = module->unusable(); !why.empty()) return {module, why};
  module->set_background([](std::string name, std::function<void()> work, std::span<const Event> after,
                            std::shared_ptr<CancelFlag> cancel) {
    static WorkQueue queue("mlx", std::max(2U, std::thread::hardware_concurrency()), false);
    return queue.add(std::move(name), std::move(work), after, std::move(cancel));
  });
  return {module, ""};
}
const Opened& opened() {
  static const Opened once = open_module();
  return once;
}
mlx_backend::Module& module_or_fail() {
  if (!opened().why.empty()) fail(ErrorCode::unsupported, opened().why);
  return *opened().module;
}

class MlxDevice final : public Backend {
 public:
  explicit MlxDevice(const Device& device) : name_(device.name()) {
    if (!device.options().empty()) {
      mode_ = device.options().back();
      return;
    }
    const char* text = std::getenv("RLX_MLX_MODE");
    mode_ = text && *text ? text : "lazy";
    if (std::find(kModes.begin(), kModes.end(), mode_) == kModes.end())
      fail(ErrorCode::invalid_argument, "RLX_MLX_MODE is '", mode_, "'; it is lazy, eager or compiled");
  }
  std::string name() const override { return name_; }
  std::string description() const override { return text_of(module_or_fail().description(), ", ", mode_); }
  std::string unavailable() const override { return opened().why; }
  bool accelerates() const override { return opened().why.empty() && opened().module->has_gpu(); }
  Target target() const override {
    if (!opened().why.empty())
      return {name_, [](const Question&) -> std::optional<std::string> { return opened().why; }};
    Target target = opened().module->target();
    target.name = name_;
    target.detail += ", " + mode_;
    return target;
  }
  std::shared_ptr<DeviceMemory> memory() const override {
    return opened().why.empty() ? opened().module->memory() : nullptr;
  }
  bool has_own_memory() const override { return true; }
  // As the module's memory says it, which need not be opened for that.
  Memory about_memory() const override { return {"device", HostAccess::none}; }
  std::unique_ptr<Program> lower(Graph legal) const override { return module_or_fail().lower(std::move(legal), mode_); }

 private:
  std::string name_, mode_;
};

}  // namespace

void write_mlx_function(const std::string& path, const Graph& g, const NamedTensors& params, const Bindings& dims) {
  const mlx_backend::Module& module = module_or_fail();
  const Graph fixed = dims.empty() ? g : substitute(g, dims);
  Pipelined made = run_pipeline(fixed, module.target(), {});
  for (const DispatchLine& line : made.report.lines)
    if (line.verdict == Verdict::missing)
      fail(ErrorCode::unsupported, "'", g.name(), "' is no function of MLX's: '", line.op, "': ", line.reason);
  module.write_function(std::move(made.graph), params, path);
}

std::unique_ptr<Backend> make_mlx_device(const Device& device) { return std::make_unique<MlxDevice>(device); }

}  // namespace rlx
