// What `rlx train` trains: four small models that fit the data they are given, or a graph from a file.
#pragma once

#include <functional>

#include "rlx/data.h"
#include "rlx/graph.h"
#include "rlx/train.h"
#include "tools/train/settings.h"

namespace rlx::tools {

/// Where examples come from, and which of them are for testing; `test` may be absent.
struct TrainData {
  std::shared_ptr<const Dataset> train, test;
  std::vector<Type> types;  ///< of one batch, with the first dim unknown, as `names` has them
  std::vector<std::string> names;
  std::string columns = {};  ///< what became of columns of CSV files, for a person; empty: they are as they were
};

/// Characters and their numbers.
struct Characters {
  std::vector<std::string> all;  ///< each one character in UTF-8, sorted
  /// i32[n]; fails for a character that is not there.
  Tensor encode(std::string_view text) const;
};

/// Outputs: the loss, a mean over the batch, then scalars; those called "correct" count right answers.
struct TrainModel {
  Graph loss;
  Graph tested;  ///< the same outputs, without dropout
  /// Of linear, mlp and cnn: from input x to output y, what the answers are compared with.
  std::optional<Graph> answering;
  std::map<std::string, std::string, std::less<>> written;  ///< as TrainConfig has it
  std::vector<ParamGroup> groups;                           ///< before those of the settings
  NamedTensors initial;
  NamedTensors beside;  ///< of the file of --params: what is no param of the loss, but may be one of its quantizers
  TrainData data;
  int64_t answers = 0;  ///< what "correct" counts, an example; 0: there is no such output
  std::string images;   ///< the input that --shift moves; empty: none
  std::string bytes;    ///< what --byte-scale multiplies, and by what, for a person; empty: nothing
  /// Of char_lm: inputs x i32[1, context] and key u32[2]; output: for each place the character that is drawn to follow.
  std::optional<Graph> writer;
  Characters characters;
};

/// Builds the model that the settings name, for the data that they name.
TrainModel make_model(const TrainSettings& settings);
/// That of char_lm.
TrainModel language_model(const TrainSettings& settings);
/// x with dropout, if there is a key: one of its own for each place of a graph.
Value dropped(Value x, Value key, uint32_t place, double rate);
/// Fails naming what is left of the file of --params that nothing takes.
void require_nothing_beside(const TrainModel& model);

}  // namespace rlx::tools
