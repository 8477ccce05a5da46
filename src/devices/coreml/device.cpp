// See the header.
#include "devices/coreml/device.h"

#include <complex>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>

#include "backends/coreml/coreml.h"
#include "backends/coreml/take_apart.h"
#include "backends/registry.h"
#include "compile/pipeline.h"
#include "compile/with_values.h"
#include "devices/coreml/runner.h"
#include "io/mlpackage.h"
#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/collapse_rank.h"
#include "passes/narrow_integers.h"
#include "rlx/element.h"

namespace rlx {
namespace {

/// The tensor as a value of that dtype and shape: what crosses the boundary of a package is f32, f16 or i32, and of
/// rank 1 at least.
Tensor as(const Tensor& t, DType dtype, const Shape& shape) {
  if (t.dtype() == dtype) return t.shape() == shape ? t : t.reshaped(shape);
  Tensor out = Tensor::uninitialized(dtype, shape);
  for (size_t i = 0; i < t.element_count(); ++i) {
    if (is_float(dtype)) store<double>(out, i, load_number(t, i));
    else if (dtype == boolean) out.mutable_values<bool>()[i] = load_number(t, i) != 0;
    else if (dtype == u64) store<uint64_t>(out, i, static_cast<uint32_t>(load_index(t, i)));  // the bits of i32
    else store<int64_t>(out, i, t.dtype() == boolean ? load_number(t, i) != 0 : load_index(t, i));
  }
  return out;
}

/// Graphs are claimed with their complex numbers and many dims, which are taken apart behind the claims.
coreml::Options options_for(const coreml_framework::Framework& framework, bool narrow) {
  return {.newest_opset = framework.newest_opset, .narrow = narrow, .open_dims = true, .words_in_signature = !narrow};
}

bool is_of_64_bits(DType t) { return t == i64 || t == u64; }

/// Fails for integers of 64 bits that have to be 32 bits on the device, and are not.
void check_numbers(const Tensor& t, std::string_view what, const std::string& name, std::string_view why) {
  for (size_t i = 0; i < t.element_count(); ++i) {
    const bool fits = t.dtype() == u64 ? load<uint64_t>(t, i) <= std::numeric_limits<uint32_t>::max()
                                       : load<int64_t>(t, i) == static_cast<int32_t>(load<int64_t>(t, i));
    if (fits) continue;
    std::string number = t.dtype() == u64 ? std::to_string(load<uint64_t>(t, i)) : std::to_string(load<int64_t>(t, i));
    std::string place;
    for (size_t d = t.rank(), rest = i; d-- > 0;) {
      const auto extent = static_cast<size_t>(t.shape()[d]);
      place = std::to_string(rest % extent) + (place.empty() ? "" : ", ") + place;
      rest /= extent;
    }
    fail(ErrorCode::invalid_argument, "the ", what, " '", name, "' has ", number, " at [", place,
         "], which 32 bits do not hold, and Core ML has no more: ", why);
  }
}

Tensor part_of(const Tensor& z, bool imaginary) {
  Tensor part = Tensor::uninitialized(real_part(z.dtype()), z.shape());
  for (size_t i = 0; i < z.element_count(); ++i) {
    auto value = load<std::complex<double>>(z, i);
    store<double>(part, i, imaginary ? value.imag() : value.real());
  }
  return part;
}
Tensor complex_of(const Tensor& re, const Tensor& im, const Type& type) {
  Tensor z = Tensor::uninitialized(type.dtype, re.shape());
  for (size_t i = 0; i < z.element_count(); ++i)
    store<std::complex<double>>(z, i, {load_number(re, i), load_number(im, i)});
  return z;
}

/// One of the two halves of integers of 64 bits, its bits as those of i32.
Tensor word_of(const Tensor& x, bool high) {
  Tensor word = Tensor::uninitialized(i32, x.shape());
  for (size_t i = 0; i < x.element_count(); ++i) {
    uint64_t bits;
    std::memcpy(&bits, x.data() + i * sizeof bits, sizeof bits);
    word.mutable_values<int32_t>()[i] = static_cast<int32_t>(static_cast<uint32_t>(high ? bits >> 32 : bits));
  }
  return word;
}
Tensor joined_words(const Tensor& high, const Tensor& low, DType dtype) {
  Tensor whole = Tensor::uninitialized(dtype, high.shape());
  for (size_t i = 0; i < high.element_count(); ++i) {
    const uint64_t bits = static_cast<uint64_t>(static_cast<uint32_t>(load<int64_t>(high, i))) << 32 |
                          static_cast<uint32_t>(load<int64_t>(low, i));
    std::memcpy(whole.mutable_data() + i * sizeof bits, &bits, sizeof bits);
  }
  return whole;
}

/// The dims of its values that are no numbers, those in the bodies of control flow too.
void add_open_dims(const Graph& g, std::vector<Dim>& dims) {
  for (const Node& node : g.nodes()) {
    for (const Type& t : node.types)
      for (const Dim& d : t.dims)
        if (!d.is_static() && std::find(dims.begin(), dims.end(), d) == dims.end()) dims.push_back(d);
    if (!node.attrs.empty() && holds_subgraph(node.attrs))
      with_subgraphs(node.attrs, [&](const Graph& body) { return add_open_dims(body, dims), body; });
  }
}

class CoremlExecutable final : public HostExecutable {
 public:
  CoremlExecutable(Graph graph, Device device, coreml_framework::Framework framework, LoadOptions options)
      : graph_(std::move(graph)), device_(device), framework_(std::move(framework)), options_(std::move(options)) {
    add_open_dims(graph_, open_dims_);
    if (!options_.narrow) narrowed_ = narrow_integers(graph_, NarrowSignature::yes).graph;
    if (framework_.present && options_.batch_invariant)
      fail(ErrorCode::unsupported,
           "CoreML.framework does not say in which order it sums: results that do not depend on the "
           "batch (batch_invariant) are for the device cpu");
  }

