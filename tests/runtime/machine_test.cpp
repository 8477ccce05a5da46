#include "rlx/machine.h"

#include <doctest/doctest.h>

#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backends/cpu/machine.h"
#include "kernels/cost_model.h"
#include "kernels/threads/thread_pool.h"
#include "rlx/error.h"
#include "rlx/session.h"

using namespace rlx;

namespace {

MachineSpeeds plausible() {
  MachineSpeeds s;
  s.processor = processor_name(), s.threads = kernels::ThreadPool::hardware_threads();
  s.small_product_gflops = 40.5, s.product_gflops = 120, s.product_half_gflops = 125, s.product_all_gflops = 230;
  s.attention_gflops = 80, s.reduction_gbs = 137, s.hand_over_us = 1.5, s.tile_rows = 96;
  return s;
}

struct File {
  std::filesystem::path path = std::filesystem::temp_directory_path() / text_of("rlx-machine-", ::getpid(), ".json");
  ~File() { std::filesystem::remove(path); }
  void write(const std::string& text) const { std::ofstream(path) << text; }
  /// What load_machine() says of it; empty if it takes it.
  std::string refusal() const {
    try {
      load_machine(path.string());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("what was measured is read back as it was kept") {
  const File file;
  const MachineSpeeds s = plausible();
  save_machine(s, file.path.string());
  const MachineSpeeds read = load_machine(file.path.string());
  CHECK(read.json() == s.json());
  CHECK(read.product_all_gflops == 230);
  CHECK(read.table().find("230 GF/s") != std::string::npos);
}

TEST_CASE("a calibration that is damaged, old, or of another machine is refused with the reason") {
  const File file;
  const std::string good = plausible().json();
  CHECK(file.refusal().find("cannot be read") != std::string::npos);
  const struct {
    std::string text, reason;
  } cases[] = {
      {"", "not a JSON object"},
      {good.substr(0, good.size() / 2), "not a JSON object"},
      {"[1, 2]", "not a JSON object"},
      {changed(good, "rlx machine 3", "rlx machine 2"), "format"},
      {changed(good, "\"processor\": \"", "\"processor\": \"Other "), "and this is"},
      {changed(good, "\"threads\": ", "\"threads\": 1"), "threads"},
      {changed(good, "\"threads\": ", "\"threads\": -"), "'threads'"},
      {changed(good, "40.5", "-40.5"), "'small_product_gflops' is -40.5"},
      {changed(good, "40.5", "1e300"), "'small_product_gflops'"},
      {changed(good, "40.5", "\"fast\""), "'small_product_gflops' is missing, or no number"},
      {changed(good, "\"hand_over_us\"", "\"hands_over_us\""), "'hand_over_us' is missing"},
      {std::string(100000, ' ') + good, "not a JSON object"},
  };
  for (const auto& c : cases) {
    file.write(c.text);
    INFO(file.refusal());
    CHECK(file.refusal().find(c.reason) != std::string::npos);
  }
  file.write(good);
  CHECK(file.refusal().empty());
}

TEST_CASE("the file lies where compiled graphs are kept, by the name of the processor") {
  const char* before = std::getenv("RLX_CACHE_DIR");
  const std::string kept = before ? before : "";
  ::setenv("RLX_CACHE_DIR", "/somewhere", 1);
  const std::string path = machine_file();
  CHECK(path.rfind("/somewhere/machine-", 0) == 0);
  CHECK(path.size() == std::string("/somewhere/machine-0123456789abcdef.json").size());
  if (before) ::setenv("RLX_CACHE_DIR", kept.c_str(), 1);
  else ::unsetenv("RLX_CACHE_DIR");
}

TEST_CASE("measuring finds speeds, and leaves the cost model as it was") {
  const Session reads_the_file(Device::cpu());  // that of this machine, if it has one
  const kernels::CostModel before = kernels::cost_model();
  size_t calls = 0;
  const MachineSpeeds s = measure_machine([&](size_t done, size_t all, std::string_view) { calls += done <= all; });
  CHECK(calls == 8);
  CHECK(kernels::cost_model() == before);
  for (double v : {s.small_product_gflops, s.product_gflops, s.product_half_gflops, s.product_all_gflops,
                   s.attention_gflops, s.reduction_gbs})
    CHECK(v > 0);
  CHECK_NOTHROW(MachineSpeeds::parse(s.json()));
}

TEST_CASE("what was measured decides what is split, by how many threads, and what goes by tiles") {
  MachineSpeeds s = plausible();
  s.threads = 8;
  const kernels::CostModel usual, model = cost_model_of(s);
  CHECK(model.task_work == int64_t{121500});  // 4 x 1.5 us x 40.5 GF/s, of 2 flops each
  CHECK(model.split_ns == doctest::Approx(6000));
  CHECK(model.attention_ns == doctest::Approx(0.025));
  CHECK(model.tile_rows == 96);
  CHECK(model.threads == 0);  // all are faster than half
  s.product_half_gflops = 228;
  CHECK(cost_model_of(s).threads == 4);
  s.reduction_gbs = 274;  // twice as fast: what takes as long is twice as much
  CHECK(cost_model_of(s).split_ns == doctest::Approx(12000));
  CHECK(cost_model_of(MachineSpeeds()) == usual);
  s.hand_over_us = 1e6, s.small_product_gflops = 1e6, s.attention_gflops = 1e-9;  // nonsense stays within bounds
  CHECK(cost_model_of(s).task_work == 1 << 22);
  CHECK(cost_model_of(s).split_ns == 100000);
  CHECK(cost_model_of(s).attention_ns == 2);
}

TEST_CASE("sessions that are used while another thread measures choose as before") {
  const kernels::CostModel before = kernels::cost_model();
  const kernels::ScopedCostModel measuring({.task_work = 1, .tile_rows = 1, .threads = 1});
  CHECK(kernels::cost_model().tile_rows == 1);
  kernels::CostModel elsewhere;
  int threads = 0;
  std::thread([&] {
    elsewhere = kernels::cost_model();
    threads = Session().threads();
  }).join();
  CHECK(elsewhere == before);
  CHECK(threads == (before.threads > 0 ? before.threads : kernels::ThreadPool::hardware_threads()));
  CHECK(Session().threads() == 1);  // as this thread's model says, where nobody asks for a number
  CHECK(Session(Device::cpu(), {2}).threads() == 2);
  {
    const kernels::ScopedCostModel inner({.tile_rows = 2});
    CHECK(kernels::cost_model().tile_rows == 2);
  }
  CHECK(kernels::cost_model().tile_rows == 1);
}

TEST_CASE("the best device is one that is available") {
  CHECK(is_available(pick_best_device()));
  CHECK(pick_best_device() != Device::null());
}
