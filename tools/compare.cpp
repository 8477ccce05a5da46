// `rlx compare`: two models, or one in two precisions, value by value.
#include <CLI/CLI.hpp>

#include "rlx/io.h"
#include "tools/compare_values.h"
#include "tools/coreml/package_model.h"
#include "tools/encoder_options.h"
#include "tools/model_graph.h"
#include "tools/output.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

struct Compare {
  std::string a, b, function;
  std::vector<std::string> inputs, params;
  double bound = 1e-3;
  int threads = 0;
  uint64_t seed = 0;
  bool all = false, strict = false, json = false;
  CompileOptions compile = CompileOptions::from_environment();  ///< of A, if it is a graph
  void run() const;
};

void Compare::run() const {
  bool packages[2] = {is_package(a), is_package(b.empty() ? a : b)};
  if (packages[0] && asks_for_numbers(compile))
    throw UsageError("--accuracy, --compute, --batch-invariant, --narrow and --isa are for graphs, and '" + a +
                     "' is a package");
  if (b.empty() && !packages[0] && !asks_for_numbers(compile))
    throw UsageError(
        "one graph is compared with itself in f32 by --compute, --accuracy or --isa; else give two models");
  if (!function.empty() && !packages[0] && !packages[1]) throw UsageError("--function is for Core ML packages");
  NamedTensors values;
  for (const std::string& path : params)
    for (auto& [name, tensor] : SafetensorsFile::open(path).tensors()) values.emplace(name, std::move(tensor));
  std::vector<NamedTensor> given;
  bool made_up = inputs.empty();
  for (const std::string& word : inputs) {
    size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) throw UsageError("--input is NAME=FILE.npy, not '" + word + "'");
    given.emplace_back(word.substr(0, equals), read_npy(word.substr(equals + 1)));
  }
  if (made_up)
    // A package says more of its inputs: of a graph for any extent it has the one that it was made for.
    given = made_up_inputs(packages[0]   ? package_inputs(a, function)
                           : packages[1] ? package_inputs(b, function)
                                         : signature_of(load_model(a)).inputs,
                           seed);
  // Each model has its own params, unless some are given for both.
  auto values_of = [&](const std::string& path) {
    const std::string own = params.empty() ? weights_of(path) : std::string();
    return own.empty() ? values : SafetensorsFile::open(own).tensors();
  };
  // A package may call its inputs otherwise.
  auto inputs_of = [&](const std::string& path, bool is_second) {
    return is_second && packages[0] && !b.empty() ? as_named_by(package_inputs(path, function), given) : given;
  };
  auto trace = [&](const std::string& path, bool package, bool is_second) {
    return package ? trace_package(path, function, is_second && b.empty(), threads, inputs_of(path, is_second))
                   : trace_graph(load_model(path), values_of(path), threads, given,
                                 is_second ? CompileOptions::from_environment() : compile);
  };
  Trace first = trace(a, packages[0], false), second = trace(b.empty() ? a : b, packages[1], true);
  if (b.empty()) first.structure.reset();  // one program: every name is the same value
  const Comparison compared = compare_traces(first, second);
  if (made_up && !json)
    write_out("inputs are made up: floats between -1 and 1, integers 0 and 1; --input gives others\n");
  write_out(json ? comparison_json(compared, bound, made_up) : comparison_text(compared, bound, all ? SIZE_MAX : 20));
  flush_out();
  bool apart = std::any_of(compared.values.begin(), compared.values.end(),
                           [&](const ComparedValue& c) { return c.relative > bound; });
  if (strict && apart) fail(ErrorCode::invalid_argument, "the models differ by more than ", bound);
  if (const auto lone = compared.lone_outputs(); strict && !lone.empty())
    fail(ErrorCode::invalid_argument, "output '", lone[0],
         "' was compared with nothing: the other model has none that is it");
}

}  // namespace

Subcommand add_compare(CLI::App& rlx) {
  CLI::App* app = rlx.add_subcommand("compare", "Two models, or one in two precisions, op by op");
  auto compare = std::make_shared<Compare>();
  Compare& c = *compare;
  app->add_option("A", c.a, "a Core ML package, a .rlx file, a model folder, or a folder of `rlx train`")->required();
  app->add_option("B", c.b, "another one; left out: A itself in f32");
  app->add_option("--input", c.inputs, "an input's array, for both; may be repeated")
      ->allow_extra_args(false)
      ->option_text("NAME=FILE.npy");
  app->add_option("--params", c.params,
                  "safetensors files with the params of graphs, instead of those of their folders; may be repeated")
      ->allow_extra_args(false)
      ->option_text("FILE");
  app->add_option("--function", c.function, "of packages with several")->type_name("NAME");
  app->add_option("--bound", c.bound, "how far a value may be, as a part of its largest magnitude (default 0.001)")
      ->option_text("X");
  app->add_option("--seed", c.seed, "of the inputs that are made up where none are given")->option_text("N");
  app->add_flag("--all", c.all, "all values, not only the 20 that are furthest apart");
  app->add_flag("--json", c.json,
                "print {bound, made_up_inputs, first_beyond, lone_outputs, only_a: [{name, op}], only_b, values: "
                "[{name, op, other_name, "
                "other_op, apart, relative, cosine, where}]}");
  app->add_flag("--strict", c.strict, "exit code 1 if a value is beyond the bound, or an output has no counterpart");
  add_accuracy_options(*app, c.compile);
  add_threads_option(*app, c.threads);
  app->footer(
      R"(Values of two packages are aligned by what computes them and what reads them, so that precisions, packed weights, other
names and fused operations do not matter; casts are seen through. Of graphs, and of a graph and a package, the named parts and
outputs are compared. What has no counterpart is listed, and not compared; outputs of one name are, whatever makes them. The worst stand first; the last line names the first
in the program that is beyond the bound, which is where a fault begins. --accuracy and --compute are for the graph A: it is
compared with itself, or with B, in f32.

Examples:
  rlx compare Model.mlpackage --input x=x.npy                 # as it is written, and in f32
  rlx compare Model.mlpackage Quantized.mlpackage --input x=x.npy --bound 0.05
  rlx compare model.rlx other.rlx --params weights.safetensors
  rlx compare model-folder --compute int8 --bound 0.05        # how far 8-bit products are from f32)");
  return {app, [compare] { compare->run(); }};
}

}  // namespace rlx::tools
