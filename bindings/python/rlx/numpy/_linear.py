"""Products."""

import functools
import operator

import numpy as np

from .. import _dtypes, ops
from .._array import as_array, convert, is_number
from ._elementwise import broadcast_shapes, broadcast_to, multiply, no_out, promoted
from ._reductions import any as reduce_any, sum
from ._shape import axes_of, axis_of, expand_dims, moveaxis, ravel, reshape, transpose


def _numbers(*xs):
    """Promoted."""
    return promoted(*xs)


def of_bools(f):
    """A product of bools is true where one of its terms is, as in NumPy: their number is not 0."""
    @functools.wraps(f)
    def product(a, b, **attributes):
        if a.dtype_name != "bool":
            return f(a, b, **attributes)
        return convert(f(convert(a, "i32"), convert(b, "i32"), **attributes), "bool")
    return product


_matmul, _dot_general = of_bools(ops.matmul), of_bools(ops.dot_general)


def _total(x, axis):
    """The sum over an axis in x's own dtype; of bools, whether one is true."""
    return reduce_any(x, axis) if x.dtype_name == "bool" else ops.reduce(x, kind="sum", axes=(axis,))


def in_dtype(product, dtype, *operands, **attributes):
    """A product of which JAX's preferred_element_type says the dtype: of operands in it, where it holds them; else its result."""
    name, operands = _dtypes.name_of(dtype), promoted(*operands)
    if _dtypes.is_complex(operands[0].dtype_name) and not _dtypes.is_complex(name):
        raise TypeError(f"a product of complex numbers is complex, and preferred_element_type is {name}")
    if _dtypes.promote(operands[0].dtype_name, name) == name:
        operands = [convert(x, name) for x in operands]
    return convert(product(*operands, **attributes), name)


def matmul(a, b, *, preferred_element_type=None):
    """The matrix product of the last two dims, batches broadcast; a vector is a row on the left, a column on the right. Of all products
    `preferred_element_type` is the dtype in which they are computed, if it holds the operands, and that of the result."""
    if preferred_element_type is not None:
        return in_dtype(matmul, preferred_element_type, a, b)
    shapes = as_array(a).shape, as_array(b).shape
    a, b = _numbers(a, b)
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("matmul takes arrays of rank 1 or more; use multiply")
    row, column = a.ndim == 1, b.ndim == 1
    a = expand_dims(a, 0) if row else a
    b = expand_dims(b, 1) if column else b
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"matmul of shapes {shapes[0]} and {shapes[1]}: inner extents "
                         f"{a.shape[-1]} and {b.shape[-2]} differ")
    y = _matmul(a, b)
    drop = ([-2] if row else []) + ([-1] if column else [])
    return reshape(y, [n for d, n in enumerate(y.shape) if d - y.ndim not in drop]) if drop else y


