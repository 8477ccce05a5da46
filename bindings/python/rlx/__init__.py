"""RLX: a compiler and runtime for machine learning.

    import rlx, rlx.numpy as rnp

    @rlx.jit
    def loss(w, x, y):
        return rnp.mean((rnp.tanh(x @ w) - y) ** 2)

    gradient = rlx.grad(loss)(w, x, y)        # NumPy in, arrays out

Functions of arrays stand in `rlx.numpy`, `rlx.nn`, `rlx.linalg`, `rlx.fft` and `rlx.special`, the ops of the table in
`rlx.ops`; transforms and control flow here.
"""

from . import _array, _control, _graph, _native, _transforms, ops, tree
from . import numpy
from . import _operators
from ._array import Array
from ._control import cond, fori_loop, map, scan, while_loop
from ._graph import Graph, Session
from ._native import Error, __version__
from ._transforms import (Jit, Lowered, ShapeDtype, checkpoint, custom_jvp, custom_vjp, grad, hessian, hvp, jacfwd, jacrev, jit, jvp,
                          value_and_grad, vjp, vmap)
from .numpy import bfloat16

remat = checkpoint


def stop_gradient(x):
    """x, through which no gradient flows; also for trees of arrays."""
    return tree.map(ops.stop_gradient, x)
