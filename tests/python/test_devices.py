"""Arrays on devices: where functions of them run, what comes back, and what is refused. "loopback" is a simulated device whose
memory the host cannot point into."""

import copy
import os
import pickle

import numpy as np
import pytest
from conftest import close

import rlx
import rlx.numpy as rnp

X = np.arange(6, dtype=np.float32).reshape(2, 3)
DEVICES = ["cpu", "loopback", "tiny"] + [info.name for info in rlx.device_infos() if info.name == "mlx" and info.available]
DEFAULT = os.environ.get("RLX_DEVICE") or "cpu"


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def test_the_devices_that_are_here_are_listed():
    assert set(DEVICES) <= set(rlx.devices())
    with pytest.raises(KeyError, match="device 'cpv' is not here; there are .*cpu"):
        rlx.device_put(X, "cpv")


def test_a_device_is_available_only_if_it_runs_something():
    for info in rlx.device_infos():
        if info.available:
            y = rlx.jit(lambda x: x * 2 + 1, device=info.name)(X)
            assert np.array_equal(np.asarray(y), X * 2 + 1), info
        else:
            with pytest.raises(rlx.Error, match="not available"):
                rlx.jit(lambda x: x * 2 + 1, device=info.name)(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8, np.bool_, np.complex64, rlx.bfloat16])
def test_an_array_comes_back_as_it_went(device, dtype):
    a = (np.arange(6) % 2).reshape(2, 3).astype(dtype)
    x = rlx.device_put(a, device)
    assert x.device == device and x.shape == (2, 3) and x.dtype == a.dtype and x.nbytes == a.nbytes
    assert np.array_equal(np.asarray(x).astype(np.complex64), a.astype(np.complex64))
    assert x.block_until_ready() is x
    back = rlx.device_put(x, "cpu")
    assert back.device == "cpu" and np.array_equal(back.tolist(), a.tolist())


def test_trees_empty_arrays_and_numbers_go_too(device):
    put = rlx.device_put({"a": X, "b": [2, np.zeros((0, 3), np.float32)]}, device)
    assert put["a"].device == put["b"][0].device == device
    assert int(put["b"][0]) == 2 and float(put["b"][0]) == 2.0 and put["b"][1].shape == np.asarray(put["b"][1]).shape == (0, 3)
    assert rlx.block_until_ready(put) is put


def test_functions_run_where_their_arrays_are_and_results_stay(device):
    x = rlx.device_put(X, device)
    f = rlx.jit(lambda a, b: (rnp.tanh(a @ b.T), a + b))
    product, total = f(x, x)
    assert product.device == total.device == device
    close((product, total), (np.tanh(X @ X.T), X + X))
    for got, wanted in ((x + x, X + X), (rnp.exp(x), np.exp(X)), (x[0], X[0]), (x.sum(axis=1), X.sum(1)), (x.astype("int32"), X.astype(np.int32))):
        assert got.device == device
        close(got, wanted)


def test_a_jitted_function_runs_on_the_default_device():
    before = rlx.transfers()
    y = rlx.jit(lambda a: a @ a.T)(X)
    close(y, X @ X.T)
    assert (rlx.transfers() == before) == (DEFAULT == "cpu")  # elsewhere X was copied there, and y back


def test_copies_and_waits_are_counted():
    before = rlx.transfers("loopback")
    x = rlx.device_put(X, "loopback")
    y = rlx.jit(lambda a: a * 2)(x)
    there = rlx.transfers("loopback")
    assert there == before._replace(copies_to_device=before.copies_to_device + 1, bytes_to_device=before.bytes_to_device + X.nbytes)
    close(y, X * 2)
    back = rlx.transfers("loopback")
    assert back == there._replace(copies_to_host=there.copies_to_host + 1, bytes_to_host=there.bytes_to_host + X.nbytes, host_waits=there.host_waits + 1)
    assert rlx.transfers("cpu") == (0,) * 6
    assert rlx.transfers() == rlx.transfers(DEFAULT)
    with pytest.raises(KeyError, match="none such"):
        rlx.transfers("none such")


def test_numbers_and_arrays_of_numpy_go_where_the_others_are():
    x = rlx.device_put(X, "loopback")
    for got, wanted in ((x * 2.0, X * 2), (3 - x, 3 - X), (x + X, X + X), (X + x, X + X), (x + rnp.ones(3), X + 1),
                        (rnp.where(x > 2, x, 0.0), np.where(X > 2, X, 0)), (rlx.jit(lambda a, b: a * b)(x, X), X * X)):
        assert got.device == "loopback"
        close(got, wanted)
    assert (rnp.ones(3) + X).device == "cpu"


