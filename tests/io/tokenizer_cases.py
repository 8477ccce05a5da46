#!/usr/bin/env python3
"""What the package `tokenizers` does with small tokenizers of every setting: writes tokenizer_cases.json beside it.

usage: tokenizer_cases.py      (needs: pip install tokenizers==0.23.3)

Offsets are given in bytes of the text, begin and end in turn; masks as digits. A piece of overflow of two texts has no overflow of its own here: the package
nests the same pieces again.
"""
import copy
import itertools
import json
import pathlib
import random

import tokenizers
from tokenizers import Tokenizer

CASED = "The Rain in Été New York".split()
WORDS = ("the a rain in spain falls main ##ly on plain ##s un ##aff ##able ##ing run ##n hello wor ##ld new york ete "
         "do not don t s m re it ' it's ##' strasse ss 3 ##14 14 . , ! ? - _ @ / : ( ) [ ] # ## ## ##a ... “ ” 北 京 ##京 "
         "東 ##東 ᄒ ##ᅡ ##ᆫ 🙂 ##🙂 i̇ ##̇ é ##é ا ##ا σ ##σ ς k ± € ␀ spaced").split()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + list("abcdefghijklmnopqrstuvwxyz") + [
    "##" + c for c in "abcdefghijklmnopqrstuvwxyz"] + CASED + WORDS

TEXTS = ["", " ", "the rain in Spain falls mainly on the plains.", "Unaffable RUNNING, hello-world!", "[CLS] a [SEP][MASK]b[UNK]",
         "[cls] [ SEP ] [MASK", "it's don't 3.14 New_York @re: (s/m)", "Été ÉTÉ ete\u0301 \u00e9te\u0301 \u212b \u01d5",
         "\u0301\u0300 a\u0323\u0301b a\u0301\u0323b \uac00\u302e\u0301 \uac01\u0301\u302e", "北京東京 x北y 北", "한국 하ㄴ 🙂🙂 x🙂",
         "STRASSE straße İi I\u0307 ΣΑΣ ΟΔΟΣ K \u2126", "a\u0000b\u0001c\u007fd\u00ade\u200bf\ufeffg\ufffdh\ue000i\U000e0041j",
         "a\tb\nc\rd\x0be\x0cf\x85g\u00a0h\u1680i\u2003j\u2028k\u2029l\u202fm\u3000n", "“quoted”…—‘it’ «x» ¿y? ±€ ␀",
         "abcdefghijklmnopqrstuvwxyz" * 4, "z" * 100, "z" * 101, "é" * 100 + " " + "é" * 101, "ﬁ ﬂ Ⅷ ２ｘ ﾊﾟ ５", "اَلْعَرَبِيَّة देवनागरी ไทย",
         "\u1ac1a\u1abf\u1ac0 \U00011938 \u0344 \u0f73\u0f71 \ufb2c \ufdfa", "x\U0001e944y \u08d3 \U00010efd \U00016ff0\u302e",
         "\u1c89\ua7cb\ua7dc\U00010d50\U00016ea0", "##a a##a # # ##", "a  [MASK]  b", "..., .. .!?", "new york New York NEW YORK newyork"]


