"""The gamma distribution, and those that are made of it."""

import functools
import operator

import numpy as np

from .. import ops
from .._array import convert
from .._native import Error, at_user_line
from ..numpy import _elementwise as ew
from ..numpy._creation import shape_tuple
from .by_inversion import exponential
from .draws import as_parameter, drawn_shape, float_name, normal, rademacher, uniform
from .keys import split_for


def _sample(key, a, in_logarithms, algorithm):
    """One number of the gamma distribution of shape a: Marsaglia, Tsang, "A simple method for generating gamma variables", 2000. Of an
    a below 1 it is the number of a + 1 times one that is uniform, to the power 1 / a."""
    from .. import numpy as rnp
    from .._control import while_loop
    dtype = a.dtype_name
    number = lambda value: rnp.full((), value, dtype)
    is_boosted = a < 1
    d = rnp.where(is_boosted, a + 1, a) - 1 / 3
    c = 1 / 3 / ops.sqrt(d)

    def is_refused(state):
        _, square, cube, u = state
        return (u >= 1 - 0.0331 * (square * square)) & (ops.log(u) >= square * 0.5 + d * (1 - cube + ops.log(cube)))

    def drawn(state):
        key, for_normal, for_uniform = split_for(algorithm, state[0], 3)

        def another(state):
            key, use = split_for(algorithm, state[0])
            x = normal(use, (), dtype, algorithm)
            return key, x, 1 + x * c

        _, x, v = while_loop(lambda state: state[2] <= 0, another, (for_normal, number(0), number(-1)))
        return key, x * x, v * v * v, uniform(for_uniform, (), dtype, algorithm=algorithm)

    key, for_boost = split_for(algorithm, key)
    cube = while_loop(is_refused, drawn, (key, number(0), number(1), number(2)))[2]
    if in_logarithms:
        boost = -exponential(for_boost, (), dtype, algorithm=algorithm)
        return ops.log(d) + ops.log(cube) + rnp.where(is_boosted & (boost != 0), boost / a, 0)
    boost = 1 - uniform(for_boost, (), dtype, algorithm=algorithm)
    return d * cube * rnp.where(is_boosted, ew.power(boost, 1 / a), 1)


@functools.lru_cache(maxsize=None)
def _samples(in_logarithms, algorithm):
    """(keys[n, 2], a[n]) -> the samples[n], with the derivative by a that the distribution function implies (Figurnov, Mohamed,
    Mnih, "Implicit reparameterization gradients", 2018)."""
    from .. import numpy as rnp
    from .._jit import jit
    from .._transforms import custom_jvp, vmap
    from .._lax.special import random_gamma_grad
    run = jit(vmap(lambda key, a: _sample(key, a, in_logarithms, algorithm)))

    @custom_jvp
    def samples(keys, a):
        return run(keys, a)

    @samples.defjvp
    def rule(primals, tangents):
        keys, a = primals
        made = samples(keys, a)
        # In f64, where what a small `a` makes does not underflow.
        x, wide = convert(made, "f64"), convert(a, "f64")
        x = ops.exp(x) if in_logarithms else x
        x = rnp.where(x == 0, float(np.finfo(np.float64).tiny), x)
        slope = random_gamma_grad(wide, x)
        return made, tangents[1] * convert(slope / x if in_logarithms else slope, a.dtype_name)

    return samples


def _gamma(name, key, a, shape, dtype, in_logarithms, algorithm):
    from .. import numpy as rnp
    dtype = float_name(name, dtype)
    a = as_parameter(name, a, dtype)
    shape = drawn_shape(name, shape, a)
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return rnp.zeros(shape, dtype)
    keys = ops.rng_split(key, dims=(count,), original=algorithm == "threefry_original")
    return rnp.reshape(_samples(in_logarithms, algorithm)(keys, rnp.reshape(ew.broadcast_to(a, shape), (count,))), shape)


def gamma(key, a, shape=None, dtype="f32", *, algorithm="philox"):
    """Numbers of the gamma distribution, x^(a - 1) e^-x / gamma(a). They have a derivative by a."""
    return _gamma("gamma", key, a, shape, dtype, False, algorithm)


def loggamma(key, a, shape=None, dtype="f32", *, algorithm="philox"):
    """The logarithms of numbers of the gamma distribution, also where those of a small `a` underflow."""
    return _gamma("loggamma", key, a, shape, dtype, True, algorithm)


