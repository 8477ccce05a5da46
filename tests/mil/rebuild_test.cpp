// Programs of coremltools' exporter, built again op by op: each result is to have the type that the exporter's own
// shape rules declared, and the program that comes out is to predict the same, to the bit. rebuild_test.py unpacks
// them.
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "doctest/doctest.h"
#include "frontends/mil/lower.h"
#include "io/mlpackage.h"
#include "rlx/element.h"
#include "rlx/mil_builder.h"

namespace rlx::test {
namespace {

struct Counts {
  int packages = 0, ops = 0, stated = 0, predicted = 0;
  std::set<std::string> kinds;
  std::map<std::string, std::string> wrong, refused;
  std::map<std::string, int> not_predicted;
};

Type type_with_symbols(const mil::ValueType& t, const std::string& name) {
  Type type{*mil::dtype_of(t.dtype), {}};
  for (size_t d = 0; d < t.dims.size(); ++d)
    type.dims.push_back(t.dims[d].size ? Dim(*t.dims[d].size) : Dim::symbol(text_of(name, "_", d)));
  return type;
}

class Rebuilding {
 public:
  Rebuilding(const MlPackage& package, MilBuilder& b, Counts& counts) : package_(package), b_(b), counts_(counts) {}

  void function(const mil::Function& f) {
    for (const mil::NamedType& input : f.inputs) {
      if (input.type.kind == mil::ValueType::Kind::state)
        values_.emplace(input.name, b_.state(input.name, type_with_symbols(input.type.inner[0], input.name)));
      else values_.emplace(input.name, b_.input(input.name, type_with_symbols(input.type, input.name)));
    }
    block(f.body());
    size_t n = 0;
    for (const std::string& output : f.body().outputs) {
      const MilValue& v = value(output);
      b_.output(v, v.is_tensor() ? text_of("result_of_it_", n++) : "");
    }
  }

 private:
  const MilValue& value(const std::string& name) {
    return std::get<std::vector<MilValue>>(values_.at(name).content).at(0);
  }
  std::vector<MilValue> all(const std::vector<std::string>& names) {
    std::vector<MilValue> found;
    for (const std::string& name : names) found.push_back(value(name));
    return found;
  }
  MilArgument literal(const mil::Value& v) {
    if (const auto* texts = std::get_if<std::vector<std::string>>(&v.data))
      return v.type.dims.empty() ? MilArgument(texts->at(0)) : MilArgument(*texts);
    if (const auto* parts = std::get_if<std::vector<mil::Value>>(&v.data)) {
      MilArgument::Texts texts;
      MilArgument::Integers numbers;
      for (const mil::Value& part : *parts)
        if (const std::string* text = part.text()) texts.push_back(*text);
        else numbers.push_back(load_index(package_.tensor(part), 0));
      return texts.empty() ? MilArgument(numbers) : MilArgument(texts);
    }
    return package_.tensor(v);
  }
  MilArgument argument(const mil::Argument& bindings) {
    if (bindings.size() == 1) {
      if (const auto* name = std::get_if<std::string>(&bindings[0])) return values_.at(*name);
      return literal(std::get<mil::Value>(bindings[0]));
    }
    std::vector<MilValue> several;
    MilArgument::Integers numbers;
    MilArgument::Flags flags;
    for (const mil::Binding& b : bindings) {
      if (const auto* name = std::get_if<std::string>(&b)) {
        several.push_back(value(*name));
        continue;
      }
      Tensor t = package_.tensor(std::get<mil::Value>(b));
      if (t.dtype() == boolean) flags.push_back(load_number(t, 0) != 0);
      else numbers.push_back(load_index(t, 0));
    }
    if (!flags.empty()) return flags;
    return numbers.empty() ? MilArgument(several) : MilArgument(numbers);
  }

  void block(const mil::Block& block) {
    for (const mil::Operation& op : block.operations) operation(op);
  }
  void keep(const mil::Operation& op, const std::vector<MilValue>& made) {
    for (size_t i = 0; i < op.outputs.size(); ++i) values_.insert_or_assign(op.outputs[i].name, made.at(i));
  }

  void operation(const mil::Operation& op) {
    if (op.type == "const") {
      MilArgument value = literal(op.attributes.at("val"));
      if (const auto* tensor = std::get_if<Tensor>(&value.content)) value = b_.constant(*tensor);
      values_.insert_or_assign(op.outputs[0].name, value);
      return;
    }
    ++counts_.ops;
    counts_.kinds.insert(op.type);
    if (op.type == "cond") {
      b_.begin_cond(value(std::get<std::string>(op.inputs.at("pred")[0])));
      block(op.blocks[0]);
      b_.begin_else(all(op.blocks[0].outputs));
      block(op.blocks[1]);
      return keep(op, b_.end_cond(all(op.blocks[1].outputs)));
    }
    if (op.type == "while_loop") {
      std::vector<MilValue> vars;
      std::vector<Type> types;
      bool are_tensors = true;
      for (const mil::Binding& binding : op.inputs.at("loop_vars"))
        vars.push_back(value(std::get<std::string>(binding)));
      for (const mil::NamedType& input : op.blocks[1].inputs) {
        are_tensors = are_tensors && input.type.kind == mil::ValueType::Kind::tensor;
        if (are_tensors) types.push_back(type_with_symbols(input.type, "loop_" + input.name));
      }
      auto enter = [&](const mil::Block& inner, const std::vector<MilValue>& inside) {
        for (size_t i = 0; i < inside.size(); ++i) values_.insert_or_assign(inner.inputs[i].name, inside[i]);
        block(inner);
      };
      enter(op.blocks[0], b_.begin_while(vars, "", are_tensors ? types : std::vector<Type>()));
      enter(op.blocks[1], b_.begin_body(value(op.blocks[0].outputs[0])));
      return keep(op, b_.end_while(all(op.blocks[1].outputs)));
    }
    MilArguments arguments;
    for (const auto& [name, bindings] : op.inputs) arguments.emplace_back(name, argument(bindings));
    for (const auto& [name, given] : op.attributes)
      if (name != "name") arguments.emplace_back(name, literal(given));
    std::vector<MilValue> made;
    try {
      made = b_.op_many(op.type, arguments);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::unsupported) throw;
      std::vector<Type> types;
      for (const mil::NamedType& output : op.outputs) types.push_back(type_with_symbols(output.type, output.name));
      counts_.refused[op.type] = e.what();
      ++counts_.stated;
      made = b_.op_many(op.type, arguments, "", types);
    }
    keep(op, made);
    for (size_t i = 0; i < made.size(); ++i) compare(op, made[i], op.outputs.at(i).type);
  }

