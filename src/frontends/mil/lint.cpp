// See the header.
#include "frontends/mil/lint.h"

#include "frontends/mil/check_operation.h"

namespace rlx::mlprogram {
namespace {

constexpr int kFirstSpecification = 6, kLastSpecification = 10;

class Linter {
 public:
  Linter(const mil::Model& model, const TensorOf& tensor_of) : model_(model), tensor_of_(tensor_of) {}

  std::vector<Finding> run() {
    check_versions();
    for (const auto& [name, function] : model_.program.functions) check_function(name, function);
    return std::move(findings_);
  }

 private:
  using Names = std::map<std::string, Known>;

  template <class... Parts>
  void found(std::string rule, const std::string& where, const Parts&... what) {
    findings_.push_back({std::move(rule), where, text_of(what...)});
  }

  // ---- the model ----
  void check_versions() {
    int version = model_.specification_version;
    if (version < kFirstSpecification || version > kLastSpecification)
      found("version", "", "specification version ", version, " is none of an ML Program: ", kFirstSpecification,
            " to ", kLastSpecification);
    if (model_.program.version != 1)
      found("version", "", "the program is of version ", model_.program.version, ", not 1");
    if (model_.program.functions.empty()) found("function", "", "there is no function");
    bool several = !model_.functions.empty();
    if (several && version < 9)
      found("function", "", "functions are described one by one, which needs specification version 9, not ", version);
    if (several && !(model_.main.inputs.empty() && model_.main.outputs.empty() && model_.main.states.empty()))
      found("function", "", "functions are described one by one, and the model has features of its own as well");
    if (several && !model_.program.functions.contains(model_.default_function))
      found("function", "", "the default function '", model_.default_function, "' is not there");
    if (!several && !model_.program.functions.empty() && !model_.program.functions.contains("main"))
      found("function", "", "the only function is called '", model_.program.functions.begin()->first, "', not 'main'");
    for (const mil::FunctionDescription& d : model_.functions)
      if (!model_.program.functions.contains(d.name)) found("function", d.name, "it is described, and not there");
  }

  // ---- a function ----
  void check_function(const std::string& name, const mil::Function& function) {
    int opset = 0;
    for (int n = kFirstOpset; n <= kFirstOpset + kLastSpecification - kFirstSpecification; ++n)
      if (function.opset == text_of("CoreML", n)) opset = n;
    if (opset == 0) return found("version", name, "the opset '", function.opset, "' is none of Core ML's");
    if (!function.blocks.contains(function.opset))
      return found("function", name, "there is no block for its opset ", function.opset);
    int needed = opset - kFirstOpset + kFirstSpecification;
    if (needed > model_.specification_version)
      found("version", name, function.opset, " needs specification version ", needed, ", the model is of ",
            model_.specification_version);
    opset_ = opset;
    Names names;
    for (const mil::NamedType& input : function.inputs) {
      check_name(name, "input", input.name, names);
      check_rank(name, input);
      bool state = input.type.kind == mil::ValueType::Kind::state;
      if (state) check_state(name, input);
      names[input.name] = {input.type, false};
    }
    check_block(name, function.body(), names);
    const mil::FunctionDescription* description = &model_.main;
    if (!model_.functions.empty()) {
      description = nullptr;
      for (const mil::FunctionDescription& d : model_.functions)
        if (d.name == name) description = &d;
    }
    if (!description) return found("function", name, "nothing describes it");
    check_description(name, function, *description);
    if (findings_.empty()) check_types(name, function, *description);
  }

  void check_name(const std::string& where, const char* what, const std::string& name, const Names& names) {
    if (!is_identifier(name))
      found("name", where, "the ", what, " '", name,
            "' is no identifier: letters, digits, '_' and '@', no digit first");
    if (names.contains(name)) found("name", where, "'", name, "' is defined twice");
  }
  void check_rank(const std::string& where, const mil::NamedType& named) {
    const mil::ValueType& type = named.type;
    if (type.kind == mil::ValueType::Kind::tensor && type.dims.size() > kMostDims)
      found("rank", where, "'", named.name, "' is ", type, ": of more than ", kMostDims, " dims");
  }
  void check_state(const std::string& where, const mil::NamedType& input) {
    if (opset_ < 8) found("state", where, "the state '", input.name, "' needs CoreML8");
    if (input.type.inner.size() != 1) return found("state", where, "the state '", input.name, "' is of no type");
    const mil::ValueType& held = input.type.inner[0];
    if (held.dtype != mil::DataType::float16)
      found("state", where, "the state '", input.name, "' is ", held, "; states are fp16");
    if (!held.shape()) found("state", where, "the state '", input.name, "' is ", held, "; states have fixed shapes");
  }

