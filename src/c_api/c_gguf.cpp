// The C ABI of GGUF files; see rlx/c.h.
#include <nlohmann/json.hpp>

#include "c_api/handles.h"
#include "rlx/blocks.h"
#include "rlx/gguf.h"

struct rlx_gguf {
  rlx::GgufFile file;
  std::string json = {};
};

namespace {

using namespace rlx::c;

struct GgufWriteText {
  int64_t version = 3;
  bool big_endian = false;
  int64_t most_part_bytes = 0;
  RLX_FIELDS(GgufWriteText, rlx::field("version", &GgufWriteText::version),
             rlx::field("big_endian", &GgufWriteText::big_endian),
             rlx::field("most_part_bytes", &GgufWriteText::most_part_bytes));
};

}  // namespace

extern "C" {

rlx_status rlx_gguf_open(const char* path, int mapped, rlx_gguf** file, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(file, "file");
    result = new rlx_gguf{
        rlx::GgufFile::open(required_text(path, "path"), mapped ? rlx::FileAccess::mapped : rlx::FileAccess::copied)};
  });
}
rlx_status rlx_gguf_describe(rlx_gguf* file, const char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    auto& f = required(file, "file");
    const bool is_big = f.file.byte_order() == std::endian::big;
    nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
    for (const auto& e : f.file.entries())
      tensors.push_back({{"name", e.name}, {"kind", e.kind}, {"dtype", rlx::name_of(e.dtype)}, {"shape", e.shape}});
    const nlohmann::ordered_json all = {{"version", f.file.version()},
                                        {"byte_order", is_big ? "big" : "little"},
                                        {"alignment", f.file.alignment()},
                                        {"paths", f.file.paths()},
                                        {"tensors", tensors}};
    std::string text = all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    text.pop_back();
    f.json = text + ",\"metadata\":" + rlx::gguf_json(f.file.metadata()) + "}";
    result = f.json.c_str();
  });
}
rlx_status rlx_gguf_tensor(const rlx_gguf* file, const char* name, const char* dtype, rlx_tensor** tensor,
                           rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(tensor, "tensor");
    rlx::Tensor t = required(file, "file").file.tensor(required_text(name, "name"));
    if (dtype && rlx::is_block(t.dtype())) t = rlx::dequantized(t, rlx::dtype_named(dtype));
    result = new rlx_tensor{std::move(t)};
  });
}
rlx_status rlx_gguf_write(const char* path, const char* const* names, const rlx_tensor* const* values, size_t count,
                          const char* metadata, const char* options, rlx_error** error) {
  return guarded(error, [&] {
    const std::string to = required_text(path, "path");
    std::vector<std::pair<std::string, rlx::Tensor>> tensors;
    for (auto& [name, value] : named(names, values, count)) tensors.emplace_back(name, value);
    const auto o = options ? read_over(GgufWriteText{}, options, "options") : GgufWriteText{};
    if (o.version < 1 || o.version > 3)
      rlx::fail(rlx::ErrorCode::invalid_argument, "version is ", o.version, "; it is 1, 2 or 3");
    if (o.most_part_bytes < 0)
      rlx::fail(rlx::ErrorCode::invalid_argument, "most_part_bytes is ", o.most_part_bytes, "; it is 0 or more");
    rlx::write_gguf(to, tensors, metadata ? rlx::parse_gguf_json(metadata) : rlx::GgufMetadata{},
                    {static_cast<uint32_t>(o.version), o.big_endian ? std::endian::big : std::endian::little,
                     static_cast<uint64_t>(o.most_part_bytes)});
  });
}
void rlx_gguf_free(rlx_gguf* file) { delete file; }

}  // extern "C"
