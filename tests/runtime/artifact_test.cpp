// Compiled graphs in files: on every device that is here what was saved gives the same bits after it was loaded; and
// what was compiled for anything else, or was damaged, is refused with what differs. `rlx compile` and `rlx run`, in
// processes of their own: tests/cli/compile_test.py.
#include "rlx/artifact.h"

#include <doctest/doctest.h>

#include "rlx/blocks.h"
#include "rlx/kernel.h"
#include "runtime/artifact.h"
#include "runtime/small_model.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

const OpDef kTriple = define<>({
    .name = "user_triple",
    .doc = "3x",
    .operands = {"x"},
    .infer = [](Types in) { return in[0]; },
    .decompose = [](Values in) { return in[0] * 3.0; },
    .samples = {{.dims = {{3}}}},
});
struct TripleIsKnown {
  TripleIsKnown() { register_op(kTriple); }
  ~TripleIsKnown() { unregister_op(kTriple); }
};
struct TripleKernel {
  explicit TripleKernel(std::string called) : name(std::move(called)) {
    register_cpu_kernel({&kTriple, name, {}, [](const KernelSite& site) -> PreparedKernel {
                           const int64_t count = site.operands[0].count();
                           return {[=](const KernelRun& run) {
                             for (int64_t i = 0; i < count; ++i) run.out<float>()[i] = run.in<float>(0)[i] * 3;
                           }};
                         }});
  }
  ~TripleKernel() { unregister_cpu_kernel(kTriple, name); }
  std::string name;
};

struct SavedCase {
  std::string what;
  Graph graph;
  std::vector<Tensor> inputs;
  test::Params params = {};
  CompileOptions options = {};
};

Graph of_f32(const std::string& name, const std::function<Value(Value)>& f, DType dtype = f32) {
  Graph g(name);
  g.output(f(g.input("x", dtype, {2, 32})), "y");
  return g;
}

std::vector<SavedCase> saved_cases() {
  std::vector<SavedCase> all;
  const std::vector<Tensor> x = {random_tensor(f32, {2, 32}, 3)};
  all.push_back({"static shapes", of_f32("chain", [](Value v) { return softmax(gelu(v) * 2.0); }), x});
  all.push_back({"symbols, params, a branch", test::small_model(), test::small_inputs(6), test::small_params()});
  all.push_back({"a constant beside the text",
                 of_f32("constants",
                        [](Value v) {
                          return matmul(v, v.graph().constant(random_tensor(f32, {32, 8}, 4)));
                        }),
                 x});
  all.push_back({"weights in blocks",
                 of_f32("blocks",
                        [](Value v) {
                          return linear(v, v.graph().constant(quantized(random_tensor(f32, {8, 32}, 5), q8_0)));
                        }),
                 x});
  all.push_back({"f64",
                 of_f32(
                     "wide", [](Value v) { return exp(v) + 0.1; }, f64),
                 {random_tensor(f64, {2, 32}, 6)}});
  all.push_back({"bf16",
                 of_f32(
                     "narrow", [](Value v) { return tanh(v) * v; }, bf16),
                 {random_tensor(bf16, {2, 32}, 7)}});
  all.push_back({"a bool",
                 of_f32(
                     "flags", [](Value v) { return bitwise_not(v); }, boolean),
                 {random_tensor(boolean, {2, 32}, 8)}});
  all.push_back({"an op of the user's", of_f32("own_op", [](Value v) { return emit(kTriple, {v + 1.0}, {}); }), x});

  Graph loop("loop");
  const Value n = loop.input("n", i32, {}), total = loop.input("total", f32, {4});
  const std::vector<Type> types = {{i32, {}}, {f32, {4}}};
  const Graph more = trace(types, [](Values v) { return compare(v[0], v[0] * 0.0, Comparison::gt); });
  Graph body("body");
  const Value left = body.input("left", i32, {}), sum = body.input("sum", f32, {4});
  body.output(left - 1.0), body.output(sum * 1.5);
  for (Value v : while_loop({n, total}, {2, more, body})) loop.output(v);
  all.push_back({"a loop", loop, {Tensor::scalar(int32_t{5}), random_tensor(f32, {4}, 9)}});

  Graph state("state");
  state.output(state.input("total", f32, {8}) + state.input("x", f32, {8}), "total");
  SavedCase updated{"a state that is updated", state, {random_tensor(f32, {8}, 10), random_tensor(f32, {8}, 11)}};
  updated.options.donate = {"total"};
  updated.options.rounding = Rounding::relaxed;
  updated.options.batch_invariant = false;
  all.push_back(updated);
  return all;
}

