// See the header. Metadata of GGUF stand in a safetensors file as JSON, under "gguf", and come back from there; strings
// of a safetensors file become values of their own. What a folder becomes the library says (gguf_model_of_folder).
#include "tools/convert_weights.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "io/atomic_file.h"
#include "rlx/blocks.h"
#include "rlx/gguf.h"
#include "rlx/language_model.h"
#include "tools/model_graph.h"
#include "tools/output.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

constexpr const char* kGgufMetadata = "gguf";

struct WeightsOfFile {
  std::vector<std::pair<std::string, Tensor>> tensors;
  GgufMetadata metadata;
  std::vector<std::string> notes;
};

WeightsOfFile read_weights(const std::string& path) {
  WeightsOfFile made;
  if (path.ends_with(".gguf")) {
    const auto file = GgufFile::open(path);
    for (const auto& [key, value] : file.metadata())
      if (!key.starts_with("split.")) made.metadata.emplace_back(key, value);  // of the parts that were read
    for (const auto& entry : file.entries()) made.tensors.emplace_back(entry.name, file.tensor(entry.name));
    return made;
  }
  const auto file = SafetensorsFile::open(path);
  for (const auto& [key, text] : file.metadata()) {
    if (key != kGgufMetadata) {
      made.metadata.emplace_back(key, text);
      continue;
    }
    GgufMetadata kept =
        with_context([&] { return "reading '" + path + "'"; }, [&, &json = text] { return parse_gguf_json(json); });
    made.metadata.insert(made.metadata.begin(), kept.begin(), kept.end());
  }
  for (const auto& entry : file.entries()) made.tensors.emplace_back(entry.name, file.tensor(entry.name));
  return made;
}

DType dtype_option(const std::string& option, const std::string& name, bool (*is_wanted)(DType)) {
  std::string all;
  for (size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!is_wanted(dtype)) continue;
    if (name_of(dtype) == name) return dtype;
    (all += all.empty() ? "" : ", ") += name_of(dtype);
  }
  throw UsageError(option + " takes one of " + all + ", and got '" + name + "'");
}

WeightsOfFile read_folder(const std::string& path, std::optional<DType> dequantize) {
  GgufModel model = gguf_model_of_folder(path, {.dequantize = dequantize});
  return {std::move(model.tensors), std::move(model.metadata), std::move(model.notes)};
}

/// Counts of what was turned into what.
using Changes = std::map<std::pair<std::string_view, std::string_view>, size_t>;

Tensor changed(const Tensor& x, DType dtype, Changes& changes) {
  ++changes[{name_of(x.dtype()), name_of(dtype)}];
  return is_block(dtype) ? quantized(x, dtype) : dequantized(x, dtype);
}

/// What metadata say of the tensors' kinds, after some were changed. "general.file_type", the kind of most of them, is
/// left out, which makes readers look at the tensors; a file with blocks has to have "general.quantization_version".
void describe_kinds(WeightsOfFile& weights) {
  std::erase_if(weights.metadata, [](const auto& each) { return each.first == "general.file_type"; });
  const char* version = "general.quantization_version";
  for (const auto& each : weights.tensors)
    if (is_block(each.second.dtype()) && !find_value(weights.metadata, version))
      weights.metadata.emplace_back(version, uint32_t{2});
}

void write_weights(const std::string& path, const WeightsOfFile& weights, const WeightsOptions& options) {
  if (path.ends_with(".gguf"))
    return write_gguf(path, weights.tensors, weights.metadata, {.most_part_bytes = options.most_part_bytes});
  for (const auto& [name, tensor] : weights.tensors)
    if (is_block(tensor.dtype()))
      fail(ErrorCode::unsupported, "tensor '", name, "' is ", tensor.type(),
           ", and safetensors has no dtype for blocks; --dequantize bf16 writes their elements");
  SafetensorsFile::Metadata metadata;
  if (!weights.metadata.empty()) metadata.emplace(kGgufMetadata, gguf_json(weights.metadata));
  write_safetensors(path, NamedTensors(weights.tensors.begin(), weights.tensors.end()), metadata);
}

/// Says what was written, as a line with the notes below it or as JSON. `tensors` are pairs of names and tensors.
template <class Named>
void say_written(std::string_view kind, const std::string& output, const Named& tensors,
                 const std::vector<std::string>& notes, bool json) {
  uint64_t bytes = 0;
  for (const auto& each : tensors) bytes += each.second.byte_count();
  std::string listed, lines;
  for (const std::string& note : notes) {
    listed += (listed.empty() ? "" : ", ") + json_text(note);
    lines += "  " + note + "\n";
  }
  if (json)
    write_out(text_of("{\"", kind, "\": ", json_text(output), ", \"tensors\": ", tensors.size(), ", \"bytes\": ", bytes,
                      ", \"notes\": [", listed, "]}\n"));
  else
    write_out(
        text_of("'", output, "': ", tensors.size(), " tensors, ", bytes_text(static_cast<double>(bytes)), "\n", lines));
}

}  // namespace

