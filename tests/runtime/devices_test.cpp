// Devices by name: what a name may be, which device is the default one, and backends that a program registers.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "backends/registry.h"
#include "judge/compare.h"
#include "judge/contract.h"
#include "passes/change_floats.h"
#include "reference/interpreter.h"
#include "rlx/machine.h"
#include "rlx/ops.h"
#include "rlx/session.h"

using namespace rlx;

namespace {

/// Sets a variable of the environment for as long as it lives.
struct Variable {
  const char* name;
  Variable(const char* of, const char* value) : name(of) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
};

/// Takes add alone and runs it as told: what a backend outside of the library begins with.
class Adder final : public Backend {
 public:
  explicit Adder(Device device, float wrong_by = 0) : device_(std::move(device)), wrong_by_(wrong_by) {}
  std::string name() const override { return device_.name(); }
  std::string description() const override { return "adds"; }
  std::string unavailable() const override { return ""; }
  Target target() const override {
    return {device_.name(), [](const Question& q) -> std::optional<std::string> {
              if (q.node.op == &op::add && q.operands[0].dtype == f32) return std::nullopt;
              return "it adds f32, and does nothing else";
            }};
  }
  std::unique_ptr<Program> lower(Graph legal) const override {
    return std::make_unique<Sum>(std::move(legal), wrong_by_);
  }

 private:
  struct Sum final : Program, HostExecutable {
    Graph legal;
    float wrong_by;
    Sum(Graph g, float by) : legal(std::move(g)), wrong_by(by) {}
    const Graph& graph() const override { return legal; }
    std::unique_ptr<Executable> load(const LoadOptions&) const override {
      return std::make_unique<Sum>(legal, wrong_by);
    }
    void bind(const std::string&, Tensor) override {}
    void prepare() override {}
    size_t memory_bytes() const override { return 0; }
    void run(Tensors in, std::span<Tensor> out, const RunOptions&) override {
      Tensor y(f32, in[0].shape());
      for (size_t i = 0; i < y.element_count(); ++i)
        y.mutable_values<float>()[i] = in[0].values<float>()[i] + in[1].values<float>()[i] + wrong_by;
      out[0] = y;
    }
  };
  Device device_;
  float wrong_by_;
};

/// Registered once in this process.
void register_adders() {
  static const bool once = [] {
    register_backend({"adder", [](const Device& d) { return std::make_shared<Adder>(d); }, {"fast"}, 2});
    register_backend({"off_by_one", [](const Device& d) { return std::make_shared<Adder>(d, 1.f); }});
    return true;
  }();
  (void)once;
}

}  // namespace

TEST_CASE("a device's name is its backend, its ordinal and its options, and reads back") {
  register_adders();
  for (const char* name : {"cpu", "coreml", "coreml:ane", "adder", "adder:1", "adder:1:fast", "adder:fast"})
    CHECK(Device::parse(name).name() == name);
  CHECK(Device::parse("adder:0:fast") == Device("adder", 0, {"fast"}));
  CHECK(Device::parse("adder:1").ordinal() == 1);
  CHECK_FALSE(Device::parse("adder:1") == Device::parse("adder"));
}

TEST_CASE("a name that is no device's is refused with those that there are") {
  register_adders();
  const auto refused = [](const char* text, const char* why) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(Device::parse(text), doctest::Contains(why), Error);
  };
  refused("gpu", "there is no device 'gpu'; there are cpu, ");
  refused("", "there is no device ''");
  refused("coreml:tpu", "'coreml' has the options cpu, gpu, ane");
  refused("cpu:ane", "'cpu' has no options");
  refused("cpu:1", "'cpu' has one device, 0");
  refused("adder:2", "'adder' has the devices 0 to 1");
  refused("adder:-1", "'adder' has the devices 0 to 1");
  refused("adder:1:", "there is no device 'adder:1:'");
  refused("adder:99999999999999999999", "has the options fast");
}

TEST_CASE("RLX_DEVICE names the default device, and a wrong name is an error that says where it stood") {
  register_adders();
  CHECK(Device::from_environment() == Device::cpu());
  {
    const Variable set("RLX_DEVICE", "adder:1");
    CHECK(Session().device().name() == "adder:1");
  }
  {
    const Variable empty("RLX_DEVICE", "");
    CHECK(Session().device() == Device::cpu());
  }
  const Variable wrong("RLX_DEVICE", "warp");
  CHECK_THROWS_WITH_AS(Session(), doctest::Contains("reading RLX_DEVICE"), Error);
}

TEST_CASE("a backend that a program registers is listed, runs, and is named where another one lacks an op") {
  register_adders();
  CHECK(is_available(Device("adder")));
  size_t listed = 0;
  for (const DeviceInfo& d : devices()) listed += d.device.backend() == "adder";
  CHECK(listed == 2);
  Graph g;
  g.output(g.input("x", f32, {2}) + g.input("y", f32, {2}));
  auto out = Session(Device("adder"))
                 .compile(g)
                 .run_ordered(std::vector{Tensor::of<float>({2}, {1, 2}), Tensor::of<float>({2}, {3, 5})});
  CHECK(out[0] == Tensor::of<float>({2}, {4, 7}));
  CHECK(pick_best_device() == Device::cpu());  // what does not say that it accelerates is nobody's default

  const auto refused = [](BackendEntry entry, const char* why) {
    CHECK_THROWS_WITH_AS(register_backend(std::move(entry)), doctest::Contains(why), Error);
  };
  const auto open = [](const Device& d) { return std::make_shared<Adder>(d); };
  refused({"adder", open}, "there is a backend 'adder' already");
  refused({"cpu", open}, "there is a backend 'cpu' already");
  refused({"a:b", open}, "a name is made of letters, digits and underscores");
  refused({"nothing"}, "has no function that opens a device");
}

