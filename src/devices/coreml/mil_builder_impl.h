// What a MilBuilder knows while a program is built: its functions, the blocks that are open in them, and what is known
// of each value. Ops and functions are in mil_builder.cpp, conds and loops in mil_builder_control.cpp.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "devices/coreml/mil_call.h"
#include "frontends/mil/lint.h"
#include "frontends/mil/type_inference.h"
#include "io/names_in_messages.h"
#include "rlx/mil_builder.h"

namespace rlx {

struct MilValue::Record {
  const void* builder;
  std::string name;
  mil::ValueType declared;
  std::optional<Type> type;
  int64_t block;             ///< in which it was made
  bool is_computed = false;  ///< by an operation, and not handed to the block
};

namespace mil_building {

constexpr int kNewestOpset = 8, kIosOfOpset0 = 10, kOldestIosOfPrograms = 15;

/// The code of the error that a finding of the linter (frontends/mil/lint.h) becomes, by the rule that was broken.
inline ErrorCode code_of_finding(const std::string& rule, bool is_op_of_another_opset) {
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
  std::vector<MilValue> operands;       // the predicate, or the loop's first values
  std::vector<Type> types;              // of a loop's values, where the caller stated them
  std::vector<std::string> vars;        // the names of the loop's values in the open block
  std::vector<mil::Block> done = {};    // finished blocks
  std::vector<MilValue> first = {};     // the results of the branch for true
  std::vector<std::string> names = {};  // defined in the finished blocks
};

/// Restores a counter on destruction unless keep() was called: a name that was not used is given again.
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
  size_t listed = 0;                           // inputs that enumerate their shapes
};

}  // namespace mil_building

using namespace mil_building;

struct MilBuilder::Impl {
  explicit Impl(MilOptions o) : options(std::move(o)) {
    const int ios = options.minimum_ios;
    if (ios != 0 && (ios < kOldestIosOfPrograms || ios > kNewestOpset + kIosOfOpset0))
      fail(ErrorCode::invalid_argument, "minimum_ios is ", ios,
           "; it must be 15 to 18, or 0 for the oldest iOS that supports the program");
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

}  // namespace rlx
