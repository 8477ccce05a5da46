// A static graph as MLX runs it: pieces of its graph that MLX evaluates, and between them control flow, of which the
// host decides. A graph without control flow is one piece.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/mlx/host_node.h"
#include "backends/mlx/lowerings.h"

namespace rlx::mlx_backend {

/// lazy: a piece is evaluated at once. eager: each node is evaluated before the next is built, so that an error names
/// it. compiled: as lazy, and MLX has compiled the piece. In lazy and compiled mode a piece is built once (replay.h).
enum class Mode { lazy, eager, compiled };
constexpr std::array<std::string_view, 3> names_of(Mode) { return {"lazy", "eager", "compiled"}; }

/// The streams of an executable: `cpu` for host nodes and f64, `any`, a GPU's where there is one, for all else.
struct Streams {
  mx::Stream any, cpu;
  mx::Stream of(bool for_cpu) const { return for_cpu ? cpu : any; }
};

/// What the pieces of an executable share.
struct Context {
  Mode mode;
  Streams streams;
  std::shared_ptr<HostErrors> errors;
  bool is_written = false;  ///< for a function that is written to a file

  /// Packed weights in MLX's form, which all plans share, by the names of their params. Until one is bound anew.
  struct PackedWeights {
    Attrs attrs;
    std::vector<mx::array> parts;
  };
  mutable std::map<std::string, PackedWeights> packed = {};  // with the lock of the stream
};

class Plan {
 public:
  /// `params` by name: each that the graph reads. Sub-graphs have none.
  using Params = std::function<mx::array(const std::string& name)>;
  Plan(const Graph& fixed, std::shared_ptr<const Context> context, const Params& params);
  Plan(Plan&&) noexcept;
  ~Plan();
  /// The outputs. Some may not be evaluated yet: `evaluate` comes before they are read.
  std::vector<mx::array> run(std::vector<mx::array> inputs, const RunOptions& options) const;
  /// Fails, naming the node, unless all of it are operations of MLX's: no control flow, nothing on the host.
  void require_operations() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

/// Evaluates; an error of MLX's or of a host node arrives as an rlx::Error.
void evaluate(const std::vector<mx::array>& arrays, const Context& context);

}  // namespace rlx::mlx_backend
