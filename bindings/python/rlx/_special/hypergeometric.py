"""The confluent hypergeometric function."""

import numpy as np

from .. import ops
from .gammas import quotient_of_gammas
from .shared import floats, in_f32


def hyp1f1(a, b, x):
    """The sum of (a)_k x^k / ((b)_k k!). Below 0 by Kummer's transformation, beyond 50 by its asymptotic series."""
    from .. import numpy as rnp
    from .._control import scan

    @in_f32
    def of(a, b, x):
        is_negative = x < 0
        first, size = rnp.where(is_negative, b - a, a), ops.abs(x)
        is_far = size > 50
        near, far = rnp.where(is_far, 1, size), rnp.where(is_far, size, 50)

        def step(state, k):
            power, total = state
            power = power * (first + k) / (b + k) * near / (k + 1)
            return (power, total + power), None

        series = scan(step, (rnp.ones_like(x), rnp.ones_like(x)), np.arange(220).astype(x.dtype))[0][1]

        def asymptotic(state, k):
            power, total = state
            following = power * (b - first + k) * (1 - first + k) / ((k + 1) * far)
            following = rnp.where(ops.abs(following) < ops.abs(power), following, 0)
            return (following, total + following), None

        tail = scan(asymptotic, (rnp.ones_like(x), rnp.ones_like(x)), np.arange(40).astype(x.dtype))[0][1]
        tail = quotient_of_gammas(b, first) * ops.exp((first - b) * ops.log(far)) * tail
        at = rnp.where(is_negative, -size, 0)
        made = rnp.where(is_far, tail * ops.exp(rnp.where(is_negative, 0, size)), series * ops.exp(rnp.where(is_far, 0, at)))
        return rnp.where(x == 0, 1.0, rnp.where(a == 0, 1.0, made))

    return of(*floats(a, b, x))
