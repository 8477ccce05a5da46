#!/usr/bin/env python3
"""Names in files may hold any bytes. None that steers a terminal reaches it, on standard output or error, and both are
valid UTF-8."""

import os
import pty
import struct
import subprocess
import unittest

from program import PROGRAM, ProgramTest, f32, write_npy, write_safetensors

# Sets the title, clears the screen, moves back; CSI in one character; no UTF-8 at all.
EVIL = b'\x1b]0;owned\x07\x1b[2J\r\x08\xc2\x9b31m\x7f\xff\xc3'


def quoted(name):
    """As it may stand in a .rlx file: the parser takes raw bytes too."""
    return b'"' + name.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


class Terminal(ProgramTest):
    def graph(self, name, op="exp", output=b"y"):
        path = self.folder / name
        path.write_bytes(
            b"rlx 1\ngraph @" + (quoted(EVIL) if name == "named.rlx" else b"g") + b" {\n  %0 = input() @" + quoted(EVIL)
            + b" : f32[2]\n  %1 = " + op.encode() + b"(%0) @" + quoted(EVIL) + b" : f32[2]\n  return %1 @" + quoted(output)
            + b"\n}\n")  # fmt: skip
        return path

    def is_printable(self, *arguments, code=None):
        result = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, check=False)
        for stream in (result.stdout, result.stderr):
            text = stream.decode("utf-8")  # fails for what is no UTF-8
            control = [c for c in text if (ord(c) < 0x20 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0]
            self.assertEqual(control, [], (arguments, text))
        self.assertGreaterEqual(result.returncode, 0, arguments)
        if code is not None:
            self.assertEqual(result.returncode, code, (arguments, result.stderr))
        return (result.stdout + result.stderr).decode()

    def test_names_of_graphs_inputs_nodes_and_outputs(self):
        graph = self.graph("g.rlx", output=EVIL)
        x = self.folder / "x.npz"
        write_safetensors(self.folder / "x.safetensors", {"x": ("F32", [2], f32(1, 2))})
        self.assertIn("owned", self.is_printable("inspect", graph, code=0))
        self.assertIn("owned", self.is_printable("where", graph, "--nodes", code=0))
        self.is_printable("where", graph, "--json", code=0)
        self.is_printable("where", graph, "--target", "coreml", "--nodes")
        self.assertIn("owned", self.is_printable("compare", graph, graph, code=0))
        self.assertIn("owned", self.is_printable("run", graph, code=1))
        self.assertIn("owned", self.is_printable("run", graph, "--input", self.folder / "x.safetensors", code=1))
        self.is_printable("run", graph, "--input", x, code=1)

    def test_outputs_that_are_printed(self):
        graph = self.folder / "c.rlx"
        graph.write_bytes(b'rlx 1\ngraph @g {\n  %0 = input() @"x" : f32[2]\n  %1 = exp(%0) : f32[2]\n  return %1 @'
                          + quoted(EVIL) + b"\n}\n")
        write_npy(self.folder / "x.npy", "<f4", [2], [1, 2])
        self.assertIn("owned", self.is_printable("run", graph, "--input", f"x={self.folder / 'x.npy'}", code=0))

    def test_errors(self):
        for text in (b"rlx 1\ngraph @g {\n  %0 = " + EVIL, b"rlx 1\n" + EVIL, EVIL * 30,
                     b'rlx 1\ngraph @g {\n  %0 = input() @"' + b"\xf0\x9f\x99\x82" * 30 + b"\xff"):  # fmt: skip
            (self.folder / "bad.rlx").write_bytes(text)
            for command in ("where", "inspect", "run"):
                with self.subTest(text[:20], command=command):
                    self.is_printable(command, self.folder / "bad.rlx", code=1)
        self.is_printable("inspect", EVIL.replace(b"/", b"").decode("utf-8", "surrogateescape"), code=1)
        for word in ("--\x1b[2J", "\x1b[2J"):
            self.is_printable(word, code=2)

    def test_metadata_and_names_of_weights(self):
        header = b'{"__metadata__":{"\\u001b[2J":"\\u009b31m\\r"},"\\u001b]0;owned\\u0007":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        path = self.folder / "w.safetensors"
        path.write_bytes(struct.pack("<Q", len(header)) + header + f32(1))
        self.assertIn("owned", self.is_printable("inspect", path, code=0))


class ProgressBars(ProgramTest):
    """On a terminal, where both streams are one: what is written there."""

    def lines_of(self, *arguments):
        leader, follower = pty.openpty()
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=follower, stderr=follower, stdin=subprocess.DEVNULL)
        os.close(follower)
        text = b""
        while True:
            try:
                block = os.read(leader, 1 << 16)
            except OSError:  # whoever wrote has ended
                break
            if not block:
                break
            text += block
        os.close(leader)
        self.assertEqual(process.wait(), 0, text)
        return text.decode()

    def test_text_never_stands_behind_a_bar(self):
        x, t = self.folder / "x.npy", self.folder / "t.npy"
        write_npy(x, "<f4", [4096, 64], [i % 13 - 6 for i in range(4096 * 64)])
        write_npy(t, "<i8", [4096], [i % 2 for i in range(4096)])
        text = self.lines_of("train", "mlp", "--data", f"x={x}", "--data", f"t={t}", "--hold-out", 0.1, "--hidden", "1024,1024", "--epochs", 4,
                             "--evaluate-every", 20, "--out", self.folder / "m")  # fmt: skip
        self.assertIn("training [", text, "the bar was never drawn: the work was too short to test it")
        self.assertIn("test loss", text)
        for line in text.split("\n"):
            # What a terminal shows of a line: what stands behind the last return, with an erased rest.
            shown = ""
            for part in line.rstrip("\r").split("\r"):
                shown = part.split("\x1b[K")[0] + (shown[len(part):] if "\x1b[K" not in part else "") if part else shown
                if "\x1b[K" in part:
                    shown = part.replace("\x1b[K", "")
            self.assertFalse("training [" in shown and ("test loss" in shown or "step" in shown), shown)


if __name__ == "__main__":
    unittest.main()
