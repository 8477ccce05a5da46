// What RLX says while it works: where it goes, and how much of it. Errors are exceptions; these are messages beside
// them, of what was done another way than asked (a cache that could not be read) and of what takes time.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string_view>

namespace rlx {

/// error: something failed where nobody could be told by an exception (a function that was called back threw).
/// warning: the result is right, and something was not as it should be (a damaged cache was left aside). info: what a
/// compile or a load was, and how long it took. debug: each pass of it, with its time.
enum class LogLevel { error, warning, info, debug };
constexpr std::array<std::string_view, 4> names_of(LogLevel) { return {"error", "warning", "info", "debug"}; }

/// Takes one message: valid UTF-8 of one or more lines, without control characters but newlines and tabs, and without a
/// newline at its end.
using LogSink = std::function<void(LogLevel, std::string_view message)>;

/// Sends messages to `sink`; an empty one sends them to standard error again. The sink is called on whichever thread
/// has something to say, by several at once. What it throws is dropped, and what is said while it runs, on its thread,
/// goes to standard error. When this function returns, no thread is in the old sink. Fails if it is called by a sink.
void set_log_sink(LogSink sink);

/// The level up to which messages are made, "warning" by default. The environment variable RLX_LOG gives another
/// default: "off", "error", "warning", "info" or "debug"; RLX_VERBOSE=1 is RLX_LOG=debug. Null: nothing is said.
void set_log_level(std::optional<LogLevel> most);
std::optional<LogLevel> log_level();

}  // namespace rlx
