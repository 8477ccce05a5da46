# What the stubs of the package call the kinds of arguments.
from collections.abc import Sequence
from typing import Any, Protocol, Union

import numpy as np
from typing_extensions import TypeAlias

from ._array import Array

class SupportsDLPack(Protocol):
    def __dlpack__(self, *, stream: Any = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

Number: TypeAlias = Union[bool, int, float, complex]
# Anything that is or becomes an array: NumPy's, those of other packages through DLPack, numbers, nested lists of them.
ArrayLike: TypeAlias = Union[Array, np.ndarray[Any, Any], np.generic, SupportsDLPack, Number, Sequence[ArrayLike]]
DTypeLike: TypeAlias = Union[str, type[Any], np.dtype[Any]]
Dim: TypeAlias = Union[int, str]
Shape: TypeAlias = Union[Dim, Sequence[Dim]]
Axis: TypeAlias = Union[int, None]
Axes: TypeAlias = Union[int, Sequence[int], None]
# A tree of arrays: tuples, lists, dicts and named tuples of them, at any depth.
PyTree: TypeAlias = Any
