// Programs, op by op; see the header. What an op takes is checked in mil_call, the types of results come from
// frontends/mil/type_inference, and the whole program is held to frontends/mil/lint before it is written.
#include "rlx/mil_builder.h"

#include <set>

#include "backends/coreml/coreml.h"
#include "devices/coreml/in_memory.h"
#include "devices/coreml/mil_call.h"
#include "frontends/mil/lint.h"
#include "frontends/mil/type_inference.h"
#include "io/mlpackage.h"
#include "io/names_in_messages.h"

namespace rlx {

struct MilValue::Record {
  const void* builder;
  std::string name;
  mil::ValueType declared;
  std::optional<Type> type;
  int64_t block;             ///< in which it was made
  bool is_computed = false;  ///< by an operation, and not handed to the block
};

namespace {

constexpr int kNewestOpset = 8, kIosOfOpset0 = 10, kOldestIosOfPrograms = 15;

ErrorCode code_of_finding(const std::string& rule, bool is_op_of_another_opset) {
  if (rule == "op") return is_op_of_another_opset ? ErrorCode::unsupported : ErrorCode::not_found;
  return rule == "dtype" ? ErrorCode::shape_mismatch : ErrorCode::invalid_argument;
}

/// A block that operations are being added to.
struct OpenBlock {
  mil::Block block;
  int64_t id;
  std::vector<std::string> names = {};  // that were defined in it
};
/// A cond or a while_loop that is being built.
struct OpenControl {
  bool is_loop;
  std::string name;
  std::vector<MilValue> operands;       // the pred, or the first vars
  std::vector<Type> types;              // of a loop's vars, those that were stated
  std::vector<std::string> vars;        // the names of the vars in the block that is open
  std::vector<mil::Block> done = {};    // the blocks before
  std::vector<MilValue> first = {};     // the results of the first branch
  std::vector<std::string> names = {};  // that were defined in them
};

/// A count of names, which goes back if what was to have the name is not made.
class CountGuard {
 public:
  explicit CountGuard(int64_t& count) : count_(count), before_(count) {}
  ~CountGuard() {
    if (!is_kept_) count_ = before_;
  }
  CountGuard(const CountGuard&) = delete;
  CountGuard& operator=(const CountGuard&) = delete;
  void keep() { is_kept_ = true; }

 private:
  int64_t& count_;
  int64_t before_;
  bool is_kept_ = false;
};

struct BuiltFunction {
  std::string name;
  std::unique_ptr<mlprogram::TypeInference> inference;
  std::vector<mil::NamedType> inputs = {}, states = {};
  mil::FunctionDescription description = {};
  std::vector<OpenBlock> blocks = {};
  std::vector<OpenControl> controls = {};
  std::map<std::string, std::shared_ptr<const mlprogram::Known>> known = {};
  std::map<std::string, mil::Value> constants = {};
  std::map<std::string, int64_t> counts = {};  // of names with numbers
  size_t listed = 0;                           // inputs with lists of shapes
};

}  // namespace

struct MilBuilder::Impl {
  explicit Impl(MilOptions o) : options(std::move(o)) {
    const int ios = options.minimum_ios;
    if (ios != 0 && (ios < kOldestIosOfPrograms || ios > kNewestOpset + kIosOfOpset0))
      fail(ErrorCode::invalid_argument, "minimum_ios is ", ios, "; it is 15 to 18, or 0 for the oldest that can");
    opset = ios == 0 ? mlprogram::kFirstOpset : ios - kIosOfOpset0;
    newest = ios == 0 ? kNewestOpset : opset;
    begin_function("main");
  }

  MilOptions options;
  int opset, newest;      // the oldest that will do, and the newest that is allowed
  std::string needed_by;  // what the opset is needed by
  std::vector<std::unique_ptr<BuiltFunction>> functions;
  int64_t next_block = 0;

  BuiltFunction& f() { return *functions.back(); }

