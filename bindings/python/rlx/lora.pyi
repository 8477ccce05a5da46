from collections.abc import Mapping, Sequence
from os import PathLike
from typing import NamedTuple

from . import Graph
from ._array import Array
from ._typing import ArrayLike
from .train import Group

_Params = Mapping[str, ArrayLike]

class Module(NamedTuple):
    name: str
    weight: str
    a: str
    b: str
    inputs: int
    outputs: int

class Lora:
    graph: Graph
    scale: float
    modules: list[Module]
    groups: list[Group]
    def initial(self, seed: int = ...) -> dict[str, Array]: ...
    def load(self, folder: str | PathLike[str]) -> dict[str, Array]: ...
    def merge(self, params: _Params) -> dict[str, Array]: ...
    def save(self, folder: str | PathLike[str], params: _Params) -> None: ...

def add(graph: Graph, targets: str | Sequence[str], rank: int = ..., alpha: float = ...) -> Lora: ...
