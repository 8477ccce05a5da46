// Programs, op by op; see the header. What an op takes is checked in mil_call, the types of results come from
// frontends/mil/type_inference, and the whole program is held to frontends/mil/lint before it is written.
#include "rlx/mil_builder.h"

#include <set>

#include "backends/coreml/coreml.h"
#include "devices/coreml/in_memory.h"
#include "devices/coreml/mil_builder_impl.h"
#include "io/mlpackage.h"

namespace rlx {

// ---- values ----

const MilValue::Record& MilValue::record() const {
  if (!record_) fail(ErrorCode::invalid_argument, "a MilValue that no program has");
  return *record_;
}
const std::string& MilValue::name() const { return record().name; }
bool MilValue::is_tensor() const { return record().type.has_value(); }
const Type& MilValue::type() const {
  if (!record().type)
    fail(ErrorCode::invalid_argument, "'", name(), "' is ", record().declared, ", and no tensor of numbers");
  return *record().type;
}
std::string MilValue::type_text() const { return text_of(record().declared); }

MilBuilder::MilBuilder(MilOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
MilBuilder::~MilBuilder() = default;
MilBuilder::MilBuilder(MilBuilder&&) noexcept = default;
MilBuilder& MilBuilder::operator=(MilBuilder&&) noexcept = default;

// ---- functions ----

void MilBuilder::function(const std::string& name) {
  Impl& b = *impl_;
  if (!mlprogram::is_identifier(name))
    fail(ErrorCode::invalid_argument, "the function ", quoted_name(name),
         " is no identifier: letters, digits, '_' and '@', no digit first");
  BuiltFunction& now = b.f();
  if (!now.controls.empty())
    fail(ErrorCode::invalid_argument, "the function '", now.name, "' has a block that is open: end it first");
  if (b.functions.size() == 1 && now.known.empty()) {
    now.name = name;
    return;
  }
  for (const auto& each : b.functions)
    if (each->name == name) fail(ErrorCode::invalid_argument, "there is a function '", name, "' already");
  b.need(8, "a program of several functions");
  b.begin_function(name);
}

void MilBuilder::Impl::describe_sizes(mil::Feature& feature, const Type& type, const MilInput& input, bool& is_listed) {
  coreml::Interface interface;
  std::set<std::string> symbols;
  std::optional<size_t> length;
  for (const Dim& d : type.dims) {
    if (d.is_static()) continue;
    std::string symbol = text_of(d);
    if (d != Dim::symbol(symbol))
      fail(ErrorCode::unsupported, "its dim ", symbol,
           " is no plain symbol, and a package cannot hold a prediction to it");
    symbols.insert(symbol);
  }
  for (const auto& [symbol, sizes] : input.sizes) {
    if (!symbols.contains(symbol))
      fail(ErrorCode::not_found, "sizes are given for ", symbol, ", which is no dim of ", type);
    auto bad = [](int64_t n) { return n < 1 || n > std::numeric_limits<int32_t>::max(); };
    if (bad(sizes.least) || (sizes.most && (bad(*sizes.most) || *sizes.most < sizes.least)) ||
        std::any_of(sizes.values.begin(), sizes.values.end(), bad))
      fail(ErrorCode::invalid_argument, "the sizes of ", symbol, " are no numbers from 1 on, the least first");
    interface.sizes[symbol] = {sizes.least, sizes.most, sizes.values};
  }
  for (const std::string& symbol : symbols) {
    size_t n = interface.sizes.contains(symbol) ? interface.sizes[symbol].values.size() : 0;
    if (length && *length != n)
      fail(ErrorCode::invalid_argument, "the sizes of ", symbol, " are ", n, " numbers, those of ", *symbols.begin(),
           " ", *length, "; an input has ranges, or lists that are equally long");
    length = n;
  }
  is_listed = length.value_or(0) > 0;
  if (!symbols.empty()) coreml::make_flexible(feature, type, interface);
}

MilValue MilBuilder::input(const std::string& name, const Type& type, const MilInput& options) {
  Impl& b = *impl_;
  return with_context(
      [&] { return text_of("adding the input ", quoted_name(name)); },
      [&] {
        b.check_name("input", name);
        if (b.f().blocks.size() > 1) fail(ErrorCode::invalid_argument, "a block takes no inputs: end it first");
        if (type.dtype != f32 && type.dtype != f16 && type.dtype != i32)
          fail(ErrorCode::unsupported, "it is ", type, "; inputs are f32, f16 or i32: cast inside of the program");
        if (type.rank() < 1 || type.rank() > mlprogram::kMostDims)
          fail(ErrorCode::unsupported, "it is ", type, ", of rank ", type.rank(),
               "; inputs have 1 to 5 dims, and a scalar is [1]");
        for (const Dim& d : type.dims)
          if (d.is_static() && d.value() < 1)
            fail(ErrorCode::unsupported, "it is ", type, "; Core ML has no tensors without elements");
        mil::Feature feature{.name = name, .doc = options.description, .dtype = type.dtype};
        if (is_static(type.dims)) feature.shape = shape_of(type.dims);
        bool is_listed = false;
        b.describe_sizes(feature, type, options, is_listed);
        if (options.image) {
          using Color = mil::Feature::ColorSpace;
          const bool gray = *options.image == PackageImage::Color::grayscale;
          if (type.rank() != 4 || type.dims[0] != Dim(1) || type.dims[1] != Dim(gray ? 1 : 3) || type.dtype == i32)
            fail(ErrorCode::invalid_argument, "it is ", type, "; an image is float [1, ", gray ? 1 : 3,
                 ", height, width]");
          feature.kind = mil::Feature::Kind::image;
          feature.color_space = *options.image == PackageImage::Color::rgb   ? Color::rgb
                                : *options.image == PackageImage::Color::bgr ? Color::bgr
                                                                             : Color::grayscale;
          coreml::make_flexible_image(feature);
        }
        if (type.dtype == f16) b.check_opset(6, "an input of fp16");
        if (is_listed && b.f().listed > 0) b.need(8, "several inputs with lists of shapes");
        if (type.dtype == f16) b.need(6, "an input of fp16");
        b.f().listed += is_listed;
        b.f().inference->define(name, type);
        b.f().inputs.push_back({name, mil::ValueType::of(type)});
        b.f().description.inputs.push_back(std::move(feature));
        return b.made_value(name, {mil::ValueType::of(type), type}, false, false);
      });
}

MilValue MilBuilder::state(const std::string& name, const Type& type, const std::string& description) {
  Impl& b = *impl_;
  return with_context([&] { return text_of("adding the state ", quoted_name(name)); },
                      [&] {
                        b.check_name("state", name);
                        if (b.f().blocks.size() > 1)
                          fail(ErrorCode::invalid_argument, "a block takes no states: end it first");
                        if (type.dtype != f16) fail(ErrorCode::unsupported, "it is ", type, "; states are f16");
                        if (!is_static(type.dims) || type.rank() < 1 || type.rank() > mlprogram::kMostDims)
                          fail(ErrorCode::unsupported, "it is ", type, "; states have one shape, of 1 to 5 dims");
                        b.need(8, "a state");
                        mil::ValueType held;
                        held.kind = mil::ValueType::Kind::state;
                        held.inner = {mil::ValueType::of(type)};
                        b.f().inference->define_state(name, type);
                        b.f().states.push_back({name, held});
                        b.f().description.states.push_back({.name = name,
                                                            .doc = description,
                                                            .kind = mil::Feature::Kind::state,
                                                            .shape = shape_of(type.dims),
                                                            .dtype = f16});
                        return b.made_value(name, {held}, false, false);
                      });
}

void MilBuilder::output(const MilValue& value, const std::string& name, const std::string& description) {
  Impl& b = *impl_;
  with_context(
      [&] { return text_of("giving the output ", quoted_name(name.empty() && value ? value.name() : name)); },
      [&] {
        b.check_value(value, "the output");
        if (b.f().blocks.size() > 1)
          fail(ErrorCode::invalid_argument, "a block is open: end it first, with its results");
        const mil::ValueType& t = Impl::declared_of(value);
        using ValueKind = mil::ValueType::Kind;
        const bool is_label =
            t.kind == ValueKind::dictionary ||
            (t.kind == ValueKind::tensor && (t.dtype == mil::DataType::string || t.dtype == mil::DataType::int64));
        std::optional<DType> dtype = t.kind == ValueKind::tensor ? mil::dtype_of(t.dtype) : std::nullopt;
        if (!is_label && (!dtype || (*dtype != f32 && *dtype != f16 && *dtype != i32)))
          fail(ErrorCode::unsupported, "it is ", t, "; outputs are fp32, fp16 or int32: cast it first");
        if (is_label && !name.empty() && name != value.name())
          fail(ErrorCode::unsupported, "it is ", t, ", which nothing renames: give that name to classify");
        std::vector<mil::Feature>& outputs = b.f().description.outputs;
        auto is_output = [&](const std::string& each) {
          return std::any_of(outputs.begin(), outputs.end(), [&](const mil::Feature& f) { return f.name == each; });
        };
        if (dtype && *dtype == f16) b.check_opset(6, "an output of fp16");
        MilValue given = value;
        const bool is_own =
            value.record().is_computed && !is_output(value.name()) && (name.empty() || name == value.name());
        if (!is_own && is_label) fail(ErrorCode::invalid_argument, "'", value.name(), "' is an output already");
        if (!is_own) {
          if (name.empty())
            fail(ErrorCode::invalid_argument, "'", value.name(), "' is an ",
                 is_output(value.name()) ? "output already" : "input", "; give a name to the output");
          given = b.add("identity", {{"x", value}}, name, {})[0];
        }
        mil::Feature feature{.name = given.name(), .doc = description, .dtype = dtype};
        if (is_label) {
          mil::FunctionDescription& d = b.f().description;
          if (t.kind == ValueKind::dictionary) {
            feature.kind = mil::Feature::Kind::dictionary;
            feature.string_keys = t.inner.at(0).dtype == mil::DataType::string;
            d.predicted_probabilities = feature.name;
          } else {
            feature.kind = t.dtype == mil::DataType::string ? mil::Feature::Kind::string : mil::Feature::Kind::int64;
            d.predicted_feature = feature.name;
          }
          feature.dtype.reset();
        } else if (auto shape = t.shape()) {
          feature.shape = *shape;
        }
        if (dtype && *dtype == f16) b.need(6, "an output of fp16");
        b.f().blocks.front().block.outputs.push_back(given.name());
        outputs.push_back(std::move(feature));
      });
}

// ---- operations ----

MilValue MilBuilder::constant(const Tensor& value, const std::string& name) {
  return with_context([&] { return text_of("adding a constant ", value.type()); },
                      [&] { return impl_->constant(value, name); });
}

std::vector<MilValue> MilBuilder::op_many(const std::string& op, const MilArguments& arguments, const std::string& name,
                                          const std::vector<Type>& types) {
  return with_context([&] { return text_of("adding ", op, name.empty() ? "" : " " + quoted_name(name)); },
                      [&] { return impl_->add(op, arguments, name, types); });
}

MilValue MilBuilder::op(const std::string& op, const MilArguments& arguments, const std::string& name,
                        const std::vector<Type>& types) {
  return with_context([&] { return text_of("adding ", op, name.empty() ? "" : " " + quoted_name(name)); },
                      [&] {
                        std::vector<MilValue> results = impl_->add(op, arguments, name, types, true);
                        return results.empty() ? MilValue() : results[0];
                      });
}

// ---- results ----

mil::Model MilBuilder::Impl::model() const {
  mil::Model model;
  model.specification_version = opset - mlprogram::kFirstOpset + 6;
  model.metadata.description = options.description, model.metadata.author = options.author;
  model.metadata.version = options.version, model.metadata.license = options.license;
  const bool several = functions.size() > 1;
  for (const auto& each : functions) {
    const BuiltFunction& f = *each;
    if (!f.controls.empty())
      fail(ErrorCode::invalid_argument, "the function '", f.name, "' has a block that is open: end the ",
           f.controls.back().is_loop ? "while_loop" : "cond", " '", f.controls.back().name, "' first");
    if (f.description.outputs.empty())
      fail(ErrorCode::invalid_argument, "the function '", f.name, "' has no output, and Core ML wants one");
    if (!several && f.name != "main")
      fail(ErrorCode::invalid_argument, "the only function is called '", f.name,
           "'; that of a program with one is called 'main'");
    mil::Function made;
    made.inputs = f.inputs;
    made.inputs.insert(made.inputs.end(), f.states.begin(), f.states.end());
    made.opset = text_of("CoreML", opset);
    mil::Block body = f.blocks.front().block;
    take_form_of_opset(body, opset);
    made.blocks[made.opset] = std::move(body);
    model.program.functions[f.name] = std::move(made);
    mil::FunctionDescription description = f.description;
    description.name = several ? f.name : "";
    (several ? model.functions.emplace_back() : model.main) = std::move(description);
  }
  if (several) model.default_function = functions.front()->name;
  auto findings = mlprogram::lint(model, [](const mil::Value& v) { return std::get<Tensor>(v.data); });
  if (findings.empty()) return model;
  std::string all;
  for (size_t i = 0; i < findings.size() && i < 4; ++i)
    all += text_of(i ? "; " : "", findings[i].where, findings[i].where.empty() ? "" : ": ", findings[i].what);
  if (findings.size() > 4) all += text_of("; and ", findings.size() - 4, " more");
  if (!needed_by.empty()) all += text_of("; it is of CoreML", opset, ", which ", needed_by, " needs");
  fail(ErrorCode::invalid_argument, "Core ML would refuse the program: ", all);
}

MilReport MilBuilder::report() const {
  const MlPackageSizes sizes = check_model_size(impl_->model());
  return {impl_->opset + kIosOfOpset0, impl_->needed_by, sizes.model, sizes.weights};
}
MilReport MilBuilder::write(const std::string& path) const {
  const MlPackageSizes sizes = write_mlpackage(path, impl_->model());
  return {impl_->opset + kIosOfOpset0, impl_->needed_by, sizes.model, sizes.weights};
}
CoremlModel MilBuilder::load(CoremlOptions options) const {
  return coreml_model_of(PackageInMemory(impl_->model()), std::move(options));
}

std::vector<std::string> mil_ops() {
  const auto& all = mlprogram::ops_with_signatures();
  return {all.begin(), all.end()};
}
std::string mil_signature(const std::string& op, int ios) {
  if (ios < kOldestIosOfPrograms || ios > kNewestOpset + kIosOfOpset0)
    fail(ErrorCode::invalid_argument, "ios is ", ios, "; ML Programs are for iOS 15 to 18");
  const mlprogram::OnFinding found = [](const char*, const std::string& what) { fail(ErrorCode::not_found, what); };
  return mlprogram::parameters_of(op, *mlprogram::signature_of(op, ios - kIosOfOpset0, found));
}

}  // namespace rlx
