// Encoders with a head; see rlx/models.h.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "io/json_tree.h"
#include "models/encoder_weights.h"
#include "models/language/weight_files.h"
#include "rlx/io.h"
#include "rlx/models.h"

namespace rlx {
namespace {

std::string config_in(const std::string& folder) { return (std::filesystem::path(folder) / "config.json").string(); }

}  // namespace

bool TextEncoder::is_one(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(config_in(folder), error)) return false;
  const JsonTree json = json_or_null(language::text_of_file(config_in(folder), size_t{4} << 20));
  const JsonTree* type = json.find("model_type");
  return type && type->is_string() && (type->string() == "bert" || type->string() == "modernbert");
}

TextEncoder TextEncoder::load(const std::string& folder, Options options) {
  return with_context(
      [&] { return text_of("loading the model in '", folder, "'"); },
      [&] {
        EncoderConfig config = EncoderConfig::load(config_in(folder));
        if (config.head == EncoderHead::none)
          fail(ErrorCode::unsupported,
               "'architectures' in config.json names no encoder with a head that is built here: "
               "ForMaskedLM or ForSequenceClassification of Bert and ModernBert");
        CompiledGraph compiled =
            Session(options.device, {options.threads}).compile(text_encoder_graph(config), options.compile);
        encoders::bind_params(compiled, folder, config);
        return TextEncoder(std::move(config), std::move(compiled));
      });
}

Tensor TextEncoder::logits(Tensor ids, Tensor mask) const {
  if (ids.dtype() != i64 || ids.shape().size() != 2 || ids.shape()[1] < 1)
    fail(ErrorCode::invalid_argument, "ids are ", Type{ids.dtype(), Dims(ids.shape().begin(), ids.shape().end())},
         "; they must be i64[texts, tokens], of at least one token");
  const auto all = ids.values<int64_t>();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i] < 0 || all[i] >= config_.vocab_size())
      fail(ErrorCode::invalid_argument, "token ", i, " is ", all[i], ", but the vocabulary has 0 to ",
           config_.vocab_size() - 1);
  const bool is_bert = std::holds_alternative<BertConfig>(config_.model);
  if (is_bert && ids.shape()[1] > config_.max_positions())
    fail(ErrorCode::invalid_argument, ids.shape()[1], " tokens, but the model's table has ", config_.max_positions(),
         " positions");
  std::vector<Tensor> inputs = {ids, std::move(mask)};
  if (is_bert) inputs.emplace_back(i64, ids.shape());
  return compiled_.run_ordered(inputs)[0];
}

Tensor TextEncoder::logits(std::span<const int32_t> ids) const {
  const auto n = static_cast<int64_t>(ids.size());
  Tensor wide(i64, {1, n}), mask(i64, {1, n});
  std::copy(ids.begin(), ids.end(), wide.mutable_values<int64_t>().begin());
  std::fill_n(mask.mutable_values<int64_t>().begin(), ids.size(), 1);
  Tensor made = logits(std::move(wide), std::move(mask));
  return config_.head == EncoderHead::masked_tokens ? made.reshaped({n, config_.vocab_size()}) : made;
}

}  // namespace rlx
