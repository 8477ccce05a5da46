// Which encoder a config.json describes, and with which head; see rlx/models.h.
#include <string>
#include <string_view>

#include "models/language/config_json_keys.h"
#include "rlx/io.h"
#include "rlx/models.h"

namespace rlx {
namespace {

using language::config_json::Keys;
using language::config_json::kFile;

constexpr int64_t kMostClasses = 1 << 20;

/// Names of classes: `id2label`, else "LABEL_0" and so on, `num_labels` of them or two, as in transformers.
std::vector<std::string> classes_of(const Keys& k) {
  std::vector<std::string> names;
  if (!k.has("id2label")) {
    const int64_t count = k.size_or("num_labels", 2, 1, kMostClasses);
    for (int64_t i = 0; i < count; ++i) names.push_back(text_of("LABEL_", i));
    return names;
  }
  const JsonTree& labels = k.object("id2label");
  const auto count = static_cast<int64_t>(labels.elements().size());
  if (count < 1 || count > kMostClasses)
    fail(ErrorCode::parse, k.name("id2label"), " has ", count, " members; it must be 1 to ", kMostClasses);
  if (k.has("num_labels") && k.size("num_labels", 1, kMostClasses) != count)
    fail(ErrorCode::parse, k.name("num_labels"), " is ", k.find("num_labels")->shown(), ", but 'id2label' names ",
         count);
  for (int64_t i = 0; i < count; ++i) {
    const JsonTree* name = labels.find(std::to_string(i));
    if (!name || !name->is_string())
      fail(ErrorCode::parse, k.name("id2label"), " has ", count, " members, of which '", i, "' is ",
           name ? name->shown() : "missing", "; it must be the name of a class");
    names.push_back(name->string());
  }
  return names;
}

/// The head that `architectures` names; a model without the key, or of which only the encoder is there, has none.
EncoderHead head_of(const Keys& k, std::string_view prefix) {
  const JsonTree* names = k.find("architectures");
  if (!names) return EncoderHead::none;
  if (!names->is_array()) fail(ErrorCode::parse, k.name("architectures"), " is ", names->shown(), ", not a list");
  if (names->elements().size() != 1 || !names->elements()[0].is_string()) return EncoderHead::none;
  const std::string& name = names->elements()[0].string();
  if (name == text_of(prefix, "ForMaskedLM")) return EncoderHead::masked_tokens;
  if (name == text_of(prefix, "ForSequenceClassification")) return EncoderHead::classes;
  return EncoderHead::none;
}

}  // namespace

EncoderConfig EncoderConfig::from_json(std::string_view text) {
  // BERT's own reader says what is wrong with a file that is no JSON.
  const JsonTree json = json_or_null(text);
  const Keys k(json);
  const bool is_modern = json.is_object() && k.text_or("model_type", "bert") == "modernbert";
  EncoderConfig c =
      is_modern ? EncoderConfig(ModernBertConfig::from_json(text)) : EncoderConfig(BertConfig::from_json(text));
  if (k.has("quantization_config"))
    fail(ErrorCode::unsupported, k.name("quantization_config"),
         " is there; encoders' weights are read as floats alone");
  c.head = head_of(k, is_modern ? "ModernBert" : "Bert");
  if (c.head == EncoderHead::classes) c.classes = classes_of(k);
  return c;
}

EncoderConfig EncoderConfig::load(const std::string& path) {
  return with_context([&] { return text_of("loading '", path, "'"); },
                      [&] {
                        auto file = FileBytes::read(path);
                        return from_json({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
                      });
}

int64_t EncoderConfig::vocab_size() const {
  return std::visit([](const auto& c) { return c.vocab_size; }, model);
}
int64_t EncoderConfig::hidden_size() const {
  return std::visit([](const auto& c) { return c.hidden_size; }, model);
}
int64_t EncoderConfig::max_positions() const {
  return std::visit([](const auto& c) { return c.max_positions; }, model);
}

}  // namespace rlx
