// `rlx logits`: what a language model makes of given tokens, as numbers: for comparing it with other programs.
#include <algorithm>
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>

#include "base/printable_text.h"
#include "io/atomic_file.h"
#include "io/json_tree.h"
#include "rlx/io.h"
#include "rlx/language_model.h"
#include "rlx/models.h"
#include "tools/language_model_options.h"
#include "tools/output.h"
#include "tools/progress_bar.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

struct Logits {
  explicit Logits(CLI::App& app) : model(app) {
    app.add_option("--tokens", tokens, "a JSON array of token ids; or an array of such arrays, each a text of its own")
        ->type_name("FILE")
        ->required();
    app.add_option("--npy", npy, "write the logits to this file (NumPy, f32), a row for each token")->type_name("FILE");
    app.add_option("--chunk", chunk, "tokens that the model reads at once (default 512)")
        ->option_text("N")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
    app.add_flag("--json", json, "print the most likely ones as [{token, logit, text}], or [{class, logit, text}]");
    app.add_flag("--profile", profile, "also print how long each op takes for the last token");
    app.footer(
        R"(Row i of the result are the logits behind the i-th token: f32 [tokens, vocabulary]. Rows of several texts follow one
another. Without --npy, the ten most likely tokens behind the last one are printed.

A folder with an encoder (BERT, ModernBERT) gives what its head makes: of a language model with masks the logits at each
token, of a classifier a row for each text, f32 [texts, classes].

Examples:
  echo '[1, 15043, 3186]' > ids.json
  rlx logits --model Qwen3-0.6B --tokens ids.json --npy out.npy
  rlx logits --model llama-q4_k_m.gguf --tokens ids.json)");
  }
  void run() const;
  void run_encoder(const std::vector<std::vector<int32_t>>& texts) const;

  LanguageModelOptions model;
  std::string tokens, npy;
  int64_t chunk = 0;
  bool profile = false, json = false;
};

std::vector<int32_t> ids_of(const JsonTree& list) {
  std::vector<int32_t> ids;
  for (const JsonTree& item : list.elements()) {
    if (!item.is_integer() || (item.is_natural() ? item.natural() > INT32_MAX : item.integer() < INT32_MIN))
      fail(ErrorCode::parse, "token ", ids.size(), " is ", item.shown(), ", not an id");
    ids.push_back(static_cast<int32_t>(item.integer()));
  }
  if (ids.empty()) fail(ErrorCode::parse, "it has no tokens");
  return ids;
}

std::vector<std::vector<int32_t>> read_tokens(const std::string& path) {
  return with_context(
      [&] { return text_of("reading '", path, "'"); },
      [&] {
        const auto file = FileBytes::read(path);
        const JsonTree json = parse_json({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
        if (!json.is_array()) fail(ErrorCode::parse, "it is ", json.shown(), ", not an array of token ids");
        std::vector<std::vector<int32_t>> texts;
        if (json.elements().empty() || !json.elements()[0].is_array()) return texts.push_back(ids_of(json)), texts;
        for (const JsonTree& one : json.elements()) {
          if (!one.is_array())
            fail(ErrorCode::parse, "item ", texts.size(), " is ", one.shown(), ", not an array as the first");
          texts.push_back(ids_of(one));
        }
        return texts;
      });
}

/// The ten largest; `name_of` gives what an index stands for.
void print_largest(std::span<const float> logits, const char* what, const char* where,
                   const std::function<std::string(int32_t)>& name_of, bool as_json) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < logits.size(); ++i)
    if (!std::isnan(logits[i])) order.push_back(static_cast<int32_t>(i));
  // NaN is neither more nor less than a number, so that no order has a place for it.
  if (order.size() < logits.size())
    say(logits.size() - order.size(), " of the ", logits.size(), " logits ", where, " are NaN");
  const auto count = static_cast<std::ptrdiff_t>(std::min<size_t>(10, order.size()));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (as_json) {
    std::string list;
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      const int32_t id = order[static_cast<size_t>(i)];
      list += text_of(i ? ",\n " : "", "{\"", what, "\": ", id,
                      ", \"logit\": ", number_text(logits[static_cast<size_t>(id)]),
                      ", \"text\": ", json_text(name_of(id)), "}");
    }
    return write_out("[" + list + "]\n");
  }
  TextTable table("rrl");
  table.add({what, "logit", ""});
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const int32_t id = order[static_cast<size_t>(i)];
    table.add({std::to_string(id), fixed_text(logits[static_cast<size_t>(id)], 4), line_text(name_of(id), 40)});
  }
  write_out(table.text());
}

