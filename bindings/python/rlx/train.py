"""Training: a loss, the params it learns (a tree of arrays), an optimizer.

    from rlx import train

    def loss(params, batch):
        prediction = batch["x"] @ params["w"] + params["b"]
        return rnp.mean((prediction - batch["t"]) ** 2)

    session = train.Session(loss, params, train.adamw(train.cosine(1e-3, 1000, warmup=100), weight_decay=0.01), clip_norm=1.0)
    for batch in batches:
        result = session.step(batch)          # result.loss, result.grad_norm, ...
    params = session.params                   # the same tree, trained

The loss is traced as `rlx.jit` does it, once for each set of types of the batch; forward, backward and the update of all
params then run as one compiled graph. docs/training.md tells what a step computes, and in which order.
"""

import ctypes
import inspect
import json
import weakref
from ctypes import byref, c_char_p, c_int64, c_size_t, c_void_p
from typing import NamedTuple

import numpy as np

from . import _dtypes, _graph, _native, tree
from ._attributes import Word as _Word, text_of as _text
from ._array import Array, Trace, as_array, contiguous
from ._ops import epsilon_of
from ._native import Error, StepResultStruct, at_user_line, check, lib, path_bytes
from ._jit import _arrays


# ---- learning rates ----
class Schedule(NamedTuple):
    """The learning rate of each step; see `constant`, `linear`, `cosine`, `one_cycle`."""

    peak: float
    shape: str = "constant"
    steps: int = 0
    warmup: int = 0
    last: float = 0.0


def constant(rate, warmup=0):
    """`rate` in every step, reached along a line from 0 in the first `warmup` steps."""
    return Schedule(float(rate), "constant", 0, int(warmup))


def linear(peak, steps, warmup=0, last=0.0):
    """Down a line from `peak` to `last` * peak at `steps`, after `warmup` steps that rise from 0."""
    return Schedule(float(peak), "linear", int(steps), int(warmup), float(last))


def cosine(peak, steps, warmup=0, last=0.0):
    """Down half a cosine from `peak` to `last` * peak at `steps`, after `warmup` steps that rise from 0."""
    return Schedule(float(peak), "cosine", int(steps), int(warmup), float(last))


def one_cycle(peak, steps):
    """Up half a cosine from peak / 25 in the first 0.3 of the steps, then down to peak / 250,000."""
    return Schedule(float(peak), "one_cycle", int(steps))


# ---- optimizers; `eps` is a second name for `epsilon` ----
class Optimizer(NamedTuple):
    """A rule by which params step; see `sgd`, `adamw` and the others."""

    name: str
    lr: object  # a number, a Schedule, or a function from the number of the step (1 for the first) to a number
    attributes: dict
    others: dict = {}
    hessian: dict = {}


def sgd(lr=1e-2, momentum=0.0, nesterov=False, weight_decay=0.0):
    """Gradient descent: velocity = momentum velocity + grad; param -= lr velocity."""
    return Optimizer("sgd", lr, dict(momentum=momentum, nesterov=nesterov, weight_decay=weight_decay))


def adam(lr=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0, eps=None):
    """Kingma, Ba 2015. The decay is added to the gradient; see `adamw`."""
    return Optimizer("adam", lr, dict(beta1=beta1, beta2=beta2, epsilon=epsilon_of(epsilon, 1e-8, eps), weight_decay=weight_decay))


def adamw(lr=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.01, eps=None):
    """Adam whose decay shrinks the param and leaves the gradient alone (Loshchilov, Hutter 2019)."""
    return Optimizer("adamw", lr, dict(beta1=beta1, beta2=beta2, epsilon=epsilon_of(epsilon, 1e-8, eps), weight_decay=weight_decay))


def adagrad(lr=1e-2, epsilon=1e-10, weight_decay=0.0, eps=None):
    """Duchi, Hazan, Singer 2011."""
    return Optimizer("adagrad", lr, dict(epsilon=epsilon_of(epsilon, 1e-10, eps), weight_decay=weight_decay))


def rmsprop(lr=1e-2, alpha=0.99, epsilon=1e-8, momentum=0.0, centered=False, weight_decay=0.0, eps=None):
    """Tieleman, Hinton 2012; centered: Graves 2013."""
    return Optimizer("rmsprop", lr, dict(alpha=alpha, epsilon=epsilon_of(epsilon, 1e-8, eps), weight_decay=weight_decay, momentum=momentum, centered=centered))