def test_one_program_serves_arrays_of_one_device_after_another():
    f = rlx.jit(lambda a: a * a + 1)
    for device in ("cpu", "loopback", "tiny", "cpu", "loopback"):
        y = f(rlx.device_put(X, device))
        assert y.device == device
        close(y, X * X + 1)
    assert f(X).device == "cpu"


def test_arrays_of_two_devices_are_refused_by_name():
    here, there, other = (rlx.device_put(X, d) for d in ("cpu", "loopback", "tiny"))
    for f in (lambda a, b: a + b, rlx.jit(lambda a, b: a @ b.T), rlx.jit(lambda a, b: rnp.stack([a, b]))):
        with pytest.raises(ValueError, match="on different devices, cpu and loopback; move them to one with device_put"):
            f(here, there)
        with pytest.raises(ValueError, match="on different devices, tiny and loopback"):
            f(other, there)
    with pytest.raises(ValueError, match="on different devices, loopback and tiny"):
        rnp.stack([there, other])
    fixed = rlx.jit(lambda a: a + 1, device="tiny")
    with pytest.raises(ValueError, match="an argument is on loopback, and the function was compiled for tiny"):
        fixed(there)
    close(fixed(other), X + 1)


def test_derivatives_and_loops_stay_on_the_device(device):
    x = rlx.device_put(X, device)
    gradient = rlx.grad(lambda a: (a ** 3).sum())(x)
    assert gradient.device == device
    close(gradient, 3 * X ** 2)
    last, all_of_them = rlx.scan(lambda carry, row: (carry + row, carry * row), rlx.device_put(np.ones(3, np.float32), device), x)
    assert last.device == device
    close((last, all_of_them), (1 + X[0] + X[1], np.stack([X[0], (1 + X[0]) * X[1]])))
    close(rlx.vmap(lambda row: row / (1 + row.sum()))(x), X / (1 + X.sum(1, keepdims=True)))


def test_python_asks_for_elements(device):
    x = rlx.device_put(X, device)
    assert float(x[1, 2]) == 5.0 and bool(x[0, 1]) and x.tolist() == X.tolist() and x[1, 2].item() == 5.0
    assert repr(x) == repr(rnp.asarray(X)) and f"{x[1, 2]:.1f}" == "5.0"
    assert np.array_equal(pickle.loads(pickle.dumps(x)), X) and copy.deepcopy(x) is x


def test_numpy_is_told_that_other_memory_is_copied():
    x = rlx.device_put(X, "cpu")
    assert np.shares_memory(np.asarray(x, copy=False), x.numpy())
    with pytest.raises(ValueError, match="an array on loopback does not become one of NumPy without a copy"):
        np.asarray(rlx.device_put(X, "loopback"), copy=False)


def test_an_array_that_was_donated_is_gone_and_says_which_run_took_it(device):
    def step(state, y):
        return state["w"] + y
    f = rlx.jit(step, donate_argnums=0)
    w, y = rlx.device_put(X, device), rlx.device_put(np.ones_like(X), device)
    close(f({"w": w}, y), X + 1)
    close(y, np.ones_like(X))
    if device == "cpu":  # the host's memory is never written to
        return close(w, X)
    for use in (np.asarray, lambda a: a + 1, lambda a: a.block_until_ready(), lambda a: f({"w": a}, y)):
        with pytest.raises(ValueError, match=f"it was donated to the run of 'step' on {device}"):
            use(w)
    assert "donated to the run of 'step'" in repr(w)
    v = rlx.device_put(X, device)
    close(rlx.jit(step, donate_argnames="y")({"w": y}, y=v), X + 1)
    with pytest.raises(ValueError, match="donated"):
        v.tolist()
    close(y, np.ones_like(X))


def test_a_traced_value_has_no_device():
    with pytest.raises(rlx.TracedValueError, match="its device was asked for"):
        rlx.jit(lambda a: (a.device, a)[1])(X)


