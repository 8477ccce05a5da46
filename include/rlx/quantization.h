// Quantization of models: ranges that are collected from data, fake quantization that is put into a graph, and the
// graph of 8-bit integers that a graph with fake quantization stands for.
//
//     rlx::QuantizationConfig config;                                     // int8, weights by output channel
//     rlx::Calibration ranges = rlx::calibrate(graph, params, batches, config, {.method = CalibrationMethod::entropy});
//     rlx::Quantization q = rlx::add_quantization(graph, config);
//     params.merge(q.initial(params, ranges));
//     ...                                                                 // train q.graph, or leave it
//     rlx::save_graph("int8.rlx", rlx::export_int8(q.graph, params).graph);
//
// docs/quantization.md says what is quantized and where scales come from. A code is a quantized value: an integer that
// stands for scale * (code - zero_point).
#pragma once

#include "rlx/ops/qat.h"
#include "rlx/train.h"

namespace rlx {

// ---- ranges ----

/// The interval of numbers that codes must cover.
struct Range {
  double low = 0, high = 0;
  bool operator==(const Range&) const = default;
};

/// A number is scale (code - zero_point).
struct CodeScale {
  double scale = 1;
  int64_t zero_point = 0;
  bool operator==(const CodeScale&) const = default;
};
/// The scale with which the codes low ... high cover the range and 0, which is exactly a code. If `symmetric`, the zero
/// point is 0. (This is PyTorch's rule, torch.ao.quantization.) Fails for a range that is empty, not finite, or only 0.
CodeScale scale_for(Range range, int64_t low, int64_t high, bool symmetric);

/// How a range is derived from numbers.
enum class CalibrationMethod {
  min_max,         ///< the smallest and the largest number
  moving_average,  ///< moving means of each batch's minimum and maximum (torch's MovingAverageMinMaxObserver)
  percentile,      ///< leaves out equally many at both ends (ONNX Runtime's PercentileCalibrater)
  entropy,  ///< symmetric; the codes' distribution has the least divergence (Migacz 2017, ONNX Runtime's calibrater)
};
constexpr std::array<std::string_view, 4> names_of(CalibrationMethod) {
  return {"min_max", "moving_average", "percentile", "entropy"};
}
struct CalibrationOptions {
  CalibrationMethod method = CalibrationMethod::min_max;
  double averaging = 0.01;    ///< of moving_average: how much a batch counts beside those before it
  double percentile = 99.99;  ///< of percentile: of all numbers, how many stay within the range, in percent
  int64_t bins = 2048;        ///< of percentile and entropy: of the first batch's histogram; it grows with what comes
  int64_t levels = 128;       ///< of entropy: bins of the quantized distribution
};

/// Observes numbers, batch by batch, and derives a range from them.
class RangeObserver {
 public:
  /// Fails for options that make no sense, and names them.
  explicit RangeObserver(CalibrationOptions options = {});
  /// Fails for numbers that are not finite, with the first of them.
  void observe(const Tensor& x);
  int64_t count() const { return count_; }  ///< numbers so far
  Range seen() const { return seen_; }
  /// The range. Fails if nothing was observed.
  Range range() const;

 private:
  struct Histogram {
    std::vector<double> edges;  ///< one more than counts; symmetric around 0
    std::vector<int64_t> counts;
  };
  void count_in_bins(std::span<const double> x);
  Range percentile_range() const;
  Range entropy_range() const;

  CalibrationOptions options_;
  int64_t count_ = 0;
  Range seen_, average_;
  Histogram histogram_;
};

/// What was observed at each activation that can be quantized.
struct Calibration {
  struct Entry {
    std::string name;
    Range seen, range;
    int64_t count = 0;
    bool operator==(const Entry&) const = default;
  };
  CalibrationOptions options;
  std::vector<Entry> activations;

