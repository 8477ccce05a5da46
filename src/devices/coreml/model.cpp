// A package's function on the CPU. Its graph is lowered once for each set of sizes; where values that data decide went
// into the graph as assumptions, they come out of it as well, and a run whose values differ is made again with a graph
// for these.
#include "rlx/coreml_model.h"

#include <mutex>
#include <random>
#include <set>

#include "base/lru_list.h"
#include "devices/coreml/description.h"
#include "devices/coreml/device.h"
#include "devices/coreml/in_memory.h"
#include "devices/coreml/placement.h"
#include "frontends/mil/lower.h"
#include "io/mlpackage.h"
#include "rlx/element.h"

namespace rlx {
namespace {

constexpr size_t kMostPlans = 32;
constexpr int kMostAttempts = 10'000;

/// Where a model comes from: a folder, or what a folder would hold.
using Source = std::variant<MlPackage, PackageInMemory>;

mlprogram::TensorOf reader_of(const MlPackage& package) {
  return [&package](const mil::Value& value) { return package.tensor(value); };
}
mlprogram::TensorOf reader_of(const Source& source) {
  return [&source](const mil::Value& value) {
    return std::visit([&](const auto& each) { return each.tensor(value); }, source);
  };
}

CoremlFeature feature_of(const mil::NamedType& named, const mil::FunctionDescription* description, bool widen) {
  CoremlFeature f{named.name, "tensor"};
  const mil::ValueType* type = &named.type;
  if (type->kind == mil::ValueType::Kind::state && type->inner.size() == 1) type = &type->inner[0];
  if (type->kind == mil::ValueType::Kind::dictionary) f.kind = "dictionary";
  std::optional<DType> dtype = mil::dtype_of(type->dtype);
  if (type->kind == mil::ValueType::Kind::tensor && !dtype) f.kind = "string";
  if (dtype) f.dtype = widen && *dtype == f16 ? f32 : *dtype;
  for (const mil::Dimension& d : type->dims) f.shape.push_back(d.size);
  if (description)
    for (const auto* all : {&description->inputs, &description->outputs})
      for (const mil::Feature& each : *all)
        if (each.name == named.name && each.kind == mil::Feature::Kind::image) f.kind = "image";
  return f;
}

/// The sizes of an image as those of its array [1, channels, height, width].
mil::Feature::Flexibility sizes_of_image(const mil::Feature& f) {
  using Color = mil::Feature::ColorSpace;
  const int64_t channels = f.color_space == Color::grayscale || f.color_space == Color::grayscale_f16 ? 1 : 3;
  mil::Feature::Flexibility sizes;
  for (const Shape& size : f.flexibility.shapes)
    if (size.size() == 2) sizes.shapes.push_back({1, channels, size[0], size[1]});
  if (const auto& ranges = f.flexibility.ranges; ranges.size() == 2)
    sizes.ranges = {{1, 1}, {channels, channels}, ranges[1], ranges[0]};
  return sizes;
}

/// The type with which each of a function's outputs is declared.
std::map<std::string, mil::ValueType> declared_types(const mil::Function& function) {
  std::map<std::string, mil::ValueType> types;
  for (const mil::NamedType& input : function.inputs) types[input.name] = input.type;
  for (const mil::Operation& op : function.body().operations)
    for (const mil::NamedType& output : op.outputs) types[output.name] = output.type;
  return types;
}

Tensor converted(const Tensor& t, DType dtype) {
  Tensor out = Tensor::uninitialized(dtype, t.shape());
  for (size_t i = 0; i < t.element_count(); ++i) store<double>(out, i, load<double>(t, i));
  return out;
}

/// Whether an op in the block, or in one of its own, draws random numbers.
bool draws(const mil::Block& block) {
  return std::any_of(block.operations.begin(), block.operations.end(), [](const mil::Operation& op) {
    return op.type.starts_with("random_") || std::any_of(op.blocks.begin(), op.blocks.end(), draws);
  });
}

/// The model with every tensor of the function's main block as an output of it.
mil::Model with_all_outputs(const mil::Model& model, const std::string& function) {
  mil::Model changed = model;
  auto [name, f] = mlprogram::find_function(model, function);
  mil::Function& to = changed.program.functions.at(name);
  std::vector<std::string>& outputs = to.blocks.at(to.opset).outputs;
  outputs.clear();
  for (const mil::Operation& op : f.body().operations) {
    if (op.type == "const" || op.type.starts_with("constexpr_") || op.type == "classify") continue;
    for (const mil::NamedType& output : op.outputs)
      if (output.type.kind == mil::ValueType::Kind::tensor && mil::dtype_of(output.type.dtype))
        outputs.push_back(output.name);
  }
  return changed;
}

/// One graph of the function: for these sizes, and these assumptions.
struct SizedPlan {
  std::string sizes;
  mlprogram::Lowered lowered;
  CompiledGraph compiled;
};

}  // namespace

struct CoremlModel::State {
  State(Source s, CoremlOptions o)
      : source(std::move(s)), options(std::move(o)), session(Device::cpu(), {options.threads}) {}
  const mil::Model& model() const { return changed ? *changed : original(); }
  const mil::Model& original() const {
    return std::visit([](const auto& each) -> const mil::Model& { return each.model(); }, source);
  }
  Source source;
  CoremlOptions options;
  Session session;
  std::optional<mil::Model> changed;  // with other outputs than the package's
  std::string function;
  std::vector<CoremlFeature> inputs, outputs, states;
  std::vector<std::string> labels;
  std::vector<int64_t> label_numbers;
  std::map<std::string, Tensor> defaults;                     // of inputs that may be left out
  std::map<std::string, mil::Feature::Flexibility> flexible;  // of arrays: the sizes that the package allows
  bool random = false;                                        // the function draws numbers

