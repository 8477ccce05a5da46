#!/usr/bin/env python3
"""Holds `rlx.llm` to llama.cpp with a language model that is trained here: the same tokens, and the same greedy text for 50 prompts.

    RLX_LIBRARY=build/release/lib/librlx_c.so PYTHONPATH=bindings/python scripts/judge_byte_pair_model.py build/release/bin/rlx [--keep DIR]

1. The package `tokenizers` learns byte-level BPE of 3,072 tokens, split as Llama 3's, from the project's documents.
2. RLX itself (rlx.train, f32, AdamW) trains a model of Llama's architecture, 5.5 M params, on --document (README.md and CONTRIBUTING.md
   if none is given), until the mean loss of an epoch is 0.1 nat or --steps are over. The lower the loss, the clearer the margins of its text.
3. It is saved as a folder (config.json, model.safetensors, tokenizer.json) and as GGUF in f32, with the names and metadata that
   llama.cpp's converter gives a Llama 3. `rlx convert --quantize` makes q8_0 and q4_k of that file.
4. The beginnings of 50 sentences are the prompts. On the very same file llama.cpp (package `xllamacpp`, whose wheel has it built in)
   and rlx.llm tokenize them, all lines of the documents, and some odd texts; `tokenizers` says what is right. Both then write 48 tokens, the likeliest each time.

llama.cpp multiplies packed weights with activations that it rounds to 8 bits; RLX does not round them. So packed files are judged in two ways. Beside
llama.cpp with the very same file it is counted, and not judged, how many texts are equal, and how far the lead of llama.cpp's first token over its
second differs. Beside llama.cpp with the same numbers as floats, where nobody rounds, RLX with the packed file has to make the same texts, as it has
to with floats and with the folder. A text may part where llama.cpp's two likeliest tokens differ by less than the bound (TOLERANCE), which is then
printed; RLX is asked for every position of llama.cpp's text, so that what follows is judged, too. Exit status 0 means that nothing else differs.

With --keep the folder stays, and training goes on from where it was; --steps ends it early. --small is the same with a model of 1.1 M params, README.md
alone, 12 prompts and 16 tokens of each: half a minute, a test (`judge.byte_pair_model`). Needs numpy, tokenizers, xllamacpp; without one of them the exit status is 77.
"""

import argparse
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

import numpy as np

import rlx
import rlx.numpy as rnp

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Rows are multiples of 256, which q4_k's blocks need.
VOCABULARY, HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 3072, 256, 768, 5, 4, 2, 64
CONTEXT, THETA, EPSILON = 128, 10000.0, 1e-5
BOS, EOS = "<|begin_of_text|>", "<|end_of_text|>"
LLAMA3_SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
ROW, BATCH, PROMPTS, WRITTEN = 64, 4, 50, 48
ENOUGH = 0.1  # mean loss of an epoch, in nats a token
# How far a logit of f32 may be from llama.cpp's, of the largest one: twice what PyTorch's f32 is from its f64 (1.2e-5, with this model
# after 1,500 steps, whose largest logit is 29). A difference of two logits may be off by twice as much.
TOLERANCE = 2.4e-5
ODD_TEXTS = ["", " ", "\n\n\n", "  indented\n\tand tabs  ", "naïve façade, Größe, 日本語, 😀👍🏽", "I'LL we'd it's", "1234567 3.14159e-10", f"{BOS} text {EOS}",
             "<|begin_of_tex", "\r\n\r\n end", "a\u0301 \u200b zero", "ſ'S", "x" * 300]  # fmt: skip


def make_small():
    global VOCABULARY, INTERMEDIATE, LAYERS, PROMPTS, WRITTEN
    VOCABULARY, INTERMEDIATE, LAYERS, PROMPTS, WRITTEN = 1024, 256, 2, 12, 16


def documents():
    files = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in files}


