// See the header. Matrices that stand the other way round, and experts that stand one by one, are copied; everything
// else is the file's own memory.
#include "models/language/weight_files.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "io/file_stamp.h"
#include "io/json_tree.h"
#include "models/language/limits.h"
#include "models/language/packed_weights.h"
#include "models/language/weight_names.h"
#include "rlx/io.h"

namespace rlx::language {
namespace {

/// What both formats share: names, and how values come about.
class NamedWeights : public WeightFiles, public TensorSource {
 public:
  NamedWeights(std::span<const WeightName> names, int64_t experts, WeightPacking packing = {})
      : names_(names), experts_(experts), packing_(std::move(packing)) {}

  WeightType type(const std::string& param) const override {
    const FileName at = name_in_file(names_, param);
    const auto parts = parts_of(at.name);
    if (const auto packed = packed_matrices(param, parts); !packed.empty()) return packed_type(packed);
    const DType first = required(parts[0], param).dtype;
    for (const std::string& part : parts)
      if (const DType other = required(part, param).dtype; other != first)
        fail(ErrorCode::unsupported, "the experts of weight '", param, "' differ: '", parts[0], "' is of ", first,
             ", '", part, "' of ", other);
    return first;
  }

  Tensor value(const std::string& param, const Type& type) const override {
    if (const size_t dot = param.rfind('.');
        packing_.method != WeightPacking::Method::none && is_packed_part(std::string_view(param).substr(dot + 1))) {
      constexpr std::string_view kRows = ".rows";  // a table as rows: see DecoderBlocks::packed_rows
      std::string module = param.substr(0, dot);
      const bool is_turned = module.ends_with(kRows);
      if (is_turned) module.resize(module.size() - kRows.size());
      const std::string weight = module + ".weight", in_file = name_in_file(names_, weight).name;
      const auto parts = parts_of(in_file);
      if (const auto packed = packed_matrices(param, parts); !packed.empty()) {
        for (const std::string& part : parts)
          for (const std::string& name : packed_parts(part)) read_.insert(name);
        const std::string_view part = std::string_view(param).substr(dot + 1);
        if (!is_turned) return packed_value(packed, part, in_file.find('*') != in_file.npos, type);
        return turned_value(packed, part, type);
      }
    }
    const FileName at = name_in_file(names_, param);
    const Shape shape = shape_of(type.dims);
    const auto parts = checked_parts(at, param, {type.dtype, shape});
    if (at.name.find('*') != at.name.npos) return joined(parts, {type.dtype, shape});
    Tensor t = tensor(parts[0]);
    if (at.form == WeightForm::reshaped) return t.reshaped(shape);
    return at.form == WeightForm::transposed ? transposed(t) : t;
  }
  void check_value(const std::string& param, const Type& type) const override {
    checked_parts(name_in_file(names_, param), param, {type.dtype, shape_of(type.dims)});
  }
  void release() const override {
    for (const Tensor& t : unreleased_) release_pages(t);
    unreleased_.clear();
  }

  std::vector<std::string> module_names(const std::string& module) const override {
    const std::string usual = name_in_file(names_, module + ".weight").name, own = name_of(usual);
    const auto without_ending = [](const std::string& name) { return name.substr(0, name.rfind('.')); };
    return {without_ending(usual), without_ending(own)};
  }

  std::vector<std::string> unread() const override {
    std::vector<std::string> all;
    std::set<std::string> read;
    for (const std::string& name : read_) read.insert(name_of(name));
    for (const std::string& name : tensor_names())
      if (!read.contains(name) && !means_nothing(name) && !is_empty_bias(name, read)) all.push_back(shown_name(name));
    return all;
  }

 protected:
  /// A name of the table as it is in the file; `tensor_names` and `means_nothing` have the file's.
  virtual std::string name_of(const std::string& tensor) const { return tensor; }
  virtual std::vector<std::string> tensor_names() const = 0;
  /// For `tensor`: what it reads is released by the next `release`. Copies are not kept: they have no pages to release.
  Tensor noted(Tensor t) const {
    if (file_origin(t.bytes())) unreleased_.push_back(t);
    return t;
  }
  /// By the file's own name.
  virtual Tensor tensor_in_file(const std::string& name) const { return tensor(name); }
  virtual bool means_nothing(const std::string& tensor) const = 0;
  /// The tensors of a name that may hold a "*".
  virtual std::vector<std::string> parts_of(const std::string& name) const {
    const size_t star = name.find('*');
    if (star == name.npos) return {name};
    std::vector<std::string> all;
    for (int64_t e = 0; e < experts_; ++e)
      all.push_back(name.substr(0, star) + std::to_string(e) + name.substr(star + 1));
    return all;
  }

