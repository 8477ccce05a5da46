"""Functions made of functions: of slices, of scalars, of axes."""

import functools
import re

from .._array import as_array
from . import _elementwise as ew
from ._indexing import take
from ._shape import axes_of, axis_of, expand_dims, moveaxis, ravel, reshape, squeeze


def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    """What the function of a vector gives for each vector along an axis, in its place. The function is traced once, under vmap."""
    from .._transforms import vmap
    x = as_array(arr)
    axis = axis_of(axis, x.ndim)
    f = lambda v: func1d(v, *args, **kwargs)
    for i in range(1, x.ndim - axis):
        f = vmap(f, i, -1)
    for _ in range(axis):
        f = vmap(f, 0, 0)
    return f(x)


def apply_over_axes(func, a, axes):
    """func(a, axis) over one axis after another; what it reduces keeps a dim of 1."""
    if not callable(func):
        raise TypeError(f"apply_over_axes wants a function, got {type(func).__name__}")
    x = as_array(a)
    for axis in axes_of(tuple(axes) if isinstance(axes, (tuple, list)) else axes, x.ndim):
        made = as_array(func(x, axis))
        if made.ndim == x.ndim - 1:
            made = expand_dims(made, axis)
        if made.ndim != x.ndim:
            raise ValueError(f"the function made an array of rank {made.ndim} of one of rank {x.ndim}; it keeps the rank or takes one dim away")
        x = made
    return x


_DIMS = r"\((?:\w+(?:,\w+)*)?,?\)"
_SIGNATURE = re.compile(rf"{_DIMS}(?:,{_DIMS})*->{_DIMS}(?:,{_DIMS})*")


def _core_dims(signature):
    """The names of the dims of each operand and of each result."""
    text = re.sub(r"\s+", "", signature)
    if not _SIGNATURE.fullmatch(text):
        raise ValueError(f"{signature!r} is no signature, such as \"(n,m),(m)->(n)\"")
    return [[tuple(re.findall(r"\w+", part)) for part in re.findall(r"\(([^)]*)\)", side)] for side in text.split("->")]


def _checked(f, names, sizes):
    """f, whose results must have the dims of the signature."""
    def checked(*args):
        made = f(*args)
        results = list(made) if isinstance(made, (tuple, list)) else [made]
        if len(results) != len(names):
            raise ValueError(f"the function gives {len(results)} results, and its signature names {len(names)}")
        for x, dims in zip(results, names):
            shape = as_array(x).shape
            if len(shape) != len(dims) or any(sizes.setdefault(d, n) != n for d, n in zip(dims, shape)):
                raise ValueError(f"the function gives a result of shape {shape}, and its signature says ({', '.join(dims)}) with {sizes}")
        return made
    return checked


def vectorize(pyfunc, *, excluded=frozenset(), signature=None):
    """The function of scalars, or of arrays with the dims that a signature such as "(n,m),(m)->(n)" names, as one of arrays whose other dims
    broadcast. `excluded` are places and names of arguments that are handed through. The function is traced, under vmap."""
    excluded = frozenset(excluded)
    core = _core_dims(signature) if signature is not None else None

    @functools.wraps(pyfunc)
    def vectorized(*args, **kwargs):
        places = [i for i in range(len(args)) if i not in excluded and args[i] is not None]
        names = [k for k in kwargs if k not in excluded]
        if core is not None and names:
            raise TypeError(f"arguments are given by place where there is a signature; {names[0]} was given by name")
        arrays = [as_array(args[i]) for i in places] + [as_array(kwargs[k]) for k in names]
        inputs = core[0] if core is not None else [()] * len(arrays)
        if len(inputs) != len(arrays):
            raise TypeError(f"the signature {signature!r} is of {len(inputs)} arguments, got {len(arrays)}")
        sizes, outer = {}, []
        for x, dims in zip(arrays, inputs):
            if x.ndim < len(dims):
                raise ValueError(f"an argument of shape {x.shape}, where the signature has the dims ({', '.join(dims)})")
            cut = x.ndim - len(dims)
            for d, n in zip(dims, x.shape[cut:]):
                if sizes.setdefault(d, n) != n:
                    raise ValueError(f"the dim {d} has the extents {sizes[d]} and {n}")
            outer.append(x.shape[:cut])
        shape = ew.broadcast_shapes(*outer) if outer else ()

        def one(*each):
            full, more = list(args), dict(kwargs)
            for i, x in zip(places, each):
                full[i] = x
            for k, x in zip(names, each[len(places):]):
                more[k] = x
            return pyfunc(*full, **more)

        return _mapped(one if core is None else _checked(one, core[1], sizes), arrays, outer, shape)
    return vectorized


def _mapped(f, arrays, outer, shape):
    """f under vmap, once for each of the outer dims; one that an operand stretches along is not given to it as many times."""
    from .. import tree
    from .._transforms import vmap
    squeezed = [squeeze(x, tuple(d for d, n in enumerate(dims) if n == 1)) for x, dims in zip(arrays, outer)]
    missing = []
    for back in range(1, len(shape) + 1):
        in_axes = tuple(None if len(dims) < back or dims[-back] == 1 else 0 for dims in outer)
        if all(a is None for a in in_axes):
            missing.append(len(shape) - back)
        else:
            f = vmap(f, in_axes)
    made = f(*squeezed)
    return tree.map(lambda x: expand_dims(x, tuple(missing)), made) if missing else tree.map(as_array, made)


