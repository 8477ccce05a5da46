"""Numbers of events: the Poisson, binomial and multinomial distributions. Where few are to be expected the events themselves are
drawn; else Hoermann's transformed rejection ("The transformed rejection method for generating Poisson random variables", 1993; "The
generation of binomial random variates", 1993)."""

import numpy as np

from .. import _dtypes, ops
from .._array import as_array, convert
from .._native import Error, at_user_line
from ..numpy import _elementwise as ew
from .draws import drawn_shape, float_name, integer_name, uniform
from .keys import split_for


def _until_accepted(proposed, key, shape, dtype, algorithm):
    """proposed(u, v) gives (accepted, value) for uniform numbers u and v; drawn until each element has an accepted one."""
    from .. import numpy as rnp
    from .._control import while_loop

    def again(state):
        key, made, is_done = state
        key, for_u, for_v = split_for(algorithm, key, 3)
        is_accepted, value = proposed(uniform(for_u, shape, dtype, algorithm=algorithm) - 0.5,
                                      uniform(for_v, shape, dtype, algorithm=algorithm))
        return key, rnp.where(is_accepted, value, made), is_done | is_accepted

    start = (as_array(key), rnp.full(shape, -1, dtype), rnp.zeros(shape, "bool"))
    return while_loop(lambda state: rnp.any(~state[2]), again, start)[1]


def _poisson_by_product(key, lam, dtype, algorithm):
    """How many uniform numbers it takes until their product is below e^-lam (Knuth)."""
    from .. import numpy as rnp
    from .._control import while_loop

    def another(state):
        key, made, log_product = state
        key, use = split_for(algorithm, key)
        u = uniform(use, lam.shape, "f32", algorithm=algorithm)
        return key, rnp.where(log_product > -lam, made + 1, made), log_product + ops.log(u)

    start = (as_array(key), rnp.zeros(lam.shape, "int32"), rnp.zeros(lam.shape, "f32"))
    return convert(while_loop(lambda state: rnp.any(state[2] > -lam), another, start)[1] - 1, dtype)


def _poisson_by_rejection(key, lam, dtype, algorithm):
    log_lam = ops.log(lam)
    b = 0.931 + 2.53 * ops.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def proposed(u, v):
        side = 0.5 - ops.abs(u)
        k = ops.floor((2 * a / side + b) * u + lam + 0.43)
        s = ops.log(v * inverse_alpha / (a / (side * side) + b))
        is_out = (k < 0) | ((side < 0.013) & (v > side))
        fits = s <= k * log_lam - lam - ops.lgamma(k + 1)
        return ((side >= 0.07) & (v <= v_r)) | (~is_out & fits), k

    return convert(_until_accepted(proposed, key, lam.shape, "f32", algorithm), dtype)


def poisson(key, lam, shape=None, dtype="i32", *, algorithm="philox"):
    """How many of many rare events come about where `lam` are to be expected."""
    from .. import numpy as rnp
    dtype = integer_name("poisson", dtype)
    lam = ew.not_complex(lam, "poisson")
    shape = drawn_shape("poisson", shape, lam)
    lam = ops.stop_gradient(ew.broadcast_to(convert(lam, "f32"), shape))
    is_rare = rnp.isnan(lam) | (lam < 10)
    made = rnp.where(is_rare, _poisson_by_product(key, rnp.where(is_rare, lam, 0), dtype, algorithm),
                     _poisson_by_rejection(key, rnp.where(is_rare, 1e5, lam), dtype, algorithm))
    return rnp.where(lam == 0, rnp.zeros_like(made), made)


def _binomial_by_gaps(key, count, p, algorithm):
    """How many gaps between successes, which have the geometric distribution, fit into `count` trials."""
    from .. import numpy as rnp
    from .._control import while_loop
    log_failure = ops.log1p(-p)

    def another(state):
        key, made, trials = state
        use, key = split_for(algorithm, key)
        gap = ops.ceil(ops.log(uniform(use, p.shape, p.dtype, algorithm=algorithm)) / log_failure)
        return key, rnp.where(trials <= count, made + 1, made), trials + gap

    start = (as_array(key), rnp.zeros_like(p), rnp.zeros_like(p))
    return while_loop(lambda state: rnp.any(state[2] <= count), another, start)[1] - 1


