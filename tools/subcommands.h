// The subcommands of `rlx`, one file each: tools/embed.cpp and so on. Each adds its options to the command line and
// says what to do once they were parsed; nothing runs while parsing, so wrong usage never leaves work half done.
#pragma once

#include <functional>
#include <stdexcept>

namespace CLI {
class App;
}

namespace rlx::tools {

/// The words on the command line make no sense together: exit code 2. What a file or a device cannot do is an
/// rlx::Error: exit code 1.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Subcommand {
  CLI::App* app;
  std::function<void()> run;
};

Subcommand add_embed(CLI::App& rlx);
Subcommand add_tokenize(CLI::App& rlx);
Subcommand add_detokenize(CLI::App& rlx);
Subcommand add_search(CLI::App& rlx);
Subcommand add_generate(CLI::App& rlx);
Subcommand add_chat(CLI::App& rlx);
Subcommand add_logits(CLI::App& rlx);
Subcommand add_perplexity(CLI::App& rlx);
Subcommand add_run(CLI::App& rlx);
Subcommand add_compile(CLI::App& rlx);
Subcommand add_train(CLI::App& rlx);
Subcommand add_quantize(CLI::App& rlx);
Subcommand add_inspect(CLI::App& rlx);
Subcommand add_where(CLI::App& rlx);
Subcommand add_ops(CLI::App& rlx);
Subcommand add_devices(CLI::App& rlx);
Subcommand add_test_device(CLI::App& rlx);
Subcommand add_bench(CLI::App& rlx);
Subcommand add_calibrate(CLI::App& rlx);
Subcommand add_conformance(CLI::App& rlx);
Subcommand add_convert(CLI::App& rlx);
Subcommand add_lint(CLI::App& rlx);
Subcommand add_compare(CLI::App& rlx);
Subcommand add_completion(CLI::App& rlx);
Subcommand add_manual(CLI::App& rlx);

}  // namespace rlx::tools
