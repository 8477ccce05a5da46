#!/usr/bin/env python3
"""What the package `tokenizers` does with the tokenizers of language models: writes language_tokenizers.json beside it, or judges.

    language_tokenizers.py                     # 40 lines a kind, committed
    language_tokenizers.py --judge 20000       # that many lines a kind, by the Python package of RLX, which must be importable

needs: pip install tokenizers==0.23.3 numpy. Each kind is trained on the documents of this repository; the lines are theirs, and
text of many scripts as in tokenizer_cases.py. Offsets are bytes of the text.
"""
import argparse
import json
import pathlib
import random
import sys
import tempfile

import tokenizers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import tokenizer_cases

ROOT = pathlib.Path(__file__).resolve().parents[2]
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<unk>", "<s>", "</s>", "<|end|>"]
EXTRA = ["", " ", "   ", "\n\n\n", "a  b\t\tc \n", " <s> x </s>y", "<|end|><|end|> z", "It's we'LL I'M 12345 3.14", "Ｆｕｌｌ ﬁ ① Å Å e\u0301",
         "日本語のテキスト、漢字。", "한국어 가각힣 \u1112\u1161\u11ab", "🙂👩‍👩‍👧‍👦🏳️‍🌈 é", "\u200b\u00ad\ufeff\u2028x\u0085y\u00a0z", "▁x▁ y▁", "def f(x):\n    return x**2\n",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "\x00\x01\x7f", "नमस्ते ไทย العربية", "x" * 40 + " " * 40]


def documents():
    lines = []
    for path in sorted(ROOT.glob("docs/*.md")):
        lines += [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return lines


def lines_of(count):
    rng = random.Random(7)
    docs = documents()
    words = tokenizer_cases.WORDS + SPECIAL + ["the", "model", "tensor", " ", "▁"]
    lines = list(EXTRA)
    while len(lines) < count:
        lines.append(rng.choice(docs) if rng.random() < 0.5 else tokenizer_cases.random_text(rng, words))
    return lines[:count]


def trained(model, trainer, normalizer=None, pre_tokenizer=None, post_processor=None, decoder=None):
    tok = Tokenizer(model)
    if normalizer: tok.normalizer = normalizer
    if pre_tokenizer: tok.pre_tokenizer = pre_tokenizer
    tok.train_from_iterator(documents(), trainer)
    if post_processor: tok.post_processor = post_processor
    if decoder: tok.decoder = decoder
    return tok


def bpe(size=420, alphabet=(), **options):
    return trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False, initial_alphabet=list(alphabet), **options)


def bytes_bpe(**parts):
    return trained(models.BPE(), bpe(alphabet=pre_tokenizers.ByteLevel.alphabet()), **{"decoder": decoders.ByteLevel(), **parts})


def changed(tok, **model):
    """The same with other settings of its model, which the trainer does not know."""
    file = json.loads(tok.to_str())
    file["model"].update(model)
    return Tokenizer.from_str(json.dumps(file))