/// `backend_of` fails for what is not here.
std::vector<Device> devices_here() {
  std::vector<Device> all;
  for (const DeviceInfo& info : devices())
    if (info.available) all.push_back(info.device);
  return all;
}

/// The saved graph of `of_f32`'s "chain", in a file.
struct SavedChain {
  test::TemporaryFolder folder;
  std::string path = folder / "chain.rlxc";
  SavedChain() { Session(Device::cpu(), {1}).compile(saved_cases()[0].graph).save(path); }
};
std::string refusal_of(const std::string& path, const Device& device = Device::cpu()) {
  return test::error_of([&] { Session(device, {1}).load(path); }).what();
}
bool says(const std::string& message, std::initializer_list<const char*> words) {
  for (const char* word : words)
    if (message.find(word) == std::string::npos) {
      MESSAGE(message, "\n  does not say: ", std::string(word));
      return false;
    }
  return true;
}

}  // namespace

TEST_CASE("a compiled graph that was saved gives the same bits after it was loaded, on every device that is here") {
  const TripleIsKnown known;
  test::TemporaryFolder folder;
  size_t loaded = 0;
  for (const Device& device : devices_here()) {
    const std::string path = folder / "saved.rlxc";
    for (SavedCase& c : saved_cases()) {
      CAPTURE(device.name());
      CAPTURE(c.what);
      if (!supports(c.graph, device)) {
        CHECK(c.what == "f64");  // the simulated devices have none
        continue;
      }
      CompiledGraph made = Session(device, {1}).compile(c.graph, c.options);
      made.set_params(c.params);
      const auto copies = [&] {
        std::vector<Tensor> own;
        for (const Tensor& t : c.inputs) own.push_back(t);
        return own;
      };
      const std::vector<Tensor> wanted = made.run_ordered(copies());
      for (const bool with_params : {true, false}) {
        made.save(path, with_params ? c.params : test::Params());
        CompiledGraph again = Session(device, {1}).load(path);
        CHECK(again.all_params_bound() == (with_params || c.params.empty()));
        if (!with_params) again.set_params(c.params);
        const std::vector<Tensor> got = again.run_ordered(copies());
        REQUIRE(got.size() == wanted.size());
        for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == wanted[i]);
        CHECK(again.lowered() == made.lowered());
        CHECK(again.report().json() == made.report().json());
        CHECK(again.signature().modes == made.signature().modes);
        CHECK(again.config().cache_key() == made.config().cache_key());
        CHECK(again.layers().size() == made.layers().size());
        CHECK(again.updates_in_place() == made.updates_in_place());
        const ArtifactInfo info = artifact_info(path);
        CHECK(info.device == device.name());
        CHECK(info.params.size() == (with_params ? c.params.size() : 0));
        CHECK(info.options.donate == c.options.donate);
        CHECK(info.options.rounding == c.options.rounding);
        CHECK(artifact_graph(path) == c.graph);
        ++loaded;
      }
    }
  }
  CHECK(devices_here().size() >= 4);  // the CPU, the simulated devices, and coreml, which runs on the CPU elsewhere
  MESSAGE("loaded ", loaded);
}

