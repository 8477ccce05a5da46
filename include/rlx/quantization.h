// Quantization of models: ranges collected from data, fake quantization put into a graph, and the graph of 8-bit codes
// that a graph with fake quantization means.
//
//     rlx::QuantizationConfig config;                                     // int8, weights by output channel
//     rlx::Calibration ranges = rlx::calibrate(graph, params, batches, config, {.method = CalibrationMethod::entropy});
//     rlx::Quantization q = rlx::add_quantization(graph, config);
//     params.merge(q.initial(params, ranges));
//     ...                                                                 // train q.graph, or leave it
//     rlx::save_graph("int8.rlx", rlx::export_int8(q.graph, params).graph);
//
// docs/quantization.md tells what is quantized and where scales come from.
#pragma once

#include "rlx/ops/qat.h"
#include "rlx/train.h"

namespace rlx {

// ---- ranges ----

/// The interval that codes are to cover.
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
/// The scale by which the codes low ... high cover the range and 0, which has a code of its own; `symmetric`: with the
/// zero point 0. (PyTorch's rule, torch.ao.quantization.) Fails for a range that is empty, not finite, or only 0.
CodeScale scale_for(Range range, int64_t low, int64_t high, bool symmetric);

/// How a range is taken from numbers.
enum class CalibrationMethod {
  min_max,         ///< the least and the greatest
  moving_average,  ///< moving means of each batch's least and greatest (torch's MovingAverageMinMaxObserver)
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

/// Sees numbers, batch by batch, and gives the range for them.
class RangeObserver {
 public:
  /// Fails for options that make no sense, naming them.
  explicit RangeObserver(CalibrationOptions options = {});
  /// Fails for numbers that are not finite, with the first of them.
  void observe(const Tensor& x);
  int64_t count() const { return count_; }  ///< numbers so far
  Range seen() const { return seen_; }
  /// Fails if nothing was seen.
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

/// What was observed at each activation that is to be quantized.
struct Calibration {
  struct Entry {
    std::string name;
    Range seen, range;
    int64_t count = 0;
    bool operator==(const Entry&) const = default;
  };
  CalibrationOptions options;
  std::vector<Entry> activations;

  /// Fails naming those there are.
  const Entry& at(std::string_view name) const;
  /// A row for each activation: what was seen, the range, scale and zero point of i8 codes.
  std::string table() const;
  std::string json() const;
  static Calibration from_json(std::string_view json);
  /// As JSON in a file, which appears complete or not at all.
  void save(const std::string& path) const;
  static Calibration load(const std::string& path);
};

// ---- fake quantization ----

/// Where a scale comes from.
enum class ScaleKind {
  fixed,      ///< a param that stays: from calibration, or max|w| of the initial weights
  per_batch,  ///< the numbers themselves, anew in each run
  ema,        ///< a moving mean, written in each step of training
  learned,    ///< a param that is trained (Esser et al. 2020, LSQ)
};
constexpr std::array<std::string_view, 4> names_of(ScaleKind) { return {"fixed", "per_batch", "ema", "learned"}; }

/// What is done with nodes of one op.
struct QuantizedClass {
  bool quantize = true;
  int64_t weight_bits = 8, activation_bits = 8;  ///< 2 to 8
};

struct QuantizationConfig {
  ScaleKind activations = ScaleKind::fixed, weights = ScaleKind::per_batch;
  SteKind ste = SteKind::clipped_identity;  ///< or identity
  bool symmetric = false;                   ///< activations have the zero point 0, as weights always have
  double decay = 0.99;                      ///< of ema: how much of the old mean stays in a step
  /// By op: conv, linear, matmul, dot_general. Those that are not named are quantized with 8 bits.
  std::map<std::string, QuantizedClass, std::less<>> classes = {};
  /// Layers that stay floats, by the name of their weight without ".weight", or its beginning with a '*' behind it.
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
  /// Of a graph for training: TrainConfig::written, params of moving means and the outputs that they become.
  std::map<std::string, std::string, std::less<>> written;

  /// Values for the params that quantizers have beside those of the model: scales, zero points, moving ranges. Without
  /// `ranges` moving means begin with the first batch, and fixed and learnt scales of activations fail. `params` has
  /// the weights.
  NamedTensors initial(const NamedTensors& params, const Calibration* ranges = nullptr) const;
  NamedTensors initial(const NamedTensors& params, const Calibration& ranges) const { return initial(params, &ranges); }
  /// Groups of a TrainConfig by which no scale is trained that is not learnt, and none decays.
  std::vector<ParamGroup> groups() const;
};

/// Puts fake quantization into a graph: of the weights of conv, linear, matmul and dot_general, for each output
/// channel, of what goes into them, and of what comes out behind a bias and a relu. What moves numbers, and max-pools,
/// keep the scale of what they are given. For `training`, moving means are written as outputs of the graph (`written`);
/// without, they are read. Params, inputs, and outputs but those stay. Sub-graphs are left alone. Fails if the graph is
/// quantized already, if there is nothing to quantize, or if the config names an op or a layer that is none.
Quantization add_quantization(const Graph& g, const QuantizationConfig& config, bool training = false);

/// Runs the graph over batches and collects the range of each activation that `add_quantization` would quantize. Fails
/// without a batch, and for a number that is not finite, naming the activation.
Calibration calibrate(const Graph& g, const NamedTensors& params, std::span<const std::vector<NamedTensor>> batches,
                      const QuantizationConfig& config = {}, const CalibrationOptions& options = {},
                      const Session& device = Session());

// ---- codes ----

/// A graph without params: weights are constants, of i8 where they are quantized.
struct Int8Model {
  /// What became of a product or convolution.
  struct Line {
    std::string layer, op, becomes;  ///< "qconv2d", "qmatmul" or "float"
    std::string reason;              ///< of float
  };
  Graph graph;
  std::vector<Line> lines;
  size_t float_bytes = 0, bytes = 0;  ///< of the params before, and of the constants that they became

  std::string table() const;
};

/// The graph of codes that a graph with fake quantization means, with these values of its params: `quantize` where
/// numbers become codes, qconv2d and qmatmul between codes, `dequantize` where floats go on. Results differ from those
/// of the graph by at most one step of their scale for each product on the way. A product that has no integer form
/// stays a float product between dequantized numbers, and the table says why. Fails for an activation whose scale
/// depends on the batch, for codes of more than 8 bits, and if there is no fake quantization.
Int8Model export_int8(const Graph& g, const NamedTensors& params, const Session& device = Session());

}  // namespace rlx
