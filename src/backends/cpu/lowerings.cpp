// The table. An op that is not here is decomposed; a reason in a `when` goes into the dispatch report.
#include "backends/cpu/lowerings.h"

#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

const Lowering kLowerings[] = {
#define RLX_ELEMENTWISE(name) {&op::name, when_elementwise, lower_elementwise, strided::any, Overwrites::any},
    RLX_CPU_ELEMENTWISE(RLX_ELEMENTWISE)
#undef RLX_ELEMENTWISE
        {&op::elementwise_region, when_region, lower_region, strided::any, Overwrites::any},
    // op                       when                  how                     operands       overwrites
    {&op::broadcast_in_dim, when_bytes_move, lower_copy, strided::any},
    {&op::reshape, when_bytes_move, lower_copy, strided::any},
    {&op::transpose, when_bytes_move, lower_copy, strided::any},
    {&op::slice, when_bytes_move, lower_copy, strided::any},
    {&op::reverse, when_bytes_move, lower_copy, strided::any},
    {&op::concatenate, when_bytes_move, lower_concatenate, strided::any},
    {&op::pad, when::is_byte_sized, lower_pad},
    {&op::iota, when::is_byte_sized, lower_iota},
    {&op::extent, when::is_byte_sized, lower_extent},
    {&op::bitcast, when::is_byte_sized, lower_bitcast},
    {&op::optimization_barrier, when::always, lower_nothing, strided::any},
    {&op::reduce, when_reduce, lower_reduce},
    {&op::reduce, when::is_byte_sized, lower_reduce_custom},
    {&op::dot_general, when_dot, lower_dot, strided::any},
    {&op::matmul, when_matmul, lower_matmul, matmul_strided},
    {&op::linear, when_matmul, lower_matmul, matmul_strided},
    {&op::fused_matmul, when_matmul, lower_matmul, matmul_strided},
    {&op::linear, when_block_product, lower_block_product},
    {&op::fused_matmul, when_block_product, lower_block_product},
    {&op::dequant_matmul, when_block_product, lower_block_product},
    {&op::dequant_matmul, when_code_product, lower_code_product},
    {&op::dequant_grouped_matmul, when_block_experts, lower_block_experts},
    {&op::dequantize_blocks, when::always, lower_dequantize_blocks},
    {&op::dequantize_blockwise, when_codes, lower_codes},
    {&op::qmatmul, when::always, lower_qmatmul},
    {&op::convert, when_packed_convert, lower_packed_convert},
    {&op::gather, when_gather, lower_gather, strided::any},
    {&op::scatter, when_scatter, lower_scatter},
    {&op::scatter_add_rows, when_scatter_add_rows, lower_scatter_add_rows},
    {&op::pad_mode, when_pick, lower_pick},
    {&op::interpolate, when_pick, lower_pick},
    {&op::resize_nearest2x, when_pick, lower_pick},
    {&op::quantize, when_quantize, lower_quantize},
    {&op::dynamic_slice, when_dynamic, lower_dynamic_slice},
    {&op::dynamic_update_slice, when_dynamic, lower_dynamic_update_slice},
    {&op::reduce_window, when_reduce_window, lower_reduce_window, strided::any},
    {&op::reduce_window, when::is_byte_sized, lower_reduce_window_custom},
    {&op::select_and_scatter, when_select_windows, lower_select_windows},
    {&op::select_and_scatter, when_select_and_scatter, lower_select_and_scatter},
    {&op::convolution, when_convolution, lower_convolution, strided::any},
    {&op::convolution, when_plain_convolution, lower_plain_convolution, strided::any},
    {&op::softmax, when_softmax, lower_softmax, nullptr, Overwrites::first},
    {&op::log_softmax, when_softmax, lower_softmax, nullptr, Overwrites::first},
    {&op::l2_normalize, when_l2_normalize, lower_l2_normalize, nullptr, Overwrites::first},
    {&op::logsumexp, when_logsumexp, lower_logsumexp},
    {&op::layer_norm, when_norm, lower_norm, nullptr, Overwrites::first},
    {&op::rms_norm, when_norm, lower_norm, nullptr, Overwrites::first},
    {&op::fused_residual_layer_norm, when_norm, lower_residual_norm},
    {&op::fused_residual_rms_norm, when_norm, lower_residual_norm},
    {&op::layer_norm_backward, when_norm_backward, lower_norm_backward},
    {&op::rms_norm_backward, when_norm_backward, lower_norm_backward},
    {&op::group_norm, when_group_norm, lower_group_norm, nullptr, Overwrites::first},
    {&op::instance_norm, when_group_norm, lower_group_norm, nullptr, Overwrites::first},
    {&op::layer_norm_2d, when_group_norm, lower_layer_norm_2d, nullptr, Overwrites::first},
    {&op::group_norm_backward, when_group_norm_backward, lower_group_norm_backward},
    {&op::softmax_cross_entropy_with_logits, when_label_loss, lower_cross_entropy},
    {&op::softmax_cross_entropy_backward, when_label_loss, lower_cross_entropy, nullptr, Overwrites::first},
    {&op::softmax_cross_entropy, when_target_loss, lower_cross_entropy},
    {&op::nll, when_nll, lower_nll},
    {&op::cumsum, when_cumulate, lower_cumulate, nullptr, Overwrites::first},
    {&op::cumprod, when_cumulate, lower_cumulate, nullptr, Overwrites::first},
    {&op::cummax, when_cumulate, lower_cumulate, nullptr, Overwrites::first},
    {&op::argmax, when_extreme, lower_extreme},
    {&op::argmin, when_extreme, lower_extreme},
    {&op::attention, when_attention, lower_attention, attention_strided},
    {&op::attention_backward, when_attention_backward, lower_attention_backward, attention_backward_strided},
    {&op::lstm, when_recurrent, lower_recurrent},
    {&op::gru, when_recurrent, lower_recurrent},
    {&op::rnn, when_recurrent, lower_recurrent},
    {&op::selective_scan, when_recurrent, lower_selective_scan},
    {&op::mamba2, when_recurrent, lower_mamba2},
    {&op::gated_delta_net, when_recurrent, lower_gated_delta_net},
    {&op::sort, when_sort, lower_sort},
    {&op::sort, when::is_byte_sized, lower_sort_custom},
    {&op::top_k, when_top_k, lower_top_k},
    {&op::lu, when::always, lower_lu},
    {&op::cholesky, when::always, lower_cholesky},
    {&op::triangular_solve, when::always, lower_triangular_solve},
    {&op::solve, when::always, lower_solve},
    {&op::geqrf, when::always, lower_geqrf},
    {&op::householder_product, when::always, lower_householder_product},
    {&op::qr, when::always, lower_qr},
    {&op::eigh, when::always, lower_eigh},
    {&op::svd, when_svd, lower_svd},
    {&op::eig, when::always, lower_eig},
    {&op::rng_bits, when::always, lower_rng_bits},
    {&op::fft, when::always, lower_fft},
    {&op::if_else, when::always, lower_if},
    {&op::while_loop, when::always, lower_while, nullptr, Overwrites::carries},
    {&op::scan, when::always, lower_scan, scan_strided, Overwrites::carries},
};

