"""Tokenizers and sentence encoders from Python: token ids by hand, vectors by BERT written out in NumPy in float64."""

import json
import math
import pathlib

import numpy as np
import pytest

import rlx
from conftest import close
from rlx import models

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "sleep", "##s", ".", "un", "##believ", "##able", "rain", "caf", "##e", "is"]
ID = {token: i for i, token in enumerate(TOKENS)}
HIDDEN, HEADS, LAYERS, WIDE, POSITIONS = 8, 2, 2, 12, 16
SENTENCES = ["A cat sleeps.", "", "Rain.", "unbelievable cats is rain is a cat. A cat sleeps. A cat sleeps."]


def weights():
    rng = np.random.default_rng(11)
    made = {}
    linear = lambda name, out, size: made.update({f"{name}.weight": rng.normal(size=(out, size)) / 2, f"{name}.bias": rng.normal(size=out) / 4})
    norm = lambda name: made.update({f"{name}.weight": 1 + rng.normal(size=HIDDEN) / 8, f"{name}.bias": rng.normal(size=HIDDEN) / 8})
    for name, rows in [("word", len(TOKENS)), ("position", POSITIONS), ("token_type", 2)]:
        made[f"embeddings.{name}_embeddings.weight"] = rng.normal(size=(rows, HIDDEN))
    norm("embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        for part in ("query", "key", "value"):
            linear(at + "attention.self." + part, HIDDEN, HIDDEN)
        linear(at + "attention.output.dense", HIDDEN, HIDDEN)
        linear(at + "intermediate.dense", WIDE, HIDDEN)
        linear(at + "output.dense", HIDDEN, WIDE)
        norm(at + "attention.output.LayerNorm")
        norm(at + "output.LayerNorm")
    return {n: v.astype("f4") for n, v in made.items()}


def bert(ids):
    """The vector of one sentence: Devlin et al. 2018, the mean over the tokens, with norm 1."""
    w = {n: v.astype("f8") for n, v in weights().items()}
    gelu = np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))))
    linear = lambda x, name: x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        centered = x - x.mean(-1, keepdims=True)
        return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-12) * w[name + ".weight"] + w[name + ".bias"]

    n = len(ids)
    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:n] + w["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        q, k, v = (linear(x, at + "attention.self." + p).reshape(n, HEADS, -1).transpose(1, 0, 2) for p in ("query", "key", "value"))
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(HIDDEN / HEADS)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (e / e.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, HIDDEN)
        x = norm(x + linear(mixed, at + "attention.output.dense"), at + "attention.output.LayerNorm")
        x = norm(x + linear(gelu(linear(x, at + "intermediate.dense")), at + "output.dense"), at + "output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    (path / "config.json").write_text(json.dumps(dict(
        model_type="bert", vocab_size=len(TOKENS), hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=WIDE,
        max_position_embeddings=POSITIONS, type_vocab_size=2, hidden_act="gelu", layer_norm_eps=1e-12)))
    (path / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    rlx.save(path / "model.safetensors", weights())
    return path


def ids_of(*words):
    return [ID[w] for w in words]


def test_a_tokenizer_says_all_that_it_knows_of_a_text(folder):
    tokenizer = models.Tokenizer(folder)
    assert tokenizer.vocab_size == len(TOKENS) and tokenizer.token_to_id("cat") == ID["cat"] and tokenizer.id_to_token(ID["##s"]) == "##s"
    assert tokenizer.token_to_id("dog") is None and tokenizer.id_to_token(99) is None
    text = "A Café sleeps, unbelievable."
    made = tokenizer.encode(text)
    words = ["[CLS]", "a", "caf", "##e", "sleep", "##s", "[UNK]", "un", "##believ", "##able", ".", "[SEP]"]
    assert made.tokens == words and made.ids.tolist() == ids_of(*words) and len(made) == 12
    assert made.attention_mask.tolist() == [1] * 12 and made.type_ids.tolist() == [0] * 12
    assert made.special_tokens_mask.tolist() == [1] + [0] * 10 + [1]
    assert made.words.tolist() == [-1, 0, 1, 1, 2, 2, 3, 4, 4, 4, 5, -1]
    pieces = [text.encode()[begin:end].decode() for begin, end in made.byte_offsets]
    assert pieces == ["", "A", "Caf", "é", "sleep", "s", ",", "un", "believ", "able", ".", ""]
    assert tokenizer.decode(made.ids) == "a cafe sleeps unbelievable." and tokenizer.decode([]) == ""
    assert tokenizer.encode(text, add_special_tokens=False).tokens == words[1:-1]
    pair = tokenizer.encode("A cat", "is rain")
    assert pair.tokens == ["[CLS]", "a", "cat", "[SEP]", "is", "rain", "[SEP]"] and pair.type_ids.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert tokenizer.encode("").tokens == ["[CLS]", "[SEP]"] and tokenizer.encode("a\0 cat").tokens[1:-1] == ["a", "cat"]


def test_truncation_and_padding(folder):
    tokenizer = models.Tokenizer(folder / "vocab.txt")
    tokenizer.enable_truncation(5, keep_overflow=True, stride=1)
    tokenizer.enable_padding(pad_to_multiple_of=4, side="left")
    assert tokenizer.truncation == dict(max_length=5, strategy="longest_first", side="right", keep_overflow=True, stride=1)
    assert tokenizer.padding == dict(length=None, pad_to_multiple_of=4, side="left", id=0, type_id=0, token="[PAD]")
    short, long = tokenizer.encode_batch(["rain", "a cat is a cat"])
    assert short.tokens == ["[PAD]"] * 5 + ["[CLS]", "rain", "[SEP]"] and short.attention_mask.tolist() == [0] * 5 + [1] * 3
    assert [t for t in long.tokens if t != "[PAD]"] == ["[CLS]", "a", "cat", "is", "[SEP]"] and len(long) == 8
    assert [[t for t in o.tokens if t != "[PAD]"] for o in long.overflowing] == [["[CLS]", "is", "a", "cat", "[SEP]"]]
    tokenizer.no_truncation()
    tokenizer.no_padding()
    assert tokenizer.truncation is None and tokenizer.padding is None
    assert [len(e) for e in tokenizer.encode_batch(["rain", "a cat is a cat"])] == [3, 7] and tokenizer.encode_batch([]) == []
    with pytest.raises(rlx.Error, match="max_length is -1; it goes from 0"):
        tokenizer.enable_truncation(-1)
    with pytest.raises(rlx.Error, match="(?s)sideways"):
        tokenizer.enable_padding(side="sideways")
    with pytest.raises(TypeError, match="texts are a list of strings, got 'rain'"):
        tokenizer.encode_batch("rain")
    with pytest.raises(TypeError, match="ids are integers in one row, got float64"):
        tokenizer.decode([0.5])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        models.Tokenizer("/nowhere/at/all")


def test_texts_are_those_of_tokenizers_whole_and_token_by_token(tmp_path):
    """What the package tokenizers decodes (tests/io/language_tokenizers.py), a line with a NUL in it included."""
    recorded = json.loads((pathlib.Path(__file__).parents[1] / "io/language_tokenizers.json").read_text())
    with_nul = 0
    for group in recorded["groups"]:
        (tmp_path / "tokenizer.json").write_text(json.dumps(group["tokenizer"]))
        tokenizer = models.Tokenizer(tmp_path)
        for line, wanted in zip(recorded["lines"], group["cases"]):
            assert tokenizer.decode(wanted["ids"]) == wanted["text"], (group["name"], line)
            stream = tokenizer.decode_stream()
            assert "".join([stream.put(i) for i in wanted["ids"]]) + stream.finish() == wanted["text"], (group["name"], line)
            made = tokenizer.encode(line)
            assert list(made.ids) == wanted["ids"] and made.tokens == [tokenizer.id_to_token(i) for i in wanted["ids"]], (group["name"], line)
            with_nul += "\0" in wanted["text"]
    assert with_nul > 0


@pytest.mark.parametrize("options", [{}, {"threads": 1, "most_tokens": 8}, {"kernel_dispatch": "common"}, {"device": "cpu", "accuracy": "exact"}], ids=str)
def test_sentences_become_the_vectors_of_bert(folder, options):
    encoder = models.SentenceEncoder(folder, **options)
    assert encoder.width == HIDDEN
    cut = encoder.tokenizer.encode_batch(SENTENCES)  # after as many tokens as there are positions
    assert [len(e) for e in cut] == [7, 2, 4, POSITIONS]
    wanted = np.stack([bert(e.ids) for e in cut]).astype("f4")
    close(encoder.embed(SENTENCES), wanted, 1e-5)
    assert encoder.embed([]).shape == (0, HIDDEN)
    ids, mask = np.zeros((2, 7), int), np.zeros((2, 7), int)
    for row, e in enumerate(cut[:2]):
        ids[row, : len(e)], mask[row, : len(e)] = e.ids, 1
    close(encoder.embed_ids(ids, mask), wanted[:2], 1e-5)
    assert {line["op"] for line in encoder.report()["nodes"]} >= {"layer_norm"}


def test_what_an_encoder_cannot_take_is_refused(folder, tmp_path):
    encoder = models.SentenceEncoder(folder)
    with pytest.raises(TypeError, match="sentences are a list of strings, got 'one'"):
        encoder.embed("one")
    with pytest.raises(TypeError, match="sentences are a list of strings"):
        encoder.embed(["one", 2])
    with pytest.raises(rlx.Error):
        encoder.embed_ids([[0, 1]], [[1, 1, 1]])
    with pytest.raises(rlx.Error, match="most_tokens is -1"):
        models.SentenceEncoder(folder, most_tokens=-1)
    with pytest.raises(FileNotFoundError, match="config.json"):
        models.SentenceEncoder(tmp_path)
    with pytest.raises(rlx.Error, match="'quantum'"):
        models.SentenceEncoder(folder, device="quantum")


@pytest.fixture(scope="module")
def has_chat_templates():
    try:
        models.ChatTemplate.from_text("x")
    except NotImplementedError:
        pytest.skip("RLX was built without chat templates")


def test_chat_templates(has_chat_templates, tmp_path):
    text = "{% for m in messages %}{{ bos_token if loop.first }}{{ m.role }}: {{ m.content }}{{ eos_token }}\n{% endfor %}{{ 'so:' if add_generation_prompt }}"
    assert models.ChatTemplate.from_text("{{ messages[0].content }}").apply([{"role": "user", "content": "a\0b"}]) == "a\0b"
    chat = models.ChatTemplate.from_text(text)
    assert chat.text == text and chat.bos_token == "" and chat.eos_token == ""
    messages = [{"role": "user", "content": "Hé \"you\"\n"}, {"role": "assistant", "content": "😀"}]
    assert chat.apply(messages, bos_token="<s>", eos_token="|") == "<s>user: Hé \"you\"\n|\nassistant: 😀|\n"
    assert chat.apply([], add_generation_prompt=True) == "so:"
    assert chat.apply(iter(messages)) == chat.apply(messages)
    seen = models.ChatTemplate.from_text("{{ tools }} {{ documents | tojson }} {{ loud }} {{ strftime_now('%d.%m.%Y %H:%M:%S') }}")
    import datetime
    now = datetime.datetime(2024, 2, 29, 23, 5, 6)
    assert seen.apply([], tools=[{"a": 1.5}], documents=[], loud=[True, None], now=now) == "[{'a': 1.5}] [] [True, None] 29.02.2024 23:05:06"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": text, "bos_token": "B", "eos_token": {"content": "E"}}))
    found = models.ChatTemplate(tmp_path)
    assert (found.bos_token, found.eos_token) == ("B", "E")
    assert found.apply(messages[1:]) == "Bassistant: 😀E\n"


def test_chat_templates_refuse(has_chat_templates, tmp_path):
    with pytest.raises(rlx.Error, match="line 2") as error:
        models.ChatTemplate.from_text("a\n{% if %}")
    assert error.value.status == "parse"
    with pytest.raises(ValueError, match="refuses the conversation: no"):
        models.ChatTemplate.from_text("{{ raise_exception('no') }}").apply([])
    long = models.ChatTemplate.from_text("{% for i in range(9999) %}{{ 'abc' * 100 }}{% endfor %}")
    assert len(long.apply([])) == 9999 * 300
    for limit in ({"most_steps": 1000}, {"most_bytes": 100000}):
        with pytest.raises(MemoryError, match="more"):
            long.apply([], **limit)
    with pytest.raises(FileNotFoundError, match="it has none"):
        models.ChatTemplate(tmp_path)
