// See the header. Metadata of GGUF stand in a safetensors file as JSON, under "gguf", and come back from there; strings
// of a safetensors file become values of their own. What a folder becomes the library says (gguf_model_of_folder).
#include "tools/convert_weights.h"

#include <charconv>
#include <filesystem>
#include <optional>
#include <vector>

#include "rlx/blocks.h"
#include "rlx/gguf.h"
#include "rlx/language_model.h"
#include "tools/model_graph.h"
#include "tools/output.h"
#include "tools/subcommands.h"

namespace rlx::tools {
namespace {

constexpr const char* kGgufMetadata = "gguf";

/// The tensors are read when they are written.
GgufModel read_weights(const std::string& path) {
  GgufModel made;
  const auto take = [&](const auto& file) {
    for (const auto& entry : file.entries())
      made.tensors.emplace_back(
          entry.name, LazyTensor(entry.dtype, entry.shape, [file, name = entry.name] { return file.tensor(name); }));
  };
  if (path.ends_with(".gguf")) {
    const auto file = GgufFile::open(path, FileAccess::mapped);
    for (const auto& [key, value] : file.metadata())
      if (!key.starts_with("split.")) made.metadata.emplace_back(key, value);  // of the parts that were read
    take(file);
    return made;
  }
  const auto file = SafetensorsFile::open(path, FileAccess::mapped);
  for (const auto& [key, text] : file.metadata()) {
    if (key != kGgufMetadata) {
      made.metadata.emplace_back(key, text);
      continue;
    }
    GgufMetadata kept =
        with_context([&] { return "reading '" + path + "'"; }, [&, &json = text] { return parse_gguf_json(json); });
    made.metadata.insert(made.metadata.begin(), kept.begin(), kept.end());
  }
  take(file);
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

void write_weights(const std::string& path, const GgufModel& weights, const WeightsOptions& options) {
  if (path.ends_with(".gguf")) return write_gguf_model(path, weights, {.most_part_bytes = options.most_file_bytes()});
  for (const auto& [name, tensor] : weights.tensors)
    if (is_block(tensor.dtype()))
      fail(ErrorCode::unsupported, "tensor '", name, "' is ", tensor.type(),
           ", and safetensors has no dtype for blocks; --dequantize bf16 writes their elements");
  SafetensorsFile::Metadata metadata;
  if (!weights.metadata.empty()) metadata.emplace(kGgufMetadata, gguf_json(weights.metadata));
  stream_safetensors_shards(path, NamedLazyTensors(weights.tensors.begin(), weights.tensors.end()), metadata,
                            options.most_file_bytes());
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

uint64_t WeightsOptions::most_file_bytes() const {
  if (shard_size.empty()) return 0;
  size_t end = 0;
  while (end < shard_size.size() && shard_size[end] >= '0' && shard_size[end] <= '9') ++end;
  uint64_t count = 0, unit = 0;
  const auto [at, error] = std::from_chars(shard_size.data(), shard_size.data() + end, count);
  const std::string_view rest = std::string_view(shard_size).substr(end);
  for (const auto& [name, bytes] :
       {std::pair("", 1ull), std::pair("KB", 1000ull), std::pair("MB", 1000'000ull), std::pair("GB", 1000'000'000ull),
        std::pair("KiB", 1ull << 10), std::pair("MiB", 1ull << 20), std::pair("GiB", 1ull << 30)})
    if (rest == name) unit = bytes;
  if (end == 0 || error != std::errc() || unit == 0 || count == 0 || count > UINT64_MAX / unit)
    throw UsageError("--shard-size takes a number of bytes, as 5000000000, 5GB, 500MB or 2GiB, and got '" + shard_size +
                     "'");
  return count * unit;
}

bool is_folder_of_gguf(const std::string& input, const std::string& output) {
  return input.ends_with(".gguf") && !is_weights(output) && std::filesystem::path(output).extension() != ".mlpackage";
}

void convert_to_folder(const std::string& input, const std::string& output, const WeightsOptions& options, bool quiet,
                       bool json) {
  namespace fs = std::filesystem;
  if (!options.quantize.empty()) throw UsageError("--quantize is of GGUF files, and -o is the folder '" + output + "'");
  const uint64_t most_file_bytes = options.most_file_bytes();
  std::error_code error;
  if (fs::exists(output, error) && !(fs::is_directory(output, error) && fs::is_empty(output, error)))
    throw UsageError("'" + output + "' is there, and not an empty folder");
  GgufModelOptions how;
  if (!options.dequantize.empty())
    how.dequantize =
        dtype_option("--dequantize", options.dequantize, [](DType t) { return t == f32 || t == f16 || t == bf16; });
  const FolderModel model = folder_model_of_gguf(input, how);
  write_folder_model(output, model, most_file_bytes);
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
  if (!output.ends_with(".gguf") && !options.quantize.empty())
    throw UsageError("--quantize is of GGUF files, and -o is '" + output + "'");
  (void)options.most_file_bytes();  // fails before anything is read
  std::optional<DType> dequantize;
  if (!options.dequantize.empty())
    dequantize = dtype_option("--dequantize", options.dequantize,
                              [](DType t) { return t == f32 || t == f16 || t == bf16 || t == f64; });
  GgufModel weights = is_model ? gguf_model_of_folder(input, {.dequantize = dequantize}) : read_weights(input);
  if (dequantize) dequantize_blocks(weights, *dequantize);
  if (!options.quantize.empty())
    quantize_matrices(weights, dtype_option("--quantize", options.quantize,
                                            [](DType t) { return is_block(t) && block_encoder(t) != nullptr; }));
  write_weights(output, weights, options);
  if (!quiet || json) say_written("file", output, weights.tensors, weights.notes, json);
}

}  // namespace rlx::tools
