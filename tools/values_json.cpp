// See the header.
#include "tools/values_json.h"

#include <complex>

#include "rlx/element.h"
#include "tools/coreml/package_inputs.h"
#include "tools/output.h"

namespace rlx::tools {
namespace {

std::string element_text(const Tensor& t, size_t i) {
  switch (t.dtype()) {
    case DType::boolean: return load_number(t, i) != 0 ? "true" : "false";
    case DType::f64: return number_text(t.values<double>()[i]);
    case DType::c64: {
      const auto z = t.values<std::complex<float>>()[i];
      return "[" + number_text(z.real()) + ", " + number_text(z.imag()) + "]";
    }
    case DType::c128: {
      const auto z = t.values<std::complex<double>>()[i];
      return "[" + number_text(z.real()) + ", " + number_text(z.imag()) + "]";
    }
    case DType::u64: return std::to_string(t.values<uint64_t>()[i]);
    default: break;
  }
  if (is_integer(t.dtype())) return std::to_string(load_index(t, i));
  return number_text(static_cast<float>(load_number(t, i)));
}

}  // namespace

std::string values_json(std::span<const Signature::Entry> entries, std::span<const Tensor> tensors,
                        const std::optional<std::string>& label) {
  std::string text = "{\"outputs\": [";
  for (size_t o = 0; o < tensors.size(); ++o) {
    const Tensor& t = tensors[o];
    if (!is_number(t.dtype()) && !is_complex(t.dtype()))
      fail(ErrorCode::unsupported, "output '", entries[o].name, "' is of ", t.dtype(),
           ", which JSON has no numbers for; write it "
           "to a file: --output FILE.safetensors");
    text += text_of(o ? ",\n " : "", "{\"name\": ", json_text(entries[o].name), ", \"dtype\": \"", t.dtype(),
                    "\", \"shape\": [");
    for (size_t d = 0; d < t.rank(); ++d) text += text_of(d ? ", " : "", t.shape()[d]);
    text += "], \"values\": [";
    for (size_t i = 0; i < t.element_count(); ++i) (text += i ? ", " : "") += element_text(t, i);
    text += "]}";
  }
  return text + "]" + (label ? ", \"label\": " + json_text(*label) : "") + "}\n";
}

}  // namespace rlx::tools
