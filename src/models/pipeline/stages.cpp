// The library's own stages. Ops are stages as they are, and need no row here.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "ir/rewrite.h"
#include "models/pipeline/registry.h"
#include "rlx/graph_file.h"
#include "rlx/io.h"
#include "rlx/models.h"
#include "rlx/ops.h"
#include "rlx/tokenizer.h"

namespace rlx {
namespace {

struct TokenizeSettings {
  std::string model;         // a folder with a tokenizer
  int64_t max_tokens = 512;  // of a text; what is beyond is cut
  RLX_FIELDS(TokenizeSettings, field("model", &TokenizeSettings::model),
             field("max_tokens", &TokenizeSettings::max_tokens));
};

HostStage open_tokenizer(const TokenizeSettings& settings, const StagePlace& place) {
  if (settings.model.empty())
    fail(ErrorCode::invalid_argument, "the setting 'model' is missing: a folder with tokenizer.json");
  if (settings.max_tokens < 1 || settings.max_tokens > int64_t{1} << 28)
    fail(ErrorCode::invalid_argument, "'max_tokens' is ", settings.max_tokens, "; it must be 1 to ", int64_t{1} << 28);
  auto tokenizer = std::make_shared<Tokenizer>(Tokenizer::load(place.file(settings.model)));
  tokenizer->set_padding(Padding());
  tokenizer->set_truncation(Truncation{.max_length = static_cast<size_t>(settings.max_tokens)});
  const Type type{i64, {Dim::symbol("B"), Dim::symbol("S")}};
  auto run = [tokenizer](std::span<const StageValue> taken) {
    const auto& texts = std::get<std::vector<std::string>>(taken[0]);
    const std::vector<Encoding> encoded = tokenizer->encode_batch(texts);
    const Shape shape = {static_cast<int64_t>(encoded.size()),
                         encoded.empty() ? 0 : static_cast<int64_t>(encoded[0].ids.size())};
    Tensor ids(i64, shape), mask(i64, shape), types(i64, shape);
    const auto put = [](Tensor& to, const std::vector<Encoding>& all, std::vector<int32_t> Encoding::*from) {
      auto out = to.mutable_values<int64_t>().begin();
      for (const Encoding& each : all) out = std::copy((each.*from).begin(), (each.*from).end(), out);
    };
    put(ids, encoded, &Encoding::ids);
    put(mask, encoded, &Encoding::attention_mask);
    put(types, encoded, &Encoding::type_ids);
    return std::vector<StageValue>{std::move(ids), std::move(mask), std::move(types)};
  };
  return {{type, type, type}, run};
}

struct GraphSettings {
  std::string path;  // a .rlx file, or the folder of a sentence encoder
  std::string params;
  RLX_FIELDS(GraphSettings, field("path", &GraphSettings::path), field("params", &GraphSettings::params));
};

Graph graph_of_stage(const GraphSettings& settings, const StagePlace& place) {
  if (settings.path.empty())
    fail(ErrorCode::invalid_argument, "the setting 'path' is missing: a .rlx file, or the folder of a model");
  const std::string path = place.file(settings.path);
  std::error_code error;
  return std::filesystem::is_directory(path, error) ? load_model_graph(path) : load_graph(path);
}
StageNames names_of_graph(const GraphSettings& settings, const StagePlace& place) {
  const Graph g = graph_of_stage(settings, place);
  StageNames names;
  for (Ref r : g.inputs()) names.takes.push_back(g.node(r).name);
  for (const Output& o : g.outputs()) names.gives.push_back(o.name);
  return names;
}

/// The graph's nodes among the others; its params, from the file, are params of the whole.
std::vector<Value> with_graph(StageGraph& to, Values taken, const GraphSettings& settings, const StagePlace& place) {
  const Graph g = graph_of_stage(settings, place);
  std::error_code error;
  const std::string path = place.file(settings.path);
  std::string file = settings.params.empty() ? "" : place.file(settings.params);
  if (file.empty() && std::filesystem::is_directory(path, error))
    file = (std::filesystem::path(path) / "model.safetensors").string();
  std::optional<SafetensorsFile> weights;
  if (!g.params().empty()) {
    if (file.empty())
      fail(ErrorCode::invalid_argument, "graph '", g.name(),
           "' has params; give the setting 'params', a file of safetensors");
    weights = SafetensorsFile::open(file);
  }
  std::map<int32_t, Value> leaves;
  for (size_t i = 0; i < g.inputs().size(); ++i) leaves[g.inputs()[i].node] = taken[i];
  for (Ref r : g.params()) {
    const std::string& name = g.node(r).name;
    Tensor value = weights->tensor(name);
    if (!(value.type() == g.type(r)))
      fail(ErrorCode::shape_mismatch, "param '", name, "' is ", g.type(r), ", and '", file, "' has ", value.type());
    leaves[r.node] = to.param(name, std::move(value));
  }
  return replay(
      to.graph(), g, [&](Ref r) { return leaves.at(r.node); },
      [](const Site&) -> std::optional<std::vector<Value>> { return std::nullopt; });
}

struct PoolSettings {
  std::vector<SentencePooling::Mode> modes = {SentencePooling::Mode::mean};
  bool normalize = true;
  RLX_FIELDS(PoolSettings, field("modes", &PoolSettings::modes), field("normalize", &PoolSettings::normalize));
};

struct NormalizeSettings {
  std::vector<double> mean, std;  // of each channel; without them the vector is divided by its norm
  int64_t axis = -1;
  RLX_FIELDS(NormalizeSettings, field("mean", &NormalizeSettings::mean), field("std", &NormalizeSettings::std),
             field("axis", &NormalizeSettings::axis));
};

/// Along `axis`: divided by the Euclidean norm, or (x - mean) / std with a number for each place.
Value normalized(StageGraph& to, Value x, const NormalizeSettings& s) {
  const int64_t axis = s.axis < 0 ? s.axis + x.rank() : s.axis;
  if (axis < 0 || axis >= x.rank())
    fail(ErrorCode::invalid_argument, "'axis' is ", s.axis, ", and it takes ", x.type());
  if (s.mean.empty() && s.std.empty()) {
    Value norm = sqrt(reduce_sum(x * x, {axis}, true));
    return x / broadcast_to(maximum(norm, full(to.graph(), 1e-12, norm.type())), x.dims());
  }
  const auto along = [&](const std::vector<double>& numbers, const char* name) {
    if (x.dims()[static_cast<size_t>(axis)] != Dim(static_cast<int64_t>(numbers.size())))
      fail(ErrorCode::shape_mismatch, "'", name, "' has ", numbers.size(), " numbers, and axis ", s.axis, " of ",
           x.type(), " has ", x.dims()[static_cast<size_t>(axis)]);
    std::vector<float> values(numbers.begin(), numbers.end());
    Value v = to.graph().constant(Tensor::of<float>({static_cast<int64_t>(values.size())}, values));
    return broadcast_in_dim(convert(v, x.dtype()), x.dims(), {axis});
  };
  if (!s.mean.empty()) x = x - along(s.mean, "mean");
  return s.std.empty() ? x : x / along(s.std, "std");
}

}  // namespace

std::string StagePlace::file(const std::string& named) const {
  const char* home = std::getenv("HOME");
  const std::filesystem::path path = named.starts_with("~/") && home ? home + named.substr(1) : named;
  return path.is_absolute() || folder.empty() ? path.string() : (std::filesystem::path(folder) / path).string();
}

const std::vector<StageDef>& library_stages() {
  static const std::vector<StageDef> all = {
      define_stage<TokenizeSettings>({
          .name = "tokenize",
          .doc = "texts to tokens, padded to the longest: ids, mask (1 keeps a token) and types, i64[B, S]",
          .names = {{"texts"}, {"input_ids", "attention_mask", "token_type_ids"}},
          .open =
              [](std::span<const StageType> taken, const TokenizeSettings& s, const StagePlace& place) {
                if (taken[0]) fail(ErrorCode::invalid_argument, "it takes texts, got ", *taken[0]);
                return open_tokenizer(s, place);
              },
      }),
      define_stage<GraphSettings>({
          .name = "graph",
          .doc = "a .rlx file with its params, or the folder of a sentence encoder",
          .names_of = names_of_graph,
          .build = [](StageGraph& to, Values taken, const GraphSettings& s, const StagePlace& place) -> Many<Value> {
            return with_graph(to, taken, s, place);
          },
      }),
      define_stage<PoolSettings>({
          .name = "pool",
          .doc = "the states of tokens [B, S, hidden] and their mask [B, S] to one vector for each text",
          .names = {{"hidden", "attention_mask"}, {"embedding"}},
          .build = [](StageGraph&, Values taken, const PoolSettings& s, const StagePlace&) -> Many<Value> {
            return pooled(taken[0], taken[1], {s.modes, s.normalize, {}});
          },
      }),
      define_stage<NormalizeSettings>({
          .name = "normalize",
          .doc = "x divided by its norm along `axis`, or (x - mean) / std with numbers for each place of that axis",
          .names = {{"x"}, {"x"}},
          .build = [](StageGraph& to, Values taken, const NormalizeSettings& s, const StagePlace&) -> Many<Value> {
            return normalized(to, taken[0], s);
          },
      }),
  };
  return all;
}

}  // namespace rlx
