// What training tells on its way: metrics as lines of JSON, curves as pictures, and when to stop. Neighbour:
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

/// A file with a JSON object a line (JSON Lines), complete after each `write`.
class MetricsLog {
 public:
  using Value = std::variant<int64_t, double, std::string>;
  using Line = std::vector<std::pair<std::string, Value>>;

  /// Goes on with the file at `path`, or begins one. Lines whose "step" is above `keep_steps` are taken out first: a
  /// run that goes on from a checkpoint writes them again. Fails on a line that is no JSON object.
  explicit MetricsLog(const std::string& path, int64_t keep_steps = 0);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;
  /// What JSON has no number for becomes null.
  void write(const Line& line);

 private:
  struct File;
  std::unique_ptr<File> file_;
};

/// Points (x, y), in the order of x. What is no finite number is a gap.
struct Curve {
  std::string name;
  std::vector<double> x, y;
};
/// Reads the curve of `metric` over "step" from a metrics file: its lines that have both.
Curve read_curve(const std::string& path, const std::string& metric);

struct CurveOptions {
  std::string title = {}, x_label = "step", y_label = "loss";
  bool log_y = false;  ///< where every y is positive
};
/// The curves in one picture, with axes and their names.
std::string curves_svg(std::span<const Curve> curves, const CurveOptions& options = {});

/// Whether to go on: a measure that falls is good.
class EarlyStop {
 public:
  /// Stops after `patience` measurements in a row that are not below the best one by more than `least_gain`.
  explicit EarlyStop(int64_t patience, double least_gain = 0) : patience_(patience), least_gain_(least_gain) {}
  /// Takes a measurement; whether it is the best so far. NaN never is.
  bool improves(double measure);
  bool should_stop() const { return patience_ > 0 && without_gain_ >= patience_; }
  double best() const { return best_; }

  /// For a checkpoint's notes.
  std::string state() const;
  void restore(std::string_view state);

 private:
  int64_t patience_, without_gain_ = 0;
  double least_gain_, best_ = 0;
  bool any_ = false;
};

}  // namespace rlx
