from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from os import PathLike
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ._array import Array
from ._typing import ArrayLike

_Accuracy = Literal["f32", "exact", "row_relative"]
_Names = str | Sequence[str] | AbstractSet[str]
_Placement = Mapping[str, str] | Sequence[tuple[str, str]]
_Row = npt.NDArray[np.int32]
_Side = Literal["left", "right"]

class Encoding:
    tokens: list[str]
    ids: _Row
    type_ids: _Row
    attention_mask: _Row
    special_tokens_mask: _Row
    words: _Row
    byte_offsets: npt.NDArray[np.int64]
    overflowing: list[Encoding]
    def __len__(self) -> int: ...

class Tokenizer:
    def __init__(self, path: str | PathLike[str]) -> None: ...
    def encode(self, text: str, pair: str | None = ..., add_special_tokens: bool = ...) -> Encoding: ...
    def encode_batch(self, texts: Sequence[str], add_special_tokens: bool = ...) -> list[Encoding]: ...
    def decode(self, ids: ArrayLike, skip_special_tokens: bool = ...) -> str: ...
    def decode_stream(self, skip_special_tokens: bool = ...) -> DecodeStream: ...
    @property
    def encode_special_tokens(self) -> bool: ...
    @encode_special_tokens.setter
    def encode_special_tokens(self, as_text: bool) -> None: ...
    @property
    def vocab_size(self) -> int: ...
    def token_to_id(self, token: str) -> int | None: ...
    def id_to_token(self, number: int) -> str | None: ...
    @property
    def truncation(self) -> dict[str, Any] | None: ...
    def enable_truncation(
        self,
        max_length: int,
        strategy: Literal["longest_first", "only_first", "only_second"] = ...,
        side: _Side = ...,
        keep_overflow: bool = ...,
        stride: int = ...,
    ) -> None: ...
    def no_truncation(self) -> None: ...
    @property
    def padding(self) -> dict[str, Any] | None: ...
    def enable_padding(
        self, length: int | None = ..., pad_to_multiple_of: int = ..., side: _Side = ..., id: int = ..., type_id: int = ..., token: str = ...
    ) -> None: ...
    def no_padding(self) -> None: ...

class DecodeStream:
    def __init__(self, tokenizer: Tokenizer, skip_special_tokens: bool = ...) -> None: ...
    def put(self, id: int) -> str: ...
    def finish(self) -> str: ...

class ChatTemplate:
    def __init__(self, path: str | PathLike[str]) -> None: ...
    @classmethod
    def from_text(cls, text: str) -> ChatTemplate: ...
    @property
    def text(self) -> str: ...
    @property
    def bos_token(self) -> str: ...
    @property
    def eos_token(self) -> str: ...
    def apply(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = ...,
        bos_token: str | None = ...,
        eos_token: str | None = ...,
        tools: Sequence[Mapping[str, Any]] | None = ...,
        documents: Sequence[Mapping[str, Any]] | None = ...,
        now: datetime | None = ...,
        most_steps: int | None = ...,
        most_bytes: int | None = ...,
        **variables: Any,
    ) -> str: ...

class SentenceEncoder:
    def __init__(
        self,
        folder: str | PathLike[str],
        *,
        device: str = ...,
        threads: int | None = ...,
        most_tokens: int = ...,
        strict: bool = ...,
        accuracy: _Accuracy = ...,
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
    ) -> None: ...
    def embed(self, sentences: Sequence[str]) -> Array: ...
    def embed_ids(self, ids: ArrayLike, mask: ArrayLike) -> Array: ...
    @property
    def width(self) -> int: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    def report(self) -> dict[str, Any]: ...
