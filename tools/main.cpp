// The program `rlx`: parses the command line, runs one subcommand, and turns what went wrong into an exit code: 0 for
// success, 1 for an error in what was given (files, devices, values), 2 for wrong usage.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <new>
#include <sstream>

#include "base/printable_text.h"
#include "rlx/error.h"
#include "rlx/plugin.h"
#include "rlx/version.h"
#include "tools/did_you_mean.h"
#include "tools/npz_limit.h"
#include "tools/output.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

constexpr const char* kFooter =
    R"(First steps (MODEL is a folder with config.json, tokenizer.json and model.safetensors of a sentence encoder):
  rlx embed --model MODEL "A sentence." "Another one."
  rlx search --model MODEL --corpus lines.txt "what is looked for"
  rlx where MODEL                        which device runs which op, and why
  rlx run model.rlx --input x=x.npy --output-dir out
  rlx train mlp --data x=x.npy --data t=labels.npy --hold-out 0.1 --out digits

`rlx SUBCOMMAND --help` shows all options and examples.
Exit code: 0; 1 if a file, a device or a value was not right; 2 if the command line was not.)";

/// What stands behind the error tells which subcommand's help to read.
int wrong_usage(const CLI::App& app, const std::string& message) {
  std::string name = "rlx";
  for (const CLI::App* sub : app.get_subcommands()) name += " " + sub->get_name();
  const std::string said = printable_text(message);
  std::fprintf(stderr, "%s: %s\nSee `%s --help`.\n", name.c_str(), said.c_str(), name.c_str());
  return 2;
}

int run(int argc, char** argv) {
  CLI::App app("RLX compiles and runs machine learning models.", "rlx");
  app.set_version_flag("--version", std::string("rlx ") + version(), "Print the version and exit");
  std::vector<std::string> plugins;
  app.add_option("--load", plugins,
                 "a shared library that registers backends, ops or kernels; before the subcommand; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--npz-limit", npz_limit,
                 "bytes that the arrays of a .npz archive may unpack to, where the default of 1 GiB, or 32 times the "
                 "file, is too little; before the subcommand")
      ->option_text("BYTES")
      ->check([](const std::string& text) {
        const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
        return is_number && text != "0" ? std::string()
                                        : "takes a number of bytes of at least 1, and got '" + text + "'";
      });
  app.require_subcommand(1);  // also keeps a sentence "search" behind `embed` from being taken for a subcommand
  app.footer(kFooter);
  std::vector<Subcommand> subcommands;
  for (auto add :
       {add_embed,      add_tokenize, add_detokenize, add_search,      add_generate, add_chat,      add_logits,
        add_perplexity, add_run,      add_compile,    add_train,       add_quantize, add_convert,   add_inspect,
        add_where,      add_ops,      add_devices,    add_test_device, add_bench,    add_calibrate, add_conformance,
        add_lint,       add_compare,  add_completion, add_manual})
    subcommands.push_back(add(app));
  try {
    app.parse(argc, argv);
    for (const std::string& path : plugins) load_plugin(path);
    for (const Subcommand& subcommand : subcommands)
      if (subcommand.app->parsed()) subcommand.run();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      const std::string mistyped = mistyped_word(app, {argv + 1, argv + argc});
      return wrong_usage(app, mistyped.empty() ? error.what() : mistyped);
    }
    std::ostringstream help;  // --help, --version
    app.exit(error, help, help);
    write_out(help.str());
  } catch (const UsageError& error) {
    return wrong_usage(app, error.what());
  }
  flush_out();
  return 0;
}

}  // namespace
}  // namespace rlx::tools

// A function of its own because the Python package's library has it too, for a program that is linked to that.
extern "C" int rlx_program_main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is seen where we write, and ends us in order
  try {
    return rlx::tools::run(argc, argv);
  } catch (const rlx::tools::ReaderLeft&) {
    return 0;
  } catch (const rlx::Error& error) {
    rlx::say("error: ", error.what());
  } catch (const std::bad_alloc&) {
    std::fputs("rlx: error: out of memory\n", stderr);
  } catch (const std::exception& error) {
    rlx::say("error: ", error.what());
  }
  return 1;
}

int main(int argc, char** argv) { return rlx_program_main(argc, argv); }
