#!/usr/bin/env python3
"""Attacks the program `rlx` with damaged files for a time: every run has to end by itself, within a bound of time and of
memory, with exit code 0, 1 or 2, and with messages that are valid UTF-8 without control bytes.

    files_test.py [--seconds S] [--runs N] [--seed N] [--keep DIR] [KIND...]

Kinds: files (each format, damaged), models (GGUF files of language models that become folders, and folders that become GGUF files; these
have 2 GiB of addresses), caches (a damaged disk cache must not change a result), cut (a file of weights that becomes shorter while it
is read). Seconds and seed may come from RLX_ATTACK_SECONDS and RLX_ATTACK_SEED. What fails is kept in DIR with the command
that shows it. Parsers alone are fuzzed in tests/fuzz, failing allocations in tests/allocations, odd attributes in
tests/growth, the C ABI in tests/api, graphs by attack_graphs.
"""

import argparse
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from program import PROGRAM, ROOT, f32, write_npy, write_safetensors  # noqa: E402

CORPUS = ROOT / "tests/fuzz/corpus"
SECONDS_OF_A_RUN, MEMORY_OF_A_RUN, MEMORY_OF_A_CONVERSION = 20, 6 << 30, 2 << 30
SANITIZED = "asan" in PROGRAM or "tsan" in PROGRAM  # which take terabytes of addresses

GRAPH = """rlx 1
graph @g {
  %0 = input() @"x" : f32[64, 96]
  %1 = param() @"w" : f32[96, 80]
  %2 = matmul(%0, %1) @"head" : f32[64, 80]
  %3 = gelu(%2) : f32[64, 80]
  return %3 @"y"
}
"""
# Where formats keep sizes, counts and types: numbers that make products and sums overflow.
NUMBERS = [b"0", b"-1", b"1e309", b"9223372036854775807", b"18446744073709551616", b"4294967296", b"2147483648", b"1e-02", b"nan"]
WORDS = [struct.pack("<Q", n) for n in (0, 2**63, 2**64 - 1, 2**40, 2**32)] + [struct.pack("<I", n) for n in (0, 2**31, 2**32 - 1)]


