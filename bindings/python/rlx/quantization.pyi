from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, NamedTuple

from . import Graph
from . import Session as _DeviceSession
from ._array import Array
from ._typing import ArrayLike
from .train import Group

_Scales = Literal["fixed", "per_batch", "ema", "learned"]
_Params = Mapping[str, ArrayLike]

class Ranges:
    entries: list[dict[str, Any]]
    def __init__(self, text: str) -> None: ...
    def table(self) -> str: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    @staticmethod
    def load(path: str | PathLike[str]) -> Ranges: ...

class Int8Model(NamedTuple):
    graph: Graph
    table: str

class Quantization:
    graph: Graph
    points: list[dict[str, Any]]
    written: dict[str, str]
    groups: list[Group]
    def __init__(self, handle: Any) -> None: ...
    def initial(self, params: _Params, ranges: Ranges | None = ...) -> dict[str, Array]: ...

def calibrate(
    graph: Graph,
    params: _Params,
    batches: Iterable[Mapping[str, ArrayLike]],
    *,
    method: Literal["min_max", "moving_average", "percentile", "entropy"] = ...,
    averaging: float = ...,
    percentile: float = ...,
    bins: int = ...,
    levels: int = ...,
    session: _DeviceSession | None = ...,
    activations: _Scales = ...,
    weights: _Scales = ...,
    ste: Literal["clipped_identity", "identity"] = ...,
    symmetric: bool = ...,
    decay: float = ...,
    skip: str | Sequence[str] = ...,
    classes: Mapping[str, Mapping[str, Any]] = ...,
) -> Ranges: ...
def add(
    graph: Graph,
    *,
    training: bool = ...,
    activations: _Scales = ...,
    weights: _Scales = ...,
    ste: Literal["clipped_identity", "identity"] = ...,
    symmetric: bool = ...,
    decay: float = ...,
    skip: str | Sequence[str] = ...,
    classes: Mapping[str, Mapping[str, Any]] = ...,
) -> Quantization: ...
def export(graph: Graph, params: _Params, *, session: _DeviceSession | None = ...) -> Int8Model: ...