def dot(a, b, *, preferred_element_type=None):
    """The sum of products over the last axis of a and the last but one of b."""
    if preferred_element_type is not None:
        return in_dtype(dot, preferred_element_type, a, b)
    a, b = _numbers(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return multiply(a, b)
    return tensordot(a, b, ([a.ndim - 1], [b.ndim - 2 if b.ndim > 1 else 0]))


def vdot(a, b, *, preferred_element_type=None):
    """The sum of products of the flattened arrays, a conjugated."""
    if preferred_element_type is not None:
        return in_dtype(vdot, preferred_element_type, a, b)
    from ._elementwise import conj
    a, b = _numbers(a, b)
    return dot(ravel(conj(a)), ravel(b))


def inner(a, b, *, preferred_element_type=None):
    """The sum of products over the last axes."""
    if preferred_element_type is not None:
        return in_dtype(inner, preferred_element_type, a, b)
    a, b = _numbers(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return multiply(a, b)
    return tensordot(a, b, ([a.ndim - 1], [b.ndim - 1]))


def outer(a, b, out=None):
    """Each element of a times each of b."""
    no_out(out)
    a, b = _numbers(ravel(a), ravel(b))
    return multiply(expand_dims(a, 1), expand_dims(b, 0))


def tensordot(a, b, axes=2, *, preferred_element_type=None):
    """Sums of products over pairs of axes."""
    if preferred_element_type is not None:
        return in_dtype(tensordot, preferred_element_type, a, b, axes=axes)
    a, b = _numbers(a, b)
    if isinstance(axes, (int, np.integer)):
        left, right = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        left, right = [[x] if isinstance(x, (int, np.integer)) else list(x) for x in axes]
        left, right = [axis_of(x, a.ndim) for x in left], [axis_of(x, b.ndim) for x in right]
    for l, r in zip(left, right):
        if a.shape[l] != b.shape[r]:
            raise ValueError(f"tensordot of shapes {a.shape} and {b.shape}: axes {l} and {r} differ")
    return _dot_general(a, b, lhs_contract=left, rhs_contract=right)


def kron(a, b):
    """The Kronecker product."""
    a, b = _numbers(a, b)
    rank = max(a.ndim, b.ndim)
    a = reshape(a, (1,) * (rank - a.ndim) + a.shape)
    b = reshape(b, (1,) * (rank - b.ndim) + b.shape)
    left = reshape(a, [d for n in a.shape for d in (n, 1)])
    right = reshape(b, [d for n in b.shape for d in (1, n)])
    return reshape(multiply(left, right), [m * n for m, n in zip(a.shape, b.shape)])


def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    """The sum of a diagonal."""
    return sum(diagonal(a, offset, axis1, axis2), -1, dtype, out)


def diagonal(a, offset=0, axis1=0, axis2=1):
    """A diagonal of the planes of two axes, as the last dim."""
    offset = operator.index(offset)
    x = moveaxis(a, (axis1, axis2), (-2, -1))
    n, m = x.shape[-2:]
    count = max(0, min(n + min(offset, 0), m - max(offset, 0)))
    from ._indexing import getitem
    i = np.arange(count, dtype=np.int32)
    return getitem(x, (Ellipsis, i - min(offset, 0), i + max(offset, 0)))


def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """The vector product of vectors of 3 elements (or 2: its third component) along an axis of each operand, and of the result;
    `axis` is all three."""
    from ._elementwise import negative, subtract
    from ._shape import stack
    a, b = _numbers(a, b)
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis, axis, axis)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError(f"cross takes vectors of 2 or 3 elements, got {a.shape[-1]} and {b.shape[-1]}")
    at = lambda x, i: x[..., i] if i < x.shape[-1] else None
    def term(i, j):
        p = None if at(a, i) is None or at(b, j) is None else multiply(at(a, i), at(b, j))
        q = None if at(a, j) is None or at(b, i) is None else multiply(at(a, j), at(b, i))
        if p is None and q is None:
            return multiply(at(a, 0), 0)
        return subtract(p, q) if p is not None and q is not None else p if q is None else negative(q)
    z = term(0, 1)
    if a.shape[-1] == 2 and b.shape[-1] == 2:
        return z
    return moveaxis(stack([term(1, 2), term(2, 0), z], -1), -1, axisc)


def einsum_order(subscripts, shapes, optimize):
    """NumPy's einsum_path of arrays of these shapes. "auto" takes the best order of up to four operands, and a greedy one of more."""
    if isinstance(optimize, str) and optimize == "auto":
        optimize = "optimal" if len(shapes) <= 4 else "greedy"
    return np.einsum_path(subscripts, *[np.broadcast_to(np.float32(0), shape) for shape in shapes], optimize=optimize)


def einsum(subscripts, *operands, out=None, optimize="auto", preferred_element_type=None):
    """Sums of products by index letters: "ij,jk->ik"; "..." stands for batch dims. Two operands at a time, in the order that
    `optimize` says, as NumPy's: "auto", "greedy" or "optimal" (True is greedy), False from left to right, or a path of einsum_path."""
    no_out(out)
    if not isinstance(subscripts, str):
        raise TypeError(f"einsum takes the subscripts as a string such as \"ij,jk->ik\" first, not {type(subscripts).__name__}")
    if preferred_element_type is not None:
        return in_dtype(functools.partial(einsum, subscripts), preferred_element_type, *operands, optimize=optimize)
    arrays = _numbers(*operands) if len(operands) > 1 else [as_array(x) for x in operands]
    terms, _, out = subscripts.replace(" ", "").partition("->")
    terms = terms.split(",")
    if len(terms) != len(arrays):
        raise ValueError(f"einsum '{subscripts}' names {len(terms)} operands, got {len(arrays)}")
    # Give the dims of "..." letters of their own.
    spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in subscripts] + [c for c in "abcdefghijklmnopqrstuvwxyz" if c not in subscripts]
    dots = 0
    for term, x in zip(terms, arrays):
        if "..." in term:
            dots = max(dots, x.ndim - len(term.replace("...", "")))
    letters = "".join(spare[:dots])
    named = []
    for term, x in zip(terms, arrays):
        if "..." in term:
            n = x.ndim - len(term.replace("...", ""))
            term = term.replace("...", letters[dots - n:])
        if len(term) != x.ndim:
            raise ValueError(f"einsum '{subscripts}': '{term}' has {len(term)} letters for an array of rank {x.ndim}")
        named.append(term)
    if "->" in subscripts:
        out = out.replace("...", letters)
    else:
        everything = "".join(named)
        out = letters + "".join(sorted(c for c in set(everything) if everything.count(c) == 1 and c not in letters))
    extents = {}
    for term, x in zip(named, arrays):
        for c, n in zip(term, x.shape):
            if extents.get(c, 1) == 1:
                extents[c] = n
            elif n != 1 and n != extents[c]:
                raise ValueError(f"einsum '{subscripts}': letter '{c}' has extents {extents[c]} and {n}")
    for c in out:
        if c not in extents:
            raise ValueError(f"einsum '{subscripts}': the result's '{c}' stands in no operand")
    work = [_single(term, x) for term, x in zip(named, arrays)]
    for places in _steps(work, out, optimize):
        taken = [work.pop(p) for p in sorted(places, reverse=True)][::-1]
        while len(taken) > 1:
            (s, a), (t, b) = taken[:2]
            taken = [_pair(s, a, t, b, set(out).union(*[set(term) for term, _ in taken[2:] + work]))] + taken[2:]
        work += taken
    term, x = work[0]
    for c in [c for c in term if c not in out]:
        x, term = _total(x, term.index(c)), term.replace(c, "")
    return transpose(x, [term.index(c) for c in out]) if term != out else x


