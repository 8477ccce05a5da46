// How the errors of an op's results are bounded, and which results its definition leaves open. The judge of backends
// (judge.cpp) and the judge of odd graphs (tests/attack/noise.cpp) read it here.
//
// It is a table beside the judges and not a rule of OpDef, because nobody else asks: a graph is built, compiled and run
// without it. A rule there would also be a promise to users, and registered ops would have to make it. An op that is
// not in the table is bounded element by element, the strictest bound, so that an op that is forgotten is found by its
// tests. Ops are named by their handles: one that is misspelt or removed does not compile.
#pragma once

#include <map>

#include "rlx/ops.h"

namespace rlx {

enum class ErrorNorm {
  element,  ///< each result is exact for operands of which each element is off by some roundings
  /// The results are exact for operands of which each matrix is off by some roundings of its largest element: backward
  /// errors of factorizations and transforms (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002)
  matrix,
  /// As `matrix`, and results are off by roundings of their largest element: functions of a symmetric
  /// matrix go by its eigenvalues, which every algorithm gives relative to the norm of the matrix, not to each element
  /// (Higham, Functions of Matrices, 2008, section 4.5)
  spectrum
};

struct ErrorBound {
  ErrorNorm norm = ErrorNorm::element;
  /// Index of a result of row vectors, and of the one with their values; -1: none. A row whose value is 0 is
  /// determined up to a factor of magnitude 1: of x = u diag(s) vt, the sign of such a row of vt tells nothing.
  int free_rows = -1, values_of_rows = -1;
};

inline ErrorBound error_bound_of(const OpDef& op) {
  static const std::map<const OpDef*, ErrorBound> table = [] {
    std::map<const OpDef*, ErrorBound> all;
    for (const OpDef* matrix : {&op::lu,          &op::cholesky,
                                &op::geqrf,       &op::householder_product,
                                &op::qr,          &op::triangular_solve,
                                &op::solve,       &op::inverse,
                                &op::det,         &op::slogdet,
                                &op::eigh,        &op::eigh_backward,
                                &op::svd,         &op::eig,
                                &op::pinv,        &op::lstsq,
                                &op::fft,         &op::fft_q,
                                &op::expm,        &op::bimap,
                                &op::reeig,       &op::reeig_backward,
                                &op::logeig,      &op::logeig_backward,
                                &op::log_mel,     &op::log_mel_backward,
                                &op::welch_peaks, &op::partitioned_conv})
      all[matrix].norm = ErrorNorm::matrix;
    for (const OpDef* spectrum :
         {&op::spd_matrix_fn, &op::spd_matrix_fn_backward, &op::spd_matrix_fn_hessian, &op::spd_log_map,
          &op::spd_log_map_backward, &op::spd_exp_map, &op::spd_exp_map_backward, &op::spd_parallel_transport,
          &op::spd_parallel_transport_backward, &op::spd_batch_norm, &op::spd_batch_norm_backward,
          &op::spd_karcher_mean, &op::spd_karcher_mean_backward, &op::spd_karcher_solve})
      all[spectrum].norm = ErrorNorm::spectrum;
    all[&op::svd].free_rows = 2, all[&op::svd].values_of_rows = 1;
    return all;
  }();
  const auto found = table.find(&op);
  return found == table.end() ? ErrorBound{} : found->second;
}

}  // namespace rlx
