// See the header.
#include "tools/bench/cases.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "rlx/models.h"
#include "tools/numpy_random.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

const BenchFamily kFamilies[] = {
    {"minilm",
     "BxS",
     "all-MiniLM-L6-v2 on B rows of S tokens, mean pooling, norm 1",
     {"1x16", "1x128", "8x128", "32x128"}},
    {"bert", "BxS", "the same of any other BERT that --model names", {}},
    {"tagger", "BxS", "17 tags' scores for B rows of S words: embeddings, an LSTM each way, a product", {"8x64"}},
    {"first", "BxS", "the same from nothing: maps the weights, builds, compiles, packs, runs once", {"1x128"}},
    {"restart", "BxS", "the same with what an earlier start left in the disk cache", {"1x128"}},
    {"gemm", "N", "a·b, both given at each run", {"512", "1024", "2048"}},
    {"linear", "MxKxN", "x·w, w constant", {"1x4096x4096", "16x1024x4096"}},
    {"linear_i8", "MxKxN", "x·w, w codes of 8 bits with a scale for 64 along K", {"1x4096x4096", "16x4096x4096"}},
    {"linear_i4", "MxKxN", "the same, codes of 4 bits", {"1x4096x4096", "16x4096x4096"}},
    {"qmatmul", "MxKxN", "codes of 8 bits times codes, as codes", {"16x1024x4096", "128x384x1536"}},
    {"digits", "N", "the net of examples/mnist_cnn.toml on N images", {"1", "64"}},
    {"digits_i8", "N", "the same as codes of 8 bits", {"1", "64"}},
    {"linear_bf16", "MxKxN", "x·wᵀ, w[N,K] of bf16 beside x in f32", {"1x4096x4096", "128x1024x3072"}},
    {"linear_f16", "MxKxN", "the same of f16", {"1x4096x4096", "128x1024x3072"}},
    {"linear_q4_0", "MxKxN", "x·wᵀ, w[N,K] of q4_0 blocks and constant", {"1x4096x4096", "128x1024x3072"}},
    {"linear_q8_0", "MxKxN", "the same of q8_0", {"1x4096x4096", "128x1024x3072"}},
    {"linear_q4_k", "MxKxN", "of q4_k", {"1x4096x4096", "128x1024x3072"}},
    {"linear_q5_k", "MxKxN", "of q5_k", {"1x4096x4096", "128x1024x3072"}},
    {"linear_q6_k", "MxKxN", "of q6_k", {"1x4096x4096", "128x1024x3072"}},
    {"linear_q2_k", "MxKxN", "of q2_k", {"1x4096x4096", "128x1024x3072"}},
    {"linear_q3_k", "MxKxN", "of q3_k", {"1x4096x4096", "128x1024x3072"}},
    {"linear_mxfp4", "MxKxN", "of mxfp4", {"1x4096x4096", "128x1024x3072"}},
    {"q4_k_gemv", "N", "x[1,N]·wᵀ, w[N,N] of q4_k blocks and constant", {"4096"}},
    {"prefill", "N", "a language model (--model DIR_OR_FILE) reads N tokens and gives the logits behind them", {}},
    {"decode", "N", "it reads one token behind N others", {}},
    {"softmax", "MxN", "along the rows", {"4096x1024"}},
    {"layernorm", "MxN", "along the rows, with gamma and beta", {"4096x1024"}},
    {"layernormbackward", "MxN", "gradients of the rows, of gamma and of beta", {"4096x1024"}},
    {"ewchain", "MxN", "gelu(x*1.5 + 0.5)*x - relu(x)", {"4096x4096"}},
    {"sdpa", "BxHxSxD", "attention of H heads", {"1x12x512x64"}},
    {"conv3x3",
     "BxCxW",
     "C to C channels, NCHW, padding 1, kernel constant",
     {"1x64x56", "1x128x28", "1x256x14", "1x512x7", "8x64x56"}},
    {"conv3x3dx", "BxCxW", "its gradient of the image", {"1x64x56", "8x64x56"}},
    {"conv3x3dw", "BxCxW", "its gradient of the kernel", {"1x64x56", "8x64x56"}},
    {"dwconv3x3", "BxCxW", "the same for each channel alone", {"1x256x56"}},
    {"dwconv3x3dw", "BxCxW", "its gradient of the kernel", {"1x256x56"}},
    {"maxpool", "BxCxW", "the greatest of 3 by 3, stride 2, padding 1", {"8x64x112"}},
    {"maxpooldx", "BxCxW", "its gradient", {"8x64x112"}},
    {"sumrow", "MxN", "sum over each row", {"4096x4096"}},
    {"sumcol", "MxN", "sum over each column", {"4096x4096"}},
    {"fft", "N", "complex transforms of 64 rows of N places", {"1024", "1000"}},
    {"cholesky", "N", "of the mean of a and its transpose, plus N times 1", {"512"}},
    {"eigh", "N", "of the mean of a and its transpose", {"256"}},
    {"qr", "N", "Q and R", {"512"}},
    {"svd", "N", "singular values and both factors", {"256"}},
    {"solve", "N", "a x = b for N right-hand sides", {"512"}},
    {"resnet50", "B", "ResNet-50 on B images of 224 x 224, norms as given", {"1", "8"}},
    {"mobilenetv2", "B", "MobileNetV2 likewise", {"1", "8"}},
    {"train_mlp", "", "156 steps of 64 digits through 784-256-128-10, with Adam", {}},
    {"train_cnn", "", "156 steps of 64 digits through two 3 by 3 convolutions of 16 and 32 channels, with Adam", {}},
    {"train_encoder", "", "a step of 4 pre-norm layers of width 256 on 16 rows of 128 tokens, with Adam", {}},
    {"small_graph", "", "gelu(x[1,16]·w[16,16] + b)·c - x: what a run costs by itself", {}},
};

