// See the header.
#include "backends/null/null.h"

namespace rlx::null {
namespace {

class NullProgram final : public Program {
 public:
  explicit NullProgram(Graph legal) : graph_(std::move(legal)) {}
  const Graph& graph() const override { return graph_; }
  std::unique_ptr<Executable> load(const LoadOptions&) const override {
    fail(ErrorCode::unsupported, "the null device runs nothing: it is for dispatch reports");
  }

 private:
  Graph graph_;
};

class Null final : public Backend {
 public:
  std::string name() const override { return "null"; }
  std::string description() const override { return "claims every primitive, runs none"; }
  std::string unavailable() const override { return "it claims every primitive and runs none; use it for reports"; }
  Target target() const override {
    return {"null", [](const Question& q) -> std::optional<std::string> {
              if (q.node.op->is_primitive()) return std::nullopt;
              return "composites are left to their decomposition";
            }};
  }
  std::string no_native_update() const override { return "the null device runs nothing"; }
  std::unique_ptr<Program> lower(Graph legal) const override { return std::make_unique<NullProgram>(std::move(legal)); }
};

}  // namespace

std::unique_ptr<Backend> make_backend() { return std::make_unique<Null>(); }

}  // namespace rlx::null
