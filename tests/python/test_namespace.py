"""The names that users of NumPy, SciPy and JAX look for, with the forms in which they call them."""

import inspect

import pytest

import rlx
import rlx.numpy

# name, how many arguments by position (a range; * for any number), arguments by keyword
NAMES = """
np:
    where 3; reshape 2; asarray 1-2 dtype; sum 1-2 axis keepdims; matmul 2; broadcast_to 2; moveaxis 3; astype 2;
    take_along_axis 2 axis; mean 1 axis keepdims; squeeze 1-2; sqrt 1; maximum 2; take 2 axis mode; abs 1; swapaxes
    3; zeros 1 dtype; expand_dims 2; pad 2 constant_values mode; square 1; max 1 axis keepdims; arange 1-3 dtype;
    var 1 axis ddof keepdims; trunc 1; ravel 1; argmax 1 axis keepdims; stack 1-2; ones 1 dtype; tril 1-2;
    reciprocal 1; transpose 1-2; triu 1-2; eye 1-2 dtype; full_like 2 dtype; ones_like 1 dtype; min 1 axis keepdims;
    cos 1; concatenate 2; clip 3; full 2 dtype; sort 1 axis; exp 1; diagonal 4; true_divide 2; log 1; minimum 2;
    split 3; floor 1; logaddexp 2; argsort 1 axis descending stable; conj 1; subtract 2; any 1 axis keepdims; sin 1;
    nonzero 1 fill_value size; argmin 1 axis keepdims; cumprod 1 axis dtype; power 2; cumsum 1 axis dtype; isnan 1;
    linspace 3 dtype; logspace 3 base dtype; multiply 2; prod 1 axis keepdims; einsum 2-4; meshgrid 1-4 indexing;
    zeros_like 1 dtype; histogram 2-3 density weights; tile 2; add 2; all 1 axis keepdims; searchsorted 2 side;
    bitwise_and 2; bitwise_or 2; bitwise_xor 2; floor_divide 2; log1p 1; remainder 2; round 1-2; atleast_1d 1; exp2
    1; allclose 5; bincount 3; count_nonzero 1 axis; cov 1 aweights ddof fweights; diag 2; histogramdd 5; isclose 5;
    nanmean 1 axis keepdims; nanquantile 2 axis keepdims method; nansum 1 axis keepdims; quantile 2 axis keepdims
    method; roll 3; rot90 3; unique 1 axis return_counts return_inverse; unravel_index 2; atleast_2d 1; copysign 2;
    equal 2; flip 2; hypot 2; arctan2 2; fmax 2; fmin 2; fmod 2; gcd 2; greater 2; greater_equal 2; heaviside 2; lcm
    2; left_shift 2; less 2; less_equal 2; logical_and 2; logical_or 2; logical_xor 2; nextafter 2; not_equal 2;
    right_shift 2; array_equal 2; array_split 3; diff 3; outer 2; argwhere 1; atleast_3d 1; cross 2 axis; imag 1;
    real 1; sinc 1; tril_indices 3; triu_indices 3; diagflat 2; frexp 1; repeat 2 axis; trace 1; corrcoef 1;
    gradient 2 axis; tanh 1; arccos 1; arccosh 1; bitwise_not 1; column_stack 1; cosh 1; isfinite 1; isreal 1; log10
    1; log2 1; logical_not 1; nan_to_num 1; tensordot 3; dstack 1; fliplr 1; flipud 1; hstack 1; inner 2; isin 2;
    sign 1; vstack 1; angle 1; arcsin 1; arcsinh 1; arctan 1; arctanh 1; broadcast_arrays 4; ceil 1; deg2rad 1; dot
    2; expm1 1; isinf 1; isneginf 1; isposinf 1; kron 2; logaddexp2 2; negative 1; positive 1; rad2deg 1; signbit 1;
    sinh 1; tan 1; vdot 2
rlx:
    index_set 3; index_add 3; reduce_window *; stop_gradient 1; conv 6; conv_transpose 7; index_mul 3; index_max 3;
    index_min 3; scan 3; top_k 2
linalg:
    svd 1 compute_uv full_matrices; solve_triangular 2 lower unit_diagonal; pinv 1-2; lu 1; cholesky 1; eigh 1; inv
    1; solve 2; householder_product 2; slogdet 1; matrix_power 2; qr 2; det 1; eig 1; eigvals 1; multi_dot 1;
    tensorsolve 2; expm 1; tensorinv 2
nn:
    log_softmax 1 axis; softmax 1 axis; logsumexp 1 axis keepdims; softplus 1; glu 2; leaky_relu 2; gelu 1
    approximate; log_sigmoid 1; one_hot 2; silu 1; hard_silu 1; relu 1; celu 2; elu 2; hard_sigmoid 1; mish 1; relu6
    1; selu 1; sigmoid 1
special:
    polygamma 2; multigammaln 2; xlogy 2; i0 1; gammainc 2; gammaincc 2; xlog1py 2; zeta 2; i1 1; logit 1; digamma
    1; erfc 1; erfcx 1; gammaln 1; log_ndtr 1; ndtr 1; ndtri 1; entr 1; i0e 1; i1e 1; erf 1; erfinv 1
fft:
    fftn 4; ifftn 4; hfft 4; ihfft 4; irfftn 4; rfftn 4; rfft 4; irfft 4; fft 4; ifft 4; fftshift 2; ifftshift 2
"""
MODULES = {"np": rlx.numpy, "rlx": rlx, "linalg": rlx.linalg, "nn": rlx.nn, "special": rlx.special, "fft": rlx.fft}


def forms():
    for block in NAMES.strip().replace("\n    ", " ").split("\n"):
        module, _, entries = block.partition(":")
        for entry in entries.split(";"):
            name, count, *keywords = entry.split()
            low, _, high = count.partition("-")
            yield module, name, [] if count == "*" else list(range(int(low), int(high or low) + 1)), keywords


@pytest.mark.parametrize("module,name,counts,keywords", [pytest.param(*f, id=f"{f[0]}.{f[1]}") for f in forms()])
def test_a_name_takes_the_calls_that_are_in_use(module, name, counts, keywords):
    function = getattr(MODULES[module], name)
    signature = inspect.signature(function)
    for count in counts:
        signature.bind(*range(count))
    if counts:
        signature.bind(*range(min(counts)), **dict.fromkeys(k for k in keywords))
    assert function.__doc__


def test_there_are_263():
    assert len(list(forms())) == 263
