// What training reports while it runs: metrics as lines of JSON, curves as pictures, and when to stop. Neighbour:
// rlx/train.h, which gives the numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rlx {

/// A file with one JSON object per line (JSON Lines). It is complete after each `write`.
class MetricsLog {
 public:
  using Value = std::variant<int64_t, double, std::string>;
  using Line = std::vector<std::pair<std::string, Value>>;

  /// Continues the file at `path`, or begins one. Lines whose "step" is above `keep_steps` are removed first, because a
  /// run that continues from a checkpoint writes them again. Fails on a line that is no JSON object.
  explicit MetricsLog(const std::string& path, int64_t keep_steps = 0);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;
  /// Writes a line. Values for which JSON has no number become null.
  void write(const Line& line);

 private:
  struct File;
  std::unique_ptr<File> file_;
};

/// Points (x, y), sorted by x. A y that is not finite is a gap in the curve.
struct Curve {
  std::string name;
  std::vector<double> x, y;
};
/// Reads the curve of `metric` over "step" from a metrics file. Lines that lack one of the two are left out.
Curve read_curve(const std::string& path, const std::string& metric);

struct CurveOptions {
  std::string title = {}, x_label = "step", y_label = "loss";
  bool log_y = false;  ///< where every y is positive
};
/// An SVG picture of the curves, with axes and names.
std::string curves_svg(std::span<const Curve> curves, const CurveOptions& options = {});

/// Decides when to stop, by a measure that should fall.
class EarlyStop {
 public:
  /// Stops after `patience` measurements in a row that are not below the best one by more than `least_gain`.
  explicit EarlyStop(int64_t patience, double least_gain = 0) : patience_(patience), least_gain_(least_gain) {}
  /// Takes a measurement and returns whether it is the best so far. NaN never is.
  bool improves(double measure);
  bool should_stop() const { return patience_ > 0 && without_gain_ >= patience_; }
  double best() const { return best_; }

  /// The state as text, to be stored with a checkpoint.
  std::string state() const;
  void restore(std::string_view state);

 private:
  int64_t patience_, without_gain_ = 0;
  double least_gain_, best_ = 0;
  bool any_ = false;
};

}  // namespace rlx
