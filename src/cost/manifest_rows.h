// A manifest as rows to be read: the picture and the table of `rlx inspect --manifest` show the same ones.
#pragma once

#include "rlx/manifest.h"

namespace rlx {

struct ManifestRow {
  std::string label;  ///< "attention.self"; of several layers "0 … 5"; of ops that stand for themselves, their names
  size_t depth = 0;
  size_t times = 1;           ///< layers that the row stands for, those around it included
  ManifestTotals each;        ///< of one of them
  std::string ops;            ///< "linear x3, attention", of nodes within it; the most frequent ones first
  std::vector<Type> outputs;  ///< of one
  bool has_rows = false;      ///< what it has within follows
  bool is_rest = false;       ///< stands for further rows that are not shown
};

/// The layers as a tree, from the outside in, at most `most` rows. One within another that has nothing else is one row
/// with it. Layers in a row that differ in numbers of their names alone are one row. If there are still too many, what
/// is deep is left out; the outermost row has all of it.
std::vector<ManifestRow> manifest_rows(const Manifest& m, size_t most);

/// "22.7 M"
std::string short_amount(double v);
/// "90.9 MB"
std::string byte_amount(double v);

}  // namespace rlx