TEST_CASE(
    "a file is refused where its version, device, a fact, an op or a kernel differs, and the message says which") {
  SavedChain saved;
  const Artifact sound = read_artifact(saved.path);
  const std::string changed = saved.folder / "changed.rlxc";
  const auto refusal = [&](const std::function<void(ArtifactInfo&)>& change) {
    Artifact a = sound;
    change(a.info);
    write_artifact(changed, a);
    return refusal_of(changed);
  };
  CHECK(says(
      refusal([](ArtifactInfo& i) { i.version = "0.0.9"; }),
      {"version of RLX: 'chain' was compiled for 0.0.9, and here it is ", "rlx compile FILE --device cpu -o FILE"}));
  CHECK(says(refusal([](ArtifactInfo& i) { i.device = "tiny"; }),
             {"device: 'chain' was compiled for tiny, and here it is cpu", "open a session on tiny"}));
  REQUIRE(sound.info.facts.size() == 2);
  for (size_t f = 0; f < sound.info.facts.size(); ++f) {
    const TargetFact& fact = sound.info.facts[f];
    const std::string begin = text_of(fact.name, ": 'chain' was compiled for ");
    CHECK(says(refusal([&](ArtifactInfo& i) { i.facts[f].value = "something else"; }),
               {begin.c_str(), "something else, and here it is ", fact.value.c_str(), "compile it again here"}));
    CHECK(says(refusal([&](ArtifactInfo& i) { i.facts.erase(i.facts.begin() + static_cast<std::ptrdiff_t>(f)); }),
               {begin.c_str(), "not known, and here it is ", fact.value.c_str()}));
  }
  CHECK(says(refusal([](ArtifactInfo& i) {
               i.facts.push_back({"driver", "550.54"});
             }),
             {"driver: 'chain' was compiled for 550.54, and here it is not known"}));
  CHECK(says(refusal([](ArtifactInfo& i) { i.ops.push_back("user_fast_gelu"); }),
             {"ops: 'chain' has the op 'user_fast_gelu', which is not known here", "register_op"}));
  CHECK(says(refusal([](ArtifactInfo& i) { i.registered_kernels = {"gelu by 'mine'"}; }),
             {"registered kernels: 'chain' was compiled for gelu by 'mine', and registered here are ",
              "register_cpu_kernel"}));
  CHECK(says(refusal([](ArtifactInfo& i) { i.signature.inputs[0].type.dims[0] = 3; }),
             {"damaged", "inputs, params and outputs"}));
  CHECK(says(refusal([](ArtifactInfo& i) { i.signature.outputs[0].name = "z"; }),
             {"damaged", "inputs, params and outputs"}));
  CHECK(says(refusal([](ArtifactInfo& i) { i.options.donate = {"w"}; }), {"graph 'chain' has no input 'w'"}));
  CHECK(says(refusal_of(saved.path, Device("tiny")), {"device: 'chain' was compiled for cpu, and here it is tiny"}));
  // What was not changed is taken.
  write_artifact(changed, sound);
  CHECK_NOTHROW(Session(Device::cpu(), {1}).load(changed));
}

TEST_CASE("a graph whose kernel or op was the user's is loaded only where the same ones are registered") {
  test::TemporaryFolder folder;
  const std::string path = folder / "own.rlxc";
  const Graph g = of_f32("own_op", [](Value v) { return emit(kTriple, {v}, {}); });
  const std::vector<Tensor> in = {random_tensor(f32, {2, 32}, 1)};
  {
    const TripleIsKnown known;
    const TripleKernel kernel("triple in one loop");
    Session(Device::cpu(), {1}).compile(g).save(path);
    CHECK(artifact_info(path).registered_kernels == std::vector<std::string>{"user_triple by 'triple in one loop'"});
    CHECK_NOTHROW(Session(Device::cpu(), {1}).load(path).run_ordered(in));
    const TripleKernel later("triple anew");  // which would run it instead
    CHECK(says(refusal_of(path), {"registered kernels: 'own_op' was compiled for user_triple by 'triple in one loop'",
                                  "here it would be run by user_triple by 'triple anew'"}));
  }
  {
    const TripleIsKnown known;
    CHECK(
        says(refusal_of(path), {"registered kernels:", "user_triple by 'triple in one loop'", "registered here are "}));
  }
  CHECK(says(refusal_of(path), {"ops: 'own_op' has the op 'user_triple', which is not known here"}));
}

TEST_CASE("no changed byte of a file and no cut one is believed") {
  SavedChain saved;
  const std::string sound = test::file_content(saved.path), damaged = saved.folder / "damaged.rlxc";
  const auto refused = [&](const std::string& content) {
    test::put_file(damaged, content);
    try {
      Session(Device::cpu(), {1}).load(damaged);
    } catch (const Error& error) {
      return *error.what() != '\0' && error.code() != ErrorCode::internal;
    }
    return false;
  };
  for (size_t i = 0; i < sound.size(); i += 7) {
    std::string bad = sound;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    CAPTURE(i);
    REQUIRE(refused(bad));
  }
  for (size_t size = 0; size < sound.size(); size += 61) {
    CAPTURE(size);
    REQUIRE(refused(sound.substr(0, size)));
  }
  CHECK(refused(sound + "more"));
}

