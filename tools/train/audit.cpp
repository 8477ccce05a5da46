// `rlx train --audit`; see tools/train/loop.h.
#include <cmath>

#include "rlx/autodiff.h"
#include "rlx/element.h"
#include "rlx/op_def.h"
#include "rlx/ops.h"
#include "tools/output.h"
#include "tools/quantization.h"
#include "tools/text_table.h"
#include "tools/train/loop.h"
#include "tools/train/session.h"

namespace rlx::tools {
namespace {

/// Those of the params whose gradient is zeros, whatever the batch and the params are: no input and no param comes into
/// it.
std::set<std::string> unreached_of(const Graph& loss, const Names& params) {
  if (params.empty()) return {};
  Graph gradients = value_and_grad(loss, params);
  std::vector<bool> depends;
  for (const Node& node : gradients.nodes()) {
    bool leaf = node.op == &op::input || node.op == &op::param;
    depends.push_back(leaf || std::any_of(node.operands.begin(), node.operands.end(),
                                          [&](Ref r) { return depends[static_cast<size_t>(r.node)]; }));
  }
  std::set<std::string> unreached;
  size_t first = gradients.outputs().size() - params.size();
  for (size_t i = 0; i < params.size(); ++i)
    if (!depends[static_cast<size_t>(gradients.outputs()[first + i].ref.node)]) unreached.insert(params[i]);
  return unreached;
}

double sum_of_squares(const Tensor& t) {
  double sum = 0;
  for (size_t i = 0; i < t.element_count(); ++i) sum += std::pow(load_number(t, i), 2);
  return sum;
}

/// Of the first batch, by the session that training would begin with: its quantizers, its groups, its precision.
NamedTensors first_gradients(const TrainRun& run, TrainModel& model) {
  const TrainSettings& s = run.settings;
  Session device(Device::parse(run.device), {run.threads});
  quantized_training(model, s, device);
  TrainConfig config = train_config(s, model, 1);
  config.allow_unused = true;  // they are to be listed
  TrainingSession session(model.loss, model.initial, std::move(config), device);
  Loader loader(model.data.train, loader_options(model, s));
  auto inputs = inputs_of(model.loss, loader.next().tensors, s.seed, 0);
  while (session.pending_accumulation() == 0) session.accumulate(inputs);  // f16 finds its scale first
  return session.pending_gradients();
}

}  // namespace

void audit(const TrainRun& run) {
  const TrainSettings& s = run.settings;
  check_settings(s);
  TrainModel model = make_model(s);
  NamedTensors gradients = first_gradients(run, model);
  Names zeros;
  for (const auto& [name, gradient] : gradients)
    if (sum_of_squares(gradient) == 0) zeros.push_back(name);
  auto unreached = unreached_of(model.loss, zeros);

  TextTable table("llrl");
  table.add({"param", "type", "gradient norm", ""});
  std::string names;
  double all = 0;
  for (Ref r : model.loss.params()) {
    auto found = gradients.find(model.loss.node(r).name);
    if (found == gradients.end()) continue;  // frozen, or no float
    const auto& [name, gradient] = *found;
    double sum = sum_of_squares(gradient);
    all += sum;
    if (unreached.contains(name)) names += (names.empty() ? "'" : ", '") + name + "'";
    table.add({name, text_of(gradient.type()), number_text(static_cast<float>(std::sqrt(sum))),
               unreached.contains(name) ? "unreached"
               : sum == 0               ? "zero for this batch"
                                        : ""});
  }
  table.add({"all", "", number_text(static_cast<float>(std::sqrt(all))), ""});
  write_out(table.text());
  flush_out();
  if (!names.empty() && !s.allow_unused)
    fail(ErrorCode::invalid_argument, "no gradient reaches ", names,
         "; freeze what is not to be trained (--freeze), or pass --allow-unused");
}

}  // namespace rlx::tools