 private:
  /// The matrices of a weight, one or one for each expert; none if it is not packed.
  std::vector<PackedMatrix> packed_matrices(const std::string& param, const std::vector<std::string>& parts) const {
    std::vector<PackedMatrix> all;
    for (const std::string& part : parts) {
      if (!is_packed(*this, packing_, part)) {
        if (all.empty()) return all;
        fail(ErrorCode::unsupported, "the experts of weight '", param, "' differ: '", parts[0], "' is packed, '", part,
             "' is not");
      }
      all.push_back(packed_matrix(*this, packing_, part));
    }
    return all;
  }
  /// A bias of zeros that AutoGPTQ writes beside matrices of models without one.
  bool is_empty_bias(const std::string& in_file, const std::set<std::string>& read) const {
    constexpr std::string_view kBias = ".bias";
    if (packing_.method != WeightPacking::Method::gptq || !in_file.ends_with(kBias)) return false;
    if (!read.contains(in_file.substr(0, in_file.size() - kBias.size()) + ".qweight")) return false;
    const Tensor t = tensor_in_file(in_file);
    return std::all_of(t.data(), t.data() + t.byte_count(), [](std::byte b) { return b == std::byte{0}; });
  }
  Found required(const std::string& tensor, const std::string& param) const {
    auto found = find(tensor);
    if (!found)
      fail(ErrorCode::not_found, "there is no tensor '", tensor, "' in ", place(), ", which the weight '", param,
           "' is read from");
    return *std::move(found);
  }
  void check(const std::string& tensor, const std::string& param, const Found& wanted) const {
    const Found found = required(tensor, param);
    if (found.dtype != wanted.dtype || found.shape != wanted.shape)
      fail(ErrorCode::shape_mismatch, "tensor '", tensor, "' in ", place(), " is ", type_of(found),
           ", but the weight '", param, "' of this model is ", type_of(wanted));
  }
  /// The tensors of a param, one or one for each expert, which fit its type.
  std::vector<std::string> checked_parts(const FileName& at, const std::string& param, const Found& wanted) const {
    auto parts = parts_of(at.name);
    for (const std::string& part : parts) read_.insert(part);
    if (at.name.find('*') != at.name.npos) {
      const Shape one(wanted.shape.begin() + 1, wanted.shape.end());
      for (const std::string& part : parts) check(part, param, {wanted.dtype, one});
      return parts;
    }
    Shape in_file = wanted.shape;
    if (at.form == WeightForm::transposed) std::swap(in_file.at(0), in_file.at(1));
    if (at.form == WeightForm::reshaped) {
      const Found found = required(parts[0], param);
      if (are_same_but_for_dims(found.shape, wanted.shape)) in_file = found.shape;
    }
    check(parts[0], param, {wanted.dtype, in_file});
    return parts;
  }
  /// One tensor of the experts' own.
  Tensor joined(const std::vector<std::string>& parts, const Found& wanted) const {
    Tensor all = Tensor::uninitialized(wanted.dtype, wanted.shape);
    std::byte* to = all.mutable_data();
    for (const std::string& part : parts) {
      const Tensor t = tensor(part);
      std::memcpy(to, t.data(), t.byte_count());
      to += t.byte_count();
    }
    return all;
  }
  /// Whether dims of 1 are all that differs, or one of the two is a single row of the same elements.
  static bool are_same_but_for_dims(Shape a, Shape b) {
    const auto count = [](const Shape& s) {
      return std::accumulate(s.begin(), s.end(), int64_t{1}, std::multiplies<>());
    };
    const auto drop_ones = [](Shape& s) { s.erase(std::remove(s.begin(), s.end(), 1), s.end()); };
    drop_ones(a), drop_ones(b);
    return a == b || ((a.size() == 1 || b.size() == 1) && count(a) == count(b));
  }
  static Tensor transposed(const Tensor& t) {
    const int64_t bytes = static_cast<int64_t>(byte_size(t.dtype()));
    const int64_t strides[] = {bytes, t.shape()[1] * bytes};
    return Tensor::from_strided(t.dtype(), {t.shape()[1], t.shape()[0]}, t.data(), strides);
  }