def adafactor(lr=1e-2, decay=0.8, epsilon=2.0**-23, least_scale=1e-3, clip=1.0, weight_decay=0.0, eps=None):
    """Shazeer, Stern 2018: means of squares along rows and columns stand for all of them."""
    return Optimizer("adafactor", lr, dict(decay=decay, epsilon=epsilon_of(epsilon, 2.0**-23, eps), least_scale=least_scale, clip=clip, weight_decay=weight_decay))


def lamb(lr=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-6, weight_decay=0.0, eps=None):
    """You et al. 2020: Adam's step, made as long as the param."""
    return Optimizer("lamb", lr, dict(beta1=beta1, beta2=beta2, epsilon=epsilon_of(epsilon, 1e-6, eps), weight_decay=weight_decay))


def lion(lr=1e-4, beta1=0.9, beta2=0.99, weight_decay=0.0):
    """Chen et al. 2023: the sign of a moving mean."""
    return Optimizer("lion", lr, dict(beta1=beta1, beta2=beta2, weight_decay=weight_decay))


def muon(lr=2e-2, momentum=0.95, nesterov=True, iterations=5, epsilon=1e-7, weight_decay=0.0, others=None, eps=None):
    """Jordan et al. 2024: steps of matrices made orthogonal. `others` (an `adamw` without lr of its own) steps what is no
    matrix."""
    if others is not None and others.name not in ("adam", "adamw"):
        raise Error(at_user_line(f"what is no matrix steps by adam or adamw beside muon, got {others.name}"))
    rest = dict(others.attributes, decoupled=others.name == "adamw") if others is not None else {}
    return Optimizer("muon", lr, dict(momentum=momentum, nesterov=nesterov, iterations=iterations, epsilon=epsilon_of(epsilon, 1e-7, eps),
                                      weight_decay=weight_decay), rest)


def sophia(lr=1e-3, beta1=0.965, gamma=0.05, epsilon=1e-15, weight_decay=0.0, estimate="hutchinson", every=10, beta2=0.99, logits="",
           algorithm="philox", eps=None):
    """Liu et al. 2024: steps by the mean gradient over the Hessian's diagonal, which is estimated `every` so many steps:
    "hutchinson", or "gauss_newton_bartlett", which draws labels from `logits`, the path of those logits in what the loss
    returns beside the loss ("aux", "aux.logits")."""
    return Optimizer("sophia", lr, dict(beta1=beta1, gamma=gamma, epsilon=epsilon_of(epsilon, 1e-15, eps), weight_decay=weight_decay), {},
                     dict(kind=_Word(estimate), every=every, beta2=beta2, logits=logits, algorithm=_Word(algorithm)))


# ---- settings ----
class Group(NamedTuple):
    """Params that step in a way of their own: names, or beginnings of names with a "*" behind them."""

    params: object
    lr_scale: float = 1.0
    weight_decay: object = None  # instead of the optimizer's
    frozen: bool = False         # does not step, and no gradient of it is computed


class LossScale(NamedTuple):
    """Of training in float16: by what the loss is multiplied before gradients are computed."""

    initial: float = 65536.0
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000


class StepResult(NamedTuple):
    """What a step gave. `aux` is what the loss function returned beside the loss."""

    loss: float
    grad_norm: float      # of all gradients together, before clipping
    learning_rate: float
    step: int             # how many were made, this one included
    path: str             # "gradient", "fused" or "native_update"
    skipped: bool         # a gradient overflowed in float16: nothing was updated, and the scale was lowered
    loss_scale: float
    aux: object = None


class Eligibility(NamedTuple):
    """Whether the device can update the params of a loaded model by means of its own, and if not, why."""

    device: str
    supported: bool
    reason: str


class Memory(NamedTuple):
    """Bytes that a session holds between its steps."""

    params: int
    states: int
    gradients: int
    spare: int
    program: int
    total: int


_PRECISIONS = {"f32": "f32", "float32": "f32", "f16": "f16", "float16": "f16", "bf16": "bf16", "bfloat16": "bf16"}


def _group_params(group):
    if not isinstance(group, Group):
        raise TypeError(at_user_line(f"a group is made by rlx.train.Group(...), got {type(group).__name__}"))
    names = [group.params] if isinstance(group.params, str) else group.params
    if not isinstance(names, (list, tuple, set)) or not all(isinstance(n, str) for n in names):
        raise TypeError(at_user_line(f"the params of a group are names, or beginnings of names with a '*' behind them, got {names!r}"))
    return list(names)


