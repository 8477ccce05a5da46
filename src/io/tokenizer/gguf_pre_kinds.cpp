// The names of `tokenizer.ggml.pre` and how each splits text: what the tokenizer.json of these models have, named as
// llama.cpp names them (llama-vocab.cpp). Where its expressions leave out "\s+" at the end, what they leave is a part,
// too.
#include <algorithm>
#include <iterator>
#include <string>

#include "io/tokenizer/gguf_tokenizer.h"
#include "io/tokenizer/pre_tokenizers.h"
#include "rlx/error.h"

namespace rlx::tokenizer {
namespace {

// Of tiktoken's cl100k_base (OpenAI 2022), with Llama 3's digits in threes.
constexpr const char* kLlama3 =
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35 =
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Of tiktoken's o200k_base (OpenAI 2024).
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Letters that have a case, by number: several of them have the look, and the normal form, of another.
constexpr const char* kDeepseekLetters =
    R"(\s?[)"
    R"(A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1})"
    R"(\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5})"
    R"(\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77})"
    R"(\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d})"
    R"(\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe})"
    R"(\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec})"
    R"(\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124})"
    R"(\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e})"
    R"(\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d})"
    R"(\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf})"
    R"(\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f})"
    R"(\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df})"
    R"(\x{1e900}-\x{1e943})"
    R"(]+)";
constexpr const char* kCjk = "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+";
constexpr const char* kOldCjk = "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+";
constexpr const char* kBloom = " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+";
constexpr const char* kLines = R"([^\n]+|[\n]+)";

struct Row {
  std::vector<const char*> names;
  PreKind kind;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {{"gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum",
        "modern-bert", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4"},
       {.patterns = {kGpt2Pattern}}},
      {{"jina-v1-en", "jina-v2-code", "roberta-bpe"}, {.patterns = {kGpt2Pattern}, .add_bos = true, .add_eos = true}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
       {.patterns = {kLlama3}, .ignore_merges = true, .add_bos = true}},
      {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {.patterns = {kLlama3}}},
      {{"glm4", "glm5"}, {.patterns = {kLlama3}, .ignore_merges = true}},
      {{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "hunyuan", "solar-open", "megrez", "grok-2"},
       {.patterns = {kQwen2}}},
      {{"qwen35"}, {.patterns = {kQwen35}}},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       {.patterns = {R"(\p{N})", kGpt2Pattern}}},
      {{"falcon"}, {.patterns = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Pattern, "[0-9][0-9][0-9]"}}},
      {{"deepseek-coder"}, {.patterns = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kOldCjk, R"(\p{N})"}}},
      {{"deepseek-llm"},
       {.patterns = {R"([\r\n])", kDeepseekLetters,
                     "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+",
                     R"(\s+$)", kOldCjk, R"(\p{N}+)"}}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, {.patterns = {R"(\p{N}{1,3})", kCjk, kDeepseek3}}},
      {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, {.patterns = {kGpt4o}}},
      {{"tiny_aya", "cohere2moe"}, {.patterns = {R"(\d{1,3}(?=(?:\d{3})*\b))", kGpt4o}}},
      {{"tekken"}, {.patterns = {kTekken}, .ignore_merges = true, .add_bos = true}},
      {{"poro-chat", "bloom", "gpt3-finnish"}, {.patterns = {kBloom}}},
      {{"viking"}, {.patterns = {kBloom, R"(\p{N})"}}},
      {{"superbpe"}, {.patterns = {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"},
       {.patterns =
            {R"('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}}},
      {{"seed-coder"},
       {.patterns =
            {R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"}}},
      {{"laguna"}, {.patterns = {kLines, kQwen2}}},
      {{"gemma4", "granite-embed-multi-311m", "sarvam-moe"}, {.patterns = {kLines}, .raw_utf8 = true}},
      // What files have that do not say: llama.cpp warns of it.
      {{"default", ""}, {.patterns = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, R"(\p{N}+)", "[0-9][0-9][0-9]"}}},
  };
  return all;
}

}  // namespace

std::vector<std::string> pre_kind_names() {
  std::vector<std::string> all;
  for (const Row& row : rows()) all.emplace_back(row.names.front());
  return all;
}

PreKind pre_kind(std::string_view name) {
  for (const Row& row : rows())
    for (const char* known : row.names)
      if (name == known) return row.kind;
  std::string known;
  for (const Row& row : rows())
    for (const char* each : row.names)
      if (*each) (known += known.empty() ? "" : ", ") += each;
  fail(ErrorCode::unsupported, "tokenizer.ggml.pre is '", name.substr(0, 60),
       "', which is not offered; kinds that are: ", known);
}

}  // namespace rlx::tokenizer