  void bind(const std::string& name, Tensor value) override {
    if (options_.narrow && is_of_64_bits(value.dtype())) check_numbers(value, "param", name, kAsked);
    params_[name] = std::move(value);
    std::scoped_lock lock(mutex_);
    runner_.reset();  // weights stand in the package
    by_cpu_.reset();
  }
  void prepare() override { runner(); }
  size_t memory_bytes() const override {
    std::scoped_lock lock(mutex_);
    return (runner_ ? runner_->memory_bytes() : 0) + (by_cpu_ ? by_cpu_->memory_bytes() : 0);
  }

  void run(Tensors inputs, std::span<Tensor> outputs, const RunOptions& options) override {
    if (has_empty_values(inputs)) return by_cpu().run(inputs, outputs, options);
    CoremlRunner& r = runner();
    std::vector<Tensor> results = as_built(r.run(carried(inputs), options), returned());
    for (size_t i = 0; i < results.size(); ++i) {
      Tensor& result = results[i];
      if (options.memory.empty()) {
        outputs[i] = std::move(result);
        continue;
      }
      std::span<std::byte> to = options.memory[i];
      if (to.size() != result.byte_count())
        fail(ErrorCode::shape_mismatch, "output ", i, " of '", graph_.name(), "' is ", result.type(), ", ",
             result.byte_count(), " bytes; there is room for ", to.size());
      if (!to.empty()) std::memcpy(to.data(), result.data(), to.size());
    }
  }
  bool begin(Tensors inputs, const RunOptions&, Done done) override {
    if (has_empty_values(inputs)) return false;
    CoremlRunner& r = runner();
    return r.begin(carried(inputs),
                   [types = returned(), done = std::move(done)](std::vector<Tensor> results, std::exception_ptr error) {
                     if (!error) try {
                         results = as_built(std::move(results), types);
                       } catch (...) {
                         error = std::current_exception();
                       }
                     done(std::move(results), error);
                   });
  }
  PlacementReport placement() override { return runner().placement(); }

 private:
  static constexpr std::string_view kAsked = "integers of 64 bits are narrowed, as was asked for";

