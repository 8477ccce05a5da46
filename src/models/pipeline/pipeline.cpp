// Pipelines put together and run; see rlx/pipeline.h. Neighbours: registry.cpp knows the stages by name, stages.cpp has
// those of the library, file.cpp reads a pipeline from TOML.
#include <algorithm>
#include <set>

#include "base/user_code.h"
#include "io/names_in_messages.h"
#include "ir/rewrite.h"
#include "models/pipeline/registry.h"
#include "rlx/io.h"
#include "rlx/ops.h"
#include "rlx/pipeline.h"

namespace rlx {

/// A stage on the host, or a graph of several.
struct PipelinePart {
  std::vector<std::string> stages;
  std::string title;  ///< "stage 2, 'pool'": for messages
  std::vector<std::string> takes, gives;
  std::vector<StageType> types = {};  ///< of what a host stage gives
  std::optional<CompiledGraph> compiled = {};
  HostStage host = {};
};
struct Pipeline::State {
  std::vector<PipelineInput> inputs;
  std::vector<std::string> outputs;
  std::vector<PipelinePart> parts;
};

namespace {

std::string stage_title(size_t index, const std::string& name) {
  return text_of("stage ", index + 1, ", ", quoted_name(name));
}

/// A stage that was found, with its settings and names.
struct FoundStage {
  StageDef def;
  Attrs settings;
  StageNames names;
};

FoundStage found_stage(const PipelineStage& stage, const StagePlace& place) {
  FoundStage found{find_stage(stage.name), {}, {}};
  Scanner in(stage.settings);
  found.settings = with_context("reading its settings", [&] {
    Attrs read = found.def.parse_settings(in);
    if (!in.at_end()) in.unexpected("the end of the settings");
    return read;
  });
  found.names = found.def.names(found.settings, place);
  const auto replace = [&](std::vector<std::string>& own, const std::vector<std::string>& given, const char* what) {
    if (!own.empty() && !given.empty() && own.size() != given.size()) {
      std::string list;
      for (const std::string& each : own) list += (list.empty() ? "'" : ", '") + each + "'";
      fail(ErrorCode::invalid_argument, "it ", what, " ", own.size(), " values (", list, "), and '", what, "' has ",
           given.size(), " names");
    }
    if (!given.empty()) own = given;
    if (own.empty()) fail(ErrorCode::invalid_argument, "it has no names for what it ", what, "; give '", what, "'");
  };
  replace(found.names.takes, stage.takes, "takes");
  replace(found.names.gives, stage.gives, "gives");
  return found;
}

class PipelineMaker {
 public:
  PipelineMaker(const std::vector<PipelineInput>& inputs, const std::vector<PipelineStage>& stages,
                const Pipeline::Options& options)
      : stages_(stages), place_{options.folder}, options_(options), session_(options.device, {options.threads}) {
    for (const PipelineInput& input : inputs)
      if (!types_.emplace(input.name, input.type).second)
        fail(ErrorCode::invalid_argument, "there are two inputs ", quoted_name(input.name));
    for (size_t i = 0; i < stages.size(); ++i)
      with_context([&] { return "opening " + stage_title(i, stages[i].name); },
                   [&] { found_.push_back(found_stage(stages[i], place_)); });
  }

  std::vector<PipelinePart> parts(std::vector<std::string>& outputs) {
    if (outputs.empty() && !found_.empty()) outputs = found_.back().names.gives;
    std::set<std::string_view> all;
    for (const auto& [name, type] : types_) all.insert(name);
    for (const FoundStage& stage : found_) all.insert(stage.names.gives.begin(), stage.names.gives.end());
    for (const std::string& name : outputs)
      if (!all.contains(name))
        fail(ErrorCode::not_found, "no stage gives the output ", quoted_name(name),
             nearest_names(name, {all.begin(), all.end()}));
    std::vector<PipelinePart> made;
    for (size_t i = 0; i < found_.size();) {
      if (found_[i].def.open) made.push_back(host_part(i)), ++i;
      else made.push_back(graph_part(i, outputs));
    }
    return made;
  }