/// What drivers of other benchmarks call a training case when they request it, and what they expect to read back.
struct TrainingAlias {
  std::string_view requested, printed, name;
};
constexpr TrainingAlias kTrainingAliases[] = {{"mlp", "train_mlp_epoch", "train_mlp"},
                                              {"cnn", "train_cnn_epoch", "train_cnn"},
                                              {"tfenc", "train_tfenc_step", "train_encoder"}};

std::string list_of_cases() {
  std::string list;
  for (const BenchFamily& family : kFamilies) {
    std::string name(family.name);
    list += "\n  " + (family.shape.empty() ? name : name + "_" + std::string(family.shape));
    for (size_t i = 0; i < family.usual.size(); ++i)
      list += (i ? ", " : ": ") + name + "_" + std::string(family.usual[i]);
  }
  return list;
}

/// "1x64x56" as numbers; empty if it is anything else.
Shape parse_shape(std::string_view text) {
  Shape shape;
  while (!text.empty()) {
    int64_t extent = 0;
    auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), extent);
    constexpr int64_t kMost = 1 << 20;  // so that products of four do not overflow
    if (code != std::errc{} || extent < 1 || extent > kMost) return {};
    shape.push_back(extent);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.empty()) return shape;
    if (text.front() != 'x' || text.size() == 1) return {};
    text.remove_prefix(1);
  }
  return {};
}

/// Arrays one after the other from one generator, as the peers draw them.
class Arrays {
 public:
  Tensor operator()(Shape shape) {
    Tensor t = Tensor::uninitialized(f32, std::move(shape));
    random_.uniform(-1, 1, t.mutable_values<float>());
    return t;
  }

 private:
  NumpyRandom random_{0};
};

// ---- sentence encoder ----

/// The params that the graph wants, read into memory once: what a case times is building and running, not the disk.
NamedTensors read_weights(const std::string& folder, const Graph& graph) {
  static std::map<std::string, NamedTensors> read;
  NamedTensors& weights = read[folder];
  if (!weights.empty()) return weights;
  auto file = SafetensorsFile::open((std::filesystem::path(folder) / "model.safetensors").string());
  for (const auto& param : signature_of(graph).params) {
    Tensor mapped = file.tensor(param.name, param.type.dtype, shape_of(param.type.dims));
    Tensor copy = Tensor::uninitialized(mapped.dtype(), mapped.shape());
    std::memcpy(copy.mutable_data(), mapped.data(), mapped.byte_count());
    weights.emplace(param.name, std::move(copy));
  }
  return weights;
}

