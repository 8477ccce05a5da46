"""Models from their folders: tokenizers, chat templates, and sentences to vectors.

    encoder = rlx.models.SentenceEncoder("all-MiniLM-L6-v2")
    vectors = encoder.embed(["A cat sleeps.", "Rain is expected."])        # Array, float32 (2, 384)

    tokenizer = rlx.models.Tokenizer("all-MiniLM-L6-v2")
    tokenizer.encode("A cat sleeps.").tokens                               # ["[CLS]", "a", "cat", ...]

    chat = rlx.models.ChatTemplate("Qwen3-0.6B")
    chat.apply([{"role": "user", "content": "Hello."}], add_generation_prompt=True)

A folder is one as the packages `transformers` and `sentence_transformers` have it: config.json, tokenizer.json (or vocab.txt),
model.safetensors.
"""

import calendar
import ctypes
import json
import weakref
from ctypes import byref, c_char_p, c_int32, c_size_t, c_void_p, string_at

import numpy as np

from . import _graph
from ._array import as_array
from ._attributes import Word, text_of
from ._native import Buffer, EncoderOptions, Error, at_user_line, check, lib, owned_sized_text, owned_text, path_bytes
from .train import _array_of, _Tensors

_KINDS = ("ids", "type_ids", "attention_mask", "special_tokens_mask", "words")


def _token(handle, index, place):
    """The text of a token, which may hold NULs."""
    size = c_size_t()
    text = lib.rlx_encodings_token(handle, index, place, byref(size))
    return string_at(text, size.value).decode(errors="replace")


class Encoding:
    """The tokens of a text, or of two, and what is known about each.

    tokens               their texts
    ids                  int32 (n,)
    type_ids             which of the texts, as the model was trained with it
    attention_mask       1, or 0 for padding
    special_tokens_mask  1 for what the text did not have: [CLS], [SEP], padding
    words                the number of the word that the token is part of; -1 for special tokens
    byte_offsets         int64 (n, 2): where in its text, as UTF-8, the token begins and ends: text.encode()[begin:end]
    overflowing          what truncation cut off, as Encodings; only with `keep_overflow`
    """

    __slots__ = ("tokens", *_KINDS, "byte_offsets", "overflowing")

    def __init__(self, handle, index):
        for what in (*_KINDS, "offsets"):
            tensor = c_void_p()
            check(lib.rlx_encodings_tensor, handle, index, what.encode(), byref(tensor))
            setattr(self, "byte_offsets" if what == "offsets" else what, np.asarray(_array_of(tensor)))
        self.tokens = [_token(handle, index, i) for i in range(len(self.ids))]
        overflow = c_void_p()
        check(lib.rlx_encodings_overflow, handle, index, byref(overflow))
        self.overflowing = _encodings(overflow)

    def __len__(self):
        return len(self.ids)

    def __repr__(self):
        return f"Encoding({self.tokens})"


def _encodings(handle):
    """All of a C handle, which is freed."""
    try:
        return [Encoding(handle, i) for i in range(lib.rlx_encodings_count(handle))]
    finally:
        lib.rlx_encodings_free(handle)


def _buffers(texts, what):
    """Texts for C, which must live as long as the result."""
    if isinstance(texts, str) or not all(isinstance(t, str) for t in texts):
        raise TypeError(at_user_line(f"{what} are a list of strings, got {texts!r:.60}"))
    data = [t.encode(errors="surrogatepass") for t in texts]
    buffers = (Buffer * max(1, len(data)))()
    for i, d in enumerate(data):
        buffers[i].data, buffers[i].size = ctypes.cast(c_char_p(d), c_void_p), len(d)
    return buffers, data


def ids_row(ids):
    """Token ids for C, and how many."""
    ids = np.asarray(ids)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise TypeError(at_user_line(f"ids are integers in one row, got {ids.dtype} {ids.shape}"))
    if ids.size and (ids.min() < -2**31 or ids.max() >= 2**31):
        raise Error(at_user_line(f"ids are numbers of 32 bits, got {ids.min()} to {ids.max()}"))
    return (c_int32 * max(1, len(ids)))(*ids.tolist()), len(ids)


