#!/usr/bin/env python3
"""`rlx compare` of two packages that were written differently of one model: values are aligned by structure. Packages by coremltools are
those of tests/mil; the others are written here."""

import json
import pathlib
import re
import shutil
import tarfile
import tempfile
import unittest

from program import ROOT, ProgramTest, rlx, write_npy

HOLDER = tempfile.TemporaryDirectory()
MODELS = pathlib.Path(HOLDER.name)
with tarfile.open(ROOT / "tests/mil/models.tar.xz") as archive:
    archive.extractall(MODELS)
WRITERS = MODELS / "of compare_cases.py"  # one model by coremltools in several ways
with tarfile.open(ROOT / "tests/cli/compare_cases.tar.xz") as archive:
    archive.extractall(WRITERS)


def encoder(layers, width=32, heads=4, tokens=8, names=False):
    """The text of a graph of equal layers: attention and a product, each with its residual, without a name."""
    lines, params, n = [], [], 0

    def node(text):
        nonlocal n
        lines.append(f"  %{n} = {text}")
        n += 1
        return n - 1

    x = node(f'input() @"x" : f32[1, {tokens}, {width}]')
    for layer in range(layers):
        def weight(rows, columns, what):
            params.append((f"layer.{layer}.{what}", rows, columns))
            return node(f'param() @"layer.{layer}.{what}" : f32[{rows}, {columns}]')

        called = f' @"layer.{layer}.out"' if names else ""
        q, k, v, o = (weight(width, width, what) for what in "qkvo")
        up, down = weight(width, 2 * width, "up"), weight(2 * width, width, "down")
        shape = f"f32[1, {tokens}, {width}]"
        a, b, c = (node(f"matmul(%{x}, %{w}) : {shape}") for w in (q, k, v))
        seen = node(f"attention(%{a}, %{b}, %{c}) {{heads = {heads}, layout = packed}} : {shape}")
        projected = node(f"matmul(%{seen}, %{o}) : {shape}")
        x = node(f"add(%{x}, %{projected}) : {shape}")
        wide = node(f"matmul(%{x}, %{up}) : f32[1, {tokens}, {2 * width}]")
        wide = node(f"gelu(%{wide}) : f32[1, {tokens}, {2 * width}]")
        narrow = node(f"matmul(%{wide}, %{down}) : {shape}")
        x = node(f"add(%{x}, %{narrow}){called} : {shape}")
    text = "rlx 1\ngraph @encoder {\n" + "\n".join(lines) + f'\n  return %{x} @"y"\n}}\n'
    return text, params