def learn_tokenizer(texts, path):
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE(ignore_merges=True))
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3_SPLIT), "isolated"),
                                                  pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])  # fmt: skip
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[BOS, EOS], show_progress=False,
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))  # fmt: skip
    if made.get_vocab_size() != VOCABULARY: raise RuntimeError(f"the documents give {made.get_vocab_size()} tokens, not {VOCABULARY}")
    made.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, made.token_to_id(BOS))])
    made.save(str(path))


def rows_of(tokenizer, texts):
    """Pieces of the documents that begin with a sentence, with the tokens of each: BOS and ROW more."""
    rows = []
    for text in texts:
        end = 0
        for start in [m.end() for m in re.finditer(r"\n\n|[.:] |\A", text)]:
            if start < end or not text[start : start + 1].isalpha(): continue
            encoded = tokenizer.encode(text[start : start + 1200])
            if len(encoded.ids) <= ROW: continue
            end = start + encoded.offsets[ROW][1]
            rows.append((text[start:end], encoded.ids[: ROW + 1]))
    return rows


def prompt_of(text):
    """The first words of a text: at least 20 characters, up to the end of a word."""
    return text[: re.compile(r"(?<=\w)(?= \w)").search(text, 20).start()]


def shapes():
    """Params by the names that transformers gives them."""
    made = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCABULARY, HIDDEN)}
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        made |= {at + "input_layernorm.weight": (HIDDEN,), at + "post_attention_layernorm.weight": (HIDDEN,),
                 at + "self_attn.q_proj.weight": (HEADS * HEAD_DIM, HIDDEN), at + "self_attn.k_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN),
                 at + "self_attn.v_proj.weight": (KV_HEADS * HEAD_DIM, HIDDEN), at + "self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD_DIM),
                 at + "mlp.gate_proj.weight": (INTERMEDIATE, HIDDEN), at + "mlp.up_proj.weight": (INTERMEDIATE, HIDDEN),
                 at + "mlp.down_proj.weight": (HIDDEN, INTERMEDIATE)}  # fmt: skip
    return made


def loss(params, ids):
    """Llama's forward pass of ids [n, length + 1], and the mean loss of each next token."""
    angles = np.arange(ids.shape[1] - 1)[:, None] * THETA ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    cos, sin = np.cos(angles).astype("float32"), np.sin(angles).astype("float32")
    linear = lambda x, name: x @ params[name + ".weight"].T
    norm = lambda x, name: rlx.ops.rms_norm(x, params[name + ".weight"], epsilon=EPSILON)
    turned = lambda x, heads: rlx.ops.rope(x, cos, sin, heads=heads, layout="packed")
    x = params["model.embed_tokens.weight"][ids[:, :-1]]
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        y = norm(x, at + "input_layernorm")
        q, k, v = (linear(y, at + f"self_attn.{name}_proj") for name in "qkv")
        y = rlx.ops.attention(turned(q, HEADS), turned(k, KV_HEADS), v, heads=HEADS, kv_heads=KV_HEADS, layout="packed", causal=True)
        x = x + linear(y, at + "self_attn.o_proj")
        y = norm(x, at + "post_attention_layernorm")
        x = x + linear(rlx.nn.silu(linear(y, at + "mlp.gate_proj")) * linear(y, at + "mlp.up_proj"), at + "mlp.down_proj")
    logits = linear(norm(x, "model.norm"), "lm_head")
    return rlx.nn.cross_entropy(rnp.reshape(logits, (-1, VOCABULARY)), rnp.reshape(ids[:, 1:], (-1,)))