# ln k! less Stirling's formula for it, at 0 to 9; beyond, the first terms of its series.
_TAILS = [0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211, 0.0138761288230707,
          0.0118967099458917, 0.010411265261972, 0.00925546218271273, 0.00833056343336287]


def _stirling_tail(k):
    from .. import numpy as rnp
    k_limited = rnp.clip(k, 0, 9)
    square = (k_limited + 1) * (k_limited + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k_limited + 1)
    table = as_array(np.asarray(_TAILS, k.dtype))
    return rnp.where(k <= 9, table[convert(ops.floor(k_limited), "i32")], series)


def _binomial_by_rejection(key, count, p, algorithm):
    spread = ops.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = count * p + 0.5
    v_r = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * spread
    mode = ops.floor((count + 1) * p)

    def proposed(u, v):
        side = 0.5 - ops.abs(u)
        k = ops.floor((2 * a / side + b) * u + c)
        bound = ((mode + 0.5) * ops.log((mode + 1) / (odds * (count - mode + 1)))
                 + (count + 1) * ops.log((count - mode + 1) / (count - k + 1))
                 + (k + 0.5) * ops.log(odds * (count - k + 1) / (k + 1))
                 + _stirling_tail(mode) + _stirling_tail(count - mode) - _stirling_tail(k) - _stirling_tail(count - k))
        is_out = (k < 0) | (k > count)
        return ((side >= 0.07) & (v <= v_r)) | (~is_out & (ops.log(v * alpha / (a / (side * side) + b)) <= bound)), k

    return _until_accepted(proposed, key, count.shape, p.dtype_name, algorithm)


def binomial(key, n, p, shape=None, dtype="f32", *, algorithm="philox"):
    """How many of n coins show heads, each with probability p: floats, as JAX has it. NaN for n below 0 and a p that is NaN or below
    0."""
    from .. import numpy as rnp
    dtype = float_name("binomial", dtype)
    count, p = ew.not_complex(n, "binomial"), ew.inexact(ew.not_complex(p, "binomial"))
    shape = drawn_shape("binomial", shape, count, p)
    count = ops.stop_gradient(ew.broadcast_to(convert(count, p.dtype_name), shape))
    p = ops.stop_gradient(ew.broadcast_to(p, shape))
    is_less = p < 0.5
    q = rnp.where(is_less, p, 1 - p)
    is_no_count, is_no_p = rnp.isnan(count) | (count < 0), rnp.isnan(q) | (q < 0)
    is_endless = rnp.isinf(count)
    q = rnp.where(is_no_p, 0.01, q)
    is_rare = is_no_count | (count * q <= 10)
    count = ops.floor(count)
    made = rnp.where(is_rare, _binomial_by_gaps(key, rnp.where(is_rare, count, 0), q, algorithm),
                     _binomial_by_rejection(key, rnp.where(is_rare | is_endless, 1e4, count), rnp.where(is_rare, 0.5, q), algorithm))
    made = rnp.where(is_less | is_no_count | is_endless, made, count - made)
    made = rnp.where(is_endless, np.inf, made)
    return convert(rnp.where(is_no_count | is_no_p, np.nan, made), dtype)


def multinomial(key, n, p, *, shape=None, dtype=None, unroll=1, algorithm="philox"):
    """How many of n things fall into each of the classes, which have the probabilities p[..., classes]. `unroll` is taken as JAX has
    it, and changes nothing."""
    from .. import numpy as rnp
    from .._control import scan
    n, p = ew.promoted(ew.inexact(n), p)
    shape = p.shape if shape is None else tuple(shape)
    if not shape:
        raise Error(at_user_line("multinomial takes p[..., classes], got a scalar"), "shape_mismatch")
    dtype = float_name("multinomial", n.dtype_name if dtype is None else dtype)
    n, p = ew.broadcast_to(n, shape[:-1]), rnp.moveaxis(ew.broadcast_to(p, shape), -1, 0)
    left = ops.cumsum(p, axis=0, reverse=True)
    ratios = p / rnp.where(left == 0, 1, left)
    keys = ops.rng_split(key, dims=(p.shape[0],), original=algorithm == "threefry_original")

    def step(rest, given):
        ratio, key = given
        made = binomial(key, rest, rnp.clip(ratio, 0, 1), dtype=rest.dtype, algorithm=algorithm)
        return rest - made, made

    return convert(rnp.moveaxis(scan(step, n, (ratios, keys))[1], 0, -1), dtype)