def _trained(names):
    """The list of trained params as the config has it: empty for all."""
    if names is None:
        return []
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, (list, tuple, set)) or not all(isinstance(n, str) for n in names):
        raise TypeError(at_user_line(f"trained params are names, or beginnings of names with a '*' behind them, got {names!r}"))
    if not names:
        raise Error(at_user_line("`trained` lists no param; leave it out to train them all"))
    return list(names)


def _policy(precision, loss_scale):
    if str(precision) not in _PRECISIONS:
        raise Error(at_user_line(f"precision is 'f32', 'f16' or 'bf16', got {precision!r}"))
    return dict(precision=_Word(_PRECISIONS[str(precision)]), loss_scale=loss_scale._asdict())


def _names(structure, what):
    """A name for each leaf: "dense.w", "layers.0.w". A tree that is one leaf is called as `what`."""
    def walk(part, before):
        if part == "*":
            return [before or what]
        if part is None:
            return []
        keys = zip(part[1], part[2]) if part[0] is dict else enumerate(part[1])
        return [n for key, inner in keys for n in walk(inner, f"{before}.{key}" if before else str(key))]
    names = walk(structure, "")
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        raise Error(at_user_line(f"two leaves of the {what} would both be called {sorted(twice)[0]!r}: rename a key"))
    return names


def _aux_names(structure):
    """What stands beside a loss: "aux" if it is one leaf, else "aux.logits", "aux.0"."""
    return [name if name == "aux" else "aux." + name for name in _names(structure, "aux")]


class _Tensors:
    """Arrays as C tensors with names, for one call. They borrow: the arrays must live as long as what they are given to."""

    def __init__(self, named, copy=False):
        self.arrays = [contiguous(a) for _, a in named]
        self.names = (c_char_p * max(1, len(named)))(*[n.encode() for n, _ in named])
        self.handles = (c_void_p * max(1, len(named)))()
        self.count = len(named)
        for i, a in enumerate(self.arrays):
            dims, handle = (c_int64 * max(1, a.ndim))(*a.shape), c_void_p()
            dtype = _dtypes.FROM_NUMPY[a.dtype].encode()
            if copy:
                check(lib.rlx_tensor_create, dtype, dims, a.ndim, a.ctypes.data, a.nbytes, byref(handle))
            else:
                check(lib.rlx_tensor_borrow, dtype, dims, a.ndim, a.ctypes.data, a.nbytes, None, None, byref(handle))
            self.handles[i] = handle.value

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for handle in self.handles:
            lib.rlx_tensor_free(handle)


def _array_of(handle):
    """A C tensor as an Array of its own memory; frees the tensor."""
    try:
        shape = tuple(lib.rlx_tensor_dims(handle)[: lib.rlx_tensor_rank(handle)])
        a = np.empty(shape, _dtypes.numpy_of(lib.rlx_tensor_dtype(handle).decode()))
        ctypes.memmove(a.ctypes.data, lib.rlx_tensor_data(handle), a.nbytes)
        return Array(a)
    finally:
        lib.rlx_tensor_free(handle)


