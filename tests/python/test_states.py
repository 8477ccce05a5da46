"""States: what a compiled graph carries from run to run, on its device, in the words of Python."""

import copy
import threading

import numpy as np
import pytest

import rlx

DEVICES = ["cpu", "loopback", "tiny"]
GRAPH = """graph @decoder {
  %0 = input() @"x" : f32[1, 4]
  %1 = input() @"at" : i32[]
  %2 = input() @"cache" : f32[C, 4]
  %3 = constant() {value = i32[] [0]} : i32[]
  %4 = dynamic_update_slice(%2, %0, %1, %3) : f32[C, 4]
  %5 = reduce(%4) {kind = sum, axes = [0]} : f32[4]
  return %4 @"cache", %5 @"sum"
}"""
ROWS = np.arange(24, dtype=np.float32).reshape(6, 4)


@pytest.fixture(params=DEVICES)
def step(request):
    return rlx.Session(request.param).compile(rlx.Graph.parse(GRAPH), donate="cache")


def token(i):
    return {"x": ROWS[i:i + 1], "at": np.int32(i)}


def test_a_state_has_what_runs_put_into_it(step):
    state = step.new_state(extents={"C": 6})
    assert state.names == ["cache"] and state.types == {"cache": ("f32", (6, 4))} and state.device == step.session.device
    before = rlx.transfers(state.device)
    for i in range(6):
        out = step.run(token(i), state)
        assert list(out) == ["sum"] and np.array_equal(out["sum"], ROWS[:i + 1].sum(0))
    after = rlx.transfers(state.device)
    assert after.bytes_to_device - before.bytes_to_device == (0 if state.device == "cpu" else 6 * (16 + 4))
    assert after.bytes_to_host - before.bytes_to_host == (0 if state.device == "cpu" else 6 * 16)
    assert after.donated_copies == before.donated_copies
    assert np.array_equal(state["cache"], ROWS) and state.why_torn == ""


def test_states_are_forked_reset_and_given_values(step):
    one, other = step.new_state({"cache": ROWS}), step.new_state({"cache": ROWS * 2})
    forks = [one.copy(), copy.copy(one), copy.deepcopy(one)]
    step.run({"x": ROWS[5:], "at": np.int32(0)}, forks[0])
    assert np.array_equal(forks[0]["cache"], np.vstack([ROWS[5:], ROWS[1:]]))
    for same in (one, *forks[1:]):
        assert np.array_equal(same["cache"], ROWS)
    assert np.array_equal(other["cache"], ROWS * 2)
    other.reset({"cache": ROWS})
    assert np.array_equal(other["cache"], ROWS)
    other.reset()
    assert not other["cache"].any()


def test_a_state_is_saved_and_loaded(step, tmp_path):
    step.new_state({"cache": ROWS}).save(tmp_path / "state.safetensors")
    assert np.array_equal(rlx.load(tmp_path / "state.safetensors")["cache"], ROWS)
    for device in DEVICES:
        again = rlx.Session(device).compile(rlx.Graph.parse(GRAPH), donate="cache")
        assert np.array_equal(again.load_state(tmp_path / "state.safetensors")["cache"], ROWS)
    rlx.save(tmp_path / "other.safetensors", {"cash": ROWS})
    with pytest.raises(LookupError, match="the file has no 'cache' .*which 'decoder' updates; it has 'cash'"):
        step.load_state(tmp_path / "other.safetensors")


