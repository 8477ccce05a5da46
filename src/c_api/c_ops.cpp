// The part of the C ABI that registers custom ops: their rules are functions of the caller, and a rule that builds a
// graph gives one, which is inlined where the op stands.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <deque>
#include <set>
#include <sstream>

#include "autodiff/transforms.h"
#include "c_api/custom_attributes.h"
#include "c_api/handles.h"
#include "ir/rewrite.h"
#include "rlx/kernel.h"
#include "rlx/ops.h"

struct rlx_op_results {
  std::vector<rlx::Type> types;
};
struct rlx_kernel_run {
  const rlx::KernelRun& run;
};

namespace {

using namespace rlx::c;
using rlx::ErrorCode;
using rlx::fail;
using rlx::text_of;

/// What was registered, and the OpDef that is made of it. It stays as long as the process, as graphs point to it.
struct CustomOp {
  rlx_op_definition rules = {};  // the functions and their context; its texts stand below
  std::string name, doc, source, kernel_name;
  std::vector<std::string> operands;
  std::set<rlx::DType> kernel_dtypes;  // empty: all
  rlx::CustomDeclaration attributes;
  rlx::OpDef op;
  bool is_registered = false;
};

/// Fails with what a rule told, if it did not end well.
void require_ok(rlx_status status, rlx_error* error, const std::string& what) {
  if (status == RLX_OK) return rlx_error_free(error);
  const std::string message = error ? error->message : "it gave no message";
  rlx_error_free(error);
  fail(rlx::c::code_of(status, ErrorCode::invalid_argument), what, " failed: ", message);
}

/// The call as a rule sees it. It refers to nothing but itself.
class OpCall {
 public:
  OpCall(const CustomOp& op, rlx::Types operands, const rlx::Attrs& attrs)
      : name_(op.name), attributes_(op.attributes.json(attrs.as<rlx::CustomAttrs>())) {
    for (const rlx::Type& t : operands) types_.push_back(text_of(t));
    for (const std::string& t : types_) pointers_.push_back(t.c_str());
    call_ = {sizeof call_, name_.c_str(), attributes_.c_str(), pointers_.data(), pointers_.size()};
  }
  OpCall(const OpCall&) = delete;
  OpCall& operator=(const OpCall&) = delete;
  const rlx_op_call* get() const { return &call_; }

