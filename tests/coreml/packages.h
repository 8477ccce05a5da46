// What the tests that write packages share.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "rlx/coreml_model.h"
#include "rlx/element.h"
#include "support/io_files.h"

namespace rlx::test {

/// A folder for packages: the one that was asked for by RLX_COREML_CASES, for Apple's loader to judge, or one that
/// goes.
class Packages {
 public:
  std::string operator/(const std::string& name) const {
    const char* kept = std::getenv("RLX_COREML_CASES");
    if (!kept) return temporary_ / (name + ".mlpackage");
    std::filesystem::path folder = std::filesystem::path(kept) / ("options." + name);
    std::filesystem::create_directories(folder);
    return (folder / "model.mlpackage").string();
  }

 private:
  TemporaryFolder temporary_;
};

/// Integers are cut off towards 0.
inline Tensor numbers(const Shape& shape, double from = -1, double to = 1, DType dtype = f32) {
  Tensor t(dtype, shape);
  uint64_t state = 42;
  for (size_t i = 0; i < t.element_count(); ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const double value = from + (to - from) * static_cast<double>(state >> 40) / static_cast<double>(1 << 24);
    if (is_integer(dtype)) store<int64_t>(t, i, static_cast<int64_t>(value));
    else store<double>(t, i, value);
  }
  return t;
}

inline double distance(const Tensor& x, const Tensor& y) {
  REQUIRE(x.element_count() == y.element_count());
  double most = 0;
  for (size_t i = 0; i < x.element_count(); ++i) most = std::max(most, std::abs(load_number(x, i) - load_number(y, i)));
  return most;
}

inline Tensor run_one(const std::string& path, const std::vector<NamedTensor>& inputs) {
  return CoremlModel::load(path, {.threads = 1}).predict(inputs).at(0).second;
}

}  // namespace rlx::test
