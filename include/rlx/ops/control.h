// Ops whose attributes hold sub-graphs that run conditionally, repeatedly or with derivatives of their own, and
// barriers. Sub-graphs are closed: what they capture is an operand, and an input of each of them.
#pragma once

#include "rlx/ops/op.h"

namespace rlx {

namespace op {
extern const OpDef if_else, while_loop, scan, checkpointed_scan, call, remat, custom_fn, optimization_barrier;
}  // namespace op

struct IfAttrs {
  Subgraph then_branch, else_branch;  ///< captured operands -> results
  RLX_FIELDS(IfAttrs, field("then_branch", &IfAttrs::then_branch), field("else_branch", &IfAttrs::else_branch));
};
/// Runs one branch on `captured`. `condition` is bool[]; the branches agree in their inputs' and results' types.
std::vector<Value> if_else(Value condition, std::vector<Value> captured, Graph then_branch, Graph else_branch);

struct WhileAttrs {
  int64_t carries = 1;       ///< the first so many operands change from trip to trip; the rest are captured
  Subgraph condition, body;  ///< carries, captured -> bool[]; carries, captured -> carries
  std::optional<int64_t> max_trips = {};  ///< the loop ends there at the latest; reverse mode needs it
  RLX_FIELDS(WhileAttrs, field("carries", &WhileAttrs::carries), field("condition", &WhileAttrs::condition),
             field("body", &WhileAttrs::body), field("max_trips", &WhileAttrs::max_trips));
};
/// `body` applied to the carries while `condition` holds. Operands: the carries, then what both capture. Returns the
/// carries.
std::vector<Value> while_loop(std::vector<Value> operands, WhileAttrs attrs);

struct ScanAttrs {
  int64_t carries = 0, xs = 0;
  Dim length = {};
  bool reverse = false;  ///< from the last slice to the first; ys are stacked where their xs were
  Subgraph body = {};    ///< carries, one slice of each of the xs, captured -> carries, one slice of each of the ys
  RLX_FIELDS(ScanAttrs, field("carries", &ScanAttrs::carries), field("xs", &ScanAttrs::xs),
             field("length", &ScanAttrs::length), field("reverse", &ScanAttrs::reverse),
             field("body", &ScanAttrs::body));
};
/// `body` over the slices of the xs along dim 0, carrying the carries. Operands: carries, xs, captured. Returns the
/// last carries, then the ys of all steps, stacked along dim 0.
std::vector<Value> scan(Graph& g, std::vector<Value> operands, ScanAttrs attrs);

/// Which steps' carries reverse mode keeps; what it does not keep, it computes again.
enum class Checkpointing { all, every, sqrt, recursive };
constexpr std::array<std::string_view, 4> names_of(Checkpointing) { return {"all", "every", "sqrt", "recursive"}; }
struct CheckpointedScanAttrs {
  int64_t carries = 0, xs = 0;
  Dim length = {};
  bool reverse = false;
  Subgraph body = {};
  Checkpointing checkpointing = Checkpointing::sqrt;
  int64_t every = 1;  ///< of `every`: the carries of each so many steps are kept
  RLX_FIELDS(CheckpointedScanAttrs, field("carries", &CheckpointedScanAttrs::carries),
             field("xs", &CheckpointedScanAttrs::xs), field("length", &CheckpointedScanAttrs::length),
             field("reverse", &CheckpointedScanAttrs::reverse), field("body", &CheckpointedScanAttrs::body),
             field("checkpointing", &CheckpointedScanAttrs::checkpointing),
             field("every", &CheckpointedScanAttrs::every));
};
/// A scan of a static length n whose reverse mode keeps the carries of every k-th step (memory n/k + k), of every
/// sqrt(n)-th, or by halving (memory log n, time n log n) instead of all of them.
std::vector<Value> checkpointed_scan(Graph& g, std::vector<Value> operands, ScanAttrs attrs,
                                     Checkpointing checkpointing, int64_t every = 1);

struct CallAttrs {
  Subgraph body;
  RLX_FIELDS(CallAttrs, field("body", &CallAttrs::body));
};
/// The results of `body` on these operands.
std::vector<Value> call(std::vector<Value> operands, Graph body);
/// The same; reverse mode keeps only the operands and computes what is inside again (rematerialization).
std::vector<Value> remat(std::vector<Value> operands, Graph body);

struct CustomFnAttrs {
  Subgraph forward;  ///< inputs -> outputs
  Subgraph
      backward;  ///< inputs, outputs, cotangents of the float outputs -> cotangents of the float inputs; may be absent
  Subgraph tangent;  ///< inputs, tangents of the float inputs -> tangents of the float outputs; may be absent
  RLX_FIELDS(CustomFnAttrs, field("forward", &CustomFnAttrs::forward), field("backward", &CustomFnAttrs::backward),
             field("tangent", &CustomFnAttrs::tangent));
};
/// `forward`, with derivatives given by its author (custom_vjp, custom_jvp). Reverse mode transposes `tangent` where
/// there is no `backward`; forward mode transposes `backward` where there is no `tangent`. One of them must be given.
std::vector<Value> custom_fn(std::vector<Value> operands, CustomFnAttrs attrs);

/// The operands, unchanged; no pass moves, merges or removes anything across it.
std::vector<Value> optimization_barrier(std::vector<Value> xs);

}  // namespace rlx
