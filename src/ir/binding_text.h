// A number for a symbol as options have it: "NAME=NUMBER".
#pragma once

#include <string_view>

#include "rlx/type.h"

namespace rlx {

/// Adds the binding to `bindings`. Fails unless the text is NAME=NUMBER with a number of at least 1, and if the name is
/// there already with another number. `what` names the option in messages.
void add_binding(Bindings& bindings, std::string_view text, std::string_view what);

}  // namespace rlx