  /// The entry of an activation. If there is none of that name, fails and names those there are.
  const Entry& at(std::string_view name) const;
  /// A table with a row for each activation: what was observed, the range, and scale and zero point of i8 codes.
  std::string table() const;
  std::string json() const;
  static Calibration from_json(std::string_view json);
  /// As JSON in a file, which appears complete or not at all.
  void save(const std::string& path) const;
  static Calibration load(const std::string& path);
};

// ---- fake quantization ----

/// How the scale of a quantizer is determined.
enum class ScaleKind {
  fixed,      ///< a param that stays: from calibration, or max|w| of the initial weights
  per_batch,  ///< computed from the numbers themselves in each run
  ema,        ///< a moving mean that each step of training updates
  learned,    ///< a param that is trained (Esser et al. 2020, LSQ)
};
constexpr std::array<std::string_view, 4> names_of(ScaleKind) { return {"fixed", "per_batch", "ema", "learned"}; }

/// How the nodes of one op are quantized.
struct QuantizedClass {
  bool quantize = true;
  int64_t weight_bits = 8, activation_bits = 8;  ///< 2 to 8
};

struct QuantizationConfig {
  ScaleKind activations = ScaleKind::fixed, weights = ScaleKind::per_batch;
  SteKind ste = SteKind::clipped_identity;  ///< or identity
  bool symmetric = false;                   ///< activations have the zero point 0, as weights always have
  double decay = 0.99;                      ///< of ema: how much of the old mean stays in a step
  /// Settings by op: conv, linear, matmul, dot_general. Ops that are not named are quantized with 8 bits.
  std::map<std::string, QuantizedClass, std::less<>> classes = {};
  /// Layers that are not quantized: the name of their weight without ".weight", or the beginning of that name followed
  /// by '*'.
  std::vector<std::string> skip = {};
};

/// A graph with fake quantization.
struct Quantization {
  /// One quantizer: of a weight, or of an activation.
  struct Point {
    std::string name;  ///< of the weight's param; of an activation "<layer>.output", "<layer>.input", or the input's
    bool is_weight = false;
    DType dtype = f32;
    int64_t low = -128, high = 127;  ///< the codes
    Dims scales;                     ///< of the scale
    int64_t axis = 0;                ///< of a weight: the one of its output channels
    Ref value = {};                  ///< in the graph: what is quantized
  };
  QuantizationConfig config;
  Graph graph;
  std::vector<Point> points;
  /// For training: a TrainConfig's `written`, that is, params that hold moving means, and the outputs that replace
  /// them.
  std::map<std::string, std::string, std::less<>> written;

  /// Values for the params that the quantizers add to those of the model: scales, zero points, moving ranges. `params`
  /// has the weights. Without `ranges`, moving means begin with the first batch, and fixed or learnt scales of
  /// activations are an error.
  NamedTensors initial(const NamedTensors& params, const Calibration* ranges = nullptr) const;
  NamedTensors initial(const NamedTensors& params, const Calibration& ranges) const { return initial(params, &ranges); }
  /// Groups for a TrainConfig, with which only learnt scales are trained and no scale decays.
  std::vector<ParamGroup> groups() const;
};

/// Puts fake quantization into a graph: for the weights of conv, linear, matmul and dot_general (a scale per output
/// channel), for the inputs of these ops, and for their results after a bias and a relu. Ops that only move numbers,
/// and max pools, keep the scale of their operand. With `training` the graph outputs moving means (`written`); without
/// it, the graph only reads them. Params, inputs and all other outputs stay as they are. Sub-graphs are not changed.
/// Fails if the graph is quantized already, if there is nothing to quantize, or if the config names an op or a layer
/// that does not exist.
Quantization add_quantization(const Graph& g, const QuantizationConfig& config, bool training = false);

/// Runs the graph over batches and collects the range of each activation that `add_quantization` would quantize. Fails
/// without a batch, and for a number that is not finite; then it names the activation.
Calibration calibrate(const Graph& g, const NamedTensors& params, std::span<const std::vector<NamedTensor>> batches,
                      const QuantizationConfig& config = {}, const CalibrationOptions& options = {},
                      const Session& device = Session());

// ---- codes ----

/// A graph without params. Weights are constants; those of quantized layers are i8.
struct Int8Model {
  /// What a product or convolution has become.
  struct Line {
    std::string layer, op, becomes;  ///< "qconv2d", "qmatmul" or "float"
    std::string reason;              ///< of float
  };
  Graph graph;
  std::vector<Line> lines;
  size_t float_bytes = 0, bytes = 0;  ///< of the params before, and of the constants that they became

  std::string table() const;
};

/// The graph of integers that a graph with fake quantization stands for, with these values of its params: `quantize`
/// where numbers become codes, qconv2d and qmatmul between codes, `dequantize` where the graph goes on with floats. Its
/// results differ from those of the graph by at most one step of their scale for each product on the way. A product
/// that has no integer form stays a float product of dequantized numbers; the table says why. Fails for an activation
/// whose scale depends on the batch, for codes of more than 8 bits, and if there is no fake quantization.
Int8Model export_int8(const Graph& g, const NamedTensors& params, const Session& device = Session());

}  // namespace rlx