  std::mutex mutex;
  LruList<std::shared_ptr<const SizedPlan>> plans{kMostPlans};

  std::shared_ptr<const SizedPlan> find(const std::string& sizes) {
    std::lock_guard lock(mutex);
    const auto* found = plans.find([&](const auto& plan) { return plan->sizes == sizes; });
    return found ? *found : nullptr;
  }
  std::shared_ptr<const SizedPlan> make(const std::string& sizes, const std::map<std::string, Tensor>& data,
                                        std::vector<Tensor> known) {
    mlprogram::LowerOptions o;
    o.function = function, o.f32 = options.f32, o.data = data, o.known = std::move(known);
    for (const auto& [name, tensor] : data) o.dims[name] = tensor.type().dims;
    mlprogram::Lowered lowered = mlprogram::lower(model(), reader_of(source), o);
    CompiledGraph compiled = session.compile(lowered.graph);
    auto plan = std::make_shared<const SizedPlan>(SizedPlan{sizes, std::move(lowered), std::move(compiled)});
    std::lock_guard lock(mutex);
    if (plan->lowered.classifier) {
      labels = plan->lowered.classifier->names;
      label_numbers = plan->lowered.classifier->numbers;
    }
    return plans.add(std::move(plan));
  }

  /// What was given, as the program wants it.
  Tensor fitted(const CoremlFeature& f, const Tensor& given) const {
    Tensor t = given;
    if (t.dtype() != f.dtype && options.f32 && t.dtype() == f16 && f.dtype == f32) t = converted(t, f32);
    if (f.shape.empty() && t.rank() == 1 && t.element_count() == 1) t = t.reshaped({});
    if (t.rank() == 0 && f.shape == decltype(f.shape){1}) t = t.reshaped({1});
    if (t.dtype() != f.dtype)
      fail(ErrorCode::shape_mismatch, "input '", f.name, "' is given as ", given.type(), ", but is of ", f.dtype);
    require_allowed(f.name, t);
    return t;
  }

