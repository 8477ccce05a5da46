// The C ABI of language models, samplers and generators; see rlx/c.h. Settings come as text in the form of attributes.
#include <nlohmann/json.hpp>

#include "c_api/handles.h"
#include "rlx/generation.h"

struct rlx_language_model {
  rlx::LanguageModel model;
};
struct rlx_sequence {
  rlx::LanguageModel::Sequence sequence;
};
struct rlx_sampler {
  rlx::Sampler sampler;
};
struct rlx_generator {
  rlx::TextGenerator generator;
};

namespace {

using namespace rlx::c;
using rlx::ErrorCode;
using rlx::fail;
using rlx::field;

/// What is not given stays as it is: the defaults, or what a model advises.
struct SettingsText {
  std::optional<double> temperature = {}, top_p = {}, min_p = {}, typical_p = {};
  std::optional<double> repetition_penalty = {}, presence_penalty = {}, frequency_penalty = {};
  std::optional<int64_t> top_k = {}, seed = {}, max_tokens = {};
  std::vector<int64_t> biased_ids = {};
  std::vector<double> biases = {};
  std::vector<std::string> stop = {};
  RLX_FIELDS(SettingsText, field("temperature", &SettingsText::temperature), field("top_p", &SettingsText::top_p),
             field("min_p", &SettingsText::min_p), field("typical_p", &SettingsText::typical_p),
             field("repetition_penalty", &SettingsText::repetition_penalty),
             field("presence_penalty", &SettingsText::presence_penalty),
             field("frequency_penalty", &SettingsText::frequency_penalty), field("top_k", &SettingsText::top_k),
             field("seed", &SettingsText::seed), field("max_tokens", &SettingsText::max_tokens),
             field("biased_ids", &SettingsText::biased_ids), field("biases", &SettingsText::biases),
             field("stop", &SettingsText::stop));
};

SettingsText settings_from(const char* settings) {
  return read_over(SettingsText{}, settings ? settings : "{}", "settings");
}

rlx::SamplerOptions sampling_over(rlx::SamplerOptions options, const SettingsText& given) {
  const auto take = [](auto& to, const auto& from) {
    if (from) to = *from;
  };
  take(options.temperature, given.temperature), take(options.top_k, given.top_k), take(options.top_p, given.top_p);
  take(options.min_p, given.min_p), take(options.typical_p, given.typical_p);
  take(options.repetition_penalty, given.repetition_penalty), take(options.presence_penalty, given.presence_penalty);
  take(options.frequency_penalty, given.frequency_penalty);
  if (given.seed && *given.seed < 0) fail(ErrorCode::invalid_argument, "seed is ", *given.seed, "; it goes from 0 on");
  if (given.seed) options.seed = static_cast<uint64_t>(*given.seed);
  if (given.biased_ids.size() != given.biases.size())
    fail(ErrorCode::invalid_argument, "there are ", given.biased_ids.size(), " biased_ids and ", given.biases.size(),
         " biases; each id has one");
  for (size_t i = 0; i < given.biases.size(); ++i) {
    if (!std::in_range<int32_t>(given.biased_ids[i]))
      fail(ErrorCode::invalid_argument, "biased_ids has ", given.biased_ids[i], ", which is no token of 32 bits");
    options.logit_bias.emplace_back(static_cast<int32_t>(given.biased_ids[i]), given.biases[i]);
  }
  return options;
}

rlx::PromptKind prompt_kind(int kind) {
  if (kind < 0 || kind > 2)
    fail(ErrorCode::invalid_argument, "kind is ", kind, "; 0 is text, 1 plain text, 2 what a chat template gave");
  return static_cast<rlx::PromptKind>(kind);
}

template <class T>
nlohmann::ordered_json json_or_null(const std::optional<T>& value) {
  if (!value) return nullptr;
  return *value;
}

struct ConversionText {
  std::string dequantize = {}, quantize = {};
  int64_t most_file_bytes = 0;
  RLX_FIELDS(ConversionText, field("dequantize", &ConversionText::dequantize),
             field("quantize", &ConversionText::quantize), field("most_file_bytes", &ConversionText::most_file_bytes));
};
ConversionText conversion_from(const char* options) {
  auto given = read_over(ConversionText{}, options ? options : "{}", "options");
  if (given.most_file_bytes < 0)
    fail(ErrorCode::invalid_argument, "most_file_bytes is ", given.most_file_bytes, "; it is 0 or more");
  return given;
}
std::optional<rlx::DType> dequantized_to(const ConversionText& given) {
  if (given.dequantize.empty()) return std::nullopt;
  return rlx::dtype_named(given.dequantize);
}
/// `tensors` are pairs of names and tensors.
template <class Named>
char* conversion_report(const Named& tensors, const std::vector<std::string>& notes) {
  uint64_t bytes = 0;
  for (const auto& each : tensors) bytes += each.second.byte_count();
  const nlohmann::ordered_json all = {{"tensors", tensors.size()}, {"bytes", bytes}, {"notes", notes}};
  return own_text(all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

rlx::Tensor ids_tensor(const std::vector<int32_t>& ids) {
  return rlx::Tensor::of<int32_t>({static_cast<int64_t>(ids.size())}, ids);
}

}  // namespace

extern "C" {

// ---- in the other format ----
rlx_status rlx_language_model_to_gguf(const char* folder, const char* path, const char* options, char** notes,
                                      rlx_error** error) {
  return guarded(error, [&] {
    const std::string from = required_text(folder, "folder"), to = required_text(path, "path");
    const ConversionText given = conversion_from(options);
    rlx::GgufModel model = rlx::gguf_model_of_folder(from, {.dequantize = dequantized_to(given)});
    if (!given.quantize.empty()) rlx::quantize_matrices(model, rlx::dtype_named(given.quantize));
    rlx::write_gguf_model(to, model, {.most_part_bytes = static_cast<uint64_t>(given.most_file_bytes)});
    if (notes) *notes = conversion_report(model.tensors, model.notes);
  });
}
rlx_status rlx_language_model_to_folder(const char* path, const char* folder, const char* options, char** notes,
                                        rlx_error** error) {
  return guarded(error, [&] {
    const std::string from = required_text(path, "path"), to = required_text(folder, "folder");
    const ConversionText given = conversion_from(options);
    if (!given.quantize.empty())
      fail(ErrorCode::invalid_argument, "quantize is '", given.quantize, "', and a folder has no blocks");
    const rlx::FolderModel model = rlx::folder_model_of_gguf(from, {.dequantize = dequantized_to(given)});
    rlx::write_folder_model(to, model, static_cast<uint64_t>(given.most_file_bytes));
    if (notes) *notes = conversion_report(model.tensors, model.notes);
  });
}

// ---- models ----
rlx_status rlx_language_model_load(const char* path, const char* device, const rlx_language_model_options* options,
                                   const rlx_compile_options* compile, rlx_language_model** language_model,
                                   rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(language_model, "language_model");
    const auto given = options_of(options);
    rlx::LanguageModel::Options all;
    all.device = device_from(device);
    all.threads = given.threads;
    all.context = given.context;
    if (given.chunk) all.chunk = given.chunk;
    if (given.cache) all.cache = rlx::dtype_named(given.cache);
    for (size_t i = 0; i < given.adapter_count; ++i)
      all.adapters.push_back({required_text(given.adapters ? given.adapters[i] : nullptr, "adapters"),
                              given.adapter_scales ? given.adapter_scales[i] : 1});
    all.access = given.copied ? rlx::FileAccess::copied : rlx::FileAccess::mapped;
    all.compile = compile_options_from(compile);
    result = new rlx_language_model{rlx::LanguageModel::load(required_text(path, "path"), std::move(all))};
  });
}
rlx_status rlx_language_model_describe(const rlx_language_model* language_model, char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    const rlx::LanguageModel& model = required(language_model, "language_model").model;
    const rlx::LanguageModelConfig& config = model.config();
    const rlx::LanguageModel::Advice& advice = model.advice();
    const nlohmann::ordered_json all = {{"architecture", config.architecture},
                                        {"vocabulary", config.vocabulary},
                                        {"hidden", config.hidden},
                                        {"layers", config.layers},
                                        {"heads", config.heads},
                                        {"kv_heads", config.kv_heads},
                                        {"head_dim", config.head_dim},
                                        {"intermediate", config.intermediate},
                                        {"experts", config.experts},
                                        {"window", config.window},
                                        {"promised_context", config.context},
                                        {"context", model.context()},
                                        {"bos_id", json_or_null(model.bos_id())},
                                        {"stop_ids", model.stop_ids()},
                                        {"advice",
                                         {{"temperature", json_or_null(advice.temperature)},
                                          {"top_k", json_or_null(advice.top_k)},
                                          {"top_p", json_or_null(advice.top_p)},
                                          {"min_p", json_or_null(advice.min_p)},
                                          {"repetition_penalty", json_or_null(advice.repetition_penalty)}}}};
    result = own_text(all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  });
}
const char* rlx_language_model_architecture(const rlx_language_model* language_model) {
  return language_model ? language_model->model.config().architecture.c_str() : "";
}
int64_t rlx_language_model_vocabulary(const rlx_language_model* language_model) {
  return language_model ? language_model->model.config().vocabulary : 0;
}
int64_t rlx_language_model_context(const rlx_language_model* language_model) {
  return language_model ? language_model->model.context() : 0;
}
int32_t rlx_language_model_bos_id(const rlx_language_model* language_model) {
  return language_model ? language_model->model.bos_id().value_or(-1) : -1;
}
const int32_t* rlx_language_model_stop_ids(const rlx_language_model* language_model, size_t* count) {
  if (count) *count = language_model ? language_model->model.stop_ids().size() : 0;
  return language_model ? language_model->model.stop_ids().data() : nullptr;
}
rlx_status rlx_language_model_tokenizer(const rlx_language_model* language_model, rlx_tokenizer** tokenizer,
                                        rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(tokenizer, "tokenizer");
    result = new rlx_tokenizer{required(language_model, "language_model").model.tokenizer()};
  });
}
rlx_status rlx_language_model_chat_template(const rlx_language_model* language_model, rlx_chat_template** chat_template,
                                            rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(chat_template, "chat_template");
    auto found = required(language_model, "language_model").model.chat_template();
    if (!found) fail(ErrorCode::not_found, "the model has no chat template");
    result = new rlx_chat_template{*std::move(found)};
  });
}
rlx_status rlx_language_model_prompt(const rlx_language_model* language_model, const char* text, size_t size, int kind,
                                     rlx_tensor** tensor, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(tensor, "tensor");
    const rlx::LanguageModel& model = required(language_model, "language_model").model;
    required(text, "text");
    const auto characters = array_from(text, size, "text");
    result = new rlx_tensor{
        ids_tensor(rlx::prompt_tokens(model, {characters.data(), characters.size()}, prompt_kind(kind)))};
  });
}
rlx_status rlx_language_model_all_logits(const rlx_language_model* language_model, const int32_t* ids, size_t count,
                                         rlx_tensor** tensor, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(tensor, "tensor");
    const rlx::LanguageModel& model = required(language_model, "language_model").model;
    result = new rlx_tensor{model.all_logits(array_from(&required(ids, "ids"), count, "ids"))};
  });
}
rlx_status rlx_language_model_report(const rlx_language_model* language_model, char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    result = own_text(required(language_model, "language_model").model.compiled().report().json());
  });
}
void rlx_language_model_free(rlx_language_model* language_model) { delete language_model; }

