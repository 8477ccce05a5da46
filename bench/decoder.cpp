// What a cache that grows costs: a decoder of small layers, one token a step, whose graph has a symbol for the number
// of tokens. Each step runs twice: the first run meets a new length, the second one does not, so that their difference
// is what the framework does for a length. One JSON line a place of the sequence: medians of the steps around it, in
// microseconds; medians of 200 runs there and, in turn with them, of as many of a graph that has the place's number for
// the symbol, so that its plan was made for exactly that; the resident memory, and how many updates of the cache were
// not made in place. Beside them the framework's own time of a step at a new length: the plan moves and is bound, and
// its launches are called, but do nothing, so that neither their time nor what they leave in the processor's caches
// counts.
//
// --cache grown: keys and values are inputs of as many tokens as there are, and the results are those with the new one.
// --cache state: they are a state (rlx/state.h) of room for all tokens, written in place, of which attention reads as
// many as there are.
//
//   build/release/bench/decoder [--cache grown|state] [--threads T] [--tokens N] [--layers L] [--heads H]
//                               [--head_width D]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <string>

#include "backends/cpu/lowering.h"
#include "backends/cpu/schedule.h"
#include "ir/rewrite.h"
#include "passes/hoist_params.h"
#include "rlx/ops.h"
#include "rlx/session.h"

using namespace rlx;

namespace {

struct Size {
  int64_t layers = 4, heads = 4, head_width = 16;
  int64_t width() const { return heads * head_width; }
};

/// Inputs: x[1, 1, width], cos and sin of the position, and keys and values of the tokens before, one pair a layer.
/// Outputs: y, and the keys and values with the new token's. With a `capacity`, keys and values have room for so many
/// tokens, and two more inputs say where the new one is put, and by its extent how many there are with it. `token`:
/// how many there are, if the graph is to be for this number alone.
Graph decoder(const Size& size, std::optional<int64_t> capacity, std::optional<int64_t> token) {
  const int64_t width = size.width();
  const Dim total = token ? Dim(*token) : Dim::symbol("total");
  const Dim past = capacity ? Dim(*capacity) : token ? Dim(*token - 1) : Dim::symbol("past");
  Graph g("decoder");
  Value x = g.input("x", f32, {1, 1, width});
  Value cos = g.input("cos", f32, {1, size.head_width / 2}), sin = g.input("sin", f32, {1, size.head_width / 2});
  Value at;
  if (capacity) at = g.input("at", i32, {}), g.input("total", u8, {total, 0});
  for (int64_t layer = 0; layer < size.layers; ++layer) {
    const std::string layer_name = "layer" + std::to_string(layer) + ".";
    const auto weight = [&](const char* name, int64_t in, int64_t out) {
      return g.param(layer_name + name, f32, {out, in});
    };
    const auto heads = [&](Value v) {
      return transpose(reshape(v, {1, 1, size.heads, size.head_width}), {0, 2, 1, 3});
    };
    Value old_k = g.input(layer_name + "k", f32, {1, size.heads, past, size.head_width});
    Value old_v = g.input(layer_name + "v", f32, {1, size.heads, past, size.head_width});
    Value h = rms_norm(x, g.param(layer_name + "norm1", f32, {width}));
    Value q = rope(heads(linear(h, weight("q", width, width))), cos, sin, {size.heads});
    Value k = rope(heads(linear(h, weight("k_new", width, width))), cos, sin, {size.heads});
    Value v = heads(linear(h, weight("v_new", width, width)));
    k = capacity ? dynamic_update_axis(old_k, k, 2, at) : concatenate({old_k, k}, 2);
    v = capacity ? dynamic_update_axis(old_v, v, 2, at) : concatenate({old_v, v}, 2);
    g.output(k, layer_name + "k"), g.output(v, layer_name + "v");
    if (capacity) k = slice_axis(k, 2, 0, total), v = slice_axis(v, 2, 0, total);
    Value a = transpose(attention(q, k, v, {size.heads}), {0, 2, 1, 3});
    x = x + linear(reshape(a, {1, 1, width}), weight("o", width, width));
    h = rms_norm(x, g.param(layer_name + "norm2", f32, {width}));
    Value gate = silu(linear(h, weight("gate", width, 2 * width)));
    x = x + linear(gate * linear(h, weight("up", width, 2 * width)), weight("down", 2 * width, width));
  }
  g.output(rms_norm(x, g.param("norm", f32, {width})), "y");
  return g;
}

Tensor random_tensor(const Type& type, std::mt19937& random) {
  Tensor t(type.dtype, shape_of(type.dims));
  std::uniform_real_distribution<float> values(-0.2f, 0.2f);
  for (float& x : t.mutable_values<float>()) x = values(random);
  return t;
}

double resident_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}

