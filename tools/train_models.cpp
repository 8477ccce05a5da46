// See the header. Params are drawn as PyTorch draws those of its layers (uniform within 1 / sqrt(fan_in)), but for
// char_lm, which begins as GPT-2 does (Radford et al. 2019).
#include "tools/train_models.h"

#include <algorithm>
#include <cmath>

#include "rlx/element.h"
#include "rlx/graph_file.h"
#include "rlx/models.h"
#include "tools/train_data.h"

namespace rlx::tools {
namespace {

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

double uniform_within(double bound, RandomStream& random) { return bound * (2 * random.uniform() - 1); }
double fan_in(const Shape& weight) {
  double n = 1;
  for (size_t d = 1; d < weight.size(); ++d) n *= static_cast<double>(weight[d]);
  return n;
}

// ---- data ----

/// The elements as another dtype: what a graph wants of a file that has its own.
Tensor converted(const Tensor& from, DType dtype) {
  bool exact = is_integer(from.dtype()) && is_integer(dtype);
  Tensor to(dtype, from.shape());
  for (size_t i = 0; i < from.element_count(); ++i)
    if (exact) store<int64_t>(to, i, load_index(from, i));
    else if (is_float(dtype)) store<double>(to, i, load_number(from, i));
    else store<int64_t>(to, i, static_cast<int64_t>(load_number(from, i)));
  return to;
}
/// Of the graph's dtypes; [n] stands for [n, 1].
void fit(NamedTensors& arrays, const Graph& g) {
  for (Ref r : g.inputs()) {
    auto found = arrays.find(g.node(r).name);
    const Type& wanted = g.node(r).types[0];
    if (found == arrays.end()) continue;
    Tensor& array = found->second;
    bool plain = [](DType t) { return is_float(t) || is_integer(t) || t == boolean; }(array.dtype());
    bool loses = is_float(array.dtype()) && !is_float(wanted.dtype);
    if (plain && !loses && array.dtype() != wanted.dtype && (is_float(wanted.dtype) || is_integer(wanted.dtype)))
      array = converted(array, wanted.dtype);
    if (array.rank() == 1 && wanted.rank() == 2 && wanted.dims[1] == Dim(1))
      array = array.reshaped({array.shape()[0], 1});
  }
}

TrainData data_of(const TrainSettings& s, const Graph* g = nullptr) {
  TrainData data;
  NamedTensors arrays = read_sources(s.data), test = read_sources(s.test);
  if (arrays.empty())
    fail(ErrorCode::invalid_argument, "no data are named: --data NAME=FILE for each input of the model");
  if (g) fit(arrays, *g), fit(test, *g);
  for (const auto& [name, array] : arrays) {
    data.names.push_back(name);
    data.types.push_back(array.type());
    if (array.rank() > 0) data.types.back().dims[0] = Dim::symbol("N");
  }
  for (const auto& [name, array] : test) {
    auto at = std::find(data.names.begin(), data.names.end(), name);
    if (at == data.names.end()) fail(ErrorCode::not_found, "--test names '", name, "', which --data does not");
    Type type = array.type(), wanted = data.types[static_cast<size_t>(at - data.names.begin())];
    if (array.rank() > 0) type.dims[0] = Dim::symbol("N");
    if (type != wanted)
      fail(ErrorCode::shape_mismatch, "the data '", name, "' are ", wanted, " for training, ", type, " for testing");
  }
  if (!test.empty() && test.size() != arrays.size())
    fail(ErrorCode::invalid_argument, "--data names ", arrays.size(), " inputs, --test ", test.size(),
         "; both need all");
  data.train = arrays_dataset(std::move(arrays));
  if (!test.empty()) data.test = arrays_dataset(std::move(test));
  return data;
}

/// Keeps the last examples to be tested by, if the settings say so and there are no others.
void hold_out(TrainData& data, const TrainSettings& s) {
  if (s.hold_out == 0 || data.test) return;
  int64_t size = data.train->size(),
          kept = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(size) * s.hold_out));
  if (kept >= size)
    fail(ErrorCode::invalid_argument, "hold_out leaves nothing to learn from: there are ", size, " examples");
  data.test = range_of(data.train, size - kept, size);
  data.train = range_of(data.train, 0, size - kept);
}

