// How fast this machine is. `rlx calibrate` measures it once and stores the figures in a file. Sessions read that and
// choose between kernels by it. Without a file there are defaults. Bandwidth of memory, what a run costs, and all else
// by which devices are compared: rlx/device_speed.h.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "rlx/device.h"

namespace rlx {

struct MachineSpeeds {
  std::string processor;  ///< its name and model, by which a file is known to be this machine's
  int threads = 1;        ///< how many the measurements by all threads used
  // The speed of f32 products. The one of 64 x 64 x 64 decides how much of a product is worth another thread. The one
  // of 1024 x 1024 x 1024 is measured on one thread, on half of the threads and on all; sessions that request no number
  // of threads use whichever of these numbers is faster.
  double small_product_gflops = 0, product_gflops = 0, product_half_gflops = 0, product_all_gflops = 0;
  double attention_gflops = 0;  ///< 12 heads of 64, 256 positions: how much attention is worth another thread
  double reduction_gbs = 0;     ///< sums of rows of 1 MiB in the cache: how much of any other work is worth it
  double hand_over_us = 0;      ///< the time until all threads have begun and ended a task
  double tile_rows = 0;         ///< from this many rows on, f32 products are faster on matrix tiles; 0: there are none

  std::string json() const;
  /// Fails, saying what is wrong, for anything but what json() wrote.
  static MachineSpeeds parse(std::string_view json);
  /// A line for each measurement: what, how much, in which unit.
  std::string table() const;
};

/// Measures, which takes some seconds. `progress(done, all, what)` is called before each measurement and after the
/// last. This process, its other threads included, goes on with the figures it has; the next process reads the file.
MachineSpeeds measure_machine(const std::function<void(size_t, size_t, std::string_view)>& progress = {});

/// Name and model of the processor that this process runs on.
std::string processor_name();
/// The file that sessions read: machine-KEY.json in RLX_CACHE_DIR, else in ~/.cache/rlx, where KEY stands for the
/// processor. Empty if there is neither folder.
std::string machine_file();
void save_machine(const MachineSpeeds& speeds, const std::string& path);
/// Fails if the file is not readable, damaged, of an older format, or of another processor or number of threads.
MachineSpeeds load_machine(const std::string& path);

/// The device for users who name none: of the available devices that can compute, an accelerator before the processor,
/// in the order of `devices()`.
Device pick_best_device();

}  // namespace rlx
