// The one exception type: a code, a message, and a list of what was being done. Everything that ends an operation is
// thrown as an `rlx::Error`; what a caller expects and handles is returned by value instead.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace rlx {

/// What kind of mistake ended the operation; the numbers are those of `rlx_status` in `rlx/c.h`.
enum class ErrorCode {
  invalid_argument = 1,  ///< a value that no call could accept
  shape_mismatch = 2,    ///< dims or dtypes that do not fit together
  unsupported = 3,       ///< well-formed, but not offered here
  parse = 4,             ///< text or a file that does not follow its format
  not_found = 5,         ///< a name, a file, a device that is not there
  io = 6,                ///< the operating system refused
  out_of_memory = 7,     ///< an allocation failed, or would exceed a stated limit
  internal = 8,          ///< our own mistake: please report it
  cancelled = 9,         ///< the caller of a run has cancelled it
  device_lost = 10,      ///< the device is gone, with what was on it: nothing more runs there
  too_large = 11,        ///< a file would be larger than what reads it can take; TooLarge has both numbers
};
const char* name_of(ErrorCode code);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code), text_(message) {}

  /// Adds a line of two spaces and "while <doing>". Callers add what they were doing from the innermost to the
  /// outermost.
  Error& within(const std::string& doing) {
    text_ += "\n  while " + doing;
    return *this;
  }
  ErrorCode code() const { return code_; }
  /// The message, followed by one line for each thing that was being done.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  ErrorCode code_;
  std::string text_;
};

/// The text of all arguments, one behind the other, as `std::ostream` writes them.
template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Throws an rlx::Error whose message is the text of the other arguments.
template <class... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
  throw Error(code, text_of(parts...));
}

/// Runs `body`. To an rlx::Error that it throws, "while <doing>" is added. `doing` is a string, or a function that
/// makes one and is called only after a failure, so that nothing is formatted if all goes well.
template <class Doing, class Body>
auto with_context(const Doing& doing, Body body) -> decltype(body()) {
  try {
    return body();
  } catch (Error& error) {
    if constexpr (requires { std::string(doing()); }) error.within(doing());
    else error.within(doing);
    throw;
  }
}

}  // namespace rlx