def _steps(work, out, optimize):
    """Which operands to multiply next, again and again; each time the product comes last."""
    if optimize is False or isinstance(optimize, str) and optimize == "auto" and \
            (len(work) < 3 or any(isinstance(n, str) for _, x in work for n in x.shape)):
        return [(0, 1)] + [(0, n) for n in range(len(work) - 2, 0, -1)] if len(work) > 1 else []
    subscripts = ",".join(term for term, _ in work) + "->" + out
    return einsum_order(subscripts, [x.shape for _, x in work], optimize)[0][1:]


def _single(term, x):
    """Repeated letters become diagonals."""
    for c in sorted(set(term), key=term.index):
        while term.count(c) > 1:
            i = term.index(c)
            j = term.index(c, i + 1)
            x = diagonal(x, 0, i, j)
            term = "".join(k for p, k in enumerate(term) if p not in (i, j)) + c
    return term, x


def _pair(s, a, t, b, later):
    """Two operands to one: letters that nobody needs any more are contracted."""
    for c in [c for c in s if c not in t and c not in later]:
        a, s = _total(a, s.index(c)), s.replace(c, "")
    for c in [c for c in t if c not in s and c not in later]:
        b, t = _total(b, t.index(c)), t.replace(c, "")
    shared = [c for c in s if c in t]
    for c in shared:  # an extent of 1 stretches
        n, m = a.shape[s.index(c)], b.shape[t.index(c)]
        if n != m:
            n = max(n, m)
            a = broadcast_to(a, [n if k == c else d for k, d in zip(s, a.shape)])
            b = broadcast_to(b, [n if k == c else d for k, d in zip(t, b.shape)])
    batch = [c for c in shared if c in later]
    contracted = [c for c in shared if c not in later]
    y = _dot_general(a, b, lhs_batch=[s.index(c) for c in batch], rhs_batch=[t.index(c) for c in batch],
                        lhs_contract=[s.index(c) for c in contracted], rhs_contract=[t.index(c) for c in contracted])
    free = [c for c in s if c not in shared] + [c for c in t if c not in shared]
    return "".join(batch + free), y
