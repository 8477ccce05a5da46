// One judge for all devices: what a device says of a graph, and what it computes, beside the reference interpreter.
#pragma once

#include <set>

#include "judge/cases.h"
#include "rlx/session.h"

namespace rlx {

enum class Judgement {
  agrees,   ///< the report takes it, it runs, and the numbers are the reference's
  refused,  ///< the report names what is missing, and compiling fails with it
  wrong,  ///< the numbers are others, it does not run, or the report says something else than compiling and running do
};
constexpr std::array<std::string_view, 3> names_of(Judgement) { return {"agrees", "refused", "wrong"}; }

struct Judged {
  Judgement judgement = Judgement::agrees;
  std::string why = {};  ///< of what is refused or wrong
  /// The largest |got - wanted| / (1 + |wanted|) of what agrees.
  double error = 0;
  /// How the node runs that this was about: the least native of its lines in the report.
  Verdict verdict = Verdict::native;
};

/// What the numbers of a graph are held to.
enum class HeldTo {
  reference,  ///< what the reference makes of the graph, within the tolerance of each dtype
  /// Near that or, for results of f32, near what the reference computes in f64 from the same inputs, where the
  /// tolerance has a few times f32's own error added (tolerance.h): for gradients, whose sums cancel.
  reference_or_f64
};

/// Runs a graph in some way, on inputs in its order.
using GraphRunner = std::function<std::vector<Tensor>(const Graph&, Tensors)>;

/// How the numbers of a graph's inputs reach it: given to each run, or bound as params before the first one. A device
/// may know more of a param, and has to say the same of it before and after it is bound.
enum class GivenAs { inputs, params };

/// The graph on a device, once for each number of threads (once in all on mlx, which heeds none): report, compile and
/// run must give one answer, and that must be the reference's within the tolerance of each dtype.
Judged judge(const Graph& g, Tensors inputs, const Device& device, std::span<const int> threads,
             HeldTo held = HeldTo::reference, GivenAs given = GivenAs::inputs, const CompileOptions& options = {});
/// The same for what runs graphs in a way of its own and refuses none. An rlx::Error out of `run` is wrong.
Judged judge(const Graph& g, Tensors inputs, const GraphRunner& run, HeldTo held = HeldTo::reference);

/// The op's results and the gradients of all differentiable operands, as one graph whose inputs are the operands and
/// then the results' cotangents. Nothing for an op or a case that has none.
std::optional<Graph> gradient_of(const OpDef& op, const Case& c);

struct JudgeOptions {
  std::set<std::string> ops = {};     ///< by name; empty: all
  bool gradients = false;             ///< gradients of each case too
  bool params = false;                ///< each case once more with its operands as params
  bool times = false;                 ///< measure how long a run takes
  bool first_sample_only = false;     ///< of each op, in each dtype
  std::vector<int> threads = {1, 3};  ///< runs with each of these
};

/// A case of an op, and how it went.
struct JudgedCase {
  std::string op, operands;
  bool is_gradient = false, are_params = false;
  DType dtype = f64;  ///< of the first operand; f64 if there is none, f32 for a rule of the contract
  Judged judged;
  double microseconds = 0;  ///< of the fastest of some runs on one thread, if times were asked for and it agrees
};

/// Every op's samples in every dtype, on one device, and, if no op was named, the rules of the contract of devices
/// (contract.h) under the name "(contract)". `progress(done, all, op)` is called before each op and behind the
/// last. Fails for a name that is no op's.
std::vector<JudgedCase> judge_device(const Device& device, const JudgeOptions& options = {},
                                     const std::function<void(size_t, size_t, std::string_view)>& progress = {});

}  // namespace rlx
