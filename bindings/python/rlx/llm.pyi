from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as _Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ._array import Array
from ._typing import ArrayLike
from .models import ChatTemplate, Tokenizer

_Names = str | _Sequence[str] | AbstractSet[str]
_Placement = Mapping[str, str] | _Sequence[tuple[str, str]]
_Row = npt.NDArray[np.int32]
_Messages = Iterable[Mapping[str, Any]]
_Objects = _Sequence[Mapping[str, Any]] | None
_Finish = Literal["end", "stop", "length", "context"]

@dataclass(frozen=True)
class Config:
    architecture: str
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    experts: int
    window: int
    promised_context: int

def load(
    path: str | PathLike[str],
    device: str | None = ...,
    threads: int | None = ...,
    context: int = ...,
    *,
    chunk: int = ...,
    cache: Literal["f32", "f16", "bf16"] = ...,
    access: Literal["mapped", "copied"] = ...,
    adapters: str | PathLike[str] | _Sequence[str | PathLike[str]] | Mapping[str, float] | Mapping[PathLike[str], float] = ...,
    strict: bool = ...,
    accuracy: Literal["f32", "exact", "row_relative"] = ...,
    batch_invariant: bool = ...,
    rounding: Literal["strict", "relaxed"] = ...,
    kernel_dispatch: Literal["native", "common"] = ...,
    mode: Literal["eager", "lazy", "aot"] = ...,
    force_common: _Names = ...,
    force_native: _Names = ...,
    skip_passes: _Names = ...,
    cache_dir: str | PathLike[str] | None = ...,
    compute: Literal["f32", "f16", "bf16", "int8", "auto"] = ...,
    fallback: _Names | None = ...,
    placement: _Placement = ...,
    isa: str = ...,
) -> LanguageModel: ...

class LanguageModel:
    def __init__(self, handle: Any) -> None: ...
    @property
    def config(self) -> Config: ...
    @property
    def context(self) -> int: ...
    @property
    def bos_id(self) -> int | None: ...
    @property
    def stop_ids(self) -> tuple[int, ...]: ...
    @property
    def advice(self) -> dict[str, float]: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def chat_template(self) -> ChatTemplate | None: ...
    def encode(self, text: str, plain: bool = ...) -> _Row: ...
    def chat_prompt(
        self,
        messages: _Messages,
        *,
        template: ChatTemplate | str | None = ...,
        tools: _Objects = ...,
        documents: _Objects = ...,
        variables: Mapping[str, Any] | None = ...,
    ) -> _Row: ...
    def logits(self, ids: ArrayLike) -> Array: ...
    def sequence(self) -> Sequence: ...
    def generator(
        self,
        *,
        max_tokens: int | None = ...,
        temperature: float | None = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        min_p: float | None = ...,
        typical_p: float | None = ...,
        repetition_penalty: float | None = ...,
        presence_penalty: float | None = ...,
        frequency_penalty: float | None = ...,
        logit_bias: Mapping[int, float] | None = ...,
        seed: int | None = ...,
        stop: str | Iterable[str] = ...,
    ) -> Generator: ...
    def generate(
        self,
        prompt: str | ArrayLike,
        *,
        plain: bool = ...,
        max_tokens: int | None = ...,
        temperature: float | None = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        min_p: float | None = ...,
        typical_p: float | None = ...,
        repetition_penalty: float | None = ...,
        presence_penalty: float | None = ...,
        frequency_penalty: float | None = ...,
        logit_bias: Mapping[int, float] | None = ...,
        seed: int | None = ...,
        stop: str | Iterable[str] = ...,
    ) -> str: ...
    def stream(
        self,
        prompt: str | ArrayLike,
        *,
        plain: bool = ...,
        max_tokens: int | None = ...,
        temperature: float | None = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        min_p: float | None = ...,
        typical_p: float | None = ...,
        repetition_penalty: float | None = ...,
        presence_penalty: float | None = ...,
        frequency_penalty: float | None = ...,
        logit_bias: Mapping[int, float] | None = ...,
        seed: int | None = ...,
        stop: str | Iterable[str] = ...,
    ) -> Iterator[str]: ...
    def chat(
        self,
        messages: _Messages,
        *,
        template: ChatTemplate | str | None = ...,
        tools: _Objects = ...,
        documents: _Objects = ...,
        variables: Mapping[str, Any] | None = ...,
        max_tokens: int | None = ...,
        temperature: float | None = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        min_p: float | None = ...,
        typical_p: float | None = ...,
        repetition_penalty: float | None = ...,
        presence_penalty: float | None = ...,
        frequency_penalty: float | None = ...,
        logit_bias: Mapping[int, float] | None = ...,
        seed: int | None = ...,
        stop: str | Iterable[str] = ...,
    ) -> str: ...
    def report(self) -> dict[str, Any]: ...

class Sequence:
    def __init__(self, handle: Any) -> None: ...
    def __len__(self) -> int: ...
    def logits(self, ids: ArrayLike) -> Array: ...
    def all_logits(self, ids: ArrayLike) -> Array: ...
    def rewind(self, count: int) -> None: ...
    def copy(self) -> Sequence: ...
    def __copy__(self) -> Sequence: ...
    @property
    def memory_bytes(self) -> int: ...

class Sampler:
    def __init__(
        self,
        *,
        temperature: float | None = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        min_p: float | None = ...,
        typical_p: float | None = ...,
        repetition_penalty: float | None = ...,
        presence_penalty: float | None = ...,
        frequency_penalty: float | None = ...,
        logit_bias: Mapping[int, float] | None = ...,
        seed: int | None = ...,
    ) -> None: ...
    def see(self, ids: ArrayLike) -> None: ...
    def sample(self, logits: ArrayLike) -> int: ...
    def chances(self, logits: ArrayLike) -> tuple[_Row, npt.NDArray[np.float64]]: ...
    def reset(self) -> None: ...

class Generator:
    model: LanguageModel
    def __init__(
        self,
        model: LanguageModel,
        *,
        max_tokens: int | None = ...,
        temperature: float | None = ...,
        top_k: int | None = ...,
        top_p: float | None = ...,
        min_p: float | None = ...,
        typical_p: float | None = ...,
        repetition_penalty: float | None = ...,
        presence_penalty: float | None = ...,
        frequency_penalty: float | None = ...,
        logit_bias: Mapping[int, float] | None = ...,
        seed: int | None = ...,
        stop: str | Iterable[str] = ...,
    ) -> None: ...
    def generate(self, prompt: str | ArrayLike, *, plain: bool = ...) -> str: ...
    def stream(self, prompt: str | ArrayLike, *, plain: bool = ...) -> Iterator[str]: ...
    def chat(
        self,
        messages: _Messages,
        *,
        template: ChatTemplate | str | None = ...,
        tools: _Objects = ...,
        documents: _Objects = ...,
        variables: Mapping[str, Any] | None = ...,
    ) -> str: ...
    @property
    def tokens(self) -> list[int]: ...
    @property
    def finish(self) -> _Finish | None: ...
    @property
    def read_tokens(self) -> int: ...
    def reset(self) -> None: ...
