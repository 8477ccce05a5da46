// How fast devices are, and how long a graph will take on them. `rlx calibrate` measures every device that can run here
// once, by graphs that sessions run, and stores the figures; a prediction counts what a graph computes and moves and
// divides by them. docs/runtime.md, "Which device takes the least time".
#pragma once

#include <functional>

#include "rlx/compile.h"

namespace rlx {

struct DeviceSpeeds {
  std::string device, description;  ///< as `devices()` has them
  int threads = 1;                  ///< with which it was measured
  // Products of f32 of 64, 256 and 1024 rows and columns, the second operand constant, in 10^9 operations a second, an
  // addition and a multiplication being two.
  double product_64_gflops = 0, product_256_gflops = 0, product_1024_gflops = 0;
  double convolution_gflops = 0;  ///< 3 x 3, 64 to 64 channels, 56 x 56
  double attention_gflops = 0;    ///< 12 heads of 64, 256 positions
  // Memory bandwidth of an addition in GB/s, for arrays of 256 KiB, 4 MiB and 64 MiB (beyond most caches).
  double near_gbs = 0, middle_gbs = 0, memory_gbs = 0;
  double function_gelements = 0;  ///< 10^9 results of tanh a second
  double sort_gcompares = 0;  ///< sorts of 1,024 elements: elements times the logarithm of the extent, 10^9 a second
  double run_us = 0;          ///< a run of one small op, its inputs and its result in the host's memory
  double node_us = 0;         ///< what each further node adds to that
  double copy_gbs = 0;        ///< to the device's memory and back; 0: it computes in the host's

  std::string json() const;
  /// Fails, saying what is wrong, for anything but what json() wrote.
  static DeviceSpeeds parse(std::string_view json);
};

/// Measures a device that can run here, for some seconds. `threads` as for a session. `progress(done, all, what)` is
/// called before each measurement and after the last.
DeviceSpeeds measure_device(const Device& device, int threads = 0,
                            const std::function<void(size_t, size_t, std::string_view)>& progress = {});
/// The file in which a device's speeds are looked for: BACKEND-calib-KEY.json in RLX_CACHE_DIR, else in ~/.cache/rlx,
/// where KEY stands for the rest of its name, for what it is and for the number of threads. Empty if there is neither
/// folder.
std::string device_speeds_file(const Device& device, int threads = 0);
void save_device_speeds(const DeviceSpeeds& speeds, const std::string& path);
/// Fails if the file is not readable or damaged.
DeviceSpeeds load_device_speeds(const std::string& path);

struct DevicePrediction {
  Device device;
  std::optional<double> us;  ///< of a run with everything compiled and bound; nothing if there is no prediction
  std::string why;  ///< what takes the time; or why there is no prediction: not measured, or it does not run the graph
};
/// How long a run of the graph takes on each device that can run here and is no simulation, the fastest first, those
/// without a prediction last. `numbers` are for the symbols of the graph, which must all have one. `threads` as for a
/// session.
std::vector<DevicePrediction> predict_devices(const Graph& g, const Bindings& numbers = {}, int threads = 0,
                                              const CompileOptions& options = {});
/// The device for which the shortest run is predicted. Where no device was measured that runs the graph: the first of
/// those that can run it, an accelerator before the processor. Fails, with the reasons, if none can. `why` receives the
/// choice and each device's prediction in words; the log has them, too (LogLevel::info).
Device pick_best_device(const Graph& g, const Bindings& numbers = {}, int threads = 0, std::string* why = nullptr);

}  // namespace rlx
