// How the library says something: see rlx/log.h for where it goes.
#pragma once

#include <string>

#include "rlx/error.h"
#include "rlx/log.h"

namespace rlx {

/// Whether a message of this level goes anywhere: asked before what is costly to write is written.
bool is_logged(LogLevel level);
/// Hands the message on, whatever the level is: for what was asked for by a variable of its own.
void log_always(LogLevel level, const std::string& message);
/// The text of the other arguments as one message, if the level is logged.
template <class... Parts>
void log_message(LogLevel level, const Parts&... parts) {
  if (is_logged(level)) log_always(level, text_of(parts...));
}

}  // namespace rlx
