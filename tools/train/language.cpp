// char_lm: a language model of characters; see tools/train/models.h.
#include <algorithm>
#include <cmath>

#include "rlx/models.h"
#include "tools/train/data.h"
#include "tools/train/examples.h"
#include "tools/train/initial.h"

namespace rlx::tools {
namespace {

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
Value logits_of(ModelBuilder& b, Value x, Value key, int64_t characters, const TrainSettings& s) {
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
  Value logits = logits_of(b, x, key, characters, s);
  g.output(mean(softmax_cross_entropy_with_logits(logits, t), {0, 1}), "loss");
  Value right = compare(convert(argmax(logits), i32), t, Comparison::eq);
  g.output(reduce_sum(convert(right, f32), {0, 1}), "correct");
  return g;
}

}  // namespace

TrainModel language_model(const TrainSettings& s) {
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
  // The variance of a weight is 1 / its inputs: attention then tells places apart from the first step on, which weights
  // of 0.02 (GPT-2's, for widths of 768 and more) take hundreds of steps to learn. What is added to the residual stream
  // is drawn smaller, by the root of the number of additions.
  double smaller = 1 / std::sqrt(2.0 * static_cast<double>(s.layers));
  Initial(s).fill(model, [&](const std::string& name, const Shape& shape, RandomStream& random) {
    if (name.ends_with("bias")) return 0.0;
    if (name.find("norm") != std::string::npos) return 1.0;
    bool added = name.ends_with("mixed.weight") || name.ends_with("down.weight");
    return (added ? smaller : 1) / std::sqrt(static_cast<double>(shape.back())) * random.normal();
  });

  Graph writer("char_lm_writer");
  Value x = writer.input("x", i32, {1, s.context}), key = writer.input("key", u32, {2});
  ModelBuilder b(writer);
  Value logits = reshape(logits_of(b, x, {}, count, s), {s.context, count});
  writer.output(sample(key, logits, 0, 1, s.temperature), "next");
  model.writer = std::move(writer);
  return model;
}

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

}  // namespace rlx::tools
