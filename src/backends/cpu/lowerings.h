// The functions of the lowering table (lowerings.def), by the file that defines them, lower_<family>.cpp. A function
// when_*() says whether the CPU supports a node: it returns an empty text, or the reason why not, which goes into the
// compile report. A function *_strided() says whether the kernel reads an operand with these strides; if not, the
// operand is copied first. The functions that make the steps, lower_*(), are declared from the rows of lowerings.def.
#pragma once

#include "backends/cpu/lowering.h"
#include "kernels/quant/vnni.h"
#include "rlx/kernel.h"
#include "rlx/ops/activation.h"

// The ops that the element-wise machine evaluates, alone or inside a fused region.
// clang-format is off because it changes this list each time it runs.
// clang-format off
#define RLX_CPU_ELEMENTWISE(OP)                                                                                        \
  OP(abs)                                                                                                              \
  OP(neg)                                                                                                              \
  OP(sign)                                                                                                             \
  OP(floor)                                                                                                            \
  OP(ceil)                                                                                                             \
  OP(round_nearest_even)                                                                                               \
  OP(round_nearest_afz) OP(exp) OP(expm1) OP(log) OP(log1p) OP(sqrt) OP(rsqrt) OP(cbrt) OP(sin) OP(cos) OP(tan)        \
      OP(tanh) OP(logistic) OP(erf) OP(is_finite) OP(bitwise_not) OP(popcnt) OP(clz) OP(real) OP(imag) OP(complex)     \
          OP(add) OP(sub) OP(mul) OP(div) OP(rem) OP(pow) OP(maximum) OP(minimum) OP(atan2) OP(bitwise_and)            \
              OP(bitwise_or) OP(bitwise_xor) OP(shift_left) OP(shift_right_logical) OP(shift_right_arithmetic)         \
                  OP(compare) OP(select) OP(convert) OP(reciprocal) OP(exp2) OP(log2) OP(erfc) OP(lgamma) OP(asin) OP(acos)       \
                      OP(atan) OP(sinh) OP(cosh) OP(asinh) OP(acosh) OP(atanh) OP(fma) OP(relu) OP(gelu) OP(gelu_tanh) \
                          OP(silu)
// clang-format on