def tokenizer(**changes):
    vocabulary = {}
    for token in VOCABULARY:
        vocabulary.setdefault(token, len(vocabulary))
    special = [dict(id=i, content=VOCABULARY[i], single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
               for i in range(5)]
    piece = {"cls": {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, "sep": {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
             "sep1": {"SpecialToken": {"id": "[SEP]", "type_id": 1}}, "a": {"Sequence": {"id": "A", "type_id": 0}},
             "b": {"Sequence": {"id": "B", "type_id": 1}}}
    result = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": [piece[k] for k in ("cls", "a", "sep")],
                           "pair": [piece[k] for k in ("cls", "a", "sep", "b", "sep1")],
                           "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for t, i in (("[CLS]", 2), ("[SEP]", 3))}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                  "vocab": vocabulary}}
    for key, value in changes.items():
        if key == "added": result["added_tokens"] += value
        elif isinstance(value, dict) and isinstance(result[key], dict): result[key] = {**result[key], **value}
        else: result[key] = value
    return copy.deepcopy(result)


def added(first_id, *tokens):
    keys = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
    return [dict(zip(keys, token), id=first_id + i) for i, token in enumerate(tokens)]


def random_text(rng, words):
    blocks = [(0x20, 0x7E), (0xA0, 0x17F), (0x300, 0x36F), (0x370, 0x52F), (0x600, 0x6FF), (0x1AB0, 0x1ACE), (0x1E00, 0x1FFF),
              (0x2000, 0x206F), (0x3000, 0x30FF), (0x4E00, 0x4F00), (0xAC00, 0xAC80), (0xF900, 0xFA20), (0x1F600, 0x1F640)]
    out = []
    for _ in range(rng.choice([1, 2, 4, 8, 16])):
        if rng.random() < 0.5: out.append(rng.choice(words) + rng.choice(["", " ", " ", "  "]))
        else: out.append("".join(chr(rng.randint(*rng.choice(blocks))) for _ in range(rng.randint(1, 4))))
    return "".join(out)


def bytes_of(text):
    at = [0]
    for c in text: at.append(at[-1] + len(c.encode()))
    return at


def recorded(encoding, texts, type_is_text):
    def offsets():
        places = [bytes_of(text) for text in texts]
        for (begin, end), type_id in zip(encoding.offsets, encoding.type_ids):
            place = places[type_id if type_is_text else 0]
            yield [place[begin], place[end]]
    def digits(column): return "".join(map(str, column))
    return {"ids": encoding.ids, "type_ids": digits(encoding.type_ids), "attention_mask": digits(encoding.attention_mask),
            "special_tokens_mask": digits(encoding.special_tokens_mask), "tokens": encoding.tokens,
            "words": [-1 if w is None else w for w in encoding.word_ids],
            "offsets": list(itertools.chain(*offsets())) if type_is_text or len(texts) == 1 else None}


def encode(tok, text, pair=None, special=True, type_is_text=True):
    texts = [text] if pair is None else [text, pair]
    case = {"texts": texts, "special": special}
    try:
        encoding = tok.encode(*texts, add_special_tokens=special)
    except BaseException as error:
        return {**case, "fails": True}
    return {**case, **recorded(encoding, texts, type_is_text),
            **({"overflowing": [recorded(o, texts, type_is_text) for o in encoding.overflowing]} if encoding.overflowing else {})}


def main():
    rng = random.Random(20240229)
    groups = []

    def group(name, file, texts, pairs=(), special=(True,), type_is_text=True, decode=()):
        tok = Tokenizer.from_str(json.dumps(file))
        cases = [encode(tok, t, None, s, type_is_text) for t in texts for s in special]
        cases += [encode(tok, a, b, s, type_is_text) for a, b in pairs for s in special]
        decoded = [{"ids": ids, "skip": skip, "text": tok.decode(ids, skip_special_tokens=skip)}
                   for ids in decode for skip in (True, False)]
        groups.append({"name": name, "tokenizer": file, "cases": cases, "decoded": decoded, "vocab_size": tok.get_vocab_size()})

    words = WORDS + CASED + VOCABULARY[:5] + ["Unaffable", "running", "plains"]
    texts = TEXTS + [random_text(rng, words) for _ in range(40)]
    few = TEXTS[:16] + TEXTS[19:24] + texts[-6:]
    size = tokenizer()["model"]["vocab"].__len__()
    ids = [[rng.randrange(size) for _ in range(rng.randint(0, 9))] for _ in range(40)] + [[size, 10**6, 7]]

    group("the BERT tokenizer", tokenizer(), texts, decode=ids)
    for changes in ({"lowercase": False}, {"strip_accents": False}, {"lowercase": False, "strip_accents": True}, {"clean_text": False},
                    {"handle_chinese_chars": False}):
        group(f"the normalizer with {changes}", tokenizer(normalizer=changes), few)
    group("no normalizer", tokenizer(normalizer=None), few)
    group("no pre-tokenizer", tokenizer(pre_tokenizer=None), few)
    group("words of at most 5 characters", tokenizer(model={"max_input_chars_per_word": 5}), few)
    group("another prefix", tokenizer(model={"continuing_subword_prefix": "wor"}), ["world worworld wor worwor"])

    content = ["New York", "<m>", "<mm>", "Été", "_", " spaced", "tail ", "ab", "\u3000x"]
    for flags in itertools.product((False, True), repeat=4):
        tokens = added(size, *[(c, *flags, False) for c in content if c not in tokenizer()["model"]["vocab"]])
        rng_texts = [random_text(rng, content + ["New  York", "new york", " <m> ", "a<mm>b", "ÉTÉ", "x_y", "tail x", "xab", " \t "])
                     for _ in range(8)]
        group(f"added tokens with single_word, lstrip, rstrip, normalized = {flags}", tokenizer(added=tokens), rng_texts,
              decode=[[size, size + 1, 7, size + 2]])

    pairs = [(a, b) for a, b in zip(few, few[3:] + few[:3])]
    group("two texts", tokenizer(), [], pairs, (True, False))
    group("BertProcessing", tokenizer(post_processor=None) | {"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}},
          few[:6], pairs[:8], (True, False))
    group("RobertaProcessing", tokenizer(post_processor=None) | {"post_processor": {
        "type": "RobertaProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2], "trim_offsets": True, "add_prefix_space": False}},
          few[:6], pairs[:8], (True, False), type_is_text=False)
    group("no post-processor", tokenizer(post_processor=None), few[:6], pairs[:8], (True, False))

    for strategy, direction, (length, stride) in itertools.product(("LongestFirst", "OnlyFirst", "OnlySecond"), ("Left", "Right"),
                                                                   ((8, 0), (13, 3))):
        truncation = {"max_length": length, "strategy": strategy, "stride": stride, "direction": direction}
        group(f"truncation {truncation}", tokenizer(truncation=truncation), few[2:5], pairs[1:6])
    for strategy, direction, multiple in (("BatchLongest", "Right", 8), ({"Fixed": 40}, "Left", None), ({"Fixed": 20}, "Right", 7)):
        padding = {"strategy": strategy, "direction": direction, "pad_to_multiple_of": multiple, "pad_id": 0, "pad_type_id": 0,
                   "pad_token": "[PAD]"}
        group(f"padding {padding}", tokenizer(padding=padding), few[:5], pairs[:3])
    group("no decoder", tokenizer(decoder=None) | {"decoder": None}, [], decode=ids[:10])
    group("a decoder without cleanup", tokenizer(decoder={"cleanup": False}), [], decode=ids[:10])

    # Not UTF-8: the package is given what Python makes of the bytes.
    tok = Tokenizer.from_str(json.dumps(tokenizer(normalizer={"clean_text": False})))
    byte_cases = []
    leads = [b"\xc0", b"\xc2", b"\xe0", b"\xe0\x80", b"\xe0\xa0", b"\xe1\x80", b"\xed\xa0\x80", b"\xef\xbf", b"\xf0\x80\x80\x80", b"\xf0\x90",
             b"\xf0\x90\x80", b"\xf4\x90\x80\x80", b"\xf5", b"\xff\xfe", b"\x80\x80", b"\xf1\x80\x80\xe1\x80\xc2", b"\xe2\x82\xac\xe2\x82"]
    for lead in leads:
        data = b"a" + lead + b" b " + lead
        byte_cases.append({"hex": data.hex(), "tokens": tok.encode(data.decode("utf-8", "replace")).tokens})
    out = {"made_by": "tests/io/tokenizer_cases.py", "tokenizers": tokenizers.__version__, "groups": groups,
           "bytes": {"tokenizer": tokenizer(normalizer={"clean_text": False}), "cases": byte_cases}}
    for g in groups[1:]:  # what all share is written once
        for key, value in groups[0]["tokenizer"].items():
            if key != "model" and g["tokenizer"][key] == value: del g["tokenizer"][key]
        if g["tokenizer"]["model"]["vocab"] == groups[0]["tokenizer"]["model"]["vocab"]: del g["tokenizer"]["model"]["vocab"]
    del out["bytes"]["tokenizer"]["model"]["vocab"]
    path = pathlib.Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(out, ensure_ascii=True, separators=(",", ":")) + "\n", encoding="ascii")
    print(path, path.stat().st_size, "bytes;", sum(len(g["cases"]) for g in groups), "cases")


if __name__ == "__main__":
    main()
