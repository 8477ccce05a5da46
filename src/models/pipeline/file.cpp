// A pipeline from TOML; see rlx/pipeline.h. docs/pipelines.md describes the file.
#include <filesystem>
#include <sstream>

#include "io/toml_fields.h"
#include "models/pipeline/registry.h"
#include "rlx/execution_profile.h"

namespace rlx {
namespace {

struct FileHead {
  std::vector<std::string> outputs;
  std::string execution, phase;
  RLX_FIELDS(FileHead, field("outputs", &FileHead::outputs), field("execution", &FileHead::execution),
             field("phase", &FileHead::phase));
};
struct FileStage {
  std::string name;
  std::vector<std::string> takes, gives;
  RLX_FIELDS(FileStage, field("name", &FileStage::name), field("takes", &FileStage::takes),
             field("gives", &FileStage::gives));
};

/// A value of TOML as attributes have it. `kind` is the setting's: names of choices stand without quotes there.
std::string setting_text(const TomlTree& value, const std::string& kind) {
  std::ostringstream out;
  switch (value.kind) {
    case TomlTree::Kind::string:
      if (kind.find("string") != kind.npos) write_quoted(out, value.text);
      else out << value.text;
      return out.str();
    case TomlTree::Kind::integer: return std::to_string(value.integer);
    case TomlTree::Kind::real: print(out, value.real); return out.str();
    case TomlTree::Kind::truth: return value.truth ? "true" : "false";
    case TomlTree::Kind::array: {
      std::string list;
      for (const TomlTree& item : value.items) list += (list.empty() ? "" : ", ") + setting_text(item, kind);
      return "[" + list + "]";
    }
    default: refuse_toml(value, "a string, a number, true, false or an array of them");
  }
}

std::string settings_text(const TomlTree& settings, const StageDef& stage) {
  if (settings.kind != TomlTree::Kind::table) refuse_toml(settings, "a table");
  const std::vector<AttrInfo> known = stage.describe_settings();
  std::string text;
  for (const TomlTree& value : settings.items) {
    std::string kind;
    std::vector<std::string_view> names;
    for (const AttrInfo& each : known) {
      names.push_back(each.name);
      if (each.name == value.key) kind = each.kind;
    }
    if (kind.empty())
      fail(ErrorCode::parse, "line ", value.line, ": stage '", stage.name, "' has no setting ", quoted_name(value.key),
           nearest_names(value.key, names));
    const bool is_list = kind.starts_with("list of ");
    const std::string item = setting_text(value, kind);
    text += (text.empty() ? "" : ", ") + value.key + " = " +
            (is_list && value.kind != TomlTree::Kind::array ? "[" + item + "]" : item);
  }
  return "{" + text + "}";
}

StageType type_in(const TomlTree& value) {
  std::string text;
  from_toml(value, text);
  if (text == "texts") return std::nullopt;
  return with_context([&] { return text_of("reading input ", quoted_name(value.key), " in line ", value.line); },
                      [&] {
                        Scanner in(text);
                        Type type;
                        parse(in, type);
                        if (!in.at_end()) in.unexpected("the end of the type");
                        return type;
                      });
}

Pipeline pipeline_of(const TomlTree& tree, Pipeline::Options options) {
  FileHead head;
  read_toml_fields(tree, "the head of a pipeline", head, {"inputs", "stage"}, [](std::string_view) {});
  const TomlTree *inputs = tree.find("inputs"), *stages = tree.find("stage");
  if (!inputs || inputs->kind != TomlTree::Kind::table)
    fail(ErrorCode::parse, inputs ? text_of("line ", inputs->line, ": ") : "",
         "a pipeline has 'inputs', with a type for each: {texts = \"texts\"} or {x = \"f32[N, 4]\"}");
  if (!stages || stages->kind != TomlTree::Kind::array)
    fail(ErrorCode::parse, stages ? text_of("line ", stages->line, ": ") : "",
         "a pipeline has stages, each a table: [[stage]]");
  std::vector<PipelineInput> taken;
  for (const TomlTree& input : inputs->items) taken.push_back({input.key, type_in(input)});
  std::vector<PipelineStage> all;
  for (const TomlTree& table : stages->items) {
    FileStage stage;
    read_toml_fields(table, "[[stage]]", stage, {"settings"}, [](std::string_view) {});
    if (stage.name.empty()) fail(ErrorCode::parse, "line ", table.line, ": the stage has no 'name'");
    const TomlTree* settings = table.find("settings");
    const std::string text =
        with_context([&] { return text_of("reading the stage in line ", table.line); },
                     [&] { return settings ? settings_text(*settings, find_stage(stage.name)) : std::string("{}"); });
    all.push_back({stage.name, text, stage.takes, stage.gives});
  }
  if (!head.execution.empty()) {
    const ExecutionOptions o =
        ExecutionProfile::load(StagePlace{options.folder}.file(head.execution)).options(head.phase);
    options.device = o.device, options.threads = o.session.threads, options.compile = o.compile;
    for (const Bindings* numbers : {&o.shapes, &o.compile.bounds})
      if (!numbers->empty())
        fail(ErrorCode::invalid_argument, "the execution profile has a number for '", numbers->begin()->first,
             "'; the sizes of a pipeline are those of the types in 'inputs' and of its stages");
  } else if (!head.phase.empty()) {
    fail(ErrorCode::parse, "'phase' is one of an execution profile, and there is no 'execution'");
  }
  return Pipeline(std::move(taken), all, head.outputs, std::move(options));
}

}  // namespace

Pipeline Pipeline::load(const std::string& path) { return load(path, Options()); }
Pipeline Pipeline::load(const std::string& path, Options options) {
  return with_context([&] { return "loading the pipeline '" + path + "'"; },
                      [&] {
                        if (options.folder.empty()) options.folder = std::filesystem::path(path).parent_path().string();
                        return pipeline_of(read_toml(path), std::move(options));
                      });
}

}  // namespace rlx
