// Text to token ids and back, as the Python package `tokenizers` does it: a `tokenizer.json` gives the same
// ids here. Models: BPE (GPT-2, Llama, Qwen, ...), Unigram (T5, XLM-R, ...), WordPiece (BERT, MiniLM, ...), WordLevel.
// Also from the metadata of a GGUF file, as llama.cpp reads them, and from tiktoken's ranks. A Tokenizer is cheap to
// copy and may be used by several threads at once; a DecodeStream belongs to one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlx/gguf.h"

namespace rlx {

/// Bytes [begin, end) of a text.
struct TextSpan {
  size_t begin = 0, end = 0;
  bool operator==(const TextSpan&) const = default;
};

/// The tokens of a text, or of two, and what is known about each; all but the last have one element per token.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;             ///< which of the texts, as the model was trained with it
  std::vector<int32_t> attention_mask;       ///< 1, or 0 for padding
  std::vector<int32_t> special_tokens_mask;  ///< 1 for what the text did not have: [CLS], [SEP], padding
  std::vector<int32_t> words;                ///< the number of the word the token is part of; -1 for special tokens
  std::vector<TextSpan> offsets;             ///< where in its text the token stands; empty for special tokens
  std::vector<std::string> tokens;
  /// What truncation cut off, in pieces of the same length; only with Truncation::keep_overflow.
  std::vector<Encoding> overflowing;

  size_t size() const { return ids.size(); }
};

enum class Side { left, right };
constexpr std::array<std::string_view, 2> names_of(Side) { return {"left", "right"}; }

/// Limits the tokens of an encoding, special ones included.
struct Truncation {
  /// From which of two texts tokens are taken away. A single text is the first.
  enum class Strategy { longest_first, only_first, only_second };

  size_t max_length = 512;
  Strategy strategy = Strategy::longest_first;
  Side side = Side::right;     ///< where tokens are taken away
  bool keep_overflow = false;  ///< whether to return them in Encoding::overflowing
  size_t stride = 0;           ///< tokens by which neighbouring pieces of the overflow agree
};

constexpr std::array<std::string_view, 3> names_of(Truncation::Strategy) {
  return {"longest_first", "only_first", "only_second"};
}

/// Makes encodings longer.
struct Padding {
  /// To this many tokens; if not given, to the longest of the batch.
  std::optional<size_t> length = std::nullopt;
  size_t pad_to_multiple_of = 0;  ///< then to a multiple of this, if it is not 0
  Side side = Side::right;
  int32_t id = 0;
  int32_t type_id = 0;
  std::string token = "[PAD]";
};

/// What vocab.txt does not say; tokenizer_config.json may.
struct VocabularyFileOptions {
  bool lowercase = true;
  std::optional<bool> strip_accents = std::nullopt;  ///< as `lowercase` if not given
  bool handle_chinese_chars = true;
};

class Tokenizer {
 public:
  /// Reads a tokenizer.json, or a folder that holds one; or a vocab.txt, or a folder that holds one, with the
  /// options in its tokenizer_config.json if that is there; or a .gguf, by its metadata.
  static Tokenizer load(const std::string& path);
  /// From the text of a tokenizer.json.
  static Tokenizer from_json(std::string_view json);
  /// BERT's tokenizer from the text of a vocab.txt: one token a line, its number the id.
  static Tokenizer from_vocabulary(std::string_view lines, const VocabularyFileOptions& options = {});

  /// From `tokenizer.ggml.*`: the models llama (SentencePiece's BPE), gpt2 (byte-level BPE, by its `pre`), gemma4, bert
  /// and t5. Fails, as unsupported, for another model or `pre`; as a parse error for metadata that contradict
  /// themselves.
  static Tokenizer from_gguf(const GgufMetadata& metadata);
  /// From tiktoken's ranks, a line of base64 and a number for each token; `pattern` splits text into words, and the
  /// special tokens, with their ids, are not in the ranks.
  static Tokenizer from_tiktoken(std::string_view ranks, std::string_view pattern,
                                 const std::vector<std::pair<std::string, int32_t>>& special_tokens = {});

  /// Text need not be valid UTF-8: what is not becomes U+FFFD, as with Python's errors="replace". Offsets are
  /// always bytes of what was given.
  Encoding encode(std::string_view text, bool add_special_tokens = true) const;
  Encoding encode_pair(std::string_view first, std::string_view second, bool add_special_tokens = true) const;
  /// With padding, all results have the same length.
  std::vector<Encoding> encode_batch(std::span<const std::string> texts, bool add_special_tokens = true) const;
  std::vector<Encoding> encode_batch(std::span<const std::string_view> texts, bool add_special_tokens = true) const;

  /// Text that reads like what was encoded, as far as the tokens still tell. Ids that have no token give nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = true) const;

  /// Whether the text of a special token ("<|im_end|>") in what is encoded is text like any other, for what users
  /// write; false until it is set.
  bool encode_special_tokens() const { return encode_special_tokens_; }
  void set_encode_special_tokens(bool as_text) { encode_special_tokens_ = as_text; }

  /// The number of tokens, added ones included.
  size_t vocab_size() const;
  std::optional<int32_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(int32_t id) const;

  /// The settings of the file, until they are set; nullopt turns them off.
  const std::optional<Truncation>& truncation() const { return truncation_; }
  const std::optional<Padding>& padding() const { return padding_; }
  void set_truncation(const std::optional<Truncation>& truncation);
  void set_padding(const std::optional<Padding>& padding);

  /// What a tokenizer is made of; src/io/tokenizer/parts.h.
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts);

 private:
  std::shared_ptr<const Parts> parts_;
  std::optional<Truncation> truncation_;
  std::optional<Padding> padding_;
  bool encode_special_tokens_ = false;
};

/// Text from ids as they come, in pieces that are valid UTF-8: what a token begins and does not complete waits for the
/// next. The pieces, one behind the other, are what decode() makes of all ids,
/// but where 16 tokens in a row are no text: what follows them is decoded by itself.
class DecodeStream {
 public:
  explicit DecodeStream(Tokenizer tokenizer, bool skip_special_tokens = true)
      : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}
  /// What `id` adds; often nothing yet.
  std::string put(int32_t id);
  /// What still waits, with U+FFFD for what will not be completed; the stream begins anew.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  std::vector<int32_t> ids_;  // the last whose text was given, and those whose text waits
  size_t given_ = 0;          // how many of them are of the former
  size_t given_bytes_ = 0;    // of the text of all of them
};

}  // namespace rlx
