// The C ABI: messages.
#include "c_api/handles.h"
#include "rlx/log.h"

using namespace rlx::c;

extern "C" {

rlx_status rlx_log_set_sink(rlx_log_sink sink, void* context, rlx_error** error) {
  return guarded(error, [&] {
    if (!sink) return rlx::set_log_sink({});
    rlx::set_log_sink([sink, context](rlx::LogLevel level, std::string_view message) {
      sink(context, static_cast<rlx_log_level>(level), std::string(message).c_str());
    });
  });
}

rlx_status rlx_log_set_level(int most, rlx_error** error) {
  return guarded(error, [&] {
    if (most < RLX_LOG_OFF || most > RLX_LOG_DEBUG)
      rlx::fail(rlx::ErrorCode::invalid_argument, "a log level is -1 (off) to 3 (debug), and this is ", most);
    if (most == RLX_LOG_OFF) rlx::set_log_level(std::nullopt);
    else rlx::set_log_level(static_cast<rlx::LogLevel>(most));
  });
}

rlx_log_level rlx_log_get_level(void) {
  const std::optional<rlx::LogLevel> level = rlx::log_level();
  return level ? static_cast<rlx_log_level>(*level) : RLX_LOG_OFF;
}

}  // extern "C"