# ---- DLPack ----
def test_dlpack_shares_the_memory_that_the_host_may_point_into():
    x = rlx.device_put(X, "cpu")
    assert x.__dlpack_device__() == (1, 0)
    shared = np.from_dlpack(x)
    assert np.shares_memory(shared, x.numpy()) and not shared.flags.writeable
    copied = np.from_dlpack(x, copy=True)
    assert np.array_equal(copied, X) and not np.shares_memory(copied, x.numpy())
    with pytest.raises(BufferError, match="stream is 1; .*it is None"):
        x.__dlpack__(stream=1)
    with pytest.raises(BufferError, match=r"not in that of CUDA \(DLPack device \(2, 0\)\)"):
        x.__dlpack__(dl_device=(2, 0))


@pytest.mark.parametrize("dtype", [np.float32, rlx.bfloat16])
def test_dlpack_copies_other_memory_when_it_is_told_to(dtype):
    a = X.astype(dtype)
    x = rlx.device_put(a, "loopback")
    assert x.__dlpack_device__() != (1, 0)
    with pytest.raises(BufferError, match=r"on loopback, into whose memory the host cannot point: copy it with np.asarray\(x\)"):
        x.__dlpack__()
    with pytest.raises(BufferError, match="copy=False forbids it"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match="stream is 7"):
        x.__dlpack__(stream=7, copy=True)
    if dtype == np.float32:
        assert np.array_equal(np.from_dlpack(x, device="cpu"), X)
        with pytest.raises((BufferError, RuntimeError)):
            np.from_dlpack(x)

    class Theirs:  # another package's array in memory that the host cannot point into
        __dlpack_device__ = x.__dlpack_device__
        __dlpack__ = x.__dlpack__
    back = rnp.from_dlpack(Theirs())
    assert back.dtype == a.dtype and np.array_equal(back.astype("float32"), X)
    moved = rnp.from_dlpack(Theirs(), device="tiny")
    assert moved.device == "tiny" and np.array_equal(moved.astype("float32"), X)


def test_dlpack_of_a_package_that_does_not_copy_is_refused_with_the_reason():
    class Theirs:
        def __dlpack_device__(self):
            return 2, 0

        def __dlpack__(self, stream=None):
            raise AssertionError("not to be called")
    with pytest.raises(BufferError, match=r"on CUDA \(DLPack device \(2, 0\)\), .*copy it to the host first"):
        rnp.from_dlpack(Theirs())


def test_dlpack_with_pytorch_both_ways(device):
    torch = pytest.importorskip("torch")
    t = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    x = rnp.from_dlpack(t, device=device)
    assert x.device == device and np.array_equal(x, t.numpy())
    if device == "cpu":
        assert torch.equal(torch.from_dlpack(x), t)


def test_what_is_no_plugin_is_refused(tmp_path):
    (tmp_path / "text.so").write_text("no library")
    for path in [tmp_path / "text.so", str(tmp_path / "none.so"), ""]:
        with pytest.raises(OSError, match="no library that can be loaded"):
            rlx.load_plugin(path)


def test_a_compiled_graph_tells_whether_its_runs_replay_a_trace(device):
    graph = rlx.Graph.parse("""graph @double {
  %0 = input() @"x" : f32[2, 3]
  %1 = add(%0, %0) : f32[2, 3]
  return %1 @"y"
}""")
    assert rlx.Session(device).compile(graph).is_compiled() is (device == "mlx:compiled")
    if device.startswith("mlx"):
        for mode in ("lazy", "eager", "compiled"):
            assert rlx.Session(f"mlx:{mode}").compile(graph).is_compiled() is (mode == "compiled")


def test_committed_runs_are_waited_for_by_the_next_run(device):
    graph = rlx.Graph.parse("""graph @sum {
  %0 = input() @"x" : f32[2, 3]
  %1 = param() @"w" : f32[2, 3]
  %2 = add(%0, %1) : f32[2, 3]
  return %2 @"y"
}""")
    compiled = rlx.Session(device).compile(graph)
    compiled.set_param("w", X)
    assert compiled.sync_pending() is None
    for by in (1, 2, 3):
        given = X * np.float32(by)
        compiled.commit_no_wait({"x": given})
        given[:] = 0  # it was copied
    assert np.array_equal(compiled.run({"x": X})["y"], X * 2)
    assert np.array_equal(compiled.sync_pending()["y"], X * 4)
    assert compiled.sync_pending() is None
    with pytest.raises(rlx.Error, match="'x' is not given"):
        compiled.commit_no_wait({})
