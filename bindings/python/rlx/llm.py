"""Language models from their files: logits, and text.

    model = rlx.llm.load("Qwen3-0.6B")                                     # a folder, or a .gguf file
    model.generate("The capital of France is", max_tokens=20, temperature=0)
    model.chat([{"role": "user", "content": "Hello."}], seed=7)
    for piece in model.stream("Once upon a time", stop=["The end."]):
        print(piece, end="", flush=True)

    sequence = model.sequence()
    sequence.logits(model.encode("Once upon a"))                           # Array, float32 (vocabulary,)

    rlx.llm.to_gguf("Qwen3-0.6B", "qwen3-q8_0.gguf", quantize="q8_0")      # a file that llama.cpp reads
    rlx.llm.to_folder("qwen3-q8_0.gguf", "Qwen3", dequantize="bf16")       # a folder that transformers reads

docs/language_models.md lists which models there are, docs/generation.md explains how a token is drawn. A model may be used by several
threads at once; what is asked of one `Sequence` or `Generator` happens one after another.
"""

import ctypes
import json
import operator
import os
import threading
import weakref
from collections.abc import Mapping
from ctypes import byref, c_char_p, c_double, c_int32, c_size_t, c_void_p
from dataclasses import dataclass

import numpy as np

from . import _graph
from ._array import as_array
from ._attributes import text_of
from ._native import Error, LanguageModelOptions, at_user_line, check, lib, owned_text, path_bytes
from .models import ChatTemplate, Tokenizer, ids_row
from .train import _array_of

_PLACES = ("mapped", "copied")


@dataclass(frozen=True)
class Config:
    """What a model is, by its files. Sizes are numbers of elements.

    architecture      as the file calls it: "llama", "qwen3", "gemma2"
    vocabulary        tokens that logits are of
    hidden, layers, heads, kv_heads, head_dim, intermediate
    experts           of a mixture; 0 if there is none
    window            of layers that see a window alone; 0 if there are none
    promised_context  the most positions that the model was made for
    """

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


def load(path, device=None, threads=None, context=0, *, chunk=0, cache="f32", access="mapped", adapters=(), **options):
    """The `LanguageModel` of a folder with config.json and safetensors, or of a .gguf file.

    device, threads  as of an `rlx.Session`
    context          the most tokens of a sequence; 0: what the model promises
    chunk            tokens that run at once while a longer text is read; 0: 512. Memory grows with it, not with the text
    cache            of keys and values: "f32", or "f16" or "bf16", which take half the memory and round them, or blocks
                     of "q8_0" or "q4_0", which take 34/128 and 18/128 of it and want heads of a multiple of 32
    access           "mapped": weights are read from the file's own pages, so nobody may write it meanwhile; "copied"
    adapters         low-rank adapters (LoRA) that stand beside the products: a path, or several, or a dict of what each is multiplied by. A
                     folder that PEFT saved for a folder, a .gguf file of llama.cpp's for a .gguf file
    options          those of `rlx.Session.compile`

    Fails as "not_found" where nothing lies there, as "unsupported" for an architecture that is not built, and, naming the tensor, for one
    that is missing, of another shape, or of no use.
    """
    if access not in _PLACES:
        raise Error(at_user_line(f"access is {access!r}; it is one of {', '.join(_PLACES)}"))
    if isinstance(adapters, (str, os.PathLike)):
        adapters = [adapters]
    scales = [float(s) for s in adapters.values()] if isinstance(adapters, Mapping) else [1.0] * len(adapters)
    paths = (c_char_p * len(scales))(*[path_bytes(p) for p in adapters])
    settings = LanguageModelOptions(ctypes.sizeof(LanguageModelOptions), _graph.default_threads() if threads is None else threads,
                                    int(access == "copied"), context, chunk, str(cache).encode(),
                                    paths, (c_double * len(scales))(*scales), len(scales))
    handle = c_void_p()
    check(lib.rlx_language_model_load, path_bytes(path), str(device or "").encode(), byref(settings),
          byref(_graph.compile_options(**options)), byref(handle))
    return LanguageModel(handle)


@dataclass(frozen=True)
class Converted:
    """What `to_gguf` and `to_folder` wrote: how many tensors, their bytes, and what could not be carried over, a tuple of sentences."""

    tensors: int
    bytes: int
    notes: tuple