  std::span<const WeightName> names_;
  int64_t experts_;
  WeightPacking packing_;
  mutable std::set<std::string> read_;
  mutable std::vector<Tensor> unreleased_;
};

constexpr size_t kMostIndexBytes = size_t{32} << 20;

class Folder final : public NamedWeights {
 public:
  Folder(const std::string& folder, std::span<const WeightName> names, const LanguageModelConfig& config,
         FileAccess access)
      : NamedWeights(names, config.experts, config.packing), folder_(folder), is_tied_(config.tied_embeddings),
        has_guessing_layers_(config.architecture == "qwen3_next"), layers_(config.layers) {
    namespace fs = std::filesystem;
    const fs::path one = fs::path(folder) / "model.safetensors",
                   index = fs::path(folder) / "model.safetensors.index.json";
    std::error_code error;
    if (fs::exists(fs::path(folder) / "adapter_config.json", error))
      fail(ErrorCode::unsupported, "there is an adapter_config.json in '", folder,
           "': this is an adapter; give the folder of the model, and this one as its adapter (--lora)");
    if (fs::exists(one, error)) add(SafetensorsFile::open(one.string(), access));
    else if (fs::exists(index, error)) add_index(index.string(), access);
    else
      fail(ErrorCode::not_found, "there is neither model.safetensors nor model.safetensors.index.json in '", folder,
           "'; weights in other formats are not read: save the model as safetensors, or convert it to GGUF");
    for (const auto& [name, at] : tensors_) {
      for (const char* prefix : {"", "model.", "language_model.", "model.language_model.", "transformer."})
        if (name == prefix + std::string("embed_tokens.weight") || name == prefix + std::string("wte.weight"))
          found_prefix_ = prefix;
      for (const char* prefix : {"", "backbone."})
        if (name == prefix + std::string("embeddings.weight")) found_prefix_ = prefix;
      if (name == "language_model.model.embed_tokens.weight") found_prefix_ = "language_model.model.";
    }
  }

 public:
  std::optional<Found> find(const std::string& tensor) const override {
    const auto at = tensors_.find(in_folder(tensor));
    if (at == tensors_.end()) return std::nullopt;
    const SafetensorsFile::Entry* entry = files_[at->second].find(at->first);
    return Found{entry->dtype, entry->shape};
  }
  Tensor tensor(const std::string& tensor) const override {
    const std::string name = in_folder(tensor);
    return noted(files_[tensors_.at(name)].tensor(name));
  }
  std::string place() const override { return "'" + folder_ + "'"; }

 protected:
  Tensor tensor_in_file(const std::string& name) const override { return files_[tensors_.at(name)].tensor(name); }
  std::string name_of(const std::string& tensor) const override { return in_folder(tensor); }
  std::vector<std::string> tensor_names() const override {
    std::vector<std::string> all;
    for (const auto& [name, at] : tensors_) all.push_back(name);
    return all;
  }
  /// Buffers that older versions wrote; a second copy of tied embeddings; the parts of a model that see pictures.
  bool means_nothing(const std::string& name) const override {
    for (const std::string_view buffer : {".self_attn.rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias"})
      if (is_of_layer(name, found_prefix_ + (buffer.starts_with(".self") ? "layers." : "h."), buffer)) return true;
    if (name == found_prefix_ + "rotary_emb.inv_freq") return true;
    // Layers that guess several tokens at once, which transformers leaves out.
    if (has_guessing_layers_ && name.starts_with("mtp.")) return true;
    if (is_tied_ && name == in_folder("lm_head.weight")) return is_copy_of_table(name);
    const bool sees_pictures = found_prefix_.find("language_model.") != found_prefix_.npos;
    for (const std::string_view part :
         {"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."})
      if (sees_pictures && name.starts_with(part)) return true;
    return false;
  }

