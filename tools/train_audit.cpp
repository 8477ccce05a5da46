// `rlx train --audit`; see tools/train_loop.h.
#include <cmath>

#include "rlx/autodiff.h"
#include "rlx/element.h"
#include "rlx/op_def.h"
#include "rlx/ops.h"
#include "tools/output.h"
#include "tools/text_table.h"
#include "tools/train_loop.h"
#include "tools/train_session.h"

namespace rlx::tools {
namespace {

/// For each node of `g`: does an input or a param come into it?
std::vector<bool> depends_on_leaves(const Graph& g) {
  std::vector<bool> depends;
  for (const Node& node : g.nodes()) {
    bool leaf = node.op == &op::input || node.op == &op::param;
    depends.push_back(leaf || std::any_of(node.operands.begin(), node.operands.end(),
                                          [&](Ref r) { return depends[static_cast<size_t>(r.node)]; }));
  }
  return depends;
}

bool is_frozen(const std::string& name, const Strings& frozen) {
  return std::any_of(frozen.begin(), frozen.end(), [&](const std::string& f) {
    return f.ends_with('*') ? name.starts_with(std::string_view(f).substr(0, f.size() - 1)) : f == name;
  });
}

}  // namespace

void audit(const TrainRun& run) {
  const TrainSettings& s = run.settings;
  check_settings(s);
  TrainModel model = make_model(s);
  if (!s.activation_scales.empty()) write_out("The model is looked at in floats, without its fake quantization.\n");
  else require_nothing_beside(model);
  Names trained;
  for (Ref r : model.loss.params())
    if (const Node& param = model.loss.node(r); is_float(param.types[0].dtype) && !is_frozen(param.name, s.freeze))
      trained.push_back(param.name);
  if (trained.empty()) fail(ErrorCode::invalid_argument, "no param is trained");
  Graph gradients = value_and_grad(model.loss, trained);
  CompiledGraph compiled = Session(Device::parse(run.device), {run.threads}).compile(gradients);
  for (const auto& param : compiled.signature().params) compiled.set_param(param.name, model.initial.at(param.name));
  LoaderOptions options = loader_options(model, s);
  Loader loader(model.data.train, options);
  auto inputs = inputs_of(gradients, loader.next().tensors, s.seed, 0);
  std::vector<Tensor> results = compiled.run(inputs);

  auto depends = depends_on_leaves(gradients);
  size_t first = gradients.outputs().size() - trained.size();
  TextTable table("llrl");
  table.add({"param", "type", "gradient norm", ""});
  std::string unreached;
  double all = 0;
  for (size_t i = 0; i < trained.size(); ++i) {
    const Tensor& gradient = results[first + i];
    double sum = 0;
    for (size_t e = 0; e < gradient.element_count(); ++e) sum += std::pow(load_number(gradient, e), 2);
    // A gradient of zeros, whatever the batch and the params are.
    bool is_unreached = sum == 0 && !depends[static_cast<size_t>(gradients.outputs()[first + i].ref.node)];
    if (is_unreached) unreached += (unreached.empty() ? "'" : ", '") + trained[i] + "'";
    all += sum;
    table.add({trained[i], text_of(gradient.type()), number_text(static_cast<float>(std::sqrt(sum))),
               is_unreached ? "unreached"
               : sum == 0   ? "zero for this batch"
                            : ""});
  }
  table.add({"all", "", number_text(static_cast<float>(std::sqrt(all))), ""});
  write_out(table.text());
  flush_out();
  if (!unreached.empty() && !s.allow_unused)
    fail(ErrorCode::invalid_argument, "no gradient reaches ", unreached,
         "; freeze what is not to be trained (--freeze), or pass --allow-unused");
}

}  // namespace rlx::tools