  void begin_function(const std::string& name) {
    auto made = std::make_unique<BuiltFunction>();
    made->name = name;
    made->inference = std::make_unique<mlprogram::TypeInference>(opset);
    made->blocks.push_back({{}, next_block++});
    functions.push_back(std::move(made));
  }

  /// Fails if the program is for a system that does not have it.
  void check_opset(int wanted, const std::string& what) const {
    if (wanted > newest)
      fail(ErrorCode::unsupported, what, " needs iOS ", wanted + kIosOfOpset0, ", and the program is for iOS ",
           newest + kIosOfOpset0, ": ask for a minimum_ios of ", wanted + kIosOfOpset0, ", or for none");
  }
  void need(int wanted, const std::string& what) {
    check_opset(wanted, what);
    if (wanted <= opset) return;
    opset = wanted, needed_by = what;
  }

  // ---- names ----
  mlprogram::KnownOf known_of() {
    return [this](const std::string& name) -> const mlprogram::Known* {
      auto it = f().known.find(name);
      return it == f().known.end() ? nullptr : it->second.get();
    };
  }
  std::function<const mil::Value*(const std::string&)> constant_of() {
    return [this](const std::string& name) -> const mil::Value* {
      auto it = f().constants.find(name);
      return it == f().constants.end() ? nullptr : &it->second;
    };
  }
  std::string fresh(const std::string& hint) {
    if (!f().known.contains(hint)) return hint;
    for (int64_t n = 1;; ++n)
      if (std::string name = text_of(hint, "_", n); !f().known.contains(name)) return name;
  }
  /// As coremltools counts: relu_0, relu_1 ...
  std::string numbered(const std::string& hint) {
    int64_t& n = f().counts[hint];
    std::string name;
    do name = text_of(hint, "_", n++);
    while (f().known.contains(name) || f().known.contains(name + "_0"));
    return name;
  }
  void check_name(const char* what, const std::string& name) {
    if (!mlprogram::is_identifier(name))
      fail(ErrorCode::invalid_argument, "the ", what, " ", quoted_name(name),
           " is no identifier: letters, digits, '_' and '@', no digit first");
    if (f().known.contains(name))
      fail(ErrorCode::invalid_argument, "the ", what, " ", quoted_name(name),
           " is taken in this function; each name stands for one value");
  }

  // ---- values ----
  MilValue made_value(const std::string& name, mlprogram::Inferred type, bool constant, bool is_computed) {
    f().known[name] = std::make_shared<const mlprogram::Known>(mlprogram::Known{type.declared, constant});
    OpenBlock& block = f().blocks.back();
    block.names.push_back(name);
    return MilValue(std::make_shared<const MilValue::Record>(
        MilValue::Record{this, name, std::move(type.declared), std::move(type.type), block.id, is_computed}));
  }
  /// Fails for a value that does not count here.
  void check_value(const MilValue& v, const std::string& what) {
    if (!v) fail(ErrorCode::invalid_argument, what, " is no value: it was not made by an op of this program");
    const MilValue::Record& r = v.record();
    if (r.builder != this) fail(ErrorCode::invalid_argument, what, " '", r.name, "' is of another program");
    for (const OpenBlock& block : f().blocks)
      if (block.id == r.block) return;
    fail(ErrorCode::invalid_argument, what, " '", r.name,
         "' is of another function, or of a block that has ended; only the results of a block count behind it");
  }
  static const mil::ValueType& declared_of(const MilValue& v) { return v.record().declared; }

  void put(mil::Operation op) { f().blocks.back().block.operations.push_back(std::move(op)); }

  void define_constant(const std::string& name, const mil::Value& value) {
    if (!std::holds_alternative<Tensor>(value.data) && !std::holds_alternative<std::vector<std::string>>(value.data))
      fail(ErrorCode::internal, "a constant that is neither a tensor nor text");
    f().inference->define(name, value);
  }

