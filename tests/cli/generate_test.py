#!/usr/bin/env python3
"""`rlx generate`, `rlx chat` and `rlx perplexity`: a small model of tests/golden/language_models with a tokenizer of letters beside it."""

import json
import math
import shutil
import unittest

from program import GOLDEN, ProgramTest, read_npy, rlx

MODEL = GOLDEN / "language_models/gpt2"
LETTERS = "abcdefghijklmnopqrstuvwxyzéABCDEF .\n:|"  # 38 of the model's 41 tokens
TEMPLATE = ("{% for m in messages %}{{ m.role[0] }}:{{ m.content }}|{% endfor %}{{ 'X' if loud else '' }}"
            "{% if add_generation_prompt %}a:{% endif %}")


class LanguageTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        shutil.copytree(MODEL, self.model)
        vocabulary = {letter: i for i, letter in enumerate(LETTERS)} | {"<s>": 38, "<unk>": 39, "</s>": 40}
        tokens = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                  for t, i in vocabulary.items() if i >= 38]
        (self.model / "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "added_tokens": tokens, "normalizer": None, "pre_tokenizer": None, "post_processor": None,
            "decoder": {"type": "Fuse"}, "model": {"type": "BPE", "vocab": vocabulary, "merges": [], "unk_token": "<unk>"}}))

    def advise(self, **what):
        (self.model / "generation_config.json").write_text(json.dumps(what))

    def generate(self, *arguments, **how):
        result = rlx("generate", "--model", self.model, *arguments, **how)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def written(self, *arguments, **how):
        """The answer of --json."""
        result = self.generate("--json", *arguments, **how)
        self.assertEqual(result.stderr, "")
        return json.loads(result.stdout)