std::string weights_file(const std::string& folder) {
  return (std::filesystem::path(folder) / "model.safetensors").string();
}
std::string config_file(const std::string& folder) { return (std::filesystem::path(folder) / "config.json").string(); }

/// A folder of its own that goes with the case.
struct ScratchFolder {
  std::filesystem::path path;
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "rlx-bench-XXXXXX").string();
    if (!mkdtemp(name.data())) fail(ErrorCode::io, "no folder can be made in '", name, "'");
    path = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
};

/// What a process does until it has its first result, from the files on; `cache_dir` may be empty.
void start_minilm(const std::string& model, const std::string& cache_dir, const Session& like, Tensors inputs,
                  std::vector<Tensor>& results) {
  const auto weights = SafetensorsFile::open(weights_file(model), FileAccess::when_read);
  CompileOptions options = CompileOptions::from_environment();
  options.cache_dir = cache_dir;
  CompiledGraph compiled = Session(like.device(), {like.threads()})  // a session remembers what it compiled
                               .compile(sentence_encoder_graph(BertConfig::load(config_file(model))), options);
  for (const auto& param : compiled.signature().params)
    compiled.set_param(param.name, weights.tensor(param.name, param.type.dtype, shape_of(param.type.dims)));
  compiled.run_into(inputs, results);
}

BenchCase minilm(std::string_view family, const Shape& shape, const std::string& model) {
  if (model.empty())
    throw UsageError(
        "the cases of minilm and bert need a model: give --model DIR, or set RLX_MODEL (or PERF_WORK, the benchmark's "
        "folder)");
  BenchCase c;
  auto config = std::make_shared<BertConfig>();
  const bool is_start = family == "first" || family == "restart";
  c.prepare = [shape, model, config, is_start](BenchCase& self) {
    *config = BertConfig::load(config_file(model));
    if (!is_start) self.params = read_weights(model, sentence_encoder_graph(*config));
    Tensor ids(i64, shape), mask(i64, shape), types(i64, shape);
    auto id = ids.mutable_values<int64_t>(), keep = mask.mutable_values<int64_t>();
    for (size_t i = 0; i < id.size(); ++i) id[i] = static_cast<int64_t>(i) * 131 % 30000, keep[i] = 1;
    self.inputs = {ids, mask, types};
  };
  if (!is_start) {
    c.graph = [config] { return sentence_encoder_graph(*config); };
    return c;
  }
  // The inputs are made in prepare(), and this is called behind it.
  c.start = [model, is_cached = family == "restart"](const BenchCase& self, const Session& session,
                                                     std::vector<Tensor>& results) -> BenchRun {
    results.resize(1);
    auto folder = is_cached ? std::make_shared<ScratchFolder>() : nullptr;
    auto run = [=, inputs = self.inputs, &results] {
      start_minilm(model, folder ? folder->path.string() : "", session, inputs, results);
    };
    if (is_cached) run();
    return {run};
  };
  return c;
}

// ---- tagger ----

