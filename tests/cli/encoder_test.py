#!/usr/bin/env python3
"""`rlx embed`, `tokenize` and `search` with all-MiniLM-L6-v2 against PyTorch and the tokenizers package (tests/golden),
and what a damaged model folder says."""

import array
import json
import math
import os
import shutil
import unittest

from program import GOLDEN, ProgramTest, read_npy, read_safetensors, require_model, rlx, write_npy

MODEL = require_model()
SANITIZED = bool(os.environ.get("RLX_SANITIZED"))


def rows(path):
    (count, width), values = read_npy(path)
    return [values[i * width : (i + 1) * width] for i in range(count)]


def golden_lines(name):
    return (GOLDEN / name).read_text(encoding="utf-8").split("\n")


class Embed(ProgramTest):
    def test_embeddings_equal_those_of_pytorch(self):
        out = self.folder / "e.npy"
        file = GOLDEN / "embeddings/sentences.txt"
        self.assertEqual(self.succeeds("embed", "--model", MODEL, "--file", file, "--npy", out), "")
        ours, wanted = rows(out), rows(GOLDEN / "embeddings/embeddings.npy")
        self.assertEqual(len(ours), 200)
        for line, (row, want) in enumerate(zip(ours, wanted, strict=True)):
            with self.subTest(line=line):
                self.assertLessEqual(max(abs(a - b) for a, b in zip(row, want, strict=True)), 1e-5)
                dot = sum(a * b for a, b in zip(row, want))
                norms = math.sqrt(sum(a * a for a in row) * sum(b * b for b in want))
                self.assertGreaterEqual(dot / norms, 0.999999)

    def test_narrow_numbers_keep_directions_and_the_order_of_neighbours(self):
        wanted = rows(GOLDEN / "embeddings/embeddings.npy")
        unit = [[x / math.sqrt(sum(y * y for y in row)) for x in row] for row in wanted]

        def ranks(row, others):
            products = [sum(a * b for a, b in zip(row, other)) for other in others]
            order = sorted(range(len(products)), key=products.__getitem__)
            return {line: rank for rank, line in enumerate(order)}

        for compute, least, correlation in (("bf16", 0.9995, 0.999), ("f16", 0.99999, 0.9999), ("int8", 0.996, 0.99)):
            with self.subTest(compute):
                out = self.folder / "e.npy"
                self.succeeds("embed", "--model", MODEL, "--file", GOLDEN / "embeddings/sentences.txt", "--npy", out, "--compute", compute)
                ours = rows(out)
                cosines = [sum(a * b for a, b in zip(row, want)) / math.sqrt(sum(a * a for a in row)) for row, want in zip(ours, unit, strict=True)]
                self.assertGreaterEqual(min(cosines), least)
                self.assertLess(min(cosines), 0.9999999)  # it was computed in less than f32
                for query in range(0, 200, 40):  # Spearman's correlation over the other lines
                    want, got = ranks(unit[query], unit), ranks(ours[query], ours)
                    n, apart = len(want), sum((want[i] - got[i]) ** 2 for i in want)
                    self.assertGreaterEqual(1 - 6 * apart / (n * (n * n - 1)), correlation)

    def test_one_row_a_line_with_and_without_a_last_newline(self):
        for text, count in (("", 0), ("\n", 1), ("a", 1), ("a\n", 1), ("a\n\n", 2), ("\na", 2), ("a\n\n\nb", 4)):
            with self.subTest(text):
                out = self.folder / "e.npy"
                self.succeeds("embed", "--model", MODEL, "--file", self.file("lines.txt", text), "--npy", out)
                self.assertEqual(read_npy(out)[0], (count, 384))

    def test_json_gives_the_numbers_of_the_npy_file(self):
        out = self.folder / "e.npy"
        printed = self.succeeds("embed", "--model", MODEL, "--json", "--npy", out, "--threads", 1, stdin="One.\nTwo.\n")
        lines = [array.array("f", json.loads(line)) for line in printed.splitlines()]
        self.assertEqual(lines, rows(out))

    def test_arguments_stdin_and_a_file_are_one_and_the_same(self):
        def embed(*words, **how):
            return self.succeeds("embed", "--model", MODEL, "--json", "--threads", 1, *words, **how)

        sentences = ["One.", "", "search", "[MASK]", "{}", "--flag", "a,b"]
        text = "\n".join(sentences) + "\n"
        wanted = embed("--file", self.file("lines.txt", text))
        self.assertEqual(embed("--", *sentences), wanted)
        self.assertEqual(embed("-", stdin=text), wanted)
        self.assertEqual(embed("--file", "-", stdin=text), wanted)
        self.assertEqual(embed("One.", "-", "--", "{}", "--flag", "a,b", stdin="\nsearch\n[MASK]\n"), wanted)

    def test_without_a_place_to_write_a_summary_is_printed(self):
        text = self.succeeds("embed", "A sentence.", "--model", MODEL)
        self.assertIn("A sentence.", text)
        self.assertIn("384", text)

    def test_the_environment_can_name_the_model(self):
        self.succeeds("embed", "A sentence.", RLX_MODEL=str(MODEL))


