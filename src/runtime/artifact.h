// A compiled graph as a file: what stands in it, and how it is written, read and turned into a program again. The
// format is in artifact.cpp. Files are hostile input.
#pragma once

#include "backends/backend.h"
#include "ir/text.h"
#include "rlx/artifact.h"

namespace rlx {

struct Artifact {
  ArtifactInfo info;
  GraphFile source;  ///< what was compiled
  Payload program;   ///< what came of it
  NamedTensors params;

  /// The graph that was compiled. Fails if it is not of the signature that `info` states.
  Graph source_graph() const;
};

/// Of a program that `backend` lowered; `signature` has the modes. Without params.
Artifact artifact_of(const Graph& source, const Program& program, const Backend& backend, const Signature& signature,
                     const CompileOptions& options, const DispatchReport& report);
void write_artifact(const std::string& path, const Artifact& artifact);
/// All of a file. Fails if it is damaged, or of another version of the format.
Artifact read_artifact(const std::string& path);

/// Fails unless the artifact was compiled by this version, for this backend as it is here, and for ops and kernels that
/// are here; the message names what differs, both values and what to do. Nothing of its program is read.
void require_same_target(const ArtifactInfo& info, const Backend& backend);
/// The backend that reads and writes programs of this report: of a split graph one that stands for all its devices.
/// `main` is held to the instruction set `isa` (CompileOptions::isa), if it takes one; so are the others. Fails if this
/// build has not one of them.
std::shared_ptr<const Backend> backend_for(const DispatchReport& report, const std::shared_ptr<const Backend>& main,
                                           const std::string& isa);
/// Its program on this backend, after all checks.
std::unique_ptr<Program> program_of(const Artifact& artifact, const Backend& backend);

}  // namespace rlx