def to_gguf(folder, path, *, quantize=None, dequantize=None, most_file_bytes=0):
    """Writes the Hugging Face folder of a language model as a GGUF file, with its tokenizer, as llama.cpp's converter does. One tensor after
    the other is read and written, so that memory is taken for the largest of them alone. A `Converted`.

    quantize         what matrices of floats become: "q8_0", "q4_0" ...; None: they keep their dtype
    dequantize       what packed matrices (GPTQ, AWQ, bitsandbytes, MLX) become, as numbers: "f32", "f16", "bf16". None: blocks with the
                     same numbers, or an error where there are none
    most_file_bytes  begins a new file X-00001-of-00002.gguf where one would have more bytes of tensors; 0: all in one

    Fails as "unsupported", naming the key, the tensor or the part of the tokenizer, for what GGUF has no word for.
    """
    return _converted(lib.rlx_language_model_to_gguf, folder, path, quantize=quantize, dequantize=dequantize, most_file_bytes=most_file_bytes)


def to_folder(path, folder, *, dequantize=None, most_file_bytes=0):
    """Writes a GGUF file as a Hugging Face folder, which must not be there or be empty: as `to_gguf`, the other way round. A `Converted`.

    dequantize       what blocks become: "f32", "f16", "bf16". None: what mlx-lm packs, with the same numbers, or an error
    most_file_bytes  begins a new file model-00001-of-00002.safetensors, with an index beside them; 0: all in model.safetensors
    """
    return _converted(lib.rlx_language_model_to_folder, path, folder, dequantize=dequantize, most_file_bytes=most_file_bytes)


def _converted(function, source, target, **options):
    given = {name: str(value) if isinstance(value, str) else operator.index(value) for name, value in options.items() if value is not None}
    about = json.loads(owned_text(function, path_bytes(source), path_bytes(target), text_of(given).encode(errors="replace")))
    return Converted(about["tensors"], about["bytes"], tuple(about["notes"]))


