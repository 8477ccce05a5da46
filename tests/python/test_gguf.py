"""rlx.GGUFFile, load_gguf, save_gguf, on the files that the package gguf wrote (tests/golden/generate/gguf_files.py)."""

import json
import pathlib

import numpy as np
import pytest

import rlx

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden/gguf"


def expected():
    """The arrays of expected.safetensors, by name."""
    return {name: np.asarray(x) for name, x in rlx.load(GOLDEN / "expected.safetensors").items()}


@pytest.mark.parametrize("name", ["every_kind.gguf", "big_endian.gguf", "version2.gguf"])
@pytest.mark.parametrize("mapped", [False, True])
def test_every_kind_is_read(name, mapped):
    file, wanted = rlx.GGUFFile(GOLDEN / name, mapped=mapped), expected()
    assert len(file) == (17 if name == "big_endian.gguf" else 36) and "blocks.q4_k" in file and "x" not in file
    assert file.byte_order == ("big" if name == "big_endian.gguf" else "little") and file.version == (2 if "2" in name else 3)
    for tensor in file:
        x, packed = np.asarray(file[tensor]), file.packed(tensor)
        assert x.shape == file.shape(tensor) == packed.shape
        np.testing.assert_array_equal(packed.data, wanted[tensor + "/bytes"])
        if tensor.startswith("blocks."):
            np.testing.assert_array_equal(x.view(np.uint32), wanted[tensor + "/values"].view(np.uint32))
            assert file.kind(tensor).lower() == packed.dtype == tensor[7:]
        else:
            np.testing.assert_array_equal(x.astype(np.float32), wanted[tensor + "/values"])


def test_metadata_are_values_of_their_types():
    wanted = json.loads((GOLDEN / "metadata.json").read_text())["every_kind"]
    file = rlx.GGUFFile(GOLDEN / "every_kind.gguf")
    assert list(file.metadata) == list(wanted)
    assert {k: [file.types[k], file.metadata[k]] for k in wanted} == wanted


def test_blocks_become_other_floats():
    file = rlx.GGUFFile(GOLDEN / "every_kind.gguf")
    assert file.tensor("blocks.q8_0", "float16").dtype == np.float16
    np.testing.assert_array_equal(np.asarray(file.tensor("blocks.q8_0", "float64")), np.asarray(file["blocks.q8_0"]))
    assert rlx.load_gguf(GOLDEN / "every_kind.gguf")["plain.I16"].dtype == np.int16
    with pytest.raises(ValueError, match="f32, f64, f16 or bf16"):
        file.tensor("blocks.q8_0", "int32")


def test_what_is_written_is_what_was_read(tmp_path):
    file = rlx.GGUFFile(GOLDEN / "every_kind.gguf")
    metadata = {key: (file.types[key], value) for key, value in file.metadata.items()}
    rlx.save_gguf(tmp_path / "a.gguf", {name: file.packed(name) for name in file}, metadata)
    assert (tmp_path / "a.gguf").read_bytes() == (GOLDEN / "every_kind.gguf").read_bytes()
    rlx.save_gguf(tmp_path / "b.gguf", {name: file.packed(name) for name in file}, metadata, most_part_bytes=4000)
    parts = sorted(tmp_path.glob("b-*.gguf"))
    assert len(parts) > 1 and list(rlx.GGUFFile(parts[-1])) == list(file)
    rlx.save_gguf(tmp_path / "c.gguf", {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}, big_endian=True)
    np.testing.assert_array_equal(np.asarray(rlx.GGUFFile(tmp_path / "c.gguf")["x"]), np.arange(6).reshape(2, 3))


def test_types_follow_from_values(tmp_path):
    values = {"a": True, "b": 7, "c": -7, "d": 2**40, "e": 2**63, "f": 0.5, "g": "text", "h": [1, -2], "i": ["x", ""], "j": np.float64(1.5),
              "k": ("array u8", [1, 2]), "l": ("u64", 3), "m": [0.5, float("inf")], "n": [True, False]}
    rlx.save_gguf(tmp_path / "a.gguf", {}, values)
    file = rlx.GGUFFile(tmp_path / "a.gguf")
    assert list(file.types.values()) == ["bool", "u32", "i32", "i64", "u64", "f32", "string", "array i32", "array string", "f64",
                                         "array u8", "u64", "array f32", "array bool"]
    assert [file.metadata[k] for k in "abcdefghijklmn"] == [True, 7, -7, 2**40, 2**63, 0.5, "text", [1, -2], ["x", ""], 1.5, [1, 2], 3,
                                                          [0.5, float("inf")], [True, False]]


def test_errors_say_what_is_wrong(tmp_path):
    file = rlx.GGUFFile(GOLDEN / "every_kind.gguf")
    for call in (lambda: file["blocks.q4_x"], lambda: file.kind("blocks.q4_x")):
        with pytest.raises(KeyError, match="the nearest are 'blocks.q4_"):
            call()
    with pytest.raises(FileNotFoundError):
        rlx.GGUFFile(tmp_path / "none.gguf")
    (tmp_path / "bad.gguf").write_bytes((GOLDEN / "every_kind.gguf").read_bytes()[:-5000])
    with pytest.raises(ValueError, match="the file is cut"):
        rlx.GGUFFile(tmp_path / "bad.gguf")
    with pytest.raises(NotImplementedError, match="no kind for bool"):
        rlx.save_gguf(tmp_path / "x.gguf", {"x": np.ones(2, bool)})
    with pytest.raises(TypeError, match="one type"):
        rlx.save_gguf(tmp_path / "x.gguf", {}, {"x": [1, "a"]})
    with pytest.raises(TypeError, match="metadata are numbers"):
        rlx.save_gguf(tmp_path / "x.gguf", {}, {"x": object()})
    with pytest.raises(ValueError, match="is no u8"):
        rlx.save_gguf(tmp_path / "x.gguf", {}, {"x": ("u8", 300)})
    with pytest.raises(ValueError, match="is u32 1073741824, and has to be a u32 that is a power of two up to 65536"):
        rlx.save_gguf(tmp_path / "x.gguf", {}, {"general.alignment": 2**30})
    with pytest.raises(ValueError, match="has to be a u32") as error:
        rlx.save_gguf(tmp_path / "x.gguf", {}, {"general.alignment": "x" * 1_000_000})
    assert len(str(error.value)) < 1000
    deep = 1
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ValueError, match="at most 8 levels deep.* has 100"):
        rlx.save_gguf(tmp_path / "x.gguf", {}, {"x": deep})
    assert not (tmp_path / "x.gguf").exists()


def test_blocks_are_made_and_read_inside_of_a_jitted_function():
    x = np.random.default_rng(1).normal(size=(3, 64)).astype(np.float32)
    y = rlx.jit(lambda v: rlx.ops.dequantize_blocks(rlx.ops.quantize_blocks(v, "q8_0")))(x)
    blocks = x.reshape(3, 2, 32)  # GGML's quantize_row_q8_0: a scale of f16 and 32 integers
    scale = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    codes = blocks * (np.float32(1) / scale)
    wanted = np.trunc(codes + np.copysign(np.float32(0.5), codes)) * scale.astype(np.float16).astype(np.float32)
    assert np.array_equal(np.asarray(y), wanted.reshape(3, 64))
    with pytest.raises(TypeError, match="NumPy has no q8_0"):
        rlx.ops.quantize_blocks(x, "q8_0")
    with pytest.raises(rlx.Error, match="no dtype 'q9_9'"):
        rlx.jit(lambda v: rlx.ops.quantize_blocks(v, "q9_9"))(x)
