// The framework of this system, asked once.
#include "backends/coreml_framework/framework.h"

namespace rlx::coreml_framework {

const Framework& system_framework() {
  static const Framework framework{is_present(), newest_opset(), chip_info(), ane_available()};
  return framework;
}

}  // namespace rlx::coreml_framework
