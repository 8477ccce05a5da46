#!/usr/bin/env python3
"""Holds encoders of texts to the packages `transformers` and `sentence_transformers`: small models of random weights, 64 texts each.

    scripts/judge_encoders.py build/release/bin/rlx [--only NAME]... [--texts N] [--odd N] [--keep DIR]

Models with a head are read by `rlx logits`, a text at a time: logits of masked tokens, or of classes, within 1e-4 of transformers' in f32, and
the most likely one the same but for near ties (scripts/judge_language_models.py has the rule). Folders of sentence_transformers are read by
`rlx embed`, in padded batches: each number of each vector within 1e-5, or 1e-4 where nothing makes the norm 1.

With --odd instead, N configurations of ModernBERT have some keys by chance; each has transformers' logits or is refused.

Needs torch, transformers, sentence_transformers, tokenizers, numpy. tests/golden/generate/encoders.py keeps smaller models of the same kinds.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import numpy as np
import tokenizers
import torch
import transformers as tf
from judge_language_models import compare, logits

tf.utils.logging.disable_progress_bar()

SMALL = {"vocab_size": 131, "hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 4, "num_attention_heads": 4,
         "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}  # fmt: skip
WORDS = "the a cat dog sleeps runs on under mat tree and rain is expected tomorrow not very old blue library opens at nine".split()

# name: class of the model, configuration's class, what is not as in SMALL; `file` is what config.json has instead of what transformers
# writes (None: not at all); the reference is then what transformers makes of that file.
MODELS = {
    "modernbert_mlm": (tf.ModernBertForMaskedLM, tf.ModernBertConfig, {"local_attention": 16}),
    "modernbert_biases": (tf.ModernBertForMaskedLM, tf.ModernBertConfig, {
        "local_attention": 7, "norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True, "decoder_bias": False,
        "hidden_activation": "silu", "classifier_activation": "gelu_pytorch_tanh", "norm_eps": 1e-3,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"],
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 5e4}, "sliding_attention": {"rope_type": "default", "rope_theta": 333.0}}}),
    "modernbert_cls": (tf.ModernBertForSequenceClassification, tf.ModernBertConfig, {"local_attention": 10, "num_labels": 3}),
    "modernbert_cls_mean": (tf.ModernBertForSequenceClassification, tf.ModernBertConfig, {"classifier_pooling": "mean", "num_labels": 5}),
    # As the first files of ModernBERT have it.
    "modernbert_older_file": (tf.ModernBertForMaskedLM, tf.ModernBertConfig, {"local_attention": 12, "file": {
        "rope_parameters": None, "global_rope_theta": 160000.0, "local_rope_theta": 777.0, "layer_types": None, "global_attn_every_n_layers": 2,
        "position_embedding_type": "absolute", "sparse_prediction": True}}),
    "bert_mlm": (tf.BertForMaskedLM, tf.BertConfig, {}),
    "bert_cls": (tf.BertForSequenceClassification, tf.BertConfig, {"num_labels": 4, "hidden_act": "relu"}),
}  # fmt: skip
# Folders of sentence_transformers: the encoder, the pooling's modes, whether the norm is 1, the prompt.
SENTENCES = {
    "modernbert_sentences": ("modernbert", ("mean",), True, ""),
    "modernbert_first": ("modernbert", ("cls",), True, "rain : "),
    "modernbert_all_modes": ("modernbert", ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"), False, ""),
    "bert_largest": ("bert", ("max",), True, ""),
}


def randomized(model, seed):
    """Weights that give states of some units, norms and biases that are not neutral."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for at, p in model.named_parameters():
            if p.dim() == 1: p.add_(0.2 * torch.randn_like(p))
            elif "embedding" in at: p.copy_(0.3 * torch.randn_like(p))  # which is the output projection, too
            else: p.copy_(torch.randn_like(p) * 1.2 / p.shape[-1] ** 0.5)
    return model.float().eval()


