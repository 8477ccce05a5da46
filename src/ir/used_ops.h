// Which ops a program uses: what a library with the ops of some models alone has to hold (`rlx ops --used-by`).
#pragma once

#include <mutex>
#include <set>

#include "rlx/op_def.h"

namespace rlx {

/// Notes, while it exists, each op of which a node is made or a type is inferred, on any thread: those of a graph, what
/// they are decomposed into, and what passes put in their places. One at a time.
class UsedOps {
 public:
  UsedOps();
  ~UsedOps();
  UsedOps(const UsedOps&) = delete;
  UsedOps& operator=(const UsedOps&) = delete;
  std::set<std::string_view> names() const;

  void note(const OpDef& op);  ///< called by infer_types

 private:
  mutable std::mutex mutex_;
  std::set<std::string_view> names_;
};

}  // namespace rlx
