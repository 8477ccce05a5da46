#!/usr/bin/env python3
"""What `rlx train` leaves is a model: `run`, `where`, `inspect`, `convert` and `compare` take the folder. Images go into it
as PNG files and as arrays of bytes; outputs come as JSON."""

import json
import struct
import unittest
import zlib

from program import ProgramTest, rlx, write_npy


def png(width, height, color, bits, rows, palette=b"", extra=b"", interlace=0, filters=None):
    """A PNG file; `rows` are bytes as the format has them, without their filters (0 unless `filters` says otherwise)."""
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    raw = b"".join(bytes([filters[y] if filters else 0]) + row for y, row in enumerate(rows))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, interlace))
            + (chunk(b"PLTE", palette) if palette else b"") + extra + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))  # fmt: skip


def paeth(left, up, corner):
    """ISO/IEC 15948, 9.4."""
    p = left + up - corner
    return min((abs(p - left), 0, left), (abs(p - up), 1, up), (abs(p - corner), 2, corner))[2]


def filtered(rows, kinds, step):
    """The rows as each filter of the format predicts them."""
    out = []
    for y, row in enumerate(rows):
        above = rows[y - 1] if y else bytes(len(row))
        guess = lambda i: (lambda left, up, corner: [0, left, up, (left + up) // 2, paeth(left, up, corner)][kinds[y]])(
            row[i - step] if i >= step else 0, above[i], above[i - step] if i >= step else 0)  # fmt: skip
        out.append(bytes((row[i] - guess(i)) % 256 for i in range(len(row))))
    return out


IDENTITY = """rlx 1
graph @g {{
  %0 = input() @"x" : {type}
  return %0 @"y"
}}
"""


class Images(ProgramTest):
    def graph(self, kind):
        return self.file("g.rlx", IDENTITY.format(type=kind))

    def values(self, kind, image, *options):
        path = self.folder / "image.png"
        path.write_bytes(image)
        (output,) = json.loads(self.succeeds("run", self.graph(kind), "--input", f"x={path}", "--json", *options))["outputs"]
        return output["shape"], output["values"]

    RGB = [bytes([1, 2, 3, 4, 5, 6, 7, 8, 9]), bytes([10, 20, 30, 40, 50, 60, 70, 80, 90])]  # 3 x 2 pixels
    PLANES = [1, 4, 7, 10, 40, 70, 2, 5, 8, 20, 50, 80, 3, 6, 9, 30, 60, 90]

    def test_channels_go_where_the_input_has_them(self):
        flat = [v for row in self.RGB for v in row]
        image = png(3, 2, 2, 8, self.RGB)
        self.assertEqual(self.values("u8[2, 3, 3]", image), ([2, 3, 3], flat))
        self.assertEqual(self.values("u8[N, 2, 3, 3]", image), ([1, 2, 3, 3], flat))
        self.assertEqual(self.values("i32[1, 3, 2, 3]", image), ([1, 3, 2, 3], self.PLANES))
        self.assertEqual(self.values("f32[3, 2, 3]", image, "--white", 255), ([3, 2, 3], self.PLANES))
        shape, values = self.values("f32[N, 3, 2, 3]", image, "--white", 1)
        self.assertEqual(shape, [1, 3, 2, 3])
        for value, byte in zip(values, self.PLANES, strict=True):
            self.assertAlmostEqual(value, byte / 255, places=6)

    def test_every_kind_of_pixel_and_filter(self):
        for kinds in ([1, 2], [3, 3], [4, 4], [0, 4], [2, 1]):
            image = png(3, 2, 2, 8, filtered(self.RGB, kinds, 3), filters=kinds)
            self.assertEqual(self.values("u8[2, 3, 3]", image)[1], [v for row in self.RGB for v in row], kinds)
        gray = [bytes([0, 100, 255]), bytes([7, 8, 9])]
        self.assertEqual(self.values("u8[2, 3]", png(3, 2, 0, 8, gray)), ([2, 3], [0, 100, 255, 7, 8, 9]))
        self.assertEqual(self.values("f32[N, 1, 2, 3]", png(3, 2, 0, 8, gray), "--white", 255)[1], [0, 100, 255, 7, 8, 9])
        self.assertEqual(self.values("u8[1, 10]", png(10, 1, 0, 1, [bytes([0b10100000, 0b01000000])]))[1], [255, 0, 255, 0, 0, 0, 0, 0, 0, 255])
        self.assertEqual(self.values("u8[1, 3]", png(3, 1, 0, 2, [bytes([0b00011011])]))[1], [0, 85, 170])
        self.assertEqual(self.values("u8[1, 3]", png(3, 1, 0, 4, [bytes([0x0F, 0x70])]))[1], [0, 255, 119])
        palette = bytes([9, 8, 7, 6, 5, 4])
        self.assertEqual(self.values("u8[1, 2, 3]", png(2, 1, 3, 8, [bytes([1, 0])], palette))[1], [6, 5, 4, 9, 8, 7])
        self.assertEqual(self.values("u8[1, 3, 3]", png(3, 1, 3, 1, [bytes([0b01000000])], palette))[1], [9, 8, 7, 6, 5, 4, 9, 8, 7])
        self.assertEqual(self.values("u8[1, 1, 3]", png(1, 1, 6, 8, [bytes([1, 2, 3, 255])]))[1], [1, 2, 3])
        self.assertEqual(self.values("u8[1, 2]", png(2, 1, 4, 8, [bytes([1, 255, 2, 255])]))[1], [1, 2])

    def test_arrays_of_bytes_are_images_too(self):
        graph = self.graph("f32[1, 3, 2, 3]")
        write_npy(self.folder / "x.npy", "|u1", [2, 3, 3], [v for row in self.RGB for v in row])
        text = self.succeeds("run", graph, "--input", f"x={self.folder / 'x.npy'}", "--json", "--white", 255)
        self.assertEqual(json.loads(text)["outputs"][0]["values"], self.PLANES)

    def test_arrays_of_floats_keep_their_values(self):
        write_npy(self.folder / "x.npy", "<f4", [2, 3, 3], [v / 4 for row in self.RGB for v in row])
        run = lambda kind: ("run", self.graph(kind), "--input", f"x={self.folder / 'x.npy'}", "--json")
        self.assertEqual(json.loads(self.succeeds(*run("f32[1, 3, 2, 3]")))["outputs"][0]["values"], [v / 4 for v in self.PLANES])
        self.assertEqual(json.loads(self.succeeds(*run("f32[2, 3, 3]")))["outputs"][0]["values"], [v / 4 for row in self.RGB for v in row])
        self.fails(1, r"f32\[2, 3, 3\]|resize", *run("f32[4, 4, 3]"))
        self.fails(1, "f32", *run("u8[2, 3, 3]"))

    def test_a_package_takes_images_in_its_order_of_channels(self):
        graph = self.file("g.rlx", 'rlx 1\ngraph @g {\n  %0 = input() @"x" : f32[1, 3, 2, 3]\n  %1 = neg(%0) : f32[1, 3, 2, 3]\n  return %1 @"y"\n}\n')
        path = self.folder / "image.png"
        path.write_bytes(png(3, 2, 2, 8, self.RGB))
        write_npy(self.folder / "x.npy", "|u1", [2, 3, 3], [v for row in self.RGB for v in row])
        for color, planes in (("rgb", self.PLANES), ("bgr", self.PLANES[12:] + self.PLANES[6:12] + self.PLANES[:6])):
            package = self.folder / f"{color}.mlpackage"
            self.succeeds("convert", graph, "-o", package, "--image", f"x:{color}", "-q")
            for file in (path, self.folder / "x.npy"):
                (output,) = json.loads(self.succeeds("run", package, "--input", f"x={file}", "--json"))["outputs"]
                self.assertEqual(output["values"], [-v for v in planes], color)
            write_npy(self.folder / "f.npy", "<f4", [2, 3, 3], range(18))  # which order would these be in, and of which scale?
            self.fails(1, "x", "run", package, "--input", f"x={self.folder / 'f.npy'}")

    def test_what_does_not_fit_is_said_and_nothing_is_guessed(self):
        path = self.folder / "image.png"
        path.write_bytes(png(3, 2, 2, 8, self.RGB))
        run = lambda kind, *options: ("run", self.graph(kind), "--input", f"x={path}", *options)
        self.fails(2, "say what 255 becomes, --white 1 or --white 255", *run("f32[3, 2, 3]"))
        self.fails(1, r"is u8\[4, 4, 3\], and is given an image of 3 x 2 pixels with 3 channels; resize", *run("u8[4, 4, 3]"))
        self.fails(1, "and is given an image", *run("bool[2, 3, 3]"))
        self.fails(1, "no input 'z' for the image", "run", self.graph("u8[2, 3, 3]"), "--input", f"z={path}")
        self.fails(2, "white", *run("f32[3, 2, 3]", "--white", "-1"))
        path.write_bytes(png(3, 3, 2, 8, [bytes(9)] * 3))
        self.fails(1, "with its channels in front and behind", *run("u8[3, 3, 3]"))

    def test_files_that_would_have_to_be_cut_or_guessed_are_refused(self):
        transparent = struct.pack(">I", 2) + b"tRNS" + b"\0\1" + struct.pack(">I", zlib.crc32(b"tRNS\0\1"))
        for data, message in (
            (png(1, 1, 6, 8, [bytes([1, 2, 3, 4])]), "is transparent"), (png(1, 1, 0, 8, [b"\1"], extra=transparent), "may be transparent"),
            (png(1, 1, 0, 16, [b"\0\1"]), "16 bits"), (png(1, 1, 0, 8, [b"\1"], interlace=1), "interlaced"),
        ):  # fmt: skip
            (self.folder / "x.png").write_bytes(data)
            self.fails(1, message, "run", self.graph("u8[1, 1]"), "--input", f"x={self.folder / 'x.png'}")

    def test_damaged_files_are_errors(self):
        whole = png(3, 2, 2, 8, self.RGB)
        chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        head = b"\x89PNG\r\n\x1a\n"
        huge = head + chunk(b"IHDR", struct.pack(">IIBBBBB", 2**14, 2**14, 8, 6, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
        bad = [b"", whole[:7], b"no image at all", huge, head + chunk(b"IDAT", b""), head + chunk(b"IHDR", b"12"), head + chunk(b"IEND", b""),
               head + chunk(b"IHDR", struct.pack(">IIBBBBB", 0, 1, 8, 0, 0, 0, 0)) + chunk(b"IEND", b""), png(3, 2, 2, 7, self.RGB),
               png(3, 2, 5, 8, self.RGB), png(3, 3, 2, 8, self.RGB), png(3, 1, 2, 8, self.RGB), png(3, 2, 2, 8, self.RGB, filters=[0, 9]),
               png(2, 1, 3, 8, [bytes([1, 0])]), png(2, 1, 3, 8, [bytes([1, 0])], bytes(3)), png(1, 1, 3, 8, [b"\0"], bytes(4))]  # fmt: skip
        bad += [whole[:n] for n in range(8, len(whole), 5)]
        bad += [whole[:n] + bytes([whole[n] ^ 16]) + whole[n + 1:] for n in range(8, len(whole), 3)]
        graph = self.graph("u8[2, 3, 3]")
        for i, data in enumerate(bad):
            (self.folder / "x.png").write_bytes(data)
            with self.subTest(i):
                self.fails(1, r"x\.png", "run", graph, "--input", f"x={self.folder / 'x.png'}")


class Trained(ProgramTest):
    def setUp(self):
        super().setUp()
        write_npy(self.folder / "x.npy", "<f4", [20, 3], [i % 7 - 3 for i in range(60)])
        write_npy(self.folder / "t.npy", "<i8", [20], [i % 2 for i in range(20)])

    def train(self, name, *options):
        self.succeeds("train", "mlp", "--data", f"x={self.folder / 'x.npy'}", "--data", f"t={self.folder / 't.npy'}", "--steps", 3,
                      "--out", self.folder / name, *options)  # fmt: skip
        return self.folder / name

    def test_its_folder_is_a_model(self):
        model, x = self.train("m"), f"x={self.folder / 'x.npy'}"
        of_folder = self.succeeds("run", model, "--input", x, "--json")
        explicit = self.succeeds("run", model / "inference.rlx", "--params", model / "params.safetensors", "--input", x, "--json")
        self.assertEqual(of_folder, explicit)
        self.assertEqual(of_folder, self.succeeds("run", model / "inference.rlx", "--input", x, "--json"))
        self.assertEqual(json.loads(of_folder)["outputs"][0]["shape"], [20, 2])
        self.assertIn("native", self.succeeds("where", model))
        self.assertIn("params.safetensors", self.succeeds("inspect", model))
        package = self.folder / "m.mlpackage"
        self.fails(2, "runs for any 'N'.*--dim N=1", "convert", model, "-o", package)
        self.succeeds("convert", model, "-o", package, "--dim", "N=20", "--precision", "f32")
        by_package = json.loads(self.succeeds("run", package, "--input", x, "--precision", "f32", "--json"))["outputs"][0]["values"]
        for a, b in zip(json.loads(of_folder)["outputs"][0]["values"], by_package, strict=True):
            self.assertAlmostEqual(a, b, places=5)

    def test_two_trainings_are_compared_each_with_its_own_params(self):
        one, other = self.train("one"), self.train("other", "--seed", 5)
        self.assertRegex(self.succeeds("compare", one, one), r"all \d+ values within")
        compared = json.loads(self.succeeds("compare", one, other, "--json"))
        self.assertEqual((compared["made_up_inputs"], compared["bound"]), (True, 0.001))
        self.assertIn(compared["first_beyond"], [v["name"] for v in compared["values"]])
        self.assertGreater(max(v["relative"] for v in compared["values"]), 0.01)

    def test_a_model_of_bytes_is_compared_with_its_package(self):
        """A package has no bytes: its input is i32."""
        write_npy(self.folder / "x.npy", "|u1", [20, 3], [i * 37 % 256 for i in range(60)])
        model, package = self.train("bytes"), self.folder / "bytes.mlpackage"
        self.succeeds("convert", model, "-o", package, "--dim", "N=20", "--precision", "f32", "-q")
        for words in ((model, package), (package, model), (model, package, "--input", f"x={self.folder / 'x.npy'}")):
            self.assertRegex(self.succeeds("compare", *words), r"all \d+ values within")
        write_npy(self.folder / "big.npy", "<i4", [20, 3], [300] * 60)
        self.fails(1, "input 'x' is of u8, and the array of i32 holds 300", "compare", model, package, "--input",
                   f"x={self.folder / 'big.npy'}")  # fmt: skip

    def test_a_folder_with_params_alone_says_what_is_missing(self):
        model = self.train("m")
        (model / "inference.rlx").unlink()
        self.fails(1, r"has params and no inference\.rlx", "run", model)

    def test_what_is_done_with_it_is_told_as_json_too(self):
        lines = [json.loads(line) for line in self.succeeds(
            "train", "mlp", "--data", f"x={self.folder / 'x.npy'}", "--data", f"t={self.folder / 't.npy'}", "--hold-out", 0.2, "--epochs", 3,
            "--log-every", 1, "--out", self.folder / "j", "--json").splitlines()]  # fmt: skip
        logged = [json.loads(line) for line in (self.folder / "j/metrics.jsonl").read_text().splitlines()]
        self.assertEqual([(r["step"], r.get("loss"), r.get("test_loss")) for r in lines[:-1]], [(r["step"], r.get("loss"), r.get("test_loss")) for r in logged])
        self.assertEqual((lines[-1]["params"], lines[-1]["model"]), (str(self.folder / "j/params.safetensors"), str(self.folder / "j/inference.rlx")))
        told = json.loads(self.succeeds("inspect", self.folder / "j", "--json"))
        self.assertEqual((told["kind"], told["inputs"]), ("graph", [{"name": "x", "type": "f32[N, 3]"}]))
        self.assertEqual({p["name"] for p in told["params"]}, {t["name"] for t in json.loads(self.succeeds("inspect", lines[-1]["params"], "--json"))["tensors"]})
        self.assertEqual(json.loads(self.succeeds("inspect", self.folder / "x.npy", "--json")), {"kind": "npy", "type": "f32[20, 3]"})
        package = self.folder / "j.mlpackage"
        report = json.loads(self.succeeds("convert", self.folder / "j", "-o", package, "--dim", "N=1", "--json"))
        self.assertEqual((report["package"], report["minimum_ios"], report["dispatch"]["target"][:6]), (str(package), 15, "coreml"))
        self.assertEqual(json.loads(self.succeeds("inspect", package, "--json"))["kind"], "package")
        self.fails(2, "either --audit or --json", "train", "mlp", "--data", "x=x.npy", "--audit", "--json")

    def test_json_of_every_dtype(self):
        for kind, value in (("f32", "0.5"), ("f64", "0.5"), ("i64", "-3"), ("u8", "200"), ("bf16", "0.5"), ("f16", "0.5")):
            graph = self.file("c.rlx", f'rlx 1\ngraph @g {{\n  %0 = constant() {{value = {kind}[] [{value}]}} : {kind}[]\n  return %0 @"y"\n}}\n')
            (output,) = json.loads(self.succeeds("run", graph, "--json"))["outputs"]
            self.assertEqual((output["dtype"], output["shape"], output["values"]), (kind, [], [json.loads(value)]))


if __name__ == "__main__":
    unittest.main()
