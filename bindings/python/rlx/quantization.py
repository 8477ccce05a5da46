"""Models in 8-bit codes: ranges from data, fake quantization to train with, and the graph of codes.

    from rlx import quantization

    ranges = quantization.calibrate(graph, params, batches, method="entropy")
    made = quantization.add(graph)                                    # weights by channel, activations by tensor
    int8 = quantization.export(made.graph, {**params, **made.initial(params, ranges)})
    int8.graph.save("int8.rlx")

or, trained on with moving means of the ranges:

    learning = quantization.add(loss, training=True, activations="ema")
    session = train.Session(learning.graph, {**params, **learning.initial(params)}, train.adamw(5e-4),
                            groups=learning.groups, written=learning.written)
    ...
    int8 = quantization.export(quantization.add(graph, activations="ema").graph, session.params)

Params and batches are dicts by name, graphs `rlx.Graph`. docs/quantization.md tells what is quantized, and where scales come from.
"""

import ctypes
import json
import os
import secrets
import weakref
from ctypes import byref, c_char_p, c_size_t, c_void_p
from typing import NamedTuple

from . import _graph
from ._array import as_array
from ._native import Error, at_user_line, check, lib, owned_text as _owned
from .train import Group, _array_of, _Tensors, _text, _Word


class Ranges:
    """The ranges of a graph's activations; `entries` is a list of dicts with name, low, high, least, greatest and count."""

    def __init__(self, text):
        self._json = text
        self.entries = json.loads(text)["activations"]

    def table(self):
        """A row for each activation, with the scale and the zero point of int8 codes."""
        return _owned(lib.rlx_ranges_table, self._json.encode())

    def save(self, path):
        """As JSON, which `load` and `rlx quantize --ranges` read. The file has its name when it is whole."""
        path = os.path.realpath(path)
        beside = f"{path}.{secrets.token_hex(8)}"
        file = open(beside, "x", encoding="utf-8")
        try:
            with file:
                file.write(self._json)
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise

    @staticmethod
    def load(path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        _owned(lib.rlx_ranges_table, text.encode())  # refuses what are no ranges
        return Ranges(text)


class Int8Model(NamedTuple):
    """A graph without params, and what became of each layer as a table."""

    graph: _graph.Graph
    table: str


class Quantization:
    """A graph with fake quantization; see `add`. `points` tells its quantizers, `groups` and `written` are for `train.Session`."""

    def __init__(self, handle):
        self._handle = handle
        self._finalizer = weakref.finalize(self, lib.rlx_quantization_free, handle)
        graph, described = c_void_p(), c_char_p()
        check(lib.rlx_quantization_graph, handle, byref(graph))
        self.graph = _graph.Graph(handle=graph)
        check(lib.rlx_quantization_describe, handle, byref(described))
        said = json.loads(described.value)
        self.points, self.written = said["points"], said["written"]
        self.groups = [Group(g["params"], weight_decay=g["weight_decay"], frozen=g["frozen"]) for g in said["groups"]]

    def initial(self, params, ranges=None):
        """Values for the params of the quantizers, a dict: scales, zero points, moving ranges. `params` are the model's; `ranges`
        from `calibrate` are needed by scales that are fixed or learnt."""
        text, count = ranges._json.encode() if ranges is not None else None, c_size_t()
        with _Tensors(_named(params)) as given:
            ask = (lib.rlx_quantization_initial, self._handle, given.names, given.handles, given.count, text)
            check(*ask, None, None, 0, byref(count))
            names, made = (c_char_p * max(1, count.value))(), (c_void_p * max(1, count.value))()
            check(*ask, names, made, count.value, None)
        return {names[i].decode(): _array_of(made[i]) for i in range(count.value)}


def calibrate(graph, params, batches, *, method="min_max", averaging=0.01, percentile=99.99, bins=2048, levels=128, session=None,
              **config):
    """Runs the graph over `batches`, dicts by the names of its inputs, and collects the range of each activation that `add` would
    quantize with the same `config`. Methods are "min_max", "moving_average", "percentile" and "entropy"."""
    batches = [dict(b) for b in batches]
    inputs = list(batches[0]) if batches else []
    for b in batches:
        if set(b) != set(inputs):
            raise Error(at_user_line(f"the batches differ in what they name: {sorted(inputs)} and {sorted(b)}"))
    options = dict(method=_Word(method), averaging=float(averaging), percentile=float(percentile), bins=int(bins), levels=int(levels))
    names = (c_char_p * max(1, len(inputs)))(*[n.encode() for n in inputs])
    with _Tensors(_named(params)) as given, _Tensors([nv for b in batches for nv in _named({n: b[n] for n in inputs})]) as fed:
        text = _owned(lib.rlx_calibrate, _session(session), graph.handle, given.names, given.handles, given.count, names, len(inputs),
                      fed.handles, len(batches), _config(config), _text(options).encode())
    return Ranges(text)


def add(graph, *, training=False, **config):
    """Puts fake quantization into a graph, whose layers are called as their weights without ".weight".

    activations    "fixed", "per_batch", "ema" or "learned" (LSQ): where scales come from
    weights        the same of weights, one for each output channel ("per_batch")
    ste            "clipped_identity" or "identity": the derivative of the rounding
    symmetric      activations have the zero point 0
    decay          of "ema": how much of the old mean stays in a step (0.99)
    skip           names of layers that stay floats; "name*" stands for all that begin so
    classes        by op (conv, linear, matmul, dot_general) a dict of quantize, weight_bits, activation_bits
    training       moving means are outputs of the graph, which `written` names
    """
    handle = c_void_p()
    check(lib.rlx_quantize, graph.handle, _config(config), int(training), byref(handle))
    return Quantization(handle)


def export(graph, params, *, session=None):
    """The graph of 8-bit codes that a graph with fake quantization means, with these values of its params."""
    int8, table = c_void_p(), c_void_p()
    with _Tensors(_named(params)) as given:
        check(lib.rlx_export_int8, _session(session), graph.handle, given.names, given.handles, given.count, byref(int8), byref(table))
    return Int8Model(_graph.Graph(handle=int8), _taken(table))


_KNOWN = ("activations", "weights", "ste", "symmetric", "decay", "skip", "classes")


def _config(config):
    for name in config:
        if name not in _KNOWN:
            raise TypeError(at_user_line(f"no setting of quantization is called {name!r}; there are {', '.join(_KNOWN)}"))
    text = dict(config)
    for name in ("activations", "weights", "ste"):
        if name in text:
            text[name] = _Word(text[name])
    if "decay" in text:
        text["decay"] = float(text["decay"])
    if "skip" in text:
        text["skip"] = [text["skip"]] if isinstance(text["skip"], str) else list(text["skip"])
    if "classes" in text:
        text["classes"] = [dict(op=op, **settings) for op, settings in text["classes"].items()]
    return _text(text).encode()


def _named(values):
    return [(str(n), as_array(v, share=True)._elements()) for n, v in values.items()]


def _session(session):
    return (session or _graph.default_session()).handle


def _taken(text):
    try:
        return ctypes.string_at(text.value).decode()
    finally:
        lib.rlx_text_free(text)