bool is_folder_of_gguf(const std::string& input, const std::string& output) {
  return input.ends_with(".gguf") && !is_weights(output) && std::filesystem::path(output).extension() != ".mlpackage";
}

void convert_to_folder(const std::string& input, const std::string& output, const WeightsOptions& options, bool quiet,
                       bool json) {
  namespace fs = std::filesystem;
  if (!options.quantize.empty() || options.most_part_bytes > 0)
    throw UsageError("--quantize and --part-bytes are of GGUF files, and -o is the folder '" + output + "'");
  std::error_code error;
  if (fs::exists(output, error) && !(fs::is_directory(output, error) && fs::is_empty(output, error)))
    throw UsageError("'" + output + "' is there, and not an empty folder");
  GgufModelOptions how;
  if (!options.dequantize.empty())
    how.dequantize =
        dtype_option("--dequantize", options.dequantize, [](DType t) { return t == f32 || t == f16 || t == bf16; });
  const FolderModel model = folder_model_of_gguf(input, how);
  if (!fs::create_directories(output, error) && error)
    fail(ErrorCode::io, "cannot make the folder '", output, "': ", error.message());
  write_safetensors((fs::path(output) / "model.safetensors").string(), model.tensors, {{"format", "pt"}});
  for (const auto& [name, text] : model.texts) {
    const std::string path = (fs::path(output) / name).string();
    AtomicFile file(path);
    file.write(text);
    file.commit();
  }
  if (!quiet || json) say_written("folder", output, model.tensors, model.notes, json);
}

bool is_weights(const std::string& path) { return path.ends_with(".gguf") || path.ends_with(".safetensors"); }

void convert_weights(const std::string& input, const std::string& output, const WeightsOptions& options, bool quiet,
                     bool json) {
  const bool is_model = is_folder(input) && output.ends_with(".gguf");
  if (!is_weights(input) && !is_model)
    throw UsageError("'" + output +
                     "' is a file of weights, and is made of one, .gguf or .safetensors, or, .gguf, of " +
                     "the folder of a language model; MODEL is '" + input + "'");
  if (!output.ends_with(".gguf") && (!options.quantize.empty() || options.most_part_bytes > 0))
    throw UsageError("--quantize and --part-bytes are of GGUF files, and -o is '" + output + "'");
  Changes changes;
  std::optional<DType> dequantize;
  if (!options.dequantize.empty())
    dequantize = dtype_option("--dequantize", options.dequantize,
                              [](DType t) { return t == f32 || t == f16 || t == bf16 || t == f64; });
  WeightsOfFile weights = is_model ? read_folder(input, dequantize) : read_weights(input);
  if (dequantize)
    for (auto& each : weights.tensors)
      if (is_block(each.second.dtype())) each.second = changed(each.second, *dequantize, changes);
  if (!options.quantize.empty()) {
    const DType dtype = dtype_option("--quantize", options.quantize,
                                     [](DType t) { return is_block(t) && block_encoder(t) != nullptr; });
    // As llama.cpp does: vectors (norms, biases) stay as they are, and what is no product though it has two dims.
    const auto is_product = [](const std::string& name) {
      for (const char* part : {"_norm.weight", "ssm_conv1d", "ffn_gate_inp", "position_embd"})
        if (name.find(part) != name.npos) return false;
      return !name.ends_with(".ssm_a") && !name.ends_with(".ssm_d");
    };
    for (auto& each : weights.tensors)
      if (const Tensor& x = each.second; is_float(x.dtype()) && x.rank() >= 2 && is_product(each.first) &&
                                         x.shape().back() % info(dtype).block_elements == 0)
        each.second = changed(x, dtype, changes);
  }
  if (!changes.empty()) describe_kinds(weights);
  write_weights(output, weights, options);
  if (quiet && !json) return;
  std::vector<std::string> notes;
  for (const auto& [from_to, count] : changes)
    notes.push_back(
        text_of(count, count == 1 ? " tensor of " : " tensors of ", from_to.first, " became ", from_to.second));
  notes.insert(notes.end(), weights.notes.begin(), weights.notes.end());
  say_written("file", output, weights.tensors, notes, json);
}

}  // namespace rlx::tools