def damaged(data, rng):
    """Bytes with one to four of: bits turned, a piece removed, doubled, cut off or overwritten, a number replaced."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(8)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[at : at + rng.choice((1, 4, 64, 4096))]
        elif kind == 2:
            out[at:at] = out[at : at + rng.choice((1, 16, 1024))]
        elif kind == 3:
            del out[at:]
        elif kind == 4:
            word = rng.choice(WORDS)
            out[at : at + len(word)] = word
        elif kind == 5:
            out[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 3, 17))))
        elif kind == 6 and out:
            out[at % len(out)] = rng.choice(b"\0\x1b\xff\x80{}[](),:\"\\\n@%0")
        else:
            digits = [i for i in range(len(out)) if 48 <= out[i] < 58]
            if digits:
                first = last = rng.choice(digits)
                while last < len(out) and 48 <= out[last] < 58:
                    last += 1
                out[first:last] = rng.choice(NUMBERS)
    return bytes(out)


class Attack:
    def __init__(self, folder, keep, rng):
        self.folder, self.keep, self.rng = folder, keep, rng
        self.runs, self.codes, self.findings = 0, {}, []
        # Results of earlier tests are in no one's way, and no cache is shared.
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("RLX_")}

    def run(self, words, allowed=(0, 1, 2), memory=MEMORY_OF_A_RUN, **environment):
        """The completed process, or None after a finding."""
        self.runs += 1

        def limit():
            if not SANITIZED:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            # The processor's time: a machine may have other work. The system ends the process with SIGXCPU.
            seconds = SECONDS_OF_A_RUN * (10 if SANITIZED else 1)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))

        try:
            done = subprocess.run([PROGRAM, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, check=False,
                                  timeout=SECONDS_OF_A_RUN * (90 if SANITIZED else 9), env=self.environment | environment, preexec_fn=limit)
        except subprocess.TimeoutExpired:
            return self.found(words, f"no end in {9 * SECONDS_OF_A_RUN} s", b"")
        self.codes[done.returncode] = self.codes.get(done.returncode, 0) + 1
        if done.returncode == -signal.SIGXCPU:
            return self.found(words, f"still running after {SECONDS_OF_A_RUN} s of the processor's time", done.stderr)
        if done.returncode not in allowed:
            return self.found(words, f"exit code {done.returncode}", done.stderr)
        try:
            text = done.stderr.decode("utf-8")
        except UnicodeDecodeError as error:
            return self.found(words, f"a message is no UTF-8: {error}", done.stderr)
        if any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in text):
            return self.found(words, "a message holds control bytes", done.stderr)
        if done.returncode and not text.strip():
            return self.found(words, "it failed without a message", b"")
        return done

    def found(self, words, what, error):
        self.findings.append(what)
        number = len(self.findings)
        kept = self.keep / f"finding-{number}"
        shutil.copytree(self.folder, kept, dirs_exist_ok=True)
        command = " ".join(str(w).replace(str(self.folder), str(kept)) for w in words)
        print(f"FINDING {number}: {what}\n  rlx {command}\n  {error[-300:]!r}", flush=True)

    # ---- kinds ----
    def files(self):
        """A damaged file of any format, given to the subcommands that read it."""
        kind = self.rng.choice(("rlx", "rlx", "rlxc", "safetensors", "gguf", "npy", "npz", "tokenizer", "mlpackage"))
        folder = CORPUS / {"rlxc": "artifact"}.get(kind, kind)
        seed = self.rng.choice(sorted(p for p in folder.iterdir() if p.is_file()))
        data = damaged(seed.read_bytes(), self.rng)
        path = self.folder / f"damaged.{kind}"
        if kind == "mlpackage":  # a folder: its manifest stands in the corpus
            package = self.folder / "damaged.mlpackage"
            path = package / "Manifest.json"
            package.mkdir(exist_ok=True)
            path.write_bytes(data)
            return self.run([self.rng.choice(("lint", "where", "inspect")), package])
        if kind == "tokenizer":
            path = self.folder / "tokenizer.json"
            path.write_bytes(data)
            lines = self.folder / "lines.txt"
            lines.write_bytes(b"a line of text\n\xff\xfe\n")
            return self.run(["tokenize", "--model", self.folder, "--file", lines])
        path.write_bytes(data)
        if kind == "rlxc":
            return self.run(self.rng.choice((["inspect", path], ["inspect", path, "--json"], ["where", path], ["run", path, "--input", f"x={self.x}"])))
        if kind == "rlx":
            return self.run(self.rng.choice((["inspect", path], ["where", path], ["where", path, "--target", "coreml"], ["run", path])))
        if kind == "gguf":
            return self.run(self.rng.choice((["inspect", path], ["inspect", path, "--json"],
                                             ["convert", path, "-o", self.folder / "out.safetensors", "--dequantize", "f32"])))
        if kind in ("npy", "npz") and self.rng.random() < 0.7:
            return self.run(["run", self.graph, "--input", f"x={path}", "--params", self.weights])
        return self.run(self.rng.choice((["inspect", path], ["run", self.graph, "--input", f"x={self.x}", "--params", path])))

    def models(self):
        """A GGUF file as a folder, or a folder as a GGUF file, of which one file is damaged or says what no model has."""
        self.make_models()
        out, seed = self.folder / "made", self.rng.choice(self.models_made)
        more = self.rng.choice(((), (), ("--dequantize", "f32"), ("--shard-size", "20KB")))
        if seed.is_file():
            path, data = self.folder / "damaged.gguf", seed.read_bytes()
            # Half of them within what stands before the data, which are by far most of the bytes.
            head = min(len(data), self.rng.choice((600, 4000, len(data))))
            path.write_bytes(damaged(data[:head], self.rng) + data[head:])
            shutil.rmtree(out, ignore_errors=True)
            return self.run(["convert", path, "-o", out, *more], memory=MEMORY_OF_A_CONVERSION)
        folder = self.folder / "damaged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(seed, folder)
        victim = self.rng.choice(sorted(folder.iterdir()))
        data = victim.read_bytes()
        head = min(len(data), self.rng.choice((300, 3000, len(data))))
        victim.write_bytes(damaged(data[:head], self.rng) + data[head:])
        if self.rng.random() < 0.3:
            more += ("--quantize", "q8_0")
        return self.run(["convert", folder, "-o", self.folder / "made.gguf", *more], memory=MEMORY_OF_A_CONVERSION)

    def make_models(self):
        """Folders and files of small models, each with a tokenizer of another kind; then what no writer makes, which is tried once."""
        if hasattr(self, "models_made"):
            return
        golden, small = ROOT / "tests/golden", self.folder / "models"
        self.models_made = sorted((golden / "language_models").glob("*.gguf"))
        self.models_made += [golden / "language_models" / n for n in ("llama3", "qwen3_moe", "mamba2")]
        self.models_made += [golden / "packed_language_models" / n for n in ("gptq", "mlx_4")]
        rows, width = 640, 32
        config = {"model_type": "llama", "hidden_size": width, "intermediate_size": width, "num_hidden_layers": 1, "num_attention_heads": 2,
                  "num_key_value_heads": 1, "vocab_size": rows, "rms_norm_eps": 1e-6, "max_position_embeddings": 64, "tie_word_embeddings": True}
        shapes = {"model.embed_tokens": [rows, width], "model.norm": [width], "model.layers.0.input_layernorm": [width],
                  "model.layers.0.post_attention_layernorm": [width], "model.layers.0.self_attn.k_proj": [width // 2, width],
                  "model.layers.0.self_attn.v_proj": [width // 2, width]}  # fmt: skip
        shapes |= {f"model.layers.0.{m}_proj": [width, width] for m in ("self_attn.q", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down")}
        weights = {name + ".weight": ("F32", shape, f32(*(0.01 * (i % 97) for i in range(shape[0] * shape[-1] if len(shape) > 1 else shape[0]))))
                   for name, shape in shapes.items()}
        for tokenizer in ("gpt2", "llama2", "gemma", "t5", "bert"):
            folder = small / tokenizer
            folder.mkdir(parents=True)
            (folder / "config.json").write_text(json.dumps(config))
            write_safetensors(folder / "model.safetensors", weights)
            for name in ("tokenizer.json", "tokenizer_config.json"):
                shutil.copyfile(golden / "gguf_tokenizers" / tokenizer / name, folder / name)
            self.models_made.append(folder)
            if self.run(["convert", folder, "-o", small / f"{tokenizer}.gguf"], allowed=(0,)):
                self.models_made.append(small / f"{tokenizer}.gguf")
        for number, data in enumerate(self.odd_files()):
            path = small / f"odd-{number}.gguf"
            path.write_bytes(data)
            self.run(["convert", path, "-o", small / f"odd-{number}"], allowed=(1,), memory=MEMORY_OF_A_CONVERSION)
        for number, (name, change) in enumerate(self.odd_folders()):
            folder = small / f"odd-folder-{number}"
            shutil.copytree(small / "llama2", folder)
            document = json.loads((folder / name).read_text())
            change(document)
            (folder / name).write_text(json.dumps(document))
            self.run(["convert", folder, "-o", small / f"odd-{number}.gguf"], allowed=(0, 1), memory=MEMORY_OF_A_CONVERSION)

    @staticmethod
    def odd_files():
        """Counts of 2^60, texts of 4 GiB, tensors that lie over each other, arrays in arrays without end: to be refused."""
        u32, u64 = lambda n: struct.pack("<I", n), lambda n: struct.pack("<Q", n)
        text = lambda t, size=None: u64(len(t) if size is None else size) + t.encode()
        head = lambda tensors, values: b"GGUF" + u32(3) + u64(tensors) + u64(values)
        name = text("general.architecture") + u32(8) + text("llama")
        tensor = lambda name, dims, offset: text(name) + u32(len(dims)) + b"".join(map(u64, dims)) + u32(0) + u64(offset)
        yield head(2**60, 1) + name
        yield head(0, 2**60) + name
        yield head(0, 2) + name + text("k", 4 << 30)
        yield head(0, 2) + name + text("k") + u32(8) + text("", 4 << 30)
        yield head(0, 2) + name + text("k") + u32(9) + u32(8) + u64(2**60)
        yield head(0, 2) + name + text("k") + b"".join(u32(9) for _ in range(100_000))
        yield head(0, 2) + name + text("k") + u32(9) + b"".join(u32(9) + u64(1) for _ in range(100_000))
        yield head(2, 1) + name + tensor("token_embd.weight", [32, 4], 0) + tensor("output.weight", [32, 4], 64) + bytes(2048)
        yield head(1, 1) + name + tensor("token_embd.weight", [2**32, 2**32], 0) + bytes(64)
        yield head(1, 1) + name + tensor("token_embd.weight", [2**60], 0) + bytes(64)
        key = lambda k, n: text("llama." + k) + u32(4) + u32(n)
        for sizes in ((1024, 2**17, 2**20, 4096), (2**31, 32, 32, 1), (1, 2**32 - 1, 32, 1), (0, 0, 0, 0)):
            values = b"".join(key(k, n) for k, n in zip(("block_count", "embedding_length", "feed_forward_length", "attention.head_count"), sizes))
            yield head(0, 6) + name + values + key("context_length", 2**28)

    @staticmethod
    def odd_folders():
        """Merges that run in circles, tokens in many ways, parts in parts, experts without end."""
        def merges(pairs):
            return "tokenizer.json", lambda d: d["model"].update(merges=pairs)

        yield merges([["a", ""], ["", "a"], ["", ""]] * 1000)
        yield merges([["▁", "t"], ["▁t", "h"], ["▁", "th"], ["t", "h"], ["▁t", "h"]] * 1000)
        yield merges([["x" * 5000, "y" * 5000]] * 200)
        yield "tokenizer.json", lambda d: d["model"]["vocab"].update({"a" * n: 1000 + n for n in range(1, 3000)})
        yield "tokenizer.json", lambda d: d["model"]["vocab"].update({"far": 2**31 - 1})
        yield "tokenizer.json", lambda d: d["added_tokens"].extend(dict(d["added_tokens"][0], id=i, content="a" * (i % 400 + 1)) for i in range(600, 640))

        def nested(document):
            for _ in range(400):
                document["normalizer"] = {"type": "Sequence", "normalizers": [document["normalizer"]]}

        yield "tokenizer.json", nested
        yield "tokenizer_config.json", lambda d: d.update(chat_template="{% for i in range(1000000000) %}{% for j in range(1000000000) %}x{% endfor %}{% endfor %}")
        yield "config.json", lambda d: d.update(model_type="qwen3_moe", num_experts=4096, num_hidden_layers=1024, num_experts_per_tok=1, moe_intermediate_size=1)
        yield "config.json", lambda d: d.update(num_hidden_layers=1024, hidden_size=2**17, intermediate_size=2**20)

    def caches(self):
        """A run from a cache of which a file is damaged gives what a run without a cache gives."""
        cache = self.folder / "cache"
        output = self.folder / "out.safetensors"
        words = ["run", self.graph, "--input", f"x={self.x}", "--params", self.weights, "--output", output]
        if not cache.exists():
            self.run(words)
            self.expected = output.read_bytes()
            cache.mkdir(mode=0o700)
            self.run(words, RLX_CACHE_DIR=str(cache))
        files = sorted(p for p in cache.rglob("*") if p.is_file())
        if files:
            victim = self.rng.choice(files)
            victim.write_bytes(damaged(victim.read_bytes(), self.rng))
        output.unlink(missing_ok=True)
        done = self.run(words, allowed=(0,), RLX_CACHE_DIR=str(cache))
        if done and output.read_bytes() != self.expected:
            self.found(words, "a damaged cache changed the result", done.stderr)

    def cut(self):
        """A file of weights that another process makes shorter while it is read."""
        large = self.folder / "large.safetensors"
        graph = self.folder / "large.rlx"
        if not graph.exists():
            graph.write_text(GRAPH.replace("f32[96, 80]", "f32[96, 40000]").replace("f32[64, 80]", "f32[64, 40000]"))
        write_safetensors(large, {"w": ("F32", [96, 40000], bytes(96 * 40000 * 4))})
        words = ["run", graph, "--input", f"x={self.x}", "--params", large]
        cutter = subprocess.Popen([sys.executable, "-c", "import os,sys,time; time.sleep(float(sys.argv[2])); os.truncate(sys.argv[1], 100)",
                                   str(large), str(self.rng.random() * 0.1)])
        self.run(words)
        cutter.wait()

    def prepare(self):
        self.graph, self.weights, self.x = (self.folder / n for n in ("g.rlx", "w.safetensors", "x.npy"))
        self.graph.write_text(GRAPH)
        rng = random.Random(1)
        write_safetensors(self.weights, {"w": ("F32", [96, 80], f32(*(rng.uniform(-1, 1) for _ in range(96 * 80))))})
        write_npy(self.x, "<f4", [64, 96], (rng.uniform(-1, 1) for _ in range(64 * 96)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=["files", "models", "caches", "cut"])
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("RLX_ATTACK_SECONDS", 60)))
    parser.add_argument("--runs", type=int, help="so many runs of the kinds, however long they take")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("RLX_ATTACK_SEED", 0)) or random.randrange(1, 2**31))
    parser.add_argument("--keep", type=pathlib.Path, default=ROOT / "build/attack")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    print(f"seed {given.seed}, {given.seconds:g} s, kinds {' '.join(given.kinds)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(pathlib.Path(folder), given.keep, rng)
        attack.prepare()
        weights = {"files": 20, "models": 10, "caches": 4, "cut": 1}
        end = time.monotonic() + given.seconds
        done = dict.fromkeys(given.kinds, 0)
        while (time.monotonic() < end if given.runs is None else attack.runs < given.runs) and len(attack.findings) < 20:
            kind = rng.choices(given.kinds, [weights[k] for k in given.kinds])[0]
            getattr(attack, kind)()
            done[kind] += 1
    print(f"{attack.runs} runs ({', '.join(f'{n} {k}' for k, n in done.items())}); exit codes "
          f"{dict(sorted(attack.codes.items()))}; {len(attack.findings)} findings")
    return 1 if attack.findings else 0


if __name__ == "__main__":
    sys.exit(main())
