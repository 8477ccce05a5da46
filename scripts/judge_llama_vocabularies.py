#!/usr/bin/env python3
"""Holds the tokenizers of GGUF files to llama.cpp's own vectors: every text of its vocabularies' .inp has the ids of its .out.

    scripts/judge_llama_vocabularies.py build/release/bin/rlx [FOLDER]

FOLDER holds ggml-vocab-*.gguf with .inp and .out, as `models/` of llama.cpp does. Without it pip fetches the source package of
llama-cpp-python (77 MB), which has them, into build/llama_vocabularies. Special tokens are neither added nor looked for in the
text: so the vectors were made.
"""

import json
import pathlib
import subprocess
import sys
import tarfile

PACKAGE = "llama-cpp-python==0.3.36"
ROOT = pathlib.Path(__file__).resolve().parents[1]


def fetched():
    folder = ROOT / "build/llama_vocabularies"
    if not list(folder.glob("*.inp")):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", folder,
                        PACKAGE], check=True)
        with tarfile.open(next(folder.glob("llama_cpp_python-*.tar.gz"))) as archive:
            for member in archive:
                name = pathlib.PurePosixPath(member.name).name
                if member.isfile() and name.startswith("ggml-vocab-"):
                    (folder / name).write_bytes(archive.extractfile(member).read())
    return folder


def main():
    rlx = pathlib.Path(sys.argv[1]).resolve()
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else fetched()
    right = total = 0
    for inputs in sorted(folder.glob("*.gguf.inp")):
        vocabulary = inputs.with_suffix("")
        # Each text ends with this line, before which stands a newline that is not part of it.
        texts = inputs.read_bytes().decode().split("\n__ggml_vocab_test__\n")
        wanted = [[int(n) for n in line.split()] for line in vocabulary.with_suffix(".gguf.out").read_text().splitlines()]
        if texts and texts[-1] == "": texts.pop()
        if len(texts) != len(wanted): sys.exit(f"{inputs} has {len(texts)} texts, but .out {len(wanted)} lines")
        done = subprocess.run([rlx, "tokenize", "--plain", "--model", vocabulary, "--", *texts], capture_output=True, text=True)
        if done.returncode:
            print(f"{vocabulary.name}: {done.stderr.strip()[:400]}")
            total += len(wanted)
            continue
        got = [json.loads(line) for line in done.stdout.splitlines()]
        if len(got) != len(wanted): sys.exit(f"{vocabulary.name}: rlx wrote {len(got)} lines of ids for {len(wanted)} texts")
        equal = [a == b for a, b in zip(got, wanted)]
        right, total = right + sum(equal), total + len(wanted)
        print(f"{vocabulary.name}: {sum(equal)} of {len(wanted)}")
        for text, a, b, same in zip(texts, got, wanted, equal):
            if not same: print(f"    {text!r:.80}\n        {a}\n        {b}")
    print(f"{right} of {total}")
    sys.exit(0 if right == total > 0 else 1)


main()