// ---- sequences ----
rlx_status rlx_sequence_new(const rlx_language_model* language_model, rlx_sequence** sequence, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(sequence, "sequence");
    result = new rlx_sequence{required(language_model, "language_model").model.sequence()};
  });
}
rlx_status rlx_sequence_copy(const rlx_sequence* sequence, rlx_sequence** copy, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(copy, "copy");
    result = new rlx_sequence{required(sequence, "sequence").sequence};
  });
}
rlx_status rlx_sequence_logits(rlx_sequence* sequence, const int32_t* ids, size_t count, rlx_tensor** tensor,
                               rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(tensor, "tensor");
    auto& s = required(sequence, "sequence").sequence;
    result = new rlx_tensor{s.logits(array_from(&required(ids, "ids"), count, "ids"))};
  });
}
rlx_status rlx_sequence_all_logits(rlx_sequence* sequence, const int32_t* ids, size_t count, rlx_tensor** tensor,
                                   rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(tensor, "tensor");
    auto& s = required(sequence, "sequence").sequence;
    result = new rlx_tensor{s.all_logits(array_from(&required(ids, "ids"), count, "ids"))};
  });
}
int64_t rlx_sequence_position(const rlx_sequence* sequence) { return sequence ? sequence->sequence.position() : 0; }
rlx_status rlx_sequence_rewind(rlx_sequence* sequence, int64_t tokens, rlx_error** error) {
  return guarded(error, [&] { required(sequence, "sequence").sequence.rewind(tokens); });
}
size_t rlx_sequence_memory_bytes(const rlx_sequence* sequence) {
  return sequence ? sequence->sequence.memory_bytes() : 0;
}
void rlx_sequence_free(rlx_sequence* sequence) { delete sequence; }