 private:
  const StageType& type_of(const std::string& name) const {
    const auto found = types_.find(name);
    if (found != types_.end()) return found->second;
    std::vector<std::string_view> names;
    for (const auto& [known, type] : types_) names.push_back(known);
    fail(ErrorCode::not_found, "nothing before it gives ", quoted_name(name), nearest_names(name, names));
  }

  PipelinePart host_part(size_t i) {
    const FoundStage& stage = found_[i];
    PipelinePart part{{stages_[i].name}, stage_title(i, stages_[i].name), stage.names.takes, stage.names.gives};
    with_context([&] { return "opening " + part.title; },
                 [&] {
                   std::vector<StageType> taken;
                   for (const std::string& name : stage.names.takes) taken.push_back(type_of(name));
                   part.host = user_code("the stage", [&] { return stage.def.open(taken, stage.settings, place_); });
                   if (!part.host.run || part.host.types.size() != stage.names.gives.size())
                     fail(ErrorCode::invalid_argument, "it gives ", part.host.types.size(),
                          " values, and has names for ", stage.names.gives.size());
                 });
    part.types = part.host.types;
    for (size_t g = 0; g < part.gives.size(); ++g) types_[part.gives[g]] = part.types[g];
    return part;
  }

  /// From stage `i`, which is moved behind the last one of the graph.
  PipelinePart graph_part(size_t& i, const std::vector<std::string>& outputs) {
    const size_t first = i;
    Graph graph("pipeline");
    NamedTensors params;
    std::map<std::string, Value, std::less<>> inside;
    std::set<std::string> given;
    PipelinePart part;
    const auto value_of = [&](const std::string& name) {
      if (const auto found = inside.find(name); found != inside.end()) return found->second;
      const StageType& type = type_of(name);
      if (!type)
        fail(ErrorCode::invalid_argument, quoted_name(name),
             " is texts, and it takes arrays; a stage on the host, like "
             "tokenize, makes arrays of texts");
      part.takes.push_back(name);
      return inside.emplace(name, graph.input(name, *type)).first->second;
    };
    for (; i < found_.size() && !found_[i].def.open; ++i)
      with_context([&] { return "building " + stage_title(i, stages_[i].name); },
                   [&] {
                     const FoundStage& stage = found_[i];
                     std::vector<Value> taken;
                     for (const std::string& name : stage.names.takes) taken.push_back(value_of(name));
                     const std::string scope = text_of(stages_[i].name, "_", i + 1);
                     graph.set_scope(scope);
                     StageGraph to(graph, params, scope);
                     const auto made =
                         user_code("the stage", [&] { return stage.def.build(to, taken, stage.settings, place_); });
                     if (made.size() != stage.names.gives.size())
                       fail(ErrorCode::invalid_argument, "it gives ", made.size(), " values, and has names for ",
                            stage.names.gives.size());
                     for (size_t g = 0; g < made.size(); ++g)
                       inside[stage.names.gives[g]] = made[g], given.insert(stage.names.gives[g]);
                     part.stages.push_back(stages_[i].name);
                   });
    graph.set_scope("");
    for (const std::string& name : given) {
      const auto takes_it = [&](const FoundStage& s) { return contains(s.names.takes, name); };
      if (!contains(outputs, name) && std::none_of(found_.begin() + static_cast<ptrdiff_t>(i), found_.end(), takes_it))
        continue;
      graph.output(inside.at(name), name);
      part.gives.push_back(name);
      types_[name] = inside.at(name).type();
    }
    if (part.gives.empty())
      fail(ErrorCode::invalid_argument, stage_title(first, stages_[first].name),
           " gives nothing that a later stage takes or that is an output");
    part.title = stage_title(first, part.stages[0]);
    for (size_t s = 1; s < part.stages.size(); ++s) part.title += " and " + stage_title(first + s, part.stages[s]);
    with_context([&] { return "compiling " + part.title; },
                 [&] {
                   part.compiled = session_.compile(prune(std::move(graph)), options_.compile);
                   for (const auto& [name, value] : params) part.compiled->set_param(name, value);
                 });
    return part;
  }

