// The table of handlers.
#include "frontends/mil/handlers.h"

namespace rlx::mlprogram {
namespace {
constexpr Handler kHandlers[] = {
#define MIL_ONE(name) {#name, lower_##name, false},
#define MIL_WIDE(name) {#name, lower_##name, true},
#include "frontends/mil/mil_ops.def"
#undef MIL_ONE
#undef MIL_WIDE
};
}  // namespace

const Handler* find_handler(std::string_view op) {
  for (const Handler& h : kHandlers)
    if (h.name == op) return &h;
  return nullptr;
}

std::vector<std::string_view> handled_ops() {
  std::vector<std::string_view> all;
  for (const Handler& h : kHandlers) all.push_back(h.name);
  return all;
}

}  // namespace rlx::mlprogram
