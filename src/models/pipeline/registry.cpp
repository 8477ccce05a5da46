// See the header.
#include "models/pipeline/registry.h"

#include <algorithm>
#include <cctype>
#include <mutex>
#include <shared_mutex>

#include "io/names_in_messages.h"

namespace rlx {
namespace {

struct RegisteredStages {
  std::shared_mutex mutex;
  std::vector<StageDef> stages;
};
RegisteredStages& registered_stages() {
  static RegisteredStages all;
  return all;
}

StageDef stage_of(const OpDef& op) {
  StageDef d;
  d.name = op.name, d.doc = op.doc;
  d.parse_settings = op.parse_attrs, d.describe_settings = op.describe_attrs;
  d.names = [](const Attrs&, const StagePlace&) { return StageNames(); };
  d.build = [&op](StageGraph& g, Values taken, const Attrs& attrs, const StagePlace&) {
    return Many<Value>(g.graph().emit(op, {taken.begin(), taken.end()}, attrs));
  };
  return d;
}

}  // namespace

std::vector<StageDef> all_stages() {
  std::vector<StageDef> all = library_stages();
  std::shared_lock lock(registered_stages().mutex);
  all.insert(all.end(), registered_stages().stages.begin(), registered_stages().stages.end());
  return all;
}

StageDef find_stage(std::string_view name) {
  std::vector<StageDef> stages = all_stages();
  for (StageDef& each : stages)
    if (each.name == name) return std::move(each);
  const std::vector<const OpDef*> ops = all_ops();
  for (const OpDef* op : ops)
    if (op->name == name) return stage_of(*op);
  std::vector<std::string_view> names;
  for (const StageDef& each : stages) names.push_back(each.name);
  for (const OpDef* op : ops) names.push_back(op->name);
  fail(ErrorCode::not_found, "there is no stage and no op ", quoted_name(name), nearest_names(name, names),
       "; those of a plugin are there once it is loaded");
}

void register_stage(StageDef stage) {
  const bool is_word = !stage.name.empty() && !std::isdigit(static_cast<unsigned char>(stage.name[0])) &&
                       std::all_of(stage.name.begin(), stage.name.end(),
                                   [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
  if (!is_word)
    fail(ErrorCode::invalid_argument, "a stage's name is a word of letters, digits and '_', not ",
         quoted_name(stage.name));
  if (!stage.parse_settings || !stage.names || !stage.open == !stage.build)
    fail(ErrorCode::invalid_argument, "stage '", stage.name,
         "' needs either `open` or `build`; make it with rlx::define_stage");
  for (const OpDef* op : all_ops())
    if (op->name == stage.name)
      fail(ErrorCode::invalid_argument, "there is an op '", stage.name, "', which is a stage; choose another name");
  const auto same_name = [&](const StageDef& other) { return other.name == stage.name; };
  std::unique_lock lock(registered_stages().mutex);
  auto& stages = registered_stages().stages;
  if (std::any_of(library_stages().begin(), library_stages().end(), same_name) ||
      std::any_of(stages.begin(), stages.end(), same_name))
    fail(ErrorCode::invalid_argument, "there is a stage '", stage.name, "' already; choose another name");
  stages.push_back(std::move(stage));
}

void unregister_stage(std::string_view name) {
  std::unique_lock lock(registered_stages().mutex);
  if (std::erase_if(registered_stages().stages, [&](const StageDef& s) { return s.name == name; }) == 0)
    fail(ErrorCode::not_found, "stage ", quoted_name(name), " is not registered");
}

}  // namespace rlx
