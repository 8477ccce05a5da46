#!/usr/bin/env python3
"""`rlx logits`: small models of tests/golden/language_models, and what is refused."""

import json
import math
import pathlib
import shutil
import struct
import tempfile
import unittest

from program import GOLDEN, ProgramTest, read_npy, rlx

MODELS = GOLDEN / "language_models"
PACKED = GOLDEN / "packed_language_models"


class Logits(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tokens(self, content):
        path = self.folder / "ids.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def logits(self, model, tokens, *more):
        self.succeeds("logits", "--model", MODELS / model, "--tokens", tokens, "--npy", self.folder / "out.npy", *more)
        return read_npy(self.folder / "out.npy")

    def test_a_row_for_each_token_as_transformers_has_it(self):
        for model in ("qwen3_yarn", "qwen3_yarn.gguf", "gemma3", "gpt2.gguf", "qwen3_moe"):
            with self.subTest(model):
                name = model.split(".")[0]
                shape, wanted = read_npy(MODELS / name / "logits.npy")
                for more in ((), ("--chunk", 9), ("--threads", 1)):
                    got_shape, got = self.logits(model, MODELS / name / "ids.json", *more)
                    self.assertEqual(got_shape, shape)
                    self.assertLess(max(abs(a - b) for a, b in zip(got, wanted)), 1e-4)

    def worst(self, got, wanted):
        return max(abs(a - b) for a, b in zip(got, wanted))

    def test_adapters_stand_beside_plain_and_packed_models(self):
        for base, adapter in ((MODELS / "llama3", "lora_llama3"), (PACKED / "awq", "rslora_awq")):
            with self.subTest(adapter):
                ids = self.tokens(json.loads((PACKED / "awq" / "ids.json").read_text()))
                shape, wanted = read_npy(PACKED / f"{adapter}.npy")
                got_shape, got = self.logits(base, ids, "--lora", PACKED / adapter)
                self.assertEqual(got_shape, shape)
                self.assertLess(self.worst(got, wanted), 1e-4)
                _, twice = self.logits(base, ids, "--lora", f"{PACKED / adapter}=0.25", "--lora", f"{PACKED / adapter}=0.75")
                self.assertLess(self.worst(twice, wanted), 1e-4)
                _, none = self.logits(base, ids, "--lora", f"{PACKED / adapter}=0")
                self.assertGreater(self.worst(none, wanted), 0.1)
        for adapter, message in (("no/such", "reading the adapter 'no/such'"), (f"{PACKED / 'lora_llama3'}=inf", "its scale is inf"),
                                 (f"{PACKED / 'lora_llama3'}=x", "there is no such folder or file")):
            with self.subTest(adapter):
                self.fails(1, message, "logits", "--model", MODELS / "llama3", "--tokens", self.tokens([1]), "--lora", adapter)

    def test_caches_of_blocks_round_as_gguf_does_it_in_transformers(self):
        folder = GOLDEN / "block_caches"
        _, exact = read_npy(folder / "logits_f32.npy")
        for cache in ("q8_0", "q4_0"):
            with self.subTest(cache):
                _, wanted = read_npy(folder / f"logits_{cache}.npy")
                usual = self.worst(wanted, exact)
                _, got = self.logits(folder, folder / "ids.json", "--cache", cache)
                self.assertLess(self.worst(got, wanted), 0.2 * usual)
                self.assertGreater(self.worst(got, exact), usual / 1.2)
        self.fails(1, "heads have 8, which is no multiple", "logits", "--model", MODELS / "llama3", "--tokens", folder / "ids.json", "--npy",
                   self.folder / "no.npy", "--cache", "q8_0")
        self.fails(2, r"f32,f16,bf16,q8_0,q4_0", "logits", "--model", folder, "--tokens", folder / "ids.json", "--npy", self.folder / "no.npy", "--cache", "q5_0")

    def test_packed_folders_are_inspected(self):
        for kind, text in (("awq", "AWQ, 4 bits, groups of 32"), ("gptq_column", "GPTQ, 4 bits, a group for each column"),
                           ("nf4", "bitsandbytes, 4 bits"), ("mlx_6", "MLX, 6 bits, groups of 32")):
            with self.subTest(kind):
                printed = self.succeeds("inspect", PACKED / kind)
                self.assertIn(text, printed)
                self.assertIn("model.embed_tokens.weight", printed)
        told = json.loads(self.succeeds("inspect", PACKED / "gptq_3", "--json"))
        self.assertEqual(told["kind"], "language model")
        self.assertEqual(told["packing"], {"method": "gptq", "bits": 3, "group": 32})
        self.assertIn({"name": "model.layers.0.mlp.down_proj.qweight", "type": "i32[6, 32]"}, told["tensors"])
        self.assertIn("not packed", self.succeeds("inspect", MODELS / "qwen2"))

    def test_texts_of_their_own_follow_one_another(self):
        _, one = self.logits("gpt2", self.tokens([3, 4, 5]))
        shape, both = self.logits("gpt2", self.tokens([[3, 4, 5], [9], [3, 4, 5]]))
        self.assertEqual(shape, (7, 41))
        self.assertEqual(list(both[: 3 * 41]), list(one))
        self.assertEqual(list(both[4 * 41 :]), list(one))

    def test_without_a_file_the_most_likely_tokens_are_printed(self):
        shape, values = read_npy(MODELS / "gpt2" / "logits.npy")
        last = values[-shape[1] :]
        text = self.succeeds("logits", "--model", MODELS / "gpt2", "--tokens", MODELS / "gpt2" / "ids.json", "--profile")
        self.assertEqual(int(text.splitlines()[1].split()[0]), max(range(shape[1]), key=last.__getitem__))
        self.assertIn("flash_attention", text)

    def test_logits_that_are_no_numbers_have_no_place_in_the_order(self):
        model = self.folder / "model"
        shutil.copytree(MODELS / "llama3", model)
        data = bytearray((model / "model.safetensors").read_bytes())
        (size,) = struct.unpack("<Q", data[:8])
        entry = json.loads(data[8 : 8 + size])["lm_head.weight"]
        begin, width = 8 + size + entry["data_offsets"][0], 4 * entry["shape"][1]
        shape, values = read_npy(MODELS / "llama3" / "logits.npy")
        order = sorted(range(shape[1]), key=values[-shape[1] :].__getitem__, reverse=True)
        spoiled = set(order[::3])
        for row in spoiled:
            data[begin + row * width : begin + row * width + 4] = struct.pack("<f", math.nan)
        (model / "model.safetensors").write_bytes(data)
        result = rlx("logits", "--model", model, "--tokens", MODELS / "llama3" / "ids.json")
        self.assertEqual(result.returncode, 0)
        self.assertIn("14 of the 41 logits behind the last token are NaN", result.stderr)
        got = [int(line.split()[0]) for line in result.stdout.splitlines()[1:]]
        self.assertEqual(got, [row for row in order if row not in spoiled][:10])

    def test_what_is_wrong_is_said(self):
        good = self.tokens([1, 2])
        for content, message in (
            ("{}", "it is an object of 0 members, not an array of token ids"), ("[", "ids.json"), ("[]", "it has no tokens"),
            ("[1, 2.5]", "token 1 is 2.5, not an id"), ("[1, \"a\"]", "token 1 is \"a\", not an id"), ("[99999999999]", "token 0 is 99999999999, not an id"),
            ("[[1], 2]", "item 1 is 2, not an array as the first"), ("[[1], []]", "it has no tokens"), ("[41]", "token 0 is 41, but the vocabulary has 0 to 40"),
            ("[-1]", "token 0 is -1, but the vocabulary has 0 to 40"),
        ):  # fmt: skip
            with self.subTest(content):
                path = self.folder / "bad" / "ids.json"
                path.parent.mkdir(exist_ok=True)
                path.write_text(content)
                self.assertIn(message, self.fails(1, "error", "logits", "--model", MODELS / "gpt2", "--tokens", path))
        for arguments, code, message in (
            (["--model", MODELS / "gpt2"], 2, "--tokens is required"), (["--tokens", good], 2, "--model is required"),
            (["--model", MODELS / "gpt2", "--tokens", good, "--chunk", 0], 2, "--chunk"),
            (["--model", self.folder / "none", "--tokens", good], 1, "there is no such folder or file"),
            (["--model", self.folder, "--tokens", good], 1, "config.json"),
            (["--model", MODELS / "gpt2", "--tokens", self.folder / "none.json"], 1, "none.json"),
            (["--model", MODELS / "gpt2", "--tokens", good, "--npy", self.folder / "no" / "out.npy"], 1, "out.npy"),
            (["--model", MODELS / "gpt2", "--tokens", good, "--context", 1], 1, "0 tokens and 2 more do not fit a context of 1"),
            (["--model", MODELS / "gpt2", "--tokens", good, "--device", "warp"], 1, "warp"),
        ):  # fmt: skip
            with self.subTest(arguments):
                self.assertIn(message, self.fails(code, "rlx", "logits", *arguments))


if __name__ == "__main__":
    unittest.main()
