// `rlx completion` and `rlx manual`: what a package installs beside the program, made of the command line itself.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "io/atomic_file.h"
#include "rlx/error.h"
#include "tools/output.h"
#include "tools/reference/command_line.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

void install_all(const ProgramReference& reference, const std::filesystem::path& share) {
  const auto put = [&](const std::filesystem::path& name, const std::string& text) {
    const std::filesystem::path path = share / name;
    std::error_code failed;
    std::filesystem::create_directories(path.parent_path(), failed);
    if (failed) fail(ErrorCode::io, "cannot make the folder '", path.parent_path().string(), "': ", failed.message());
    AtomicFile file(path.string());
    file.write(text);
    file.commit();
  };
  put("man/man1/rlx.1", man_page(reference, ""));
  for (const CommandReference& each : reference.subcommands)
    put("man/man1/rlx-" + each.name + ".1", man_page(reference, each.name));
  put("bash-completion/completions/rlx", bash_completion(reference));
  put("zsh/site-functions/_rlx", zsh_completion(reference));
  put("fish/vendor_completions.d/rlx.fish", fish_completion(reference));
}

}  // namespace

Subcommand add_completion(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("completion", "Completion of this command line for a shell");
  auto shell = std::make_shared<std::string>();
  app->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app->footer(R"~(The script is printed. An installed RLX has all three where the shells look for them.

Examples:
  eval "$(rlx completion bash)"                                    # for this shell
  rlx completion zsh > "${fpath[1]}/_rlx"
  rlx completion fish > ~/.config/fish/completions/rlx.fish)~");
  return {app, [shell, &rlx] {
            const ProgramReference reference = reference_of(rlx);
            write_out(*shell == "bash"  ? bash_completion(reference)
                      : *shell == "zsh" ? zsh_completion(reference)
                                        : fish_completion(reference));
          }};
}

Subcommand add_manual(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("manual", "The manual page of this program, or of a subcommand");
  auto subcommand = std::make_shared<std::string>();
  auto folder = std::make_shared<std::string>();
  CLI::Option* of = app->add_option("SUBCOMMAND", *subcommand, "of which; of the program where it is left out");
  app->add_option("--install", *folder, "write all pages, and the completions, to where a prefix's share has them")
      ->option_text("SHARE")
      ->excludes(of);
  app->footer(R"(The page is printed as troff source. An installed RLX has them all: `man rlx`, `man rlx-embed`.

Examples:
  rlx manual embed | man -l -
  rlx manual --install ~/.local/share)");
  return {app, [subcommand, folder, &rlx] {
            const ProgramReference reference = reference_of(rlx);
            if (folder->empty()) write_out(man_page(reference, *subcommand));
            else install_all(reference, *folder);
          }};
}

}  // namespace rlx::tools