def made(name, seed=1, **more):
    kind, configuration, options = MODELS[name]
    options = {**SMALL, **options, **more}
    options.pop("file", None)
    if configuration is tf.BertConfig:
        for key in ("cls_token_id", "sep_token_id"): options.pop(key)
    config = configuration(**options)
    config._attn_implementation = "eager"
    return randomized(kind(config), seed)


def as_in_file(folder, change, kind):
    """The model as transformers reads the folder, after keys of its config.json were changed."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **change}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()


def texts_for(count=64, seed=7, vocabulary=131):
    random = np.random.default_rng(seed)
    lengths = [1, 2, 3, 100, 64, 65] + list(random.integers(1, 90, count))
    return [random.integers(0, vocabulary, int(n)).tolist() for n in lengths[:count]]


def reference(model, texts):
    with torch.no_grad():
        rows = [model(torch.tensor([text]), attention_mask=torch.ones(1, len(text), dtype=torch.long)).logits for text in texts]
    return torch.cat([row[0] if row.dim() == 3 else row for row in rows]).numpy()


def tokenizer_of_words():
    """One token a word, [CLS] in front and [SEP] behind."""
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, ".", ",", ":"])}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    model.normalizer = tokenizers.normalizers.Lowercase()
    model.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    model.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    return tf.PreTrainedTokenizerFast(tokenizer_object=model, model_max_length=60, **names)


def sentences_for(count=64, seed=7):
    random = np.random.default_rng(seed)
    return ["", "Rain."] + [" ".join(random.choice(WORDS, random.integers(1, 80))) + "." for _ in range(count - 2)]


def save_sentences(name, folder, **more):
    """A folder as sentence_transformers writes it; the model that it reads from there."""
    import sentence_transformers as st
    from sentence_transformers.sentence_transformer import modules

    encoder, modes, is_normalized, prompt = SENTENCES[name]
    configuration = tf.ModernBertConfig if encoder == "modernbert" else tf.BertConfig
    options = {**SMALL, "vocab_size": 5 + len(WORDS) + 3, **({"local_attention": 16} if encoder == "modernbert" else {}), **more}
    if encoder == "bert":
        for key in ("cls_token_id", "sep_token_id"): options.pop(key)
    with tempfile.TemporaryDirectory() as plain:
        config = configuration(**options)
        config._attn_implementation = "eager"
        randomized((tf.ModernBertModel if encoder == "modernbert" else tf.BertModel)(config), 3).save_pretrained(plain)
        tokenizer_of_words().save_pretrained(plain)
        parts = [modules.Transformer(plain), modules.Pooling(options["hidden_size"], modes)]
        if is_normalized: parts.append(modules.Normalize())
        model = st.SentenceTransformer(modules=parts, device="cpu", **({"prompts": {"query": prompt}, "default_prompt_name": "query"} if prompt else {}))
        model.save_pretrained(str(folder), create_model_card=False)
    return st.SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def judge_odd(rlx, folder, count):
    """Configurations with some keys put in by chance: the logits are transformers', or a message refuses them."""
    odd = {
        "local_attention": [0, 1, 5, 8, 300], "global_attn_every_n_layers": [1, 2, 5], "layer_types": [None, ["full_attention"] * 4, ["sliding_attention"] * 4],
        "rope_parameters": [None, {}, {"full_attention": {"rope_type": "default", "rope_theta": 99.0}}, {"full_attention": {"rope_type": "linear", "factor": 2.0}},
                            {"rope_theta": 5e3, "rope_type": "default"}, {"sliding_attention": {"rope_theta": 55.0}, "full_attention": None}],
        "global_rope_theta": [3e3, None], "local_rope_theta": [3e3], "rope_scaling": [None, {}, {"rope_type": "linear", "factor": 2.0}], "rope_theta": [123.0],
        "norm_eps": [1e-2], "hidden_activation": ["relu", "gelu_pytorch_tanh", "gelu_new"], "classifier_activation": ["relu"], "head_dim": [12, 6],
        "tie_word_embeddings": [True, False], "sliding_window": [3, 8], "is_decoder": [True], "partial_rotary_factor": [0.5], "max_position_embeddings": [64],
        "num_labels": [7], "classifier_pooling": ["mean", "max"], "sparse_prediction": [True], "attention_dropout": [0.5], "head_pred_act": ["relu"],
    }  # fmt: skip
    random, wrong, told = np.random.default_rng(11), 0, {}
    made("modernbert_mlm").save_pretrained(folder)
    known = json.loads((folder / "config.json").read_text())
    text = random.integers(0, 131, 60).tolist()
    for _ in range(count):
        change = {str(key): odd[key][random.integers(len(odd[key]))] for key in random.choice(list(odd), random.integers(1, 5), False)}
        (folder / "config.json").write_text(json.dumps(known))
        try:
            wanted = reference(as_in_file(folder, change, tf.ModernBertForMaskedLM), [text])
        except Exception:  # whatever it fails with: such a file has no logits
            wanted = None
        try:
            got = logits(rlx, folder, [text], 512, folder)
        except RuntimeError:
            got = None
        kind = "refused" if got is None else "of files that transformers fails for" if wanted is None else "equal"
        if got is not None and wanted is not None and not np.abs(got - wanted).max() < 1e-4: kind = "WRONG"
        if kind == "WRONG": print(f"{json.dumps(change)}: WRONG, worst {np.abs(got - wanted).max():.2e}")
        if kind == "of files that transformers fails for": print(json.dumps(change))
        wrong += kind == "WRONG"
        told[kind] = told.get(kind, 0) + 1
    print(told)
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rlx", type=pathlib.Path, help="the program")
    parser.add_argument("--only", action="append", help="this model alone; may be given several times")
    parser.add_argument("--texts", type=int, default=64, help="texts for each model (default 64)")
    parser.add_argument("--odd", type=int, help="so many configurations with keys by chance: equal or refused")
    parser.add_argument("--keep", type=pathlib.Path, help="folder in which the models stay")
    args = parser.parse_args()
    rlx, wrong = args.rlx.resolve(), 0
    with tempfile.TemporaryDirectory() as temporary:
        place = args.keep or pathlib.Path(temporary)
        if args.odd: wrong = judge_odd(rlx, place / "odd", args.odd)
        for name in [] if args.odd else args.only or [*MODELS, *SENTENCES]:
            folder = place / name
            if name in SENTENCES:
                model, sentences = save_sentences(name, folder), sentences_for(args.texts)
                wanted = np.stack([model.encode(s) for s in sentences])
                lines, npy = place / "lines.txt", place / "out.npy"
                lines.write_text("".join(s + "\n" for s in sentences))
                done = subprocess.run([rlx, "embed", "--model", folder, "--file", lines, "--npy", npy], capture_output=True, text=True, check=False)
                if done.returncode:
                    wrong += 1
                    print(f"{name:44} WRONG: {done.stderr.strip()}")
                    continue
                worst, limit = float(np.abs(np.load(npy) - wanted).max()), 1e-5 if SENTENCES[name][2] else 1e-4
                wrong += worst > limit
                print(f"{name:44} {'ok   ' if worst <= limit else 'WRONG'} worst {worst:.2e} of numbers up to {np.abs(wanted).max():.1f}")
                continue
            model = made(name)
            model.save_pretrained(folder)
            if "file" in MODELS[name][2]: model = as_in_file(folder, MODELS[name][2]["file"], MODELS[name][0])
            texts = texts_for(args.texts)
            try:
                wrong += not compare(name, logits(rlx, folder, texts, 512, pathlib.Path(temporary)), reference(model, texts))
            except RuntimeError as error:
                wrong += 1
                print(f"{name:44} WRONG: {error}")
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