  /// The graph without i64 where i32 holds its numbers, of inputs and outputs too.
  const Graph& carried_graph() const { return narrowed_ ? *narrowed_ : graph_; }
  /// Whether an integer of 64 bits crosses the boundary in two words.
  bool is_in_words(DType carried) const { return !options_.narrow && is_of_64_bits(carried); }
  struct Returned {
    Type type;
    bool in_words;
  };
  std::vector<Returned> returned() const {
    std::vector<Returned> all;
    const std::vector<Type> carried = carried_graph().output_types();
    for (const Type& t : graph_.output_types()) all.push_back({t, is_in_words(carried[all.size()].dtype)});
    return all;
  }
  /// Inputs as the package describes them.
  std::vector<Tensor> carried(Tensors inputs) const {
    if (inputs.size() != graph_.inputs().size())
      fail(ErrorCode::invalid_argument, "graph '", graph_.name(), "' has ", graph_.inputs().size(), " inputs, got ",
           inputs.size());
    std::vector<Tensor> given;
    const std::vector<Type> carried_types = carried_graph().input_types();
    for (size_t i = 0; i < inputs.size(); ++i) {
      Type wanted = graph_.type(graph_.inputs()[i]);  // of open sizes `has_empty_values` has seen that they agree
      if (is_static(wanted.dims) ? inputs[i].type() != wanted : inputs[i].dtype() != wanted.dtype)
        fail(ErrorCode::shape_mismatch, "input '", graph_.node(graph_.inputs()[i]).name, "' is ", wanted, ", got ",
             inputs[i].type());
      auto give = [&](const Tensor& t) {
        const mil::Feature& feature = description_.inputs.at(given.size());
        bool joined = is_wide(t.type(), coreml::kMostDims);
        Shape shape = joined ? feature.shape : t.rank() == 0 ? Shape{1} : t.shape();
        given.push_back(as(t, *feature.dtype, shape));
      };
      if (is_complex(wanted.dtype)) {
        give(part_of(inputs[i], false)), give(part_of(inputs[i], true));
      } else if (is_in_words(carried_types[i].dtype)) {
        give(word_of(inputs[i], true)), give(word_of(inputs[i], false));
      } else {
        if (is_of_64_bits(wanted.dtype))
          check_numbers(inputs[i], "input", graph_.node(graph_.inputs()[i]).name,
                        options_.narrow ? kAsked : "this input is only read as places");
        give(inputs[i]);
      }
    }
    return given;
  }
  /// Results as the graph has them.
  static std::vector<Tensor> as_built(std::vector<Tensor> results, const std::vector<Returned>& returned) {
    std::vector<Tensor> outputs;
    size_t next = 0;
    for (const auto& [type, in_words] : returned) {
      Tensor result = results.at(next++);
      if (is_complex(type.dtype)) result = complex_of(result, results.at(next++), type);
      else if (in_words) result = joined_words(result, results.at(next++), type.dtype);
      Shape shape = type.rank() == 0                   ? Shape{}
                    : is_wide(type, coreml::kMostDims) ? shape_of(type.dims)
                                                       : result.shape();
      outputs.push_back(as(result, type.dtype, shape));
    }
    return outputs;
  }
  /// Whether some value has no elements at these sizes: a window that fits nowhere, a batch of nothing. Core ML has no
  /// such values, and what a package computes of sizes is no size there. Fails where a symbol is two numbers.
  bool has_empty_values(Tensors inputs) const {
    if (open_dims_.empty()) return false;
    Bindings sizes = solve_symbols(graph_, inputs);
    return std::any_of(open_dims_.begin(), open_dims_.end(), [&](const Dim& d) { return d.bound(sizes).value() < 1; });
  }
  /// What runs such sizes.
  HostExecutable& by_cpu() {
    std::scoped_lock lock(mutex_);
    if (by_cpu_) return *by_cpu_;
    auto cpu = backend_of(Device::cpu());
    Pipelined legal = run_pipeline(with_values(graph_, params_), cpu->target(), {});
    require_complete(legal.report, false);
    cpu_program_ = cpu->lower(std::move(legal.graph));
    by_cpu_ = load_on_host(*cpu_program_, options_);
    return *by_cpu_;
  }
  CoremlRunner& runner() {
    std::scoped_lock lock(mutex_);
    if (runner_) return *runner_;
    const bool apart = options_.narrow ? coreml::is_taken_apart_where_narrowed(graph_) : coreml::is_taken_apart(graph_);
    const bool plain = graph_.params().empty() && !apart;
    coreml::Translated translated =
        coreml::translate(plain ? graph_ : ready(), options_for(framework_, options_.narrow));
    description_ = translated.model.main;
    runner_ = make_coreml_runner(translated.model, coreml_units(device_), options_, framework_);
    return *runner_;
  }
  /// With its params' values, which may fold further, and without what programs do not have.
  Graph ready() const {
    coreml::Options options = options_for(framework_, options_.narrow);
    options.is_signature_narrowed = true;
    Pipelined legal = run_pipeline(with_values(carried_graph(), params_), coreml::target(options), {});
    require_complete(legal.report, false);
    return std::move(legal.graph);
  }