def beta(key, a, b, shape=None, dtype="f32", *, algorithm="philox"):
    """Numbers of the beta distribution, x^(a - 1) (1 - x)^(b - 1) over the beta function of a and b."""
    from .. import numpy as rnp
    dtype = float_name("beta", dtype)
    a, b = as_parameter("beta", a, dtype), as_parameter("beta", b, dtype)
    shape = drawn_shape("beta", shape, a, b)
    logs = [loggamma(k, x, shape, dtype, algorithm=algorithm) for k, x in zip(split_for(algorithm, key), (a, b))]
    first, second = [ops.exp(x - rnp.maximum(*logs)) for x in logs]
    return first / (first + second)


def dirichlet(key, alpha, shape=None, dtype="f32", *, algorithm="philox"):
    """Vectors of the Dirichlet distribution of alpha[..., n]. `shape` is that of what stands before the n."""
    dtype = float_name("dirichlet", dtype)
    alpha = as_parameter("dirichlet", alpha, dtype)
    if alpha.ndim < 1:
        raise Error(at_user_line("dirichlet takes alpha[..., n], got a scalar"), "shape_mismatch")
    batch = drawn_shape("dirichlet", shape, alpha[..., 0])
    return ops.softmax(loggamma(key, alpha, batch + alpha.shape[-1:], dtype, algorithm=algorithm), axis=-1)


def chisquare(key, df, shape=None, dtype="f32", *, algorithm="philox"):
    """Numbers of the chi-square distribution: the sum of `df` squares of normal numbers."""
    dtype = float_name("chisquare", dtype)
    df = as_parameter("chisquare", df, dtype)
    return ops.exp(loggamma(key, df / 2, shape, dtype, algorithm=algorithm)) * 2


def f(key, dfnum, dfden, shape=None, dtype="f32", *, algorithm="philox"):
    """Numbers of the F distribution: the quotient of two chi-square numbers, each over its degrees of freedom."""
    dtype = float_name("f", dtype)
    dfnum, dfden = as_parameter("f", dfnum, dtype), as_parameter("f", dfden, dtype)
    shape = drawn_shape("f", shape, dfnum, dfden)
    for_den, for_num = split_for(algorithm, key)
    num = chisquare(for_num, dfnum, shape, dtype, algorithm=algorithm) / dfnum
    return num / (chisquare(for_den, dfden, shape, dtype, algorithm=algorithm) / dfden)


def t(key, df, shape=None, dtype="f32", *, algorithm="philox"):
    """Numbers of Student's t distribution with `df` degrees of freedom."""
    dtype = float_name("t", dtype)
    df = as_parameter("t", df, dtype)
    shape = drawn_shape("t", shape, df)
    for_normal, for_gamma = split_for(algorithm, key)
    half = df / 2
    return normal(for_normal, shape, dtype, algorithm) * ops.sqrt(half / gamma(for_gamma, half, shape, dtype, algorithm=algorithm))


def generalized_normal(key, p, shape=(), dtype="f32", *, algorithm="philox"):
    """Numbers of the generalized normal distribution, whose density is as e^-|x|^p."""
    dtype = float_name("generalized_normal", dtype)
    p = as_parameter("generalized_normal", p, dtype)
    for_gamma, for_sign = split_for(algorithm, key)
    length = ew.power(gamma(for_gamma, 1 / p, shape_tuple(shape), dtype, algorithm=algorithm), 1 / p)
    return rademacher(for_sign, shape, dtype, algorithm=algorithm) * length


def ball(key, d, p=2, shape=(), dtype="f32", *, algorithm="philox"):
    """Points of the ball of d dims in the norm p, uniform over it (Barthe, Guedon, Mendelson, Naor 2005)."""
    dtype, d, shape = float_name("ball", dtype), operator.index(d), shape_tuple(shape)
    for_points, for_radius = split_for(algorithm, key)
    p = as_parameter("ball", p, dtype)
    g = generalized_normal(for_points, p, shape + (d,), dtype, algorithm=algorithm)
    e = exponential(for_radius, shape, dtype, algorithm=algorithm)
    return g / ew.power(ops.reduce(ew.power(ops.abs(g), p), kind="sum", axes=(len(shape),)) + e, 1 / p)[..., None]