 private:
  void add(SafetensorsFile file) {
    for (const auto& entry : file.entries()) tensors_.emplace(entry.name, files_.size());
    files_.push_back(std::move(file));
  }
  void add_index(const std::string& path, FileAccess access) {
    with_context(
        [&] { return text_of("reading '", path, "'"); },
        [&] {
          const JsonTree json = parse_json(text_of_file(path, kMostIndexBytes));
          const JsonTree* map = json.find("weight_map");
          if (!map || !map->is_object() || map->elements().empty())
            fail(ErrorCode::parse, "'weight_map' is ", map ? map->shown() : "missing",
                 "; it must be an object with the file of each tensor");
          std::map<std::string, size_t> opened;
          for (const JsonTree& entry : map->elements()) {
            if (!entry.is_string())
              fail(ErrorCode::parse, "the file of tensor '", shown_name(entry.name()), "' is ", entry.shown());
            const std::string& file = entry.string();
            const std::filesystem::path plain(file);
            if (file.empty() || plain.filename() != plain || file == "." || file == ".." ||
                file.find('\\') != file.npos || file.find('\0') != file.npos)
              fail(ErrorCode::invalid_argument, "the file of tensor '", shown_name(entry.name()), "' is ",
                   entry.shown(), "; it must be the name of a file beside the index");
            auto [at, is_new] = opened.try_emplace(file, files_.size());
            if (is_new)
              files_.push_back(SafetensorsFile::open((std::filesystem::path(folder_) / file).string(), access));
            tensors_.emplace(entry.name(), at->second);
          }
          for (size_t part = 0; part < files_.size(); ++part)
            for (const auto& entry : files_[part].entries()) check_place(entry.name, part);
          for (const auto& [name, part] : tensors_)
            if (!files_[part].find(name))
              fail(ErrorCode::not_found, "there is no tensor '", shown_name(name), "' in '", file_name(part),
                   "', where the index has it");
        });
  }
  /// That a tensor of a part is where the index has it.
  void check_place(const std::string& name, size_t part) const {
    const auto at = tensors_.find(name);
    if (at == tensors_.end())
      fail(ErrorCode::parse, "tensor '", shown_name(name), "' of '", file_name(part), "' is not in the index");
    if (at->second != part)
      fail(ErrorCode::parse, "tensor '", shown_name(name), "' stands in '", file_name(part),
           "', but the index has it in '", file_name(at->second), "'");
  }
  std::string file_name(size_t part) const { return std::filesystem::path(files_[part].path()).filename().string(); }
  /// The table's names begin with "model.", "transformer." or "backbone.", which some files leave out and others put
  /// elsewhere.
  std::string in_folder(const std::string& name) const {
    for (const std::string_view usual : {"model.", "transformer.", "backbone."})
      if (name.starts_with(usual)) return found_prefix_ + name.substr(usual.size());
    if (name == "lm_head.weight" && found_prefix_ == "language_model.model.") return "language_model.lm_head.weight";
    return name;
  }
  /// Whether a name is `before`, the number of a layer, and `behind`.
  bool is_of_layer(std::string_view name, std::string_view before, std::string_view behind) const {
    if (name.size() <= before.size() + behind.size() || !name.starts_with(before) || !name.ends_with(behind))
      return false;
    const std::string_view digits = name.substr(before.size(), name.size() - before.size() - behind.size());
    int64_t layer = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
    return error == std::errc() && end == digits.data() + digits.size() && std::to_string(layer) == digits &&
           layer < layers_;
  }
  /// Where both are there and differ, transformers takes each for what it is, whatever the configuration says.
  bool is_copy_of_table(const std::string& output) const {
    for (const char* table : {"embed_tokens.weight", "wte.weight", "embeddings.weight"}) {
      const std::string name = found_prefix_ + table;
      if (!tensors_.contains(name)) continue;
      const Tensor one = noted(files_[tensors_.at(name)].tensor(name)),
                   two = noted(files_[tensors_.at(output)].tensor(output));
      if (one.dtype() == two.dtype() && one.shape() == two.shape() &&
          std::memcmp(one.data(), two.data(), one.byte_count()) == 0)
        return true;
      fail(ErrorCode::unsupported, "'tie_word_embeddings' is true, but tensor '", output, "' in ", place(),
           " is another than '", name, "'; if it counts, set the key to false");
    }
    return false;
  }

  std::string folder_, found_prefix_ = "model.";
  bool is_tied_, has_guessing_layers_;
  int64_t layers_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> tensors_;  // by name, the file
};

class Gguf final : public NamedWeights {
 public:
  Gguf(const GgufFile& file, const LanguageModelConfig& config)
      : NamedWeights(gguf_names_of(config.architecture), config.experts), file_(file) {}

 public:
  std::optional<Found> find(const std::string& tensor) const override {
    const GgufFile::Entry* entry = file_.find(tensor);
    if (!entry) return std::nullopt;
    return Found{entry->dtype, entry->shape};
  }
  Tensor tensor(const std::string& tensor) const override { return noted(file_.tensor(tensor)); }
  std::string place() const override { return "'" + file_.paths().at(0) + "'"; }

 protected:
  std::vector<std::string> tensor_names() const override { return file_.names(); }
  /// Factors of rotary positions, which the description has.
  bool means_nothing(const std::string& name) const override {
    return name == "rope_freqs.weight" || name == "rope_factors_long.weight" || name == "rope_factors_short.weight";
  }

 private:
  GgufFile file_;
};

}  // namespace

std::unique_ptr<WeightFiles> open_folder(const std::string& folder, const LanguageModelConfig& config,
                                         FileAccess access) {
  return std::make_unique<Folder>(folder, folder_names_of(config), config, access);
}
std::unique_ptr<WeightFiles> open_gguf(const GgufFile& file, const LanguageModelConfig& config) {
  return std::make_unique<Gguf>(file, config);
}

std::string text_of_file(const std::string& path, size_t most_bytes) {
  std::error_code error;
  if (const auto bytes = std::filesystem::file_size(path, error); !error && bytes > most_bytes)
    fail(ErrorCode::out_of_memory, "'", path, "' has ", bytes, " bytes, more than the ", most_bytes, " that it may");
  const auto file = FileBytes::read(path);
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

}  // namespace rlx::language
