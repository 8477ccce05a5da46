// See the header.
#include "tools/manifest.h"

#include <filesystem>

#include "cost/manifest_rows.h"
#include "io/atomic_file.h"
#include "rlx/language_model.h"
#include "tools/dim_option.h"
#include "tools/model_graph.h"
#include "tools/output.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"

namespace rlx::tools {
namespace {

constexpr size_t kMostRowsPrinted = 60;

/// An amount of a row, with how many times it is there: "6 x 1.77 M", or the polynomial of one without numbers.
std::string amount_text(const Dim& amount, size_t times, bool is_bytes) {
  if (amount == Dim(0)) return {};
  const std::string count = times > 1 ? text_of(times, " x ") : "";
  if (!amount.is_static()) return count + (times > 1 ? "(" : "") + text_of(amount) + (times > 1 ? ")" : "");
  const auto number = static_cast<double>(amount.value());
  return count + (is_bytes ? byte_amount(number) : short_amount(number));
}
std::string outputs_text(const ManifestRow& row) {
  if (row.outputs.empty()) return {};
  return text_of(row.outputs[0], row.outputs.size() > 1 ? text_of(" + ", row.outputs.size() - 1) : "");
}

std::string manifest_table(const Manifest& m, size_t most) {
  TextTable table("lllrrr");
  table.add({"layer", "ops", "output", "params", "flops", "bytes moved"});
  for (const ManifestRow& row : manifest_rows(m, most))
    table.add({std::string(2 * row.depth, ' ') + (row.depth == 0 ? "all" : row.label), row.ops, outputs_text(row),
               amount_text(row.each.params, row.times, false), amount_text(row.each.flops(), row.times, false),
               amount_text(row.each.bytes_moved, row.times, true)});
  return table.text();
}

}  // namespace

void print_manifest(const ManifestRequest& request) {
  const Graph graph =
      is_language_model(request.model) ? language_model_graph(request.model) : load_model(request.model);
  const Manifest m = manifest_of(graph, bindings_of("--dim", request.dims));
  if (!request.svg.empty()) {
    AtomicFile file(request.svg);
    file.write(m.svg());
    file.commit();
  }
  if (request.json) return write_out(m.json() + "\n");
  const ManifestTotals& t = m.whole.totals;
  write_out(text_of("graph '", line_text(m.graph, 200), "': ", t.ops, " ops, ", t.params, " params (",
                    amount_text(t.param_bytes, 1, true), ")\n"));
  if (!m.symbols.empty()) {
    std::string list;
    for (const std::string& symbol : m.symbols) list += (list.empty() ? "" : ", ") + symbol;
    write_out("without numbers: " + list + "; --dim " + m.symbols[0] + "=1 gives one\n");
  }
  write_out(manifest_table(m, request.all ? SIZE_MAX : kMostRowsPrinted));
  if (!request.svg.empty()) write_out("'" + line_text(request.svg, 200) + "' is written\n");
}

}  // namespace rlx::tools