class Index(ProgramTest):
    """`rlx search` embeds each line once: the vectors are kept by the contents of lines and model."""

    TEXT = "A cat sleeps.\nThe price of bread rises.\nA cat sleeps.\nRain is expected.\n"

    def search(self, *words, cache=None, **how):
        printed = self.succeeds("search", "--model", MODEL, "--json", "--threads", 1, *words, RLX_CACHE_DIR=str(cache or self.folder / "cache"), **how)
        return [(hit["line"], round(hit["score"], 4), hit["text"]) for hit in json.loads(printed)["hits"]]

    def kept(self):
        (path,) = (self.folder / "cache").glob("search-*.safetensors")
        return path

    def test_answers_are_the_same_with_and_without(self):
        corpus = self.file("c.txt", self.TEXT)
        wanted = self.search("--corpus", corpus, "--no-index", "a sleeping animal")
        self.assertFalse(list((self.folder / "cache").glob("search-*")))
        for _ in range(2):
            self.assertEqual(self.search("--corpus", corpus, "a sleeping animal"), wanted)
        metadata, tensors = read_safetensors(self.kept())
        self.assertIn("model.safetensors", metadata["made_by"])
        self.assertEqual(len(tensors["vectors"]), 4 * 384 * 4)

    def test_what_is_kept_is_used_and_checked_by_the_contents(self):
        corpus = self.file("c.txt", self.TEXT)
        first = self.search("--corpus", corpus, "a sleeping animal")
        metadata, tensors = read_safetensors(self.kept())

        def write(made_by, vectors, shape=(4, 384)):
            header = {"__metadata__": {"made_by": made_by}, "vectors": {"dtype": "F32", "shape": list(shape), "data_offsets": [0, len(vectors)]},
                      "lines": {"dtype": "U64", "shape": [4, 2], "data_offsets": [len(vectors), len(vectors) + 64]}}  # fmt: skip
            text = json.dumps(header).encode()
            self.kept().write_bytes(len(text).to_bytes(8, "little") + text + vectors + tensors["lines"])

        written = self.kept().stat()
        self.assertEqual(self.search("--corpus", corpus, "a sleeping animal"), first)
        self.assertEqual((self.kept().stat().st_ino, self.kept().stat().st_mtime_ns), (written.st_ino, written.st_mtime_ns))  # they were not made anew
        other = array.array("f", [0.0] * 384 * 4).tobytes()

        def flip():
            kept = bytearray(self.kept().read_bytes())
            kept[kept.index(tensors["vectors"]) + 3] ^= 0x40  # a number becomes 10^38 times as large, or as small
            self.kept().write_bytes(kept)

        for foreign in (lambda: write("another model", other), lambda: write(metadata["made_by"], other), lambda: write(metadata["made_by"], other[: 4 * 383 * 4], (4, 383))):  # fmt: skip
            foreign()
            self.assertEqual(self.search("--corpus", corpus, "a sleeping animal"), first)
        for damaged in (lambda: self.kept().write_bytes(b"damaged"), lambda: self.kept().write_bytes(self.kept().read_bytes()[:-9]), flip):
            damaged()
            result = rlx("search", "--model", MODEL, "--json", "--threads", 1, "--corpus", corpus, "a sleeping animal", RLX_CACHE_DIR=str(self.folder / "cache"))
            self.assertRegex(result.stderr, "^rlx: the vectors in '.*' are left aside and made again: ")
            self.assertEqual([(hit["line"], round(hit["score"], 4), hit["text"]) for hit in json.loads(result.stdout)["hits"]], first)

    def test_vectors_follow_every_file_that_the_model_is_read_from(self):
        model = self.folder / "model"
        shutil.copytree(GOLDEN / "encoders/modernbert_first", model)
        corpus = self.file("c.txt", self.TEXT)

        def scores(*options):
            printed = self.succeeds("search", "--model", model, "--json", "--threads", 1, "--corpus", corpus, "--top", 9, *options, "a sleeping animal",
                                    RLX_CACHE_DIR=str(self.folder / "cache"))  # fmt: skip
            return [(hit["line"], round(hit["score"], 5)) for hit in json.loads(printed)["hits"]]

        first = scores()
        self.assertEqual(scores(), first)
        pooling = model / "1_Pooling/config.json"
        for mode in ("mean", "max"):
            pooling.write_text(json.dumps({"pooling_mode": mode}))
            second = scores()
            self.assertNotEqual(second, first)
            self.assertEqual(second, scores("--no-index"))
            first = second
        prompts = {"prompts": {"all": "Look for this: "}, "default_prompt_name": "all"}
        (model / "config_sentence_transformers.json").write_text(json.dumps(prompts))
        prompted = scores()
        self.assertNotEqual(prompted, first)
        self.assertEqual(prompted, scores("--no-index"))

    def test_a_line_that_changes_is_embedded_anew_and_the_others_are_not(self):
        corpus = self.file("c.txt", self.TEXT)
        self.search("--corpus", corpus, "x")
        corpus.write_text(self.TEXT.replace("Rain", "Snow") + "A dog barks.\n")
        self.assertEqual(self.search("--corpus", corpus, "--top", 9, "snow"), self.search("--corpus", corpus, "--top", 9, "--no-index", "snow"))
        self.assertEqual(len(read_safetensors(self.kept())[1]["vectors"]), 5 * 384 * 4)

    def test_a_place_of_ones_own_and_none(self):
        corpus, index = self.file("c.txt", self.TEXT), self.folder / "c.index"
        self.search("--corpus", corpus, "--index", index, "x")
        self.assertTrue(index.is_file())
        self.assertFalse(list((self.folder / "cache").glob("search-*")))
        self.search("--corpus", "-", "x", stdin=self.TEXT)
        self.assertFalse(list((self.folder / "cache").glob("search-*")))
        foreign = self.file("mine.txt", "precious")
        self.fails(1, "is no file of vectors of `rlx search`, and is not replaced", "search", "--model", MODEL, "--corpus", corpus, "--index", foreign, "x")
        self.assertEqual(foreign.read_text(), "precious")
        self.fails(2, "--no-index, not both", "search", "--model", MODEL, "--corpus", corpus, "--index", index, "--no-index", "x")