  // ---- features ----
  void check_description(const std::string& where, const mil::Function& function,
                         const mil::FunctionDescription& description) {
    std::vector<std::string> inputs, states;
    std::map<std::string, mil::ValueType> types;
    for (const mil::NamedType& input : function.inputs) {
      (input.type.kind == mil::ValueType::Kind::state ? states : inputs).push_back(input.name);
      types[input.name] = input.type;
    }
    check_same(where, "input", inputs, description.inputs);
    check_same(where, "output", function.body().outputs, description.outputs);
    check_same(where, "state", states, description.states);
    for (const auto* features : {&description.inputs, &description.outputs})
      for (const mil::Feature& f : *features) check_feature(text_of(where, ", '", f.name, "'"), f);
    for (const mil::Feature& f : description.inputs) check_against(where, f, types);
    if (!description.predicted_feature.empty() &&
        std::none_of(description.outputs.begin(), description.outputs.end(),
                     [&](const mil::Feature& f) { return f.name == description.predicted_feature; }))
      found("feature", where, "the predicted feature '", description.predicted_feature, "' is no output");
  }
  void check_same(const std::string& where, const char* what, const std::vector<std::string>& program,
                  const std::vector<mil::Feature>& described) {
    for (const std::string& name : program)
      if (std::none_of(described.begin(), described.end(), [&](const mil::Feature& f) { return f.name == name; }))
        found("feature", where, "the ", what, " '", name, "' of the program is not described");
    for (const mil::Feature& f : described)
      if (std::find(program.begin(), program.end(), f.name) == program.end())
        found("feature", where, "the ", what, " '", f.name, "' is described, and the program has none such");
  }
  void check_feature(const std::string& where, const mil::Feature& f) {
    if (f.kind != mil::Feature::Kind::array) return;
    int version = model_.specification_version;
    if (!f.dtype) return found("feature", where, "an array of a type that Core ML does not have");
    if (*f.dtype == f16 && version < 7) found("feature", where, "an array of f16 needs specification version 7");
    if (*f.dtype == i8 && version < 10) found("feature", where, "an array of i8 needs specification version 10");
  }
  void check_against(const std::string& where, const mil::Feature& f,
                     const std::map<std::string, mil::ValueType>& types) {
    auto it = types.find(f.name);
    if (it == types.end() || f.kind != mil::Feature::Kind::array || !f.dtype) return;
    const mil::ValueType& type = it->second;
    if (auto dtype = mil::dtype_of(type.dtype); dtype && *dtype != *f.dtype)
      found("feature", where, "the input '", f.name, "' is described as ", *f.dtype, ", and is ", type);
    if (type.dims.empty() || is_variadic(type) || f.shape.empty()) return;
    bool fits = f.shape.size() == type.dims.size();
    for (size_t i = 0; fits && i < f.shape.size(); ++i) fits = !type.dims[i].size || *type.dims[i].size == f.shape[i];
    if (!fits) {
      std::string shape;
      for (int64_t d : f.shape) shape += text_of(shape.empty() ? "" : ", ", d);
      found("feature", where, "the input '", f.name, "' is described as [", shape, "], and is ", type);
    }
  }

  // ---- operations ----
  /// What a block defines is known in it and forgotten behind it.
  class Scope {
   public:
    explicit Scope(Names& names) : names_(names) {}
    ~Scope() {
      for (auto it = hidden_.rbegin(); it != hidden_.rend(); ++it) {
        if (it->second) names_[it->first] = *it->second;
        else names_.erase(it->first);
      }
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    void define(const std::string& name, Known known) {
      auto found = names_.find(name);
      hidden_.emplace_back(name, found == names_.end() ? std::nullopt : std::optional(found->second));
      names_[name] = std::move(known);
    }

   private:
    Names& names_;
    std::vector<std::pair<std::string, std::optional<Known>>> hidden_;
  };

