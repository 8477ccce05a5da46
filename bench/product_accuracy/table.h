// Every distribution of rows with every one of weights, for every size of an op.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/product_accuracy/comparison.h"

namespace rlx::accuracy {

struct TableOptions {
  double limit = 4;
  std::string rows, weights;  ///< these distributions alone
  std::string csv;            ///< every cell to this file
};
/// Prints a table for each op. Returns how many cells of ours are beyond the limit.
int64_t print_tables(std::span<const Op* const> ops, const std::vector<Way>& ways, const TableOptions& options);

}  // namespace rlx::accuracy
