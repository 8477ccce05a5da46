// Pipelines: what stands around a model (tokenizing, scaling images, pooling, choosing classes), as stages with names,
// each of which takes and gives named values. Stages that compute with Values become part of one graph, which is
// compiled with its neighbours; those that run on the host stand between such graphs. Stages of users' own are
// registered by name, from a program or a plugin (rlx/plugin.h). docs/pipelines.md describes files of pipelines.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rlx/io.h"
#include "rlx/op_def.h"
#include "rlx/session.h"

namespace rlx {

/// What stages pass on: an array, or texts.
using StageValue = std::variant<Tensor, std::vector<std::string>>;
using StageValues = std::map<std::string, StageValue, std::less<>>;
/// What is known of a value before a run: the type of an array, in which a symbol stands for one number in a whole run;
/// nothing of texts.
using StageType = std::optional<Type>;

/// Where a stage stands.
struct StagePlace {
  std::string folder;  ///< of the pipeline's file; empty if there is none
  /// A file that a setting names: "~/" is the home folder, and what is not absolute lies beside the pipeline's file.
  std::string file(const std::string& named) const;
};

/// A stage on the host that is ready to run. `run` may be called by several threads at once.
struct HostStage {
  std::vector<StageType> types;  ///< of what it gives
  std::function<std::vector<StageValue>(std::span<const StageValue> taken)> run;
};

/// The graph that a stage adds itself to.
class StageGraph {
 public:
  StageGraph(Graph& graph, NamedTensors& params, std::string prefix)
      : graph_(graph), params_(params), prefix_(std::move(prefix)) {}
  Graph& graph() const { return graph_; }
  /// A param of the compiled graph, which is bound to this value. Its name gets the stage's in front.
  Value param(const std::string& name, Tensor value);

 private:
  Graph& graph_;
  NamedTensors& params_;
  std::string prefix_;
};

/// What a stage takes and gives, as the stage itself calls it.
struct StageNames {
  std::vector<std::string> takes, gives;
};

/// A stage, with the type of its settings erased; `define_stage` makes one.
struct StageDef {
  std::string name, doc;
  std::function<Attrs(Scanner&)> parse_settings;
  std::function<std::vector<AttrInfo>()> describe_settings;
  std::function<StageNames(const Attrs&, const StagePlace&)> names;
  std::function<HostStage(std::span<const StageType> taken, const Attrs&, const StagePlace&)> open;
  std::function<Many<Value>(StageGraph&, Values taken, const Attrs&, const StagePlace&)> build;
};

/// What the author of a stage writes: either `open` or `build`. Settings are a struct with RLX_FIELDS, as attributes of
/// ops are; an error that is thrown names the stage.
template <Attributes A = NoAttrs>
struct StageSpec {
  std::string name = {}, doc = {};
  StageNames names = {};
  /// Instead of `names`, where settings decide them.
  std::function<StageNames(const A&, const StagePlace&)> names_of = {};
  /// On the host: called once, with the types of what it takes. What is dear (files, tables) is made here.
  std::function<HostStage(std::span<const StageType> taken, const A&, const StagePlace&)> open = {};
  /// In the graph: the Values that it gives, of those that it takes.
  std::function<Many<Value>(StageGraph&, Values taken, const A&, const StagePlace&)> build = {};
};

template <Attributes A = NoAttrs>
StageDef define_stage(StageSpec<A> s) {
  StageDef d;
  d.name = s.name, d.doc = s.doc;
  d.parse_settings = [](Scanner& in) -> Attrs {
    A a;
    parse(in, a);
    return a;
  };
  d.describe_settings = [] {
    std::vector<AttrInfo> all;
    A defaults{};
    for_each_field<A>([&](auto f) {
      std::ostringstream text;
      print(text, defaults.*f.member);
      all.push_back({std::string(f.name), kind_name(defaults.*f.member), text.str()});
    });
    return all;
  };
  d.names = [names = s.names, names_of = s.names_of](const Attrs& a, const StagePlace& place) {
    return names_of ? names_of(a.as<A>(), place) : names;
  };
  if (s.open)
    d.open = [open = s.open](std::span<const StageType> taken, const Attrs& a, const StagePlace& place) {
      return open(taken, a.as<A>(), place);
    };
  if (s.build)
    d.build = [build = s.build](StageGraph& g, Values taken, const Attrs& a, const StagePlace& place) {
      return build(g, taken, a.as<A>(), place);
    };
  return d;
}

/// Makes a stage known by its name. Fails if the name is taken, by a stage or by an op, or is no word of letters,
/// digits and '_', or if the stage has not just one of `open` and `build`.
void register_stage(StageDef stage);
/// Forgets it again; fails if it is not registered. Pipelines that have it keep it.
void unregister_stage(std::string_view name);
/// The library's stages, then those that were registered.
std::vector<StageDef> all_stages();

/// A stage of a pipeline: which one, with which settings, and what its values are called here.
struct PipelineStage {
  std::string name;             ///< of a stage, or of an op, whose attributes the settings are
  std::string settings = "{}";  ///< "{axis = -1}", as attributes are written in the textual IR
  /// Where they are left out, as the stage calls them; an op has no names of its own.
  std::vector<std::string> takes = {}, gives = {};
};
struct PipelineInput {
  std::string name;
  StageType type;
};

/// Stages that follow one another. Copies share it. `run` may be called by several threads at once.
class Pipeline {
 public:
  struct Options {
    Device device = Device::from_environment();
    int threads = 0;  ///< as SessionOptions::threads
    CompileOptions compile = CompileOptions::from_environment();
    std::string folder = {};  ///< StagePlace::folder
  };
  /// A stage sees what the inputs and the stages before it give; of two values with one name the later one counts.
  /// Without `outputs`, they are what the last stage gives. Fails, naming the stage, for one that there is not (with
  /// the nearest), a value that nothing gives, and as the stages do.
  Pipeline(std::vector<PipelineInput> inputs, const std::vector<PipelineStage>& stages,
           std::vector<std::string> outputs, Options options);
  Pipeline(std::vector<PipelineInput> inputs, const std::vector<PipelineStage>& stages,
           std::vector<std::string> outputs = {})
      : Pipeline(std::move(inputs), stages, std::move(outputs), Options()) {}
  /// From a file of TOML. An execution profile that it names replaces device, threads and compile of `options`.
  static Pipeline load(const std::string& path);
  static Pipeline load(const std::string& path, Options options);

  const std::vector<PipelineInput>& inputs() const;
  const std::vector<std::string>& outputs() const;
  /// The outputs for these inputs. Fails for an input that is missing, unknown or of another kind, and, naming the
  /// stages, as they do.
  StageValues run(const StageValues& inputs) const;

  /// What runs one after the other: a stage on the host, or several as one compiled graph.
  struct Part {
    std::vector<std::string> stages;
    std::optional<CompiledGraph> compiled = {};  ///< empty of a stage on the host
  };
  std::vector<Part> parts() const;

  struct State;  ///< used by the library only

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace rlx