class Starts(ProgramTest):
    def test_a_start_gives_what_a_run_gives_with_and_without_what_an_earlier_one_left(self):
        lines = [json.loads(line) for line in self.succeeds(
            "bench", "--model", MODEL, "--iters", 5, "--budget", 0, "1x16", "first_1x16", "restart_1x16").splitlines()]
        self.assertEqual([line["case"] for line in lines], ["minilm_1x16", "first_1x16", "restart_1x16"])
        self.assertEqual(lines[1]["head"], lines[0]["head"])
        self.assertEqual(lines[2]["head"], lines[0]["head"])

    def test_embeddings_are_the_same_from_the_disk_cache(self):
        cache = self.folder / "cache"

        def embed(**environment):
            return self.succeeds("embed", "--model", MODEL, "--json", "--threads", 1, "One sentence.", **environment)

        wanted = embed()
        for _ in range(3):
            self.assertEqual(embed(RLX_CACHE_DIR=str(cache)), wanted)
        kept = [path for path in cache.iterdir() if path.suffix == ".packed"]
        self.assertEqual(len(kept), 1)
        content = bytearray(kept[0].read_bytes())
        content[len(content) // 2] ^= 1
        kept[0].write_bytes(content)
        done = rlx("embed", "--model", MODEL, "--json", "--threads", 1, "One sentence.", RLX_CACHE_DIR=str(cache))
        self.assertEqual((done.returncode, done.stdout), (0, wanted))
        self.assertIn("left aside and made again: piece '", done.stderr)
        self.assertEqual(embed(RLX_CACHE_DIR=str(cache)), wanted)


class Tokenize(ProgramTest):
    def test_5000_lines_have_the_ids_of_the_tokenizers_package(self):
        lines = GOLDEN / "tokenizer/lines.txt"
        self.assertEqual(self.succeeds("tokenize", "--model", MODEL, "--file", lines).split("\n"), golden_lines("tokenizer/ids.jsonl"))
        cut = self.succeeds("tokenize", "--model", MODEL, "--file", lines, "--max-tokens", 256)
        self.assertEqual(cut.split("\n"), golden_lines("tokenizer/ids_256.jsonl"))

    def test_tokens_can_be_shown_as_text(self):
        self.assertEqual(json.loads(self.succeeds("tokenize", "--model", MODEL, "--tokens", "Hello")), ["[CLS]", "hello", "[SEP]"])


class Search(ProgramTest):
    def test_top_hits_of_20_queries_equal_those_of_pytorch(self):
        wanted = [json.loads(line) for line in golden_lines("search/queries.jsonl") if line]
        self.assertEqual(len(wanted), 20)
        queries = [w["query"] for w in wanted]
        corpus, kept = GOLDEN / "search/corpus.txt", None
        if SANITIZED:  # twenty times slower: the hits, and every 20th of the lines that they must beat
            lines, hits = golden_lines("search/corpus.txt"), {w["line"] for w in wanted}
            kept = [i for i in range(len(lines) - 1) if i in hits or i % 20 == 0]
            corpus = self.file("corpus.txt", "".join(lines[i] + "\n" for i in kept))
        printed = self.succeeds("search", "--model", MODEL, "--corpus", corpus, "--json", *queries)
        for result, want in zip(printed.splitlines(), wanted, strict=True):
            got = json.loads(result)
            best = got["hits"][0]
            with self.subTest(want["query"]):
                self.assertEqual((got["query"], len(got["hits"])), (want["query"], 5))
                line = best["line"] - 1  # we count from 1
                self.assertEqual((kept[line] if kept else line, best["text"]), (want["line"], want["text"]))
                self.assertAlmostEqual(best["score"], want["score"], delta=1e-5)

    def test_no_more_lines_are_shown_than_there_are(self):
        corpus = self.file("corpus.txt", "Cats are animals.\nThe stock market fell.\n")
        text = self.succeeds("search", "--model", MODEL, "--corpus", corpus, "--top", 9, "an animal")
        self.assertEqual([line.split()[1] for line in text.splitlines()[1:]], ["1", "2"])
        self.fails(1, "no lines", "search", "--model", MODEL, "--corpus", self.file("empty.txt", ""), "x")


class OnCoreml(ProgramTest):
    """What the report says of the encoder on the device `coreml`, and that it runs there as an ML Program, with the CPU's numbers."""

    SENTENCES = "A cat sits on the mat.\nThe stock market fell.\n\nCats are animals.\n"

    def test_embeddings_are_those_of_the_cpu(self):
        lines, on = self.file("lines.txt", self.SENTENCES), {}
        for device in ("cpu", "coreml"):
            out = self.folder / f"{device}.npy"
            self.succeeds("embed", "--model", MODEL, "--device", device, "--file", lines, "--npy", out)
            on[device] = rows(out)
        self.assertEqual(len(on["coreml"]), 4)
        for row, want in zip(on["coreml"], on["cpu"], strict=True):
            norms = math.sqrt(sum(a * a for a in row) * sum(b * b for b in want))
            self.assertGreaterEqual(sum(a * b for a, b in zip(row, want)) / norms, 0.99999)

    def test_search_finds_what_it_finds_on_the_cpu(self):
        corpus, found = self.file("corpus.txt", self.SENTENCES), {}
        for device in ("cpu", "coreml"):
            printed = self.succeeds("search", "--model", MODEL, "--device", device, "--corpus", corpus, "--json", "an animal", "money")
            found[device] = [[(h["line"], round(h["score"], 3)) for h in json.loads(line)["hits"]] for line in printed.splitlines()]
        self.assertEqual(found["coreml"], found["cpu"])

    def test_what_where_says_of_it_a_run_does(self):
        where = self.succeeds("where", MODEL, "--target", "coreml")
        self.assertRegex(where, r"(?m)^all( +(\d+|-)){4} +-$")  # nothing is missing
        self.assertIn("the input 'input_ids' (i64[B, S]) is i32, for only places are read of it", where)
        given = []
        for name, values in (("input_ids", [101, 4937, 102]), ("attention_mask", [1, 1, 1]), ("token_type_ids", [0, 0, 0])):
            path = self.folder / f"{name}.npy"
            write_npy(path, "<i8", [1, 3], values)
            given += ["--input", f"{name}={path}"]
        got = {}
        for device in ("cpu", "coreml"):
            self.succeeds("run", MODEL, "--device", device, *given, "--output-dir", self.folder / device)
            got[device] = rows(next((self.folder / device).glob("*.npy")))[0]
        self.assertLessEqual(max(abs(a - b) for a, b in zip(got["coreml"], got["cpu"], strict=True)), 1e-5)
        write_npy(self.folder / "input_ids.npy", "<i8", [1, 3], [101, 1 << 40, 102])
        self.fails(1, "the input 'input_ids' has 1099511627776 at .0, 1., which 32 bits do not hold", "run", MODEL, "--device", "coreml", *given)


class DamagedModel(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        self.model.mkdir()
        for name in ("config.json", "tokenizer.json", "sentence_bert_config.json"):
            shutil.copyfile(MODEL / name, self.model / name)

    def embed_fails(self, pattern):
        out = self.folder / "e.npy"
        self.fails(1, pattern, "embed", "--model", self.model, "--npy", out, "A sentence.")
        self.assertEqual([p.name for p in self.folder.iterdir()], ["model"])

    def test_weights_that_are_not_there(self):
        self.embed_fails("model.safetensors")

    def test_cut_weights(self):
        whole = (MODEL / "model.safetensors").read_bytes()
        for size in (0, 7, 8, 5000, len(whole) // 2, len(whole) - 1):
            (self.model / "model.safetensors").write_bytes(whole[:size])
            with self.subTest(size):
                self.embed_fails("model.safetensors")

    def test_a_tensor_under_another_name(self):
        whole = (MODEL / "model.safetensors").read_bytes()
        (self.model / "model.safetensors").write_bytes(whole.replace(b"encoder.layer.3.output.dense.bias", b"encoder.layer.3.output.dense.biaz", 1))
        self.embed_fails("encoder.layer.3.output.dense.bias")

    def test_a_config_that_does_not_fit_the_weights(self):
        os.symlink(MODEL / "model.safetensors", self.model / "model.safetensors")
        config = json.loads((MODEL / "config.json").read_text())
        for change in ({"intermediate_size": 1000}, {"num_attention_heads": 7}, {"hidden_size": -1}, {"vocab_size": 100}, {"num_hidden_layers": "six"}):
            (self.model / "config.json").write_text(json.dumps(config | change))
            with self.subTest(change):
                self.embed_fails("model")

    def test_a_tokenizer_that_is_none(self):
        os.symlink(MODEL / "model.safetensors", self.model / "model.safetensors")
        text = (MODEL / "tokenizer.json").read_text(encoding="utf-8")
        for damaged in ("", "[]", "{}", text[: len(text) // 2], text.replace('"WordPiece"', '"Unheard"')):
            (self.model / "tokenizer.json").write_text(damaged, encoding="utf-8")
            with self.subTest(damaged[:20]):
                self.embed_fails("tokenizer.json")

    def test_an_output_that_cannot_be_written_is_said_at_once(self):
        result = rlx("embed", "--model", self.model, "--npy", self.folder / "nowhere/e.npy", "A sentence.")
        self.assertEqual(result.returncode, 1)
        self.assertIn("nowhere", result.stderr)  # and not that this folder has no weights


if __name__ == "__main__":
    unittest.main()
