// Messages: where they go, how many of them are made, what a sink may do.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "rlx/c.h"
#include "rlx/log.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "support/io_files.h"

using namespace rlx;

namespace {

/// Leaves the log as it was.
struct RestoredLog {
  std::optional<LogLevel> level = log_level();
  ~RestoredLog() { set_log_sink({}), set_log_level(level); }
};

Graph doubled(const std::string& name) {
  Graph g(name);
  Value x = g.input("x", f32, {Dim(4)});
  g.output(x + x, "y");
  return g;
}

struct Said {
  std::vector<std::pair<LogLevel, std::string>> messages;
  void listen() {
    set_log_sink([this](LogLevel level, std::string_view text) { messages.emplace_back(level, text); });
  }
  size_t count(LogLevel level) const {
    size_t n = 0;
    for (const auto& [its, text] : messages) n += its == level;
    return n;
  }
  bool has(std::string_view part) const {
    for (const auto& [level, text] : messages)
      if (text.find(part) != std::string::npos) return true;
    return false;
  }
};

}  // namespace

TEST_CASE("a level decides which messages are made") {
  const RestoredLog restored;
  Said said;
  said.listen();
  set_log_level(LogLevel::warning);
  Session(Device::cpu()).compile(doubled("quiet"));
  CHECK(said.messages.empty());
  set_log_level(LogLevel::info);
  Session(Device::cpu()).compile(doubled("told"));
  CHECK(said.count(LogLevel::info) == 1);
  CHECK(said.has("compiled 'told' for cpu"));
  CHECK(said.count(LogLevel::debug) == 0);
  set_log_level(LogLevel::debug);
  Session(Device::cpu()).compile(doubled("whole"));
  CHECK(said.has("legalize"));
  CHECK(said.has("'whole' for cpu"));
  said.messages.clear();
  set_log_level(std::nullopt);
  Session(Device::cpu()).compile(doubled("nothing"));
  CHECK(said.messages.empty());
  CHECK_FALSE(log_level());
}

TEST_CASE("a damaged cache is a warning, printable, without a newline at its end") {
  const RestoredLog restored;
  const test::TemporaryFolder folder;
  CompileOptions options;
  options.cache_dir = folder / "cache\x1b[31m";
  Session(Device::cpu()).compile(doubled("kept"), options);
  size_t spoilt = 0;
  for (const auto& file : std::filesystem::directory_iterator(options.cache_dir)) {
    std::ofstream(file.path(), std::ios::binary) << "no graph";
    ++spoilt;
  }
  REQUIRE(spoilt > 0);
  Said said;
  said.listen();
  Session(Device::cpu()).compile(doubled("kept"), options);
  REQUIRE(said.count(LogLevel::warning) == 1);
  const std::string& text = said.messages.front().second;
  CHECK(text.find("is left aside and made again") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.back() != '\n');
}

TEST_CASE("a sink may throw and may compile, and cannot replace itself") {
  const RestoredLog restored;
  set_log_level(LogLevel::info);
  int calls = 0;
  set_log_sink([&](LogLevel, std::string_view) {
    ++calls;
    throw std::runtime_error("no");
  });
  CHECK_NOTHROW(Session(Device::cpu()).compile(doubled("thrown")));
  CHECK(calls == 1);
  std::string refused;
  set_log_sink([&](LogLevel, std::string_view) {
    ++calls;
    Session(Device::cpu()).compile(doubled("within"));  // its own message goes to standard error
    try {
      set_log_sink({});
    } catch (const Error& e) {
      refused = e.what();
    }
  });
  Session(Device::cpu()).compile(doubled("outer"));
  CHECK(calls == 2);
  CHECK(refused.find("cannot put another one in its own place") != std::string::npos);
}

TEST_CASE("when a sink was replaced nobody is in it") {
  const RestoredLog restored;
  set_log_level(LogLevel::info);
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; !ends; ++i)
        Session(Device::cpu()).compile(doubled("t" + std::to_string(t) + "_" + std::to_string(i)));
    });
  for (int i = 0; i < 50; ++i) {
    auto alive = std::make_unique<std::atomic<int>>(1);
    std::atomic<int>* seen = alive.get();
    std::atomic<int> dead{0};
    set_log_sink([seen, &dead](LogLevel, std::string_view) { dead += *seen != 1; });
    std::this_thread::yield();
    set_log_sink([](LogLevel, std::string_view) {});
    *alive = 0;
    CHECK(dead == 0);
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("the C ABI has the same levels and sinks") {
  const RestoredLog restored;
  rlx_error* error = nullptr;
  CHECK(rlx_log_set_level(RLX_LOG_INFO, &error) == RLX_OK);
  CHECK(rlx_log_get_level() == RLX_LOG_INFO);
  CHECK(log_level() == LogLevel::info);
  std::string told;
  const rlx_log_sink sink = [](void* context, rlx_log_level level, const char* message) {
    *static_cast<std::string*>(context) += std::to_string(level) + message;
  };
  CHECK(rlx_log_set_sink(sink, &told, &error) == RLX_OK);
  Session(Device::cpu()).compile(doubled("from_c"));
  CHECK(told.starts_with("2compiled 'from_c' for "));
  CHECK(rlx_log_set_sink(nullptr, nullptr, &error) == RLX_OK);
  CHECK(rlx_log_set_level(4, &error) == RLX_INVALID_ARGUMENT);
  CHECK(std::string(rlx_error_message(error)).find("this is 4") != std::string::npos);
  rlx_error_free(error);
  CHECK(rlx_log_set_level(RLX_LOG_OFF, nullptr) == RLX_OK);
  CHECK(rlx_log_get_level() == RLX_LOG_OFF);
}
