// `rlx ops`: the op table, which backend has a kernel for which op, and which published names the ops cover.
// docs/generated/ops.md is its --markdown.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tools/op_coverage.h"
#include "tools/op_support.h"
#include "tools/output.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"
#include "tools/used_ops.h"

namespace rlx::tools {
namespace {

/// "softmax(x)", "layer_norm(x, gamma?, beta?)"
std::string call_text(const OpDef& op) {
  std::string text = std::string(op.name) + "(";
  for (size_t i = 0; i < op.operands.size(); ++i) text += (i ? ", " : "") + std::string(op.operands[i]);
  return text + ")";
}

std::string kind_text(const OpDef& op) { return op.is_primitive() ? "primitive" : "composite"; }

void print_table(const std::vector<std::string>& names) {
  std::vector<BackendSupport> backends = backends_support();
  TextTable table("ll" + std::string(backends.size(), 'l') + "l");
  std::vector<std::string> head = {"op", "kind"};
  for (const BackendSupport& b : backends) head.push_back(b.backend);
  head.emplace_back("what it does");
  table.add(head);
  for (const OpDef* op : all_ops()) {
    if (!names.empty() && std::find(names.begin(), names.end(), op->name) == names.end()) continue;
    std::vector<std::string> row = {call_text(*op), kind_text(*op)};
    for (const BackendSupport& b : backends) row.push_back(b.of(*op).text());
    row.push_back(line_text(op->doc, 100));
    table.add(row);
  }
  write_out(table.text());
}

nlohmann::ordered_json json_of(const OpDef& op, const std::vector<BackendSupport>& backends) {
  nlohmann::ordered_json attributes = nlohmann::ordered_json::array(), support = nlohmann::ordered_json::object(),
                         claims = nlohmann::ordered_json::object();
  for (const AttrInfo& a : op.describe_attrs())
    attributes.push_back({{"name", a.name}, {"kind", a.kind}, {"default", a.default_text}});
  for (const BackendSupport& b : backends) {
    OpSupport s = b.of(op);
    claims[b.backend] = s.word();
    support[b.backend] = {{"support", s.word()},
                          {"native_dtypes", s.native_dtypes()},
                          {"samples", s.samples()},
                          {"native", s.native()},
                          {"reasons", s.reasons}};
  }
  return {{"name", op.name},
          {"kind", kind_text(op)},
          {"primitive", op.is_primitive()},
          {"covers", op.covers},
          {"operands", op.operands},
          {"results", result_counts(op)},
          {"attributes", attributes},
          {"doc", op.doc},
          {"source", op.source},
          {"samples", op.samples().size()},
          {"claims", claims},
          {"support", support}};
}

void print_json(const std::vector<std::string>& names) {
  std::vector<BackendSupport> backends = backends_support();
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const OpDef* op : all_ops())
    if (names.empty() || std::find(names.begin(), names.end(), op->name) != names.end())
      all.push_back(json_of(*op, backends));
  nlohmann::ordered_json document;
  document["ops"] = std::move(all);
  write_out(document.dump(1) + "\n");
}

/// As a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

void print_markdown() {
  std::vector<BackendSupport> backends = backends_support();
  size_t primitives = 0;
  for (const OpDef* op : all_ops()) primitives += op->is_primitive();
  write_out(text_of(
      "# Ops\n\nWritten by `RLX_ISA=avx2 rlx ops --markdown`; a test compares. ", all_ops().size(),
      " ops: ", primitives, " primitives, which every backend must have, and ", all_ops().size() - primitives,
      " composites, which are made of them where a backend has no kernel of its own.\n\n"
      "## Support\n\n"
      "native: a kernel for every sample of the op, in each of the dtypes (f32 f16 bf16 f64) that the op takes; "
      "native with dtypes: in those only, composed in others; some: for some samples; "
      "composed: made of ops that have one.\n\n"));
  std::string head = "| op | kind |", rule = "| --- | --- |";
  for (const BackendSupport& b : backends) head += " " + b.backend + " |", rule += " --- |";
  write_out(head + "\n" + rule + "\n");
  for (const OpDef* op : all_ops()) {
    std::string row = text_of("| [`", op->name, "`](#", op->name, ") | ", kind_text(*op), " |");
    for (const BackendSupport& b : backends) row += " " + b.of(*op).text() + " |";
    write_out(row + "\n");
  }
  write_out("\n## Table\n");
  for (const OpDef* op : all_ops()) {
    write_out(text_of("\n### ", op->name, "\n\n`", call_text(*op), "`: ", op->doc, "\n"));
    if (!op->source.empty()) write_out(text_of("\nSource: ", op->source, "\n"));
    auto attributes = op->describe_attrs();
    if (!attributes.empty()) write_out("\n| attribute | kind | default |\n| --- | --- | --- |\n");
    for (const AttrInfo& a : attributes)
      write_out(text_of("| `", a.name, "` | ", cell(a.kind), " | ",
                        a.default_text.empty() ? "" : "`" + cell(a.default_text) + "`", " |\n"));
    for (const BackendSupport& b : backends)
      for (const std::string& reason : b.of(*op).reasons)
        write_out(text_of("\nNot native on ", b.backend, ": ", reason, "\n"));
  }
}

struct Ops {
  explicit Ops(CLI::App& app);
  void run() const;
  std::vector<std::string> names, models;
  std::string device;  // whose lowerings are printed; empty: of none
  bool json = false, markdown = false, coverage = false;
};

Ops::Ops(CLI::App& app) {
  app.add_option("OP", names, "only these ops");
  auto* as_json = app.add_flag("--json", json, "print JSON, {\"ops\": [...]}: operands, attributes, sources, support");
  auto* as_markdown = app.add_flag("--markdown", markdown, "print the whole table as Markdown: docs/generated/ops.md");
  as_markdown->excludes(as_json);
  app.add_flag("--coverage", coverage, "print how many of the published op names are covered, and which are not")
      ->excludes(as_json)
      ->excludes(as_markdown);
  app.add_option("--lowerings", device, "print how a device runs each op, as Markdown: docs/generated/mlx.md")
      ->type_name("DEVICE")
      ->excludes(as_json)
      ->excludes(as_markdown);
  app.add_option(
         "--used-by", models,
         "print the ops that these models take on the CPU, one a line: for a library with those alone (RLX_OPS)")
      ->type_name("MODEL")
      ->excludes(as_json)
      ->excludes(as_markdown);
  app.footer(
      R"(Operands: "x" is required, "mask?" may be left out, "xs..." repeats. native: the backend has a kernel for all samples of
the op in all of its dtypes; some: for some of them; composed: the op is made of ops that it has; missing: it cannot run.

Examples:
  rlx ops
  rlx ops --coverage
  rlx ops --lowerings mlx
  rlx ops --used-by all-MiniLM-L6-v2 model.rlx > my.ops
  rlx ops softmax attention --json)");
}

void Ops::run() const {
  for (const std::string& name : names) find_op(name);
  if (!models.empty()) write_out(used_ops_text(models));
  else if (!device.empty()) write_out(lowerings_document(device));
  else if (coverage) write_out(coverage_text());
  else if (json) print_json(names);
  else if (markdown) print_markdown();
  else print_table(names);
}

}  // namespace

Subcommand add_ops(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("ops", "The op table and who supports what");
  auto ops = std::make_shared<Ops>(*app);
  return {app, [ops] { ops->run(); }};
}

}  // namespace rlx::tools
