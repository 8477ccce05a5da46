// Sentences to vectors; see rlx/models.h.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/user_code.h"
#include "io/json_tree.h"
#include "rlx/io.h"
#include "rlx/models.h"

namespace rlx {
namespace {

std::string file_in(const std::string& folder, const char* name) {
  return (std::filesystem::path(folder) / name).string();
}

/// The tokens after which a sentence is cut: sentence_bert_config.json's "max_seq_length", else what the positions
/// allow.
size_t max_tokens(const std::string& folder, const BertConfig& config) {
  std::string path = file_in(folder, "sentence_bert_config.json");
  std::error_code error;
  auto limit = static_cast<size_t>(config.max_positions);
  if (!std::filesystem::exists(path, error)) return limit;
  auto file = FileBytes::read(path);
  const JsonTree json = json_or_null({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
  const JsonTree* length = json.find("max_seq_length");
  if (!length) return limit;
  if (!length->is_natural() || length->natural() < 2)
    fail(ErrorCode::parse, "'max_seq_length' in '", path, "' is ", length->shown(),
         "; it must be a whole number of at least 2");
  return std::min<size_t>(limit, length->natural());
}

}  // namespace

Graph load_model_graph(const std::string& folder) {
  return with_context([&] { return text_of("loading the model in '", folder, "'"); },
                      [&] { return sentence_encoder_graph(BertConfig::load(file_in(folder, "config.json"))); });
}

SentenceEncoder SentenceEncoder::load(const std::string& folder, Options options) {
  return with_context(
      [&] { return text_of("loading the model in '", folder, "'"); },
      [&] {
        BertConfig config = BertConfig::load(file_in(folder, "config.json"));
        Tokenizer tokenizer = Tokenizer::load(folder);
        tokenizer.set_padding(std::nullopt);
        tokenizer.set_truncation(Truncation{.max_length = max_tokens(folder, config)});
        if (static_cast<int64_t>(tokenizer.vocab_size()) > config.vocab_size)
          fail(ErrorCode::invalid_argument, "the tokenizer has ", tokenizer.vocab_size(),
               " tokens, but the model's table has ", config.vocab_size, " rows");
        auto weights = SafetensorsFile::open(file_in(folder, "model.safetensors"));
        CompiledGraph compiled =
            Session(options.device, {options.threads}).compile(sentence_encoder_graph(config), options.compile);
        for (const auto& param : compiled.signature().params)
          compiled.set_param(param.name, weights.tensor(param.name, param.type.dtype, shape_of(param.type.dims)));
        return SentenceEncoder(config, std::move(tokenizer), std::move(compiled), options.most_tokens);
      });
}

Tensor SentenceEncoder::embed_ids(Tensor ids, Tensor mask) const {
  Tensor types(i64, ids.shape());
  return compiled_.run_ordered(std::array{std::move(ids), std::move(mask), std::move(types)})[0];
}

Tensor SentenceEncoder::embed(std::span<const std::string> sentences,
                              const std::function<void(size_t, size_t)>& progress) const {
  std::vector<std::vector<int32_t>> ids;
  ids.reserve(sentences.size());
  for (const std::string& s : sentences) ids.push_back(tokenizer_.encode(s).ids);
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