def with_byte_tokens(tok):
    file = json.loads(tok.to_str())
    vocab = file["model"]["vocab"]
    for byte in range(256):
        token = f"<0x{byte:02X}>"
        if isinstance(vocab, list): vocab.append([token, -20.0])
        else: vocab.setdefault(token, len(vocab))
    file["model"]["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(file))


def kinds():
    template = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> $B:1 </s>:1", [("<s>", 1), ("</s>", 2)])
    spaces = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    sentence = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    yield "byte-level BPE", bytes_bpe(pre_tokenizer=pre_tokenizers.ByteLevel(False), post_processor=processors.ByteLevel(trim_offsets=True))
    yield "byte-level BPE behind a space", bytes_bpe(pre_tokenizer=pre_tokenizers.ByteLevel(True), post_processor=processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 1), trim_offsets=True, add_prefix_space=True))
    split = pre_tokenizers.Split(Regex(CL100K), "isolated")
    yield "byte-level BPE of a pattern, after NFC", changed(bytes_bpe(
        normalizer=normalizers.NFC(), pre_tokenizer=pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)]),
        post_processor=processors.Sequence([processors.ByteLevel(trim_offsets=False), template])), ignore_merges=True)
    yield "BPE with byte fallback", with_byte_tokens(trained(models.BPE(unk_token="<unk>", fuse_unk=True), bpe(), sentence, decoder=spaces))
    for scheme in ("always", "first", "never"):
        yield f"BPE with a mark of spaces, {scheme}", trained(
            models.BPE(unk_token="<unk>", fuse_unk=scheme == "first"), bpe(), normalizers.NFKC(), pre_tokenizers.Metaspace(prepend_scheme=scheme), template,
            decoders.Metaspace(prepend_scheme=scheme))
    yield "BPE with an end of words", trained(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), bpe(end_of_word_suffix="</w>"), normalizers.Sequence(
            [normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()]), pre_tokenizers.BertPreTokenizer(), None, decoders.BPEDecoder("</w>"))
    yield "BPE with a prefix inside of words", trained(
        models.BPE(unk_token="<unk>", continuing_subword_prefix="##"), bpe(continuing_subword_prefix="##"), normalizers.NFKD(),
        pre_tokenizers.Whitespace(), None, decoders.WordPiece("##"))
    unigram = lambda: trainers.UnigramTrainer(vocab_size=400, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    yield "unigram", trained(models.Unigram(), unigram(), normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]), pre_tokenizers.Metaspace(), template, decoders.Metaspace())
    yield "unigram with byte fallback", with_byte_tokens(trained(models.Unigram(), unigram(), normalizers.Strip(), pre_tokenizers.Metaspace(split=False),
                                                                 None, spaces))
    word_level = lambda: trainers.WordLevelTrainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False)
    yield "words", trained(models.WordLevel(unk_token="<unk>"), word_level(), None, pre_tokenizers.Whitespace())
    for number, pre in enumerate([
            pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(True)]), pre_tokenizers.Digits(False),
            pre_tokenizers.Punctuation("merged_with_previous"), pre_tokenizers.CharDelimiterSplit("e"), pre_tokenizers.FixedLength(3)]):
        yield f"words, split {number}", trained(models.WordLevel(unk_token="<unk>"), word_level(), None, pre)
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            yield f"words, {behavior}, {invert}", trained(models.WordLevel(unk_token="<unk>"), word_level(), None,
                                                          pre_tokenizers.Split(Regex(r"\s|\w{2}"), behavior, invert), None, decoders.CTC("x", " "))
    yield "WordPiece", trained(models.WordPiece(unk_token="<unk>"), trainers.WordPieceTrainer(vocab_size=400, special_tokens=SPECIAL, show_progress=False),
                               normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), template, decoders.WordPiece())


def recorded(tok, line):
    encoding = tok.encode(line)
    at = tokenizer_cases.bytes_of(line)
    return {"ids": encoding.ids, "offsets": [[at[a], at[b]] for a, b in encoding.offsets], "text": tok.decode(encoding.ids)}


def judge(count):
    import rlx  # noqa: F401  the package that is judged
    from rlx.models import Tokenizer as Ours
    lines, wrong_kinds = lines_of(count), 0
    for name, tok in kinds():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tokenizer.json"
            tok.save(str(path))
            ours = Ours(path)
        wrong = {"ids": 0, "offsets": 0, "text": 0, "stream": 0}
        for line in lines:
            want, got = recorded(tok, line), ours.encode(line)
            stream = ours.decode_stream()
            made = {"ids": got.ids.tolist(), "offsets": got.byte_offsets.tolist(), "text": ours.decode(got.ids)}
            streamed = "".join(stream.put(i) for i in want["ids"]) + stream.finish()
            for key, value in made.items(): wrong[key] += value != want[key]
            wrong["stream"] += streamed != want["text"]
            if made["ids"] != want["ids"] and wrong["ids"] <= 2: print(f"    {line!r:.70}\n      {made['ids']}\n      {want['ids']}")
        wrong_kinds += any(wrong.values())
        print(f"{name}: {count} lines, differing {wrong}", flush=True)
    sys.exit(1 if wrong_kinds else 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--judge", type=int)
    count = parser.parse_args().judge
    if count: judge(count)
    lines = lines_of(40)
    groups = [{"name": name, "tokenizer": json.loads(tok.to_str()), "cases": [recorded(tok, line) for line in lines]} for name, tok in kinds()]
    path = pathlib.Path(__file__).with_suffix(".json")
    out = {"made_by": "tests/io/language_tokenizers.py", "tokenizers": tokenizers.__version__, "lines": lines, "groups": groups}
    path.write_text(json.dumps(out, ensure_ascii=True, separators=(",", ":")) + "\n", encoding="ascii")
    print(path, path.stat().st_size, "bytes;", len(groups), "kinds")


if __name__ == "__main__":
    main()
