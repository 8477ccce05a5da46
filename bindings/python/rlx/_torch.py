"""PyTorch modules as functions of RLX: `from_torch`. torch.export traces a module into a graph of ATen's core operators, each of
which has a function here; what has none is refused by its name. PyTorch is imported when it is asked for, and not before.

What an operator means: PyTorch's documentation of `torch.ops.aten`, "Core ATen IR".
"""

import operator

import numpy as np

from . import _dtypes, nn, ops, tree
from . import numpy as rnp
from ._array import Array, as_array, convert
from ._native import Error, at_user_line
from ._windows import conv, conv_transpose

_OPERATORS = {}


def _of(*names):
    """Registers a function for operators by their names without "aten."."""
    def register(f):
        for name in names:
            _OPERATORS[name] = f
        return f
    return register


def _dtype(dtype):
    """torch.float32 -> "f32"."""
    return _dtypes.name_of(str(dtype).replace("torch.", ""))


# ---- element by element ----
for _name, _f in {"neg": rnp.negative, "exp": rnp.exp, "exp2": rnp.exp2, "expm1": rnp.expm1, "log": rnp.log, "log2": rnp.log2, "log10": rnp.log10,
                  "log1p": rnp.log1p, "sqrt": rnp.sqrt, "sin": rnp.sin, "cos": rnp.cos, "tan": rnp.tan, "sinh": rnp.sinh, "cosh": rnp.cosh,
                  "tanh": rnp.tanh, "asin": rnp.arcsin, "acos": rnp.arccos, "atan": rnp.arctan, "asinh": rnp.arcsinh, "acosh": rnp.arccosh,
                  "atanh": rnp.arctanh, "abs": rnp.abs, "floor": rnp.floor, "ceil": rnp.ceil, "trunc": rnp.trunc, "round": rnp.round,
                  "sign": rnp.sign, "reciprocal": rnp.reciprocal, "isnan": rnp.isnan, "isinf": rnp.isinf, "logical_not": rnp.logical_not,
                  "bitwise_not": rnp.bitwise_not, "sigmoid": nn.sigmoid, "relu": nn.relu, "silu": nn.silu, "mish": nn.mish,
                  "erf": lambda x: ops.erf(rnp.astype(x, "f32") if _dtypes.is_integer(x.dtype_name) else x), "rsqrt": lambda x: 1 / rnp.sqrt(x),
                  "hardsigmoid": lambda x: rnp.clip(x + 3, 0, 6) / 6, "hardswish": lambda x: x * rnp.clip(x + 3, 0, 6) / 6}.items():
    _of(f"{_name}.default")(_f)
