// The C ABI of low-rank adapters; see rlx/c.h.
#include <nlohmann/json.hpp>

#include "c_api/handles.h"
#include "rlx/lora.h"

struct rlx_lora {
  rlx::Lora lora;
  std::string json = {};
};

namespace {

using namespace rlx::c;
using rlx::field;

struct LoraText {
  std::vector<std::string> targets;
  int64_t rank = 8;
  double alpha = 8;
  RLX_FIELDS(LoraText, field("targets", &LoraText::targets), field("rank", &LoraText::rank),
             field("alpha", &LoraText::alpha));
};

}  // namespace

extern "C" {

rlx_status rlx_lora_add(const rlx_graph* graph, const char* config, rlx_lora** lora, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(lora, "lora");
    const auto c = read_over(LoraText{}, required_text(config, "config"), "config");
    result = new rlx_lora{rlx::add_lora(required(graph, "graph").graph, {c.targets, c.rank, c.alpha})};
  });
}
rlx_status rlx_lora_graph(const rlx_lora* lora, rlx_graph** graph, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(graph, "graph");
    result = new rlx_graph{required(lora, "lora").lora.graph, {}};
  });
}
rlx_status rlx_lora_describe(rlx_lora* lora, const char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    auto& l = required(lora, "lora");
    nlohmann::ordered_json modules = nlohmann::ordered_json::array(), groups = nlohmann::ordered_json::array();
    for (const rlx::Lora::Module& m : l.lora.modules)
      modules.push_back(
          {{"name", m.name}, {"weight", m.weight.name}, {"in", m.in}, {"out", m.out}, {"a", m.a}, {"b", m.b}});
    for (const rlx::ParamGroup& g : l.lora.groups()) groups.push_back({{"params", g.params}, {"frozen", g.frozen}});
    const nlohmann::ordered_json all = {{"scale", l.lora.scale()}, {"modules", modules}, {"groups", groups}};
    l.json = all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    result = l.json.c_str();
  });
}
rlx_status rlx_lora_initial(rlx_lora* lora, uint64_t seed, const char** made_names, rlx_tensor** made, size_t room,
                            size_t* count, rlx_error** error) {
  return guarded(error, [&] {
    auto& l = required(lora, "lora");
    store_named(l.lora.initial(seed), l.json, made_names, made, room, count);
  });
}
rlx_status rlx_lora_load(rlx_lora* lora, const char* path, const char** made_names, rlx_tensor** made, size_t room,
                         size_t* count, rlx_error** error) {
  return guarded(error, [&] {
    auto& l = required(lora, "lora");
    store_named(rlx::load_lora(required_text(path, "path"), l.lora), l.json, made_names, made, room, count);
  });
}
rlx_status rlx_lora_merge(rlx_lora* lora, const char* const* names, const rlx_tensor* const* params, size_t param_count,
                          const char** made_names, rlx_tensor** made, size_t room, size_t* count, rlx_error** error) {
  return guarded(error, [&] {
    auto& l = required(lora, "lora");
    store_named(rlx::merge_lora(l.lora, params_from(names, params, param_count)), l.json, made_names, made, room,
                count);
  });
}
rlx_status rlx_lora_save(const rlx_lora* lora, const char* path, const char* const* names,
                         const rlx_tensor* const* params, size_t param_count, rlx_error** error) {
  return guarded(error, [&] {
    rlx::save_lora(required_text(path, "path"), required(lora, "lora").lora, params_from(names, params, param_count));
  });
}
void rlx_lora_free(rlx_lora* lora) { delete lora; }

}  // extern "C"