  void check_block(const std::string& where, const mil::Block& block, Names& names) {
    Scope scope(names);
    for (const mil::Operation& op : block.operations) {
      std::string here = text_of(where, "/", op.type, " '", name_of(op), "'");
      check_operation(here, op, names);
      for (const mil::NamedType& output : op.outputs) {
        check_name(here, "result", output.name, names);
        if (op.type != "const" && !op.type.starts_with("constexpr_"))
          check_rank(here, output);  // weights may have more
        scope.define(output.name, {output.type, has_constant_results(op, known_in(names))});
      }
    }
    for (const std::string& output : block.outputs)
      if (!names.contains(output)) found("name", where, "the result '", output, "' of the block is not defined");
  }

  void check_operation(const std::string& here, const mil::Operation& op, Names& names) {
    if (!op.attributes.contains("name")) found("attribute", here, "it has no name");
    const OnFinding on_finding = [&](const char* rule, const std::string& what) { found(rule, here, what); };
    const Signature* signature = signature_of(op.type, opset_, on_finding);
    if (!signature) return;
    check_blocks(here, op, names);
    if (op.type == "const") return check_const(here, op);
    check_arguments(op, *signature, opset_, known_in(names), tensor_of_, on_finding);
  }
  static KnownOf known_in(const Names& names) {
    return [&names](const std::string& name) {
      auto it = names.find(name);
      return it == names.end() ? nullptr : &it->second;
    };
  }

  void check_const(const std::string& here, const mil::Operation& op) {
    if (!op.inputs.empty()) found("argument", here, "a const takes nothing");
    auto it = op.attributes.find("val");
    if (it == op.attributes.end()) return found("attribute", here, "a const has no value");
    if (op.outputs.size() != 1) return found("attribute", here, "a const has ", op.outputs.size(), " results");
    if (!(it->second.type == op.outputs[0].type))
      found("dtype", here, "its value is ", it->second.type, ", declared is ", op.outputs[0].type);
    check_literal("val", it->second, tensor_of_,
                  [&](const char* rule, const std::string& what) { found(rule, here, what); });
  }

  void check_blocks(const std::string& here, const mil::Operation& op, Names& names) {
    size_t wanted = op.type == "cond" || op.type == "while_loop" ? 2 : 0;
    if (op.blocks.size() != wanted)
      return found("block", here, "it has ", op.blocks.size(), " blocks instead of ", wanted);
    for (size_t b = 0; b < op.blocks.size(); ++b) {
      const mil::Block& block = op.blocks[b];
      Scope scope(names);
      std::string where = text_of(here, op.type == "cond" ? (b ? "/false" : "/true") : (b ? "/body" : "/condition"));
      if (op.type == "cond" && !block.inputs.empty()) found("block", where, "a branch takes nothing");
      for (const mil::NamedType& input : block.inputs) scope.define(input.name, {input.type, false});
      size_t outputs = op.type == "while_loop" && b == 0 ? 1 : op.outputs.size();
      if (block.outputs.size() != outputs)
        found("block", where, "it has ", block.outputs.size(), " results instead of ", outputs);
      check_block(where, block, names);
    }
  }

  /// What each op gives, against what is declared: by lowering the function. What lowering cannot do for want of data,
  /// or does not know at all, is no fault of the program.
  void check_types(const std::string& name, const mil::Function& function,
                   const mil::FunctionDescription& description) {
    LowerOptions options;
    options.function = name;
    // Sizes that are open say nothing of which are equal: the usual ones, which are described, do.
    for (const mil::NamedType& input : function.inputs) {
      if (input.type.kind != mil::ValueType::Kind::tensor || input.type.shape()) continue;
      const Shape* usual = nullptr;
      for (const mil::Feature& f : description.inputs)
        if (f.name == input.name && f.kind == mil::Feature::Kind::array) usual = &f.shape;
      if (!usual || usual->size() != input.type.dims.size()) return;
      options.dims[input.name] = Dims(usual->begin(), usual->end());
    }
    try {
      lower(model_, tensor_of_, options);
    } catch (const NeedsData&) {
    } catch (const Error& e) {
      if (e.code() == ErrorCode::unsupported || e.code() == ErrorCode::out_of_memory) return;
      found("type", name, e.what());
    }
  }

  const mil::Model& model_;
  const TensorOf& tensor_of_;
  std::vector<Finding> findings_;
  int opset_ = kFirstOpset;
};

}  // namespace

std::vector<Finding> lint(const mil::Model& model, const TensorOf& tensor_of) { return Linter(model, tensor_of).run(); }

}  // namespace rlx::mlprogram