for _name, _f in {"mul": rnp.multiply, "maximum": rnp.maximum, "minimum": rnp.minimum, "atan2": rnp.arctan2, "eq": rnp.equal, "ne": rnp.not_equal,
                  "lt": rnp.less, "le": rnp.less_equal, "gt": rnp.greater, "ge": rnp.greater_equal, "fmod": rnp.fmod, "remainder": rnp.remainder,
                  "pow": rnp.power, "logical_and": rnp.logical_and, "logical_or": rnp.logical_or, "logical_xor": rnp.logical_xor,
                  "bitwise_and": rnp.bitwise_and, "bitwise_or": rnp.bitwise_or, "bitwise_xor": rnp.bitwise_xor}.items():
    _of(*(f"{_name}.{kind}" for kind in ("default", "Tensor", "Scalar", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")))(
        lambda x, y, f=_f: f(_array(x) if not isinstance(x, (int, float, complex)) else x, y))


def _array(x):
    return as_array(x)


@_of("add.Tensor", "add.Scalar")
def _add(x, y, alpha=1):
    return rnp.add(x, y if alpha == 1 else rnp.multiply(y, alpha))


@_of("sub.Tensor", "sub.Scalar")
def _sub(x, y, alpha=1):
    return rnp.subtract(x, y if alpha == 1 else rnp.multiply(y, alpha))


@_of("rsub.Scalar", "rsub.Tensor")
def _rsub(x, y, alpha=1):
    return _sub(y, x, alpha)


@_of("div.Tensor", "div.Scalar")
def _div(x, y):
    return rnp.divide(x, y)


@_of("div.Tensor_mode", "div.Scalar_mode")
def _div_mode(x, y, rounding_mode=None):
    if rounding_mode is None:
        return rnp.divide(x, y)
    if rounding_mode == "floor":
        return rnp.floor_divide(x, y)
    dtype = (as_array(x) if not isinstance(x, Array) else x).dtype_name
    return convert(rnp.trunc(rnp.divide(x, y)), dtype) if _dtypes.is_integer(dtype) else rnp.trunc(rnp.divide(x, y))


@_of("gelu.default")
def _gelu(x, approximate="none"):
    return nn.gelu(x, approximate=approximate == "tanh")


@_of("leaky_relu.default")
def _leaky_relu(x, negative_slope=0.01):
    return nn.leaky_relu(x, negative_slope)


@_of("elu.default")
def _elu(x, alpha=1.0, scale=1.0, input_scale=1.0):
    return rnp.where(x > 0, x * scale, alpha * scale * rnp.expm1(rnp.minimum(x, 0) * input_scale))


@_of("softplus.default")
def _softplus(x, beta=1.0, threshold=20.0):
    return rnp.where(x * beta > threshold, x, nn.softplus(x * beta) / beta)


@_of("clamp.default", "clamp.Tensor")
def _clamp(x, min=None, max=None):
    return rnp.clip(x, min, max)


@_of("hardtanh.default")
def _hardtanh(x, min_val=-1.0, max_val=1.0):
    return rnp.clip(x, min_val, max_val)


@_of("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(condition, x, y):
    return rnp.where(condition, x, y)


# ---- products ----
@_of("mm.default", "bmm.default", "matmul.default", "mv.default")
def _matmul(x, y):
    return rnp.matmul(x, y)


@_of("dot.default")
def _dot(x, y):
    return rnp.sum(x * y)


@_of("addmm.default", "baddbmm.default")
def _addmm(c, a, b, beta=1, alpha=1):
    product = rnp.matmul(a, b)
    return (c if beta == 1 else c * beta) + (product if alpha == 1 else product * alpha)


@_of("linear.default")
def _linear(x, w, bias=None):
    y = rnp.matmul(x, rnp.transpose(w))
    return y if bias is None else y + bias


@_of("convolution.default")
def _convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    rank = x.ndim - 2
    wide = lambda values: tuple(values) * rank if len(values) == 1 else tuple(values)
    y = conv_transpose(x, w, wide(stride), wide(padding), wide(output_padding), wide(dilation), groups) if transposed else \
        conv(x, w, wide(stride), wide(padding), wide(dilation), groups)
    return y if bias is None else y + rnp.reshape(bias, (-1,) + (1,) * rank)


# ---- normalizations ----
def _normalized(x, axes, eps):
    """x with mean 0 and variance 1 over axes, the means, and 1 / the deviations: with dims of extent 1."""
    mean = rnp.mean(x, axes, keepdims=True)
    rstd = 1 / rnp.sqrt(rnp.var(x, axes, keepdims=True) + eps)
    return (x - mean) * rstd, mean, rstd


@_of("native_layer_norm.default")
def _layer_norm(x, shape, weight, bias, eps):
    y, mean, rstd = _normalized(x, tuple(range(x.ndim - len(shape), x.ndim)), eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias, mean, rstd


@_of("native_group_norm.default")
def _group_norm(x, weight, bias, n, c, hw, groups, eps):
    y, mean, rstd = _normalized(rnp.reshape(x, (n, groups, -1)), (2,), eps)
    y, wide = rnp.reshape(y, x.shape), (1, c) + (1,) * (x.ndim - 2)
    y = y if weight is None else y * rnp.reshape(weight, wide)
    return y if bias is None else y + rnp.reshape(bias, wide), rnp.reshape(mean, (n, groups)), rnp.reshape(rstd, (n, groups))


@_of("_native_batch_norm_legit_no_training.default")
def _batch_norm(x, weight, bias, mean, variance, momentum, eps):
    wide = lambda v: rnp.reshape(v, (1, -1) + (1,) * (x.ndim - 2))
    y = (x - wide(mean)) / rnp.sqrt(wide(variance) + eps)
    y = y if weight is None else y * wide(weight)
    nothing = rnp.zeros((0,), x.dtype)
    return y if bias is None else y + wide(bias), nothing, nothing


@_of("_native_batch_norm_legit.no_stats")
def _batch_norm_of_itself(x, weight, bias, training, momentum, eps):
    y, mean, rstd = _normalized(x, (0, *range(2, x.ndim)), eps)
    wide = lambda v: rnp.reshape(v, (1, -1) + (1,) * (x.ndim - 2))
    y = y if weight is None else y * wide(weight)
    return y if bias is None else y + wide(bias), rnp.ravel(mean), rnp.ravel(rstd)


@_of("_softmax.default")
def _softmax(x, dim, half_to_float):
    return nn.softmax(rnp.astype(x, "f32") if half_to_float else x, dim)


@_of("_log_softmax.default")
def _log_softmax(x, dim, half_to_float):
    return nn.log_softmax(rnp.astype(x, "f32") if half_to_float else x, dim)


# ---- reductions ----
def _axes(dim):
    return None if dim is None or dim == [] else tuple(dim) if isinstance(dim, (list, tuple)) else dim


@_of("sum.default", "sum.dim_IntList")
def _sum(x, dim=None, keepdim=False, dtype=None):
    wide = dtype is None and (x.dtype_name == "bool" or _dtypes.is_integer(x.dtype_name))
    return rnp.sum(x, _axes(dim), "int64" if wide else None if dtype is None else _dtypes.long_name(_dtype(dtype)), keepdim)


@_of("mean.default", "mean.dim")
def _mean(x, dim=None, keepdim=False, dtype=None):
    return rnp.mean(x if dtype is None else convert(x, _dtype(dtype)), _axes(dim), keepdims=keepdim)


@_of("amax.default")
def _amax(x, dim=(), keepdim=False):
    return rnp.max(x, _axes(list(dim)), keepdims=keepdim)


@_of("amin.default")
def _amin(x, dim=(), keepdim=False):
    return rnp.min(x, _axes(list(dim)), keepdims=keepdim)


@_of("prod.default", "prod.dim_int")
def _prod(x, dim=None, keepdim=False, dtype=None):
    wide = dtype is None and (x.dtype_name == "bool" or _dtypes.is_integer(x.dtype_name))
    return rnp.prod(x, dim, "int64" if wide else None if dtype is None else _dtypes.long_name(_dtype(dtype)), keepdim)


@_of("any.default", "any.dim", "any.dims")
def _any(x, dim=None, keepdim=False):
    return rnp.any(x, _axes(dim), keepdim)


@_of("var.correction", "var.dim")
def _var(x, dim=None, unbiased=None, correction=1, keepdim=False):
    return rnp.var(x, _axes(dim), ddof=correction if unbiased is None else int(unbiased), keepdims=keepdim)


@_of("argmax.default")
def _argmax(x, dim=None, keepdim=False):
    return rnp.astype(rnp.argmax(x, dim, keepdims=keepdim), "int64")


@_of("argmin.default")
def _argmin(x, dim=None, keepdim=False):
    return rnp.astype(rnp.argmin(x, dim, keepdims=keepdim), "int64")


@_of("max.default")
def _max(x):
    return rnp.max(x)


@_of("min.default")
def _min(x):
    return rnp.min(x)


@_of("max.dim")
def _max_dim(x, dim, keepdim=False):
    return rnp.max(x, dim, keepdims=keepdim), _argmax(x, dim, keepdim)


@_of("min.dim")
def _min_dim(x, dim, keepdim=False):
    return rnp.min(x, dim, keepdims=keepdim), _argmin(x, dim, keepdim)


@_of("cumsum.default")
def _cumsum(x, dim, dtype=None):
    return rnp.cumsum(x, dim, None if dtype is None else _dtypes.long_name(_dtype(dtype)))


@_of("topk.default")
def _topk(x, k, dim=-1, largest=True, sorted=True):
    values, places = ops.top_k(x if largest else rnp.negative(x), k, dim)
    return (values if largest else rnp.negative(values)), rnp.astype(places, "int64")


@_of("max_pool2d_with_indices.default")
def _max_pool(x, kernel, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
    if ceil_mode:
        raise Error("max_pool2d with ceil_mode", "unsupported")
    wide = lambda values: tuple(values) * 2 if len(values) == 1 else tuple(values)
    y = ops.pool(x, kind="max", kernel_size=wide(kernel), stride=wide(stride or kernel), padding=wide(padding), dilation=wide(dilation))
    return y, None  # the places are an operator's own affair unless something asks for them


@_of("avg_pool2d.default")
def _avg_pool(x, kernel, stride=(), padding=(0,), ceil_mode=False, count_include_pad=True, divisor_override=None):
    if ceil_mode or divisor_override is not None or (not count_include_pad and any(padding)):
        raise Error("avg_pool2d with ceil_mode, divisor_override, or padding that does not count", "unsupported")
    wide = lambda values: tuple(values) * 2 if len(values) == 1 else tuple(values)
    (kh, kw), (ph, pw) = wide(kernel), wide(padding)
    padded = rnp.pad(x, [(0, 0)] * (x.ndim - 2) + [(ph, ph), (pw, pw)]) if ph or pw else x
    total = ops.reduce_window(padded, kind="sum", window_dims=(1,) * (x.ndim - 2) + (kh, kw), strides=(1,) * (x.ndim - 2) + wide(stride or kernel),
                              window_dilation=(1,) * x.ndim, padding_low=(0,) * x.ndim, padding_high=(0,) * x.ndim)
    return total / (kh * kw)


@_of("_adaptive_avg_pool2d.default", "adaptive_avg_pool2d.default")
def _adaptive_avg_pool(x, size):
    if any(n % m for n, m in zip(x.shape[-2:], size)):
        raise Error(f"adaptive_avg_pool2d from {x.shape[-2:]} to {tuple(size)}, which does not divide it", "unsupported")
    h, w = size
    return rnp.mean(rnp.reshape(x, x.shape[:-2] + (h, x.shape[-2] // h, w, x.shape[-1] // w)), (-3, -1))


# ---- moving elements ----
@_of("view.default", "_unsafe_view.default", "reshape.default", "view_copy.default")
def _view(x, shape):
    return rnp.reshape(x, tuple(shape))


@_of("permute.default", "permute_copy.default")
def _permute(x, dims):
    return rnp.transpose(x, tuple(d % x.ndim for d in dims))


@_of("transpose.int", "transpose_copy.int")
def _transpose(x, a, b):
    return rnp.swapaxes(x, a, b)


@_of("t.default", "t_copy.default")
def _t(x):
    return rnp.transpose(x)


@_of("unsqueeze.default", "unsqueeze_copy.default")
def _unsqueeze(x, dim):
    return rnp.expand_dims(x, dim)


@_of("squeeze.dim", "squeeze.dims", "squeeze.default", "squeeze_copy.dims", "squeeze_copy.dim")
def _squeeze(x, dim=None):
    dims = range(x.ndim) if dim is None else dim if isinstance(dim, (list, tuple)) else (dim,)
    axes = tuple(d % x.ndim for d in dims if x.shape[d] == 1) if x.ndim else ()
    return rnp.squeeze(x, axes) if axes else x


@_of("expand.default", "expand_copy.default")
def _expand(x, size, implicit=False):
    kept = (1,) * (len(size) - x.ndim) + x.shape
    return rnp.broadcast_to(x, tuple(k if n == -1 else n for n, k in zip(size, kept)))


@_of("cat.default")
def _cat(xs, dim=0):
    kept = [x for x in xs if x.shape != (0,)]  # PyTorch leaves those out
    return rnp.concatenate(kept or xs, axis=dim)


@_of("stack.default")
def _stack(xs, dim=0):
    return rnp.stack(xs, axis=dim)


def _at(x, dim, index):
    return x[(slice(None),) * (dim % x.ndim) + (index,)]


@_of("slice.Tensor", "slice_copy.Tensor")
def _slice(x, dim=0, start=None, end=None, step=1):
    return _at(x, dim, slice(start, None if end is not None and end >= x.shape[dim] else end, step))


@_of("select.int", "select_copy.int")
def _select(x, dim, index):
    return _at(x, dim, index)


@_of("split_with_sizes.default", "split_with_sizes_copy.default")
def _split(x, sizes, dim=0):
    ends = np.cumsum(sizes)
    return [_at(x, dim, slice(int(e) - n, int(e))) for n, e in zip(sizes, ends)]


@_of("split.Tensor")
def _split_tensor(x, size, dim=0):
    n = x.shape[dim]
    return _split(x, [min(size, n - at) for at in range(0, n, size)], dim)


@_of("unbind.int", "unbind_copy.int")
def _unbind(x, dim=0):
    return [_at(x, dim, i) for i in range(x.shape[dim])]


@_of("flip.default")
def _flip(x, dims):
    return rnp.flip(x, tuple(dims))


@_of("repeat.default")
def _repeat(x, repeats):
    return rnp.tile(x, tuple(repeats))


@_of("roll.default")
def _roll(x, shifts, dims=()):
    return rnp.roll(x, tuple(shifts), tuple(dims)) if dims else rnp.roll(x, shifts[0])


@_of("constant_pad_nd.default")
def _pad(x, pad, value=0.0):
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + [(pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)][::-1]
    if any(n < 0 for pair in pairs for n in pair):
        raise Error("constant_pad_nd with negative widths", "unsupported")
    return rnp.pad(x, pairs, constant_values=value)


@_of("embedding.default")
def _embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    return rnp.take(weight, indices, axis=0)


@_of("index_select.default")
def _index_select(x, dim, index):
    return rnp.take(x, index, axis=dim)


@_of("gather.default")
def _gather(x, dim, index, sparse_grad=False):
    if any(a != b for d, (a, b) in enumerate(zip(x.shape, index.shape)) if d != dim % x.ndim):
        x = x[tuple(slice(None) if d == dim % x.ndim else slice(0, n) for d, n in enumerate(index.shape))]
    return rnp.take_along_axis(x, index, axis=dim)


@_of("index.Tensor")
def _index(x, indices):
    if any(i is not None and i.dtype_name == "bool" for i in indices):
        raise Error("index by a mask, whose result has as many elements as data say", "unsupported")
    return x[tuple(slice(None) if i is None else i for i in indices)]


@_of("tril.default")
def _tril(x, diagonal=0):
    return rnp.tril(x, diagonal)


@_of("triu.default")
def _triu(x, diagonal=0):
    return rnp.triu(x, diagonal)


@_of("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(x, mask, value):
    return rnp.where(mask, as_array(value, x.dtype_name), x)


@_of("upsample_nearest2d.vec")
def _upsample_nearest(x, size, scale_factors):
    h, w = x.shape[-2:]
    to = tuple(size) if size is not None else (int(h * scale_factors[0]), int(w * scale_factors[1]))
    if to[0] % h or to[1] % w:
        raise Error(f"upsample_nearest2d from {(h, w)} to {to}, which is no multiple", "unsupported")
    return rnp.repeat(rnp.repeat(x, to[0] // h, axis=-2), to[1] // w, axis=-1)


# ---- what moves nothing, and what comes out of nothing ----
@_of("clone.default", "alias.default", "detach.default", "lift_fresh_copy.default", "contiguous.default", "alias_copy.default")
def _same(x, memory_format=None):
    return x


@_of("_to_copy.default", "to.dtype")
def _to_copy(x, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    if dtype is None:
        return x
    wanted = _dtype(dtype)
    return x != 0 if wanted == "bool" and x.dtype_name != "bool" else convert(x, wanted)


@_of("full.default")
def _full(size, value, dtype=None, layout=None, device=None, pin_memory=None):
    name = _dtype(dtype) if dtype is not None else "bool" if isinstance(value, bool) else "i64" if isinstance(value, int) else "f32"
    return rnp.full(tuple(size), value, _dtypes.long_name(name))


@_of("full_like.default")
def _full_like(x, value, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return rnp.full_like(x, value, None if dtype is None else _dtypes.long_name(_dtype(dtype)))


@_of("scalar_tensor.default")
def _scalar_tensor(value, dtype=None, layout=None, device=None, pin_memory=None):
    return _full((), value, dtype)


@_of("arange.start_step")
def _arange(start, end, step=1, dtype=None, layout=None, device=None, pin_memory=None):
    whole = all(isinstance(v, int) for v in (start, end, step))
    return rnp.arange(start, end, step, dtype="int64" if dtype is None and whole else "float32" if dtype is None else _dtypes.long_name(_dtype(dtype)))


# What torch.export checked of a tensor's type when it traced; there is nothing left to compute.
_OPERATORS["_assert_tensor_metadata.default"] = lambda *args, **kwargs: None


@_of("getitem")
def _getitem(results, i):
    if results[i] is None:
        raise Error("it asks for the places that a pooling took its values from", "unsupported")
    return results[i]


# ---- modules ----
class TorchModule:
    """A PyTorch module as a function of RLX: `m(x)`. It is a tree whose leaves are the params, by the names of the state dict in
    `m.params`, so that transforms take it: rlx.grad(lambda m: loss(m(x)))(m). Buffers that are no params stay as they are."""

    def __init__(self, params, program):
        self.params, self._program = params, program

    def __call__(self, *args, **kwargs):
        return self._program.run(self.params, args, kwargs)

    def tree_flatten(self):
        return (self.params,), self._program

    @classmethod
    def tree_unflatten(cls, program, parts):
        return cls(parts[0], program)


tree.register_pytree_node(TorchModule, TorchModule.tree_flatten, TorchModule.tree_unflatten)


class _Program:
    """The graph of torch.export, run operator by operator on arrays of RLX, traced or not."""

    def __init__(self, exported, constants):
        self._nodes = list(exported.graph.nodes)
        self._constants = constants  # by the name of the placeholder
        self._params = {spec.arg.name: spec.target for spec in exported.graph_signature.input_specs if spec.kind.name == "PARAMETER"}
        self._inputs = [spec.arg.name for spec in exported.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        self._in_spec, self._out_spec = exported.call_spec.in_spec, exported.call_spec.out_spec
        self._types = [(n.name, tuple(n.meta["val"].shape), str(n.meta["val"].dtype)) for n in self._nodes
                       if n.op == "placeholder" and n.name in set(self._inputs) and hasattr(n.meta.get("val"), "dtype")]

    def run(self, params, args, kwargs):
        import torch.utils._pytree as theirs
        leaves, spec = theirs.tree_flatten((args, kwargs))
        if len(leaves) != len(self._inputs):
            raise TypeError(at_user_line(f"the module was traced with {len(self._inputs)} inputs, and is given {len(leaves)}"))
        known = {name: params[target] for name, target in self._params.items()} | dict(self._constants)
        types = {name: (shape, dtype) for name, shape, dtype in self._types}
        for name, leaf in zip(self._inputs, leaves):
            known[name] = as_array(leaf) if name in types else leaf
            if name in types and known[name].shape != types[name][0]:
                raise Error(at_user_line(f"the input '{name}' has the shape {known[name].shape}, and the module was traced with {types[name][0]}; "
                                         "make a function of it for that shape, or use rlx.vmap for batches"), "shape_mismatch")
            if name in types and known[name].dtype_name != _dtype(types[name][1]):
                known[name] = convert(known[name], _dtype(types[name][1]))
        look_up = lambda x: known[x.name] if type(x).__name__ == "Node" else x
        for node in self._nodes:
            if node.op == "call_function":
                known[node.name] = self._called(node, [_mapped(a, look_up) for a in node.args], {k: _mapped(v, look_up) for k, v in node.kwargs.items()})
            elif node.op == "output":
                return theirs.tree_unflatten(list(_mapped(node.args[0], look_up)), self._out_spec)

    @staticmethod
    def _called(node, args, kwargs):
        try:
            return _OPERATORS[_name_of(node)](*args, **kwargs)
        except Error as error:
            raise Error(f"{_name_of(node)}: {error}", error.status) from error


def _mapped(x, f):
    if isinstance(x, (list, tuple)):
        return [_mapped(v, f) for v in x]
    return f(x)


def _name_of(node):
    """"add.Tensor" of aten.add.Tensor, "getitem" of Python's, else the whole name."""
    if node.target is operator.getitem:
        return "getitem"
    name = str(node.target)
    return name[len("aten."):] if name.startswith("aten.") else name


def _of_tensor(tensor):
    return as_array(tensor.detach().cpu().contiguous())


def from_torch(module, example, kwargs=None):
    """A function of RLX that computes what a PyTorch module does, made by torch.export from an example of its inputs (a tensor, or a
    tuple of them; `kwargs` by name). It takes arrays of those shapes, and is a tree of the module's params: `jit`, `grad`
    and `vmap` take it, `rlx.save` saves it under PyTorch's names.

        m = rlx.from_torch(module.eval(), torch.ones(1, 3, 224, 224))
        y = rlx.jit(lambda m, x: m(x))(m, x)

    Errors: PyTorch is not installed (ImportError); the module cannot be exported, as torch.export says it; an operator that RLX
    has no function for, or one in a form it has none for (rlx.Error, NotImplementedError too, with all the names); a module
    that changes its buffers, as batch norm in training (likewise).
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("from_torch needs PyTorch: pip install torch") from error
    if not isinstance(module, torch.nn.Module):
        raise TypeError(at_user_line(f"from_torch takes a torch.nn.Module, not a {type(module).__name__}"))
    with torch.no_grad():
        exported = torch.export.export(module, tuple(example) if isinstance(example, (tuple, list)) else (example,), kwargs or {}).run_decompositions()
    missing = {}
    for node in exported.graph.nodes:
        if node.op == "call_function" and _name_of(node) not in _OPERATORS:
            missing[str(node.target)] = missing.get(str(node.target), 0) + 1
        elif node.op not in ("call_function", "placeholder", "output"):
            missing[f"{node.op} {node.target}"] = 1
        if any(not isinstance(n, int) for n in getattr(node.meta.get("val"), "shape", ())):
            raise Error(at_user_line(f"'{node.name}' has a shape that data decide: {tuple(node.meta['val'].shape)}"), "unsupported")
    if missing:
        raise Error(at_user_line(f"{type(module).__name__} has operators that RLX has no functions for: "
                                 + ", ".join(f"{name} ({n} times)" if n > 1 else name for name, n in sorted(missing.items()))), "unsupported")
    changed = [spec.target or spec.arg.name for spec in exported.graph_signature.output_specs if spec.kind.name != "USER_OUTPUT"]
    if changed:
        raise Error(at_user_line(f"{type(module).__name__} changes {', '.join(map(str, changed[:3]))} when it is called; call module.eval() first, or give "
                                 "what it changes as inputs and outputs"), "unsupported")
    params, constants = {}, {}
    for spec in exported.graph_signature.input_specs:
        if spec.kind.name == "PARAMETER":
            params[spec.target] = _of_tensor(exported.state_dict[spec.target])
        elif spec.kind.name in ("BUFFER", "CONSTANT_TENSOR"):
            held = exported.state_dict if spec.target in exported.state_dict else exported.constants
            constants[spec.arg.name] = _of_tensor(held[spec.target])
        elif spec.kind.name != "USER_INPUT":
            raise Error(at_user_line(f"{type(module).__name__} has an input of the kind {spec.kind.name}"), "unsupported")
    made = TorchModule(params, _Program(exported, constants))
    from ._jit import eval_shape
    # What refuses its form says so now, and not when it is called.
    eval_shape(lambda m, args, kwargs: m(*args, **kwargs), made, *_example_types(example, kwargs))
    return made


def _example_types(example, kwargs):
    from ._jit import ShapeDtype
    import torch
    typed = lambda x: ShapeDtype(tuple(x.shape), str(x.dtype).replace("torch.", "")) if isinstance(x, torch.Tensor) else x
    args = tuple(example) if isinstance(example, (tuple, list)) else (example,)
    return tree.map(typed, args), tree.map(typed, dict(kwargs or {}))