/// A sequence: one token after another, each run twice at its length.
class Sequence {
 public:
  /// `token`: as for `decoder`.
  Sequence(const Size& size, int threads, std::optional<int64_t> capacity, std::optional<int64_t> token = {})
      : has_state_(capacity.has_value()) {
    std::mt19937 random(1);
    const Graph g = decoder(size, capacity, token);
    CompileOptions options = CompileOptions::from_environment();
    for (const Output& o : g.outputs())
      if (has_state_ && o.name != "y") options.donate.insert(o.name);
    compiled_.emplace(Session(Device::cpu(), {threads}).compile(g, options));
    for (Ref r : g.params()) compiled_->set_param(g.node(r).name, random_tensor(g.type(r), random));
    for (Ref r : g.inputs()) {
      const Type& type = g.type(r);
      if (has_state_ && options.donate.contains(g.node(r).name)) continue;
      if (type.dtype != f32) inputs_.emplace_back(type.dtype, type.rank() ? Shape{1, 0} : Shape{});
      else
        inputs_.push_back(random_tensor(
            {type.dtype, is_static(type.dims) ? type.dims : Dims{1, size.heads, 0, size.head_width}}, random));
    }
    if (has_state_) state_.emplace(compiled_->new_state());
  }
  /// Before the runs of token `token`, from 1 on.
  void begin(int64_t token) {
    if (!has_state_) return;
    inputs_[3] = Tensor::scalar(static_cast<int32_t>(token - 1));
    inputs_[4] = Tensor(u8, {token, 0});
  }
  void run() { outputs_ = has_state_ ? compiled_->run_ordered(inputs_, *state_) : compiled_->run_ordered(inputs_); }
  void end() {
    for (size_t i = 3; i < inputs_.size() && !has_state_; ++i) inputs_[i] = std::move(outputs_[i - 3]);
  }
  /// Of one more run.
  uint64_t updates_elsewhere() {
    if (!has_state_) return 0;
    std::vector<NamedTensor> named;
    const Signature& signature = compiled_->signature();
    for (size_t i = 0; i < inputs_.size(); ++i) named.emplace_back(signature.inputs[i].name, inputs_[i]);
    return compiled_->profile(named, *state_).transfers.donated_copies;
  }

 private:
  const bool has_state_;
  std::optional<CompiledGraph> compiled_;
  std::optional<GraphState> state_;
  std::vector<Tensor> inputs_, outputs_;
};

/// The plan of a sequence without its kernels.
class EmptySequence {
 public:
  EmptySequence(const Size& size, int threads, std::optional<int64_t> capacity) {
    std::mt19937 random(1);
    const Graph g = decoder(size, capacity, std::nullopt);
    main_.emplace(hoist_params(Session(Device::cpu(), {threads}).compile(g).lowered()).main);
    for (Ref r : main_->params()) params_.emplace(main_->node(r).name, random_tensor(main_->type(r), random));

    auto numbered = std::make_unique<Graph>(substitute(*main_, bindings(2)));
    const Graph& fixed = *numbered;
    cpu::ScheduleRequest request{
        fixed, threads, {}, packed_, [this](const std::string& name) { return &params_.at(name); }};
    if (capacity) {
      std::vector<Update> wanted;
      request.donated.resize(fixed.inputs().size());
      for (size_t i = 0; i < fixed.inputs().size(); ++i)
        for (size_t o = 0; o < fixed.outputs().size(); ++o)
          if (fixed.node(fixed.inputs()[i]).name == fixed.outputs()[o].name)
            request.donated[i] = true, wanted.push_back({i, o});
      request.updates = possible_updates(fixed, cpu::storage_rules(fixed), request.donated, wanted);
    }
    schedule_.emplace(*main_, std::move(numbered), bindings(2), std::move(request));
  }
  /// The time of a step at `token` in microseconds, behind one at the token before.
  double step(int64_t token) {
    if (token < 3) return 0;
    moves(token - 1);
    double us = time_of([&] { moves(token); });
    std::optional<Executor> executor;
    us += time_of([&] { executor.emplace(schedule_->executor()); });
    for (size_t s = 0; s < executor->step_count(); ++s) executor->replace(s, std::make_shared<Nothing>());
    std::vector<void*> pointers(executor->pointer_count()), inputs(executor->input_count());
    std::vector<void*> outputs(executor->output_count());
    us += time_of([&] {
      executor->resolve(pointers.data(), nullptr);
      RunControl control;
      executor->run(pointers.data(), nullptr, inputs, outputs, 1, control);
    });
    return us;
  }