const Type& type_named(const TrainData& data, const std::string& name, const std::string& model) {
  for (size_t i = 0; i < data.names.size(); ++i)
    if (data.names[i] == name) return data.types[i];
  fail(ErrorCode::invalid_argument, "the model '", model, "' takes 'x' and the answers 't'; --data names no '", name,
       "'");
}

/// One more than the greatest label.
int64_t classes_in(const Dataset& data) {
  int64_t most = 0;
  for (int64_t begin = 0; begin < data.size(); begin += 1024) {
    std::vector<int64_t> examples;
    for (int64_t i = begin; i < std::min(begin + 1024, data.size()); ++i) examples.push_back(i);
    for (const auto& [name, tensor] : data.gather(examples))
      for (size_t i = 0; name == "t" && i < tensor.element_count(); ++i) {
        int64_t label = load_index(tensor, i);
        if (label < 0)
          fail(ErrorCode::invalid_argument, "the label ", label, " of example ", begin, " and on is below 0");
        most = std::max(most, label);
      }
  }
  if (most > 1 << 20)
    fail(ErrorCode::invalid_argument, "the greatest label is ", most, "; answers that are no classes must be floats");
  return most + 1;
}

// ---- models of examples with answers ----

struct Answers {
  bool classes;
  int64_t count;  // of classes, or of numbers
};

/// x as f32; bytes are taken for brightness, 0 to 1.
Value numbers_of(Value x) { return x.dtype() == u8 ? convert(x, f32) * (1.0 / 255) : convert(x, f32); }

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

Graph answers_graph(const std::string& name, const TrainData& data, const Answers& answers, bool with_key,
                    const Body& body) {
  Graph g(name);
  Value x = g.input("x", type_named(data, "x", name)), t = g.input("t", type_named(data, "t", name));
  Value key = with_key ? g.input("key", u32, {2}) : Value{};
  ModelBuilder b(g);
  output_loss(g, body(b, numbers_of(x), key), t, answers);
  return g;
}

Graph answering_graph(const std::string& name, const TrainData& data, const Body& body) {
  Graph g(name);
  Value x = g.input("x", type_named(data, "x", name));
  ModelBuilder b(g);
  g.output(body(b, numbers_of(x), {}), "y");
  return g;
}

Value dropped(Value x, Value key, uint32_t place, double rate) {
  return key ? dropout(fold_in(key, place), x, rate) : x;
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
  model.loss = answers_graph(s.model, data, answers, s.dropout > 0, body);
  model.tested = answers_graph(s.model, data, answers, false, body);
  model.answering = answering_graph(s.model, data, body);
  double bound = 1;  // a bias follows its weight
  Initial(s).fill(model, [&](const std::string& name, const Shape& shape, RandomStream& random) {
    if (name.ends_with("weight")) bound = 1 / std::sqrt(fan_in(shape));
    return uniform_within(bound, random);
  });
  model.answers = answers.classes ? 1 : 0;
  if (type_named(data, "x", s.model).rank() >= 3) model.images = "x";
  model.data = std::move(data);
  return model;
}

// ---- a language model of characters ----

