import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, overload

import numpy as np

from . import Graph, Lowered, ShapeDtype
from ._typing import ArrayLike

class ComputeUnit(enum.Enum):
    ALL = 1
    CPU_AND_GPU = 2
    CPU_ONLY = 3
    CPU_AND_NE = 4

class _Descriptions:
    def __getitem__(self, name: str) -> str: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object) -> bool: ...

class MLState:
    def read_state(self, name: str) -> np.ndarray[Any, Any]: ...
    def write_state(self, name: str, value: ArrayLike) -> None: ...

class MLModel:
    compute_unit: Any
    package_path: str
    def __init__(
        self,
        model: str | PathLike[str],
        compute_units: Any = ...,
        function_name: str | None = ...,
        precision: str | None = ...,
        threads: int = ...,
        seed: int | None = ...,
        skip_model_load: bool = ...,
    ) -> None: ...
    def placement(self, compute_units: Any = ...) -> dict[str, Any]: ...
    @property
    def short_description(self) -> str: ...
    @property
    def author(self) -> str: ...
    @property
    def license(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def user_defined_metadata(self) -> dict[str, str]: ...
    @property
    def input_description(self) -> _Descriptions: ...
    @property
    def output_description(self) -> _Descriptions: ...
    @property
    def function_name(self) -> str: ...
    @property
    def functions(self) -> dict[str, tuple[str, dict[str, int]]]: ...
    def get_spec(self) -> Any: ...
    def save(self, save_path: str | PathLike[str]) -> None: ...
    def make_state(self) -> MLState: ...
    @overload
    def predict(self, data: Mapping[str, Any], state: MLState | None = ...) -> dict[str, Any]: ...
    @overload
    def predict(self, data: Sequence[Mapping[str, Any]], state: None = ...) -> list[dict[str, Any]]: ...

models: Any

def load(
    path: str | PathLike[str], function: str | None = ..., precision: str | None = ..., threads: int = ..., seed: int | None = ...
) -> MLModel: ...
def convert(
    source: Graph | Lowered | Callable[..., Any],
    path: str | PathLike[str],
    *args: ArrayLike | ShapeDtype,
    inputs: Sequence[str] | None = ...,
    outputs: Sequence[str] | None = ...,
    params: Mapping[str, ArrayLike] | None = ...,
    minimum_ios: int = ...,
    narrow: bool = ...,
    dims: Mapping[str, int] | None = ...,
    short_description: str = ...,
    author: str = ...,
    version: str = ...,
    license: str = ...,
    precision: Literal["f32", "f16", "mixed"] | None = ...,
    shapes: Mapping[str, tuple[int, int | None] | range | list[int]] | None = ...,
    states: Mapping[str, str] | None = ...,
    images: Mapping[str, str | Mapping[str, Any]] | None = ...,
    classes: Sequence[str] | None = ...,
    probabilities: str | None = ...,
    feature_descriptions: Mapping[str, str] | None = ...,
    nearest: bool = ...,
    native_random: bool = ...,
    weights: str | None = ...,
) -> str: ...
def check_model_size(
    source: Graph | Lowered | Callable[..., Any], *args: ArrayLike | ShapeDtype, params: Mapping[str, ArrayLike] | None = ..., **options: Any
) -> tuple[int, int]: ...
def chip_info() -> dict[str, Any]: ...
def ane_available() -> bool: ...
