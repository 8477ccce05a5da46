// `rlx lint`: what an Apple loader would refuse of a Core ML package.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <set>

#include "frontends/mil/lint.h"
#include "io/mlpackage.h"
#include "tools/coreml/package_model.h"
#include "tools/output.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

struct Lint {
  std::vector<std::string> packages;
  bool json = false;
  void run() const;
};

std::vector<mlprogram::Finding> findings_in(const std::string& path) {
  if (!is_package(path)) throw UsageError("lint takes Core ML packages (.mlpackage), not '" + path + "'");
  try {
    MlPackage package = MlPackage::open(path);
    std::set<std::string> files;  // read as a whole too: how many blobs, that none lies on another
    std::vector<mlprogram::Finding> found = mlprogram::lint(package.model(), [&](const mil::Value& value) {
      if (const auto* blob = std::get_if<mil::BlobRef>(&value.data)) files.insert(blob->file);
      return package.tensor(value);
    });
    for (const std::string& file : files) try {
        package.weights(file).entries();
      } catch (const Error& e) {
        found.push_back({"blob", file, e.what()});
      }
    return found;
  } catch (const Error& e) {
    if (!std::filesystem::exists(path)) throw;
    return {{"layout", "", e.what()}};
  }
}

void Lint::run() const {
  size_t all = 0;
  std::string out;
  for (const std::string& path : packages) {
    auto found = findings_in(path);
    all += found.size();
    std::string list;
    for (const auto& f : found) {
      if (json)
        list +=
            (list.empty() ? "" : ",\n   ") + ("{\"rule\": " + json_text(f.rule) + ", \"where\": " + json_text(f.where) +
                                              ", \"what\": " + json_text(f.what) + "}");
      else list += f.rule + ": " + line_text(f.where.empty() ? f.what : f.where + ": " + f.what, 600) + "\n";
    }
    if (json)
      out += (out.empty() ? "[{" : ",\n {") + ("\"package\": " + json_text(path) + ", \"findings\": [" + list + "]}");
    else out += line_text(path, 300) + ": " + (found.empty() ? "clean\n" : text_of(found.size(), " found\n") + list);
  }
  write_out(json ? out + "]\n" : out);
  flush_out();
  if (all) fail(ErrorCode::invalid_argument, all, all == 1 ? " fault was found" : " faults were found");
}

}  // namespace

Subcommand add_lint(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("lint", "What an Apple loader would refuse of a Core ML package");
  auto lint = std::make_shared<Lint>();
  app->add_option("PACKAGE", lint->packages, "Core ML packages (.mlpackage)")->required();
  app->add_flag("--json", lint->json, "print [{package, findings: [{rule, where, what}]}]");
  app->footer(
      R"(Held are the layout, versions and opsets, identifiers and scopes, the ops of the opset with their parameters, constants and
dtypes, ranks, states, features beside the program, blobs, and the types that are declared of results. Exit code 1 if
anything was found.

Examples:
  rlx lint Model.mlpackage
  rlx lint build/*.mlpackage --json)");
  return {app, [lint] { lint->run(); }};
}

}  // namespace rlx::tools
