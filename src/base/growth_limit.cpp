// See the header.
#include "base/growth_limit.h"

#include <cstdint>

#include "rlx/error.h"

namespace rlx {
namespace {

thread_local GrowthLimit* innermost_limit = nullptr;

}  // namespace

GrowthLimit::GrowthLimit(Growth most, std::function<std::string()> what)
    : most_(most), what_(std::move(what)), outer_(innermost_limit) {
  innermost_limit = this;
}
GrowthLimit::~GrowthLimit() { innermost_limit = outer_; }

void GrowthLimit::check() {
  const GrowthLimit* broken = nullptr;
  for (const GrowthLimit* limit = innermost_limit; limit; limit = limit->outer_)
    if (limit->made_.nodes > limit->most_.nodes || limit->made_.bytes > limit->most_.bytes) broken = limit;
  if (!broken) return;
  const bool nodes = broken->made_.nodes > broken->most_.nodes;
  fail(ErrorCode::out_of_memory, broken->what_(), " would be compiled into ",
       nodes ? text_of(broken->made_.nodes, " nodes") : text_of(broken->made_.bytes, " bytes of constants"),
       " or more, and at most ", nodes ? broken->most_.nodes : broken->most_.bytes,
       " are made of it: an attribute or an extent is very large there; make it smaller, or take the operation apart");
}

void GrowthLimit::count_node() {
  bool broken = false;
  for (GrowthLimit* limit = innermost_limit; limit; limit = limit->outer_)
    broken |= ++limit->made_.nodes > limit->most_.nodes;
  if (broken) check();
}
void GrowthLimit::count_table(int64_t count, size_t bytes_each) {
  size_t bytes = 0;
  if (count > 0) count_bytes(__builtin_mul_overflow(static_cast<size_t>(count), bytes_each, &bytes) ? SIZE_MAX : bytes);
}
void GrowthLimit::count_bytes(size_t bytes) {
  bool broken = false;
  for (GrowthLimit* limit = innermost_limit; limit; limit = limit->outer_) {
    if (__builtin_add_overflow(limit->made_.bytes, bytes, &limit->made_.bytes)) limit->made_.bytes = SIZE_MAX;
    broken |= limit->made_.bytes > limit->most_.bytes;
  }
  if (broken) check();
}

}  // namespace rlx