TEST_CASE("a file of another version of the format, or of something else, says so") {
  SavedChain saved;
  const std::string path = saved.folder / "other.rlxc";
  const SafetensorsFile file = SafetensorsFile::open(saved.path);
  auto metadata = file.metadata();
  metadata["rlx"] = "compiled graph 2";
  write_safetensors(path, file.tensors(), metadata);
  CHECK(is_artifact(path));
  CHECK(says(refusal_of(path), {"this is version '2' of the format of compiled graphs, and this build reads version 1",
                                "rlx compile MODEL -o FILE"}));
  write_safetensors(path, file.tensors());
  CHECK(says(refusal_of(path), {"it holds tensors, and no compiled graph"}));
  CHECK_FALSE(is_artifact(saved.folder / "none.rlxc"));
  std::filesystem::rename(saved.path, saved.folder / "chain.bin");
  CHECK(is_artifact(saved.folder / "chain.bin"));  // by what it holds
}

TEST_CASE("a file that somebody wrote with right checksums is checked as any graph is") {
  SavedChain saved;
  const Artifact sound = read_artifact(saved.path);
  const std::string path = saved.folder / "foreign.rlxc";
  const auto refusal = [&](const std::function<void(Artifact&)>& change, const Device& device = Device::cpu()) {
    Artifact a = sound;
    change(a);
    write_artifact(path, a);
    return refusal_of(path, device);
  };
  const Graph other = of_f32(
      "chain", [](Value v) { return exp(v); }, f64);
  CHECK(says(refusal([&](Artifact& a) { a.program.text = graph_file_of(other).text; }),
             {"inputs, params and outputs of its program"}));
  CHECK(says(refusal([&](Artifact& a) { a.source = graph_file_of(other); }),
             {"inputs, params and outputs of the graph that was compiled"}));
  CHECK(says(refusal([](Artifact& a) { a.program.form = "cubin"; }), {"its form is 'cubin', and cpu reads 'graph'"}));
  CHECK(says(refusal([](Artifact& a) { a.program.text = "rlx 1\ngraph @g { return }"; }),
             {"inputs, params and outputs"}));
  CHECK(says(refusal([](Artifact& a) { a.program.text = "nonsense"; }), {"reading its program"}));
  CHECK(says(refusal([](Artifact& a) { a.params.emplace("w", Tensor(f32, {2})); }), {"has no param 'w'"}));
  // What a device does not take does not come to it in a file: loopback has no f64.
  CHECK(says(refusal(
                 [&](Artifact& a) {
                   a.info.device = "loopback", a.source = graph_file_of(other),
                   a.program.text = graph_file_of(other).text;
                   a.info.signature = signature_of(other);
                 },
                 Device("loopback")),
             {"loopback does not run its op 'exp' as it is", "there is no f64"}));
}

TEST_CASE("params that a file is to carry are those of the graph") {
  test::TemporaryFolder folder;
  const CompiledGraph made = Session(Device::cpu(), {1}).compile(test::small_model());
  CHECK(says(test::error_of([&] {
               made.save(folder / "a.rlxc", {{"weight", Tensor()}});
             }).what(),
             {"has no param 'weight'"}));
  CHECK(says(test::error_of([&] {
               made.save(folder / "a.rlxc", {{"gamma", Tensor(f32, {4})}});
             }).what(),
             {"param 'gamma' is f32[16], got f32[4]"}));
  CHECK_FALSE(std::filesystem::exists(folder / "a.rlxc"));
  CHECK(says(test::error_of([&] { made.save(folder / "none/a.rlxc"); }).what(), {"writing the compiled graph"}));
}

TEST_CASE("what the compiler knows of a device is JSON, with the limits that the device has") {
  const std::string tiny = target_json(Device("tiny")), loopback = target_json(Device("loopback")),
                    cpu = target_json(Device::cpu());
  CHECK(
      says(tiny, {"\"absent_dtypes\": [\"f64\", \"c128\"]", "\"host_access\": \"mapped\"",
                  "\"largest_buffer\": 1048576", "\"buffers_per_launch\": 8", "\"index_bits\": 32", "\"fuses\": []"}));
  CHECK(says(loopback, {"\"host_access\": \"none\"", "\"capacity\": 536870912", "\"fuses\": [\"elementwise\""}));
  CHECK(says(cpu, {"\"absent_dtypes\": []", "\"host_access\": \"direct\"", "\"buffers_per_launch\": null",
                   "\"processor\": \"", "\"claims\": [", "\"matmul\""}));
  const TripleIsKnown known;
  const TripleKernel kernel("fast");
  CHECK(says(target_json(Device::cpu()), {"\"registered_kernels\": [", "\"user_triple by 'fast'\"]"}));
}