  static bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  const std::vector<PipelineStage>& stages_;
  StagePlace place_;
  const Pipeline::Options& options_;
  Session session_;
  std::vector<FoundStage> found_;
  std::map<std::string, StageType, std::less<>> types_;
};

std::string kind_text(const StageType& type) { return type ? text_of(*type) : "texts"; }
/// A value of another kind than was said; extents are checked where they are used.
void check_value(const StageValue& value, const StageType& type, const std::string& name) {
  const Tensor* tensor = std::get_if<Tensor>(&value);
  const bool fits = type ? tensor && tensor->dtype() == type->dtype && tensor->rank() == type->rank() : !tensor;
  if (!fits)
    fail(ErrorCode::invalid_argument, quoted_name(name), " is ", tensor ? text_of(tensor->type()) : "texts", ", and ",
         kind_text(type), " is wanted");
}

void run_part(const PipelinePart& part, StageValues& values) {
  if (part.compiled) {
    std::vector<NamedTensor> inputs;
    for (const std::string& name : part.takes) inputs.emplace_back(name, std::get<Tensor>(values.at(name)));
    const std::vector<Tensor> results = part.compiled->run(inputs);
    for (size_t i = 0; i < results.size(); ++i) values.insert_or_assign(part.gives[i], results[i]);
    return;
  }
  std::vector<StageValue> taken;
  for (const std::string& name : part.takes) taken.push_back(values.at(name));
  std::vector<StageValue> given = user_code("the stage", [&] { return part.host.run(taken); });
  if (given.size() != part.gives.size())
    fail(ErrorCode::invalid_argument, "it gave ", given.size(), " values instead of ", part.gives.size());
  for (size_t i = 0; i < given.size(); ++i) {
    check_value(given[i], part.types[i], part.gives[i]);
    values.insert_or_assign(part.gives[i], std::move(given[i]));
  }
}

}  // namespace

Value StageGraph::param(const std::string& name, Tensor value) {
  const std::string full = prefix_ + "." + name;
  Value made = graph_.param(full, value.type());
  params_.emplace(full, std::move(value));
  return made;
}

Pipeline::Pipeline(std::vector<PipelineInput> inputs, const std::vector<PipelineStage>& stages,
                   std::vector<std::string> outputs, Options options) {
  if (stages.empty()) fail(ErrorCode::invalid_argument, "a pipeline has one stage at least");
  auto parts = PipelineMaker(inputs, stages, options).parts(outputs);
  state_ = std::make_shared<const State>(State{std::move(inputs), std::move(outputs), std::move(parts)});
}

const std::vector<PipelineInput>& Pipeline::inputs() const { return state_->inputs; }
const std::vector<std::string>& Pipeline::outputs() const { return state_->outputs; }
std::vector<Pipeline::Part> Pipeline::parts() const {
  std::vector<Part> all;
  for (const PipelinePart& part : state_->parts) all.push_back({part.stages, part.compiled});
  return all;
}

StageValues Pipeline::run(const StageValues& inputs) const {
  StageValues values;
  std::vector<std::string_view> names;
  for (const PipelineInput& input : state_->inputs) {
    names.push_back(input.name);
    const auto found = inputs.find(input.name);
    if (found == inputs.end())
      fail(ErrorCode::invalid_argument, "the pipeline's input ", quoted_name(input.name), " is missing");
    check_value(found->second, input.type, input.name);
    values.insert(*found);
  }
  for (const auto& [name, value] : inputs)
    if (!values.contains(name))
      fail(ErrorCode::not_found, "the pipeline has no input ", quoted_name(name), nearest_names(name, names));
  for (const PipelinePart& part : state_->parts)
    with_context([&] { return "running " + part.title; }, [&] { run_part(part, values); });
  StageValues results;
  for (const std::string& name : state_->outputs) results.emplace(name, values.at(name));
  return results;
}

}  // namespace rlx