  /// Core ML refuses sizes beside those that the package names, so that they are refused here too.
  void require_allowed(const std::string& name, const Tensor& t) const {
    auto found = flexible.find(name);
    if (found == flexible.end()) return;
    const auto& [shapes, ranges] = found->second;
    if (!shapes.empty() && std::find(shapes.begin(), shapes.end(), t.shape()) == shapes.end()) {
      std::string all;
      for (const Shape& shape : shapes)
        all += (all.empty() ? "" : ", ") + text_of(Type{t.dtype(), Dims(shape.begin(), shape.end())});
      fail(ErrorCode::shape_mismatch, "input '", name, "' is given as ", t.type(), "; the package allows ", all);
    }
    if (!shapes.empty() || ranges.size() != t.rank()) return;
    for (size_t d = 0; d < t.rank(); ++d)
      if (t.shape()[d] < ranges[d].lower || (ranges[d].upper && t.shape()[d] > *ranges[d].upper))
        fail(ErrorCode::shape_mismatch, "input '", name, "' is given as ", t.type(), "; the package allows ",
             ranges[d].lower, " to ", ranges[d].upper ? text_of(*ranges[d].upper) : "any number of",
             " elements along dim ", d);
  }
};

CoremlModel CoremlModel::of(std::shared_ptr<State> state) {
  if (state->options.all_values) state->changed = with_all_outputs(state->original(), state->options.function);
  const mil::Model& model = state->model();
  auto [name, function] = mlprogram::find_function(model, state->options.function);
  state->function = name;
  const mil::FunctionDescription* description = nullptr;
  for (const mil::FunctionDescription& d : model.functions)
    if (d.name == name) description = &d;
  if (!description && model.functions.empty()) description = &model.main;
  bool widen = state->options.f32;
  state->random = draws(function.body());
  for (const mil::NamedType& input : function.inputs)
    (input.type.kind == mil::ValueType::Kind::state ? state->states : state->inputs)
        .push_back(feature_of(input, description, widen));
  if (description)
    for (const mil::Feature& f : description->inputs) {
      if (f.kind == mil::Feature::Kind::array) state->flexible[f.name] = f.flexibility;
      if (f.kind == mil::Feature::Kind::image) state->flexible[f.name] = sizes_of_image(f);
    }
  if (description)
    for (const mil::Feature& f : description->inputs)
      if (f.optional && f.dtype && f.kind == mil::Feature::Kind::array)
        state->defaults[f.name] = full(*f.dtype, f.shape, f.default_value.value_or(0));
  auto types = declared_types(function);
  for (const std::string& output : function.body().outputs) {
    auto it = types.find(output);
    if (it == types.end()) fail(ErrorCode::not_found, "the output '", output, "' is not defined");
    state->outputs.push_back(feature_of({output, it->second}, description, widen));
  }
  return CoremlModel(std::move(state));
}

CoremlModel CoremlModel::load(const std::string& path, CoremlOptions options) {
  auto state = std::make_shared<State>(MlPackage::open(path), std::move(options));
  return with_context([&] { return text_of("loading '", path, "'"); }, [&] { return of(std::move(state)); });
}
CoremlModel coreml_model_of(PackageInMemory package, CoremlOptions options) {
  return CoremlModel::of(std::make_shared<CoremlModel::State>(std::move(package), std::move(options)));
}

const std::string& CoremlModel::function() const { return state_->function; }
const std::vector<CoremlFeature>& CoremlModel::inputs() const { return state_->inputs; }
const std::vector<CoremlFeature>& CoremlModel::outputs() const { return state_->outputs; }
const std::vector<CoremlFeature>& CoremlModel::states() const { return state_->states; }
std::vector<std::string> CoremlModel::labels() const {
  std::lock_guard lock(state_->mutex);
  return state_->labels;
}

std::vector<int64_t> CoremlModel::label_numbers() const {
  std::lock_guard lock(state_->mutex);
  return state_->label_numbers;
}
std::string CoremlModel::description_json() const {
  return description_of(state_->original(), state_->function)
      .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);  // names may be any bytes
}

PlacementReport CoremlModel::placement(const Device& device) const {
  if (device.backend() != "coreml")
    fail(ErrorCode::invalid_argument, "operations of a package are placed among the processors of 'coreml', not of '",
         device, "'");
  const ComputeUnits units = coreml_units(device);
  if (const auto* package = std::get_if<MlPackage>(&state_->source))
    return mlprogram::placement_of(package->path(), package->model(), state_->function, units);
  return {true, mlprogram::predict_placement(state_->original(), state_->function, units)};
}

