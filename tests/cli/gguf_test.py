#!/usr/bin/env python3
"""`rlx inspect` and `rlx convert` of GGUF files, on those that the package gguf wrote (tests/golden/generate/gguf_files.py)."""

import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import unittest

from program import GOLDEN, PROGRAM, ProgramTest, f32, read_npy, read_safetensors, rlx, write_safetensors

FILES = GOLDEN / "gguf"


class Gguf(ProgramTest):
    def test_a_file_is_shown(self):
        text = self.succeeds("inspect", FILES / "every_kind.gguf", "--all")
        self.assertIn("GGUF version 3, 36 tensors", text)
        for shown in ("blocks.q4_k", "q4_k[3, 512]", "one.string", "many.i16", "[-30000,1,0]", "metadata"):
            self.assertIn(shown, text)
        self.assertIn("GGUF version 3, 11 tensors", self.succeeds("inspect", FILES / "parts-00002-of-00003.gguf"))
        self.assertIn("GGUF version 3, big-endian", self.succeeds("inspect", FILES / "big_endian.gguf"))

    def test_a_file_is_told_as_json(self):
        told = json.loads(self.succeeds("inspect", FILES / "every_kind.gguf", "--json"))
        self.assertEqual((told["kind"], told["version"], told["byte_order"], told["files"]), ("gguf", 3, "little", 1))
        self.assertEqual(told["metadata"], json.loads((FILES / "metadata.json").read_text(encoding="utf-8"))["every_kind"])
        self.assertEqual(len(told["tensors"]), 36)
        self.assertIn({"name": "blocks.iq2_xs", "type": "iq2_xs[3, 512]"}, told["tensors"])

    def test_to_safetensors_and_back(self):
        out, back = self.folder / "out.safetensors", self.folder / "back.gguf"
        self.fails(1, "is q4_0.*--dequantize bf16", "convert", FILES / "every_kind.gguf", "-o", out)
        done = json.loads(self.succeeds("convert", FILES / "every_kind.gguf", "-o", out, "--dequantize", "f32", "--json"))
        self.assertEqual(done["tensors"], 36)
        self.assertIn("1 tensor of q4_k became f32", done["notes"])
        metadata, tensors = read_safetensors(out)
        _, wanted = read_safetensors(FILES / "expected.safetensors")
        for name, data in tensors.items():
            self.assertEqual(data, wanted[name + ("/values" if name.startswith("blocks.") else "/bytes")], name)
        self.assertIn("one.string", json.loads(metadata["gguf"]))
        self.succeeds("convert", out, "-o", back, "--quiet")
        self.assertEqual(json.loads(self.succeeds("inspect", back, "--json"))["metadata"],
                         json.loads((FILES / "metadata.json").read_text(encoding="utf-8"))["every_kind"])

    def test_gguf_anew_and_in_parts(self):
        out = self.folder / "out.gguf"
        self.succeeds("convert", FILES / "version2.gguf", "-o", out)
        self.assertEqual(out.read_bytes(), (FILES / "every_kind.gguf").read_bytes())
        self.succeeds("convert", out, "-o", self.folder / "p.gguf", "--shard-size", 5000)
        parts = sorted(self.folder.glob("p-*.gguf"))
        self.assertGreater(len(parts), 1)
        self.succeeds("convert", parts[0], "-o", self.folder / "whole.gguf")
        self.assertEqual((self.folder / "whole.gguf").read_bytes(), out.read_bytes())
        self.succeeds("convert", out, "-o", self.folder / "q.gguf", "--part-bytes", 5000)  # the former name
        self.assertEqual([path.read_bytes() for path in sorted(self.folder.glob("q-*.gguf"))],
                         [path.read_bytes() for path in parts])

    def test_shards(self):
        whole, shards = self.folder / "w.safetensors", self.folder / "s.safetensors"
        self.succeeds("convert", FILES / "every_kind.gguf", "-o", whole, "--dequantize", "f32")
        self.succeeds("convert", FILES / "every_kind.gguf", "-o", shards, "--dequantize", "f32", "--shard-size", "20KB")
        _, wanted = read_safetensors(whole)
        index = json.loads((self.folder / "s.safetensors.index.json").read_text())
        self.assertEqual(index["metadata"], {"total_size": sum(map(len, wanted.values()))})
        read = {}
        for name in sorted(set(index["weight_map"].values())):
            self.assertRegex(name, r"^s-0000\d-of-0000\d.safetensors$")
            for tensor, data in read_safetensors(self.folder / name)[1].items():
                self.assertEqual(index["weight_map"][tensor], name)
                read[tensor] = data
        self.assertEqual(read, wanted)
        self.fails(1, "remove it first", "convert", FILES / "every_kind.gguf", "-o", shards, "--dequantize", "f32", "--shard-size", "1GiB")
        self.fails(1, "remove it first", "convert", FILES / "every_kind.gguf", "-o", shards, "--dequantize", "f32")
        for size in ("", "x", "5 GB", "5gb", "0", "-1", "99999999999GB", "1.5GB"):
            if size: self.fails(2, "--shard-size takes a number of bytes", "convert", whole, "-o", self.folder / "x.gguf", "--shard-size=" + size)

    def test_a_model_is_not_held_in_memory(self):
        """384 MiB in matrices of 4 MiB, as a file with holes; the program takes some 70 MiB for itself."""
        if b"__asan_init" in pathlib.Path(PROGRAM).read_bytes():
            self.skipTest("the address sanitizer's own memory is more than what is measured")
        layers, width, folder = 12, 1024, self.folder / "large"
        shapes = {"model.embed_tokens.weight": [512, width], "lm_head.weight": [512, width], "model.norm.weight": [width]}
        for i in range(layers):
            at = f"model.layers.{i}."
            shapes |= {at + f"self_attn.{m}_proj.weight": [width, width] for m in "qkvo"}
            shapes |= {at + f"mlp.{m}_proj.weight": [width, width] for m in ("gate", "up", "down")}
            shapes |= {at + f"{n}_layernorm.weight": [width] for n in ("input", "post_attention")}
        header, end = {}, 0
        for name, shape in shapes.items():
            begin, end = end, end + 4 * math.prod(shape)
            header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
        folder.mkdir()
        text = json.dumps(header).encode()
        with open(folder / "model.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + end)
        config = {"model_type": "llama", "hidden_size": width, "intermediate_size": width, "num_hidden_layers": layers, "num_attention_heads": 8,
                  "num_key_value_heads": 8, "vocab_size": 512, "rms_norm_eps": 1e-6, "max_position_embeddings": 64}
        (folder / "config.json").write_text(json.dumps(config))
        self.assertGreater(end, 300 << 20)

        def peak(*words):
            """In MiB."""
            process = subprocess.Popen([PROGRAM, *map(str, words)], stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0, words)
            return usage.ru_maxrss / 1024

        made, quantized = self.folder / "m.gguf", self.folder / "q.gguf"
        for words in (("convert", folder, "-o", made), ("convert", folder, "-o", quantized, "--quantize", "q8_0"),
                      ("convert", made, "-o", self.folder / "f"), ("convert", quantized, "-o", self.folder / "p"),
                      ("convert", quantized, "-o", self.folder / "b", "--dequantize", "bf16"),
                      ("convert", made, "-o", self.folder / "m.safetensors", "--shard-size", "100MB")):
            with self.subTest(words):
                self.assertLess(peak(*words), 140)
                shutil.rmtree(words[3], ignore_errors=True)

    def test_matrices_are_quantized_and_vectors_not(self):
        weights, out = self.folder / "w.safetensors", self.folder / "w.gguf"
        write_safetensors(weights, {"m": ("F32", [2, 256], f32(*(i / 100 - 2 for i in range(512)))), "odd": ("F32", [2, 5], f32(*range(10))),
                                    "v": ("F32", [256], f32(*range(256)))})
        for kind in ("q8_0", "q4_k"):
            self.assertIn(f"1 tensor of f32 became {kind}", self.succeeds("convert", weights, "-o", out, "--quantize", kind))
            types = {t["name"]: t["type"] for t in json.loads(self.succeeds("inspect", out, "--json"))["tensors"]}
            self.assertEqual(types, {"m": f"{kind}[2, 256]", "odd": "f32[2, 5]", "v": "f32[256]"})
        self.assertEqual(json.loads(self.succeeds("inspect", out, "--json"))["metadata"], {"general.quantization_version": ["u32", 2]})
        self.fails(2, "--quantize takes one of q4_0, .*, and got 'q9'", "convert", weights, "-o", out, "--quantize", "q9")
        self.fails(2, "is of GGUF files", "convert", weights, "-o", weights, "--quantize", "q8_0")

    def test_metadata_of_kinds_follow_the_tensors(self):
        weights, out, plain = self.folder / "w.safetensors", self.folder / "w.gguf", self.folder / "plain.gguf"
        write_safetensors(weights, {"m": ("F32", [2, 32], f32(*range(64)))},
                          {"gguf": json.dumps({"general.file_type": ["u32", 0], "general.name": ["string", "mine"]})})
        metadata = lambda path: json.loads(self.succeeds("inspect", path, "--json"))["metadata"]
        self.succeeds("convert", weights, "-o", plain)
        self.assertEqual(metadata(plain), {"general.file_type": ["u32", 0], "general.name": ["string", "mine"]})
        self.succeeds("convert", plain, "-o", out, "--quantize", "q8_0")
        self.assertEqual(metadata(out), {"general.name": ["string", "mine"], "general.quantization_version": ["u32", 2]})

    def test_a_cut_file(self):
        whole, cut = (FILES / "version1.gguf").read_bytes(), self.folder / "cut.gguf"
        for size in range(len(whole) - 8):  # the last bytes are padding
            cut.write_bytes(whole[:size])
            with self.subTest(size):
                done = rlx("inspect", cut)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn("cut.gguf", done.stderr)

    def test_a_folder_of_a_language_model(self):
        folder, out, npy = GOLDEN / "language_models/qwen3_moe", self.folder / "moe.gguf", self.folder / "out.npy"
        told = json.loads(self.succeeds("convert", folder, "-o", out, "--json"))
        self.assertEqual(told["notes"], ["the folder has no tokenizer, and so has the file none"])
        self.assertEqual(told["tensors"], 27)
        shown = json.loads(self.succeeds("inspect", out, "--json"))
        self.assertEqual(shown["metadata"]["qwen3moe.expert_count"], ["u32", 4])
        self.assertEqual(shown["metadata"]["general.size_label"], ["string", "4x5.4K"])
        logits = []
        for model in (folder, out):
            self.succeeds("logits", "--model", model, "--tokens", folder / "ids.json", "--npy", npy)
            logits.append(read_npy(npy))
        self.assertEqual(logits[0], logits[1])
        packed = GOLDEN / "packed_language_models/awq"
        self.fails(1, "their numbers come from a table", "convert", GOLDEN / "packed_language_models/nf4", "-o", out)
        self.assertIn("moe.gguf", self.succeeds("convert", packed, "-o", out))
        types = {t["name"]: t["type"] for t in json.loads(self.succeeds("inspect", out, "--json"))["tensors"]}
        self.assertEqual(types["blk.0.attn_q.weight"], "q5_0[32, 32]")
        self.succeeds("convert", packed, "-o", out, "--dequantize", "bf16")
        self.succeeds("convert", packed, "-o", out, "--dequantize", "f32", "--quantize", "q8_0")
        types = {t["name"]: t["type"] for t in json.loads(self.succeeds("inspect", out, "--json"))["tensors"]}
        self.assertEqual((types["blk.0.attn_q.weight"], types["blk.0.attn_norm.weight"]), ("q8_0[32, 32]", "f32[32]"))
        self.fails(1, "'rope_type' in config.json is 'dynamic', for which GGUF has no word", "convert",
                   GOLDEN / "language_models/llama_dynamic", "-o", out)  # fmt: skip
        self.fails(2, "is a file of weights, and is made of one", "convert", folder, "-o", self.folder / "x.safetensors")
        self.fails(1, "config.json", "convert", self.folder, "-o", out)

    def test_a_file_of_a_language_model_as_a_folder(self):
        file, folder, npy = GOLDEN / "language_models/llama3.gguf", self.folder / "llama-3", self.folder / "out.npy"
        told = json.loads(self.succeeds("convert", file, "-o", folder, "--json"))
        self.assertEqual((told["folder"], told["tensors"]), (str(folder), 21))
        self.assertEqual(told["notes"], ["the file has no tokenizer, and so has the folder none"])
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual((config["model_type"], config["architectures"]), ("llama", ["LlamaForCausalLM"]))
        rope = {"rope_type": "llama3", "type": "llama3", "factor": 8.0, "original_max_position_embeddings": 32, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        self.assertEqual(config["rope_scaling"], rope)
        logits = []
        for model in (folder, file):
            self.succeeds("logits", "--model", model, "--tokens", GOLDEN / "language_models/llama3/ids.json", "--npy", npy)
            logits.append(read_npy(npy))
        self.assertLess(max(abs(a - b) for a, b in zip(logits[0][1], logits[1][1])), 1e-4)
        self.fails(2, "is there, and not an empty folder", "convert", file, "-o", folder)
        self.fails(2, "is of GGUF files, and -o is the folder", "convert", file, "-o", self.folder / "x", "--quantize", "q8_0")
        self.fails(1, "general.architecture", "convert", FILES / "every_kind.gguf", "-o", self.folder / "y")
        self.assertFalse((self.folder / "y").exists())


if __name__ == "__main__":
    unittest.main()