  Graph graph_;
  std::optional<Graph> narrowed_;  // nothing where all integers of 64 bits are narrowed
  Device device_;
  coreml_framework::Framework framework_;
  LoadOptions options_;
  NamedTensors params_;
  mutable std::mutex mutex_;
  mil::FunctionDescription description_;
  std::unique_ptr<CoremlRunner> runner_;
  std::vector<Dim> open_dims_;  // of all values, each once
  std::unique_ptr<Program> cpu_program_;
  std::unique_ptr<HostExecutable> by_cpu_;
};

class CoremlProgram final : public Program {
 public:
  CoremlProgram(Graph legal, Device device, coreml_framework::Framework framework)
      : graph_(std::move(legal)), device_(device), framework_(std::move(framework)) {}
  const Graph& graph() const override { return graph_; }
  std::unique_ptr<Executable> load(const LoadOptions& options) const override {
    return std::make_unique<CoremlExecutable>(graph_, device_, framework_, options);
  }

 private:
  Graph graph_;
  Device device_;
  coreml_framework::Framework framework_;
};

class CoremlDevice final : public Backend {
 public:
  CoremlDevice(Device device, coreml_framework::Framework framework)
      : device_(std::move(device)), framework_(std::move(framework)) {}
  std::string name() const override { return device_.name(); }
  std::string description() const override {
    if (!framework_.present)
      return "no CoreML.framework here: ML Programs are written, read back, and run by the MIL front end on the CPU";
    return text_of("CoreML.framework, ", framework_.chip.empty() ? "a processor without a name" : framework_.chip,
                   framework_.ane ? ", with" : ", without", " a neural engine; ML Programs of iOS ",
                   framework_.newest_opset + 10, " (macOS ", framework_.newest_opset + 7, ") and before");
  }
  int threads() const override { return backend_of(Device::cpu())->threads(); }
  bool accelerates() const override { return framework_.present; }
  bool cancels_loops() const override { return !framework_.present; }
  std::string no_native_update() const override {
    return "models are written as ML Programs, and Core ML's update task (MLUpdateTask) updates neural networks and "
           "k-nearest-neighbor classifiers only; the gradient graph is run instead";
  }
  /// Without the framework, the processor that was asked for is what `placement` predicts for.
  std::string unavailable() const override {
    if (framework_.present && coreml_units(device_) == ComputeUnits::ane && !framework_.ane)
      return text_of("Core ML says that this system (", framework_.chip,
                     ") has no neural engine; coreml takes what there is");
    return "";
  }
  /// What a report calls it says who runs the program.
  Target target() const override {
    Target whole = target_with(false);
    whole.narrowed = std::make_shared<const Target>(target_with(true));
    return whole;
  }
  std::vector<TargetFact> facts() const override {
    if (framework_.present)
      return {{"runs by", "CoreML.framework"}, {"newest opset", "iOS " + std::to_string(framework_.newest_opset + 10)}};
    std::vector<TargetFact> facts = backend_of(Device::cpu())->facts();
    facts.insert(facts.begin(), {"runs by", "the MIL front end on the CPU"});
    return facts;
  }
  // A package is translated from the legal graph once the values of its params are known, and kept by the framework
  // (compiled_cache.h): what is written to disk is the graph.
  std::unique_ptr<Program> lower(Graph legal) const override {
    coreml::check_open_inputs(legal);
    return std::make_unique<CoremlProgram>(std::move(legal), device_, framework_);
  }

 private:
  Target target_with(bool narrow) const {
    Target target = coreml::whole_target(options_for(framework_, narrow));
    target.name = name();
    target.detail = framework_.present
                        ? "an ML Program, by CoreML.framework"
                        : "an ML Program; no CoreML.framework here: the MIL front end runs it on the CPU";
    return target;
  }

  Device device_;
  coreml_framework::Framework framework_;
};

}  // namespace

ComputeUnits coreml_units(const Device& device) {
  const auto names = names_of(ComputeUnits{});
  ComputeUnits units = ComputeUnits::all;
  for (const std::string& option : device.options())
    units = static_cast<ComputeUnits>(std::find(names.begin(), names.end(), option) - names.begin());
  return units;
}

std::unique_ptr<Backend> make_coreml_device(Device device, const coreml_framework::Framework& framework) {
  return std::make_unique<CoremlDevice>(device, framework);
}

}  // namespace rlx