class LanguageModel:
    """A decoder of text with its weights; `load` makes it. See the module."""

    def __init__(self, handle):
        self._handle = handle
        self._finalizer = weakref.finalize(self, lib.rlx_language_model_free, handle)
        facts = json.loads(owned_text(lib.rlx_language_model_describe, handle))
        self._facts = {name: facts.pop(name) for name in ("context", "bos_id", "stop_ids", "advice")}
        self._config = Config(**facts)

    def __repr__(self):
        c = self._config
        return f"LanguageModel({c.architecture}, {c.layers} layers, hidden {c.hidden}, vocabulary {c.vocabulary}, context {self.context})"

    @property
    def config(self):
        """What the model is: a `Config`."""
        return self._config

    @property
    def context(self):
        """The most tokens of a sequence."""
        return self._facts["context"]

    @property
    def bos_id(self):
        """The token with which a text begins that has no tokens; None if there is none. Tokenizers put it where the model wants it."""
        return self._facts["bos_id"]

    @property
    def stop_ids(self):
        """Tokens of which each ends an answer, as a tuple."""
        return tuple(self._facts["stop_ids"])

    @property
    def advice(self):
        """What the model's files advise of temperature, top_k, top_p, min_p and repetition_penalty: a dict of those that they name."""
        return {name: value for name, value in self._facts["advice"].items() if value is not None}

    @property
    def tokenizer(self):
        """Its `rlx.models.Tokenizer`: a copy, whose settings may be changed. Fails as "not_found" if the model has none."""
        return Tokenizer(None, _handle=self._made(lib.rlx_language_model_tokenizer))

    @property
    def chat_template(self):
        """Its `rlx.models.ChatTemplate`; None if the model has none."""
        try:
            return ChatTemplate(None, _handle=self._made(lib.rlx_language_model_chat_template))
        except Error as error:
            if error.status != "not_found":
                raise
            return None

    def encode(self, text, plain=False):
        """The tokens of a prompt: int32 (n,). Special tokens are added as the tokenizer adds them, and the text of one ("<|im_end|>") is
        that token; with `plain` neither. A text of no tokens gives `bos_id`; "invalid_argument" if there is none."""
        return self._encode(text, 1 if plain else 0)

    def chat_prompt(self, messages, *, template=None, tools=None, documents=None, variables=None):
        """The tokens of a conversation up to where the model's answer begins: int32 (n,).

        messages          a list of dicts: {"role": "user", "content": "Hello."}
        template          a `ChatTemplate` or its text, instead of the model's own
        tools, documents  lists of dicts: function schemas, texts to answer from
        variables         a dict of what else the template knows: {"enable_thinking": False}

        Fails as "not_found" if there is no template, and as "invalid_argument" if it refuses the conversation.
        """
        chat, tokens = template, {}
        if template is None:
            chat = self.chat_template
            if chat is None:
                raise Error(at_user_line("the model has no chat template; give `template`, or use `generate`, which needs none"), "not_found")
        else:
            chat = ChatTemplate.from_text(template) if isinstance(template, str) else template
            name = lambda number: None if number is None else self.tokenizer.id_to_token(number)
            tokens = {"bos_token": name(self.bos_id), "eos_token": name(self.stop_ids[0] if self.stop_ids else None)}
        return self._encode(chat.apply(messages, add_generation_prompt=True, tools=tools, documents=documents, **tokens, **(variables or {})), 2)

    def logits(self, ids):
        """The logits of what follows each of the tokens, of a sequence of its own: an Array, float32 (n, vocabulary). `ids` are integers
        (n,), at least one. Fails for a token that is not in the vocabulary, and for more than the context holds."""
        return _logits(lib.rlx_language_model_all_logits, self._handle, ids)

    def sequence(self):
        """A `Sequence` without tokens."""
        return Sequence(self._made(lib.rlx_sequence_new))

    def generator(self, **settings):
        """A `Generator`, which keeps what it read: the next prompt that begins as the last one and its text is read from there on.
        `settings` as of `generate`."""
        return Generator(self, **settings)

    def generate(self, prompt, *, plain=False, **settings):
        """The text, a str, with which the model goes on behind a prompt: a text, which `encode` makes tokens of, or token ids.

        max_tokens          of the text, at most (512)
        temperature         divides the logits; 0 takes the likeliest token (1)
        top_k               draws from so many of the likeliest; 0 from all (0)
        top_p               draws from the likeliest that have this probability together (1)
        min_p               draws from tokens at least so likely as a share of the likeliest (0)
        typical_p           draws from the most typical ones with this probability (1)
        repetition_penalty  divides the positive logits of tokens that were there, and multiplies the others (1)
        presence_penalty, frequency_penalty
                            taken from the logits of tokens that were written: once, and for each time (0)
        logit_bias          {token: number} added to its logit
        seed                of the random numbers: the same one gives the same text (0)
        stop                texts, or one, that end the text before themselves

        What is not given is as the model's files advise (`advice`), else as here in brackets. The text ends with a token of `stop_ids`
        too, and where the context is full. Fails as "invalid_argument" for settings that mean nothing, for a prompt of no tokens, and for one
        that leaves no room in the context; as "not_found" if the model has no tokenizer.
        """
        return Generator(self, **settings).generate(prompt, plain=plain)

    def stream(self, prompt, *, plain=False, **settings):
        """The same as an iterator of pieces, each a str of whole characters and none empty, as they come."""
        return Generator(self, **settings).stream(prompt, plain=plain)

    def chat(self, messages, *, template=None, tools=None, documents=None, variables=None, **settings):
        """The model's answer to a conversation, a str. What makes the prompt is told of at `chat_prompt`, `settings` at `generate`.
        For pieces as they come: `model.stream(model.chat_prompt(messages))`."""
        how = {"template": template, "tools": tools, "documents": documents, "variables": variables}
        return Generator(self, **settings).chat(messages, **how)

    def report(self):
        """Where each node of the model runs, and why there: a dictionary."""
        return json.loads(owned_text(lib.rlx_language_model_report, self._handle))

    def _made(self, function):
        handle = c_void_p()
        check(function, self._handle, byref(handle))
        return handle

    def _encode(self, text, kind):
        if not isinstance(text, str):
            raise TypeError(at_user_line(f"a prompt is a text or token ids, got {text!r:.60}"))
        data, made = text.encode(errors="surrogatepass"), c_void_p()
        check(lib.rlx_language_model_prompt, self._handle, data, len(data), kind, byref(made))
        return np.asarray(_array_of(made))


