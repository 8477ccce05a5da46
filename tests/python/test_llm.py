"""Language models from Python: logits and greedy texts of transformers (tests/golden/language_models, tests/golden/generation), with a
tokenizer of letters beside a model; and what `rlx generate` gives for the same settings is what `generate` gives."""

import copy
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import threading

import numpy as np
import pytest

import rlx
from rlx import llm

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
MODELS = GOLDEN / "language_models"
GREEDY = json.loads((GOLDEN / "generation/greedy.json").read_text())
NAMES = sorted(p.name for p in MODELS.iterdir() if p.is_dir())
TOLERANCE = 1e-4  # of logits of some units, as tests/models has it
LETTERS = "abcdefghijklmnopqrstuvwxyzéABCDEF .\n:|"  # 38 of the models' 41 tokens
SPECIAL = {"<s>": 38, "<unk>": 39, "</s>": 40}
TEMPLATE = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}|{% endfor %}{{ 'F' if loud else '' }}{% if add_generation_prompt %}a:{% endif %}"


def has_templates():
    try:
        rlx.models.ChatTemplate.from_text("a")
    except rlx.Error:
        return False
    return True


needs_templates = pytest.mark.skipif(not has_templates(), reason="RLX was built without chat templates")


def tokenizer_json(**more):
    vocabulary = {letter: i for i, letter in enumerate(LETTERS)} | SPECIAL
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for t, i in SPECIAL.items()]
    return json.dumps({"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": None, "post_processor": None,
                       "decoder": {"type": "Fuse"}, "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "unk_token": "<unk>"}} | more)


def with_letters(folder, name):
    shutil.copytree(MODELS / name, folder)
    (folder / "tokenizer.json").write_text(tokenizer_json())
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = with_letters(tmp_path_factory.mktemp("llm") / "gpt2", "gpt2")
    (path / "chat_template.jinja").write_text(TEMPLATE)
    return path


@pytest.fixture(scope="module")
def model(folder):
    return llm.load(folder)


def ids_of(name):
    return json.loads((MODELS / name / "ids.json").read_text())


def near(got, wanted):
    got = np.asarray(got)
    assert got.shape == wanted.shape and got.dtype == np.float32
    assert np.abs(got - wanted).max() < TOLERANCE


# ---- logits ----
PACKED = GOLDEN / "packed_language_models"


def test_packed_models_and_adapters():
    ids = json.loads((PACKED / "awq/ids.json").read_text())
    for kind in ("awq", "gptq_order", "nf4", "mlx_4"):
        assert np.abs(np.asarray(llm.load(PACKED / kind).logits(ids)) - np.load(PACKED / kind / "logits.npy")).max() < 1e-4
    wanted, adapter = np.load(PACKED / "lora_awq.npy"), PACKED / "lora_awq"
    for adapters in (adapter, str(adapter), [adapter], {adapter: 1.0}, {adapter: 0.5, str(adapter): 0.5}):
        assert np.abs(np.asarray(llm.load(PACKED / "awq", adapters=adapters).logits(ids)) - wanted).max() < 1e-4
    plain = np.load(PACKED / "awq/logits.npy")
    assert np.abs(np.asarray(llm.load(PACKED / "awq", adapters={adapter: 0}).logits(ids)) - plain).max() < 1e-4
    with pytest.raises(rlx.Error, match="self_attn.q_proj' in .* has 32 inputs, the module 16"):
        llm.load(MODELS / "llama3", adapters=adapter)


def test_there_are_fourteen_models():
    assert len(NAMES) == 14 and set(GREEDY) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_transformers(name):
    wanted, ids = np.load(MODELS / name / "logits.npy"), ids_of(name)
    for path in (MODELS / name, MODELS / f"{name}.gguf"):
        if not path.exists():
            continue
        loaded = llm.load(path, context=256)
        near(loaded.logits(ids), wanted)
        sequence = loaded.sequence()
        if name in ("llama_dynamic", "phi3_longrope"):  # the first tokens see other positions if the rest is not there yet
            near(sequence.all_logits(ids), wanted)
            continue
        near(sequence.logits(np.array(ids[:20])), wanted[19])
        near(sequence.all_logits(ids[20:]), wanted[20:])


@pytest.mark.parametrize("name", NAMES)
def test_greedy_texts_are_those_of_transformers(name, tmp_path):
    loaded = llm.load(with_letters(tmp_path / name, name), context=256)
    prompt, wanted = GREEDY[name]["prompt"], GREEDY[name]["tokens"]
    assert loaded.stop_ids == (2,)
    generator = loaded.generator(temperature=0, max_tokens=40)
    text = generator.generate(prompt)
    assert generator.tokens == wanted
    assert generator.finish == ("end" if wanted[-1] == 2 else "length")
    assert text == loaded.tokenizer.decode(wanted[:-1] if wanted[-1] == 2 else wanted)
    # By hand: the greatest of the logits.
    sequence, tokens = loaded.sequence(), []
    logits = sequence.logits(prompt)
    for _ in wanted:
        tokens.append(int(np.argmax(logits)))
        logits = sequence.logits(tokens[-1])
    assert tokens == wanted


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_caches_of_16_bits_take_half_the_memory_and_round_as_they_do_in_transformers(dtype):
    ids, wanted = ids_of("llama3"), np.load(MODELS / "llama3/logits.npy")
    usual = json.loads((MODELS / "rounded_caches.json").read_text())["llama3"][dtype]
    loaded, whole = llm.load(MODELS / "llama3", cache=dtype), llm.load(MODELS / "llama3")
    assert usual / 1.5 < np.abs(loaded.logits(ids) - wanted).max() < usual * 1.5
    narrow, wide = loaded.sequence(), whole.sequence()
    narrow.logits(ids), wide.logits(ids)
    assert 2 * narrow.memory_bytes == wide.memory_bytes


@pytest.mark.parametrize("dtype, share", [("q8_0", 34 / 128), ("q4_0", 18 / 128)])
def test_caches_of_blocks_round_as_gguf_does_it_in_transformers(dtype, share):
    folder = MODELS.parent / "block_caches"
    ids, exact, wanted = json.loads((folder / "ids.json").read_text()), np.load(folder / "logits_f32.npy"), np.load(folder / f"logits_{dtype}.npy")
    usual = np.abs(wanted - exact).max()
    loaded, whole = llm.load(folder, cache=dtype), llm.load(folder)
    assert np.abs(loaded.logits(ids) - wanted).max() < 0.2 * usual < 0.2 * 1.2 * np.abs(loaded.logits(ids) - exact).max()
    packed, wide = loaded.sequence(), whole.sequence()
    packed.logits(ids), wide.logits(ids)
    assert packed.memory_bytes == share * wide.memory_bytes


def test_a_sequence_goes_back_and_its_copy_goes_on_by_itself():
    loaded, ids = llm.load(MODELS / "llama3", chunk=16), ids_of("llama3")
    wanted = np.load(MODELS / "llama3/logits.npy")
    one = loaded.sequence()
    assert len(one) == 0
    one.logits(ids[:40])
    before = one.memory_bytes
    assert before > 0
    other = one.copy()
    one.logits([3, 3, 3])
    assert (len(one), len(other), len(copy.copy(one))) == (43, 40, 43)
    near(other.logits(ids[40:50]), wanted[49])
    one.rewind(3)
    assert len(one) == 40
    near(one.logits(ids[40]), wanted[40])
    with pytest.raises(rlx.Error, match="42"):
        one.rewind(42)
    with pytest.raises(rlx.Error, match="-1"):
        one.rewind(-1)
    assert len(one) == 41


def test_what_the_files_say(model):
    config = model.config
    assert (config.architecture, config.vocabulary, config.hidden, config.layers, config.heads) == ("gpt2", 41, 16, 2, 2)
    assert (config.kv_heads, config.head_dim, config.promised_context, model.context) == (2, 8, 256, 256)
    assert (model.bos_id, model.stop_ids, model.advice) == (1, (2,), {})
    with pytest.raises(AttributeError):
        config.hidden = 3
    assert "gpt2" in repr(model) and "41" in repr(model)
    assert model.tokenizer.encode("abc").ids.tolist() == [0, 1, 2]
    assert {node["verdict"] for node in model.report()["nodes"]} >= {"native"}
    assert llm.load(MODELS / "gpt2.gguf").config.architecture == "gpt2"
    assert llm.load(MODELS / "qwen3_moe").config.experts == 4 and llm.load(MODELS / "mistral_window", context=9).context == 9


# ---- text ----
def rlx_program():
    beside = pathlib.Path(os.environ.get("RLX_LIBRARY", "")).resolve().parents[1] / "bin/rlx"
    return beside if beside.is_file() else None


@pytest.mark.parametrize("settings", [
    {"temperature": 0, "max_tokens": 9}, {"seed": 3, "max_tokens": 30}, {"temperature": 1.5, "top_k": 9, "seed": 4, "max_tokens": 30},
    {"top_p": 0.8, "min_p": 0.01, "repetition_penalty": 1.3, "seed": 5, "max_tokens": 30},
    {"typical_p": 0.9, "presence_penalty": 0.5, "frequency_penalty": 0.25, "seed": 6, "max_tokens": 30}], ids=str)
def test_the_program_gives_the_same(model, folder, settings):
    program = rlx_program()
    if program is None:
        pytest.skip("there is no program beside the library")
    generator = model.generator(**settings)
    text = generator.generate("abc")
    options = itertools.chain(*((f"--{name.replace('_', '-')}", str(value)) for name, value in settings.items()))
    said = subprocess.run([program, "generate", "--model", folder, "--prompt", "abc", "--json", *options], capture_output=True, text=True, check=True)
    said = json.loads(said.stdout)
    assert (text, generator.tokens, generator.finish) == (said["text"], said["tokens"], said["finish"])
    assert model.generate("abc", **settings) == text


def test_a_stream_gives_the_text_in_pieces(model):
    settings = dict(temperature=1.5, seed=8, max_tokens=40)
    pieces = list(model.stream("abc", **settings))
    assert len(pieces) > 5 and all(pieces) and "".join(pieces) == model.generate("abc", **settings)
    assert model.generate([0, 1, 2], **settings) == model.generate(np.int64([0, 1, 2]), **settings) == "".join(pieces)
    iterator = model.stream("abc", **settings)
    assert [next(iterator), next(iterator)] == pieces[:2]  # and the rest is not asked for


def test_seeds(model):
    text = lambda seed: model.generate("abc", seed=seed, temperature=2, max_tokens=40)
    assert text(1) == text(1) != text(2)
    assert text(0) == model.generate("abc", temperature=2, max_tokens=40)
    generator = model.generator(seed=1, temperature=2, max_tokens=40)
    first = generator.generate("abc")
    assert generator.generate("abc") != first
    generator.reset()
    assert generator.generate("abc") == first == text(1)


def test_stop_texts(model):
    settings = dict(temperature=2, seed=9, max_tokens=60)
    text = model.generate("abc", **settings)
    stop = text[10:13]
    for stops in (stop, [stop], ("no such text", stop)):
        generator = model.generator(**settings, stop=stops)
        assert generator.generate("abc") == text[: text.index(stop)] and generator.finish == "stop"
    # What is read over one is any text: quotes, line ends, NUL.
    assert model.generate("abc", **settings, stop=['"', "\\", "\r\n", "\0", "\x7f", "é😀"]) == text
    line = model.generate("abc", seed=1, max_tokens=60, logit_bias={LETTERS.index("\n"): 2.0, 2: -np.inf})
    assert "\n" in line
    assert model.generate("abc", seed=1, max_tokens=60, logit_bias={LETTERS.index("\n"): 2.0, 2: -np.inf}, stop="\n") == line[: line.index("\n")]


def test_texts_are_whole_characters_and_may_have_nul(tmp_path):
    """A tokenizer of bytes; biases and a penalty for each time make the tokens come in turn."""
    path = tmp_path / "bytes"
    shutil.copytree(MODELS / "gpt2", path)
    names = ["<0x00>", "t1", "t2", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "<0x22>"]
    vocabulary = {name: i for i, name in enumerate(names)} | {f"t{i}": i for i in range(len(names), 41)}
    (path / "tokenizer.json").write_text(tokenizer_json(
        added_tokens=[], decoder={"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        model={"type": "BPE", "vocab": vocabulary, "merges": [], "byte_fallback": True}))
    loaded = llm.load(path)
    in_turn = lambda *tokens: dict(temperature=0, frequency_penalty=100 * len(tokens), logit_bias={t: 9000 - 100 * i for i, t in enumerate(tokens)})
    assert list(loaded.stream([9], max_tokens=12, **in_turn(3, 4, 5, 6))) == ["😀", "😀", "😀"]
    assert loaded.generate([9], max_tokens=3, **in_turn(0)) == "\0\0\0"
    assert loaded.generate([9], max_tokens=9, stop="\0", **in_turn(9, 0)) == "t9"
    assert loaded.generate([9], max_tokens=9, stop='9"', **in_turn(10, 9, 7)) == "t10t"


def test_advice_counts_until_something_else_is_given(tmp_path):
    path = with_letters(tmp_path / "advised", "gpt2")
    (path / "generation_config.json").write_text(json.dumps(dict(do_sample=True, temperature=2.0, top_k=1, eos_token_id=[15, 2])))
    loaded = llm.load(path)
    assert loaded.advice == {"temperature": 2.0, "top_k": 1} and loaded.stop_ids == (15, 2)
    wanted = GREEDY["gpt2"]
    generator = loaded.generator()  # top_k = 1: the likeliest
    generator.generate(wanted["prompt"])
    assert generator.tokens == wanted["tokens"][: wanted["tokens"].index(15) + 1] and generator.finish == "end"
    free = loaded.generator(top_k=0, seed=1, max_tokens=10)
    free.generate(wanted["prompt"])
    assert free.tokens != generator.tokens


def test_the_context_ends_a_text(folder):
    loaded = llm.load(folder, context=7)
    generator = loaded.generator(temperature=3, logit_bias={2: -np.inf})
    generator.generate("abcd")
    assert generator.finish == "context" and len(generator.tokens) == 4
    with pytest.raises(rlx.Error, match="the text has 7 tokens, which leave no room in a context of 7"):
        generator.generate("abcdefg")
    assert generator.finish == "context"  # of the last text: no other was begun


def test_prompts(model):
    assert model.encode("ab</s>").tolist() == [0, 1, 40]
    assert model.encode("a", plain=True).dtype == np.int32
    assert 40 not in model.encode("ab</s>", plain=True)
    assert model.encode("").tolist() == [1]  # bos_id
    assert model.generate("", temperature=0, max_tokens=3) == model.generate([1], temperature=0, max_tokens=3)
    settings = dict(temperature=0, max_tokens=4)
    assert model.generate("ab</s>", plain=True, **settings) == model.generate(model.encode("ab</s>", plain=True), **settings)


def test_a_generator_reads_what_is_new(model):
    generator = model.generator(temperature=0, max_tokens=5)
    text = generator.generate("abcdef")
    assert generator.read_tokens == 6
    generator.generate("abcdef" + text + "xyz")
    assert generator.read_tokens <= 3 + 1 + 1  # the last one written was not read
    first = generator.stream("abc")
    next(first)
    second = generator.stream("abd")
    with pytest.raises(rlx.Error, match="another text was begun"):
        next(first)
    assert "".join(second) == model.generate("abd", temperature=0, max_tokens=5)


# ---- conversations ----
@needs_templates
def test_a_conversation(model, folder):
    messages = [{"role": "user", "content": "abc"}]
    prompt = model.chat_prompt(messages)
    assert prompt.tolist() == [LETTERS.index(c) for c in "u:abc|a:"]
    settings = dict(max_tokens=6, seed=2)
    answer = model.chat(messages, **settings)
    assert answer == model.generate(prompt, **settings) == "".join(model.stream(prompt, **settings))
    loud = model.chat_prompt(messages, variables={"loud": True})
    assert loud.tolist() == [LETTERS.index(c) for c in "u:abc|Fa:"]
    assert model.chat(messages, variables={"loud": True}, **settings) == model.generate(loud, **settings)
    program = rlx_program()
    if program is not None:
        said = subprocess.run([program, "chat", "--model", folder, "--json", "--max-tokens", "6", "--seed", "2"], input="abc\n",
                              capture_output=True, text=True, check=True)
        assert json.loads(said.stdout)["text"] == answer
    generator = model.generator(**settings)
    assert generator.chat(messages) == answer
    generator.chat(messages + [{"role": "assistant", "content": answer}, {"role": "user", "content": "d"}])
    assert generator.read_tokens < len("u:abc|a:") + 6 + len("|u:d|a:")


@needs_templates
def test_another_template_knows_the_models_tokens(model, tmp_path):
    own = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    tokens = model.chat_prompt([{"role": "user", "content": "x"}], template=own).tolist()
    name = model.tokenizer.id_to_token
    assert tokens == [LETTERS.index(c) for c in (name(1) + "x" + name(2))]
    assert model.chat_prompt([{"role": "user", "content": "x"}], template=rlx.models.ChatTemplate.from_text(own)).tolist() == tokens
    plain = llm.load(with_letters(tmp_path / "plain", "gpt2"))
    assert plain.chat_template is None
    with pytest.raises(rlx.Error, match="has no chat template") as caught:
        plain.chat([{"role": "user", "content": "x"}])
    assert caught.value.status == "not_found"
    assert plain.chat([{"role": "user", "content": "x"}], template=own, max_tokens=2, temperature=0)
    with pytest.raises(rlx.Error, match="never"):
        model.chat([{"role": "user", "content": "x"}], template="{{ raise_exception('never') }}")


# ---- samplers ----
def test_a_sampler():
    logits = np.float32([0, 1, 2, 3])
    sampler = llm.Sampler(temperature=2, seed=5)
    drawn = [sampler.sample(logits) for _ in range(20)]
    sampler.reset()
    assert [sampler.sample(logits) for _ in range(20)] == drawn and len(set(drawn)) > 1
    ids, chances = sampler.chances(logits)
    e = np.exp(np.float64([3, 2, 1, 0]) / 2)
    assert ids.tolist() == [3, 2, 1, 0] and np.allclose(chances, e / e.sum(), atol=1e-9)
    assert llm.Sampler(top_k=2, logit_bias={0: 5}).chances(logits)[0].tolist() == [0, 3]
    careful = llm.Sampler(temperature=0, repetition_penalty=4)
    careful.see([3])
    assert careful.sample(logits) == 2
    for bad in (np.float32([0, np.nan]), np.float32([np.inf, 0]), np.float32([-np.inf] * 3)):
        with pytest.raises(rlx.Error):
            careful.sample(bad)
    with pytest.raises(rlx.Error, match="one row"):
        careful.sample(np.zeros((2, 3), np.float32))


# ---- threads ----
def test_threads_share_a_model(model):
    ids = ids_of("gpt2")
    wanted = np.load(MODELS / "gpt2/logits.npy")
    texts = [model.generate("abc", seed=i, temperature=2, max_tokens=20) for i in range(4)]
    failures = []

    def work(i):
        try:
            for _ in range(4):
                near(model.logits(ids), wanted)
                assert model.generate("abc", seed=i, temperature=2, max_tokens=20) == texts[i]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_calls_of_one_sequence_happen_one_after_another(model):
    sequence = model.sequence()
    threads = [threading.Thread(target=lambda: [sequence.logits([1, 2]) for _ in range(8)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sequence) == 64
    near(sequence.logits([3]), np.asarray(model.logits([1, 2] * 32 + [3]))[-1])


def test_a_number_of_threads_changes_nothing():
    ids = ids_of("qwen2")
    one, two = (np.asarray(llm.load(MODELS / "qwen2", threads=n).logits(ids)) for n in (1, 2))
    assert np.array_equal(one, two)


# ---- what is refused ----
@pytest.mark.parametrize("call,status,message", [
    (lambda: llm.load("/nowhere/at/all"), "not_found", "no such folder or file"),
    (lambda: llm.load(MODELS / "gpt2", device="warp"), "not_found", "warp"),
    (lambda: llm.load(MODELS / "gpt2", context=-1), "invalid_argument", "a context of -1"),
    (lambda: llm.load(MODELS / "gpt2", context=10**6), "invalid_argument", "the model's table has 256 positions"),
    (lambda: llm.load(MODELS / "gpt2", chunk=-1), "invalid_argument", "a chunk of -1"),
    (lambda: llm.load(MODELS / "gpt2", cache="i8"), "unsupported", "caches of i8; there are f32, f16, bf16, q8_0 and q4_0"),
    (lambda: llm.load(MODELS / "gpt2", cache="q8_0"), "unsupported", "heads have 8, which is no multiple of that"),
    (lambda: llm.load(MODELS / "gpt2", access="borrowed"), "invalid_argument", "access is 'borrowed'; it is one of mapped, copied"),
    (lambda: llm.load(MODELS / "gpt2").tokenizer, "not_found", "tokenizer"),
    (lambda: llm.load(MODELS / "gpt2").generate("a"), "not_found", "tokenizer")])
def test_a_model_that_is_not_there(call, status, message):
    with pytest.raises(rlx.Error, match=message) as caught:
        call()
    assert caught.value.status == status


@pytest.mark.parametrize("settings,message", [
    ({"temperature": -1}, "temperature is -1"), ({"temperature": float("nan")}, "temperature is nan"), ({"top_p": 0}, "top_p is 0"),
    ({"min_p": 2}, "min_p is 2"), ({"top_k": -1}, "top_k is -1"), ({"top_k": 1.5}, "top_k is an integer, got 1.5"),
    ({"seed": -1}, "seed is -1"), ({"seed": 2**64}, "seed is 18446744073709551616"), ({"max_tokens": 0}, "max_tokens is 0"),
    ({"temperature": "hot"}, "temperature is a number, got 'hot'"), ({"stop": ""}, "a stop string is empty"), ({"stop": [3]}, "stop is a text"),
    ({"logit_bias": {1: float("nan")}}, "logit_bias of token 1"), ({"logit_bias": {"a": 1}}, "ids are integers"),
    ({"repetition_penalty": 0}, "repetition_penalty is 0")], ids=str)
def test_settings_that_mean_nothing(model, settings, message):
    for call in (model.generate, model.stream):
        with pytest.raises((rlx.Error, TypeError), match=message):
            call("abc", **settings)


@pytest.mark.parametrize("ids,message", [
    ([], "no tokens"), ([41], "token 0 is 41"), ([0, -1], "token 1 is -1"), ([0.5], "ids are integers"), ([[1]], "one row"),
    ([2**40], "32 bits"), ([True], "ids are integers"), (["a"], "ids are integers"), (list(range(41)) * 7, "do not fit a context of 256|leave no room in a context")])
def test_ids_that_mean_nothing(model, ids, message):
    sequence = model.sequence()
    for call in (model.logits, sequence.logits, sequence.all_logits, model.generate):
        with pytest.raises((rlx.Error, TypeError), match=message):
            call(ids)
    assert len(sequence) == 0
    for prompt in (None, b"abc"):
        with pytest.raises(TypeError):
            model.generate(prompt)
    with pytest.raises(TypeError):
        model.generate("abc", temprature=1)


def test_a_folder_becomes_a_file_and_a_file_a_folder(tmp_path):
    ids = json.loads((MODELS / "llama3/ids.json").read_text())
    wanted = np.load(MODELS / "llama3/logits.npy")

    def worst(path):
        return np.abs(np.asarray(llm.load(path, context=256).logits(ids)) - wanted).max()

    made = llm.to_gguf(MODELS / "llama3", tmp_path / "m.gguf")
    assert made == llm.Converted(22, made.bytes, ("the folder has no tokenizer, and so has the file none",))
    assert made.bytes == sum(rlx.GGUFFile(tmp_path / "m.gguf").tensor(n)._elements().nbytes for n in rlx.GGUFFile(tmp_path / "m.gguf"))
    assert worst(tmp_path / "m.gguf") < TOLERANCE
    llm.to_gguf(MODELS / "llama3", tmp_path / "p.gguf", most_file_bytes=15000)
    assert sorted(p.name for p in tmp_path.glob("p-*")) == ["p-00001-of-00002.gguf", "p-00002-of-00002.gguf"]
    assert worst(tmp_path / "p-00001-of-00002.gguf") < TOLERANCE

    assert llm.to_folder(tmp_path / "m.gguf", tmp_path / "back", most_file_bytes=15000).tensors == 21
    assert (tmp_path / "back/model.safetensors.index.json").exists()
    assert worst(tmp_path / "back") < TOLERANCE
    with pytest.raises(rlx.Error, match="not an empty folder"):
        llm.to_folder(tmp_path / "m.gguf", tmp_path / "back")

    made = llm.to_gguf(MODELS / "llama3", tmp_path / "q.gguf", quantize="q8_0")
    assert made.notes[0].endswith("became q8_0")
    assert "Q8_0" in {rlx.GGUFFile(tmp_path / "q.gguf").kind(n) for n in rlx.GGUFFile(tmp_path / "q.gguf")}
    assert llm.to_folder(tmp_path / "q.gguf", tmp_path / "packed").tensors > 21  # codes, scales and biases
    assert worst(tmp_path / "packed") < 0.1
    llm.to_folder(tmp_path / "q.gguf", tmp_path / "numbers", dequantize="bf16")
    assert worst(tmp_path / "numbers") < 0.1
    for call in (lambda: llm.to_gguf(MODELS / "llama_dynamic", tmp_path / "x.gguf"), lambda: llm.to_gguf(tmp_path / "none", tmp_path / "x.gguf"),
                 lambda: llm.to_gguf(MODELS / "llama3", tmp_path / "x.gguf", quantize="q9"), lambda: llm.to_gguf(MODELS / "llama3", tmp_path / "x.gguf", dequantize="i8"),
                 lambda: llm.to_gguf(MODELS / "llama3", tmp_path / "x.gguf", most_file_bytes=-1)):  # fmt: skip
        with pytest.raises((rlx.Error, OSError)):
            call()
    assert not (tmp_path / "x.gguf").exists()
