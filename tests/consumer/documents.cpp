// The parts of programs that README.md and docs/ show, each with the names around it that its text takes for granted.
#include <rlx/c.h>
#include <rlx/coreml.h>
#include <rlx/coreml_model.h>
#include <rlx/data.h>
#include <rlx/graph_file.h>
#include <rlx/quantization.h>
#include <rlx/rlx.h>
#include <rlx/train.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace {

int failures = 0;
void check(bool holds, const char* what) {
  std::printf("%s %s\n", holds ? "ok     " : "FAILED ", what);
  failures += !holds;
}

rlx::Graph regression() {
  rlx::Graph g("regression");
  auto x = g.input("x", rlx::f32, {8, 3}), t = g.input("target", rlx::f32, {8, 1}), w = g.param("w", rlx::f32, {3, 1});
  g.output(rlx::mean(rlx::square(rlx::matmul(x, w) - t), {0, 1}), "loss");
  return g;
}
rlx::Tensor ramp(rlx::Shape shape) {
  rlx::Tensor t(rlx::f32, std::move(shape));
  for (size_t i = 0; i < t.element_count(); ++i)
    t.mutable_values<float>()[i] = static_cast<float>((7 * i + 1) % 11) / 11 - 0.5F;
  return t;
}

/// True so many times.
struct Times {
  int left;
  explicit operator bool() { return left-- > 0; }
};

void readme_training() {
  rlx::Graph loss = regression();
  rlx::NamedTensors initial = {{"w", ramp({3, 1})}};
  rlx::Tensor x = ramp({8, 3}), t = ramp({8, 1});
  Times more{3};
#include "readme_training.inc"
  check(session.steps() == 3, "README.md, training");
}

void runtime() {
  rlx::Graph g("prediction");
  g.output(rlx::matmul(g.input("x", rlx::f32, {8, 3}), g.param("w", rlx::f32, {3, 1})), "y");
  rlx::Tensor weights = ramp({3, 1}), x = ramp({8, 3});
#include "runtime.inc"
  check(out.size() == 1 && model.report().all_native(), "docs/runtime.md");
}

void training() {
  rlx::Tensor initial = ramp({3, 1}), batch = ramp({8, 3}), targets = ramp({8, 1});
#include "training.inc"
  check(session.steps() == 200, "docs/training.md, a session");
}

void training_data() {
  rlx::Graph g("images");
  auto x = g.input("x", rlx::f32, {64, 1, 4, 4}), w = g.param("w", rlx::f32, {64, 1, 4, 4});
  g.output(rlx::mean(rlx::square(x - w), {0, 1, 2, 3}), "loss");
  rlx::TrainingSession session(g, {{"w", ramp({64, 1, 4, 4})}});
  auto digits = rlx::arrays_dataset({{"x", ramp({256, 1, 4, 4})}});
#include "training_data.inc"
  check(session.steps() == 1, "docs/training.md, data");
}

void quantization() {
  rlx::Graph loss = regression(), graph("prediction");
  graph.output(rlx::matmul(graph.input("x", rlx::f32, {8, 3}), graph.param("w", rlx::f32, {3, 1})), "y");
  rlx::NamedTensors params = {{"w", ramp({3, 1})}};
  rlx::Tensor x = ramp({8, 3}), t = ramp({8, 1});
  Times more{3};
#include "quantization.inc"
  check(int8.lines.size() == 1 && int8.lines[0].becomes == "qmatmul", "docs/quantization.md");
}

void coreml_frontend() {
  rlx::Graph g("model");
  g.output(rlx::tanh(g.input("x", rlx::f32, {2, 3})), "y");
  rlx::write_coreml("Model.mlpackage", g);
  rlx::Tensor x = ramp({2, 3});
#include "coreml_frontend.inc"
  check(outputs.size() == 1 && graph.inputs().size() == 1, "docs/coreml_frontend.md");
}

void coreml_builder() {
  rlx::Tensor w = ramp({5, 4}), bias = ramp({5}), input = ramp({3, 4});
#include "coreml_builder.inc"
  check(report.minimum_ios == 15 && best[0].type_text() == "fp32[?, 2]" && values.size() == 1 &&
            values[0].first == "best_0" && values[0].second.shape() == rlx::Shape{3, 2},
        "docs/coreml.md");
}

/// A small model of random weights in the place of the one that is named, with a letter for each token.
void generation_in_c() {
  namespace fs = std::filesystem;
  fs::copy(RLX_GOLDEN "/language_models/gpt2", "Qwen3-0.6B", fs::copy_options::recursive);
  std::string vocabulary;
  for (int i = 0; i < 41; ++i)
    vocabulary += (i ? ", \"" : "\"") + std::string(1, " Onceupatdfghijklmqrsvwxyz.ABCDEFGHIJKLMo"[i]) +
                  "\": " + std::to_string(i);
  std::ofstream("Qwen3-0.6B/tokenizer.json")
      << R"({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null, "post_processor": null, )"
      << R"("decoder": {"type": "Fuse"}, "model": {"type": "BPE", "merges": [], "vocab": {)" << vocabulary << "}}}";
  rlx_error* error = nullptr;
  rlx_language_model* model = nullptr;
  rlx_generator* generator = nullptr;
  rlx_tensor* prompt = nullptr;
  char *piece = nullptr, *json = nullptr;
#include "generation_c.inc"
  const bool is_described = !error && rlx_generator_describe(generator, &json, nullptr) == RLX_OK;
  check(is_described && std::string(json).find("\"read_tokens\":11") != std::string::npos, "docs/generation.md, C");
  if (error) std::puts(rlx_error_message(error));
  rlx_error_free(error);
  rlx_text_free(json);
  rlx_generator_free(generator);
  rlx_tensor_free(prompt);
  rlx_language_model_free(model);
}

void profiles() {
  std::ofstream("profile.toml") << "device = \"cpu\"\n[phase.decode]\nshapes = {B = 2}\n";
  rlx::Graph graph("exponential");
  graph.output(rlx::exp(graph.input("x", rlx::f32, {rlx::Dim::symbol("B")})), "y");
#include "profiles.inc"
  check(compiled.signature().inputs[0].type == rlx::Type{rlx::f32, {2}}, "docs/profiles.md");
}

#include "pipelines.inc"

void pipelines() {
  rlx_register();
  const rlx::Pipeline pipeline({{"x", rlx::Type{rlx::f32, {2}}}}, {{"scale", "{by = 3.0}"}});
  const auto out = pipeline.run({{"x", rlx::Tensor::of<float>({2}, std::vector<float>{1, 2})}});
  check(std::get<rlx::Tensor>(out.at("x")).values<float>()[1] == 6, "docs/pipelines.md");
}

}  // namespace

int main() {
  for (auto* part : {readme_training, runtime, training, training_data, quantization, coreml_frontend, coreml_builder,
                     generation_in_c, profiles, pipelines})
    part();
  return failures != 0;
}
