// See the header.
#include "plan/launch.h"

#include "plan/storage.h"

namespace rlx {

int64_t View::count() const {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}
bool is_dense(const View& v) { return is_dense(v.shape, v.strides); }

}  // namespace rlx
