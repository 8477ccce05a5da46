// Text of numbers in attributes.
#include "rlx/fields.h"

#include <cmath>

namespace rlx {

void print(std::ostream& out, double v) {
  if (std::isnan(v)) {  // to_chars may print a sign; the reader takes "nan"
    out << "nan";
    return;
  }
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, v).ptr;
  out << std::string_view(text, static_cast<size_t>(end - text));
}

}  // namespace rlx