def train(rows, folder, steps, rate, threads):
    """The trained params, and a line that says how far it came. What was learnt is kept in the folder after each epoch."""
    random = np.random.default_rng(1)
    params = {name: np.ones(dims, "float32") if len(dims) == 1 else (random.normal(size=dims) * 0.02).astype("float32")
              for name, dims in shapes().items()}  # fmt: skip
    session = rlx.train.Session(loss, params, rlx.train.adamw(rlx.train.cosine(rate, steps, warmup=20, last=0.05), beta2=0.99, weight_decay=0.0),
                                clip_norm=1.0, session=rlx.Session(threads=threads))  # fmt: skip
    ids, checkpoint, mean = np.array(rows, "int32"), folder / "training.safetensors", math.inf
    if checkpoint.exists(): session.load(checkpoint, ids[:BATCH])
    each = len(ids) // BATCH
    while session.steps < steps and mean > ENOUGH:
        start, order, losses = time.process_time(), random.permutation(len(ids)), []
        for i in range(each): losses.append(session.step(ids[order[i * BATCH : (i + 1) * BATCH]]).loss)
        mean = sum(losses) / len(losses)
        session.save(checkpoint)
        print(f"step {session.steps}: loss {mean:.3f}, {time.process_time() - start:.1f} s of the processor", flush=True)
    return {name: np.array(value) for name, value in session.params.items()}, session.steps


def write_folder(params, tokenizer, folder):
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": HIDDEN,
              "intermediate_size": INTERMEDIATE, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
              "head_dim": HEAD_DIM, "max_position_embeddings": CONTEXT, "rms_norm_eps": EPSILON, "hidden_act": "silu",
              "rope_parameters": {"rope_type": "default", "rope_theta": THETA}, "tie_word_embeddings": False, "dtype": "float32",
              "bos_token_id": tokenizer.token_to_id(BOS), "eos_token_id": tokenizer.token_to_id(EOS)}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    rlx.save(folder / "model.safetensors", params, {"format": "pt"})


