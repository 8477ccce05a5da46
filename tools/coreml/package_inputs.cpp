// See the header.
#include "tools/coreml/package_inputs.h"

#include <cmath>

#include "rlx/element.h"

namespace rlx::tools {
namespace {

Tensor with_dtype(const std::string& name, const Tensor& t, DType dtype) {
  Tensor out = Tensor::uninitialized(dtype, t.shape());
  for (size_t i = 0; i < t.element_count(); ++i) {
    double value = load_number(t, i);
    if (is_float(dtype)) {
      store<double>(out, i, value);
      continue;
    }
    // A number beyond every integer is stored as none; what is stored is compared.
    bool fits = std::abs(value) < 0x1p53 && value == std::trunc(value);
    if (dtype == boolean) out.mutable_values<bool>()[i] = value != 0;
    else if (fits) store<int64_t>(out, i, static_cast<int64_t>(value));
    if (!fits || load_number(out, i) != value)
      fail(ErrorCode::shape_mismatch, "input '", name, "' is of ", dtype, ", and the array of ", t.dtype(), " holds ",
           value);
  }
  return out;
}

}  // namespace

bool is_number(DType dtype) { return is_byte_sized(dtype) && !is_complex(dtype) && info(dtype).bits <= 64; }

std::vector<NamedTensor> as_wanted(const CoremlModel& model, const std::vector<NamedTensor>& given) {
  std::vector<NamedTensor> all = given;
  for (auto& [name, tensor] : all)
    for (const CoremlFeature& f : model.inputs())
      if (f.name == name && tensor.dtype() != f.dtype && is_number(tensor.dtype()) && is_number(f.dtype))
        tensor = with_dtype(name, tensor, f.dtype);
  return all;
}

}  // namespace rlx::tools
