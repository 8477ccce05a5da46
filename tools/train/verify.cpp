// See the header.
#include "tools/train/verify.h"

#include "rlx/element.h"
#include "tools/output.h"
#include "tools/train/session.h"

namespace rlx::tools {
namespace {

/// Sums over batches; a mean counts by the number of its examples.
class Totals {
 public:
  void add(std::span<const Tensor> outputs, const Graph& g, int64_t examples) {
    sums_.resize(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].rank() == 0 && is_float(outputs[i].dtype()))
        sums_[i] += load_number(outputs[i], 0) * (g.outputs()[i].name == "correct" ? 1 : static_cast<double>(examples));
    examples_ += examples;
  }
  double mean(size_t output) const { return sums_[output] / static_cast<double>(examples_); }

 private:
  std::vector<double> sums_;
  int64_t examples_ = 0;
};

int64_t examples_in(const Loader::Batch& batch) { return batch.tensors.at(0).second.shape().at(0); }

}  // namespace

TestMeans test_means(const CompiledGraph& tested, const TrainModel& model, const TrainSettings& s, int64_t step) {
  Loader all = test_loader(model, s);
  Totals totals;
  for (int64_t i = 0; i < all.batches_per_epoch(); ++i) {
    Loader::Batch batch = all.next();
    int64_t examples = examples_in(batch);
    totals.add(tested.run(inputs_of(model.tested, std::move(batch.tensors), s.seed, step)), model.tested, examples);
  }
  TestMeans means{totals.mean(0)};
  for (size_t i = 1; model.answers > 0 && i < model.tested.outputs().size(); ++i)
    if (model.tested.outputs()[i].name == "correct")
      means.accuracy = totals.mean(i) / static_cast<double>(model.answers);
  return means;
}

std::string TestMeans::text() const {
  return "loss " + fixed_text(loss, 4) + (accuracy ? "  accuracy " + fixed_text(100 * *accuracy, 2) + " %" : "");
}

}  // namespace rlx::tools
