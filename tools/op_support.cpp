// See the header.
#include "tools/op_support.h"

#include "backends/registry.h"

namespace rlx::tools {
namespace {

const std::string kByReference = "its reference, on the host";

/// The dtypes in which a generic sample is asked; f64 in a sample stands for any float (rlx/op_def.h).
constexpr DType kFloats[] = {f32, f16, bf16, f64};

std::vector<Type> types_of(const Sample& sample, DType generic) {
  std::vector<Type> types;
  for (size_t i = 0; i < sample.dims.size(); ++i) {
    DType t = i < sample.dtypes.size() ? sample.dtypes[i] : f64;
    types.push_back({t == f64 ? generic : t, sample.dims[i]});
  }
  return types;
}

/// A sample whose dtypes may be exchanged. One with a sub-graph is not: its body has dtypes of its own.
bool is_generic(const Sample& sample) {
  bool has_body = false;
  sample.attrs.mapped({[](const Dim& d) { return d; },
                       [&](const Subgraph& body) {
                         has_body = has_body || bool(body);
                         return body;
                       }});
  if (has_body) return false;
  std::vector<Type> types = types_of(sample, f64);
  return std::any_of(types.begin(), types.end(), [](const Type& t) { return t.dtype == f64; });
}

bool takes(const OpDef& op, const std::vector<Type>& types, const Attrs& attrs) {
  try {
    infer_types(op, types, attrs);
    return true;
  } catch (const Error&) {
    return false;  // not a dtype of this op
  }
}

void ask(const Target& target, const OpDef& op, const std::vector<Type>& types, const Attrs& attrs,
         OpSupport::Count& count, OpSupport& all) {
  Graph g = trace(types, [&](Graph& to, Values in) { return to.emit(op, {in.begin(), in.end()}, attrs); });
  ++count.samples;
  const Question q{g.nodes().back(), types};
  auto refusal = target.refusal(q);
  if (!refusal) {
    ++count.native;
    std::string way = target.interprets && target.interprets(q) ? kByReference
                      : target.remark                           ? target.remark(q)
                                                                : std::string();
    if (!way.empty()) all.ways.insert(std::move(way));
    return;
  }
  if (refusal->find("no kernel for") == std::string::npos) all.reasons.insert(*refusal);
  count.missing += legalize(g, target).report.count(Verdict::missing) > 0;
}

}  // namespace

size_t OpSupport::samples() const {
  size_t n = 0;
  for (const auto& [dtype, count] : by_dtype) n += count.samples;
  return n;
}
size_t OpSupport::native() const {
  size_t n = 0;
  for (const auto& [dtype, count] : by_dtype) n += count.native;
  return n;
}
std::vector<std::string> OpSupport::native_dtypes() const {
  std::vector<std::string> all;
  for (const auto& [dtype, count] : by_dtype)
    if (!dtype.empty() && count.native == count.samples) all.push_back(dtype);
  return all;
}
std::string OpSupport::word() const {
  size_t missing = 0;
  for (const auto& [dtype, count] : by_dtype) missing += count.missing;
  return !samples() ? "-" : missing ? "missing" : native() == samples() ? "native" : native() ? "some" : "composed";
}
std::string OpSupport::text() const {
  std::string text = word();
  if (text != "some" && text != "missing") return text;
  std::string list;
  for (const std::string& dtype : native_dtypes()) list += (list.empty() ? "" : " ") + dtype;
  if (text == "some" && !list.empty()) return "native: " + list;
  return text_of(text, " (", native(), " of ", samples(), ")");
}

OpSupport BackendSupport::of(const OpDef& op) const {
  OpSupport support;
  for (const Sample& sample : op.samples()) {
    if (!is_generic(sample)) {
      ask(target, op, types_of(sample, f64), sample.attrs, support.by_dtype[""], support);
      continue;
    }
    for (DType t : kFloats) {
      std::vector<Type> types = types_of(sample, t);
      if (takes(op, types, sample.attrs))
        ask(target, op, types, sample.attrs, support.by_dtype[std::string(name_of(t))], support);
    }
  }
  return support;
}

std::set<size_t> result_counts(const OpDef& op) {
  std::set<size_t> counts;
  for (const Sample& sample : op.samples()) {
    std::vector<Type> types = types_of(sample, f64);
    if (!takes(op, types, sample.attrs)) types = types_of(sample, f32);
    if (takes(op, types, sample.attrs)) counts.insert(infer_types(op, types, sample.attrs).size());
  }
  return counts;
}

std::vector<BackendSupport> backends_support() {
  std::vector<BackendSupport> all;
  for (const auto& backend : all_backends())
    // null is for reports only; what coreml takes is a question of dtypes and shapes, which `rlx test-device coreml`
    // answers; mlx is not in every build, and has a document of its own.
    if (backend->name() != "null" && backend->name() != "coreml" && backend->name() != "mlx")
      all.push_back({backend->name(), backend->target()});
  return all;
}

std::string lowerings_document(const std::string& device) {
  const auto backend = backend_of(Device::parse(device));
  if (auto why = backend->unavailable(); !why.empty())
    fail(ErrorCode::unsupported, "device '", device, "' is not available: ", why);
  const BackendSupport support{device, backend->target()};
  std::string primitives, composites, elsewhere;
  size_t composed = 0;
  for (const OpDef* op : all_ops()) {
    const OpSupport s = support.of(*op);
    if (s.samples() == 0) continue;
    if (!op->is_primitive() && s.native() == 0) {
      ++composed;
      // A kernel of our own that takes nothing where this was printed says why.
      std::string why;
      for (const std::string& reason : s.reasons)
        if (reason.find("kernel") != std::string::npos) why += (why.empty() ? "" : "; ") + reason;
      if (!why.empty()) elsewhere += text_of("| `", op->name, "` | ", why, " |\n");
      continue;
    }
    std::string ways;
    for (const std::string& way : s.ways) ways += (ways.empty() ? "" : "; ") + way;
    // A sample that its reference runs is taken, and is not native.
    const bool by_reference = s.ways.contains(kByReference);
    const std::string support_text = !by_reference ? s.text() : s.ways.size() == 1 ? "reference" : "some by reference";
    (op->is_primitive() ? primitives : composites) +=
        text_of("| `", op->name, "` | ", support_text, " | ", ways, " |\n");
  }
  const char* head = "| op | support | how |\n| --- | --- | --- |\n";
  return text_of("# What runs how on ", device, "\n\nWritten by `rlx ops --lowerings ", device,
                 "`; a test compares. Asked for each sample of each op, in each of the dtypes (f32 f16 bf16 f64) that "
                 "it takes.\n\n"
                 "## Primitives\n\n",
                 head, primitives, "\n## Composites that run as a whole\n\n", head, composites, "\nThe other ",
                 composed, " composites are made of these.",
                 elsewhere.empty() ? ""
                                   : " Of them these have a kernel that takes nothing where this was written:\n\n"
                                     "| op | why it is composed |\n| --- | --- |\n",
                 elsewhere.empty() ? "\n" : elsewhere);
}

}  // namespace rlx::tools
