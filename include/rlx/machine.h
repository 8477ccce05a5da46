// How fast this machine is: measured once (`rlx calibrate`), kept in a file, read by sessions, which choose by it where
// there are several ways. Without a file everything works by defaults.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "rlx/device.h"

namespace rlx {

struct MachineSpeeds {
  std::string processor;  ///< its name and model, by which a file is known to be this machine's
  int threads = 1;        ///< of the measurements that use all
  // Products of f32. 64 x 64 x 64: how much of one is worth another thread. 1024 x 1024 x 1024, by one thread, by half
  // of them and by all: as many as sessions use that do not ask for a number.
  double small_product_gflops = 0, product_gflops = 0, product_half_gflops = 0, product_all_gflops = 0;
  double attention_gflops = 0;  ///< 12 heads of 64 over 256 places: how much of it is worth another thread
  double reduction_gbs = 0;     ///< sums of rows, 1 MiB in the cache: the same for all that is no product
  double hand_over_us = 0;      ///< until all threads have begun and ended a part: the same for all
  double tile_rows = 0;  ///< rows from which on f32 products go by matrix tiles, as it is faster; 0: there are none
  // For comparing devices: memory that no cache holds, and a run of a graph of one small op.
  double read_gbs = 0, launch_us = 0;

  std::string json() const;
  /// Fails, saying what is wrong, for anything but what json() wrote.
  static MachineSpeeds parse(std::string_view json);
  /// A line for each measurement: what, how much, in which unit.
  std::string table() const;
};

/// Takes some seconds. `progress(done, all, what)` is called before each measurement and behind the last. Sessions that
/// other threads use meanwhile choose as before, and so does this process behind it: the next one reads the file.
MachineSpeeds measure_machine(const std::function<void(size_t, size_t, std::string_view)>& progress = {});

/// Name and model of the processor that this process runs on.
std::string processor_name();
/// Where sessions look: machine-KEY.json in RLX_CACHE_DIR, else in ~/.cache/rlx; KEY is of the processor. Empty if
/// there is neither.
std::string machine_file();
void save_machine(const MachineSpeeds& speeds, const std::string& path);
/// Fails if the file is not readable, damaged, of an older format, or of another processor or number of threads.
MachineSpeeds load_machine(const std::string& path);

/// The device for whoever has no wish: of those that are available and compute, an accelerator before the processor
/// in the order of `devices()`.
Device pick_best_device();

}  // namespace rlx
