// What the tests share that write the samples of ops as packages: a sample in f32, its tensors as they cross the
// boundary of a package, and what a package makes of them beside the reference's numbers.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "backends/coreml/coreml.h"
#include "io/mlpackage.h"
#include "ir/rewrite.h"
#include "reference/interpreter.h"
#include "rlx/coreml_model.h"
#include "rlx/element.h"
#include "support/io_files.h"
#include "support/laws.h"

namespace rlx::test {

/// The sample with f32 for any float, which is what Core ML computes in.
inline laws::Case in_f32(const Sample& sample) {
  laws::Case c = laws::case_of(sample);
  for (Type& t : c.types)
    if (t.dtype == f64) t.dtype = f32;
  return c;
}

/// A tensor as it crosses the boundary of a package; of its own shape where sizes are open.
inline Tensor at_the_boundary(const Tensor& t, const mil::Feature& feature, bool open) {
  Tensor out(*feature.dtype, !open ? feature.shape : t.rank() == 0 ? Shape{1} : t.shape());
  REQUIRE(out.element_count() == t.element_count());
  for (size_t i = 0; i < t.element_count(); ++i) {
    if (is_float(out.dtype())) store<double>(out, i, load_number(t, i));
    else if (t.dtype() == boolean) store<int64_t>(out, i, load_number(t, i) != 0);
    else if (kind_of(t.dtype()) == Kind::unsigned_int)  // the bits of 32
      store<int64_t>(out, i, static_cast<int32_t>(static_cast<uint32_t>(load<uint64_t>(t, i))));
    else if (const int64_t v = load<int64_t>(t, i); t.dtype() == i64 && v == std::numeric_limits<int64_t>::min())
      store<int64_t>(out, i, std::numeric_limits<int32_t>::min());  // the least there is, as of a place out of range
    else if (t.dtype() == i64 && v == std::numeric_limits<int64_t>::max())
      store<int64_t>(out, i, std::numeric_limits<int32_t>::max());
    else store<int64_t>(out, i, static_cast<int32_t>(v));
  }
  return out;
}

/// Real and imaginary parts in place of complex numbers, as packages have them.
inline std::vector<Tensor> in_parts(const std::vector<Tensor>& all) {
  std::vector<Tensor> parts;
  for (const Tensor& t : all) {
    if (!is_complex(t.dtype())) {
      parts.push_back(t);
      continue;
    }
    for (bool imaginary : {false, true}) {
      Tensor part(real_part(t.dtype()), t.shape());
      for (size_t i = 0; i < t.element_count(); ++i) {
        auto z = load<std::complex<double>>(t, i);
        store<double>(part, i, imaginary ? z.imag() : z.real());
      }
      parts.push_back(part);
    }
  }
  return parts;
}

/// The graph with some of its inputs as constants, and what is left of the inputs.
inline Graph with_constants(const Graph& g, std::vector<Tensor>& inputs, const std::function<bool(size_t)>& chosen) {
  Graph to(g.name());
  std::vector<Value> values;
  std::vector<Tensor> rest;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Node& node = g.node(g.inputs()[i]);
    if (chosen(i)) {
      values.push_back(to.constant(inputs[i]));
      continue;
    }
    values.push_back(to.input(node.name, node.types[0]));
    rest.push_back(inputs[i]);
  }
  auto outputs = splice(to, g, values);
  for (size_t i = 0; i < outputs.size(); ++i) to.output(outputs[i], g.outputs()[i].name);
  inputs = rest;
  return to;
}
/// Blocks are weights.
inline Graph with_blocks_bound(const Graph& g, std::vector<Tensor>& inputs) {
  return with_constants(g, inputs, [&](size_t i) { return is_block(g.type(g.inputs()[i]).dtype); });
}

/// The largest finite magnitude in a tensor.
inline double largest_of(const Tensor& t) {
  double largest = 0;
  for (size_t i = 0; i < t.element_count(); ++i)
    if (double v = std::abs(load_number(t, i)); std::isfinite(v)) largest = std::max(largest, v);
  return largest;
}

inline void write_case(const std::filesystem::path& folder, const mil::Model& model, Tensors inputs, Tensors outputs) {
  nlohmann::json step, in = nlohmann::json::array();
  auto put = [&](const std::vector<mil::Feature>& features, Tensors tensors, const char* key) {
    for (size_t i = 0; i < features.size(); ++i) {
      std::string file = text_of("s0.", key, ".", i, ".npy");
      write_npy((folder / file).string(), tensors[i]);
      step[key][features[i].name] = file;
    }
  };
  put(model.main.inputs, inputs, "in");
  put(model.main.outputs, outputs, "out");
  for (const mil::Feature& f : model.main.inputs) in.push_back({{"name", f.name}, {"kind", "tensor"}});
  if (!step.contains("in")) step["in"] = nlohmann::json::object();
  double largest = 1e-30;
  for (const Tensor& t : outputs) largest = std::max(largest, largest_of(t));
  nlohmann::json json{{"precision", "fp32"}, {"atol", 1e-5 * largest}, {"rtol", 1e-5},
                      {"inputs", in},        {"steps", {step}},        {"states", nlohmann::json::array()}};
  put_file((folder / "case.json").string(), json.dump(1));
}

