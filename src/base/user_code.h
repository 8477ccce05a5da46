// Code from outside the library that it calls back: rules of ops, kernels, data sets, transforms, progress.
#pragma once

#include <new>

#include "rlx/error.h"

namespace rlx {

/// Runs such code: whatever it throws arrives as an rlx::Error that says what threw; an rlx::Error stays as it is.
/// `what` is a string, or a function that makes one and is called only after a failure.
template <class What, class F>
auto user_code(const What& what, F f) -> decltype(f()) {
  const auto name = [&] {
    if constexpr (requires { what(); }) return text_of(what());
    else return text_of(what);
  };
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::out_of_memory, name(), " ran out of memory");
  } catch (const std::exception& e) {
    fail(ErrorCode::invalid_argument, name(), " threw: ", e.what());
  } catch (...) {
    fail(ErrorCode::invalid_argument, name(), " threw what is no std::exception");
  }
}

}  // namespace rlx
