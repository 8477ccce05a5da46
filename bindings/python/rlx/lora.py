"""Low-rank adapters (Hu et al. 2021): beside each chosen product with a weight a small one that learns; everything else is frozen.

    made = rlx.lora.add(loss, ["query", "value"], rank=8, alpha=16)      # loss: an rlx.Graph, of rlx.train.graph or of a file
    session = train.Session(made.graph, {**weights, **made.initial(seed=1)}, train.adamw(1e-3), groups=made.groups)
    ...
    made.save("adapter", session.params)                                 # as the package PEFT keeps it
    weights = made.merge(session.params)                                 # for the graph without adapters

Params are dicts by name. A module is called as its weight without ".weight": "encoder.layer.0.attention.self.query".
"""

import json
import weakref
from ctypes import byref, c_char_p, c_size_t, c_void_p
from typing import NamedTuple

from . import _graph
from ._array import as_array
from ._attributes import text_of
from ._native import at_user_line, check, lib, path_bytes
from .train import Group, _array_of, _Tensors


class Module(NamedTuple):
    """A product with an adapter: x Wᵀ + scale (x Aᵀ) Bᵀ."""

    name: str
    weight: str  # the frozen param
    a: str       # the params of the adapter: A [rank, inputs]
    b: str       # B [outputs, rank]
    inputs: int
    outputs: int


class Lora:
    """A graph with adapters, made by `add`. `graph` has the params that it had, and those of the adapters."""

    def __init__(self, handle):
        self._handle = handle
        self._finalizer = weakref.finalize(self, lib.rlx_lora_free, handle)
        made, text = c_void_p(), c_char_p()
        check(lib.rlx_lora_graph, handle, byref(made))
        self.graph = _graph.Graph(handle=made)
        check(lib.rlx_lora_describe, handle, byref(text))
        described = json.loads(text.value)
        self.scale = described["scale"]
        self.modules = [Module(m["name"], m["weight"], m["a"], m["b"], m["in"], m["out"]) for m in described["modules"]]
        self.groups = [Group(g["params"], frozen=g["frozen"]) for g in described["groups"]]

    def initial(self, seed=0):
        """The params of the adapters at first, a dict: A is drawn from the seed, B is zero, so that the graph means what it meant."""
        return self._named(lib.rlx_lora_initial, int(seed) & (2**64 - 1))

    def load(self, folder):
        """The params of the adapters from a folder that `save` or PEFT wrote, a dict. Fails if they are of other modules, another rank
        or another alpha."""
        return self._named(lib.rlx_lora_load, path_bytes(folder))

    def merge(self, params):
        """The params of the graph without adapters, a dict: weights with the adapters' products added, of their own dtype."""
        with _Tensors(_leaves(params)) as given:
            return self._named(lib.rlx_lora_merge, given.names, given.handles, given.count)

    def save(self, folder, params):
        """Writes the adapters alone into a folder as PEFT does: adapter_model.safetensors and adapter_config.json."""
        with _Tensors(_leaves(params)) as given:
            check(lib.rlx_lora_save, self._handle, path_bytes(folder), given.names, given.handles, given.count)

    def _named(self, function, *arguments):
        count = c_size_t()
        check(function, self._handle, *arguments, None, None, 0, byref(count))
        names, made = (c_char_p * max(1, count.value))(), (c_void_p * max(1, count.value))()
        check(function, self._handle, *arguments, names, made, count.value, None)
        return {names[i].decode(): _array_of(made[i]) for i in range(count.value)}


def _leaves(params):
    return [(str(n), as_array(v, share=True)._elements()) for n, v in params.items()]


def add(graph, targets, rank=8, alpha=8.0):
    """Puts adapters beside the products of a graph whose weights `targets` name: by the whole name of the module, or by its end behind
    a dot. An adapter's product counts alpha / rank times. Fails if a target names no such product, naming those there are."""
    if not isinstance(graph, _graph.Graph):
        raise TypeError(at_user_line(f"adapters are put into an rlx.Graph, of rlx.train.graph(...) or Graph.load(...), got "
                                     f"{type(graph).__name__}"))
    config, handle = dict(targets=_graph.name_list(targets, "targets"), rank=int(rank), alpha=float(alpha)), c_void_p()
    check(lib.rlx_lora_add, graph.handle, text_of(config).encode(), byref(handle))
    return Lora(handle)
