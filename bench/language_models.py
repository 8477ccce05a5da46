#!/usr/bin/env python3
"""RLX beside llama.cpp and OpenVINO GenAI on the same language models, in turn: one token behind others, and prompts.

    python3 bench/language_models.py make FOLDER --rlx build/release/bin/rlx       # once: Qwen3-0.6B's shape, random weights, 6 GB
    python3 bench/language_models.py run FOLDER --rlx build/release/bin/rlx [--llama-bench NAME=PATH]... [--kinds q4_k_m,q8_0] [--threads 1,2]
    python3 bench/language_models.py first FOLDER --rlx build/release/bin/rlx [--kinds q4_k_m,q8_0] [--threads 1,2]

`make` writes FOLDER/f32.gguf, and of it bf16.gguf, q8_0.gguf, q4_k.gguf, q6_k.gguf by `rlx convert`, and q4_k_m.gguf: of q6_k are the table of
tokens and, of the attention's values and the second products of the feed-forward part, the layers that llama.cpp's quantize tool chooses.

`run` prints one table. Its rows are a kind of weights, a number of threads and a task:

    decode 128        one more token behind 128 (of 16 or 17, the mean, by the other programs)
    prefill 128, 512  a prompt of so many tokens

and its columns the milliseconds of each program, the least of all rounds; "RLX / NAME", its ratio to each other program; and of decoding the limit: what the file's
bytes and the cache's take at the bandwidth that bench/limits measures in the same rounds, of an array of 1 GiB, which no cache holds (--gbs GIVEN takes another
figure), with the part of that bandwidth that RLX has. Wall time counts: nothing else may run. Programs take turns in each round, in an order that goes round.

RLX runs four times: by default (f32), with `--accuracy row_relative`, `--compute bf16` and `--compute int8`; llama.cpp rounds activations to 8 bits beside
packed weights. "llama.cpp" is the wheel of the package xllamacpp, a build for AVX2 and without matrix tiles; programs given by --llama-bench are
llama-bench of builds of one's own: of the sources in the source package of llama-cpp-python (vendor/llama.cpp), for example,

    CC=clang CXX=clang++ cmake -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DGGML_AMX_TILE=OFF -DGGML_AMX_INT8=OFF -DGGML_AMX_BF16=OFF \\
      -DGGML_OPENMP=OFF -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF && ninja -C build llama-bench

OpenVINO GenAI reads a GGUF file itself, if it has a tokenizer, and the server of the wheel of xllamacpp wants one, too: `make` writes FOLDER/genai/KIND.gguf, with one that has
a token for each number. GenAI is measured with q4_k_m and q8_0, where `openvino_genai` can be imported and those files are there; the table says so where they are not. It multiplies
in bf16 where the processor does.

`first` prints the milliseconds from the start of a process to the logits behind 9 tokens, the least of all rounds: of `rlx logits` without a disk cache, with an empty one, and
with what that run left there, and of a Python program with xllamacpp, less the time that Python takes to import it. Files are in the system's cache where it holds them: the rounds
before have read them. Needs numpy and xllamacpp; `make` torch, transformers, gguf too.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
KINDS = ["q4_k_m", "q8_0", "bf16", "f32"]
FILE_TYPES = {"q4_k_m": 15, "q8_0": 7, "bf16": 32, "f32": 0}  # llama.cpp's number of such a file
GENAI = ["q4_k_m", "q8_0"]  # what OpenVINO GenAI is measured with
SHAPE = {"vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
         "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
         "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}  # fmt: skip
LAYERS, BEHIND = SHAPE["num_hidden_layers"], 128
CACHE_BYTES = 2 * LAYERS * SHAPE["num_key_value_heads"] * SHAPE["head_dim"] * 4  # of a token, in f32
PROMPTS = [128, 512]
TASKS = [("decode", BEHIND)] + [("prefill", n) for n in PROMPTS]


# ---- files ----

def save_folder(folder):
    import torch
    import transformers

    torch.manual_seed(1)
    transformers.AutoModelForCausalLM.from_config(transformers.Qwen3Config(**SHAPE)).float().eval().save_pretrained(folder)


def is_q6_in_q4_k_m(name):
    """llama.cpp's llama_tensor_get_type and use_more_bits."""
    if name == "token_embd.weight": return True  # also the output projection
    at = re.fullmatch(r"blk\.(\d+)\.(attn_v|ffn_down)\.weight", name)
    layer = int(at[1]) if at else -1
    return bool(at) and (layer < LAYERS // 8 or layer >= 7 * LAYERS // 8 or (layer - LAYERS // 8) % 3 == 2)


def write_mixed(q4, q6, path):
    """The metadata of `q4`, and each tensor from one of the files."""
    import gguf

    sources = [gguf.GGUFReader(q4), gguf.GGUFReader(q6)]
    tensors = [{t.name: t for t in s.tensors} for s in sources]
    chosen = [tensors[is_q6_in_q4_k_m(t.name)][t.name] for t in sources[0].tensors]
    with open(q4, "rb") as f: head = f.read(int(min(t.field.offset for t in sources[0].tensors)))
    infos, offset = b"", 0
    for t in chosen:
        name, dims = t.name.encode(), [int(d) for d in t.shape]
        infos += struct.pack("<Q", len(name)) + name + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, int(t.tensor_type), offset)
        offset += -(-int(t.n_bytes) // 32) * 32
    with open(path, "wb") as f:
        f.write(head + infos + b"\0" * (-(len(head) + len(infos)) % 32))
        for t in chosen: f.write(t.data.tobytes() + b"\0" * (-int(t.n_bytes) % 32))


def add_tokens(source, path, file_type):
    """A copy with a tokenizer: byte-level pairs, a token for each number of the vocabulary."""
    import gguf

    reader, writer = gguf.GGUFReader(source), gguf.GGUFWriter(path, "qwen3")
    for key, field in reader.fields.items():
        if key.startswith(("GGUF.", "tokenizer.")) or key in ("general.architecture", "general.file_type"): continue
        if field.types[0] == gguf.GGUFValueType.ARRAY: writer.add_array(key, field.contents())
        else: writer.add_key_value(key, field.contents(), field.types[0])
    writer.add_file_type(file_type)
    shown = [b for b in range(256) if 33 <= b < 127 or 161 <= b < 173 or b > 173]
    letters = [chr(b) for b in shown] + [chr(256 + i) for i in range(256 - len(shown))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(letters + [f"x{i}" for i in range(256, SHAPE["vocab_size"])])
    writer.add_token_types([1] * SHAPE["vocab_size"])
    writer.add_token_merges(["x 2"])
    writer.add_bos_token_id(SHAPE["vocab_size"] - 2)
    writer.add_eos_token_id(SHAPE["vocab_size"] - 1)
    writer.add_pad_token_id(SHAPE["vocab_size"] - 3)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    for t in reader.tensors: writer.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(options):
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    convert = lambda source, name, *more: subprocess.run(  # noqa: E731
        [str(options.rlx), "convert", str(source), "-o", str(folder / name), "--quiet", *more], check=True)
    if not (folder / "f32.gguf").exists():
        save_folder(folder / "f32")
        convert(folder / "f32", "f32.gguf")
    for kind in ("bf16", "q8_0", "q4_k", "q6_k"):
        if (folder / f"{kind}.gguf").exists(): continue
        if kind != "bf16": convert(folder / "f32.gguf", f"{kind}.gguf", "--quantize", kind)
        else:
            import torch
            import transformers

            transformers.AutoModelForCausalLM.from_pretrained(folder / "f32", dtype=torch.bfloat16).save_pretrained(folder / "bf16")
            convert(folder / "bf16", "bf16.gguf")
    if not (folder / "q4_k_m.gguf").exists(): write_mixed(folder / "q4_k.gguf", folder / "q6_k.gguf", folder / "q4_k_m.gguf")
    (folder / "genai").mkdir(exist_ok=True)
    for kind, file_type in FILE_TYPES.items():
        if not (folder / "genai" / f"{kind}.gguf").exists(): add_tokens(folder / f"{kind}.gguf", folder / "genai" / f"{kind}.gguf", file_type)


# ---- programs: each gives {(task, tokens): milliseconds}, and may add "peak_mib" ----

class Rlx:
    def __init__(self, program, name, *more):
        self.program, self.name, self.more = program, name, more

    def times(self, file, threads, runs):
        done = subprocess.run([self.program, "bench", "--threads", str(threads), "--iters", str(runs), "--budget", "120", "--model", str(file), *self.more,
                               *[f"{task}_{tokens}" for task, tokens in TASKS]], capture_output=True, text=True, check=True)  # fmt: skip
        answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return {tuple((a["case"].split("_")[0], int(a["case"].split("_")[1]))): min(a["times_ms"]) for a in answers}


class LlamaBench:
    def __init__(self, program, name):
        self.program, self.name = program, name

    def times(self, file, threads, runs):
        ask = [self.program, "-m", str(file), "-t", str(threads), "-r", str(runs), "-o", "json", "-ngl", "0"]
        made = {}
        for more in (["-p", "128,512", "-n", "0"], ["-p", "0", "-n", "16", "-d", str(BEHIND)]):
            done = subprocess.run(ask + more, capture_output=True, text=True, check=True)
            for a in json.loads(done.stdout):
                least = min(a["samples_ns"]) * 1e-6
                if a["n_gen"]: made["decode", BEHIND] = least / a["n_gen"]
                else: made["prefill", a["n_prompt"]] = least
        return made


class Wheel:
    """xllamacpp or openvino_genai, in a process of its own: this script again."""

    def __init__(self, name, package):
        self.name, self.package = name, package

    def times(self, file, threads, runs):
        done = subprocess.run([sys.executable, __file__, "child", self.package, str(file), str(threads), str(runs)], capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
        if not lines: raise RuntimeError((done.stderr.strip().splitlines() or ["it printed nothing"])[-1][:300])
        return {(task, tokens): ms for task, tokens, ms in json.loads(lines[-1])}


def tokens_of(count, first=7): return [(i * 131 + first) % SHAPE["vocab_size"] for i in range(count)]


def llama_child(file, threads, runs, prompts=None, decodes=True):
    import xllamacpp

    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.n_gpu_layers, p.warmup, p.verbosity, p.port = file, 1024, 1, 0, decodes, -1, 0
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(p)

    def timings(count, written):
        body = {"prompt": tokens_of(count), "n_predict": written, "temperature": 0.0, "cache_prompt": False, "ignore_eos": True}
        request = urllib.request.Request(server.listening_address + "/completion", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=900) as answer: return json.load(answer)["timings"]

    decode = [("decode", BEHIND, min(timings(BEHIND, 17)["predicted_per_token_ms"] for _ in range(runs)))] if decodes else []
    return decode + [("prefill", n, min(timings(n, 1)["prompt_ms"] for _ in range(runs))) for n in prompts or PROMPTS]


def genai_child(file, threads, runs):
    import numpy
    import openvino
    import openvino_genai

    pipe = openvino_genai.LLMPipeline(file, "CPU", INFERENCE_NUM_THREADS=threads)
    asked = iter(range(1, 1 << 20))

    def seconds(count, written):
        config = openvino_genai.GenerationConfig(max_new_tokens=written, min_new_tokens=written, do_sample=False, ignore_eos=True)
        prompt = openvino.Tensor(numpy.array([tokens_of(count, 1000 * next(asked))], dtype=numpy.int64))  # it remembers the beginnings of prompts
        begin = time.perf_counter()
        pipe.generate(prompt, config)
        return time.perf_counter() - begin

    seconds(8, 2)
    first = {n: min(seconds(n, 1) for _ in range(runs)) for n in PROMPTS}
    decode = min(seconds(BEHIND, 17) for _ in range(runs)) - first[BEHIND]
    return [("decode", BEHIND, decode / 16 * 1e3)] + [("prefill", n, s * 1e3) for n, s in first.items()]


def first_child(file, threads, runs):
    import xllamacpp  # noqa: F401

    if file: llama_child(file, threads, runs, [9], False)
    os._exit(0)


def child(package, file, threads, runs):
    if package == "first": return first_child(file, int(threads), int(runs))
    made = (llama_child if package == "xllamacpp" else genai_child)(file, int(threads), int(runs))
    print(json.dumps(made), flush=True)
    os._exit(0)  # the server's threads would be waited for


# ---- the table ----

def bandwidth(limits, threads):
    done = subprocess.run([str(limits), str(threads), "1024"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["read_gbs"]


def file_with_tokens(options, kind): return options.folder / "genai" / f"{kind}.gguf"


def programs(options):
    rlx = str(options.rlx)
    all_ = [Rlx(rlx, "RLX"), Rlx(rlx, "RLX row_relative", "--accuracy", "row_relative"), Rlx(rlx, "RLX bf16", "--compute", "bf16"),
            Rlx(rlx, "RLX int8", "--compute", "int8"),
            Wheel("llama.cpp", "xllamacpp")]  # fmt: skip
    for given in options.llama_bench:
        name, _, path = given.partition("=")
        all_.append(LlamaBench(path, name))
    return all_


def run(options):
    limits, best, gbs, failed = options.rlx.resolve().parents[1] / "bench" / "limits", {}, {}, {}
    peers = programs(options)
    has_genai = any(file_with_tokens(options, kind).exists() for kind in options.kinds if kind in GENAI)
    if has_genai: peers.append(Wheel("OpenVINO GenAI", "openvino_genai"))
    for turn in range(options.rounds):
        for threads in options.threads:
            if not options.gbs: gbs[threads] = max(gbs.get(threads, 0), bandwidth(limits, threads))
            for kind in options.kinds:
                order = peers[turn % len(peers):] + peers[:turn % len(peers)]
                for peer in order:
                    wheel = getattr(peer, "package", "")
                    file = file_with_tokens(options, kind) if wheel else options.folder / f"{kind}.gguf"
                    if peer.name in failed or (wheel == "openvino_genai" and (kind not in GENAI or not file.exists())): continue
                    try: times = peer.times(file, threads, options.iters)
                    except (subprocess.CalledProcessError, RuntimeError, OSError, json.JSONDecodeError) as error:
                        failed[peer.name] = str(error)[:300]
                        continue
                    for task, ms in times.items():
                        at = (kind, threads, task, peer.name)
                        best[at] = min(best.get(at, ms), ms)
                    print(f"round {turn + 1}, {kind}, {threads} thread(s), {peer.name}: "
                          + ", ".join(f"{t} {n}: {ms:.1f} ms" for (t, n), ms in times.items()), file=sys.stderr, flush=True)  # fmt: skip
    names = [p.name for p in peers if p.name not in failed]
    ratios = [n for n in names if n not in ("RLX", "RLX row_relative", "RLX bf16", "RLX int8")]
    print("| weights | threads | task | " + " | ".join(f"{n}, ms" for n in names) + " | " + " | ".join(f"RLX / {n}" for n in ratios)
          + " | limit, ms | RLX's part of it |")  # fmt: skip
    print("|---" * (5 + len(names) + len(ratios)) + "|")
    for kind in options.kinds:
        for threads in options.threads:
            for task in TASKS:
                of = {n: best.get((kind, threads, task, n)) for n in names}
                if not of.get("RLX"): continue
                limit = part = ""
                if task[0] == "decode":
                    data = (options.folder / f"{kind}.gguf").stat().st_size + CACHE_BYTES * BEHIND
                    limit = data / (options.gbs or gbs[threads]) * 1e-6
                    limit, part = f"{limit:.1f}", f"{limit / of['RLX'] * 100:.0f} %"
                print(f"| {kind} | {threads} | {task[0]} {task[1]} | " + " | ".join(f"{of[n]:.1f}" if of[n] else "" for n in names) + " | "
                      + " | ".join(f"{of['RLX'] / of[n]:.2f}" if of[n] else "" for n in ratios) + f" | {limit} | {part} |")  # fmt: skip
    print()
    for threads in options.threads: print(f"Memory reads {options.gbs or gbs[threads]:.1f} GB/s with {threads} thread(s).")
    for name, why in failed.items(): print(f"{name} was not measured: {why}")
    if not has_genai: print(f"OpenVINO GenAI was not measured: {options.folder / 'genai'} has no file of these kinds.")
    print(f"This process and its children: peak {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MiB.")


def first(options):
    best = {}

    def seconds(command, **more):
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **more})
        return time.perf_counter() - begin

    def note(*at, took): best[at] = min(best.get(at, took), took)

    with tempfile.TemporaryDirectory() as folder:
        ids = pathlib.Path(folder) / "ids.json"
        ids.write_text(json.dumps(tokens_of(9)))
        for turn in range(options.rounds):
            for kind in options.kinds:
                for threads in options.threads:
                    file = str(options.folder / f"{kind}.gguf")
                    rlx = [str(options.rlx), "logits", "--model", file, "--tokens", str(ids), "--threads", str(threads)]
                    note(kind, threads, "no cache", took=seconds(rlx))
                    cache = str(pathlib.Path(folder) / f"{kind}-{threads}-{turn}")
                    for name in ("an empty cache", "a full cache"): note(kind, threads, name, took=seconds(rlx, RLX_CACHE_DIR=cache))
                    python = [sys.executable, __file__, "child", "first"]
                    imported = seconds([*python, "", str(threads), "1"])
                    note(kind, threads, "llama.cpp", took=seconds([*python, str(file_with_tokens(options, kind)), str(threads), "1"]) - imported)
    names = ["no cache", "an empty cache", "a full cache", "llama.cpp"]
    print("| weights | threads | RLX, " + " | RLX, ".join(names[:3]) + " | llama.cpp |\n" + "|---" * 6 + "|")
    for kind in options.kinds:
        for threads in options.threads: print(f"| {kind} | {threads} | " + " | ".join(f"{best[kind, threads, n] * 1e3:.0f}" for n in names) + " |")


def main():
    if sys.argv[1:2] == ["child"]: return child(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["make", "run", "first"])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rlx", type=pathlib.Path, default=ROOT / "build/release/bin/rlx")
    parser.add_argument("--llama-bench", action="append", default=[], metavar="NAME=PATH", help="llama-bench of a build of one's own")
    parser.add_argument("--kinds", type=lambda t: t.split(","), default=KINDS)
    parser.add_argument("--threads", type=lambda t: [int(n) for n in t.split(",")], default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iters", type=int, default=8, help="runs of a task in each round")
    parser.add_argument("--gbs", type=float, help="the bandwidth of memory, instead of measuring it")
    options = parser.parse_args()
    return {"make": make, "run": run, "first": first}[options.what](options)


if __name__ == "__main__":
    sys.exit(main())
