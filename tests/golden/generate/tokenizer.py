"""Token ids of 5,000 lines, and what the normalizer does to every code point, by the `tokenizers` package.

usage: tokenizer.py MODEL_DIR      (the folder that holds tokenizer.json and vocab.txt of all-MiniLM-L6-v2)
writes tests/golden/tokenizer/: lines.txt, ids.jsonl, ids_256.jsonl, codepoints.txt, versions.json
"""
import itertools
import json
import pathlib
import sys
import unicodedata

from tokenizers import Tokenizer, normalizers, pre_tokenizers

import recorded
import tokenizer_lines

MAX_TOKENS = 256  # max_seq_length of sentence_bert_config.json; the 128 of tokenizer.json does not apply


def write_ids(path, encodings):
    rows = (json.dumps(e.ids, separators=(",", ":")) for e in encodings)
    path.write_text("".join(row + "\n" for row in rows), encoding="ascii")


def normalized(normalizer, c):
    """What becomes of one code point between two letters, and how the words fall: (kind, text)."""
    text = normalizer.normalize_str("a" + c + "b")
    assert text[0] == "a" and text[-1] == "b", (c, text)
    text = text[1:-1]
    if text == c:
        return "kept", ""
    if text == "":
        return "removed", ""
    if text == " ":
        return "space", ""
    if text == f" {c} ":
        return "spaced", ""
    if 0xAC00 <= ord(c) <= 0xD7A3:  # conjoining jamo are computed, not listed: The Unicode Standard, 3.12
        assert text == unicodedata.normalize("NFD", c), c
        return "jamo", ""
    return "becomes", " ".join(f"{ord(t):04X}" for t in text)


def words(pre_tokenizer, c):
    pieces = [piece for piece, _ in pre_tokenizer.pre_tokenize_str("a" + c + "b")]
    kinds = {("a" + c + "b",): "word", ("a", c, "b"): "alone", ("a", "b"): "between"}
    return kinds[tuple(pieces)]


def ranges(kinds):
    """Runs of equal kinds as (first, last, kind); `kinds` yields (code point, kind)."""
    for _, run in itertools.groupby(enumerate(kinds), key=lambda i: (i[1][0] - i[0], i[1][1])):
        run = [item for _, item in run]
        yield run[0][0], run[-1][0], run[0][1]


def write_codepoints(path, tokenizer):
    scalars = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    with path.open("w", encoding="ascii", newline="\n") as out:
        out.write("# normalize FIRST LAST KIND [TEXT]: a code point between two letters; absent means kept\n"
                  "#   removed, space (becomes U+0020), spaced (a space on both sides), jamo (canonical decomposition),\n"
                  "#   becomes TEXT (code points)\n"
                  "# split FIRST LAST KIND: how it then parts words; absent means it is part of the word\n"
                  "#   alone (a word of its own), between (parts words and is dropped)\n"
                  "# mark FIRST LAST: what StripAccents removes. number FIRST LAST: what Digits parts from letters.\n")
        for first, last, (kind, text) in ranges((c, normalized(tokenizer.normalizer, chr(c))) for c in scalars):
            if kind == "becomes":  # equal texts of neighbours are still one entry each
                for c in range(first, last + 1):
                    out.write(f"normalize {c:04X} {c:04X} becomes {text}\n")
            elif kind != "kept":
                out.write(f"normalize {first:04X} {last:04X} {kind}\n")
        for first, last, kind in ranges((c, words(tokenizer.pre_tokenizer, chr(c))) for c in scalars):
            if kind != "word":
                out.write(f"split {first:04X} {last:04X} {kind}\n")
        strip, digits = normalizers.StripAccents(), pre_tokenizers.Digits(individual_digits=True)
        for what, has in (("mark", lambda c: strip.normalize_str("a" + c) == "a"),
                          ("number", lambda c: len(digits.pre_tokenize_str("a" + c)) == 2)):
            for first, last, it_has in ranges((c, has(chr(c))) for c in scalars):
                if it_has:
                    out.write(f"{what} {first:04X} {last:04X}\n")


def main(model):
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    vocabulary = (model / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    out = recorded.folder("tokenizer")
    lines = tokenizer_lines.make(vocabulary)
    (out / "lines.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="\n")

    tokenizer.no_padding()
    tokenizer.no_truncation()
    full = [tokenizer.encode(line) for line in lines]  # one by one: no batch, no parallelism
    tokenizer.enable_truncation(MAX_TOKENS)
    cut = [tokenizer.encode(line) for line in lines]
    for a, b in zip(full, cut):
        assert b.ids == (a.ids if len(a.ids) <= MAX_TOKENS else a.ids[: MAX_TOKENS - 1] + a.ids[-1:])
    write_ids(out / "ids.jsonl", full)
    write_ids(out / "ids_256.jsonl", cut)
    write_codepoints(out / "codepoints.txt", tokenizer)
    recorded.write_versions(
        out, "tokenizer.py", ["tokenizers"], unicode_of_python=unicodedata.unidata_version, max_tokens=MAX_TOKENS, lines=len(lines),
        empty_lines=lines.count(""), lines_cut=sum(len(e.ids) > MAX_TOKENS for e in full), tokens=sum(len(e.ids) for e in full),
        unknown_tokens=sum(e.ids.count(100) for e in full), distinct_tokens=len({i for e in full for i in e.ids}))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
