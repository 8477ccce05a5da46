"""Small tokenizers as Hugging Face folders have them, and what the package `tokenizers` makes of texts: tests/golden/gguf_tokenizers/.

usage: gguf_tokenizers.py [NAME]...     (needs tokenizers and sentencepiece; without names all are made anew)

Each folder has a tokenizer.json of 400 to 600 tokens, learnt from the project's documents, with the parts of a known model's; a
tokenizer_config.json, and ids.json: [[text, ids with special tokens], ...]. Those of SentencePiece are trained by it, and become a
tokenizer.json as transformers does it (convert_slow_tokenizer.py): a merge for each way in which two pieces are a third; scores.json has
the scores of its pieces.
"""

import io
import json
import pathlib
import shutil
import subprocess
import sys

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / "tests/golden/gguf_tokenizers"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]  # fmt: skip
TEXTS = ["", " ", "Hello, world!", "  two  spaces\tand\n\nlines \r\n end ", "naïve façade, Größe, 日本語 한국어 русский العربية",
         "😀👍🏽", "I'LL WE'RE can't 1234567 1,234.5", "x=1;y[2]<=3 && foo->bar() // c\n\tif (a) { b; }\n\n\n", "<|end|> text <|begin|> x",
         "a<tool>b </tool> c", "...!!!---=== $100 + €200", "word\n  indented\n    more\n", "zero\u200bwidth \u3000 wide", "½ ² Ⅷ ١٢٣"]  # fmt: skip


def documents():
    files = subprocess.run(["git", "ls-files", "README.md", "CONTRIBUTING.md", "docs/*.md"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [line for name in sorted(files.stdout.split()) for line in (ROOT / name).read_text(encoding="utf-8").split("\n")]


def split(*patterns):
    steps = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def byte_level(lines, pre, size, **options):
    made = Tokenizer(models.BPE(**options))
    made.pre_tokenizer, made.decoder = pre, decoders.ByteLevel()
    made.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                                        special_tokens=["<|begin|>", "<|end|>"]))  # fmt: skip
    return made


def with_bos(made, bos, eos=None):
    special = [(t, made.token_to_id(t)) for t in (bos, eos) if t]
    made.post_processor = processors.TemplateProcessing(single=f"{bos} $A {eos or ''}".strip(), special_tokens=special)
    return made


def sentence_piece(lines, normalizer, pre, folder, names=("<unk>", "<s>", "</s>")):
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=buffer, vocab_size=600, model_type="bpe", byte_fallback=True, character_coverage=0.999,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True,
        unk_piece=names[0], bos_piece=names[1], eos_piece=names[2], num_threads=1, minloglevel=2)  # fmt: skip
    sp = sentencepiece.SentencePieceProcessor(model_proto=buffer.getvalue())
    vocab = {sp.id_to_piece(i): i for i in range(len(sp))}
    scores = {sp.id_to_piece(i): sp.get_score(i) for i in range(len(sp))}
    merges = []
    for piece, score in scores.items():
        local = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in vocab and piece[i:] in vocab]
        merges += [(a, b, score) for a, b in sorted(local, key=lambda m: (vocab[m[0]], vocab[m[1]]))]
    merges = [(a, b) for a, b, _ in sorted(merges, key=lambda m: m[2], reverse=True)]
    made = Tokenizer(models.BPE(vocab, merges, unk_token=names[0], fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizer
    if pre: made.pre_tokenizer = pre
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.add_special_tokens([AddedToken(t, normalized=False) for t in names])
    folder.mkdir(parents=True)
    (folder / "scores.json").write_text(json.dumps([sp.get_score(i) for i in range(len(sp))]) + "\n")
    return with_bos(made, names[1])


def unigram(lines):
    """As T5's: SentencePiece's own table of characters (nmt_nfkc), and a tokenizer.json as transformers makes it (SpmConverter)."""
    from sentencepiece import sentencepiece_model_pb2

    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=buffer, vocab_size=500, model_type="unigram", character_coverage=0.999, pad_id=0, eos_id=1, unk_id=2,
        bos_id=-1, num_threads=1, minloglevel=2)  # fmt: skip
    proto = sentencepiece_model_pb2.ModelProto.FromString(buffer.getvalue())
    made = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], unk_id=2, byte_fallback=False))
    table = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    made.normalizer = normalizers.Sequence([table, normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")])
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    made.add_special_tokens([AddedToken(t, normalized=False) for t in ("<pad>", "</s>", "<unk>")])
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return made


def word_piece(lines, lowercase):
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(lowercase=lowercase), pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=560, show_progress=False, special_tokens=special))
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return made


def main():
    lines, only = documents(), sys.argv[1:]
    prefixed = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    ways = {
        "gpt2": lambda: byte_level(lines, pre_tokenizers.ByteLevel(add_prefix_space=False), 420),
        "llama3": lambda: with_bos(byte_level(lines, split(LLAMA3), 420, ignore_merges=True), "<|begin|>"),
        "qwen2": lambda: byte_level(lines, split(LLAMA3.replace("{1,3}", "")), 420),
        "deepseek": lambda: with_bos(byte_level(lines, split(*DEEPSEEK), 420), "<|begin|>", "<|end|>"),
        "llama2": lambda: sentence_piece(lines, prefixed, None, FOLDER / "llama2"),
        "gemma": lambda: sentence_piece(lines, normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"), FOLDER / "gemma",
                                        ("<unk>", "<bos>", "<eos>")),
        "t5": lambda: unigram(lines),
        "bert": lambda: word_piece(lines, True),
        "bert_cased": lambda: word_piece(lines, False),
    }  # fmt: skip
    for name in only or ways:
        folder = FOLDER / name
        shutil.rmtree(folder, ignore_errors=True)
        made = ways[name]()
        if name == "qwen2":
            made.normalizer = normalizers.NFC()
            made.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("</tool>", normalized=False)])
        if name == "gemma":
            made.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("▁▁▁▁▁▁▁▁▁", normalized=False), AddedToken("\n\n\n", normalized=False)])
        folder.mkdir(parents=True, exist_ok=True)
        made.save(str(folder / "tokenizer.json"), pretty=False)
        eos = {"llama2": "</s>", "gemma": "<eos>", "t5": "</s>", "bert": "[SEP]", "bert_cased": "[SEP]"}.get(name, "<|end|>")
        bos = {"llama2": "<s>", "gemma": "<bos>", "t5": "<pad>", "bert": "[CLS]", "bert_cased": "[CLS]"}.get(name, "<|begin|>")
        config = {"bos_token": bos, "eos_token": {"content": eos, "__type": "AddedToken"}, "chat_template": "{{ bos_token }}{{ messages[0].content }}"}
        (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
        (folder / "ids.json").write_text(json.dumps([[t, made.encode(t).ids] for t in TEXTS], ensure_ascii=False) + "\n", encoding="utf-8")
    versions = {"tokenizers": tokenizers.__version__, "sentencepiece": sentencepiece.__version__}
    (FOLDER / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()
