// Cases of `rlx bench` that run a language model: what a prompt costs, and what a token costs behind it.
#include "rlx/language_model.h"
#include "tools/bench/cases.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

/// Ids of a vocabulary, the same ones each time.
std::vector<int32_t> some_tokens(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>((i * 131 + 7) % vocabulary));
  return ids;
}

}  // namespace

BenchCase language_case(std::string_view family, int64_t tokens, const std::string& model, DType cache,
                        const CompileOptions& compile) {
  if (model.empty())
    throw UsageError(text_of("the case ", family, "_", tokens, " needs a language model: give --model DIR_OR_FILE"));
  BenchCase c;
  c.prepare = [](BenchCase&) {};
  c.takes_options = true;
  c.start = [=, is_decode = family == "decode"](const BenchCase&, const Session& session,
                                                std::vector<Tensor>& results) -> BenchRun {
    LanguageModel::Options options;
    options.device = session.device(), options.threads = session.threads(), options.cache = cache;
    options.compile = compile;
    const LanguageModel loaded = LanguageModel::load(model, options);
    const std::vector<int32_t> ids = some_tokens(tokens, loaded.config().vocabulary);
    results.resize(1);
    auto sequence = std::make_shared<LanguageModel::Sequence>(loaded.sequence());
    if (is_decode) sequence->logits(ids);
    // Where the states are recurrent, a step costs the same behind any text, and taking one back means reading it all.
    const bool goes_on = is_decode && loaded.config().is_recurrent();
    return {[=, &results] {
              results[0] = is_decode ? sequence->logits(ids[0]) : sequence->logits(ids);
              if (!goes_on) sequence->rewind(is_decode ? 1 : tokens);
            },
            [=] { return sequence->profile(is_decode ? std::span(ids).first(1) : std::span(ids)); }};
  };
  return c;
}

}  // namespace rlx::tools