 private:
  std::string name_, attributes_;
  std::vector<std::string> types_;
  std::vector<const char*> pointers_;
  rlx_op_call call_ = {};
};

std::vector<rlx::Type> types_of(rlx::Values values) {
  std::vector<rlx::Type> types;
  for (const rlx::Value& v : values) types.push_back(v.type());
  return types;
}
std::vector<rlx::Type> types_of(rlx::Tensors tensors) {
  std::vector<rlx::Type> types;
  for (const rlx::Tensor& t : tensors) types.push_back(t.type());
  return types;
}

rlx::Many<rlx::Type> inferred(const CustomOp& op, rlx::Types in, const rlx::Attrs& attrs) {
  const OpCall call(op, in, attrs);
  rlx_op_results results;
  rlx_error* error = nullptr;
  const rlx_status status = op.rules.infer(op.rules.context, call.get(), &results, &error);
  require_ok(status, error, text_of("the shape rule of '", op.name, "'"));
  if (results.types.empty()) fail(ErrorCode::invalid_argument, "the shape rule of '", op.name, "' gave no result");
  std::set<std::string> known;
  for (const rlx::Type& t : in)
    for (const rlx::Dim& d : t.dims) d.for_each_symbol([&](const std::string& symbol) { known.insert(symbol); });
  for (const rlx::Type& t : results.types) {
    for (const rlx::Dim& d : t.dims)
      d.for_each_symbol([&](const std::string& symbol) {
        if (!known.contains(symbol))
          fail(ErrorCode::shape_mismatch, "the shape rule of '", op.name, "' gave ", t,
               ", and no operand has the symbol '", symbol, "'");
      });
    if (op.op.elementwise && !in.empty() && t.dims != in[0].dims)
      fail(ErrorCode::shape_mismatch, "op '", op.name, "' is said to be element-wise, and its shape rule makes ", t,
           " of ", in[0]);
  }
  return std::move(results.types);
}

rlx::Many<rlx::Tensor> by_reference(const CustomOp& op, rlx::Tensors in, const rlx::Attrs& attrs) {
  const std::vector<rlx::Type> types = types_of(in);
  const std::vector<rlx::Type> wanted = inferred(op, types, attrs);
  const OpCall call(op, types, attrs);
  std::deque<rlx_tensor> operands;
  std::vector<const rlx_tensor*> given;
  for (const rlx::Tensor& t : in) given.push_back(&operands.emplace_back(rlx_tensor{t}));
  std::vector<rlx_tensor*> made(wanted.size());
  rlx_error* error = nullptr;
  const rlx_status status =
      op.rules.reference(op.rules.context, call.get(), given.data(), made.data(), made.size(), &error);
  std::vector<std::unique_ptr<rlx_tensor>> owned(made.begin(), made.end());
  require_ok(status, error, text_of("the reference of '", op.name, "'"));
  std::vector<rlx::Tensor> results;
  for (size_t r = 0; r < made.size(); ++r) {
    if (!made[r] || made[r]->tensor.type() != wanted[r])
      fail(ErrorCode::shape_mismatch, "the reference of '", op.name, "' gave ",
           made[r] ? text_of(made[r]->tensor.type()) : std::string("nothing"), " for result ", r,
           ", which its shape rule says is ", wanted[r]);
    results.push_back(std::move(made[r]->tensor));
  }
  return results;
}

using GraphRule = decltype(rlx_op_definition::decompose);

/// The graph that a rule gives for these operands, inlined: its outputs for `inputs`.
std::vector<rlx::Value> inlined(rlx::Graph& to, const CustomOp& op, GraphRule rule, const char* what,
                                rlx::Values operands, rlx::Values inputs, rlx::Types outputs, const rlx::Attrs& attrs) {
  const OpCall call(op, types_of(operands), attrs);
  rlx_graph* given = nullptr;
  rlx_error* error = nullptr;
  const rlx_status status = rule(op.rules.context, call.get(), &given, &error);
  const std::unique_ptr<rlx_graph, decltype(&rlx_graph_free)> graph(given, rlx_graph_free);
  const std::string rule_text = text_of("the ", what, " of '", op.name, "'");
  require_ok(status, error, rule_text);
  if (!graph) fail(ErrorCode::invalid_argument, rule_text, " gave no graph");
  const rlx::Graph& g = graph->graph;
  if (!g.params().empty())
    fail(ErrorCode::invalid_argument, rule_text, " is a graph with the param '", g.node(g.params()[0]).name,
         "'; it takes inputs alone");
  const auto require = [&](const std::vector<rlx::Type>& has, rlx::Types wanted, const char* of) {
    if (has.size() != wanted.size())
      fail(ErrorCode::invalid_argument, rule_text, " is a graph of ", has.size(), " ", of, "; ", wanted.size(),
           " were expected");
    for (size_t i = 0; i < has.size(); ++i)
      if (has[i] != wanted[i])
        fail(ErrorCode::shape_mismatch, rule_text, " is a graph whose ", of, " [", i, "] is ", has[i], ", where ",
             wanted[i], " was expected");
  };
  require(g.input_types(), types_of(inputs), "inputs");
  require(g.output_types(), outputs, "outputs");
  return rlx::splice(to, g, inputs);
}

rlx::Many<rlx::Value> composed(rlx::Graph& to, const CustomOp& op, rlx::Values in, const rlx::Attrs& attrs) {
  const std::vector<rlx::Type> wanted = inferred(op, types_of(in), attrs);
  return inlined(to, op, op.rules.decompose, "decomposition", in, in, wanted, attrs);
}

/// A cotangent for each operand that has a derivative; none for the others.
rlx::Many<rlx::Value> pulled_back(const CustomOp& op, rlx::Values in, rlx::Values out, rlx::Values cts,
                                  const rlx::Attrs& attrs) {
  std::vector<rlx::Value> inputs(in.begin(), in.end());
  inputs.insert(inputs.end(), out.begin(), out.end());
  for (size_t r = 0; r < out.size(); ++r)
    if (rlx::has_derivative(out[r].dtype())) inputs.push_back(cts[r] ? cts[r] : rlx::full_like(out[r], 0));
  std::vector<rlx::Type> wanted;
  for (const rlx::Value& v : in)
    if (rlx::has_derivative(v.dtype())) wanted.push_back(v.type());
  const std::vector<rlx::Value> found =
      inlined(out[0].graph(), op, op.rules.vjp, "gradient", in, inputs, wanted, attrs);
  std::vector<rlx::Value> all;
  size_t next = 0;
  for (const rlx::Value& v : in) all.push_back(rlx::has_derivative(v.dtype()) ? found[next++] : rlx::Value());
  return all;
}

/// What is known of a kernel's calls when it is prepared.
struct PreparedCall {
  PreparedCall(const CustomOp& op, const rlx::KernelSite& site) : call(op, types_of(site.operands), site.attributes) {
    for (const rlx::Type& t : types_of(site.results)) types.push_back(text_of(t));
    for (const std::string& t : types) results.push_back(t.c_str());
  }
  static std::vector<rlx::Type> types_of(const std::vector<rlx::KernelTensor>& tensors) {
    std::vector<rlx::Type> all;
    for (const rlx::KernelTensor& t : tensors) all.push_back({t.dtype, {t.shape.begin(), t.shape.end()}});
    return all;
  }
  OpCall call;
  std::vector<std::string> types;
  std::vector<const char*> results;
};

rlx::PreparedKernel prepared(const CustomOp& op, const rlx::KernelSite& site) {
  auto known = std::make_shared<const PreparedCall>(op, site);
  return {[&op, known](const rlx::KernelRun& run) {
    rlx_kernel_run handle{run};
    std::vector<const void*> operands;
    std::vector<void*> results;
    for (size_t i = 0; i < known->call.get()->count; ++i) operands.push_back(run.in<void>(i));
    for (size_t r = 0; r < known->results.size(); ++r) results.push_back(run.out<void>(r));
    const rlx_kernel_arguments arguments{sizeof arguments, operands.data(), results.data(), known->results.data(),
                                         results.size(),   run.threads(),   &handle};
    rlx_error* error = nullptr;
    const rlx_status status = op.rules.kernel(op.rules.context, known->call.get(), &arguments, &error);
    require_ok(status, error, text_of("the kernel '", op.kernel_name, "'"));
  }};
}

std::vector<std::string> words_of(const char* text) {
  std::vector<std::string> words;
  std::istringstream in(text ? text : "");
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// Names of operands: words, of which the last ones may end in '?', and the very last one in "...".
void check_operands(const std::vector<std::string>& names) {
  std::set<std::string> seen;
  bool is_optional = false;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool repeats = names[i].ends_with("..."), may_be_left_out = names[i].ends_with("?");
    const std::string name = names[i].substr(0, names[i].size() - (repeats ? 3 : may_be_left_out ? 1 : 0));
    const bool is_word =
        !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    if (!is_word)
      fail(ErrorCode::invalid_argument, "operands: '", names[i],
           "' is no word of letters, digits and '_', which may end in '?' or \"...\"");
    if (!seen.insert(name).second) fail(ErrorCode::invalid_argument, "operands: there are two called '", name, "'");
    if (repeats && i + 1 < names.size())
      fail(ErrorCode::invalid_argument, "operands: '", names[i], "' repeats, and is not the last one");
    if (is_optional && !may_be_left_out && !repeats)
      fail(ErrorCode::invalid_argument, "operands: '", names[i], "' stands behind one that may be left out");
    is_optional |= may_be_left_out;
  }
}

/// "f64[3, 5], i32[5] {axis = 1} in [-1, 1]" on each line.
std::vector<rlx::Sample> samples_of(const CustomOp& op, const std::string& text) {
  std::vector<rlx::Sample> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    rlx::Scanner in(line);
    if (in.at_end()) continue;
    rlx::Sample sample;
    do {
      rlx::Type type;
      parse(in, type);
      rlx::element_count(rlx::shape_of(type.dims));  // fails for a symbol, or a count that no memory holds
      sample.dims.push_back(type.dims), sample.dtypes.push_back(type.dtype);
    } while (in.accept(","));
    sample.attrs = in.peek() == '{' ? op.attributes.read(in) : rlx::CustomAttrs();
    if (in.accept_word("in")) {
      in.expect("[");
      sample.lo = in.number<double>();
      in.expect(",");
      sample.hi = in.number<double>();
      in.expect("]");
      if (!(std::isfinite(sample.lo) && std::isfinite(sample.hi) && sample.lo <= sample.hi))
        in.unexpected("two numbers, the lesser one first");
    }
    if (!in.at_end()) in.unexpected("the end of the sample");
    all.push_back(std::move(sample));
  }
  return all;
}

