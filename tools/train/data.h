// The data of `rlx train`: files named for the inputs of a model.
#pragma once

#include "rlx/data.h"
#include "tools/train/csv_columns.h"
#include "tools/train/settings.h"

namespace rlx::tools {

/// What a source names, by how it ends: FILE.npy; FILE.npz:ARRAY; FILE.safetensors:TENSOR; else an IDX file.
Tensor read_source(const std::string& source);
/// An array for each input; of several files the arrays behind one another. FILE.csv:COLUMN,... is read by `csv`.
NamedTensors read_sources(const Sources& sources, CsvColumns& csv);
/// The texts behind one another, of a folder those of its .md and .txt files in the order of their paths.
std::string read_texts(const Strings& sources);

}  // namespace rlx::tools
