// Sentences to vectors; see rlx/models.h.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/user_code.h"
#include "io/json_tree.h"
#include "models/encoder_weights.h"
#include "models/language/weight_files.h"
#include "rlx/io.h"
#include "rlx/models.h"

namespace rlx {
namespace {

std::string file_in(const std::string& folder, const char* name) {
  return (std::filesystem::path(folder) / name).string();
}

constexpr size_t kMostConfigBytes = size_t{4} << 20;

JsonTree object_in(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  return json_or_null(language::text_of_file(path, kMostConfigBytes));
}

/// The tokens after which a sentence is cut: sentence_bert_config.json's "max_seq_length", else the tokenizer's own
/// limit, and never more than the positions allow.
size_t max_tokens(const std::string& folder, const EncoderConfig& config) {
  const std::string path = file_in(folder, "sentence_bert_config.json");
  const auto limit = static_cast<size_t>(config.max_positions());
  const JsonTree json = object_in(path);
  const JsonTree* length = json.find("max_seq_length");
  if (length && !length->is_null()) {
    if (!length->is_natural() || length->natural() < 2)
      fail(ErrorCode::parse, "'max_seq_length' in '", path, "' is ", length->shown(),
           "; it must be a whole number of at least 2");
    return std::min<size_t>(limit, length->natural());
  }
  // A tokenizer without a limit has a number of 30 digits there.
  const JsonTree tokenizer = object_in(file_in(folder, "tokenizer_config.json"));
  const JsonTree* own = tokenizer.find("model_max_length");
  if (own && own->is_number() && own->number() >= 2 && own->number() < static_cast<double>(limit))
    return static_cast<size_t>(own->number());
  return limit;
}

/// Whether a normalizer of a tokenizer.json, or a part of it, makes letters small.
bool makes_small(const JsonTree& normalizer) {
  const JsonTree *type = normalizer.find("type"), *lower = normalizer.find("lowercase");
  if (type && type->is_string() && type->string() == "Lowercase") return true;
  if (lower && lower->is_boolean() && lower->boolean()) return true;
  const JsonTree* parts = normalizer.find("normalizers");
  return parts && parts->is_array() && std::any_of(parts->elements().begin(), parts->elements().end(), makes_small);
}

/// sentence_bert_config.json may say that letters are made small, which most tokenizers do in any case.
void check_lower_case(const std::string& folder) {
  const JsonTree json = object_in(file_in(folder, "sentence_bert_config.json"));
  const JsonTree* lower = json.find("do_lower_case");
  if (!lower || !lower->is_boolean() || !lower->boolean()) return;
  const std::string path = file_in(folder, "tokenizer.json");
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;  // a vocab.txt alone is read as BERT's, which does
  const auto file = FileBytes::read(path);
  const JsonTree tokenizer = parse_json({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()},
                                        "model", "vocab", [](const std::string&, const JsonTree&) {});
  const JsonTree* normalizer = tokenizer.find("normalizer");
  if (!normalizer || !makes_small(*normalizer))
    fail(ErrorCode::unsupported, "'do_lower_case' in sentence_bert_config.json is true, but the tokenizer of '", folder,
         "' keeps capitals; give it a normalizer of type \"Lowercase\"");
}

}  // namespace

Graph load_model_graph(const std::string& folder) {
  return with_context([&] { return text_of("loading the model in '", folder, "'"); },
                      [&] {
                        return sentence_encoder_graph(EncoderConfig::load(file_in(folder, "config.json")),
                                                      SentencePooling::load(folder));
                      });
}

SentenceEncoder SentenceEncoder::load(const std::string& folder, Options options) {
  return with_context([&] { return text_of("loading the model in '", folder, "'"); },
                      [&] {
                        const EncoderConfig config = EncoderConfig::load(file_in(folder, "config.json"));
                        SentencePooling pooling = SentencePooling::load(folder);
                        check_lower_case(folder);
                        Tokenizer tokenizer = Tokenizer::load(folder);
                        tokenizer.set_padding(std::nullopt);
                        tokenizer.set_truncation(Truncation{.max_length = max_tokens(folder, config)});
                        if (static_cast<int64_t>(tokenizer.vocab_size()) > config.vocab_size())
                          fail(ErrorCode::invalid_argument, "the tokenizer has ", tokenizer.vocab_size(),
                               " tokens, but the model's table has ", config.vocab_size(), " rows");
                        const Graph graph = sentence_encoder_graph(config, pooling);
                        CompiledGraph compiled =
                            Session(options.device, {options.threads}).compile(graph, options.compile);
                        encoders::bind_params(compiled, folder, config);
                        const int64_t width = config.hidden_size() * static_cast<int64_t>(pooling.modes.size());
                        return SentenceEncoder(width, std::move(pooling.prompt), std::move(tokenizer),
                                               std::move(compiled), options.most_tokens);
                      });
}

Tensor SentenceEncoder::embed_ids(Tensor ids, Tensor mask) const {
  std::vector<Tensor> inputs = {ids, std::move(mask)};
  if (compiled_.signature().inputs.size() > inputs.size()) inputs.emplace_back(i64, ids.shape());  // BERT's types
  return compiled_.run_ordered(inputs)[0];
}

Tensor SentenceEncoder::embed(std::span<const std::string> sentences,
                              const std::function<void(size_t, size_t)>& progress) const {
  std::vector<std::vector<int32_t>> ids;
  ids.reserve(sentences.size());
  for (const std::string& s : sentences) ids.push_back(tokenizer_.encode(prompt_ + s).ids);
  // Sentences of like length together: little padding. The longest first: the arena has its final size at once.
  std::vector<size_t> order(sentences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ids[a].size() > ids[b].size(); });

  Tensor result(f32, {static_cast<int64_t>(sentences.size()), width()});
  auto* rows = result.mutable_values<float>().data();
  size_t done = 0;
  while (done < order.size()) {
    constexpr size_t kMostSentences = 32;
    size_t length = ids[order[done]].size(), count = 0;
    while (done + count < order.size() && count < kMostSentences &&
           static_cast<int64_t>((count + 1) * length) <=
               std::max<int64_t>(most_tokens_, static_cast<int64_t>(length)) &&
           (count == 0 || ids[order[done + count]].size() * 8 >= length * 7))
      ++count;
    Tensor batch(i64, {static_cast<int64_t>(count), static_cast<int64_t>(length)}), mask(i64, batch.shape());
    auto to = batch.mutable_values<int64_t>(), keep = mask.mutable_values<int64_t>();
    for (size_t i = 0; i < count; ++i) {
      const auto& tokens = ids[order[done + i]];
      std::copy(tokens.begin(), tokens.end(), to.begin() + static_cast<std::ptrdiff_t>(i * length));
      std::fill_n(keep.begin() + static_cast<std::ptrdiff_t>(i * length), tokens.size(), 1);
    }
    Tensor out = embed_ids(std::move(batch), std::move(mask));
    auto values = out.values<float>();
    for (size_t i = 0; i < count; ++i)
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(i) * width(), width(),
                  rows + static_cast<std::ptrdiff_t>(order[done + i]) * width());
    done += count;
    if (progress) user_code("the progress callback", [&] { progress(done, order.size()); });
  }
  return result;
}

}  // namespace rlx