class ufunc:
    """A function of one scalar or two, of arrays that broadcast, with NumPy's methods of such functions: frompyfunc makes it."""

    def __init__(self, func, nin, nout, *, name=None, identity=None):
        self._func, self.nin, self.nout, self.identity = func, nin, nout, identity
        self.nargs = nin + nout
        self.__name__ = name or getattr(func, "__name__", "f")
        self.__doc__ = func.__doc__
        self._of_arrays = vectorize(func)

    def __repr__(self):
        return f"<ufunc {self.__name__}>"

    def __call__(self, *args, out=None, where=None):
        ew.no_out(out)
        if where is not None:
            raise TypeError("where= leaves elements of out= as they are, and arrays do not change; choose with rlx.numpy.where")
        if len(args) != self.nin:
            raise TypeError(f"{self.__name__} takes {self.nin} arguments, got {len(args)}")
        made = self._of_arrays(*args)
        if (len(made) if isinstance(made, (tuple, list)) else 1) != self.nout:
            raise ValueError(f"{self.__name__} was said to give {self.nout} results, and gave others")
        return made

    def _of_two(self, what):
        if self.nin != 2 or self.nout != 1:
            raise ValueError(f"{what} is of functions of two arguments with one result; {self.__name__} has {self.nin} and {self.nout}")

    def outer(self, A, B):
        """The result of each element of A with each one of B."""
        self._of_two("outer")
        a, b = as_array(A), as_array(B)
        return self(reshape(a, a.shape + (1,) * b.ndim), b)

    def reduce(self, a, axis=0, dtype=None, out=None, keepdims=False, initial=None, where=None):
        """One element after another along an axis (of the flattened array for None) put together, from `initial` on, or from the first."""
        self._of_two("reduce")
        ew.no_out(out)
        from .._control import scan
        from ._creation import astype
        x = as_array(a) if dtype is None else astype(a, dtype)
        rank = x.ndim
        initial = self.identity if initial is None else initial
        if where is not None:
            if initial is None:
                raise ValueError("what `where` leaves has no result where nothing is left; give an initial one")
            where = ew.broadcast_to(ew.truth(where), x.shape)
        if axis is None:
            x, where, at = ravel(x), None if where is None else ravel(where), 0
        else:
            at = axis_of(axis, x.ndim)
        x, where = moveaxis(x, at, 0), None if where is None else moveaxis(where, at, 0)
        if initial is None and not x.shape[0]:
            raise ValueError("nothing along the axis has no result; give an initial one")
        start = x[0] if initial is None else ew.broadcast_to(as_array(initial, x.dtype_name), x.shape[1:])
        rest = x[1:] if initial is None else x
        if where is None:
            made = scan(lambda carry, each: (as_array(self(carry, each), x.dtype_name), None), start, rest)[0] if rest.shape[0] else start
        else:
            step = lambda carry, each: (ew.where(each[1], as_array(self(carry, each[0]), x.dtype_name), carry), None)
            made = scan(step, start, (rest, where))[0] if rest.shape[0] else start
        if keepdims:
            made = reshape(made, (1,) * rank) if axis is None else expand_dims(made, at)
        return made

    def accumulate(self, a, axis=0, dtype=None, out=None):
        """What reduce gives up to each element along an axis."""
        self._of_two("accumulate")
        ew.no_out(out)
        from .._control import scan
        from ._creation import astype
        from ._shape import concatenate
        x = as_array(a) if dtype is None else astype(a, dtype)
        at = axis_of(axis, x.ndim)
        x = moveaxis(x, at, 0)
        if x.shape[0] < 2:
            return moveaxis(x, 0, at)

        def step(carry, each):
            made = as_array(self(carry, each), x.dtype_name)
            return made, made
        return moveaxis(concatenate([x[:1], scan(step, x[0], x[1:])[1]]), 0, at)

    def at(self, a, indices, b=None, *, inplace=True):
        """a with the function applied at these indices one after another, as a new array, for which `inplace` must be False."""
        if inplace:
            raise ValueError("arrays do not change: at gives a new one, with inplace=False")
        if (self.nin, b is None) not in ((1, True), (2, False)):
            raise ValueError(f"at is of functions of one argument, or of two with their second; {self.__name__} has {self.nin}")
        from .._control import scan
        from ._creation import arange
        x = as_array(a)
        places = ravel(reshape(arange(x.size, dtype="i32"), x.shape)[indices])
        values = places if b is None else ravel(ew.broadcast_to(as_array(b), reshape(arange(x.size, dtype="i32"), x.shape)[indices].shape))

        def step(flat, each):
            place, value = each
            old = take(flat, place)
            made = self(old) if b is None else self(old, value)
            return flat.at[place].set(as_array(made, x.dtype_name)), None
        return reshape(scan(step, ravel(x), (places, values))[0], x.shape) if places.size else x


def frompyfunc(func, nin, nout, *, identity=None):
    """The function of so many scalars with so many results as one of arrays that broadcast. The function is traced."""
    return ufunc(func, nin, nout, identity=identity)