/// As bench/yardstick/programs/tagger_net.py draws it.
BenchCase tagger(const Shape& shape) {
  constexpr int64_t kWords = 20000, kWidth = 128, kHidden = 256, kRows = 2 * 4 * kHidden, kTags = 17;
  const std::pair<std::string, Shape> params[] = {{"words", {kWords, kWidth}},    {"w_ih", {kRows * kWidth}},
                                                  {"w_hh", {kRows * kHidden}},    {"bias", {kRows}},
                                                  {"tags", {2 * kHidden, kTags}}, {"tag_bias", {kTags}}};
  BenchCase c;
  c.prepare = [params = std::vector(std::begin(params), std::end(params)), shape](BenchCase& self) {
    Arrays random;
    for (const auto& [name, extents] : params) {
      Tensor drawn = random(extents);
      if (name != "words")
        for (float& v : drawn.mutable_values<float>()) v /= 16;
      self.params.emplace(name, std::move(drawn));
    }
    Tensor ids(i64, shape);
    auto id = ids.mutable_values<int64_t>();
    for (size_t i = 0; i < id.size(); ++i) id[i] = static_cast<int64_t>(i) * 131 % kWords;
    self.inputs = {ids};
  };
  c.graph = [shape] {
    Graph g("tagger");
    const Value x =
        take(g.param("words", f32, {kWords, kWidth}), g.input("ids", i64, Dims(shape.begin(), shape.end())));
    const Value w_ih = g.param("w_ih", f32, {kRows * kWidth}), w_hh = g.param("w_hh", f32, {kRows * kHidden});
    const Value y = lstm(x, w_ih, w_hh, g.param("bias", f32, {kRows}), {kHidden, 1, true})[0];
    g.output(matmul(y, g.param("tags", f32, {2 * kHidden, kTags})) + g.param("tag_bias", f32, {kTags}), "scores");
    return g;
  };
  return c;
}

// ---- kernels ----

using Build = std::function<Many<Value>(Values inputs, Values params)>;

BenchCase kernel(std::vector<Shape> inputs, std::vector<Shape> params, Build build) {
  BenchCase c;
  auto named = [](const char* what, size_t i) { return text_of(what, i); };
  c.prepare = [=](BenchCase& self) {
    Arrays random;
    for (const Shape& shape : inputs) self.inputs.push_back(random(shape));
    for (size_t i = 0; i < params.size(); ++i) self.params.emplace(named("w", i), random(params[i]));
  };
  c.graph = [=] {
    Graph g("bench");
    std::vector<Value> x, w;
    for (size_t i = 0; i < inputs.size(); ++i)
      x.push_back(g.input(named("x", i), f32, Dims(inputs[i].begin(), inputs[i].end())));
    for (size_t i = 0; i < params.size(); ++i)
      w.push_back(g.param(named("w", i), f32, Dims(params[i].begin(), params[i].end())));
    for (const Value& result : build(x, w)) g.output(result);
    return g;
  };
  return c;
}

BenchCase conv3x3(const Shape& d, bool each_channel_alone) {
  int64_t groups = each_channel_alone ? d[1] : 1;
  return kernel({{d[0], d[1], d[2], d[2]}}, {{d[1], d[1] / groups, 3, 3}}, [groups](Values x, Values w) {
    return convolution(x[0], w[0], {.padding_low = {1, 1}, .padding_high = {1, 1}, .feature_group_count = groups});
  });
}

/// The gradient of conv3x3's image or, as all else is equal in size, of its kernel.
BenchCase conv3x3_backward(const Shape& d, bool of_kernel, bool each_channel_alone) {
  const int64_t groups = each_channel_alone ? d[1] : 1;
  const Shape image = {d[0], d[1], d[2], d[2]}, kernel_shape = {d[1], d[1] / groups, 3, 3};
  const ConvNdAttrs attrs{.padding = {1, 1}, .groups = groups};
  if (of_kernel)
    return kernel({image, image}, {}, [attrs](Values x, Values) {
      return conv_backward_weight(x[0], x[1], attrs, {3, 3});
    });
  return kernel({image}, {kernel_shape}, [attrs, size = d[2]](Values x, Values w) {
    return conv_backward_input(x[0], w[0], attrs, {size, size});
  });
}

BenchCase max_pool(const Shape& d, bool backward) {
  const PoolAttrs attrs{PoolKind::max, {3, 3}, {2, 2}, {1, 1}};
  const int64_t half = (d[2] - 1) / 2 + 1;
  const Shape image = {d[0], d[1], d[2], d[2]};
  if (!backward) return kernel({image}, {}, [attrs](Values x, Values) { return pool(x[0], attrs); });
  return kernel({image, {d[0], d[1], half, half}}, {},
                [attrs](Values x, Values) { return max_pool_backward(x[0], x[1], attrs); });
}

