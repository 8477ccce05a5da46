// A folder for the outputs of a graph, <name>.npy each: checked before the graph runs, written after.
#pragma once

#include <string>
#include <vector>

#include "rlx/session.h"

namespace rlx::tools {

class OutputFolder {
 public:
  /// Makes the folder if it is not there. Fails if it cannot be written, or if an output cannot: its name is no file
  /// name, its dtype is none of NumPy's.
  OutputFolder(const std::string& path, const std::vector<Signature::Entry>& outputs);
  /// Removes the folders that the constructor made, if nothing was written.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  void write(const std::vector<Tensor>& results);

 private:
  void remove_made();
  std::string path_;
  std::vector<std::string> files_;
  std::string made_;  // the outermost folder that was not there before
};

}  // namespace rlx::tools