 private:
  struct Nothing final : Launch {
    void run(const LaunchArgs&) const noexcept override {}
  };
  Bindings bindings(int64_t total) const {
    Bindings all;
    for (const Type& type : main_->input_types())
      for (const Dim& dim : type.dims)
        dim.for_each_symbol([&](const std::string& symbol) { all[symbol] = symbol == "past" ? total - 1 : total; });
    return all;
  }
  void moves(int64_t token) {
    if (!schedule_->move(bindings(token))) fail(ErrorCode::internal, "token ", token, " needs a plan of its own");
  }
  template <class F>
  static double time_of(F f) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  }

  std::optional<Graph> main_;
  std::map<std::string, Tensor> params_;
  cpu::PackedCache packed_;
  std::optional<cpu::MovableSchedule> schedule_;
};

}  // namespace

int main(int count, char** words) {
  Size size;
  int64_t tokens = 2000;
  int threads = 1;
  bool has_state = false;
  for (int i = 1; i + 1 < count; i += 2) {
    if (!std::strcmp(words[i], "--cache")) {
      has_state = !std::strcmp(words[i + 1], "state");
      continue;
    }
    const int64_t n = std::max(1, std::atoi(words[i + 1]));
    if (!std::strcmp(words[i], "--threads")) threads = static_cast<int>(n);
    if (!std::strcmp(words[i], "--tokens")) tokens = n;
    if (!std::strcmp(words[i], "--layers")) size.layers = n;
    if (!std::strcmp(words[i], "--heads")) size.heads = n;
    if (!std::strcmp(words[i], "--head_width")) size.head_width = n;
  }
  Sequence sequence(size, threads, has_state ? std::optional(tokens) : std::nullopt);
  EmptySequence empty(size, threads, has_state ? std::optional(tokens) : std::nullopt);
  std::vector<double> first, second;
  const auto timed_run = [](Sequence& of, std::vector<double>& times) {
    const auto begin = std::chrono::steady_clock::now();
    of.run();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  };
  for (int64_t token = 1; token <= tokens; ++token) {
    sequence.begin(token);
    timed_run(sequence, first);
    timed_run(sequence, second);
    const bool is_told = token == 10 || token == 100 || token % 1000 == 0;
    std::vector<double> here, exact, own;
    if (is_told) {
      for (int i = 0; i < 200; ++i) own.push_back(empty.step(token));
      Sequence for_token(size, threads, has_state ? std::optional(tokens) : std::nullopt, token);
      for_token.begin(token);
      for_token.run();
      for (int i = 0; i < 200; ++i) timed_run(sequence, here), timed_run(for_token, exact);
    }
    sequence.end();
    if (!is_told) continue;
    const auto median_of = [](std::vector<double> times) {
      std::sort(times.begin(), times.end());
      return times[times.size() / 2];
    };
    const auto median = [&](const std::vector<double>& times) {
      return median_of({times.end() - std::min<int64_t>(token / 2, 50), times.end()});
    };
    std::printf(
        "{\"cache\": \"%s\", \"token\": %ld, \"new_length_us\": %.1f, \"same_length_us\": %.1f, "
        "\"difference_us\": %.1f, \"own_us\": %.1f, \"in_turn_us\": %.1f, \"exact_plan_us\": %.1f, \"resident_mib\": "
        "%.1f, "
        "\"updates_elsewhere\": %lu}\n",
        has_state ? "state" : "grown", static_cast<long>(token), median(first), median(second),
        median(first) - median(second), median_of(own), median_of(here), median_of(exact), resident_mib(),
        static_cast<unsigned long>(has_state ? sequence.updates_elsewhere() : 0));
  }
}
