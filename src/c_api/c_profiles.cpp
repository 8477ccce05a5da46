// Manifests and execution profiles for C: text in, text out.
#include <nlohmann/json.hpp>

#include "c_api/handles.h"
#include "rlx/execution_profile.h"
#include "rlx/manifest.h"

using namespace rlx::c;
using rlx::ErrorCode;
using rlx::fail;

extern "C" {

rlx_status rlx_graph_manifest(const rlx_graph* graph, const char* numbers, const char* format, char** text,
                              rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(text, "text");
    const std::string wanted = required_text(format, "format");
    if (wanted != "json" && wanted != "svg")
      fail(ErrorCode::invalid_argument, "format is '", wanted, "'; it is json or svg");
    const rlx::Manifest m = rlx::manifest_of(required(graph, "graph").graph, bindings_from(numbers));
    result = own_text(wanted == "json" ? m.json() : m.svg());
  });
}

rlx_status rlx_profile_phases(const char* path, char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    auto names = nlohmann::json::array();
    for (const auto& phase : rlx::ExecutionProfile::load(required_text(path, "path")).phases)
      names.push_back(phase.first);
    result = own_text(names.dump());
  });
}

rlx_status rlx_profile_options(const char* path, const char* phase, char** json, rlx_error** error) {
  return guarded(error, [&] {
    auto& result = required(json, "json");
    const auto profile = rlx::ExecutionProfile::load(required_text(path, "path"));
    const std::string name = phase ? phase : "";
    const rlx::ExecutionOptions o = profile.options(name);
    const rlx::ExecutionSettings& s = profile.phase(name);
    const auto name_of_choice = [](auto choice) { return std::string(names_of(choice)[static_cast<size_t>(choice)]); };
    auto placement = nlohmann::json::array();
    for (const rlx::Placement& each : o.compile.placement) placement.push_back({each.nodes, each.device});
    auto passed_over = nlohmann::json::array();
    for (const std::string& each : o.passed_over) passed_over.push_back(rlx::printable_text(each));
    const nlohmann::ordered_json all = {{"phase", o.phase},
                                        {"device", o.device.name()},
                                        {"passed_over", passed_over},
                                        {"threads", o.session.threads},
                                        {"narrow", o.session.narrow},
                                        {"shapes", nlohmann::json(o.shapes)},
                                        {"bounds", nlohmann::json(o.compile.bounds)},
                                        {"compile",
                                         {{"strict", o.compile.strict},
                                          {"accuracy", name_of_choice(o.compile.accuracy)},
                                          {"batch_invariant", o.compile.batch_invariant},
                                          {"rounding", name_of_choice(o.compile.rounding)},
                                          {"kernel_dispatch", name_of_choice(o.compile.kernel_dispatch)},
                                          {"mode", name_of_choice(o.compile.mode)},
                                          {"compute", name_of_choice(o.compile.compute)},
                                          {"isa", o.compile.isa},
                                          {"fallback", o.compile.fallback},
                                          {"placement", placement}}},
                                        {"cache", std::string(rlx::name_of(s.cache))},
                                        {"context", s.context},
                                        {"chunk", s.chunk}};
    result = own_text(all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  });
}

}  // extern "C"