/// For ops that the table does not know.
const Lowering kByReference = {nullptr, when::is_byte_sized, lower_reference};

}  // namespace

std::span<const Lowering> lowerings() { return kLowerings; }
bool runs_reference(const Lowering& row) { return &row == &kByReference; }

const Lowering* find_lowering(const Question& q, std::string& why_not) {
  why_not = text_of("the CPU has no kernel for '", q.node.op->name, "'");
  bool known = false;
  for (const Lowering& row : kLowerings) {
    if (row.op != q.node.op) continue;
    known = true;
    if ((why_not = row.when(q)).empty()) return &row;
  }
  if (known || !q.node.op->reference || q.node.op->decompose) return nullptr;
  why_not = kByReference.when(q);
  return why_not.empty() ? &kByReference : nullptr;
}

namespace when {
std::string always(const Question&) { return ""; }
std::string is_byte_sized(const Question& q) {
  for (Types types : {q.operands, Types(q.node.types)})
    for (const Type& t : types)
      if (!rlx::is_byte_sized(t.dtype)) return text_of(t, " is packed: its elements have no address");
  return "";
}
std::string is_float(const Question& q) {
  for (const Type& t : q.operands)
    if (t.dtype != f32 && t.dtype != f64 && t.dtype != f16 && t.dtype != bf16)
      return text_of(t, " is not f32, f64, f16 or bf16");
  return "";
}
}  // namespace when

}  // namespace rlx::cpu
