"""Execution profiles (how a model is to be executed, from a file) and manifests (what a graph is made of)."""

import json
import operator
import os
import warnings

from . import _graph, _jit
from ._native import at_user_line, lib, owned_text, path_bytes


class ExecutionProfile:
    """How models are to be executed, from a file of TOML: devices, threads, precision and shapes, for each phase of their use. docs/profiles.md
    describes the file.

        profile = rlx.ExecutionProfile.load("profile.toml")
        step = rlx.jit(f, **profile.options("decode"))
    """

    def __init__(self, path):
        self._path = os.fspath(path)
        self.phases = tuple(json.loads(owned_text(lib.rlx_profile_phases, path_bytes(self._path))))

    @classmethod
    def load(cls, path):
        """Reads and checks a file. An error names the line, and of a key that there is not the nearest one."""
        return cls(path)

    def __repr__(self):
        return f"ExecutionProfile({self._path!r}, phases={list(self.phases)})"

    def settings(self, phase=None):
        """What a phase means on this machine, as a dictionary that docs/profiles.md describes. A profile of one phase, or of none, needs no name.
        Devices that are passed over, because they are not available here, are warned of."""
        found = json.loads(owned_text(lib.rlx_profile_options, path_bytes(self._path), phase.encode() if phase else None))
        for each in found["passed_over"]:
            warnings.warn(at_user_line(f"not available: {each}"), stacklevel=3)
        return found

    def options(self, phase=None):
        """Keyword arguments for `rlx.jit`. (`shapes` and `bounds` say nothing there: arrays bring their own.)"""
        found = self.settings(phase)
        return dict(_compile(found), device=found["device"], threads=found["threads"] or None)

    def compile_options(self, phase=None):
        """Keyword arguments for `Session.compile` and `Session.report`."""
        found = self.settings(phase)
        return dict(_compile(found), bounds=found["bounds"])

    def session(self, phase=None):
        """An `rlx.Session` of the phase's device."""
        found = self.settings(phase)
        return _graph.Session(found["device"], found["threads"], found["narrow"])


def _compile(found):
    options = dict(found["compile"], narrow=found["narrow"])
    if not options["fallback"]:
        del options["fallback"]  # what RLX_FALLBACK says, then
    options["placement"] = [tuple(pair) for pair in options["placement"]]
    return options


class Manifest:
    """What `rlx.manifest` gives. `data` is a dictionary, which docs/manifest.md describes; `svg()` a picture, which a notebook shows."""

    def __init__(self, graph, numbers):
        self._graph, self._numbers = graph, numbers
        self.data = json.loads(self._text("json"))

    def _text(self, kind):
        return owned_text(lib.rlx_graph_manifest, self._graph.handle, self._numbers.encode(), kind.encode())

    @property
    def totals(self):
        """Of the whole graph: a dictionary with "params", "param_bytes", "flops", "bytes_moved" and others."""
        return self.data["layers"][0]["totals"]

    def layer(self, name):
        """The part of `data` for a layer, by its whole name. Raises KeyError if there is none."""
        waiting = list(self.data["layers"])
        while waiting:
            found = waiting.pop()
            if found["name"] == name:
                return found
            waiting += found["layers"]
        raise KeyError(name)

    def svg(self):
        """The layers with their params, flops and bytes moved as a picture (SVG). Fails if there is a symbol without a number."""
        return self._text("svg")

    def save_svg(self, path):
        """Writes the picture to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg())

    def _repr_svg_(self):
        return None if self.data["symbols"] else self.svg()

    def __repr__(self):
        return f"Manifest({self.data['graph']!r}, {self.totals['params']} params, {self.totals['flops']} flops)"


def manifest(f, *args, dims=None, **kwargs):
    """What a graph is made of, layer by layer, as a `Manifest`: ops, params, shapes, flops and bytes moved. `f` is an `rlx.Graph`, or a
    function, which is traced on the arguments: arrays, or `rlx.ShapeDtypeStruct`s. `dims` are numbers for symbols: {"B": 1}."""
    if isinstance(f, _graph.Graph):
        if args or kwargs:
            raise TypeError(at_user_line("a graph takes no further arguments; numbers for its symbols are dims={...}"))
        graph = f
    else:
        graph = (f if isinstance(f, _jit.Jit) else _jit.Jit(f)).lower(*args, **kwargs)._traced.graph
    return Manifest(graph, " ".join(f"{symbol}={operator.index(n)}" for symbol, n in (dims or {}).items()))
