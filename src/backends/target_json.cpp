// What a device is to the compiler, as JSON: its Target and what its backend says of itself.
#include <set>

#include "backends/registry.h"
#include "base/printable_text.h"

namespace rlx {
namespace {

std::string names_json(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + json_quoted(name);
  return "[" + text + "]";
}
std::string number_or_null(uint64_t n) { return n ? std::to_string(n) : "null"; }

/// Whether the target takes the op itself, in f32 or in the dtypes of its own, in one of its samples at least.
bool claims(const Target& target, const OpDef& op) {
  for (const Sample& sample : op.samples()) {
    std::vector<Type> types;
    for (size_t i = 0; i < sample.dims.size(); ++i) {
      const DType dtype = i < sample.dtypes.size() ? sample.dtypes[i] : f64;
      types.push_back({dtype == f64 && !holds_subgraph(sample.attrs) ? f32 : dtype, sample.dims[i]});
    }
    try {
      const Graph g = trace(types, [&](Graph& to, Values in) {
        return to.emit(op, {in.begin(), in.end()}, sample.attrs);
      });
      if (!target.refuses({g.nodes().back(), types})) return true;
    } catch (const Error&) {  // the sample is of no such dtype
    }
  }
  return false;
}

void add_own_passes(const Target& target, std::vector<std::string>& names) {
  for (const Pass& pass : target.first) names.emplace_back(pass.name);
  if (!target.next) return;
  for (const Pass& pass : target.next->passes) names.emplace_back(pass.name);
  add_own_passes(target.next->target, names);
}

}  // namespace

std::string target_json(const Device& device) {
  const auto backend = backend_of(device);
  const Target target = backend->target();
  const Memory memory = backend->about_memory();
  std::vector<std::string> absent, fuses, passes, claimed, facts;
  for (DType dtype : target.limits.absent_dtypes) absent.emplace_back(name_of(dtype));
  if (target.fuses_elementwise) fuses.emplace_back("elementwise");
  if (target.fuses_convolutions) fuses.emplace_back("convolutions");
  add_own_passes(target, passes);
  const std::vector<const OpDef*> ops = all_ops();
  for (const OpDef* op : ops)
    if (claims(target, *op)) claimed.emplace_back(op->name);
  std::string known;
  for (const TargetFact& fact : backend->facts())
    known += (known.empty() ? "" : ", ") + json_quoted(fact.name) + ": " + json_quoted(fact.value);
  return text_of(
      "{\"absent_dtypes\": ", names_json(absent), ", \"memory\": {\"name\": ", json_quoted(memory.name),
      ", \"host_access\": ", json_quoted(names_of(HostAccess{})[static_cast<size_t>(memory.host_access)]),
      ", \"alignment\": ", memory.alignment, ", \"capacity\": ", number_or_null(memory.capacity),
      ", \"largest_buffer\": ", number_or_null(memory.largest_buffer),
      "}, \"limits\": {\"largest_buffer\": ", number_or_null(target.limits.largest_buffer),
      ", \"buffers_per_launch\": ", number_or_null(target.limits.buffers_per_launch),
      ", \"index_bits\": ", target.limits.index_bits, "}, \"fast_float\": ", json_quoted(name_of(target.fast_float)),
      ", \"convolution_layout\": ", target.prefers_channels_last ? "\"channels last\"" : "\"channels first\"",
      ", \"fuses\": ", names_json(fuses), ", \"updates_in_place\": ", target.updates_in_place ? "true" : "false",
      ", \"passes\": ", names_json(passes), ", \"facts\": {", known,
      "}, \"registered_kernels\": ", names_json(backend->registered_kernels(nullptr)), ", \"ops\": ", ops.size(),
      ", \"claims\": ", names_json(claimed), "}");
}

}  // namespace rlx