namespace rlx::cpu {

using Prepared = std::unique_ptr<Step>;

// lower_elementwise.cpp
std::string when_elementwise(const Question&);
Prepared lower_elementwise(const LoweringContext&);
std::string when_region(const Question&);
Prepared lower_region(const LoweringContext&);
/// The operands that the result may overwrite, because each element is read only at the index at which it is written.
std::vector<size_t> overwritable_operands(const Node&);
/// Whether the element-wise machine has an instruction for the node.
bool is_machine_op(const Node&);

// lower_move.cpp
/// A tensor of a block dtype, seen as a tensor of bytes; other tensors are returned as they are.
View blocks_as_bytes(View);
/// Refuses packed elements, which have no addresses, but not blocks, which are moved whole.
std::string when_bytes_move(const Question&);
Prepared copy_step(const View& from, const View& to);

// lower_dot.cpp
std::string when_dot(const Question&);
bool dot_strided(const Node&, size_t operand, const Shape&, std::span<const int64_t> strides);

// lower_matmul.cpp
std::string when_matmul(const Question&);
bool matmul_strided(const Node&, size_t operand, const Shape&, std::span<const int64_t> strides);
std::string when_grouped(const Question&);
bool grouped_matmul_strided(const Node&, size_t operand, const Shape&, std::span<const int64_t> strides);
bool segment_matmul_strided(const Node&, size_t operand, const Shape&, std::span<const int64_t> strides);
kernels::Activation kernel_activation(rlx::Activation);
/// The stride from one row of a [..., k] operand to the next, if a single stride walks all rows.
std::optional<int64_t> row_stride(const View&);
/// The rows of [..., k].
int64_t row_count(const View&);

// lower_blocks.cpp
std::string when_block_product(const Question&);
std::string when_block_experts(const Question&);
std::string when_quantized_experts(const Question&);
std::string when_dequantize_blockwise(const Question&);
std::string when_quantized_weights_product(const Question&);

// lower_dynamic_product.cpp
std::string when_dynamic_product(const Question&);
/// Empty if the kernel supports quantized values of up to `x_largest`, else why not.
std::string refusal_of_largest(int64_t x_largest);
/// Estimated nanoseconds of a multiply-add.
double int8_multiply_ns(kernels::Int8DotIsa isa);
/// How the names of packed forms of 8-bit weights begin (PackedCache::in_layout).
std::string int8_form(kernels::Int8DotIsa isa);

// lower_dynamic_convolution.cpp
std::string when_dynamic_convolution(const Question&);

// lower_requantized_product.cpp
std::string when_qconv2d(const Question&);

// lower_packed.cpp
std::string when_packed_convert(const Question&);

// lower_index.cpp
std::string when_gather(const Question&);
std::string when_scatter(const Question&);
std::string when_scatter_add_rows(const Question&);
std::string when_dynamic(const Question&);
/// The update may lie anyhow, as it is copied element by element.
bool update_strided(const Node&, size_t operand, const Shape&, std::span<const int64_t> strides);

// lower_window.cpp
std::string when_reduce_window(const Question&);
std::string when_select_windows(const Question&);

// lower_convolution.cpp
std::string when_convolution(const Question&);

// lower_fused_convolution.cpp
std::string when_fused_conv(const Question&);
bool fused_conv_strided(const Node&, size_t operand, const Shape&, std::span<const int64_t> strides);

// lower_reduce.cpp
std::string when_reduce(const Question&);

// lower_rows.cpp
std::string when_softmax(const Question&);
std::string when_l2_normalize(const Question&);
std::string when_logsumexp(const Question&);
std::string when_norm(const Question&);
std::string when_norm_backward(const Question&);
std::string when_params(const Question&);  // lower_optimizer.cpp

// lower_loss.cpp
std::string when_label_loss(const Question&);
std::string when_target_loss(const Question&);
std::string when_nll(const Question&);

// lower_group_norm.cpp
std::string when_group_norm(const Question&);
std::string when_group_norm_backward(const Question&);

// lower_outer_gather.cpp
std::string when_outer_gather(const Question&);

// lower_quantize.cpp
std::string when_quantize(const Question&);

// lower_axis_vectors.cpp
std::string when_cumulate(const Question&);
std::string when_argmax(const Question&);

// lower_attention.cpp
std::string when_attention(const Question&);
std::string when_rope(const Question&);
bool attention_strided(const Node&, size_t operand, const Shape&, std::span<const int64_t> strides);
std::string when_attention_backward(const Question&);
bool attention_backward_strided(const Node&, size_t operand, const Shape&, std::span<const int64_t> strides);

// lower_sort.cpp
std::string when_sort(const Question&);
std::string when_top_k(const Question&);

// lower_recurrent.cpp, lower_linear_recurrence.cpp
std::string when_recurrent(const Question&);
std::string when_recurrent_layers(const Question&);

// lower_lstm_layer.cpp
std::string when_lstm_layer_backward(const Question&);

// lower_linalg.cpp
std::string when_lapack(const Question&);
std::string when_svd(const Question&);

// lower_reference.cpp
Prepared lower_reference(const LoweringContext&);
/// What error messages say about a user's code: `what` is "the reference", or "the kernel 'x'".
struct UserCode {
  std::string what, op, node;
};
/// Runs a user's code. An exception becomes an rlx::Error that names the code and the node, and is kept in the
/// run's control, which ends the run.
void run_user_code(const UserCode&, const StepArgs&, const std::function<void()>& code) noexcept;

// registered.cpp: kernels from outside the library
/// The registered kernel that supports the node. If there is none it is null, and `refusals` says why the registered
/// ones refuse, if there are any.
std::shared_ptr<const CpuKernel> registered_kernel(const Question&, std::string& refusals);
bool has_registered_kernel(const OpDef&);
/// A kernel that a graph was compiled with. It is not kept alive: its code may be unloaded when it is unregistered.
struct KernelInUse {
  std::weak_ptr<const CpuKernel> kernel;
  std::string op, name;
};
/// The kernels that compute nodes of the graph or of its sub-graphs.
std::vector<KernelInUse> registered_kernels_in(const Graph&);
/// Fails if one of them has been unregistered: it must not be replaced silently.
void require_registered(std::span<const KernelInUse>);
size_t registered_kernels_hash();
/// Each as "op by 'name'", once, sorted: those that take nodes of the graph, or all if it is null.
std::vector<std::string> registered_kernel_names(const Graph*);
Prepared lower_registered(const LoweringContext&);

// lower_while.cpp, lower_scan.cpp
/// A scan reads its xs slice by slice, so the slices need not be contiguous.
bool scan_strided(const Node&, size_t operand, const Shape&, std::span<const int64_t> strides);
/// For each carry of a loop, whether the body updates it in place.
std::vector<bool> updated_carries(const Node&);

}  // namespace rlx::cpu
