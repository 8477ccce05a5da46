// See the header.
#include "tools/used_ops.h"

#include <array>
#include <filesystem>

#include "ir/used_ops.h"
#include "rlx/language_model.h"
#include "rlx/models.h"
#include "rlx/version.h"
#include "tools/model_graph.h"
#include "tools/model_params.h"

namespace rlx::tools {
namespace {

void use(const std::string& model) {
  const Device cpu = Device::cpu();
  const std::filesystem::path config = std::filesystem::path(model) / "config.json";
  std::error_code error;
  if (TextEncoder::is_one(model)) {
    const std::array<std::string, 1> sentence = {"A sentence."};
    SentenceEncoder::load(model, {.device = cpu}).embed(sentence);
  } else if (model.ends_with(".gguf") || std::filesystem::exists(config, error)) {
    // Its first tokens at once, then one behind them: the two graphs of a model that writes.
    const LanguageModel language_model = LanguageModel::load(model, {.device = cpu});
    LanguageModel::Sequence sequence = language_model.sequence();
    sequence.logits(std::array<int32_t, 2>{0, 0});
    sequence.logits(0);
  } else {
    const Graph graph = load_model(model);
    CompiledGraph compiled = Session(cpu).compile(graph);
    for (const auto& [name, value] : read_params(signature_of(graph), model, {})) compiled.set_param(name, value);
  }
}

}  // namespace

std::string used_ops_text(const std::vector<std::string>& models) {
  UsedOps used;
  std::string names;
  for (const std::string& model : models) {
    with_context([&] { return text_of("collecting the ops of '", model, "'"); }, [&] { use(model); });
    names += (names.empty() ? "" : ", ") + (std::filesystem::path(model) / "").parent_path().filename().string();
  }
  std::string text =
      text_of("# Ops of ", names, " on the CPU, by rlx ", version(), ": a list for RLX_OPS (docs/building.md).\n");
  for (std::string_view name : used.names()) text += std::string(name) + "\n";
  return text;
}

}  // namespace rlx::tools
