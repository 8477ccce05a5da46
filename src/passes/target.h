// What a device is to the compiler, as data: which nodes it takes, what it likes, and the passes of its own. A target
// needs no hardware: a graph can be compiled for any of them anywhere.
#pragma once

#include "ir/rewrite.h"
#include "rlx/report.h"

namespace rlx {

/// What a target is asked about: a node and the types of its operands, which may be symbolic.
struct Question {
  const Node& node;
  Types operands;
  /// Whether the elements of an operand are known before any input is (`is_weight` in passes/bound_values.h). Nothing
  /// is known of any if there is no function.
  std::function<bool(size_t)> is_weight = {};
};

/// Another shape with the same meaning, for a target that takes an op only in some shape (a softmax whose axis is not
/// the last, transposed around one whose axis is).
struct Rewriting {
  const OpDef* op;
  bool (*applies)(const Question&);
  std::vector<Value> (*build)(Graph&, Values, const Attrs&);
  std::string_view what;
};

/// A pass of a target's own: seen in dumps as the shared ones are, and never skipped. The name lives as long as the
/// process.
struct Pass {
  std::string_view name;
  std::function<Graph(const Graph&)> run;
};

/// What a target cannot hold, whatever the node. It is read when a graph is compiled, before any kernel is made.
struct Limits {
  size_t buffers_per_launch = 0;          ///< operands and results of a node; 0: any number
  uint64_t largest_buffer = 0;            ///< bytes of an operand or a result; 0: any number
  int index_bits = 64;                    ///< of an element's index
  std::vector<DType> absent_dtypes = {};  ///< which no operand, result, input or output has

  /// Why a value of that type cannot be there. Of a type that is not static: what is known without the sizes.
  std::optional<std::string> refusal(const Type&) const;
};

struct NextStage;

struct Target {
  std::string name;  ///< as devices are spelled
  /// Nothing if the target takes the node, else why not.
  std::function<std::optional<std::string>(const Question&)> refusal;
  /// Asked before `refusal`.
  Limits limits = {};
  std::span<const Rewriting> rewritings = {};
  /// Whether a node that it takes runs there by the op's reference; nothing if none does.
  std::function<bool(const Question&)> interprets = {};
  /// What the report says of a node that it takes, where there is something to say: a kernel from outside the library.
  std::function<std::string(const Question&)> remark = {};
  /// What the report says of a graph that is legal, beside what it says of nodes (DispatchReport::notes).
  std::vector<std::string> (*notes)(const Graph&) = nullptr;
  /// What the report says behind the name: who runs it.
  std::string detail = {};

  /// Why an input or an output cannot be of that type. Null: as for nodes.
  std::function<std::optional<std::string>(const Type&)> boundary_refusal = {};

  // Which of the shared passes serve it beside those that serve all targets; compile/pipeline.cpp has the list.
  /// Whether an element-wise node, which it takes, may be part of an elementwise_region. Nothing: it has no regions.
  std::function<bool(const Node&)> fuses_elementwise = {};
  /// Whether a convolution and what follows it are one kernel.
  bool fuses_convolutions = false;
  /// Whether such convolutions are fastest where channels stand last.
  bool prefers_channels_last = false;

  /// The float that its products are faster in than in f32; f32 if there is none.
  DType fast_float = f32;

  /// Run before the shared passes.
  std::vector<Pass> first = {};
  /// For a target that takes nodes in a form that has to be taken apart: how that is done. Nothing: what is legal
  /// stays.
  std::shared_ptr<const NextStage> next = {};
  /// For a device without numbers of 64 bits: what it is where those may become of 32 (CompileOptions::narrow).
  std::shared_ptr<const Target> narrowed = {};

  /// Whether an input that is donated and the output of its name are one buffer where nothing reads the old value
  /// later.
  bool updates_in_place = false;

  /// Why the node is not taken, by the limits or by the claims; nothing if it is.
  std::optional<std::string> refuses(const Question&) const;
};

/// After a graph is legal for a target, and where `is_needed` says so, `passes` run and the result is made legal for
/// `target`. What is missing there is added to the report of the first target, which keeps its other lines.
struct NextStage {
  bool (*is_needed)(const Graph&);
  std::vector<Pass> passes;
  Target target;
  /// What the passes will leave as it is, and the target not take, as lines of the report: known before they run, while
  /// the graph is still what its maker wrote. Null: nothing.
  std::vector<DispatchLine> (*missing)(const Graph&) = nullptr;
  /// The stage is run to learn what is missing in it, and what is lowered is the graph before it. For a backend that
  /// takes apart inputs and outputs too, and does so once it has the values of params.
  bool is_only_checked = false;
};

}  // namespace rlx
