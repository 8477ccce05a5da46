// See the header. Neighbours: language.cpp has char_lm, examples.cpp the data, initial.h the first values.
#include "tools/train/models.h"

#include <algorithm>
#include <cmath>

#include "rlx/element.h"
#include "rlx/graph_file.h"
#include "rlx/models.h"
#include "tools/train/examples.h"
#include "tools/train/initial.h"

namespace rlx::tools {
namespace {

double uniform_within(double bound, RandomStream& random) { return bound * (2 * random.uniform() - 1); }
double fan_in(const Shape& weight) {
  double n = 1;
  for (size_t d = 1; d < weight.size(); ++d) n *= static_cast<double>(weight[d]);
  return n;
}

// ---- models of examples with answers ----

struct Answers {
  bool classes;
  int64_t count;  // of classes, or of numbers
};

/// x as f32; bytes, which are mostly brightness from 0 to 255, times the setting's scale.
Value numbers_of(Value x, const TrainSettings& s) {
  return x.dtype() == u8 && s.byte_scale != 1 ? convert(x, f32) * s.byte_scale : convert(x, f32);
}

Value flat(Value x) {
  Dim width = 1;
  for (int64_t d = 1; d < x.rank(); ++d) width = width * x.dim(d);
  return reshape(x, {x.dim(0), width});
}

/// The loss and the count of right answers, as outputs.
void output_loss(Graph& g, Value out, Value t, const Answers& answers) {
  if (!answers.classes) {
    Value wanted = reshape(convert(t, f32), out.dims());
    g.output(mean(square(out - wanted), {0, 1}), "loss");
    return;
  }
  Value labels = convert(reshape(t, {t.dim(0)}), i32);
  g.output(mean(softmax_cross_entropy_with_logits(out, labels), {0}), "loss");
  Value right = compare(convert(argmax(out), i32), labels, Comparison::eq);
  g.output(reduce_sum(convert(right, f32), {0}), "correct");
}

using Body = std::function<Value(ModelBuilder&, Value x, Value key)>;

Graph answers_graph(const TrainSettings& s, const TrainData& data, const Answers& answers, bool with_key,
                    const Body& body) {
  Graph g(s.model);
  Value x = g.input("x", type_named(data, "x", s.model)), t = g.input("t", type_named(data, "t", s.model));
  Value key = with_key ? g.input("key", u32, {2}) : Value{};
  ModelBuilder b(g);
  output_loss(g, body(b, numbers_of(x, s), key), t, answers);
  return g;
}

Graph answering_graph(const TrainSettings& s, const TrainData& data, const Body& body) {
  Graph g(s.model);
  Value x = g.input("x", type_named(data, "x", s.model));
  ModelBuilder b(g);
  g.output(body(b, numbers_of(x, s), {}), "y");
  return g;
}

Body body_of(const TrainSettings& s, int64_t outputs) {
  if (s.model == "linear") return [=](ModelBuilder& b, Value x, Value) { return b.linear(flat(x), "out", outputs); };
  if (s.model == "mlp")
    return [=](ModelBuilder& b, Value x, Value key) {
      x = flat(x);
      for (size_t i = 0; i < s.hidden.size(); ++i)
        x = dropped(relu(b.linear(x, text_of("hidden.", i), s.hidden[i])), key, static_cast<uint32_t>(i), s.dropout);
      return b.linear(x, "out", outputs);
    };
  return [=](ModelBuilder& b, Value x, Value key) {
    if (x.rank() == 3) x = reshape(x, {x.dim(0), 1, x.dim(1), x.dim(2)});
    if (x.rank() != 4)
      fail(ErrorCode::shape_mismatch, "cnn takes images [N, height, width] or [N, channels, height, width]; 'x' is ",
           x.type());
    for (size_t i = 0; i < s.channels.size(); ++i)
      x = b.within(text_of("conv.", i), [&] {
        Value w = b.param("weight", {s.channels[i], x.dim(1), 3, 3}), bias = b.param("bias", {s.channels[i]});
        Value y = conv(x, w, {.padding = {1, 1}});
        y = relu(y + broadcast_in_dim(bias, y.dims(), {1}));
        return pool(y, {.kernel_size = {2, 2}});
      });
    x = dropped(flat(x), key, 0, s.dropout);
    x = dropped(relu(b.linear(x, "hidden", s.hidden.back())), key, 1, s.dropout);
    return b.linear(x, "out", outputs);
  };
}

/// The regression of docs/training.md, for `rlx train linear` without data: t = x (0.5, -1, 2).
TrainData regression() {
  Tensor x(f32, {64, 3}), t(f32, {64, 1});
  RandomStream random(7);
  for (size_t n = 0; n < 64; ++n) {
    double sum = 0;
    for (size_t d = 0; d < 3; ++d) {
      store<double>(x, 3 * n + d, random.normal());
      sum += load_number(x, 3 * n + d) * std::array{0.5, -1.0, 2.0}[d];
    }
    store<double>(t, n, sum);
  }
  Dim n = Dim::symbol("N");
  return {arrays_dataset({{"x", x}, {"t", t}}), nullptr, {{f32, {n, 1}}, {f32, {n, 3}}}, {"t", "x"}};
}

TrainModel answers_model(const TrainSettings& s) {
  TrainData data = s.data.empty() && s.model == "linear" ? regression() : data_of(s);
  for (const std::string& name : data.names)
    if (name != "x" && name != "t")
      fail(ErrorCode::not_found, "--data names '", name, "'; the model '", s.model, "' takes 'x' and the answers 't'");
  const Type& t = type_named(data, "t", s.model);
  type_named(data, "x", s.model);
  Answers answers{!is_float(t.dtype), 1};
  if (t.rank() > 2 || (answers.classes && t.rank() == 2 && t.dims[1] != Dim(1)))
    fail(ErrorCode::shape_mismatch, "the answers 't' are ", t, "; they are labels [N], or floats [N] or [N, outputs]");
  if (answers.classes) answers.count = classes_in(*data.train);
  else if (t.rank() == 2) answers.count = t.dims[1].value();
  hold_out(data, s);

  Body body = body_of(s, answers.count);
  TrainModel model;
  model.loss = answers_graph(s, data, answers, s.dropout > 0, body);
  model.tested = answers_graph(s, data, answers, false, body);
  model.answering = answering_graph(s, data, body);
  double bound = 1;  // a bias follows its weight
  Initial(s).fill(model, [&](const std::string& name, const Shape& shape, RandomStream& random) {
    if (name.ends_with("weight")) bound = 1 / std::sqrt(fan_in(shape));
    return uniform_within(bound, random);
  });
  if (type_named(data, "x", s.model).dtype == u8)
    model.bytes = text_of("x holds bytes, which the model multiplies by ", s.byte_scale, " (--byte-scale)");
  model.answers = answers.classes ? 1 : 0;
  if (type_named(data, "x", s.model).rank() >= 3) model.images = "x";
  model.data = std::move(data);
  return model;
}

// ---- a graph from a file ----

TrainModel from_file(const TrainSettings& s) {
  TrainModel model;
  model.loss = load_graph(with_home(s.model));
  if (model.loss.outputs().empty()) fail(ErrorCode::invalid_argument, "graph '", model.loss.name(), "' has no output");
  model.tested = model.loss;
  model.data = data_of(s, &model.loss);
  hold_out(model.data, s);
  TrainData& data = model.data;
  for (Ref r : model.loss.inputs()) {
    const Node& input = model.loss.node(r);
    if (input.name == "key" && input.types[0] == Type{u32, {2}}) continue;  // the loop draws it
    auto at = std::find(data.names.begin(), data.names.end(), input.name);
    if (at == data.names.end())
      fail(ErrorCode::invalid_argument, "no data are named for the input '", input.name, "' (", input.types[0],
           "); give --data ", input.name, "=FILE");
    Type type = data.types[static_cast<size_t>(at - data.names.begin())], wanted = input.types[0];
    if (wanted.rank() == 0)
      fail(ErrorCode::shape_mismatch, "the input '", input.name, "' is ", wanted,
           "; its first dim must count examples");
    if (wanted.dims[0] != type.dims[0]) type.dims[0] = wanted.dims[0];
    if (type != wanted)
      fail(ErrorCode::shape_mismatch, "the input '", input.name, "' is ", wanted, ", its data are ",
           data.types[static_cast<size_t>(at - data.names.begin())]);
  }
  for (const std::string& name : data.names)
    if (std::none_of(model.loss.inputs().begin(), model.loss.inputs().end(),
                     [&](Ref r) { return model.loss.node(r).name == name; }))
      fail(ErrorCode::not_found, "--data names '", name, "', which is no input of graph '", model.loss.name(), "'");
  Initial(s).fill(model, [&](const std::string& name, const Shape& shape, RandomStream& random) {
    if (shape.size() < 2)
      return name.ends_with("weight") || name.ends_with("gamma") || name.ends_with("scale") ? 1.0 : 0.0;
    return uniform_within(1 / std::sqrt(fan_in(shape)), random);
  });
  return model;
}

}  // namespace

Value dropped(Value x, Value key, uint32_t place, double rate) {
  return key ? dropout(fold_in(key, place), x, rate) : x;
}

TrainModel make_model(const TrainSettings& s) {
  if (s.model == "linear" || s.model == "mlp" || s.model == "cnn") return answers_model(s);
  if (s.model == "char_lm") return language_model(s);
  if (s.model.ends_with(".rlx")) return from_file(s);
  fail(ErrorCode::not_found, "there is no model '", s.model, "'; there are linear, mlp, cnn, char_lm and .rlx files");
}

void require_nothing_beside(const TrainModel& model) {
  if (model.beside.empty()) return;
  const std::string& name = model.beside.begin()->first;
  bool scale = name.ends_with(".scale") || name.ends_with(".zero_point") || name.ends_with(".range");
  fail(ErrorCode::not_found, "the file of --params has '", name, "', which is no param of graph '", model.loss.name(),
       "'",
       scale ? "; if it is a scale of training with fake quantization, train with the same --activation-scales" : "");
}

}  // namespace rlx::tools
