// Compiled graphs, kept: in memory for as long as the session lives, and on disk if a folder is named, each in a file
// as CompiledGraph::save writes it (runtime/artifact.h). The key is the content of the graph and of the options; a hit
// compares the graphs.
#pragma once

#include <mutex>

#include "backends/backend.h"
#include "rlx/compile.h"

namespace rlx {

struct CachedProgram {
  std::shared_ptr<const Program> program;
  DispatchReport report;
  std::string key;
};

ExecutionConfig config_of(const Graph& g, const Backend& backend, const CompileOptions& options);

class ProgramCache {
 public:
  /// Fails as compiling does.
  std::shared_ptr<const CachedProgram> find_or_make(const Graph& g, const std::shared_ptr<const Backend>& backend,
                                                    const CompileOptions& options);

 private:
  struct Entry {
    std::string key;
    Graph graph;
    std::shared_ptr<const CachedProgram> program;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;  // the latest last
};

}  // namespace rlx
