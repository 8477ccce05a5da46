// Compiled graphs in files: written by CompiledGraph::save or `rlx compile`, run again by Session::load or `rlx run`
// without the compiler. docs/runtime.md, "Compiled graphs in files", has the format.
#pragma once

#include <cstdint>

#include "rlx/session.h"

namespace rlx {

/// How names of such files end. Files of any name are recognized by what they hold.
constexpr std::string_view kArtifactSuffix = ".rlxc";

/// What a file of a compiled graph says of itself. It may have been written for another machine or version: this is
/// read without the device, and without its graph.
struct ArtifactInfo {
  std::string graph;              ///< the graph's name
  std::string device;             ///< that it was compiled for, as devices are spelled
  std::string version;            ///< of the RLX that compiled it
  std::vector<TargetFact> facts;  ///< about the device it was compiled on; it loads only where all are equal
  std::vector<std::string> ops;   ///< that it uses, each of which has to be known where it is loaded
  std::vector<std::string> registered_kernels;  ///< that run nodes of it: "op by 'name'"
  Signature signature;
  CompileOptions options;  ///< it was compiled with, but for cache_dir
  DispatchReport report;
  std::string form;                 ///< of its program: "graph", the legal graph, or a backend's own
  std::vector<std::string> params;  ///< whose values are in the file
  uint64_t bytes = 0;               ///< of the file

  std::string json() const;
};

/// Fails if the file is not a compiled graph, is damaged, or has another version of the format.
ArtifactInfo artifact_info(const std::string& path);
/// Whether a file claims to be a compiled graph: by how its name ends, or by its metadata. False for what is not a
/// readable regular file.
bool is_artifact(const std::string& path);
/// The graph that it was compiled from, to be compiled for another device or by another version.
Graph artifact_graph(const std::string& path);
/// The values of params that it carries, by name.
std::map<std::string, Tensor, std::less<>> artifact_params(const std::string& path);

}  // namespace rlx