void print_most_likely(std::span<const float> logits, const LanguageModel& model, bool as_json) {
  const Tokenizer* tokenizer = nullptr;
  try {
    tokenizer = &model.tokenizer();
  } catch (const Error&) {  // ids alone, then: logits need no texts
  }
  print_largest(
      logits, "token", "behind the last token",
      [&](int32_t id) { return tokenizer ? tokenizer->id_to_token(id).value_or("") : ""; }, as_json);
}

void Logits::run_encoder(const std::vector<std::vector<int32_t>>& texts) const {
  if (profile) throw UsageError("--profile times the tokens of a decoder; the model is an encoder");
  TextEncoder::Options options;
  options.device = Device::parse(model.device);
  options.threads = model.threads;
  const TextEncoder loaded = TextEncoder::load(model.model, options);
  const bool is_of_tokens = loaded.config().head == EncoderHead::masked_tokens;
  std::optional<ProgressBar> bar(std::in_place, "reading");
  size_t rows = 0, done = 0;
  for (const auto& text : texts) rows += is_of_tokens ? text.size() : 1;
  const int64_t width =
      is_of_tokens ? loaded.config().vocab_size() : static_cast<int64_t>(loaded.config().classes.size());
  Tensor all = Tensor::uninitialized(f32, {static_cast<int64_t>(rows), width});
  std::byte* to = all.mutable_data();
  for (const auto& text : texts) {
    const Tensor made = loaded.logits(text);
    std::memcpy(to, made.data(), made.byte_count());
    to += made.byte_count();
    bar->show(++done, texts.size());
  }
  bar.reset();
  if (!npy.empty()) return write_npy(npy, all);
  const auto last = all.values<float>().last(static_cast<size_t>(width));
  if (!is_of_tokens)
    return print_largest(
        last, "class", "of the last text", [&](int32_t id) { return loaded.config().classes[static_cast<size_t>(id)]; },
        json);
  std::optional<Tokenizer> tokenizer;
  try {
    tokenizer = Tokenizer::load(model.model);
  } catch (const Error&) {  // ids alone, then: logits need no texts
  }
  print_largest(
      last, "token", "at the last token",
      [&](int32_t id) { return tokenizer ? tokenizer->id_to_token(id).value_or("") : ""; }, json);
}

void Logits::run() const {
  if (!npy.empty()) AtomicFile probe(npy);  // what cannot be written is said before the work, not behind it
  const std::vector<std::vector<int32_t>> texts = read_tokens(tokens);
  if (TextEncoder::is_one(model.model)) return run_encoder(texts);
  const LanguageModel loaded = model.load(chunk);
  std::optional<ProgressBar> bar(std::in_place, "reading");
  size_t rows = 0, done = 0;
  for (const auto& text : texts) rows += text.size();
  Tensor all = Tensor::uninitialized(f32, {static_cast<int64_t>(rows), loaded.config().vocabulary});
  std::byte* to = all.mutable_data();
  for (const auto& text : texts) {
    const Tensor made = loaded.all_logits(text);
    std::memcpy(to, made.data(), made.byte_count());
    to += made.byte_count();
    bar->show(++done, texts.size());
  }
  bar.reset();
  if (!npy.empty()) write_npy(npy, all);
  else print_most_likely(all.values<float>().last(static_cast<size_t>(loaded.config().vocabulary)), loaded, json);
  if (!profile) return;
  LanguageModel::Sequence sequence = loaded.sequence();
  const std::span<const int32_t> last = texts.back();
  if (last.size() > 1) sequence.logits(last.first(last.size() - 1));
  sequence.profile(last.last(1));  // the first run of these extents is planned
  write_out(sequence.profile(last.last(1)).table());
}

}  // namespace

Subcommand add_logits(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("logits", "The logits of a model behind given tokens");
  auto logits = std::make_shared<Logits>(*app);
  return {app, [logits] { logits->run(); }};
}

}  // namespace rlx::tools