/// How far a result may be from the reference, as a part of the largest magnitude in the tensor. What is composed in
/// f16 rounds in between: by a unit in the last place. The rest is f32, but for sums that cancel.
inline double tolerance_of_result(DType dtype, std::string_view op) {
  if (is_low_precision(dtype)) return std::ldexp(1.0, -info(dtype).mantissa_bits);
  // The camera's derivatives are sums over pixels of both signs, in f32 here and in f64 by the reference.
  if (op == "gaussian_splat_render_backward") return 1e-4;
  return 1e-5;
}
/// Outputs that are zero but for rounding, on paths where terms cancel: nothing of them is left to compare.
inline double least_magnitude(std::string_view op) { return op == "spd_parallel_transport_backward" ? 1e-7 : 0; }

/// What the package at `path` makes of the inputs, beside what it should; empty if they agree.
inline std::string read_back(const std::string& path, std::string_view op, const mil::Model& model, Tensors inputs,
                             Tensors wanted, std::span<const DType> dtypes) {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < inputs.size(); ++i) named.emplace_back(model.main.inputs[i].name, inputs[i]);
  auto got = CoremlModel::load(path, {.threads = 1}).predict(named);
  if (got.size() != wanted.size()) return text_of(got.size(), " outputs instead of ", wanted.size());
  for (size_t o = 0; o < got.size(); ++o) {
    const Tensor& made = got[o].second;
    if (made.type() != wanted[o].type()) return text_of("is ", made.type(), " instead of ", wanted[o].type());
    double tolerance = 0;
    if (is_float(made.dtype()))
      tolerance = std::max(tolerance_of_result(dtypes[o], op) * largest_of(wanted[o]), least_magnitude(op));
    for (size_t i = 0; i < made.element_count(); ++i) {
      double x = load_number(made, i), y = load_number(wanted[o], i);
      if (x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= tolerance) continue;
      return text_of("output ", o, " [", i, "] of ", made.type(), " is ", x, " instead of ", y);
    }
  }
  return "";
}

/// Writes the program to `folder` and compares what it makes of the inputs with what the reference makes of them by the
/// graph: empty if they agree. With RLX_COREML_CASES the folder stays, a case for `rlx conformance` unless sizes are
/// open; with RLX_COREML_WRITE_ONLY others judge what is written.
inline std::string judged(const std::filesystem::path& folder, std::string_view op, const coreml::Translated& made,
                          const Graph& g, std::vector<Tensor> inputs, bool open = false) {
  std::filesystem::create_directories(folder);
  std::string package = (folder / "model.mlpackage").string();
  write_mlpackage(package, made.model);
  if (std::getenv("RLX_COREML_WRITE_ONLY")) return "";
  const mil::FunctionDescription& about = made.model.main;
  auto outputs = in_parts(interpret(g, inputs));
  inputs = in_parts(inputs);
  std::vector<DType> dtypes;
  for (const Tensor& t : outputs) dtypes.push_back(t.dtype());
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = at_the_boundary(inputs[i], about.inputs[i], open);
  for (size_t o = 0; o < outputs.size(); ++o) outputs[o] = at_the_boundary(outputs[o], about.outputs[o], open);
  bool stays = std::getenv("RLX_COREML_CASES") != nullptr;
  if (stays && !open) write_case(folder, made.model, inputs, outputs);
  std::string why = read_back(package, op, made.model, inputs, outputs, dtypes);
  if (!stays) std::filesystem::remove_all(folder);
  return why;
}
/// The folder that was asked for, or one that goes.
inline std::filesystem::path folder_for_cases(const TemporaryFolder& temporary) {
  const char* cases = std::getenv("RLX_COREML_CASES");
  return cases ? std::string(cases) : temporary / "";
}

/// Whether RLX_COREML_OPS=",add,sub," leaves the op out.
inline bool left_out(const OpDef& op) {
  const char* only = std::getenv("RLX_COREML_OPS");
  return only && std::string(only).find(text_of(",", op.name, ",")) == std::string::npos;
}

inline bool has_elements(const Graph& g) {
  auto some = [](const Type& t) {
    return std::all_of(t.dims.begin(), t.dims.end(), [](const Dim& d) { return d.value() > 0; });
  };
  auto in = g.input_types(), out = g.output_types();
  return std::all_of(in.begin(), in.end(), some) && std::all_of(out.begin(), out.end(), some);
}

}  // namespace rlx::test