/// One row times packed weights: what a token costs a language model.
BenchCase q4_k_gemv(int64_t n) {
  BenchCase c;
  c.prepare = [n](BenchCase& self) {
    Arrays random;
    self.inputs.push_back(random({1, n}));
    Tensor codes = random({n, n / info(q4_k).block_elements * info(q4_k).block_bytes});
    Tensor w = Tensor::uninitialized(q4_k, {n, n});
    std::byte* to = w.mutable_data();
    for (size_t i = 0; i < w.byte_count(); ++i)
      to[i] = static_cast<std::byte>(static_cast<int>(codes.values<float>()[i] * 127) + 128);
    constexpr Half kScale{0x1800};  // 1/512: of each block's scales and mins
    for (size_t b = 0; b < w.byte_count(); b += static_cast<size_t>(info(q4_k).block_bytes))
      for (size_t at : {b, b + sizeof kScale}) std::memcpy(to + at, &kScale, sizeof kScale);
    self.params.emplace("w0", std::move(w));
  };
  c.graph = [n] {
    Graph g("bench");
    Value x = g.input("x0", f32, {1, n}), w = g.param("w0", q4_k, {n, n});
    g.output(linear(x, w));
    return g;
  };
  return c;
}

BenchCase transforms(int64_t places) {
  BenchCase c;
  c.prepare = [=](BenchCase& self) {
    Tensor parts = Arrays()({64, places, 2}), x = Tensor::uninitialized(c64, {64, places});
    std::memcpy(x.mutable_data(), parts.data(), parts.byte_count());
    self.inputs = {x};
  };
  c.graph = [=] { return trace(std::vector{Type{c64, {64, places}}}, [](Values x) { return fft(x[0]); }); };
  return c;
}

/// Of the mean of a matrix and its transpose, with `shift` added to its diagonal.
BenchCase symmetric(int64_t n, float shift, Build build) {
  BenchCase c = kernel({{n, n}}, {}, std::move(build));
  c.prepare = [=](BenchCase& self) {
    Tensor a = Arrays()({n, n}), x = Tensor::uninitialized(f32, {n, n});
    auto from = a.values<float>();
    auto to = x.mutable_values<float>();
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        to[size_t(i * n + j)] = (from[size_t(i * n + j)] + from[size_t(j * n + i)]) / 2 + (i == j ? shift : 0);
    self.inputs = {x};
  };
  return c;
}

/// The results that do not depend on a choice of signs come first.
BenchCase factorization(std::string_view family, int64_t n) {
  if (family == "cholesky")
    return symmetric(n, static_cast<float>(n), [](Values x, Values) { return cholesky(x[0], true, Triangle::lower); });
  if (family == "eigh")
    return symmetric(n, 0, [](Values x, Values) -> Many<Value> {
      auto [values, vectors] = eigh(x[0], Triangle::lower);
      return {values, vectors};
    });
  if (family == "qr")
    return kernel({{n, n}}, {}, [](Values x, Values) -> Many<Value> {
      auto [q, r] = qr(x[0]);
      return {q, r};
    });
  if (family == "svd")
    return kernel({{n, n}}, {}, [](Values x, Values) -> Many<Value> {
      auto [u, s, vt] = svd(x[0]);
      return {s, u, vt};
    });
  return kernel({{n, n}, {n, n}}, {}, [](Values x, Values) { return solve(x[0], x[1]); });
}

BenchCase small_graph() {
  return kernel({{1, 16}}, {{16, 16}, {16}, {16}},
                [](Values x, Values w) { return gelu(matmul(x[0], w[0]) + w[1]) * w[2] - x[0]; });
}