  // ---- operations ----
  /// The call in the oldest opset in which it is right; else that in which least is wrong with it, the newest of those.
  MilCall call_of(const std::string& op, const std::string& name, const MilArguments& arguments) {
    std::optional<MilCall> best;
    for (int candidate = opset; candidate <= newest; ++candidate) {
      MilCall call = mil_call(op, name, arguments, candidate,
                              {known_of(), constant_of(), [&](const std::string& hint) { return fresh(hint); }});
      if (call.findings.empty()) return call;
      if (!best || call.findings.size() <= best->findings.size()) best = std::move(call);
    }
    auto& findings = best->findings;
    std::string all;
    for (size_t i = 0; i < findings.size() && i < 3; ++i) all += (i ? "; and " : "") + findings[i].second;
    int first = 0;
    const bool is_newer = !mlprogram::find_signature(op, newest, &first) && first > 0;
    if (is_newer) all += text_of(": ask for a minimum_ios of ", first + kIosOfOpset0, ", or for none");
    fail(code_of_finding(findings[0].first, is_newer), all);
  }

  std::vector<MilValue> add(const std::string& op, const MilArguments& arguments, const std::string& given_name,
                            const std::vector<Type>& types, bool is_single = false) {
    if (op == "cond" || op == "while_loop")
      fail(ErrorCode::invalid_argument, "'", op, "' has blocks; the builder's own ", op, " makes it");
    if (op == "const") {
      if (arguments.size() != 1 || arguments[0].first != "val" ||
          !std::holds_alternative<Tensor>(arguments[0].second.content))
        fail(ErrorCode::invalid_argument, "a const takes 'val', a Tensor, and nothing else");
      return {constant(std::get<Tensor>(arguments[0].second.content), given_name)};
    }
    for (const auto& [parameter, argument] : arguments)
      if (const auto* values = std::get_if<std::vector<MilValue>>(&argument.content))
        for (const MilValue& v : *values) check_value(v, "'" + parameter + "'");
    CountGuard count(f().counts[op]);
    const std::string name = given_name.empty() ? numbered(op) : given_name;
    MilCall call = call_of(op, name, arguments);
    const int before = opset;
    f().inference->set_opset(call.opset);
    std::vector<mlprogram::InferredResult> results;
    try {
      for (const auto& [each, value] : call.constants) define_constant(each, value);
      results = f().inference->add(call.op, call.dtype, types);
      if (is_single && results.size() > 1)
        fail(ErrorCode::invalid_argument, "'", op, "' gives ", results.size(), " results, which `op_many` has");
      for (size_t i = 0; i < results.size(); ++i) {
        const mil::ValueType& t = results[i].type.declared;
        if (t.kind == mil::ValueType::Kind::tensor && t.dims.size() > mlprogram::kMostDims &&
            !op.starts_with("constexpr_"))
          fail(ErrorCode::unsupported, "its result is ", t, "; tensors of a program have at most 5 dims");
        check_name("name", result_name(name, i, results.size()));
      }
    } catch (const Error&) {
      f().inference->set_opset(before);
      throw;
    }
    if (call.opset > opset) opset = call.opset, needed_by = op;
    for (auto& [each, value] : call.constants) {
      made_value(each, {value.type}, true, true);
      put(mil_constant(each, value));
    }
    const bool constant = mlprogram::has_constant_results(call.op, known_of());
    std::vector<MilValue> made;
    for (size_t i = 0; i < results.size(); ++i) {
      std::string called = result_name(name, i, results.size());
      f().inference->define(called, results[i]);
      call.op.outputs.push_back({called, results[i].type.declared});
      made.push_back(made_value(called, results[i].type, constant, true));
    }
    put(std::move(call.op));
    count.keep();
    return made;
  }
  static std::string result_name(const std::string& name, size_t i, size_t count) {
    return count == 1 ? name : text_of(name, "_", i);
  }

  MilValue constant(const Tensor& value, const std::string& given_name) {
    const std::string name = given_name.empty() ? numbered("const") : given_name;
    check_name("name", name);
    mil::Value literal = mil::Value::of(value);
    define_constant(name, literal);
    put(mil_constant(name, literal));
    f().constants.insert_or_assign(name, literal);
    return made_value(name, {literal.type, value.type()}, true, true);
  }