  /// Open dims of either may be numbers of the other: an exporter does not know all that follows, nor does RLX.
  void compare(const mil::Operation& op, const MilValue& made, const mil::ValueType& declared) {
    if (declared.kind == mil::ValueType::Kind::list && made.type_text() != text_of(declared))
      counts_.wrong[op.type + " '" + mlprogram::name_of(op) + "'"] =
          text_of(made.type_text(), ", declared is ", declared);
    if (!made.is_tensor()) return;
    const Type& type = made.type();
    bool same = declared.kind == mil::ValueType::Kind::tensor && mil::dtype_of(declared.dtype) == type.dtype;
    if (!mlprogram::is_variadic(declared)) {
      same = same && declared.dims.size() == type.rank();
      for (size_t d = 0; same && d < type.rank(); ++d)
        same = !declared.dims[d].size || !type.dims[d].is_static() || type.dims[d] == Dim(*declared.dims[d].size);
    }
    if (!same)
      counts_.wrong[op.type + " '" + mlprogram::name_of(op) + "'"] =
          text_of(made.type_text(), ", declared is ", declared);
  }

  const MlPackage& package_;
  MilBuilder& b_;
  Counts& counts_;
  std::map<std::string, MilArgument> values_;
};

Tensor some_numbers(DType dtype, const std::vector<std::optional<int64_t>>& open, int64_t size) {
  Shape shape;
  for (const auto& extent : open) shape.push_back(extent.value_or(size));
  Tensor t(dtype, shape);
  for (size_t i = 0; i < t.element_count(); ++i) {
    const auto n = static_cast<int64_t>(i * 7 % 11) - (dtype == i32 ? 0 : 5);
    if (is_float(dtype)) store<double>(t, i, static_cast<double>(n) / 4);
    else store<int64_t>(t, i, n % 2);
  }
  return t;
}

void predict_both(const std::string& path, const std::string& function, const MilBuilder& b, Counts& counts) {
  const CoremlOptions options{.function = function, .threads = 1, .seed = 7};
  CoremlModel before = CoremlModel::load(path, options), after = b.load({.threads = 1, .seed = 7});
  std::vector<NamedTensor> inputs;
  for (const CoremlFeature& f : before.inputs()) inputs.emplace_back(f.name, some_numbers(f.dtype, f.shape, 4));
  CoremlState one = before.make_state(), other = after.make_state();
  std::vector<NamedTensor> wanted;
  try {
    wanted = before.predict(inputs, one.empty() ? nullptr : &one);
  } catch (const Error& e) {  // sizes that the package does not allow
    ++counts.not_predicted[std::string(e.what()).substr(0, 60)];
    return;
  }
  auto got = after.predict(inputs, other.empty() ? nullptr : &other);
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i].second == wanted[i].second);
  CHECK(one == other);
  ++counts.predicted;
}

}  // namespace

TEST_CASE("a program that is built again has the types that its exporter declared, and predicts the same") {
  const char* folder = std::getenv("RLX_MIL_PACKAGES");
  if (!folder) {
    MESSAGE("skipped: RLX_MIL_PACKAGES names no folder of packages; rebuild_test.py unpacks some");
    return;
  }
  Counts counts;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".mlpackage") continue;
    const std::string path = entry.path().string();
    CAPTURE(path);
    MlPackage package = MlPackage::open(path);
    for (const auto& [name, f] : package.model().program.functions) {
      ++counts.packages;
      MilBuilder b({.minimum_ios = f.opset.back() - '0' + 10});
      try {
        Rebuilding(package, b, counts).function(f);
        if (const char* to = std::getenv("RLX_MIL_REBUILT")) {  // for Apple's loader to judge
          const auto package_folder = std::filesystem::path(to) / text_of(counts.packages);
          std::filesystem::create_directories(package_folder);
          b.write((package_folder / "model.mlpackage").string());
        } else {
          b.report();
        }
        predict_both(path, name, b, counts);
      } catch (const Error& e) {
        FAIL_CHECK(std::string(e.what()));
      }
    }
  }
  for (const auto& [what, how] : counts.wrong) FAIL_CHECK(what << " is inferred as " << how);
  std::cout << counts.packages << " functions of " << counts.kinds.size() << " kinds of ops, " << counts.ops
            << " ops, of " << counts.stated << " the types are stated, " << counts.predicted << " predict the same\n";
  std::string absent;
  for (const std::string& op : mil_ops())
    if (!counts.kinds.contains(op)) absent += " " + op;
  std::cout << "  in none of them:" << absent << "\n";
  for (const auto& [op, why] : counts.refused) std::cout << "  stated: " << op << ": " << why.substr(0, 150) << "\n";
  for (const auto& [why, n] : counts.not_predicted) std::cout << "  not predicted: " << n << " by '" << why << "'\n";
  CHECK(counts.packages >= 300);
}

}  // namespace rlx::test