class _Loss:
    """A loss traced on some types: the graph, and the tree of what it returns behind the loss."""

    def __init__(self, f, params, state, batch_structure, batch_types, has_key):
        trace = Trace(getattr(f, "__name__", "loss").replace("<", "").replace(">", "") or "loss")
        with trace:
            names = _names(batch_structure, "batch")
            arrays = [Array(trace=trace, value=trace.graph.input(dtype, dims, f"batch.{name}"), dtype=dtype, shape=dims)
                      for name, (dtype, dims) in zip(names, batch_types)]
            self.inputs = [f"batch.{name}" for name in names]
            given = [self._params(trace, *params)]
            if state is not None:
                given.append(self._params(trace, *state))
            given += tree.unflatten(batch_structure, arrays)
            keywords = {"key": Array(trace=trace, value=trace.graph.input("u32", (2,), "train.key"), dtype="u32", shape=(2,))} if has_key else {}
            out = f(*given, **keywords)
            parts = out if type(out) is tuple else (out,)
            if state is not None and len(parts) not in (2, 3):
                raise Error(at_user_line("with `state` the loss returns (loss, new state) or (loss, new state, aux)"))
            if state is None and len(parts) > 2:
                raise Error(at_user_line(f"the loss returns a scalar, or (loss, aux), got a tuple of {len(parts)}"))
            loss = as_array(parts[0])
            trace.graph.output(trace.lift(loss)._value, "loss")
            if state is not None:
                leaves, structure = _arrays(parts[1], "the new state")
                if structure != state[1]:
                    raise Error(at_user_line(f"the new state is not of the state's structure: {structure} and {state[1]}"))
                for name, leaf in zip(state[0], leaves):
                    trace.graph.output(trace.lift(leaf)._value, "new/" + name)
            rest = parts[1 if state is None else 2:]
            leaves, self.aux_structure = _arrays(rest[0] if rest else None, "what the loss returns beside the loss")
            self.aux_count = len(leaves)
            for name, leaf in zip(_aux_names(self.aux_structure), leaves):
                trace.graph.output(trace.lift(leaf)._value, name)
        if trace.captured:
            raise Error(at_user_line("the loss used a value of a trace that has ended, or of one around it; pass it in the batch"))
        self.graph = trace.graph

    @staticmethod
    def _params(trace, names, structure, types):
        arrays = []
        for name, (dtype, dims) in zip(names, types):
            value = _native.Value()
            check(lib.rlx_graph_param, trace.graph.handle, name.encode(), _graph.type_text(dtype, dims).encode(), byref(value))
            arrays.append(Array(trace=trace, value=value, dtype=dtype, shape=dims))
        return tree.unflatten(structure, arrays)


def named_params(params):
    """The leaves of a tree by the names that a session gives them: {"dense.w": ..., "layers.0.w": ...}."""
    arrays, structure = _arrays(params, "params")
    return dict(zip(_names(structure, "params"), arrays))


def graph(f, params, *inputs, key=False):
    """f(params, *inputs) as an `rlx.Graph`: what `rlx.quantization`, `TrainingSession`, `rlx train` and other languages take.

    Its params are named as `named_params` names them. An input that is an array is called as f's own parameter, one that is a tree
    by the keys within; `rlx.ShapeDtype(("N", 3))` may stand for an array, with names for dims that are open. With `key` f is called
    with key=..., the input "key". A result that is a scalar, or a tuple's first, is called "loss", what stands beside it as of
    a session's loss ("aux", "aux.logits"); else results are called by their keys, one that comes alone "y"."""
    arrays, structure = _arrays(params, "params")
    words = list(inspect.signature(f).parameters)[1:]
    trace = Trace(getattr(f, "__name__", "graph").replace("<", "").replace(">", "") or "graph")
    with trace:
        given = [_Loss._params(trace, _names(structure, "params"), structure, [(x.dtype_name, x.shape) for x in arrays])]
        for i, tree_of in enumerate(inputs):
            leaves, inner = _arrays(tree_of, "inputs")
            made = [Array(trace=trace, value=trace.graph.input(x.dtype_name, x.shape, name), dtype=x.dtype_name, shape=x.shape)
                    for x, name in zip(leaves, _names(inner, words[i] if i < len(words) else str(i)))]
            given.append(tree.unflatten(inner, made))
        keywords = {}
        if key:
            keywords["key"] = Array(trace=trace, value=trace.graph.input("u32", (2,), "key"), dtype="u32", shape=(2,))
        out = f(*given, **keywords)
        leaves, inner = _arrays(out, "the result")
        leaves = [trace.lift(x) for x in leaves]
        names = _names(inner, "y")
        first, rest = (out[0], out[1:]) if type(out) is tuple and out else (out, ())
        if not isinstance(first, (dict, list, tuple)) and leaves[0].shape == ():
            names = ["loss"] + (_aux_names(_arrays(rest[0] if len(rest) == 1 else rest, "the result")[1]) if rest else [])
        assert len(names) == len(leaves)
        for name, leaf in zip(names, leaves):
            trace.graph.output(leaf._value, name)
    if trace.captured:
        raise Error(at_user_line("the function used a value of a trace that has ended, or of one around it; pass it as an input"))
    return trace.graph