class Tokenizer:
    """Text to token ids and back, as the package `tokenizers` does it: a `tokenizer.json` gives the same ids here. Models: BPE,
    Unigram, WordLevel, WordPiece.

    `path` is a tokenizer.json or a vocab.txt, or a folder that holds one; or a GGUF file, whose metadata are read as llama.cpp
    reads them.
    """

    def __init__(self, path, *, _handle=None):
        self._handle = _handle or c_void_p()
        if _handle is None:
            check(lib.rlx_tokenizer_load, path_bytes(path), byref(self._handle))
        self._finalizer = weakref.finalize(self, lib.rlx_tokenizer_free, self._handle)
        self._special_as_text = False

    def encode(self, text, pair=None, add_special_tokens=True):
        """The `Encoding` of a text, or of two that belong together."""
        texts = [text] if pair is None else [text, pair]
        return self._encode(texts, pair is not None, add_special_tokens)[0]

    def encode_batch(self, texts, add_special_tokens=True):
        """A list of `Encoding`s; with padding all have the same length."""
        return self._encode(list(texts) if not isinstance(texts, str) else texts, False, add_special_tokens)

    def decode(self, ids, skip_special_tokens=True):
        """Text that reads like what was encoded, as far as the tokens still tell."""
        row, count = ids_row(ids)
        return owned_sized_text(lib.rlx_tokenizer_decode, self._handle, row, count, int(bool(skip_special_tokens)))

    def decode_stream(self, skip_special_tokens=True):
        """A `DecodeStream`: text from ids as they come."""
        return DecodeStream(self, skip_special_tokens)

    @property
    def encode_special_tokens(self):
        """Whether the text of a special token in what is encoded ("<|im_end|>") is text like any other; False until it is set."""
        return self._special_as_text

    @encode_special_tokens.setter
    def encode_special_tokens(self, as_text):
        check(lib.rlx_tokenizer_set_encode_special_tokens, self._handle, int(bool(as_text)))
        self._special_as_text = bool(as_text)

    @property
    def vocab_size(self):
        """The number of tokens, added ones included."""
        return self._described()["vocab_size"]

    def token_to_id(self, token):
        """The id of a token; None if there is none."""
        number = c_int32()
        check(lib.rlx_tokenizer_token_to_id, self._handle, token.encode(), byref(number))
        return None if number.value < 0 else number.value

    def id_to_token(self, number):
        """The token of an id; None if there is none."""
        try:
            return owned_sized_text(lib.rlx_tokenizer_id_to_token, self._handle, number)
        except Error as error:
            if error.status != "not_found":
                raise
            return None

    @property
    def truncation(self):
        """The settings as a dict, at first those of the file; None if nothing is cut off."""
        return self._described()["truncation"]

    def enable_truncation(self, max_length, strategy="longest_first", side="right", keep_overflow=False, stride=0):
        """Limits encodings to `max_length` tokens, special ones included. `strategy` says which of two texts tokens are taken from:
        "longest_first", "only_first", "only_second"; `side` where: "right", "left". With `keep_overflow` what is cut off comes as
        further encodings, neighbours of which agree in `stride` tokens."""
        self._set(dict(max_length=int(max_length), strategy=Word(strategy), side=Word(side), keep_overflow=bool(keep_overflow),
                       stride=int(stride)), None)

    def no_truncation(self):
        self._set({}, None)

    @property
    def padding(self):
        """The settings as a dict, at first those of the file; None if nothing is added."""
        return self._described()["padding"]

    def enable_padding(self, length=None, pad_to_multiple_of=0, side="right", id=0, type_id=0, token="[PAD]"):
        """Makes encodings `length` tokens long, without it as long as the longest of a batch, and then a multiple of
        `pad_to_multiple_of`."""
        self._set(None, dict(length=None if length is None else int(length), pad_to_multiple_of=int(pad_to_multiple_of), side=Word(side),
                             id=int(id), type_id=int(type_id), token=token))

    def no_padding(self):
        self._set(None, {})

    def _set(self, truncation, padding):
        text = lambda settings: None if settings is None else text_of(settings).encode() if settings else b""
        check(lib.rlx_tokenizer_set, self._handle, text(truncation), text(padding))

    def _described(self):
        text = c_char_p()
        check(lib.rlx_tokenizer_describe, self._handle, byref(text))
        return json.loads(text.value)

    def _encode(self, texts, pair, add_special_tokens):
        buffers, _kept = _buffers(texts, "texts")
        made = c_void_p()
        check(lib.rlx_tokenizer_encode, self._handle, buffers, len(texts), int(pair), int(bool(add_special_tokens)), byref(made))
        return _encodings(made)


class DecodeStream:
    """Text from ids as they come, in pieces that are whole characters; together they are what `Tokenizer.decode` makes of all."""

    def __init__(self, tokenizer, skip_special_tokens=True):
        self._handle = c_void_p()
        check(lib.rlx_decode_stream_new, tokenizer._handle, int(bool(skip_special_tokens)), byref(self._handle))
        self._finalizer = weakref.finalize(self, lib.rlx_decode_stream_free, self._handle)

    def put(self, id):
        """What the token adds; often nothing yet."""
        return owned_sized_text(lib.rlx_decode_stream_put, self._handle, int(id))

    def finish(self):
        """What still waits, with U+FFFD for what was not completed; the stream begins anew."""
        return owned_sized_text(lib.rlx_decode_stream_finish, self._handle)


