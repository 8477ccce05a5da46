// Models layer by layer: a builder whose params are named as weight files name them, and their values from such a file.
// Blocks of several layers stand beside it: rlx/models/transformer.h, vision.h, recurrent.h.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rlx/io.h"
#include "rlx/ops.h"
#include "rlx/session.h"

namespace rlx {

/// Builds a model layer by layer. Params are named after the layer: `linear(x, "dense", 4)` within the scope "head"
/// makes "head.dense.weight" and "head.dense.bias"; nodes carry the same names into reports and errors.
class ModelBuilder {
 public:
  explicit ModelBuilder(Graph& graph, DType dtype = f32) : graph_(graph), dtype_(dtype) {}
  Graph& graph() const { return graph_; }
  /// Of all params.
  DType dtype() const { return dtype_; }

  /// Runs `body` with `name` in front of all names.
  template <class Body>
  auto within(const std::string& name, Body body) {
    struct Leave {
      ModelBuilder& builder;
      std::string outer;
      ~Leave() { builder.prefix_ = outer, builder.graph_.set_scope(outer); }
    } leave{*this, prefix_};
    prefix_ = full_name(name);
    graph_.set_scope(prefix_);
    return body();
  }

  /// The param of that name, which is made by the first call.
  Value param(const std::string& name, Dims dims);
  /// Rows of a table [rows, width] by integer indices of any shape.
  Value embedding(Value indices, const std::string& name, int64_t rows, int64_t width);
  /// x wᵀ + b; weights are [out, in], as in PyTorch.
  Value linear(Value x, const std::string& name, int64_t out, bool bias = true);
  Value layer_norm(Value x, const std::string& name, double epsilon, bool bias = true);
  Value rms_norm(Value x, const std::string& name, double epsilon);
  /// x[n, channels, ...], each channel normalized: by the running statistics, or in `training` by those of the batch.
  /// In training the running statistics move by `momentum` towards those of the batch (the variance towards the
  /// unbiased one, as in PyTorch): `output_written` declares what they become. Params: weight, bias, running_mean,
  /// running_var.
  Value batch_norm(Value x, const std::string& name, bool training, double momentum = 0.1, double epsilon = 1e-5);
  /// x[n, channels, ...], normalized over the channels of a group and all spatial dims. Params: weight, bias.
  Value group_norm(Value x, const std::string& name, int64_t groups, double epsilon = 1e-5);
  /// x[n, channels, spatial...] convolved with weight[out, channels / groups, kernel...], + bias[out].
  Value conv(Value x, const std::string& name, int64_t out, const Axes& kernel, const ConvNdAttrs& attrs = {},
             bool bias = true);
  /// The transposed convolution with weight[channels, out / groups, kernel...], + bias[out].
  Value conv_transpose(Value x, const std::string& name, int64_t out, const Axes& kernel,
                       const ConvTransposeAttrs& attrs = {}, bool bias = true);
  /// Declares as outputs the new values of params that layers write in training. To be called when the loss is
  /// declared; returns what TrainConfig::written takes.
  std::map<std::string, std::string, std::less<>> output_written();
  /// x + body(x).
  Value residual(Value x, const std::function<Value(Value)>& body) { return x + body(x); }

  struct AttentionNames {
    std::string query = "query", key = "key", value = "value", output = "dense";
  };
  /// Projections to heads (AttentionLayout::packed), attention, and the output projection, unless its name is empty.
  /// `mask` masks keys (AttentionMask::key_padding); it may be absent.
  Value self_attention(Value x, int64_t heads, Value mask, const AttentionNames& names, AttentionAttrs attrs = {});
  /// Two linear layers with an activation between.
  Value feed_forward(Value x, const std::string& up, const std::string& down, int64_t hidden, Activation activation);

 private:
  std::string full_name(const std::string& name) const {
    return prefix_.empty() ? name : name.empty() ? prefix_ : prefix_ + "." + name;
  }
  Graph& graph_;
  DType dtype_;
  std::string prefix_;
  std::map<std::string, Value> params_;
  std::vector<std::pair<std::string, Value>> written_;  // params by name, and what they become
};

/// Binds each param to the tensor of the file with `prefix` in front of its name, or else to that of its name alone.
/// f16 and bf16 become f32 where the param is. Returns the names of the tensors that no param has, in the order of the
/// file. Fails, naming the tensor, for one that is missing or of another type.
std::vector<std::string> bind_weights(CompiledGraph& compiled, const SafetensorsFile& weights,
                                      const std::string& prefix = "");

}  // namespace rlx