class TrainingSession:
    """Trains `params`, a tree of arrays, by `loss`.

    `loss(params, *batch)` returns a float scalar, or (loss, aux); what stands in aux comes back from each step. It may also be
    an `rlx.Graph` whose first output is the loss and whose params are those of `params`, a dict by name; a batch is then a dict
    by name. Params are named by their path in the tree: "dense.w", "layers.0.w".

    optimizer      `adamw(lr=...)` or another one; its lr is a number, a schedule, or a function of the number of the step
    groups         `Group`s: the first one that names a param counts
    trained        the params that are trained: names, or beginnings of names with a "*" behind them; all others stay frozen
    clip_value     gradients are clamped to this on both sides
    clip_norm      all gradients are scaled so that their norm together is at most this
    ema            the fraction of a moving mean of the params that stays in each step
    precision      "f32"; "f16" or "bf16": automatic mixed precision, the params staying float32
    loss_scale     a `LossScale`, for "f16"
    state          a tree that steps write but do not train (the running statistics of batch norm): the loss is then called as
                   loss(params, state, *batch) and returns (loss, new state) or (loss, new state, aux)
    written        of a loss that is a graph: a dict from params that are not trained to the outputs that they become in each step
    seed           if given, the loss is called with key=..., a key that is another one in each step
    checkpoints    the forward pass is cut into so many parts, which are computed twice instead of kept
    fused          False: gradients come out of one graph and go into another one
    allow_unused   a param that the loss does not depend on is no error
    session        an `rlx.Session`: another device, or another number of threads
    """

    def __init__(self, loss, params, optimizer=None, *, groups=(), trained=None, clip_value=0.0, clip_norm=0.0, ema=0.0, precision="f32",
                 loss_scale=LossScale(), state=None, written=None, seed=None, checkpoints=0, fused=True, allow_unused=False,
                 session=None):
        optimizer = optimizer if optimizer is not None else adam()
        if not isinstance(optimizer, Optimizer):
            raise TypeError(at_user_line(f"an optimizer is made by rlx.train.adamw(...) and its like, got {type(optimizer).__name__}"))
        self._loss, self._has_key, self._session = loss, seed is not None, session or _graph.default_session()
        self._handle, self._finalizer, self._losses, self._current = None, None, {}, None
        arrays, self._structure = _arrays(params, "params")
        self._names = _names(self._structure, "params")
        self._is_graph = isinstance(loss, _graph.Graph)
        state_arrays, self._state_structure = _arrays(state, "state")
        self._state_names = ["state." + n for n in _names(self._state_structure, "state")] if state is not None else []
        if state is not None and self._is_graph:
            raise Error(at_user_line("`state` belongs to a loss that is a function"))
        if written and not self._is_graph:
            raise Error(at_user_line("`written` belongs to a loss that is a graph; a function has `state`"))
        types = lambda of: [(x.dtype_name, x.shape) for x in of]
        self._params = (self._names, self._structure, types(arrays))
        self._state = (self._state_names, self._state_structure, types(state_arrays)) if state is not None else None
        self._initial = list(zip(self._names + self._state_names, [np.array(x._elements()) for x in arrays + state_arrays]))
        self._lr = optimizer.lr
        rate = self._lr if isinstance(self._lr, Schedule) else Schedule(0.0 if callable(self._lr) else float(self._lr))
        self._config = dict(
            optimizer=optimizer.name, attributes=_text(optimizer.attributes), others=_text(optimizer.others),
            learning_rate=dict(rate._asdict(), shape=_Word(rate.shape)), clip_value=float(clip_value), clip_norm=float(clip_norm),
            ema=float(ema), fused=bool(fused), allow_unused=bool(allow_unused), **_policy(precision, loss_scale),
            seed=_signed(seed or 0), key_input="train.key" if self._has_key else "",
            written=[dict(param=n, output="new/" + n) for n in self._state_names]
            + [dict(param=str(n), output=str(o)) for n, o in (written or {}).items()], checkpoints=int(checkpoints),
            groups=[dict(params=_group_params(g), lr_scale=float(g.lr_scale), weight_decay=g.weight_decay, frozen=bool(g.frozen))
                    for g in ([groups] if isinstance(groups, Group) else groups)],
            trained=_trained(trained), hessian=optimizer.hessian)
        if self._is_graph:
            self._start(loss)

    # ---- steps ----
    def step(self, *batch):
        """One step on a batch; a `StepResult`. A loss that is no finite number is an error, and nothing has changed then."""
        return self._run(batch, False)

    def accumulate(self, *batch):
        """Adds the gradients of a batch to those that wait. Nothing steps."""
        return self._run(batch, True)

    def pending_accumulation(self):
        """How many batches' gradients wait."""
        return lib.rlx_training_pending(self._handle) if self._handle else 0

    def step_accumulated(self):
        """One step by the mean of the gradients that wait; returns of how many."""
        count, handle = c_int64(), self._started("accumulate(...)")
        self._set_rate()
        check(lib.rlx_training_step_accumulated, handle, byref(count))
        return count.value

    def evaluate(self, *batch, averaged=False):
        """What the loss gives for a batch: the loss, or (loss, aux). By the moving means of the params if `averaged`."""
        traced, named = self._prepare(batch)
        outputs = (c_void_p * self._output_count(traced))()
        with _Tensors(named) as given:
            check(lib.rlx_training_evaluate, self._handle, given.names, given.handles, given.count, int(averaged), outputs, len(outputs))
        arrays = [_array_of(handle) for handle in outputs]
        aux = self._aux(traced, arrays[1:])
        return arrays[0] if aux is None else (arrays[0], aux)

    def with_fused_optimizer(self, fused=True):
        """From the next step on forward, backward and update are one graph (or not). The numbers stay. Gives the session."""
        if self._handle is not None:
            check(lib.rlx_training_with_fused_optimizer, self._handle, int(bool(fused)))
        self._config["fused"] = bool(fused)
        return self

    def fused_active(self):
        """Whether forward, backward and update are one graph."""
        return bool(lib.rlx_training_fused_active(self._handle)) if self._handle else self._config["fused"]

    def with_precision_policy(self, precision, loss_scale=LossScale()):
        """From the next step on computes in "f32", "f16" or "bf16", the params staying float32. Gives the session."""
        policy = _policy(precision, loss_scale)
        if self._handle is not None:
            check(lib.rlx_training_with_precision_policy, self._handle, _text(policy).encode())
        self._config.update(policy)
        return self

    # ---- what it holds ----
    @property
    def params(self):
        """The params as they are now: a tree like the one that was given."""
        return tree.unflatten(self._structure, [self.param(n) for n in self._names])

    @property
    def state(self):
        """What steps write beside the params: a tree like the one that was given."""
        return tree.unflatten(self._state_structure, [self.param(n) for n in self._state_names])

    @property
    def averaged_params(self):
        """The moving means of the trained params, and the frozen params as they are."""
        frozen = {n for n in self._names if self._is_frozen(n)}
        return tree.unflatten(self._structure, [self.param(n) if n in frozen else self._tensor(n, True) for n in self._names])

    @property
    def names(self):
        """The names of the params, in the order of the tree's leaves."""
        return list(self._names)

    @property
    def steps(self):
        """How many steps were made."""
        return lib.rlx_training_steps(self._handle) if self._handle else 0

    def param(self, name):
        """One param by its name: "dense.w"."""
        if self._handle is None:
            for known, value in self._initial:
                if known == name:
                    return Array(value.copy())
        return self._tensor(name, False)

    # ---- checkpoints ----
    def save(self, path, notes=None):
        """Writes a safetensors file that appears complete or not at all: params, states, the number of steps, and `notes`, a dict
        of strings (where in the data this was, for one)."""
        notes = {str(k): str(v) for k, v in (notes or {}).items()}
        names = (c_char_p * max(1, len(notes)))(*[k.encode() for k in notes])
        texts = (c_char_p * max(1, len(notes)))(*[v.encode() for v in notes.values()])
        check(lib.rlx_training_save, self._started(), path_bytes(path), names, texts, len(notes))

    def load(self, path, *batch):
        """Goes on from a checkpoint of an equal session; returns its notes. Before the first step of a loss that is a function, an
        example of a batch is needed to trace it. Fails, changing nothing, if the file is of another model."""
        if batch:
            self._prepare(batch)
        notes = c_char_p()
        check(lib.rlx_training_load, self._started("load(path, *batch)"), path_bytes(path), byref(notes))
        return json.loads(notes.value)

    # ---- what it says of itself ----
    def report(self):
        """Where each node of a step runs, and why there: a dictionary."""
        text = c_char_p()
        check(lib.rlx_training_report, self._started(), byref(text))
        return json.loads(text.value)

    def update_path(self):
        """How params are updated: "fused" (in the graph of the gradients), "gradient" (by a graph behind it), or "native_update"."""
        return self._status()["update_path"]

    def eligibility(self):
        """Whether the device could do the updates by means of its own: an `Eligibility`."""
        return Eligibility(**self._status()["eligibility"])

    def memory(self):
        """Bytes that are held between steps: a `Memory`."""
        return Memory(**self._status()["memory"])

    @property
    def loss_scale(self):
        return self._status()["loss_scale"]

    # ---- inside ----
    def _status(self):
        text = c_char_p()
        check(lib.rlx_training_status, self._started(), byref(text))
        return json.loads(text.value)

    def _started(self, how="step(...) or evaluate(...)"):
        if self._handle is None:
            raise Error(at_user_line(f"the loss is traced when its first batch comes: call {how} before this"))
        return self._handle

    def _start(self, graph):
        handle = c_void_p()
        with _Tensors(self._initial, copy=True) as given:
            check(lib.rlx_training_create, self._session.handle, graph.handle, given.names, given.handles, given.count,
                  _text(self._config).encode(), byref(handle))
        self._handle = handle
        self._finalizer = weakref.finalize(self, lib.rlx_training_free, handle)
        self._initial = None

    def _prepare(self, batch):
        """The traced loss for a batch of these types, in use, and the batch by name."""
        if self._is_graph:
            if len(batch) != 1 or not isinstance(batch[0], dict):
                raise Error(at_user_line("a loss that is a graph takes its batch as one dict by name"))
            return None, [(n, as_array(v, share=True)._elements()) for n, v in batch[0].items()]
        arrays, structure = _arrays(list(batch), "batch", share=True)
        key = (structure, tuple((x.dtype_name, x.shape) for x in arrays))
        traced = self._losses.get(key)
        if traced is None:
            if len(self._losses) >= 8:
                self._losses.pop(next(iter(self._losses)))
            traced = _Loss(self._loss, self._params, self._state, structure, key[1], self._has_key)
            if self._handle is None:
                self._start(traced.graph)
                self._current = traced
            self._losses[key] = traced
        if self._current is not traced:
            check(lib.rlx_training_set_loss, self._handle, traced.graph.handle)
            self._current = traced
        return traced, [(n, x._elements()) for n, x in zip(traced.inputs, arrays)]

    def _output_count(self, traced):
        return self._loss.count(2) if traced is None else 1 + len(self._state_names) + traced.aux_count

    def _aux(self, traced, arrays):
        """Of the arrays behind the loss."""
        if traced is None:
            return arrays or None
        return tree.unflatten(traced.aux_structure, arrays[len(self._state_names):])

    def _set_rate(self):
        if callable(self._lr):
            check(lib.rlx_training_set_learning_rate, self._handle, float(self._lr(self.steps + 1)))

    def _run(self, batch, accumulate):
        traced, named = self._prepare(batch)
        self._set_rate()
        outputs = (c_void_p * (self._output_count(traced) - 1))()
        result = StepResultStruct(ctypes.sizeof(StepResultStruct))
        with _Tensors(named) as given:
            check(lib.rlx_training_step, self._handle, given.names, given.handles, given.count, int(accumulate), byref(result),
                  outputs, len(outputs))
        aux = self._aux(traced, [_array_of(handle) for handle in outputs])
        return StepResult(result.loss, result.grad_norm, result.learning_rate, result.step,
                          ("gradient", "fused", "native_update")[result.path], bool(result.skipped), result.loss_scale, aux)

    def _tensor(self, name, averaged):
        handle = c_void_p()
        check(lib.rlx_training_param, self._started(), name.encode(), int(averaged), byref(handle))
        return _array_of(handle)

    def _is_frozen(self, name):
        dtype = dict(zip(self._names, self._params[2]))[name][0]
        named = lambda patterns: any(name == p or (p.endswith("*") and name.startswith(p[:-1])) for p in patterns)
        if self._config["trained"] and not named(self._config["trained"]):
            return True
        for g in self._config["groups"]:
            if named(g["params"]):
                return g["frozen"] or not _dtypes.is_float(dtype)
        return not _dtypes.is_float(dtype)


Session = TrainingSession


def _signed(seed):
    """The same 64 bits as a signed number."""
    seed = int(seed) & (2**64 - 1)
    return seed - 2**64 if seed >= 2**63 else seed