TEST_CASE("the judge finds a backend that computes something else, and what one refuses is no failure") {
  register_adders();
  JudgeOptions options;
  options.ops = {"add", "tanh"};
  const auto judged = [&](const char* name, std::string_view op, DType dtype) {
    size_t counts[3] = {};
    for (const JudgedCase& one : judge_device(Device(name), options))
      if (one.op == op && one.dtype == dtype) ++counts[static_cast<size_t>(one.judged.judgement)];
    return std::array{counts[0], counts[1], counts[2]};
  };
  CHECK(judged("adder", "add", f32)[0] > 0);
  CHECK(judged("adder", "add", f32)[2] == 0);
  CHECK(judged("adder", "add", f64)[1] > 0);
  CHECK(judged("adder", "tanh", f32)[0] == 0);
  CHECK(judged("adder", "tanh", f32)[2] == 0);
  CHECK(judged("off_by_one", "add", f32)[2] > 0);
  for (const JudgedCase& one : judge_device(Device("off_by_one"), options))
    if (one.judged.judgement == Judgement::agrees)  // of no elements none is off
      CHECK_MESSAGE(one.operands.find("0]") != std::string::npos, one.operands);
  const auto rule = [](std::string_view name, const char* device) {
    for (const ContractRule& each : contract_rules())
      if (each.name == name) return judge_rule(each, Device(device));
    return Judged{Judgement::wrong, "there is no such rule"};
  };
  CHECK(rule("runs follow one another by what they read", "adder").judgement == Judgement::agrees);
  CHECK(rule("runs follow one another by what they read", "off_by_one").why ==
        "sum 40 of a chain holds 80 where 40 was to be");
  CHECK(rule("a cancelled run ends, and what it wrote is torn", "adder").why == "it has no loop to cancel");
  CHECK_THROWS_WITH_AS(judge_device(Device::null()), doctest::Contains("claims every primitive and runs none"), Error);
}

TEST_CASE("a gradient of f32 is held to f64 where its sums cancel, and one that is wrong by 1e-4 is found") {
  size_t cancelling = 0, spoiled = 0;
  for (const OpDef* op : {&op::group_norm_backward, &op::muon_update, &op::softmax, &op::layer_norm})
    for (const Sample& sample : op->samples())
      for (const Case& c : cases_of(*op, sample)) {
        if (c.types[0].dtype != f32) continue;
        const std::optional<Graph> g = gradient_of(*op, c);
        REQUIRE(g);
        std::vector<Tensor> inputs = c.inputs(), wide;
        const auto types = g->input_types();
        for (size_t k = inputs.size(); k < types.size(); ++k)
          inputs.push_back(random_tensor(types[k].dtype, shape_of(types[k].dims), kSeedOfCases + 100 + k, -1, 1));
        const auto converted = [](const Tensor& t, DType from, DType to) {
          if (t.dtype() != from) return t;
          Tensor other(to, t.shape());
          for (size_t i = 0; i < t.element_count(); ++i) store<double>(other, i, load<double>(t, i));
          return other;
        };
        for (const Tensor& t : inputs) wide.push_back(converted(t, f32, f64));
        // What a device that rounds nothing but its results would give: no answer of f32 is better.
        std::vector<Tensor> best;
        for (const Tensor& t : interpret(change_floats(*g, {f32}, f64), wide)) best.push_back(converted(t, f64, f32));
        const auto judgement = [&](const std::vector<Tensor>& results, HeldTo held) {
          return judge(
                     *g, inputs, [&](const Graph&, Tensors) { return results; }, held)
              .judgement;
        };
        CAPTURE(op->name);
        CAPTURE(c.text());
        CHECK(judgement(best, HeldTo::reference_or_f64) == Judgement::agrees);
        cancelling += judgement(best, HeldTo::reference) == Judgement::wrong;

        // One result at a time: each element off by a part of itself, or its first by a part of 1 + |y|.
        for (size_t r = 0; r < best.size(); ++r) {
          if (best[r].dtype() != f32 || best[r].element_count() == 0) continue;
          const auto with = [&](const std::function<double(size_t, double)>& f) {
            std::vector<Tensor> results = best;
            results[r] = Tensor(f32, best[r].shape());
            for (size_t i = 0; i < best[r].element_count(); ++i)
              store<double>(results[r], i, f(i, load<double>(best[r], i)));
            return results;
          };
          double largest = 0;
          for (size_t i = 0; i < best[r].element_count(); ++i)
            largest = std::max(largest, std::abs(load<double>(best[r], i)));
          CAPTURE(r);
          CHECK(judgement(with([](size_t i, double y) { return i == 0 ? y + 1e-4 * (1 + std::abs(y)) : y; }),
                          HeldTo::reference_or_f64) == Judgement::wrong);
          // Where nothing cancels, f32's own error is small, and so is what is allowed beside it.
          if (op == &op::softmax)
            CHECK(judgement(with([](size_t i, double y) { return i == 0 ? y + 2e-5 * (1 + std::abs(y)) : y; }),
                            HeldTo::reference_or_f64) == Judgement::wrong);
          if (largest < 1) continue;
          CHECK(judgement(with([](size_t, double y) { return y * (1 + 1e-4); }), HeldTo::reference_or_f64) ==
                Judgement::wrong);
          ++spoiled;
        }
      }
  CHECK(cancelling > 0);  // else the reference alone would do
  CHECK(spoiled > 10);
}