/// All that is wrong in the definition is said here, before anything is registered.
std::unique_ptr<CustomOp> op_of(const rlx_op_definition& given) {
  auto made = std::make_unique<CustomOp>();
  CustomOp& op = *made;
  op.rules = given;
  op.name = required_text(given.name, "name"), op.doc = given.doc ? given.doc : "";
  op.source = given.source ? given.source : "";
  if (!given.infer) fail(ErrorCode::invalid_argument, "infer is NULL: an op needs a shape rule");
  if (!given.reference && !given.decompose)
    fail(ErrorCode::invalid_argument, "reference and decompose are NULL: an op needs one of them");
  op.operands = words_of(given.operands);
  if (op.operands.empty()) fail(ErrorCode::invalid_argument, "operands names none; an op has at least one");
  check_operands(op.operands);
  op.kernel_name = given.kernel_name ? given.kernel_name : op.name + " of the caller";
  for (const std::string& name : words_of(given.kernel_dtypes)) op.kernel_dtypes.insert(rlx::dtype_named(name));
  rlx::with_context([&] { return "reading the attributes of op '" + op.name + "'"; },
                    [&] { op.attributes = rlx::CustomDeclaration(given.attributes ? given.attributes : ""); });
  rlx::OpDef& def = op.op;
  def.name = op.name, def.doc = op.doc, def.source = op.source;
  def.operands.assign(op.operands.begin(), op.operands.end());
  def.elementwise = given.elementwise != 0, def.differentiable = given.not_differentiable == 0;
  def.infer = [&op](rlx::Types in, const rlx::Attrs& a) { return inferred(op, in, a); };
  if (given.reference)
    def.reference = [&op](rlx::Tensors in, const rlx::Attrs& a, const rlx::Run&) { return by_reference(op, in, a); };
  if (given.decompose)
    def.decompose = [&op](rlx::Graph& to, rlx::Values in, const rlx::Attrs& a) { return composed(to, op, in, a); };
  if (given.vjp)
    def.vjp = [&op](rlx::Values in, rlx::Values out, rlx::Values cts, const rlx::Attrs& a, const rlx::Transforms&) {
      return pulled_back(op, in, out, cts, a);
    };
  def.parse_attrs = [&op](rlx::Scanner& in) -> rlx::Attrs { return op.attributes.read(in); };
  def.takes = [&op](const rlx::Attrs& a) {
    return a.empty() || (a.holds<rlx::CustomAttrs>() && op.attributes.has(a.as<rlx::CustomAttrs>()));
  };
  def.describe_attrs = [&op] { return op.attributes.describe(); };
  std::vector<rlx::Sample> samples =
      rlx::with_context([&] { return "reading the samples of op '" + op.name + "'"; },
                        [&] { return samples_of(op, given.samples ? given.samples : ""); });
  def.samples = [samples = std::move(samples)] { return samples; };
  return made;
}

