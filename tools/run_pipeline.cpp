// See the header.
#include "tools/run_pipeline.h"

#include <algorithm>
#include <optional>

#include "io/names_in_messages.h"
#include "tools/npz_limit.h"
#include "tools/output.h"
#include "tools/output_folder.h"
#include "tools/subcommands.h"
#include "tools/text_table.h"
#include "tools/values_json.h"

namespace rlx::tools {
namespace {

/// The lines of a file, without their ends.
std::vector<std::string> lines_of(const std::string& path) {
  const auto file = FileBytes::read(path);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    at = end + 1;
  }
  return lines;
}

StageValues values_from(const std::vector<std::string>& words) {
  StageValues values;
  const auto add = [&](const std::string& name, StageValue value) {
    if (!values.emplace(name, std::move(value)).second) throw UsageError("--input gives '" + name + "' twice");
  };
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals != word.npos && equals > 0) {
      const std::string name = word.substr(0, equals), file = word.substr(equals + 1);
      with_context([&] { return text_of("reading input '", name, "'"); },
                   [&] {
                     if (file.ends_with(".txt")) add(name, lines_of(file));
                     else add(name, read_npy(file));
                   });
    } else if (word.ends_with(".npz")) {
      for (auto& [name, tensor] : NpzFile::open(word, npz_limit).arrays()) add(name, tensor);
    } else if (word.ends_with(".safetensors")) {
      for (auto& [name, tensor] : SafetensorsFile::open(word).tensors()) add(name, tensor);
    } else {
      throw UsageError("--input of a pipeline is NAME=FILE.npy, NAME=FILE.txt, FILE.npz or FILE.safetensors, not '" +
                       word + "'");
    }
  }
  return values;
}

}  // namespace

void run_pipeline(const PipelineRun& request) {
  const Pipeline pipeline = Pipeline::load(request.path, request.options);
  const StageValues results = pipeline.run(values_from(request.inputs));
  std::vector<Signature::Entry> entries;
  std::vector<Tensor> tensors;
  NamedTensors named;
  TextTable table("lll");
  for (const std::string& name : pipeline.outputs()) {
    const StageValue& value = results.find(name)->second;
    const Tensor* tensor = std::get_if<Tensor>(&value);
    if (!tensor) {
      for (const std::string& line : std::get<1>(value)) table.add({name, "text", line_text(line, 200)});
      continue;
    }
    entries.push_back({name, tensor->type()}), tensors.push_back(*tensor);
    named.emplace(name, *tensor);
    table.add({name, text_of(tensor->type()), ""});
  }
  if (!request.output_dir.empty()) OutputFolder(request.output_dir, entries).write(tensors);
  if (!request.output_file.empty()) write_safetensors(request.output_file, named);
  if (request.json) write_out(values_json(entries, tensors));
  else if (request.output_dir.empty() && request.output_file.empty()) write_out(table.text());
}

}  // namespace rlx::tools