class Sequence:
    """A sequence of tokens and what the model keeps of it; `LanguageModel.sequence` makes it. `len` is the number of its tokens. If a call
    fails, it is as long as before."""

    def __init__(self, handle):
        self._handle, self._lock = handle, threading.Lock()
        self._finalizer = weakref.finalize(self, lib.rlx_sequence_free, handle)

    def __len__(self):
        with self._lock:
            return lib.rlx_sequence_position(self._handle)

    def logits(self, ids):
        """Appends tokens, integers (n,), at least one, or a single one; the logits of what follows the last: an Array, float32
        (vocabulary,). Fails for a token that is not in the vocabulary, and for more than the context holds."""
        with self._lock:
            return _logits(lib.rlx_sequence_logits, self._handle, ids)

    def all_logits(self, ids):
        """The same with what follows each of them: float32 (n, vocabulary)."""
        with self._lock:
            return _logits(lib.rlx_sequence_all_logits, self._handle, ids)

    def rewind(self, count):
        """Takes the last `count` tokens back. Fails if there are fewer. A model with recurrent layers (Mamba, Qwen3-Next) reads what is left
        again with the next call."""
        with self._lock:
            check(lib.rlx_sequence_rewind, self._handle, count)

    def copy(self):
        """An independent sequence with the same tokens. The memory is shared until one of the two goes on."""
        handle = c_void_p()
        with self._lock:
            check(lib.rlx_sequence_copy, self._handle, byref(handle))
        return Sequence(handle)

    __copy__ = copy

    @property
    def memory_bytes(self):
        """Bytes that the model keeps for it."""
        with self._lock:
            return lib.rlx_sequence_memory_bytes(self._handle)


class Sampler:
    """Draws tokens from logits, and remembers them for the penalties. The settings are those of `LanguageModel.generate` but for
    max_tokens and stop; what is not given is as there in brackets."""

    def __init__(self, *, temperature=None, top_k=None, top_p=None, min_p=None, typical_p=None, repetition_penalty=None,
                 presence_penalty=None, frequency_penalty=None, logit_bias=None, seed=None):
        self._handle, self._lock = c_void_p(), threading.Lock()
        text = _settings(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, typical_p=typical_p,
                         repetition_penalty=repetition_penalty, presence_penalty=presence_penalty, frequency_penalty=frequency_penalty,
                         logit_bias=logit_bias, seed=seed)
        check(lib.rlx_sampler_new, text, byref(self._handle))
        self._finalizer = weakref.finalize(self, lib.rlx_sampler_free, self._handle)

    def see(self, ids):
        """Tokens that the model was given: `repetition_penalty` counts them."""
        row, count = ids_row(ids)
        with self._lock:
            check(lib.rlx_sampler_see, self._handle, row, count)

    def sample(self, logits):
        """The next token, an int, of logits (vocabulary,). Fails for NaN, for +inf, and if all are -inf."""
        row, token = _floats(logits), c_int32()
        with self._lock:
            check(lib.rlx_sampler_sample, self._handle, row.ctypes.data, len(row), byref(token))
        return token.value

    def chances(self, logits):
        """What `sample` would draw from, the likeliest first: ids, int32 (m,), and probabilities, float64 (m,). Nothing is drawn."""
        row, made = _floats(logits), c_size_t()
        ids, probabilities = np.empty(len(row), np.int32), np.empty(len(row), np.float64)
        with self._lock:
            check(lib.rlx_sampler_chances, self._handle, row.ctypes.data, len(row), ids.ctypes.data, probabilities.ctypes.data, len(row),
                  byref(made))
        return ids[: made.value].copy(), probabilities[: made.value].copy()

    def reset(self):
        """As it was made: nothing seen or drawn, the random numbers from the beginning."""
        with self._lock:
            check(lib.rlx_sampler_reset, self._handle)