Characters characters_of(std::string_view text) {
  std::vector<std::string> all;
  for (size_t i = 0; i < text.size();) {
    auto lead = static_cast<unsigned char>(text[i]);
    size_t size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    all.emplace_back(text.substr(i, size));
    i += size;
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return {all};
}

/// Logits [N, S, characters] of what follows each place: a transformer with its norms in front (Radford et al. 2019).
Value language_model(ModelBuilder& b, Value x, Value key, int64_t characters, const TrainSettings& s) {
  constexpr double kEpsilon = 1e-5;
  uint32_t place = 0;
  auto drop = [&](Value v) { return dropped(v, key, place++, s.dropout); };
  Value h = b.embedding(x, "characters", characters, s.width);
  h = drop(h + slice_axis(b.within("positions",
                                   [&] {
                                     return b.param("weight", {s.context, s.width});
                                   }),
                          0, 0, x.dim(1)));
  for (int64_t layer = 0; layer < s.layers; ++layer)
    h = b.within(text_of("layer.", layer), [&] {
      AttentionAttrs causal;
      causal.causal = true;
      Value mixed = b.self_attention(b.layer_norm(h, "norm1", kEpsilon), s.heads, {}, {.output = "mixed"}, causal);
      Value y = h + drop(mixed);
      return y + drop(b.feed_forward(b.layer_norm(y, "norm2", kEpsilon), "up", "down", 4 * s.width, Activation::gelu));
    });
  return b.linear(b.layer_norm(h, "norm", kEpsilon), "out", characters, false);
}

Graph language_graph(const TrainSettings& s, int64_t characters, bool with_key) {
  Graph g("char_lm");
  Dims dims = {Dim::symbol("N"), s.context};
  Value x = g.input("x", i32, dims), t = g.input("t", i32, dims), key = with_key ? g.input("key", u32, {2}) : Value{};
  ModelBuilder b(g);
  Value logits = language_model(b, x, key, characters, s);
  g.output(mean(softmax_cross_entropy_with_logits(logits, t), {0, 1}), "loss");
  Value right = compare(convert(argmax(logits), i32), t, Comparison::eq);
  g.output(reduce_sum(convert(right, f32), {0, 1}), "correct");
  return g;
}

TrainModel language(const TrainSettings& s) {
  if (s.width % s.heads != 0)
    fail(ErrorCode::invalid_argument, "a width of ", s.width, " does not divide into ", s.heads, " heads");
  for (const auto* sources : {&s.data, &s.test})
    for (const auto& [name, files] : *sources)
      if (name != "text") fail(ErrorCode::not_found, "the model 'char_lm' reads 'text'; --data names '", name, "'");
  auto text_of_sources = [](const Sources& sources) {
    auto found = sources.find("text");
    return found == sources.end() ? std::string() : read_texts(found->second);
  };
  std::string text = text_of_sources(s.data), test = text_of_sources(s.test);
  if (text.empty()) fail(ErrorCode::invalid_argument, "there is no text to learn from: --data text=FILE, or a folder");
  TrainModel model;
  model.characters = characters_of(text + test + s.prompt);
  auto count = static_cast<int64_t>(model.characters.all.size());
  TrainData& data = model.data;
  auto windows = [&](const std::string& of) {
    return windows_dataset(model.characters.encode(of), s.context, std::max<int64_t>(1, s.context / 2));
  };
  data.train = windows(text);
  if (!test.empty()) data.test = windows(test);
  data.names = {"t", "x"};
  data.types.assign(2, Type{i32, {Dim::symbol("N"), s.context}});
  hold_out(data, s);

  model.loss = language_graph(s, count, s.dropout > 0);
  model.tested = language_graph(s, count, false);
  model.answers = s.context;
  // The outputs that are added to the residual stream are drawn smaller, by the root of their number.
  double smaller = 1 / std::sqrt(2.0 * static_cast<double>(s.layers));
  Initial(s).fill(model, [&](const std::string& name, const Shape&, RandomStream& random) {
    if (name.ends_with("bias")) return 0.0;
    if (name.find("norm") != std::string::npos) return 1.0;
    bool added = name.ends_with("mixed.weight") || name.ends_with("down.weight");
    return 0.02 * (added ? smaller : 1) * random.normal();
  });

  Graph writer("char_lm_writer");
  Value x = writer.input("x", i32, {1, s.context}), key = writer.input("key", u32, {2});
  ModelBuilder b(writer);
  Value logits = reshape(language_model(b, x, {}, count, s), {s.context, count});
  writer.output(sample(key, logits, 0, 1, s.temperature), "next");
  model.writer = std::move(writer);
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

Tensor Characters::encode(std::string_view text) const {
  std::vector<int32_t> numbers;
  for (size_t i = 0; i < text.size();) {
    auto lead = static_cast<unsigned char>(text[i]);
    size_t size = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    auto found = std::lower_bound(all.begin(), all.end(), text.substr(i, size));
    if (found == all.end() || *found != text.substr(i, size))
      fail(ErrorCode::not_found, "the character '", std::string(text.substr(i, size)),
           "' is not in the text of the data");
    numbers.push_back(static_cast<int32_t>(found - all.begin()));
    i += size;
  }
  return Tensor::of<int32_t>({static_cast<int64_t>(numbers.size())}, numbers);
}

TrainModel make_model(const TrainSettings& s) {
  if (s.model == "linear" || s.model == "mlp" || s.model == "cnn") return answers_model(s);
  if (s.model == "char_lm") return language(s);
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
