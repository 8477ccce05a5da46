// See the header.
#include "models/encoder_weights.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/language/limits.h"
#include "models/widened.h"
#include "rlx/io.h"

namespace rlx::encoders {
namespace {

/// Names, without the prefix, that an encoder may have beside what is read: heads for another use, and buffers.
bool means_nothing(std::string_view name, bool is_bert, EncoderHead head) {
  // A head is one thing: what belongs to the other, or to none, was left by the training.
  const bool is_of_tokens = is_bert ? name.starts_with("cls.") : name.starts_with("decoder.");
  const bool is_of_classes = name.starts_with("classifier.");
  if (is_bert && name.starts_with("cls.seq_relationship.")) return true;
  if (is_bert && name == "embeddings.position_ids") return true;
  if (is_bert && name.starts_with("pooler.")) return head != EncoderHead::classes;
  if (is_of_tokens) return head != EncoderHead::masked_tokens;
  if (is_of_classes) return head != EncoderHead::classes;
  return !is_bert && name.starts_with("head.") && head == EncoderHead::none;
}

bool are_alike(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.byte_count()) == 0;
}

}  // namespace

void bind_params(CompiledGraph& compiled, const std::string& folder, const EncoderConfig& config) {
  const auto weights =
      SafetensorsFile::open((std::filesystem::path(folder) / "model.safetensors").string(), FileAccess::when_read);
  const bool is_bert = std::holds_alternative<BertConfig>(config.model);
  const std::string prefix = is_bert ? "bert." : "model.";
  std::set<std::string> read;
  for (const auto& param : compiled.signature().params) {
    std::string name = param.name;
    if (!weights.find(name) && weights.find(prefix + name)) name = prefix + name;
    const Shape shape = shape_of(param.type.dims);
    const SafetensorsFile::Entry* entry = weights.find(name);
    const bool is_half = entry && (entry->dtype == f16 || entry->dtype == bf16);
    const Tensor t = weights.tensor(name, is_half ? entry->dtype : param.type.dtype, shape);
    compiled.set_param(param.name, is_half ? models::widened(t) : t);
    read.insert(name);
  }
  const bool has_graph_head = compiled.signature().outputs.at(0).name == "logits";
  const EncoderHead head = has_graph_head ? config.head : EncoderHead::none;
  std::string unread;
  size_t count = 0;
  for (const auto& entry : weights.entries()) {
    std::string_view name = entry.name;
    if (read.contains(entry.name)) continue;
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
    if (means_nothing(name, is_bert, head)) continue;
    // Second copies of what is tied.
    if (head == EncoderHead::masked_tokens) {
      const auto copies = [&](const char* copy, std::string original) {
        if (name != copy) return false;
        if (!weights.find(original)) original = prefix + original;
        if (are_alike(weights.tensor(entry.name), weights.tensor(original))) return true;
        fail(ErrorCode::unsupported, "tensor '", entry.name, "' in '", folder, "' is another than '", original,
             "', of which it should be a copy");
      };
      if (copies("decoder.weight", "embeddings.tok_embeddings.weight")) continue;
      if (copies("cls.predictions.decoder.weight", "embeddings.word_embeddings.weight")) continue;
      if (copies("cls.predictions.decoder.bias", "cls.predictions.bias")) continue;
    }
    if (++count <= 3) unread += text_of(count > 1 ? ", '" : "'", language::shown_name(entry.name), "'");
  }
  if (count > 0)
    fail(ErrorCode::unsupported, "the model has ", count, " tensors that its configuration has no use for: ", unread,
         count > 3 ? ", ..." : "");
}

}  // namespace rlx::encoders