// ---- samplers ----
rlx_status rlx_sampler_new(const char* settings, rlx_sampler** sampler, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(sampler, "sampler");
    const SettingsText given = settings_from(settings);
    if (given.max_tokens || !given.stop.empty())
      fail(ErrorCode::invalid_argument, "max_tokens and stop are settings of a generator, not of a sampler");
    result = new rlx_sampler{rlx::Sampler(sampling_over({}, given))};
  });
}
rlx_status rlx_sampler_see(rlx_sampler* sampler, const int32_t* ids, size_t count, rlx_error** error) {
  return guarded(error, [&] { required(sampler, "sampler").sampler.see(array_from(ids, count, "ids")); });
}
rlx_status rlx_sampler_sample(rlx_sampler* sampler, const float* logits, size_t count, int32_t* id, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(id, "id");
    auto& s = required(sampler, "sampler").sampler;
    result = s.sample(array_from(&required(logits, "logits"), count, "logits"));
  });
}
rlx_status rlx_sampler_chances(rlx_sampler* sampler, const float* logits, size_t count, int32_t* ids,
                               double* probabilities, size_t room, size_t* made, rlx_error** error) {
  return guarded(error, [&] {
    auto& s = required(sampler, "sampler").sampler;
    const auto made_ids = array_from(ids, room, "ids");
    const auto made_probabilities = array_from(probabilities, room, "probabilities");
    const auto chances = s.chances(array_from(&required(logits, "logits"), count, "logits"));
    for (size_t i = 0; i < std::min(room, chances.size()); ++i)
      made_ids[i] = chances[i].id, made_probabilities[i] = chances[i].probability;
    if (made) *made = chances.size();
  });
}
rlx_status rlx_sampler_reset(rlx_sampler* sampler, rlx_error** error) {
  return guarded(error, [&] { required(sampler, "sampler").sampler.reset(); });
}
void rlx_sampler_free(rlx_sampler* sampler) { delete sampler; }

