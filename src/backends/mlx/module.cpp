// See the header.
#include "backends/mlx/module.h"

#include <mlx/compile.h>
#include <mlx/device.h>
#include <mlx/version.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <variant>

#include "backends/mlx/executable.h"
#include "backends/mlx/memory.h"
#include "rlx/op_def.h"
#include "rlx/ops/op.h"

namespace rlx::mlx_backend {
namespace {

class MlxProgram final : public Program {
 public:
  MlxProgram(Graph legal, Mode mode) : graph_(std::move(legal)), mode_(mode) {}
  const Graph& graph() const override { return graph_; }
  std::unique_ptr<Executable> load(const LoadOptions& options) const override {
    return make_executable(graph_, mode_, options);
  }

 private:
  Graph graph_;
  Mode mode_;
};

/// Whether the executable, or the host, takes a node that no row takes.
bool is_taken_without_row(const Question& q) {
  return is_control(q.node, q.operands) || (q.node.op->is_primitive() && q.node.op->reference);
}

class MlxModule final : public Module {
 public:
  MlxModule() {
    // On a GPU with tensor cores MLX would round the operands of f32 products to 10 bits. Who wants that sets it.
    ::setenv("MLX_ENABLE_TF32", "0", 0);
    // Fused kernels for the CPU would be written as C++ and compiled by a g++ at run time, if there is one.
    if (!has_gpu()) mx::set_compile_mode(mx::CompileMode::no_fuse);
  }
  const void* ops() const override { return &op::input; }
  std::string description() const override {
    const auto& about = mx::device_info(has_gpu() ? mx::Device::gpu : mx::Device::cpu);
    std::string text = text_of("MLX ", mx::version(), " on ");
    const auto word = [&](const char* key) {
      auto found = about.find(key);
      return found != about.end() && std::holds_alternative<std::string>(found->second)
                 ? std::get<std::string>(found->second)
                 : std::string();
    };
    const std::string name = word("device_name");
    text += name.empty() ? (has_gpu() ? "a GPU" : "the processor") : name;
    if (!has_gpu()) text += " (its CPU build: no GPU)";
    for (const char* key : {"memory_size", "total_memory"})
      if (auto found = about.find(key); found != about.end() && std::holds_alternative<size_t>(found->second))
        return text + text_of(", ", std::get<size_t>(found->second) >> 30, " GiB");
    return text;
  }
  std::string unusable() const override {
    // Its C++ interface changes from version to version. A version from a checkout has more words behind it.
    const std::string built_with = text_of(MLX_VERSION_MAJOR, '.', MLX_VERSION_MINOR, '.', MLX_VERSION_PATCH);
    if (std::string_view(mx::version()).starts_with(built_with)) return "";
    return text_of("MLX is ", mx::version(), ", and its module was built with ", built_with);
  }
  bool has_gpu() const override { return mx::is_available(mx::Device::gpu); }

  std::shared_ptr<DeviceMemory> memory() const override { return mlx_memory(); }
  void set_background(Background background) override { background_of_device() = std::move(background); }

  Target target() const override {
    Target target{"mlx", [](const Question& q) -> std::optional<std::string> {
                    for (Types types : {q.operands, Types(q.node.types)})
                      for (const Type& t : types)
                        for (const Dim& d : t.dims)
                          if (d.is_static() && d.value() > std::numeric_limits<int>::max())
                            return text_of(t, " has an extent of more than 31 bits, with which MLX counts");
                    std::string why;
                    if (find_row(q, &why) || is_taken_without_row(q)) return std::nullopt;
                    return why;
                  }};
    target.interprets = [](const Question& q) { return !find_row(q) && !is_control(q.node, q.operands); };
    target.remark = [](const Question& q) -> std::string {
      if (is_control(q.node, q.operands)) return "the host decides, and MLX runs the bodies";
      const Row* row = find_row(q);
      return row ? text_of(row->becomes, row->on == On::cpu ? ", on the processor" : "") : std::string();
    };
    target.detail = text_of("MLX ", mx::version(), has_gpu() ? ", on a GPU" : ", on the processor");
    return target;
  }
  std::unique_ptr<Program> lower(Graph legal, const std::string& mode) const override {
    const auto names = names_of(Mode{});
    return std::make_unique<MlxProgram>(std::move(legal),
                                        static_cast<Mode>(std::find(names.begin(), names.end(), mode) - names.begin()));
  }
  void write_function(Graph legal, const NamedTensors& params, const std::string& path) const override {
    mlx_backend::write_function(std::move(legal), params, path);
  }
};

}  // namespace
}  // namespace rlx::mlx_backend

extern "C" __attribute__((visibility("default"))) rlx::mlx_backend::Module* rlx_mlx_module(int version) {
  if (version != rlx::mlx_backend::kVersion) return nullptr;
  static auto* module = new rlx::mlx_backend::MlxModule;  // never destroyed, as MLX's threads are not
  return module;
}