class Generator:
    """Goes on with texts, one at a time: `LanguageModel.generator` makes it. Of a prompt that begins as the last one and its text, only
    the rest is read, so that a conversation is not read again with each turn."""

    def __init__(self, model, *, max_tokens=None, temperature=None, top_k=None, top_p=None, min_p=None, typical_p=None,
                 repetition_penalty=None, presence_penalty=None, frequency_penalty=None, logit_bias=None, seed=None, stop=()):
        self.model = model
        self._handle, self._lock, self._round = c_void_p(), threading.Lock(), 0
        text = _settings(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, typical_p=typical_p,
                         repetition_penalty=repetition_penalty, presence_penalty=presence_penalty, frequency_penalty=frequency_penalty,
                         logit_bias=logit_bias, seed=seed, max_tokens=max_tokens, stop=_stops(stop))
        check(lib.rlx_generator_new, model._handle, text, byref(self._handle))
        self._finalizer = weakref.finalize(self, lib.rlx_generator_free, self._handle)

    def generate(self, prompt, *, plain=False):
        """As `LanguageModel.generate`."""
        return "".join(self.stream(prompt, plain=plain))

    def stream(self, prompt, *, plain=False):
        """As `LanguageModel.stream`: the prompt is read now, the text is written as it is asked for. The iterator of an earlier text fails
        from then on."""
        ids = self.model.encode(prompt, plain) if isinstance(prompt, str) else prompt
        row, count = ids_row(ids)
        with self._lock:
            self._round += 1
            check(lib.rlx_generator_begin, self._handle, row, count)
            return self._pieces(self._round)

    def chat(self, messages, **how):
        """As `LanguageModel.chat`; `how` is told of at `LanguageModel.chat_prompt`."""
        return self.generate(self.model.chat_prompt(messages, **how))

    @property
    def tokens(self):
        """What was drawn of the last text, a list of ids: with the token that ended it, if it was one."""
        return self._described()["tokens"]

    @property
    def finish(self):
        """What ended the last text: "end" (a token of `stop_ids`), "stop" (a stop text), "length" (max_tokens), "context" (which is full);
        None until it has ended."""
        return self._described()["finish"]

    @property
    def read_tokens(self):
        """How many tokens of the last prompt had to be read."""
        return self._described()["read_tokens"]

    def reset(self):
        """Forgets what was seen and drawn, for the penalties; the random numbers begin anew."""
        with self._lock:
            check(lib.rlx_generator_reset, self._handle)

    def _pieces(self, number):
        while True:
            text, size = c_void_p(), c_size_t()
            with self._lock:
                if number != self._round:
                    raise Error(at_user_line("another text was begun by this generator; the first one cannot go on"))
                check(lib.rlx_generator_next, self._handle, byref(text), byref(size))
            if not text:
                return
            try:
                piece = ctypes.string_at(text, size.value).decode()
            finally:
                lib.rlx_text_free(text)
            yield piece

    def _described(self):
        with self._lock:
            return json.loads(owned_text(lib.rlx_generator_describe, self._handle))


def _logits(function, handle, ids):
    row, count = ids_row(np.reshape(ids, 1) if np.ndim(ids) == 0 else ids)
    made = c_void_p()
    check(function, handle, row, count, byref(made))
    return _array_of(made)


def _floats(logits):
    row = np.ascontiguousarray(as_array(logits, "f32")._elements())
    if row.ndim != 1:
        raise Error(at_user_line(f"logits are one row, got {row.shape}"), "shape_mismatch")
    return row


def _stops(stop):
    stops = [stop] if isinstance(stop, str) else list(stop)
    for each in stops:
        if not isinstance(each, str):
            raise TypeError(at_user_line(f"stop is a text or a list of them, got {each!r:.60}"))
    return stops


def _settings(logit_bias=None, stop=(), **numbers):
    """Settings as C takes them; those that are None are left out."""
    whole = ("top_k", "seed", "max_tokens")
    made = {}
    for name, value in numbers.items():
        if value is None:
            continue
        if name in whole:
            try:
                value = operator.index(value)
            except TypeError:
                raise TypeError(at_user_line(f"{name} is an integer, got {value!r:.60}")) from None
            if not -2**63 <= value < 2**63:
                raise Error(at_user_line(f"{name} is {value}; it has 63 bits"))
            made[name] = value
        else:
            try:
                made[name] = float(value)
            except (TypeError, ValueError):
                raise TypeError(at_user_line(f"{name} is a number, got {value!r:.60}")) from None
    if logit_bias:
        made["biased_ids"] = ids_row(list(logit_bias))[0][:]
        made["biases"] = [float(v) for v in logit_bias.values()]
    if stop:
        made["stop"] = stop
    return text_of(made).encode(errors="replace")
