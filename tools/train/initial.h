// First values of params: those of a file, and what is drawn for the others. Built-in models and graphs from files draw
// as PyTorch draws those of its layers (uniform within 1 / sqrt(fan_in)), char_lm normal numbers of that variance.
#pragma once

#include "rlx/element.h"
#include "tools/train/models.h"

namespace rlx::tools {

// What the streams of random numbers are for; those of the loader have lower numbers.
constexpr uint32_t kParams = 16;

/// Draws a value for each param of a graph that has none.
class Initial {
 public:
  explicit Initial(const TrainSettings& s) : seed_(static_cast<uint64_t>(s.seed)) {
    if (!s.params.empty()) given_ = SafetensorsFile::open(with_home(s.params)).tensors();
  }
  template <class Draw>  // of (name, type, random) -> double
  void fill(TrainModel& model, Draw draw) {
    const Graph& g = model.loss;
    NamedTensors& all = model.initial;
    uint32_t index = 0;
    for (Ref r : g.params()) {
      const Node& param = g.node(r);
      RandomStream random(seed_, kParams, index++);
      if (auto found = given_.find(param.name); found != given_.end()) {
        all.emplace(param.name, found->second);
        continue;
      }
      const Type& type = param.types[0];
      if (!is_float(type.dtype) || !is_static(type.dims))
        fail(ErrorCode::invalid_argument, "the param '", param.name, "' is ", type,
             ", for which no value can be drawn; give a file that has it: --params FILE.safetensors");
      Tensor t(type.dtype, shape_of(type.dims));
      for (size_t i = 0; i < t.element_count(); ++i) store<double>(t, i, draw(param.name, t.shape(), random));
      all.emplace(param.name, std::move(t));
    }
    for (const auto& [name, value] : given_)
      if (!all.contains(name)) model.beside.emplace(name, value);
  }

 private:
  uint64_t seed_;
  NamedTensors given_;
};

}  // namespace rlx::tools