  // ---- blocks ----
  void begin_block() {
    f().blocks.push_back({{}, next_block++});
    f().inference->begin_block();
  }
  /// Ends the innermost block with these results.
  mil::Block end_block(const std::vector<MilValue>& results, OpenControl& control) {
    std::vector<std::string> names;
    for (const MilValue& v : results) {
      // A result is what the block itself computes, and each another one.
      bool own = v.record().block == f().blocks.back().id && v.record().is_computed &&
                 std::find(names.begin(), names.end(), v.name()) == names.end();
      names.push_back(own || declared_of(v).kind != mil::ValueType::Kind::tensor
                          ? v.name()
                          : add("identity", {{"x", v}}, {}, {})[0].name());
    }
    OpenBlock& open = f().blocks.back();
    open.block.outputs = std::move(names);
    mil::Block done = std::move(open.block);
    control.names.insert(control.names.end(), open.names.begin(), open.names.end());
    f().blocks.pop_back();
    f().inference->end_block();
    return done;
  }
  OpenControl& innermost(bool is_loop, size_t done, const char* what) {
    const char* begin = is_loop ? (done ? "begin_body" : "begin_while") : done ? "begin_else" : "begin_cond";
    if (f().controls.empty() || f().controls.back().is_loop != is_loop || f().controls.back().done.size() != done)
      fail(ErrorCode::invalid_argument, what, " without a ", begin, " before it, or a block inside of it that is open");
    return f().controls.back();
  }
  /// Before a cond or a loop ends, whose results are called so.
  void check_result_names(const OpenControl& control, size_t count) {
    for (size_t i = 0; i < count; ++i) check_name("name", result_name(control.name, i, count));
  }
  void check_condition(const MilValue& v, const char* what, bool may_have_a_dim) {
    check_value(v, what);
    const mil::ValueType& t = declared_of(v);
    if (t.kind == mil::ValueType::Kind::tensor && t.dtype == mil::DataType::boolean && t.dims.empty()) return;
    if (may_have_a_dim && t == mil::ValueType::tensor(mil::DataType::boolean, {1})) return;  // as exporters write it
    fail(ErrorCode::shape_mismatch, what, " '", v.name(), "' is ", t, "; it is to be bool[]",
         t.dtype != mil::DataType::boolean ? ": compare it with something" : ": squeeze it");
  }
  std::vector<MilValue> begin_vars(OpenControl& control) {
    begin_block();
    control.vars.clear();
    std::vector<MilValue> inside;
    for (size_t i = 0; i < control.operands.size(); ++i) {
      const MilValue& from = control.operands[i];
      std::string name = fresh(from.name() + "_var");
      std::optional<Type> type;
      if (!control.types.empty()) type = control.types[i];
      mlprogram::Inferred inferred = f().inference->define_like(name, from.name(), type);
      f().blocks.back().block.inputs.push_back({name, inferred.declared});
      control.vars.push_back(name);
      inside.push_back(made_value(name, inferred, false, false));
    }
    return inside;
  }
  void finish(OpenControl control, const char* op, const char* parameter, const std::vector<MilValue>& like,
              const std::vector<std::optional<Type>>& types, std::vector<MilValue>& results) {
    mil::Operation made;
    made.type = op;
    made.attributes.emplace("name", mil::Value::of(control.name));
    for (const MilValue& v : control.operands) made.inputs[parameter].emplace_back(v.name());
    made.blocks = std::move(control.done);
    for (size_t i = 0; i < like.size(); ++i) {
      std::string name = result_name(control.name, i, like.size());
      mlprogram::Inferred inferred;
      if (types[i]) {
        inferred = {mil::ValueType::of(*types[i]), types[i]};
        f().inference->define(name, *types[i]);
      } else {
        inferred = f().inference->define_like(name, like[i].name());
      }
      made.outputs.push_back({name, inferred.declared});
      results.push_back(made_value(name, inferred, false, true));
    }
    put(std::move(made));
  }
  void abandon() {
    BuiltFunction& function = f();
    for (const std::string& name : function.blocks.back().names)
      function.known.erase(name), function.constants.erase(name);
    for (const std::string& name : function.controls.back().names)
      function.known.erase(name), function.constants.erase(name);
    function.blocks.pop_back();
    function.inference->end_block();
    function.controls.pop_back();
  }

