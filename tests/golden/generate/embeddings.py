"""200 varied sentences and their embeddings by PyTorch, cross-checked in f64, in padded batches and by ONNX Runtime.

usage: embeddings.py MODEL_DIR MINILM_ONNX   (the model's folder; the same weights as an ONNX file with the inputs
       input_ids, attention_mask, token_type_ids and the output `embedding`)
writes tests/golden/embeddings/: sentences.txt, embeddings.npy ([200, 384] f32), versions.json
"""
import sys
import unicodedata

import numpy as np
import onnxruntime
import torch

import recorded
import sentences as texts
from encoder import MAX_TOKENS, Encoder


def choose():
    """200 lines: all of English, one sentence of each other language, then everything that is awkward."""
    english = texts.lines(texts.ENGLISH)
    chosen = english + [texts.lines(t)[0] for t in texts.OTHERS.values()]
    long = " ".join(english)  # some 700 tokens
    chosen += [
        "", "a", ".", "?!", " ", "\t", "0", "é", "字", "😀", "[MASK]", "[UNK] [PAD]", "I", "THE END", "the end", "The End",
        "tHe LiBrArY oPeNs At NiNe.", "THE LIBRARY OPENS AT NINE AND CLOSES AT SIX.",
        "  The library   opens\tat nine   and closes at six.  ", "The\u200blibrary\u00adopens\u2060at nine.", "T\u0301h\u0308e\u0323 library",
        "naïve café résumé", "naive cafe resume", unicodedata.normalize("NFD", "naïve café résumé"), "ﬁne oﬃce ﬂour", "fine office flour",
        "I love 🍕 and ☕️ in the morning!", "👨‍👩‍👧‍👦 at the 🏖️", "🎉🎉🎉🎉🎉", "🇩🇪 vs 🇧🇷 7:1", "(╯°□°)╯︵ ┻━┻", "\\o/ :-) <3",
        "", "word " * 40, "buffalo " * 8, "no no no no no no yes", "a" * 99, "a" * 100, "a" * 101, "x" * 500,
        " ".join(["a"] * 253), " ".join(["a"] * 254), " ".join(["a"] * 255), long[:600], long[:1200], long, long + " " + long, long.upper(),
        " ".join(texts.lines(texts.OTHERS["russian"]) * 6), "".join(texts.lines(texts.OTHERS["chinese"]) * 8),
        " ".join(texts.CODE)[:900], "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", "x = 1; y = x ** 2; print(y)",
        "SELECT * FROM users WHERE id = 1;", "Ünïcödé ÄÖÜ ß ẞ İ ı ſ", "\ufeffstarts with a byte order mark", "ends with a replacement \ufffd",
        "-", "--", "---", "e-mail: first.last@example.org", "https://www.example.com/path?q=1#top", "C++ and C# are not C", "$12.50 + 19% = ?",
        "don't can't won't", "don’t can’t won’t", "x² + y² = z²", "Ⅻ ½ ④ № ™", "ＦＵＬＬ ｗｉｄｔｈ", "e\u0301\u0301\u0301\u0301 stacked marks"]
    chosen += texts.NUMBERS[:3] + texts.ADDRESSES[:3] + texts.PUNCTUATION[:3] + texts.CODE[:3]
    return [c.strip("\n") for c in chosen][:200]


def onnx_rows(path, encoder, sentences):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    rows = []
    for sentence in sentences:
        ids, keep = encoder.padded([sentence])
        feeds = {"input_ids": ids, "attention_mask": keep.astype(np.int64), "token_type_ids": np.zeros_like(ids)}
        rows.append(session.run(["embedding"], feeds)[0])
    return np.concatenate(rows)


def main(model, onnx_file):
    sentences = choose()
    assert len(sentences) == 200 and sentences[-1] and all(len(s.splitlines()) <= 1 for s in sentences)
    encoder = Encoder(model)
    truth = encoder.embed(sentences)
    others = {
        "f64": Encoder(model, torch.float64).embed(sentences),
        "padded_batches_of_8": encoder.embed_padded(sentences, 8),
        "padded_batches_of_32": encoder.embed_padded(sentences, 32),
        "onnxruntime": onnx_rows(onnx_file, encoder, sentences),
    }
    differences = {name: float(np.abs(rows - truth).max()) for name, rows in others.items()}
    print(differences)
    assert truth.shape == (200, 384) and truth.dtype == np.float32 and max(differences.values()) < 1e-6

    out = recorded.folder("embeddings")
    (out / "sentences.txt").write_text("".join(s + "\n" for s in sentences), encoding="utf-8", newline="\n")
    np.save(out / "embeddings.npy", truth)
    lengths = [len(encoder.tokenizer.encode(s).ids) for s in sentences]
    recorded.write_versions(
        out, "embeddings.py", ["torch", "numpy", "tokenizers", "safetensors", "onnxruntime"], truth="torch f32, one sentence at a time, no padding",
        largest_difference={name: f"{d:.1e}" for name, d in differences.items()}, max_tokens=MAX_TOKENS,
        sentences_of_max_tokens=lengths.count(MAX_TOKENS), distinct_lengths=len(set(lengths)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
