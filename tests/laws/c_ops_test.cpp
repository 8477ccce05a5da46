// Ops that C registers (rlx_op_register) keep the laws that the library's own keep, and each of their rules that is
// planted wrong breaks its law.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "rlx/c.h"
#include "support/laws.h"

using namespace rlx;

namespace {

/// y = x z + x, of f32 and f64. What each rule multiplies its result by is 1 unless a fault is planted there.
struct Faults {
  bool shape = false, reference = false, decomposition = false, gradient = false, kernel = false;
};

const Faults& faults_of(void* context) { return *static_cast<const Faults*>(context); }

rlx_status infer(void* context, const rlx_op_call* call, rlx_op_results* results, rlx_error** error) {
  const std::string type = call->types[0];
  if (call->count != 2 || type != call->types[1] || (!type.starts_with("f32") && !type.starts_with("f64"))) {
    *error = rlx_error_create(RLX_SHAPE_MISMATCH, "two of one type are wanted, f32 or f64");
    return RLX_SHAPE_MISMATCH;
  }
  return rlx_op_add_result(results, faults_of(context).shape ? "f32[77]" : type.c_str(), error);
}

template <class T>
rlx_status computed(const rlx_tensor* const* operands, double factor, rlx_tensor** result, rlx_error** error) {
  const size_t n = rlx_tensor_size(operands[0]) / sizeof(T);
  const T *x = static_cast<const T*>(rlx_tensor_data(operands[0])),
          *z = static_cast<const T*>(rlx_tensor_data(operands[1]));
  std::vector<T> y(n);
  for (size_t i = 0; i < n; ++i) y[i] = static_cast<T>(factor) * (x[i] * z[i] + x[i]);
  return rlx_tensor_create(rlx_tensor_dtype(operands[0]), rlx_tensor_dims(operands[0]), rlx_tensor_rank(operands[0]),
                           y.data(), n * sizeof(T), result, error);
}
rlx_status reference(void* context, const rlx_op_call*, const rlx_tensor* const* operands, rlx_tensor** results, size_t,
                     rlx_error** error) {
  const double factor = faults_of(context).reference ? 1.5 : 1;
  return std::string_view(rlx_tensor_dtype(operands[0])) == "f64" ? computed<double>(operands, factor, results, error)
                                                                  : computed<float>(operands, factor, results, error);
}

rlx_status parsed(const std::string& text, rlx_graph** graph, rlx_error** error) {
  return rlx_graph_parse(text.data(), text.size(), graph, error);
}
rlx_status decompose(void* context, const rlx_op_call* call, rlx_graph** graph, rlx_error** error) {
  const std::string t = std::string(" : ") + call->types[0] + "\n";
  return parsed("graph @parts {\n  %0 = input() @\"x\"" + t + "  %1 = input() @\"z\"" + t + "  %2 = mul(%0, %1)" + t +
                    (faults_of(context).decomposition ? "  %3 = sub(%2, %0)" : "  %3 = add(%2, %0)") + t +
                    "  return %3\n}\n",
                graph, error);
}
/// dx = ct z + ct, dz = ct x; of the inputs x, z, y and ct.
rlx_status vjp(void* context, const rlx_op_call* call, rlx_graph** graph, rlx_error** error) {
  const std::string t = std::string(" : ") + call->types[0] + "\n";
  return parsed("graph @gradient {\n  %0 = input() @\"x\"" + t + "  %1 = input() @\"z\"" + t + "  %2 = input() @\"y\"" +
                    t + "  %3 = input() @\"ct\"" + t + "  %4 = mul(%3, %1)" + t +
                    (faults_of(context).gradient ? "  %5 = sub(%4, %3)" : "  %5 = add(%4, %3)") + t +
                    "  %6 = mul(%3, %0)" + t + "  return %5, %6\n}\n",
                graph, error);
}
rlx_status kernel(void* context, const rlx_op_call* call, const rlx_kernel_arguments* a, rlx_error**) {
  size_t n = 1;  // "f32[2, 3]"
  for (const char* at = std::strchr(call->types[0], '['); *at != ']' && at[1] != ']';) {
    char* end = nullptr;
    n *= std::strtoul(at + 1, &end, 10);
    at = end;
  }
  const float *x = static_cast<const float*>(a->operands[0]), *z = static_cast<const float*>(a->operands[1]);
  for (size_t i = 0; i < n; ++i)
    static_cast<float*>(a->results[0])[i] = (x[i] * z[i] + x[i]) * (faults_of(context).kernel ? 1.5f : 1);
  return RLX_OK;
}

/// The op under every law, while it is registered: how often each holds, and which are broken.
std::pair<std::map<std::string, int>, std::set<std::string>> judged(Faults faults) {
  rlx_op_definition d{};
  d.struct_size = sizeof d;
  d.name = "c_product_plus", d.doc = "x z + x", d.operands = "x z";
  d.samples = "f64[4], f64[4]\nf64[2, 3], f64[2, 3] in [-1, 1]\nf64[], f64[]\n";
  d.elementwise = 1, d.context = &faults;
  d.infer = infer, d.reference = reference, d.decompose = decompose, d.vjp = vjp, d.kernel = kernel;
  d.kernel_dtypes = "f32";
  rlx_error* error = nullptr;
  REQUIRE_MESSAGE(rlx_op_register(&d, &error) == RLX_OK, rlx_error_message(error));
  std::map<std::string, int> holds;
  std::set<std::string> broken;
  const OpDef& op = find_op("c_product_plus");
  for (const laws::Law& law : laws::all_laws())
    for (const Sample& sample : op.samples()) {
      const laws::Finding f = laws::examine(law, op, sample);
      holds[std::string(law.name)] += f.outcome == laws::Outcome::holds;
      if (f.outcome != laws::Outcome::broken) continue;
      broken.emplace(law.name);
      if (!faults.shape && !faults.reference && !faults.decomposition && !faults.gradient && !faults.kernel)
        FAIL_CHECK(law.name << ": " << f.why);
    }
  CHECK(rlx_op_unregister("c_product_plus", &error) == RLX_OK);
  return {holds, broken};
}

}  // namespace

TEST_CASE("an op that C registers keeps every law on each device") {
  const auto [holds, broken] = judged({});
  CHECK(broken.empty());
  CHECK(holds.size() == laws::all_laws().size());
  for (const auto& each : holds) CHECK_MESSAGE(each.second > 0, each.first, " says nothing of it");
}

TEST_CASE("each rule of C's that is wrong breaks its law") {
  CHECK(judged({.shape = true}).second.contains("infer_agrees"));
  CHECK(judged({.reference = true}).second.contains("decompose_agrees"));
  CHECK(judged({.decomposition = true}).second.contains("decompose_agrees"));
  CHECK(judged({.gradient = true}).second.contains("vjp_is_gradient"));
  CHECK(judged({.kernel = true}).second.contains("backend_agrees(cpu)"));
}