  void describe_sizes(mil::Feature& feature, const Type& type, const MilInput& input, bool& is_listed);
  mil::Model model() const;
};

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

// ---- control flow ----

void MilBuilder::begin_cond(const MilValue& pred, const std::string& name) {
  Impl& b = *impl_;
  with_context([&] { return "beginning a cond"; },
               [&] {
                 b.check_condition(pred, "the pred", false);
                 if (!name.empty()) b.check_name("name", name);
                 b.f().controls.push_back({false, name.empty() ? b.numbered("cond") : name, {pred}, {}, {}});
                 b.begin_block();
               });
}

void MilBuilder::begin_else(const std::vector<MilValue>& results) {
  Impl& b = *impl_;
  with_context([&] { return "ending the first branch of a cond"; },
               [&] {
                 OpenControl& control = b.innermost(false, 0, "begin_else");
                 if (results.empty()) fail(ErrorCode::invalid_argument, "a branch has at least one result");
                 for (const MilValue& v : results) b.check_value(v, "the result");
                 control.done.push_back(b.end_block(results, control));
                 control.first = results;
                 b.begin_block();
               });
}

std::vector<MilValue> MilBuilder::end_cond(const std::vector<MilValue>& results) {
  Impl& b = *impl_;
  return with_context(
      [&] { return "ending a cond"; },
      [&] {
        OpenControl& control = b.innermost(false, 1, "end_cond");
        const std::vector<MilValue> first = control.first;
        if (results.size() != first.size())
          fail(ErrorCode::invalid_argument, "the branches give ", first.size(), " and ", results.size(), " results");
        std::vector<std::optional<Type>> types;
        for (size_t i = 0; i < results.size(); ++i) {
          b.check_value(results[i], "the result");
          const mil::ValueType &one = Impl::declared_of(first[i]), &other = Impl::declared_of(results[i]);
          if (!(one == other))
            fail(ErrorCode::shape_mismatch, "the branches give result ", i, " as ", one, " and ", other,
                 "; they are to give the same types");
          types.push_back(results[i].record().type);
          // Open dims of the two are not known to be equal.
          if (types.back() && *types.back() != first[i].type())
            for (size_t d = 0; d < types.back()->rank(); ++d)
              if (types.back()->dims[d] != first[i].type().dims[d])
                types.back()->dims[d] = Dim::symbol(text_of(control.name, "_", i, "_", d));
        }
        for (const MilValue& v : results)
          if (!v.record().type)
            fail(ErrorCode::unsupported, "the branches give '", v.name(), "', which is ", Impl::declared_of(v),
                 "; a cond gives tensors");
        b.check_result_names(control, results.size());
        control.done.push_back(b.end_block(results, control));
        OpenControl ended = std::move(control);
        b.f().controls.pop_back();
        std::vector<MilValue> made;
        b.finish(std::move(ended), "cond", "pred", first, types, made);
        return made;
      });
}

std::vector<MilValue> MilBuilder::cond(const MilValue& pred, const Branch& on_true, const Branch& on_false,
                                       const std::string& name) {
  const size_t depth = impl_->f().controls.size();
  try {
    begin_cond(pred, name);
    begin_else(on_true());
    return end_cond(on_false());
  } catch (...) {
    while (impl_->f().controls.size() > depth) impl_->abandon();
    throw;
  }
}

std::vector<MilValue> MilBuilder::begin_while(const std::vector<MilValue>& vars, const std::string& name,
                                              const std::vector<Type>& types) {
  Impl& b = *impl_;
  return with_context(
      [&] { return "beginning a while_loop"; },
      [&] {
        if (vars.empty()) fail(ErrorCode::invalid_argument, "a loop has at least one var");
        if (!name.empty()) b.check_name("name", name);
        if (!types.empty() && types.size() != vars.size())
          fail(ErrorCode::invalid_argument, "there are ", vars.size(), " vars, and the types of ", types.size());
        for (size_t i = 0; i < vars.size(); ++i) {
          b.check_value(vars[i], "the var");
          if (types.empty()) continue;
          const Type &now = vars[i].type(), &stated = types[i];
          bool fits = now.dtype == stated.dtype && now.rank() == stated.rank();
          for (size_t d = 0; fits && d < now.rank(); ++d)
            fits = !stated.dims[d].is_static() || stated.dims[d] == now.dims[d];
          if (!fits)
            fail(ErrorCode::shape_mismatch, "the var '", vars[i].name(), "' is ", now, ", and is stated as ", stated);
        }
        b.f().controls.push_back({true, name.empty() ? b.numbered("while_loop") : name, vars, types, {}});
        try {
          return b.begin_vars(b.f().controls.back());
        } catch (...) {
          b.abandon();
          throw;
        }
      });
}

std::vector<MilValue> MilBuilder::begin_body(const MilValue& goes_on) {
  Impl& b = *impl_;
  return with_context([&] { return "ending the condition of a while_loop"; },
                      [&] {
                        OpenControl& control = b.innermost(true, 0, "begin_body");
                        b.check_condition(goes_on, "the condition", true);
                        control.done.push_back(b.end_block({goes_on}, control));
                        return b.begin_vars(control);
                      });
}

std::vector<MilValue> MilBuilder::end_while(const std::vector<MilValue>& next) {
  Impl& b = *impl_;
  return with_context([&] { return "ending a while_loop"; },
                      [&] {
                        OpenControl& control = b.innermost(true, 1, "end_while");
                        if (next.size() != control.operands.size())
                          fail(ErrorCode::invalid_argument, "the loop has ", control.operands.size(),
                               " vars, and the body gives ", next.size());
                        std::vector<std::optional<Type>> types;
                        for (size_t i = 0; i < next.size(); ++i) {
                          b.check_value(next[i], "the next value");
                          const mil::ValueType& carried = b.f().known.at(control.vars[i])->type;
                          const mil::ValueType& given = Impl::declared_of(next[i]);
                          bool fits = carried.kind == given.kind && carried.dtype == given.dtype &&
                                      carried.dims.size() == given.dims.size();
                          for (size_t d = 0; fits && d < given.dims.size(); ++d)
                            fits = !carried.dims[d].size || carried.dims[d].size == given.dims[d].size;
                          if (!fits)
                            fail(ErrorCode::shape_mismatch, "the loop carries '", control.operands[i].name(), "' as ",
                                 carried, ", and the body gives ", given,
                                 carried.dims.size() == given.dims.size() && carried.dtype == given.dtype
                                     ? "; a dim that changes is a symbol in the `types` of the loop"
                                     : "");
                          types.push_back(control.types.empty() ? control.operands[i].record().type : control.types[i]);
                        }
                        b.check_result_names(control, next.size());
                        control.done.push_back(b.end_block(next, control));
                        OpenControl ended = std::move(control);
                        b.f().controls.pop_back();
                        std::vector<MilValue> made, like = ended.operands;
                        b.finish(std::move(ended), "while_loop", "loop_vars", like, types, made);
                        return made;
                      });
}

std::vector<MilValue> MilBuilder::while_loop(const std::vector<MilValue>& vars, const Condition& condition,
                                             const Body& body, const std::string& name,
                                             const std::vector<Type>& types) {
  const size_t depth = impl_->f().controls.size();
  try {
    std::vector<MilValue> inside = begin_while(vars, name, types);
    inside = begin_body(condition(inside));
    return end_while(body(inside));
  } catch (...) {
    while (impl_->f().controls.size() > depth) impl_->abandon();
    throw;
  }
}

void MilBuilder::abandon() {
  if (impl_->f().controls.empty()) fail(ErrorCode::invalid_argument, "there is no block to abandon");
  impl_->abandon();
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