CoremlState CoremlModel::make_state() const {
  CoremlState all;
  for (const CoremlFeature& f : state_->states) {
    Shape shape;
    for (const auto& extent : f.shape) {
      if (!extent) fail(ErrorCode::unsupported, "the state '", f.name, "' is of no fixed shape");
      shape.push_back(*extent);
    }
    all[f.name] = Tensor(f.dtype, shape);
  }
  return all;
}

std::vector<NamedTensor> CoremlModel::predict(const std::vector<NamedTensor>& inputs, CoremlState* state) const {
  State& s = *state_;
  std::map<std::string, Tensor> data;
  std::ostringstream sizes;
  // A name that there is not is what went wrong more often than a forgotten input.
  std::set<std::string_view> given;
  for (const auto& entry : inputs) {
    const std::string& name = entry.first;
    if (!given.insert(name).second) fail(ErrorCode::invalid_argument, "input '", name, "' is given twice");
    if (std::any_of(s.inputs.begin(), s.inputs.end(), [&](const CoremlFeature& f) { return f.name == name; })) continue;
    std::string all;
    for (const CoremlFeature& f : s.inputs) all += (all.empty() ? "'" : ", '") + f.name + "'";
    fail(ErrorCode::not_found, "there is no input '", name, "'; there are ", all.empty() ? "none" : all);
  }
  for (const CoremlFeature& f : s.inputs) {
    auto it = std::find_if(inputs.begin(), inputs.end(), [&](const NamedTensor& t) { return t.first == f.name; });
    auto otherwise = s.defaults.find(f.name);
    if (it == inputs.end() && otherwise == s.defaults.end())
      fail(ErrorCode::invalid_argument, "input '", f.name, "' is not given");
    data[f.name] = s.fitted(f, it == inputs.end() ? otherwise->second : it->second);
    sizes << data[f.name].type() << ";";
  }
  for (const CoremlFeature& f : s.states) {
    if (!state || !state->count(f.name))
      fail(ErrorCode::invalid_argument, "the function has the state '", f.name, "': hand a state to it (make_state)");
    data[f.name] = state->at(f.name);
  }
  if (s.random) {
    std::random_device source;
    uint64_t seed = s.options.seed ? *s.options.seed : (uint64_t{source()} << 32 | source());
    data[mlprogram::kRandomKey] =
        Tensor::of<uint32_t>({2}, {static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(seed)});
  }

  std::shared_ptr<const SizedPlan> plan = s.find(sizes.str());
  if (!plan) plan = s.make(sizes.str(), data, {});
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    const mlprogram::Lowered& l = plan->lowered;
    std::vector<NamedTensor> feeds;
    for (const std::string& name : l.inputs) feeds.emplace_back(name, data.at(name));
    for (const std::string& name : l.states) feeds.emplace_back(name, data.at(name));
    if (l.random_key) feeds.emplace_back(mlprogram::kRandomKey, data.at(mlprogram::kRandomKey));
    std::vector<Tensor> results = plan->compiled.run(feeds);
    size_t first = l.results + l.states.size(), right = 0;
    while (right < l.assumptions.size() && results[first + right] == l.assumptions[right].value) ++right;
    if (right < l.assumptions.size()) {
      // What this run computed up to there holds for it; what follows may not.
      auto from = results.begin() + static_cast<int64_t>(first);
      plan = s.make(sizes.str(), data, std::vector<Tensor>(from, from + static_cast<int64_t>(right) + 1));
      continue;
    }
    std::vector<NamedTensor> outputs;
    for (size_t i = 0; i < l.results; ++i) outputs.emplace_back(s.outputs[i].name, results[i]);
    for (size_t i = 0; i < l.states.size(); ++i) (*state)[l.states[i]] = results[l.results + i];
    return outputs;
  }
  fail(ErrorCode::unsupported,
       "sizes within the program do not settle: its loops depend on data that change with them");
}

Graph load_mlpackage_graph(const std::string& path, const std::string& function,
                           const std::map<std::string, Dims>& dims, bool widen) {
  MlPackage package = MlPackage::open(path);
  mlprogram::LowerOptions options;
  options.function = function, options.dims = dims, options.f32 = widen;
  return with_context([&] { return text_of("loading '", path, "'"); },
                      [&] { return mlprogram::lower(package.model(), reader_of(package), options).graph; });
}

}  // namespace rlx
