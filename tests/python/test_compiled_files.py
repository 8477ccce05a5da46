"""Compiled graphs in files: saved here, loaded here and in another process, bit by bit what they gave; and what is refused."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import rlx

GRAPH = """graph @small {
  %0 = input() @"x" : f32[N, 3]
  %1 = param() @"w" : f32[3, 2]
  %2 = matmul(%0, %1) @"dense" : f32[N, 2]
  %3 = tanh(%2) @"dense" : f32[N, 2]
  return %3 @"y"
}"""
W, X = np.arange(6, dtype=np.float32).reshape(3, 2) / 4 - 0.5, np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
DEVICES = ["cpu", "loopback", "tiny", "coreml"]

LOAD = """
import sys, numpy as np, rlx
path, x, y = sys.argv[1:]
np.save(y, rlx.load_compiled(path).run({"x": np.load(x)})["y"])
"""


def compiled(device="cpu", **options):
    made = rlx.Session(device, threads=1).compile(rlx.Graph.parse(GRAPH), **options)
    made.set_params({"w": W})
    return made


@pytest.mark.parametrize("device", DEVICES)
def test_another_process_gives_the_same_bits(tmp_path, device):
    made = compiled(device)
    wanted = made.run({"x": X})["y"]
    np.testing.assert_allclose(wanted, np.tanh(X @ W), rtol=2e-5, atol=2e-6)
    made.save(tmp_path / "small.rlxc", {"w": W})
    np.save(tmp_path / "x.npy", X)
    subprocess.run([sys.executable, "-c", LOAD, tmp_path / "small.rlxc", tmp_path / "x.npy", tmp_path / "y.npy"], check=True,
                   env=os.environ | {"PYTHONPATH": str(pathlib.Path(rlx.__file__).resolve().parents[1])})
    assert np.load(tmp_path / "y.npy").tobytes() == wanted.tobytes()


def test_params_that_are_not_in_the_file_are_bound_later(tmp_path):
    made = compiled()
    made.save(tmp_path / "bare.rlxc")
    assert rlx.artifact_info(tmp_path / "bare.rlxc")["values"] == []
    loaded = rlx.load_compiled(tmp_path / "bare.rlxc")
    assert (loaded.input_names, loaded.param_names, loaded.output_names) == (["x"], ["w"], ["y"])
    with pytest.raises(rlx.Error, match="w"):
        loaded.run({"x": X})
    loaded.set_params({"w": W})
    assert loaded.run({"x": X})["y"].tobytes() == made.run({"x": X})["y"].tobytes()
    assert loaded.report() == made.report()


def test_what_a_file_says_of_itself(tmp_path):
    compiled(accuracy="exact", skip_passes=["fuse_elementwise"]).save(tmp_path / "small.rlxc", {"w": W})
    info = rlx.artifact_info(tmp_path / "small.rlxc")
    assert (info["kind"], info["graph"], info["device"], info["version"]) == ("compiled graph", "small", "cpu", rlx.__version__)
    assert info["inputs"] == [{"name": "x", "type": "f32[N, 3]", "mode": "read"}]
    assert info["params"] == [{"name": "w", "type": "f32[3, 2]"}] and info["values"] == ["w"]
    assert (info["options"]["accuracy"], info["options"]["skip_passes"]) == ("exact", ["fuse_elementwise"])
    assert info["facts"] == rlx.device_target("cpu")["facts"] and "processor" in info["facts"]
    assert {"matmul", "tanh"} <= set(info["ops"])
    again = rlx.Session("tiny").compile(rlx.artifact_graph(tmp_path / "small.rlxc"))
    again.set_params({"w": W})
    np.testing.assert_allclose(again.run({"x": X})["y"], np.tanh(X @ W), rtol=2e-5, atol=2e-6)


def test_what_does_not_fit_is_refused_with_what_differs(tmp_path):
    path = tmp_path / "small.rlxc"
    compiled().save(path, {"w": W})
    with pytest.raises(rlx.Error, match="device: 'small' was compiled for cpu, and here it is tiny"):
        rlx.load_compiled(path, device="tiny")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(rlx.Error, match="cut"):
        rlx.load_compiled(path)
    with pytest.raises(rlx.Error, match="none.rlxc"):
        rlx.load_compiled(tmp_path / "none.rlxc")
    with pytest.raises(rlx.Error, match="has no param 'v'"):
        compiled().save(path, {"v": W})
    with pytest.raises(TypeError, match="which is no dtype of RLX"):
        compiled().save(path, {"w": np.array(["a"])})


def test_a_device_as_data():
    tiny, cpu = rlx.device_target("tiny"), rlx.device_target("cpu")
    assert tiny["limits"] == {"largest_buffer": 1 << 20, "buffers_per_launch": 8, "index_bits": 32}
    assert tiny["memory"]["host_access"] == "mapped" and tiny["absent_dtypes"] == ["f64", "c128"]
    assert cpu["limits"] == {"largest_buffer": None, "buffers_per_launch": None, "index_bits": 64}
    assert "matmul" in cpu["claims"] and len(cpu["claims"]) <= cpu["ops"] and "elementwise" in cpu["fuses"]
    with pytest.raises(rlx.Error, match="there is no device 'abacus'"):
        rlx.device_target("abacus")
    with pytest.raises(rlx.Error, match="not available"):
        rlx.device_target("cuda")