// ---- generators ----
rlx_status rlx_generator_new(const rlx_language_model* language_model, const char* settings, rlx_generator** generator,
                             rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(generator, "generator");
    const rlx::LanguageModel& model = required(language_model, "language_model").model;
    const SettingsText given = settings_from(settings);
    rlx::TextGenerator::Options options;
    options.sampling = sampling_over(rlx::advised_sampling(model), given);
    options.stops = given.stop;
    if (given.max_tokens) options.max_tokens = *given.max_tokens;
    result = new rlx_generator{rlx::TextGenerator(model, std::move(options))};
  });
}
rlx_status rlx_generator_begin(rlx_generator* generator, const int32_t* ids, size_t count, rlx_error** error) {
  return guarded(error, [&] {
    auto& g = required(generator, "generator").generator;
    g.begin(array_from(&required(ids, "ids"), count, "ids"));
  });
}
rlx_status rlx_generator_cancel(rlx_generator* generator, rlx_error** error) {
  return guarded(error, [&] { required(generator, "generator").generator.cancel(); });
}
rlx_status rlx_generator_next(rlx_generator* generator, char** text, size_t* size, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(text, "text");
    const auto piece = required(generator, "generator").generator.next();
    if (size) *size = 0;
    result = piece ? own_text(*piece, size) : nullptr;
  });
}
rlx_status rlx_generator_describe(const rlx_generator* generator, char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    const rlx::TextGenerator& g = required(generator, "generator").generator;
    nlohmann::ordered_json finish = nullptr;
    if (g.finish()) finish = names_of(*g.finish())[static_cast<size_t>(*g.finish())];
    result = own_text(
        nlohmann::ordered_json{{"tokens", g.tokens()}, {"finish", finish}, {"read_tokens", g.read_tokens()}}.dump());
  });
}
rlx_status rlx_generator_reset(rlx_generator* generator, rlx_error** error) {
  return guarded(error, [&] { required(generator, "generator").generator.reset(); });
}
void rlx_generator_free(rlx_generator* generator) { delete generator; }

}  // extern "C"
