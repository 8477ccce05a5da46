"""rlx.save and rlx.load: trees come back as they were, other packages read the files, damaged ones are errors."""

import collections
import json
import os

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from conftest import close
from test_trees import Layer, Pair, Ring

try:
    import safetensors.numpy
except ImportError:
    safetensors = None

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64", "complex64"]


def bits(x):
    a = np.ascontiguousarray(np.asarray(x))
    return a.reshape(-1).view(np.uint8)


def tree_of_all():
    rng = np.random.default_rng(3)
    return {"layers": [{"w": rnp.asarray(rng.normal(size=(3, 4)), "bf16"), "b": None}, {"w": rnp.asarray(rng.normal(size=(4, 2)), "f32")}],
            "step": 7, "rest": (rnp.zeros((0, 3)), rnp.asarray(2.5, "f64")), "odd keys": {"a.b": rnp.ones(2), "": rnp.ones(1)},
            "ordered": collections.OrderedDict(z=rnp.ones(2), a=rnp.zeros(2)), "numbers": {2: rnp.ones(1), 1: rnp.zeros(1)}}


def test_a_tree_comes_back_bit_by_bit(tmp_path):
    value = tree_of_all()
    rlx.save(tmp_path / "a.safetensors", value)
    back = rlx.load(tmp_path / "a.safetensors")
    assert rlx.tree.structure(back) == rlx.tree.structure(value)
    for x, y in zip(rlx.tree.leaves(value), rlx.tree.leaves(back)):
        x = rnp.asarray(x)
        assert (x.dtype, x.shape) == (y.dtype, y.shape) and np.array_equal(bits(x), bits(y))
    assert back["layers"][0]["w"].dtype == rlx.bfloat16 and list(back["ordered"]) == ["z", "a"]
    assert sorted(os.listdir(tmp_path)) == ["a.safetensors"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(tmp_path, dtype):
    x = rnp.asarray(np.arange(12).reshape(3, 4) % 2, dtype)
    rlx.save(tmp_path / "x.safetensors", x)
    back = rlx.load(tmp_path / "x.safetensors")
    assert back.dtype == x.dtype and np.array_equal(bits(back), bits(x))


def test_a_transposed_array_is_written_in_its_own_order(tmp_path):
    a = np.arange(6, dtype=np.float32).reshape(2, 3).T
    rlx.save(tmp_path / "x.safetensors", {"a": a})
    assert np.array_equal(rlx.load(tmp_path / "x.safetensors")["a"], a)


def test_classes_come_back_into_one_that_is_given(tmp_path):
    value = {"l": Layer(rnp.ones((2, 2)), rnp.zeros(2), "sin"), "p": Pair(rnp.ones(1), 2), "r": Ring([rnp.ones(3)], "ring")}
    path = tmp_path / "c.safetensors"
    rlx.save(path, value)
    with pytest.raises(rlx.Error, match=r"like="):
        rlx.load(path)
    back = rlx.load(path, like=value)
    assert isinstance(back["l"], Layer) and back["l"].activation == "sin" and isinstance(back["p"], Pair) and back["r"].name == "ring"
    types = rlx.eval_shape(lambda: value)
    close(rlx.load(path, like=types), value)
    with pytest.raises(KeyError, match="'l.w', 'p.0'"):
        rlx.load(path, like={"m": value["l"].w})
    with pytest.raises(ValueError, match=r"'l\.w' as f32\[2, 2\], and `like` as f32\[3\]"):
        rlx.load(path, like={**value, "l": Layer(rnp.ones(3), rnp.zeros(2), "sin")})


def test_a_state_dict_has_pytorchs_names(tmp_path):
    state = collections.OrderedDict([("fc.weight", rnp.ones((2, 3))), ("fc.bias", rnp.zeros(2))])
    rlx.save(tmp_path / "s.safetensors", state, metadata={"format": "pt"})
    header = _header(tmp_path / "s.safetensors")
    assert set(header) == {"__metadata__", "fc.weight", "fc.bias"} and header["__metadata__"]["format"] == "pt"
    assert list(rlx.load(tmp_path / "s.safetensors")) == ["fc.weight", "fc.bias"]


def _header(path):
    data = path.read_bytes()
    return json.loads(data[8: 8 + int.from_bytes(data[:8], "little")])


@pytest.mark.parametrize("value,message", [
    ({"a": "text"}, r"the leaf at \['a'\] is a str, 'text'"), ({"a": np.ones(2, np.complex128)}, "of c128"),
    ({"a.b": np.ones(1), "a": {"b": np.ones(1)}}, "two leaves of the tree are called 'a.b'"), ({"__metadata__": np.ones(1)}, "no name for a tensor"),
])
def test_what_a_file_cannot_hold_is_refused_and_nothing_is_written(tmp_path, value, message):
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"before")
    with pytest.raises((rlx.Error, TypeError), match=message):
        rlx.save(path, value)
    assert path.read_bytes() == b"before" and os.listdir(tmp_path) == ["x.safetensors"]