def write_gguf(params, tokenizer, path):
    """What llama.cpp's convert_hf_to_gguf.py writes of such a folder. (It cannot be asked: it knows tokenizers by a hash of what they make of a
    text, and so none that is new.)"""
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
             "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}  # fmt: skip
    tensors = {}
    for name, value in params.items():
        module = name.removesuffix(".weight")
        layer = re.match(r"model\.layers\.(\d+)\.(.*)", module)
        if layer: module = layer[2]
        # Its rotary positions turn neighbours, transformers' the two halves of a head.
        if module in ("self_attn.q_proj", "self_attn.k_proj"): value = value.reshape(-1, 2, HEAD_DIM // 2, HIDDEN).swapaxes(1, 2).reshape(value.shape)
        tensors[(f"blk.{layer[1]}." if layer else "") + names[module] + ".weight"] = np.ascontiguousarray(value)
    described = json.loads(tokenizer.to_str())
    ids = tokenizer.get_vocab()
    special = {token["id"] for token in described["added_tokens"]}
    rlx.save_gguf(path, tensors, {
        "general.architecture": "llama", "general.name": "byte pairs", "general.file_type": 0, "llama.vocab_size": VOCABULARY,
        "llama.context_length": CONTEXT, "llama.embedding_length": HIDDEN, "llama.block_count": LAYERS, "llama.feed_forward_length": INTERMEDIATE,
        "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": KV_HEADS, "llama.attention.key_length": HEAD_DIM,
        "llama.attention.value_length": HEAD_DIM, "llama.rope.dimension_count": HEAD_DIM, "llama.rope.freq_base": THETA,
        "llama.attention.layer_norm_rms_epsilon": EPSILON, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": sorted(ids, key=ids.get),
        "tokenizer.ggml.token_type": ("array i32", [3 if i in special else 1 for i in range(VOCABULARY)]),
        "tokenizer.ggml.merges": [" ".join(pair) for pair in described["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": ids[BOS], "tokenizer.ggml.eos_token_id": ids[EOS], "tokenizer.ggml.add_bos_token": True,
    })  # fmt: skip


class LlamaCpp:
    """llama.cpp with one model, in this process: floats in its cache, no attention in f16."""

    def __init__(self, path, threads):
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path, params.n_ctx, params.n_parallel, params.n_gpu_layers, params.warmup, params.verbosity = str(path), CONTEXT, 1, 0, False, -1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.port = 0
        self.server, self.written = xllamacpp.Server(params), {}

    def asked(self, what, body):
        request = urllib.request.Request(self.server.listening_address + what, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer: return json.load(answer)

    def tokenize(self, text):
        return self.asked("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]

    def generate(self, prompt):
        """Its tokens, its text, and at each position its two likeliest tokens, with what the first is ahead by. None where it does not tell them:
        behind a token that leaves a character incomplete."""
        if prompt in self.written: return self.written[prompt]
        done = self.asked("/completion", {"prompt": prompt, "n_predict": WRITTEN, "temperature": 0.0, "n_probs": 2, "return_tokens": True,
                                          "cache_prompt": False})  # fmt: skip
        told, steps = done["completion_probabilities"], []
        for token in done["tokens"]:
            if not told or told[0]["id"] != token:
                steps.append(None)
                continue
            first, second = told.pop(0)["top_logprobs"]
            if second["id"] == token and second["logprob"] == first["logprob"]: first, second = second, first
            if first["id"] != token: raise RuntimeError(f"llama.cpp wrote {token}, and calls {first['id']} the likeliest")
            steps.append((second["id"], first["logprob"] - second["logprob"]))
        if told: raise RuntimeError(f"llama.cpp tells likeliest tokens that it did not write, {told[0]['id']} behind {prompt!r}")
        self.written[prompt] = done["tokens"], done["content"], steps
        return self.written[prompt]


def judge_tokens(label, encode, wanted):
    wrong = 0
    for text, ids in wanted.items():
        got = list(encode(text))
        if got == ids: continue
        wrong += 1
        if wrong <= 5: print(f"    {text!r:.80}\n        {got}\n        {ids}")
    print(f"{label:34} {len(wanted) - wrong} of {len(wanted)} texts have the tokens of `tokenizers`")
    return wrong


def judge_texts(kind, model, llama, prompts, is_judged=True):
    """Counts what differs and is no near tie; 0 if it is not judged."""
    same = parted = wrong = told = untold = ties = 0
    furthest, least, widest = 0.0, math.inf, 0.0
    writer = model.generator(max_tokens=WRITTEN, temperature=0)
    for prompt in prompts:
        ids, text, steps = llama.generate(prompt)
        written = writer.generate(prompt)
        tokens = writer.tokens
        same += tokens == ids and written == text
        if tokens == ids and written != text:
            wrong += 1
            print(f"{kind}: WRONG, of the same tokens RLX makes {written!r}, llama.cpp {text!r}")
        given = [int(i) for i in model.encode(prompt)]
        logits = np.array(model.logits(given + ids[:-1]))[len(given) - 1 :]
        bound = 2 * TOLERANCE * float(np.abs(logits).max())
        if tokens != ids:
            at = next((i for i, (a, b) in enumerate(zip(tokens, ids)) if a != b), min(len(tokens), len(ids)))
            margin = steps[at][1] if at < len(steps) and steps[at] else math.inf
            near = margin < bound
            parted, wrong = parted + 1, wrong + (not near)
            if is_judged:
                print(f"{kind}: {'a near tie' if near else 'WRONG'} after {at} tokens of {prompt!r}: {tokens[at : at + 1]} here, {ids[at : at + 1]} there, "
                      f"whose two likeliest differ by {margin:.4f}")  # fmt: skip
        # Each position of llama.cpp's text, by this model.
        for row, token, step in zip(logits, ids, steps, strict=True):
            likeliest, told, untold = int(row.argmax()), told + bool(step), untold + (not step)
            ties += likeliest != token
            if not step:
                wrong += likeliest != token
                continue
            second, margin = step
            ahead = float(row[token]) - float(row[second])
            lead = float(row[likeliest]) - float(row[token])  # 0 where both prefer the same token
            furthest, least, widest = max(furthest, abs(ahead - margin)), min(least, margin), max(widest, lead)
            if abs(ahead - margin) > bound or (likeliest != token and max(margin, lead) >= bound):
                wrong += 1
                if is_judged:
                    print(f"{kind}: WRONG in {prompt!r}: {token} is ahead of {second} by {ahead:.4f}, at llama.cpp by {margin:.4f}; the likeliest is {likeliest}")
    verdict = f"{wrong} wrong" if is_judged else "not judged: llama.cpp rounds activations"
    print(f"{kind}: {same} of {len(prompts)} texts equal, {parted} part. Along llama.cpp's texts, {told + untold} tokens, RLX prefers another token at {ties}, by "
          f"{widest:.4f} at most; of {told} margins the least is {least:.4f}, and RLX's differ from them by {furthest:.5f} at most. {verdict}")  # fmt: skip
    return wrong if is_judged else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rlx", type=pathlib.Path, help="the program")
    parser.add_argument("--document", action="append", help="a tracked .md file, by its path from the root, that the model learns by heart; may be given several times")
    parser.add_argument("--small", action="store_true", help="a small model and few prompts, in half a minute")
    parser.add_argument("--steps", type=int, help="of training at most, those of earlier runs in --keep included (default 1500; of a small model 300)")
    parser.add_argument("--rate", type=float, default=2e-3, help="of learning, which falls to a twentieth of it (default 0.002)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="folder in which the model stays")
    args = parser.parse_args()
    try:
        import xllamacpp  # noqa: F401
        from tokenizers import Tokenizer
    except ImportError as error:
        print(f"skipped: {error} (scripts/bench-deps tokenizers xllamacpp)")
        return 77
    if args.small: make_small()
    steps_at_most = args.steps or (300 if args.small else 1500)
    learnt = args.document or (["README.md"] if args.small else ["README.md", "CONTRIBUTING.md"])

    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        texts = documents()
        if not (folder / "tokenizer.json").exists(): learn_tokenizer(texts.values(), folder / "tokenizer.json")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        rows = rows_of(tokenizer, [texts[name] for name in learnt])
        params, steps = train([ids for _, ids in rows], folder, steps_at_most, args.rate, args.threads)
        print(f"{sum(x.size for x in params.values()):,} params, {len(rows)} rows of {ROW} tokens, {steps} steps")
        write_folder(params, tokenizer, folder)
        files = {"f32": folder / "f32.gguf"}
        write_gguf(params, tokenizer, files["f32"])
        for kind in ("q8_0", "q4_k"):
            files[kind] = folder / f"{kind}.gguf"
            subprocess.run([args.rlx.resolve(), "convert", files["f32"], "-o", files[kind], "--quantize", kind], check=True)

        prompts = [prompt_of(rows[i * len(rows) // PROMPTS][0]) for i in range(PROMPTS)]
        compared = [texts[name] for name in (learnt if args.small else texts)]
        lines = {line for text in compared for line in text.split("\n")}
        wanted = {text: tokenizer.encode(text).ids for text in [*dict.fromkeys(prompts), *sorted(lines), *compared, *ODD_TEXTS]}
        models = {kind: rlx.llm.load(path, threads=args.threads) for kind, path in {"folder": folder, **files}.items()}
        wrong = sum(judge_tokens(f"rlx, {kind}", models[kind].encode, wanted) for kind in ("folder", "f32"))
        for kind, path in files.items():
            llama = LlamaCpp(path, args.threads)
            if kind == "f32": wrong += judge_tokens("llama.cpp", llama.tokenize, wanted)
            wrong += judge_texts(kind, models[kind], llama, prompts, is_judged=kind == "f32")
            if kind == "f32": wrong += judge_texts("the folder", models["folder"], llama, prompts)
            else:
                floats = folder / f"{kind}_as_f32.gguf"
                subprocess.run([args.rlx.resolve(), "convert", path, "-o", floats, "--dequantize", "f32", "--quiet"], check=True)
                wrong += judge_texts(f"{kind}, floats there", models[kind], LlamaCpp(floats, args.threads), prompts)
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