def test_what_does_not_fit_is_refused_by_name(step):
    with pytest.raises(ValueError, match="whose extent C is not known"):
        step.new_state()
    with pytest.raises(LookupError, match="'decoder' updates no input 'cash'; it updates 'cache'"):
        step.new_state({"cash": ROWS})
    with pytest.raises(ValueError, match=r"input 'cache' of 'decoder' is f32\[C, 4\], got i64\[6, 4\]"):
        step.new_state({"cache": np.zeros((6, 4), np.int64)})
    state = step.new_state({"cache": ROWS})
    with pytest.raises(rlx.Error, match="takes the inputs x, at besides its state; 'at' is not given"):
        step.run({"x": ROWS[:1]}, state)
    with pytest.raises(rlx.Error, match="besides its state; 'cache' is none of them"):
        step.run({**token(0), "cache": ROWS}, state)
    with pytest.raises(TypeError, match="state is a State, as new_state.. gives one, not a dict"):
        step.run(token(0), {"cache": ROWS})
    with pytest.raises(LookupError, match="has no 'sum'; it has 'cache'"):
        state["sum"]
    plain = rlx.Session(step.session.device).compile(rlx.Graph.parse(GRAPH))
    with pytest.raises(ValueError, match="'decoder' updates no input, so that it has no state"):
        plain.new_state()
    elsewhere = rlx.Session("tiny" if step.session.device == "cpu" else "cpu").compile(rlx.Graph.parse(GRAPH), donate="cache")
    with pytest.raises(ValueError, match="the state of 'decoder' on .* was given to 'decoder', which was compiled for"):
        elsewhere.run(token(0), state)
    assert np.array_equal(step.run(token(0), state)["sum"], ROWS.sum(0))


def test_threads_with_a_state_each(step):
    wrong = []

    def run(t):
        state = step.new_state(extents={"C": 6})
        for i in range(6):
            out = step.run({"x": ROWS[i:i + 1] + t, "at": np.int32(i)}, state)
            if not np.array_equal(out["sum"], (ROWS[:i + 1] + t).sum(0)):
                wrong.append((t, i))
    threads = [threading.Thread(target=run, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


BLOCKS = """rlx 1
graph @packed {
  %0 = input() @"cache" : q8_0[2, C, 32]
  %1 = input() @"rows" : f32[2, n, 32]
  %2 = input() @"first" : i32[]
  %3 = constant() {value = i32[] [0]} : i32[]
  %4 = quantize_blocks(%1) : q8_0[2, n, 32]
  %5 = dynamic_update_slice(%0, %4, %3, %2, %3) : q8_0[2, C, 32]
  %6 = dequantize_blocks(%5) : f32[2, C, 32]
  return %5 @"cache", %6 @"numbers"
}
"""


def q8_0(x):
    """As GGML's quantize_row_q8_0 rounds rows of 32."""
    scale = np.abs(x).max(-1, keepdims=True) / np.float32(127)
    codes = x * (np.float32(1) / scale)
    return np.trunc(codes + np.copysign(np.float32(0.5), codes)) * scale.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("device", ["cpu", "loopback"])
def test_a_state_may_be_of_blocks_which_numpy_has_not(device, tmp_path):
    compiled = rlx.Session(device).compile(rlx.Graph.parse(BLOCKS), donate=["cache"])
    state, rng, wanted = compiled.new_state(extents={"C": 5}), np.random.default_rng(3), np.zeros((2, 5, 32), np.float32)
    assert state.types == {"cache": ("q8_0", (2, 5, 32))}
    for first, count in ((0, 2), (2, 1), (9, 3), (-1, 1)):  # places are clamped
        rows = rng.normal(size=(2, count, 32)).astype(np.float32)
        at = min(max(first, 0), 5 - count)
        wanted[:, at:at + count] = q8_0(rows)
        assert np.array_equal(compiled.run({"rows": rows, "first": np.int32(first)}, state)["numbers"], wanted)
    state.save(tmp_path / "s.safetensors")
    loaded, none = compiled.load_state(tmp_path / "s.safetensors"), np.zeros((2, 0, 32), np.float32)
    assert np.array_equal(compiled.run({"rows": none, "first": np.int32(0)}, loaded)["numbers"], wanted)
    for use in (lambda: state["cache"], lambda: compiled.run({"cache": none, "rows": none, "first": np.int32(0)})):
        with pytest.raises(TypeError, match="q8_0"):
            use()