def test_arguments_the_other_way_round_are_named(tmp_path):
    with pytest.raises(TypeError, match="path first"):
        rlx.save({"a": np.ones(1)}, tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        rlx.load(tmp_path / "absent.safetensors")
    with pytest.raises(FileNotFoundError):
        rlx.save(tmp_path / "absent" / "x.safetensors", np.ones(1))


def file_of(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


DAMAGED = [
    b"", b"\x01", b"\xff" * 8, (2**63).to_bytes(8, "little") + b"{}", file_of(b"{"), file_of(b"[]"), file_of(b"\xff\xfe{}"),
    file_of(b"[" * 100_000), file_of({"a": entry()}), file_of({"a": entry()}, bytes(9)), file_of({"a": entry(shape=(3,))}, bytes(8)),
    file_of({"a": entry(offsets=(4, 12))}, bytes(12)), file_of({"a": entry(), "b": entry()}, bytes(8)),
    file_of({"a": entry(shape=(-2,), offsets=(0, -8))}), file_of({"a": entry(shape=(2.0,))}, bytes(8)), file_of({"a": entry(shape=(True,), offsets=(0, 4))}, bytes(4)),
    file_of({"a": entry(shape=(2**62, 2**62))}, bytes(8)), file_of({"a": entry(shape=[1] * 65, offsets=(0, 4))}, bytes(4)),
    file_of({"a": {"dtype": "F32"}}), file_of({"a": 3}), file_of({"__metadata__": {"a": 1}}), file_of({"__metadata__": [1]}),
    file_of(b'{"a": %s, "a": %s}' % ((json.dumps(entry()).encode(),) * 2), bytes(8)), file_of({"a": entry("BOOL", (2,), (0, 2))}, b"\x00\x02"),
    file_of({"__metadata__": {"rlx.tree": "{"}}), file_of({"__metadata__": {"rlx.tree": '"b"'}, "a": entry()}, bytes(8)),
    file_of({"__metadata__": {"rlx.tree": "[" * 100_000}}), file_of({"__metadata__": {"rlx.tree": '{"list": [' * 500 + "3" + "]}" * 500}}),
    file_of({"__metadata__": {"rlx.tree": '{"dict": [["a"], []]}'}}), file_of({"__metadata__": {"rlx.tree": '{"dict": [[["a"]], ["a"]]}'}, "a": entry()}, bytes(8)),
]


@pytest.mark.parametrize("data", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_files_are_errors(tmp_path, data):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(data)
    with pytest.raises(rlx.Error, match="bad.safetensors") as caught:
        rlx.load(path)
    assert isinstance(caught.value, ValueError)


def test_cut_and_flipped_files_are_errors_or_values(tmp_path):
    path = tmp_path / "x.safetensors"
    rlx.save(path, {"a": rnp.ones((3, 2)), "b": [rnp.zeros(2, "i32")]})
    whole, rng = path.read_bytes(), np.random.default_rng(5)
    for n in range(0, len(whole), 7):
        path.write_bytes(whole[:n])
        with pytest.raises(rlx.Error):
            rlx.load(path)
    for _ in range(300):
        data = bytearray(whole)
        data[rng.integers(len(data) - 32)] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(data))
        try:
            rlx.load(path)
        except rlx.Error:
            pass


def test_a_dtype_without_arrays_is_named(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(file_of({"a": entry("F4", (2,), (0, 1))}, b"\0"))
    with pytest.raises(NotImplementedError, match="'F4'"):
        rlx.load(tmp_path / "x.safetensors")


@pytest.mark.skipif(safetensors is None, reason="the package safetensors is not installed")
def test_beside_the_reference_implementation(tmp_path):
    value = tree_of_all()
    del value["odd keys"]
    rlx.save(tmp_path / "a.safetensors", value)
    theirs = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    assert np.array_equal(bits(theirs["layers.0.w"]), bits(value["layers"][0]["w"])) and theirs["rest.0"].shape == (0, 3)
    arrays = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "y": np.array([True, False]), "z": np.float16([1.5])}
    safetensors.numpy.save_file(arrays, tmp_path / "b.safetensors")
    ours = rlx.load(tmp_path / "b.safetensors")
    assert set(ours) == set(arrays) and all(np.array_equal(ours[k], arrays[k]) and ours[k].dtype == arrays[k].dtype for k in arrays)


def test_the_library_reads_what_python_writes(tmp_path):
    """Through a training's params, which the C++ side reads and writes."""
    from rlx import train
    session = train.Session(lambda p, b: rnp.sum(p["w"] * b["x"]), {"w": np.float32([1, 2])}, train.sgd(0.5))
    session.step({"x": np.float32([1, 1])})
    session.save(tmp_path / "t.safetensors")
    assert any(np.array_equal(x, [0.5, 1.5]) for x in rlx.load(tmp_path / "t.safetensors").values())
