// See the headers, base/log.h and rlx/log.h.
#include "base/log.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>

#include "base/printable_text.h"

namespace rlx {
namespace {

constexpr int kNothing = -1;

int level_of_environment() {
  const char* verbose = std::getenv("RLX_VERBOSE");
  if (verbose && *verbose && std::string_view(verbose) != "0") return static_cast<int>(LogLevel::debug);
  const char* wanted = std::getenv("RLX_LOG");
  if (!wanted || !*wanted) return static_cast<int>(LogLevel::warning);
  if (std::string_view(wanted) == "off") return kNothing;
  const auto names = names_of(LogLevel{});
  const auto found = std::find(names.begin(), names.end(), wanted);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  say("RLX_LOG is '", wanted, "', and not off, error, warning, info or debug: it is taken for warning");
  return static_cast<int>(LogLevel::warning);
}

struct Log {
  std::atomic<int> most{level_of_environment()};
  std::shared_mutex mutex;  // held shared by who is in the sink
  LogSink sink;
};
Log& the_log() {
  static auto* log = new Log;  // never destroyed: threads may say something while the process ends
  return *log;
}

thread_local bool is_in_sink = false;

}  // namespace

bool is_logged(LogLevel level) { return static_cast<int>(level) <= the_log().most.load(std::memory_order_relaxed); }

void log_always(LogLevel level, const std::string& message) {
  std::string text = printable_text(message);
  while (text.ends_with('\n')) text.pop_back();
  if (is_in_sink) return say_text(text);
  Log& log = the_log();
  const std::shared_lock lock(log.mutex);
  if (!log.sink) return say_text(text);
  is_in_sink = true;
  try {
    log.sink(level, text);
  } catch (...) {  // nobody is there whom it could be told
  }
  is_in_sink = false;
}

void set_log_sink(LogSink sink) {
  if (is_in_sink) fail(ErrorCode::invalid_argument, "a log sink cannot put another one in its own place");
  Log& log = the_log();
  const std::unique_lock lock(log.mutex);
  log.sink.swap(sink);
}

void set_log_level(std::optional<LogLevel> most) { the_log().most = most ? static_cast<int>(*most) : kNothing; }

std::optional<LogLevel> log_level() {
  const int most = the_log().most;
  if (most == kNothing) return std::nullopt;
  return static_cast<LogLevel>(most);
}

}  // namespace rlx