class Aligned(ProgramTest):
    def model(self, layers=3, names=False):
        text, params = encoder(layers, names=names)
        graph = self.file("encoder.rlx", text)
        weights = self.folder / "weights.safetensors"
        if not weights.exists():
            import array
            import random
            import struct

            draw = random.Random(7)
            header, data = {}, b""
            for name, rows, columns in params:
                values = array.array("f", (draw.gauss(0, 0.4 * columns**-0.5) for _ in range(rows * columns))).tobytes()
                header[name] = {"dtype": "F32", "shape": [rows, columns], "data_offsets": [len(data), len(data) + len(values)]}
                data += values
            text = json.dumps(header).encode()
            weights.write_bytes(struct.pack("<Q", len(text)) + text + data)
        draw = __import__("random").Random(3)
        write_npy(self.folder / "x.npy", "<f4", [1, 8, 32], [draw.gauss(0, 1) for _ in range(256)])
        return graph, weights

    def package(self, name, graph, weights, *options):
        path = self.folder / f"{name}.mlpackage"
        self.succeeds("convert", graph, "--params", weights, "-o", path, *options)
        return path

    def compared(self, a, b, *options, name="x", file=None):
        return json.loads(self.succeeds("compare", a, b, "--input", f"{name}={file or self.folder / 'x.npy'}", "--json", *options))

    def assert_close(self, said, bound, least, alone=0):
        """At least so many values, none further apart, none infinitely far, and so many without a counterpart."""
        self.assertGreaterEqual(len(said["values"]), least)
        for value in said["values"]:
            self.assertLess(value["relative"], bound, value)
            self.assertGreater(value["cosine"], 0.9, value)  # of two values that are not one another it is near 0
        self.assertEqual((len(said["only_a"]), len(said["only_b"])), (alone, alone) if isinstance(alone, int) else alone,
                         (said["only_a"], said["only_b"]))  # fmt: skip

    def test_coremltools_with_other_options(self):
        for one, other, bound, alone in (("fused", "half", 0.02, (0, 0)), ("fused", "int8", 0.1, (0, 0)), ("fused", "palette", 0.3, (0, 0)),
                                         ("int8", "half", 0.1, (0, 0)),
                                         # Products before their biases, gelu written out, and transposes on the other side of a product.
                                         ("plain", "fused", 1e-5, (42, 12)), ("fused", "plain", 1e-5, (12, 42)), ("plain", "half", 0.02, (42, 12)),
                                         ("plain", "int8", 0.1, (42, 12))):  # fmt: skip
            with self.subTest(one=one, other=other):
                said = self.compared(WRITERS / one / "model.mlpackage", WRITERS / other / "model.mlpackage", file=WRITERS / "x.npy")
                self.assert_close(said, bound, 72, alone)
                ops = {(v["op"], v["other_op"]) for v in said["values"]}
                self.assertEqual(("add", "linear") in ops, one == "plain", ops)

    def test_f16_and_8_bits_stand_beside_f32(self):
        graph, weights = self.model()
        wide = self.package("f32", graph, weights)
        for options, bound in ((["--precision", "f16"], 0.03), (["--precision", "mixed"], 0.03), (["--compute", "int8"], 0.05),
                               (["--precision", "f16", "--compute", "int8"], 0.06), (["--minimum-ios", "18"], 1e-4)):  # fmt: skip
            with self.subTest(options):
                other = self.package("other", graph, weights, *options)
                said = self.compared(wide, other)
                self.assert_close(said, bound, 30)
                back = self.compared(other, wide)
                self.assertEqual(len(back["values"]), len(said["values"]))
                shutil.rmtree(other)

    def test_equal_layers_are_not_mistaken_for_one_another(self):
        graph, weights = self.model(layers=12)
        wide, narrow = self.package("f32", graph, weights), self.package("f16", graph, weights, "--precision", "f16")
        said = self.compared(wide, narrow)
        self.assert_close(said, 0.1, 120)  # f16 through twelve layers
        # In order: what stands later in one stands later in the other.
        places = [int(re.search(r"(\d+)$", v["other_name"])[1]) for v in said["values"] if re.fullmatch(r"add_\d+", v["other_name"])]
        self.assertEqual(places, sorted(places))

    def test_an_operation_that_is_several_elsewhere(self):
        # Attention is one operation from iOS 18 on for heads that stand in front, and a softmax between products before.
        text = """rlx 1
graph @m {
  %0 = input() @"x" : f32[1, 4, 8, 16]
  %1 = tanh(%0) : f32[1, 4, 8, 16]
  %2 = attention(%1, %1, %1) {heads = 4} : f32[1, 4, 8, 16]
  %3 = sin(%2) : f32[1, 4, 8, 16]
  %4 = add(%3, %1) : f32[1, 4, 8, 16]
  %5 = attention(%4, %4, %4) {heads = 4} : f32[1, 4, 8, 16]
  %6 = sin(%5) : f32[1, 4, 8, 16]
  %7 = cos(%6) : f32[1, 4, 8, 16]
  return %7 @"y"
}
"""
        graph = self.file("m.rlx", text)
        old, new = self.folder / "old.mlpackage", self.folder / "new.mlpackage"
        self.succeeds("convert", graph, "-o", old, "--minimum-ios", "15")
        self.succeeds("convert", graph, "-o", new, "--minimum-ios", "18")
        self.assertIn("scaled_dot_product_attention", self.succeeds("inspect", new))
        self.assertNotIn("scaled_dot_product_attention", self.succeeds("inspect", old))
        draw = __import__("random").Random(3)
        write_npy(self.folder / "x.npy", "<f4", [1, 4, 8, 16], [draw.gauss(0, 1) for _ in range(512)])
        for one, other in ((old, new), (new, old)):
            said = self.compared(one, other)
            pairs = {(v["op"], v["other_op"]) for v in said["values"]}
            self.assertEqual(sum(p[0] == p[1] for p in pairs), 4, pairs)  # tanh, sin, add, cos
            # The last product of the softmax is what the one operation gives.
            self.assertIn({"matmul", "scaled_dot_product_attention"}, [set(p) for p in pairs])
            self.assertEqual([v["op"] for v in said["values"] if v["relative"] > 1e-4], [])
            self.assertTrue(said["only_a"] if one == old else said["only_b"])
            self.assertFalse(said["only_b"] if one == old else said["only_a"])
        table = self.succeeds("compare", old, new, "--input", f"x={self.folder / 'x.npy'}")
        self.assertRegex(table, r"\d+ values of the first model have no counterpart: '\w+' \(\w+\)")
        self.assertRegex(table.splitlines()[-1], r"^all \d+ values within 0.001$")

    def test_a_fault_is_where_it_is_and_hides_nothing(self):
        # One layer of the second has other weights: the first value beyond the bound is its own.
        graph, weights = self.model()
        data = bytearray(weights.read_bytes())
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        begin, end = header["layer.1.up"]["data_offsets"]
        for at in range(8 + size + begin, 8 + size + end, 4):
            data[at + 3] ^= 0x80  # the sign
        other = self.folder / "faulty.safetensors"
        other.write_bytes(data)
        said = self.compared(self.package("sound", graph, weights), self.package("faulty", graph, other))
        self.assertEqual((said["only_a"], said["only_b"]), ([], []))
        beyond = [v for v in said["values"] if v["relative"] > 1e-3]
        self.assertEqual(beyond[0]["name"], said["first_beyond"])
        self.assertIn(beyond[0]["op"], ("matmul", "linear"))
        before = [v for v in said["values"] if v["relative"] <= 1e-3]
        self.assertGreater(len(before), 10)

    def test_swapped_weights_are_no_other_order(self):
        # The products of queries and keys have changed places in the second: they are told by what reads them.
        graph, weights = self.model(layers=1)
        data = bytearray(weights.read_bytes())
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        header["layer.0.q"], header["layer.0.k"] = header["layer.0.k"], header["layer.0.q"]
        text = json.dumps(header).encode()
        self.assertEqual(len(text), size)
        other = self.folder / "swapped.safetensors"
        other.write_bytes(data[:8] + text + data[8 + size :])
        said = self.compared(self.package("a", graph, weights), self.package("b", graph, other))
        self.assertGreater(sum(v["relative"] > 0.1 and v["op"] in ("matmul", "linear") for v in said["values"]), 1, said["values"])

    def test_another_writers_names_do_not_matter(self):
        for model in sorted(p.name for p in MODELS.iterdir() if p != WRITERS):
            for precision in ("fp32", "fp16"):
                package = MODELS / model / precision / "model.mlpackage"
                case = MODELS / model / precision / "case.json"
                if not case.exists():
                    continue
                steps = json.loads(case.read_text())["steps"]
                if len(steps) != 1 or len(steps[0]["in"]) != 1:
                    continue
                ((name, file),) = steps[0]["in"].items()
                with self.subTest(model=model, precision=precision):
                    renamed = self.renamed(package)
                    same = self.compared(package, package, name=name, file=case.parent / file)
                    said = self.compared(package, renamed, name=name, file=case.parent / file)
                    self.assertEqual(len(said["values"]), len(same["values"]))
                    self.assertEqual((said["only_a"], said["only_b"]), ([], []))
                    self.assertEqual({v["apart"] for v in said["values"]}, {0})
                    shutil.rmtree(renamed)

    def test_coremltools_in_f32_and_f16(self):
        some = 0
        for model in sorted(p.name for p in MODELS.iterdir() if p != WRITERS):
            wide, narrow = (MODELS / model / precision for precision in ("fp32", "fp16"))
            if not ((wide / "case.json").exists() and (narrow / "case.json").exists()):
                continue
            steps = json.loads((wide / "case.json").read_text())["steps"]
            if len(steps) != 1 or len(steps[0]["in"]) != 1:
                continue
            ((name, file),) = steps[0]["in"].items()
            with self.subTest(model):
                said = self.compared(wide / "model.mlpackage", narrow / "model.mlpackage", name=name, file=wide / file)
                self.assertEqual((said["only_a"], said["only_b"]), ([], []))
                for value in said["values"]:
                    self.assertLess(value["relative"], 0.1, value)
                some += 1
        self.assertGreater(some, 0)

    def renamed(self, package):
        """A copy whose values have other names, as long as the ones before: letters are turned by 13 places in every string of the model
        that names a value, but for inputs."""
        copy = self.folder / "renamed.mlpackage"
        shutil.copytree(package, copy)
        model = copy / "Data/com.apple.CoreML/model.mlmodel"
        data = model.read_bytes()
        inspected = self.succeeds("compare", package, package, "--json", "--all")
        names = {v["name"] for v in json.loads(inspected)["values"]}
        turned = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")
        for name in sorted(names, key=len, reverse=True):
            raw = name.encode()
            length = bytes([len(raw)])
            data = data.replace(length + raw, length + name.translate(turned).encode())
        model.write_bytes(data)
        return copy

    def test_no_output_is_passed_over(self):
        """Of what is left out of one model nothing is said to be near, and outputs of one name are to be one another."""
        text = 'rlx 1\ngraph @m {\n  %0 = input() @"x" : f32[2, 4]\n  %1 = tanh(%0) : f32[2, 4]\n  %2 = exp(%1) : f32[2, 4]\n'

        def package(name, rest):
            path = self.folder / f"{name}.mlpackage"
            self.succeeds("convert", self.file(f"{name}.rlx", text + rest + "}\n"), "-o", path)
            return path

        one = package("one", '  %3 = sin(%2) : f32[2, 4]\n  return %3 @"y"\n')
        turned = package("turned", '  %3 = reshape(%2) {dims = [4, 2]} : f32[4, 2]\n  %4 = cos(%3) : f32[4, 2]\n  return %4 @"y"\n')
        def refused(a, b, why):
            result = rlx("compare", a, b, "--strict")
            self.assertEqual(result.returncode, 1)
            self.assertIn(why, result.stderr)

        refused(one, turned, "the models differ by more than")
        said = json.loads(self.succeeds("compare", one, turned, "--json"))
        self.assertEqual((said["first_beyond"], said["lone_outputs"]), ("y", []))
        self.assertIn("'y'", self.succeeds("compare", one, turned).splitlines()[-1])
        more = package("more", '  %3 = sin(%2) : f32[2, 4]\n  %4 = reshape(%3) {dims = [8]} : f32[8]\n  return %3 @"y", %4 @"z"\n')
        for pair in ((one, more), (more, one)):
            refused(*pair, "output 'z' was compared with nothing")
            said = json.loads(self.succeeds("compare", *pair, "--json"))
            self.assertEqual((said["first_beyond"], said["lone_outputs"]), (None, ["z"]))
            self.assertTrue(self.succeeds("compare", *pair).endswith("within 0.001, but outputs were compared with nothing: 'z'\n"))
        self.succeeds("compare", more, more, "--strict")

    def test_a_part_that_is_called_as_another_output_is_no_output(self):
        text = 'rlx 1\ngraph @m {\n  %0 = input() @"x" : f32[4]\n  %1 = tanh(%0) @"y" : f32[4]\n  %2 = exp(%1) @"z" : f32[4]\n  return %2 @"y", %1 @"z"\n}\n'
        write_npy(self.folder / "x.npy", "<f4", [4], [0, 0.25, 0.5, 1])
        graph, other = self.file("one.rlx", text), self.file("other.rlx", text)
        said = self.compared(graph, other, "--strict")
        self.assertEqual([(v["name"], v["op"], v["apart"]) for v in said["values"]],
                         [("y", "tanh", 0), ("z", "exp", 0), ("y", "output", 0), ("z", "output", 0)])
        package = self.folder / "m.mlpackage"
        self.succeeds("convert", graph, "-o", package)
        for pair in ((graph, package), (package, graph)):
            said = self.compared(*pair, "--strict")
            self.assertEqual(sorted(v["name"] for v in said["values"]), ["y", "z"])
            self.assertLess(max(v["relative"] for v in said["values"]), 1e-5)

    def test_graphs_say_what_has_no_counterpart(self):
        text = 'rlx 1\ngraph @m {{\n  %0 = input() @"x" : f32[4]\n  %1 = tanh(%0) @"{name}" : f32[4]\n  return %1 @"y"\n}}\n'
        a, b = self.file("a.rlx", text.format(name="first")), self.file("b.rlx", text.format(name="second"))
        write_npy(self.folder / "x.npy", "<f4", [4], [0, 0.25, 0.5, 1])
        said = self.compared(a, b)
        self.assertEqual([v["name"] for v in said["values"]], ["y"])
        self.assertEqual((said["only_a"], said["only_b"]), ([{"name": "first", "op": "tanh"}], [{"name": "second", "op": "tanh"}]))


if __name__ == "__main__":
    unittest.main()