/// All that were ever registered here.
struct CustomOps {
  std::mutex mutex;
  std::vector<std::unique_ptr<CustomOp>> all;
};
CustomOps& custom_ops() {
  static auto& ops = *new CustomOps;  // graphs of other static objects may point to them until the very end
  return ops;
}

rlx::CpuKernel kernel_of(const CustomOp& op) {
  rlx::CpuKernel kernel;
  kernel.op = &op.op, kernel.name = op.kernel_name;
  kernel.refusal = [&op](rlx::Types operands, rlx::Types, const rlx::Attrs&) -> std::string {
    for (const rlx::Type& t : operands)
      if (!rlx::is_byte_sized(t.dtype) || (!op.kernel_dtypes.empty() && !op.kernel_dtypes.contains(t.dtype)))
        return text_of("the kernel does not take ", t);
    return "";
  };
  kernel.prepare = [&op](const rlx::KernelSite& site) { return prepared(op, site); };
  return kernel;
}

}  // namespace

extern "C" {

rlx_error* rlx_error_create(rlx_status status, const char* message) {
  rlx_error* error = nullptr;
  store(&error, status, message ? message : "");
  return error;
}

rlx_status rlx_op_add_result(rlx_op_results* results, const char* type, rlx_error** error) {
  return guarded(error, [&] { required(results, "results").types.push_back(type_from(type)); });
}

rlx_status rlx_kernel_parallel_for(const rlx_kernel_run* run, int64_t parts, void (*part)(void* context, int64_t index),
                                   void* context, rlx_error** error) {
  return guarded(error, [&] {
    required(part, "part");
    required(run, "run").run.parallel_for(parts, [&](int64_t i) { part(context, i); });
  });
}

rlx_status rlx_op_register(const rlx_op_definition* definition, rlx_error** error) {
  return guarded(error, [&] {
    std::unique_ptr<CustomOp> made = op_of(options_of(&required(definition, "definition")));
    CustomOps& ops = custom_ops();
    std::scoped_lock lock(ops.mutex);
    ops.all.reserve(ops.all.size() + 1);
    rlx::register_op(made->op);
    if (made->rules.kernel) try {
        rlx::register_cpu_kernel(kernel_of(*made));
      } catch (...) {
        rlx::unregister_op(made->op);
        throw;
      }
    made->is_registered = true;
    ops.all.push_back(std::move(made));
  });
}

rlx_status rlx_op_unregister(const char* name, rlx_error** error) {
  return guarded(error, [&] {
    const std::string wanted = required_text(name, "name");
    CustomOps& ops = custom_ops();
    std::scoped_lock lock(ops.mutex);
    for (const auto& op : ops.all)
      if (op->is_registered && op->name == wanted) {
        if (op->rules.kernel) rlx::unregister_cpu_kernel(op->op, op->kernel_name);
        rlx::unregister_op(op->op);
        op->is_registered = false;
        return;
      }
    fail(ErrorCode::not_found, "no op '", wanted, "' was registered by rlx_op_register");
  });
}

}  // extern "C"
