// The framework where there is none.
#ifndef __APPLE__
#include "backends/coreml_framework/framework.h"
#include "rlx/error.h"

namespace rlx::coreml_framework {

bool is_present() { return false; }
int newest_opset() { return 8; }
std::string chip_info() { return {}; }
bool ane_available() { return false; }

std::shared_ptr<Model> load(const std::string& package, ComputeUnits, const std::string&) {
  fail(ErrorCode::unsupported, "'", package, "' cannot be loaded by CoreML.framework: it is on Apple's systems only");
}

}  // namespace rlx::coreml_framework
#endif