class Generate(LanguageTest):
    def test_greedy_text_is_that_of_the_logits(self):
        made = self.written("--prompt", "abc", "--temperature", 0, "--max-tokens", 8)
        ids = [LETTERS.index(c) for c in "abc"]
        for token in made["tokens"]:
            path = self.file("ids.json", json.dumps(ids))
            likely = json.loads(self.succeeds("logits", "--model", self.model, "--tokens", path, "--json"))
            self.assertEqual(sorted(likely, key=lambda row: -row["logit"]), likely)
            self.assertEqual(set(likely[0]), {"token", "logit", "text"})
            table = self.succeeds("logits", "--model", self.model, "--tokens", path).splitlines()
            self.assertEqual(int(table[1].split()[0]), token)
            ids.append(token)
        self.assertEqual(made["prompt_tokens"], 3)
        self.assertEqual(made["finish"] == "length", len(made["tokens"]) == 8)
        self.assertGreater(made["decode_seconds"], 0)

    def test_the_text_comes_as_it_is_and_times_go_beside_it(self):
        arguments = ("--temperature", 1.5, "--seed", 4, "--max-tokens", 30)
        wanted = self.written("--prompt", "abc", *arguments)
        for more, how in ((("--prompt", "abc"), {}), ((), {"stdin": "abc\n"}), (("--file", "-"), {"stdin": "abc"}),
                          (("--file", self.file("text", "abc\n")), {})):
            with self.subTest(more):
                result = self.generate(*more, *arguments, **how)
                self.assertEqual(result.stdout, wanted["text"] + "\n")
                self.assertRegex(result.stderr, r"^rlx: loaded in .* s, read 3 tokens in .* a second\), wrote \d+ tokens? in .*; ended by \w+\n$")

    def test_a_seed_gives_its_text(self):
        texts = [self.written("--prompt", "abc", "--max-tokens", 40, "--top-k", 20, "--seed", seed)["tokens"] for seed in (1, 1, 2)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_a_stop_string_ends_the_text_before_it(self):
        arguments = ("--prompt", "abc", "--temperature", 2, "--seed", 9, "--max-tokens", 60)
        text = self.written(*arguments)["text"]
        stop = text[10:13]  # of three tokens
        wanted = text[: text.index(stop)]
        made = self.written(*arguments, "--stop", "no such text", "--stop", stop)
        self.assertEqual((made["text"], made["finish"]), (wanted, "stop"))
        self.assertEqual(self.generate(*arguments, "--stop", stop).stdout, wanted + "\n")

    def test_the_end_token_ends_the_text_and_the_files_advice_counts(self):
        free = self.written("--prompt", "abc", "--temperature", 0, "--max-tokens", 5)
        self.advise(eos_token_id=free["tokens"][1], do_sample=True, temperature=0.0001)
        made = self.written("--prompt", "abc", "--max-tokens", 5)
        end = free["tokens"].index(free["tokens"][1])
        self.assertEqual((made["tokens"], made["finish"]), (free["tokens"][: end + 1], "end"))

    def test_the_context_ends_the_text(self):
        made = self.written("--prompt", "abcd", "--temperature", 3, "--context", 7)
        self.assertEqual((made["finish"], len(made["tokens"])), ("context", 4))
        self.fails(1, "the text has 4 tokens, which leave no room in a context of 4", "generate", "--model", self.model, "--prompt", "abcd", "--context", 4)

    def test_what_is_wrong_is_said(self):
        for arguments, code, message in (
            (["--prompt", "a"], 2, "--model is required"), (["--model", self.model, "--prompt", "a", "--file", "b"], 2, "excludes"),
            (["--model", self.model, "--prompt", "a", "--top-p", 0], 2, "--top-p"), (["--model", self.model, "--prompt", "a", "--temperature", -1], 2, "--temperature"),
            (["--model", self.model, "--prompt", "a", "--stop", ""], 1, "a stop string is empty"),
            (["--model", self.model, "--file", self.folder / "none"], 1, "none"), (["--model", self.folder / "none", "--prompt", "a"], 1, "there is no such folder or file"),
            (["--model", MODEL, "--prompt", "a"], 1, "tokenizer"), (["--model", self.model, "--prompt", "a", "--device", "warp"], 1, "warp"),
        ):  # fmt: skip
            with self.subTest(arguments):
                self.fails(code, message, "generate", *arguments)


class Chat(LanguageTest):
    def setUp(self):
        super().setUp()
        (self.model / "chat_template.jinja").write_text(TEMPLATE)
        self.arguments = ("chat", "--model", self.model, "--json", "--max-tokens", 6)
        result = rlx(*self.arguments, stdin="a\n")
        if "built without chat templates" in result.stderr:
            self.skipTest("built without chat templates")

    def answers(self, lines, *more):
        more = more if "--temperature" in more else ("--temperature", 0, *more)
        result = rlx(*self.arguments, *more, stdin=lines)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return [json.loads(line) for line in result.stdout.splitlines()]

    def continued(self, text):
        return self.written("--temperature", 0, "--max-tokens", 6, "--prompt", text)["tokens"]

    def test_each_answer_is_to_the_whole_conversation(self):
        one, two = self.answers("abc\n\nde f\n")
        self.assertEqual(one["tokens"], self.continued("u:abc|a:"))
        self.assertEqual(two["tokens"], self.continued(f"u:abc|a:{one['text']}|u:de f|a:"))
        # What was read or written before is not read again.
        self.assertLess(two["prompt_tokens"], len("u:abc|") + len("u:de f|a:") + 2)

    def test_system_variables_and_a_template_of_ones_own(self):
        self.assertEqual(self.answers("b\n", "--system", "good", "--variables", '{"loud": true}')[0]["tokens"], self.continued("s:good|u:b|Xa:"))
        path = self.file("own.jinja", "{{ messages[0].content }}.")
        self.assertEqual(self.answers("b\n", "--template", path)[0]["tokens"], self.continued("b."))

    def test_reset_begins_anew(self):
        one, two = self.answers("abc\n/reset\nabc\n", "--system", "be")
        self.assertEqual(one["tokens"], two["tokens"])
        one, again, two = self.answers("abc\nabc\n/reset\nabc\n", "--temperature", 3, "--presence-penalty", 5)
        self.assertEqual(one["tokens"], two["tokens"])
        self.assertNotEqual(one["tokens"], again["tokens"])

    def test_as_text_with_times_beside_it(self):
        made = self.answers("abc\n")[0]
        result = rlx(*[a for a in self.arguments if a != "--json"], "--temperature", 0, stdin="abc")
        self.assertEqual(result.stdout, made["text"] + "\n")
        self.assertRegex(result.stderr, r"^rlx: loaded in .* wrote \d+ tokens? in .*\n$")

    def test_what_is_wrong_is_said(self):
        (self.model / "chat_template.jinja").unlink()
        self.fails(1, "has no chat template; --template names one", "chat", "--model", self.model, stdin="a\n")
        path = self.file("own.jinja", "{{ raise_exception('never') }}")
        self.fails(1, "refuses the conversation: never", "chat", "--model", self.model, "--template", path, stdin="a\n")
        self.fails(1, "own.jinja': line 1", "chat", "--model", self.model, "--template", self.file("own.jinja", "{% if %}"), stdin="a\n")


class Perplexity(LanguageTest):
    def test_it_is_that_of_the_logits_that_transformers_has(self):
        ids = json.loads((MODEL / "ids.json").read_text())
        shape, logits = read_npy(MODEL / "logits.npy")
        losses = []
        for i, token in enumerate(ids[1:]):
            row = logits[i * shape[1] : (i + 1) * shape[1]]
            losses.append(math.log(sum(math.exp(x) for x in row)) - row[token])
        made = json.loads(self.succeeds("perplexity", "--model", MODEL, "--tokens", MODEL / "ids.json", "--json"))
        self.assertEqual(made["tokens"], len(losses))
        self.assertAlmostEqual(made["perplexity"], math.exp(sum(losses) / len(losses)), delta=1e-3)
        text = self.succeeds("perplexity", "--model", MODEL, "--tokens", MODEL / "ids.json")
        self.assertRegex(text, rf"^perplexity {made['perplexity']:.4f} over {len(losses)} tokens in 1 window")

    def test_windows_and_texts(self):
        text = self.file("text", "the cab is here. a bad fee was paid\n")
        whole = json.loads(self.succeeds("perplexity", "--model", self.model, "--file", text, "--json"))
        ids = self.file("ids.json", json.dumps([LETTERS.index(c) for c in text.read_text()]))
        self.assertEqual(json.loads(self.succeeds("perplexity", "--model", self.model, "--tokens", ids, "--json"))["perplexity"], whole["perplexity"])
        parts = json.loads(self.succeeds("perplexity", "--model", self.model, "--file", text, "--window", 10, "--json"))
        self.assertEqual((parts["windows"], parts["tokens"]), (4, 36 - 4))
        loss = 0
        for begin in range(0, 36, 10):
            part = self.file("part.json", json.dumps(json.loads(ids.read_text())[begin : begin + 10]))
            one = json.loads(self.succeeds("perplexity", "--model", self.model, "--tokens", part, "--json"))
            loss += math.log(one["perplexity"]) * one["tokens"]
        self.assertAlmostEqual(math.log(parts["perplexity"]), loss / parts["tokens"], places=5)

    def test_what_is_wrong_is_said(self):
        one = self.file("one", "a")
        for arguments, code, message in (
            ([], 2, "--file or --tokens"), (["--file", one, "--tokens", one], 2, "excludes"), (["--file", one], 1, "1 token; a perplexity needs two"),
            (["--tokens", self.file("bad.json", "{}")], 1, "not an array of token ids"), (["--file", one, "--window", 1], 2, "--window"),
        ):  # fmt: skip
            with self.subTest(arguments):
                self.fails(code, message, "perplexity", "--model", self.model, *arguments)


if __name__ == "__main__":
    unittest.main()