BenchCase kernel_case(std::string_view family, const Shape& d) {
  if (family == "gemm")
    return kernel({{d[0], d[0]}, {d[0], d[0]}}, {}, [](Values x, Values) { return matmul(x[0], x[1]); });
  if (family == "q4_k_gemv") {
    if (d[0] % info(q4_k).block_elements != 0)
      throw UsageError(text_of("q4_k has blocks of ", info(q4_k).block_elements, "; ", d[0], " is not made of those"));
    return q4_k_gemv(d[0]);
  }
  for (std::string_view known : {"linear_i8", "linear_i4", "qmatmul", "digits", "digits_i8"})
    if (family == known) return codes_case(family, d);
  for (const DType format : {f16, bf16, q4_0, q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, mxfp4})
    if (family == text_of("linear_", format)) return weights_of_blocks(format, d);
  if (family == "linear")
    return kernel({{d[0], d[1]}}, {{d[1], d[2]}}, [](Values x, Values w) { return matmul(x[0], w[0]); });
  if (family == "softmax") return kernel({d}, {}, [](Values x, Values) { return softmax(x[0]); });
  if (family == "layernorm")
    return kernel({d}, {{d[1]}, {d[1]}}, [](Values x, Values w) { return layer_norm(x[0], w[0], w[1], 1e-5); });
  if (family == "layernormbackward")
    return kernel({d, d}, {{d[1]}}, [](Values x, Values w) { return layer_norm_backward(x[0], w[0], x[1], {}); });
  if (family == "ewchain")
    return kernel({d}, {}, [](Values x, Values) { return gelu(x[0] * 1.5 + 0.5) * x[0] - relu(x[0]); });
  if (family == "sdpa")
    return kernel({d, d, d}, {},
                  [heads = d[1]](Values x, Values) { return attention(x[0], x[1], x[2], {.heads = heads}); });
  if (family == "fft") return transforms(d[0]);
  for (std::string_view known : {"cholesky", "eigh", "qr", "svd", "solve"})
    if (family == known) return factorization(family, d[0]);
  if (family == "conv3x3") return conv3x3(d, false);
  if (family == "dwconv3x3") return conv3x3(d, true);
  if (family == "conv3x3dx" || family == "conv3x3dw") return conv3x3_backward(d, family == "conv3x3dw", false);
  if (family == "dwconv3x3dw") return conv3x3_backward(d, true, true);
  if (family == "maxpool" || family == "maxpooldx") return max_pool(d, family == "maxpooldx");
  return kernel({d}, {}, [axis = family == "sumrow" ? 1 : 0](Values x, Values) { return reduce_sum(x[0], {axis}); });
}

}  // namespace

std::span<const BenchFamily> bench_families() { return kFamilies; }

BenchCase bench_case(const std::string& name, const std::string& model, DType cache, const CompileOptions& compile) {
  if (name == "small_graph") {
    BenchCase c = small_graph();
    c.name = name;
    return c;
  }
  for (const BenchFamily& known : kFamilies)
    if (name == known.name && name.starts_with("train_")) return training_case(name);
  for (const TrainingAlias& alias : kTrainingAliases)
    if (name == alias.requested || name == alias.printed) {
      BenchCase c = training_case(std::string(alias.name));
      c.name = alias.printed;
      return c;
    }
  std::string full = name.find('_') == std::string::npos ? "minilm_" + name : name;
  std::string_view view = full, family = view.substr(0, view.rfind('_'));
  Shape shape = parse_shape(view.substr(std::min(view.size(), family.size() + 1)));
  for (const BenchFamily& known : kFamilies) {
    auto wanted = static_cast<size_t>(std::count(known.shape.begin(), known.shape.end(), 'x')) + 1;
    if (known.name != family || known.shape.empty() || shape.size() != wanted) continue;
    const bool is_minilm = family == "minilm" || family == "bert" || family == "first" || family == "restart";
    const bool is_vision = family == "resnet50" || family == "mobilenetv2";
    BenchCase c = is_minilm                                   ? minilm(family, shape, model)
                  : is_vision                                 ? vision_case(family, shape[0])
                  : family == "tagger"                        ? tagger(shape)
                  : family == "prefill" || family == "decode" ? language_case(family, shape[0], model, cache, compile)
                                                              : kernel_case(family, shape);
    c.name = full;
    return c;
  }
  throw UsageError("there is no case '" + name + "'; there are" + list_of_cases());
}

}  // namespace rlx::tools
