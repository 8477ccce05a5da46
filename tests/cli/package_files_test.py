#!/usr/bin/env python3
"""Core ML models in other files than an .mlpackage: zipped, as .mlmodel, compiled, and of the kinds before ML Programs."""

import pathlib
import resource
import shutil
import stat
import subprocess
import tarfile
import tempfile
import unittest
import zipfile

from program import PROGRAM, ROOT, ProgramTest, rlx

GOLDEN = ROOT / "tests/golden/mlpackage/loop.mlpackage"  # written by coremltools
MODEL = "Data/com.apple.CoreML/model.mlmodel"


def zipped(path, *packages, extra=()):
    """An archive of the packages as Finder makes it, with `extra` members (name or ZipInfo, bytes)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for package in packages:
            for file in sorted(package.rglob("*")):
                if file.is_file():
                    archive.write(file, f"{package.name}/{file.relative_to(package)}")
        archive.writestr("__MACOSX/._Manifest.json", b"resource fork")
        for name, data in extra:
            archive.writestr(name, data)
    return path


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def model_of_kind(kind, version=4):
    """The protocol buffer of a Core ML model with an empty message of that kind (the field numbers of Model.proto)."""
    return b"\x08" + varint(version) + varint(kind << 3 | 2) + b"\x00"


class OtherFiles(ProgramTest):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def inspected(self, path):
        """What `rlx inspect` says of the model, without its path and the size of the file or folder."""
        lines = self.succeeds("inspect", str(path)).splitlines()
        return "\n".join(line.split(", package")[0] for line in lines if str(path) not in line)

    def test_a_zipped_package_is_read_as_the_package(self):
        archive = zipped(self.folder / "loop.mlpackage.zip", GOLDEN)
        self.assertEqual(self.inspected(archive), self.inspected(GOLDEN))
        self.assertEqual(self.inspected(zipped(self.folder / "download.zip", GOLDEN)), self.inspected(GOLDEN))
        self.assertEqual(self.succeeds("where", str(archive)).replace(str(archive), "X"),
                         self.succeeds("where", str(GOLDEN)).replace(str(GOLDEN), "X"))

    def test_weights_of_a_zipped_package_are_read(self):
        with tarfile.open(ROOT / "tests/mil/models.tar.xz") as archive:
            archive.extractall(self.folder)
        package = next((self.folder / "cnn/fp16").glob("*.mlpackage"))
        archive = zipped(self.folder / "cnn.mlpackage.zip", package)
        self.assertEqual(self.succeeds("compare", str(package), str(archive), "--seed", "3").count("inf"), 0)
        self.assertEqual(self.inspected(archive), self.inspected(package))

    def test_a_manifest_at_the_top_of_the_archive_is_a_package(self):
        path = self.folder / "top.mlpackage.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for file in GOLDEN.rglob("*"):
                archive.write(file, file.relative_to(GOLDEN))
        self.assertEqual(self.inspected(path), self.inspected(GOLDEN))

    def test_nothing_of_an_archive_stays_behind(self):
        temporary = self.folder / "tmp"
        temporary.mkdir()
        archive = zipped(self.folder / "loop.mlpackage.zip", GOLDEN)
        self.assertEqual(rlx("inspect", str(archive), TMPDIR=str(temporary)).returncode, 0)
        self.assertEqual(list(temporary.iterdir()), [])

    def test_archives_that_are_no_model_or_do_harm_are_refused(self):
        link = zipfile.ZipInfo("loop.mlpackage/link")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        whole = zipped(self.folder / "whole.zip", GOLDEN).read_bytes()
        second = self.folder / "second.mlpackage"
        shutil.copytree(GOLDEN, second)
        cases = {
            "leads out of the archive": [("../outside", b"x")],
            "made to do harm": [("/tmp/outside", b"x")],
            "is a link": [(link, b"/etc/passwd")],
            "twice": [("loop.mlpackage/Manifest.json", b"{}")],
        }
        for text, extra in cases.items():
            with self.subTest(text):
                self.fails(1, text, "inspect", str(zipped(self.folder / "bad.mlpackage.zip", GOLDEN, extra=extra)))
        self.assertFalse((self.folder.parent / "outside").exists())
        self.fails(1, "holds 2 models", "inspect", str(zipped(self.folder / "two.mlpackage.zip", GOLDEN, second)))
        self.fails(1, "holds no .mlpackage", "inspect", str(zipped(self.folder / "none.mlpackage.zip", extra=[("a.txt", b"x")])))
        cut = self.folder / "cut.mlpackage.zip"
        for length in (4, 100, len(whole) // 2, len(whole) - 1):
            cut.write_bytes(whole[:length])
            with self.subTest(length):
                self.fails(1, "zip archive", "inspect", str(cut))
        spoilt = bytearray(whole)
        spoilt[len(whole) // 3] ^= 0x55
        cut.write_bytes(spoilt)
        self.assertEqual(rlx("inspect", str(cut)).returncode, 1)

    def test_an_archive_that_grows_without_end_is_refused(self):
        path = self.folder / "bomb.mlpackage.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            with archive.open("x.mlpackage/big", "w", force_zip64=True) as member:
                for _ in range(1100):
                    member.write(bytes(1 << 20))
        self.fails(1, "would unpack to more than", "inspect", str(path))
        # Its members say so themselves: nothing is written before. A write of more than a megabyte would end the process.
        limited = subprocess.run([PROGRAM, "inspect", path], capture_output=True, text=True, check=False,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
        self.assertEqual(limited.returncode, 1, limited)
        self.assertIn("would unpack to more than", limited.stderr)

    def test_an_mlmodel_with_an_ml_program_is_read(self):
        shutil.copytree((GOLDEN / MODEL).parent, self.folder / "holder")  # with weights/weight.bin beside the model
        path = (self.folder / "holder/model.mlmodel").rename(self.folder / "holder/loop.mlmodel")
        functions = [line for line in self.succeeds("inspect", str(path)).splitlines() if "while_loop" in line]
        self.assertTrue(functions)

    def test_older_kinds_are_named_with_what_to_do(self):
        path = self.folder / "old.mlmodel"
        for kind, text in ((500, r"a neural network \(specification version 4\).*convert_to=\"mlprogram\""),
                           (403, r"a neural network that classifies.*convert_to=\"mlprogram\""),
                           (202, "a pipeline of models.*one by one"), (402, "a classifier by trees.*only ML Programs"),
                           (777, "of kind 777")):  # fmt: skip
            with self.subTest(kind):
                path.write_bytes(model_of_kind(kind))
                for subcommand in ("inspect", "where"):
                    self.fails(1, text, subcommand, str(path))

    def test_a_compiled_model_is_named_with_what_to_do(self):
        compiled = self.folder / "Model.mlmodelc"
        compiled.mkdir()
        (compiled / "coremldata.bin").write_bytes(b"\0")
        for subcommand in ("inspect", "where"):
            self.fails(1, "is a compiled model, .*load what it was made of", subcommand, str(compiled))
        self.fails(1, "is a compiled model", "inspect", str(compiled) + "/")

    def test_what_is_no_model_at_all_is_refused(self):
        path = self.folder / "text.mlmodel"
        path.write_text("Dear model, how are you?")
        self.fails(1, "reading the Core ML package", "inspect", str(path))
        self.fails(1, "does not exist", "inspect", str(self.folder / "absent.mlmodel"))


if __name__ == "__main__":
    unittest.main()