class ChatTemplate:
    """A model's chat template: Jinja that makes of a conversation the text that the model goes on with, as `transformers` applies it.

        chat = rlx.models.ChatTemplate("Qwen3-0.6B")
        prompt = chat.apply([{"role": "user", "content": "Hello."}], add_generation_prompt=True)

    `path` is a model folder, its chat_template.jinja, chat_template.json or tokenizer_config.json, or a GGUF file.
    """

    def __init__(self, path, *, _handle=None):
        self._handle = _handle or c_void_p()
        if _handle is None:
            check(lib.rlx_chat_template_load, path_bytes(path), byref(self._handle))
        self._finalizer = weakref.finalize(self, lib.rlx_chat_template_free, self._handle)

    @classmethod
    def from_text(cls, text):
        """The template that `text` is. Fails, as "parse" and with the line, where it is none."""
        handle, data = c_void_p(), text.encode(errors="surrogatepass")
        check(lib.rlx_chat_template_parse, data, len(data), byref(handle))
        return cls(None, _handle=handle)

    @property
    def text(self):
        """The template itself."""
        return self._described()["text"]

    @property
    def bos_token(self):
        """The token by this name in the file that the template came from; "" if there is none."""
        return self._described()["bos_token"]

    @property
    def eos_token(self):
        return self._described()["eos_token"]

    def apply(self, messages, *, add_generation_prompt=False, bos_token=None, eos_token=None, tools=None, documents=None, now=None,
              most_steps=None, most_bytes=None, **variables):
        """The conversation as text.

        messages               a list of dicts, as JSON can hold them: {"role": "user", "content": "Hello."}
        add_generation_prompt  whether the text ends with what begins the assistant's answer
        bos_token, eos_token   those of the file where they are not given
        tools, documents       lists of dicts: function schemas, texts to answer from
        now                    a `datetime` for `strftime_now`; its zone does not count
        most_steps, most_bytes what the template may take: 20,000,000 steps, and 2**28 bytes of values with 100 for each of the conversation
        variables              whatever else the template knows: enable_thinking=False

        Fails as "invalid_argument" if the template refuses the conversation, and as "out_of_memory" if it takes more than it may.
        """
        settings = {"add_generation_prompt": bool(add_generation_prompt), "bos_token": bos_token, "eos_token": eos_token, "tools": tools,
                    "documents": documents, "variables": variables, "most_steps": most_steps, "most_bytes": most_bytes}
        if now is not None:
            settings["now"] = calendar.timegm(now.timetuple())
        return owned_sized_text(lib.rlx_chat_template_apply, self._handle, _json(list(messages)), _json(settings))

    def _described(self):
        return json.loads(owned_text(lib.rlx_chat_template_describe, self._handle))


def _json(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode(errors="replace")


class SentenceEncoder:
    """Sentences to vectors: tokenizer, BERT or ModernBERT and weights from a model folder. Its modules.json says what makes a vector of the
    tokens, and whether its norm is 1; without one it is the mean over the tokens, with norm 1.

    device, threads   as of an `rlx.Session`
    most_tokens       of one batch, padding included (8192)
    options           those of `rlx.Session.compile`
    """

    def __init__(self, folder, *, device="", threads=None, most_tokens=0, **options):
        self._handle = c_void_p()
        settings = EncoderOptions(ctypes.sizeof(EncoderOptions), _graph.default_threads() if threads is None else threads, most_tokens)
        check(lib.rlx_encoder_load, path_bytes(folder), str(device).encode(), byref(settings),
              byref(_graph.compile_options(**options)), byref(self._handle))
        self._finalizer = weakref.finalize(self, lib.rlx_encoder_free, self._handle)

    def embed(self, sentences):
        """One row for each sentence, in their order: an Array, float32 (n, width)."""
        buffers, _kept = _buffers(sentences, "sentences")
        made = c_void_p()
        check(lib.rlx_encoder_embed, self._handle, buffers, len(sentences), byref(made))
        return _array_of(made)

    def embed_ids(self, ids, mask):
        """The same of token ids (B, S), and of a mask that is 1 where there is a token."""
        named = [(n, as_array(x, "i64")._elements()) for n, x in (("ids", ids), ("mask", mask))]
        made = c_void_p()
        with _Tensors(named) as given:
            check(lib.rlx_encoder_embed_ids, self._handle, given.handles[0], given.handles[1], byref(made))
        return _array_of(made)

    @property
    def width(self):
        """The number of elements of a vector."""
        return lib.rlx_encoder_width(self._handle)

    @property
    def tokenizer(self):
        """A `Tokenizer` with the settings by which sentences are encoded: a copy, whose settings may be changed."""
        handle = c_void_p()
        check(lib.rlx_encoder_tokenizer, self._handle, byref(handle))
        return Tokenizer(None, _handle=handle)

    def report(self):
        """Where each node of the encoder runs, and why there: a dictionary."""
        return json.loads(owned_text(lib.rlx_encoder_report, self._handle))
