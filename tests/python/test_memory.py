"""Whose memory an array has: arrays do not change, whatever is written to what they were made of."""

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

MAKERS = {"array": rnp.array, "asarray": rnp.asarray, "reshape": lambda x: rnp.reshape(x, (3,)), "ravel": rnp.ravel,
          "broadcast_to": lambda x: rnp.broadcast_to(x, (3,)), "astype": lambda x: rnp.astype(x, x.dtype), "transpose": rnp.transpose,
          "squeeze": rnp.squeeze, "asarray of a copy": lambda x: rnp.asarray(x, copy=True), "slice": lambda x: rnp.asarray(x)[:],
          "a tree": lambda x: rlx.tree.map(rnp.asarray, {"a": x})["a"], "a vjp": lambda x: rlx.vjp(lambda y: y, x)[0]}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.bool_, np.complex64])
def test_writing_to_the_source_does_not_change_an_array(make, dtype):
    source = np.ones(3, dtype)
    made = make(source)
    source[:] = 0
    assert np.array_equal(made, np.ones(3, dtype))


def test_a_view_that_is_read_only_of_memory_that_is_not_is_copied():
    source = np.ones(3, np.float32)
    view = source[:]
    view.flags.writeable = False
    made = rnp.asarray(view)
    source[0] = 7
    assert np.array_equal(made, [1, 1, 1])


@pytest.mark.parametrize("lent", [lambda b: b, memoryview, lambda b: memoryview(b).toreadonly()], ids=["bytearray", "memoryview", "read-only memoryview"])
def test_memory_that_another_object_lends_is_copied_if_that_can_be_written_to(lent):
    owner = bytearray(12)
    view = np.frombuffer(lent(owner), np.float32)
    view.flags.writeable = False
    made = rnp.asarray(view)
    owner[:4] = np.float32(7).tobytes()
    assert view[0] == 7 and np.array_equal(made, [0, 0, 0])
    constant = np.frombuffer(bytes(12), np.float32)
    assert np.shares_memory(rnp.asarray(constant).numpy(), constant)


def test_what_came_through_dlpack_and_can_be_written_to_elsewhere_is_copied():
    source = np.ones(3, np.float32)
    view = np.from_dlpack(source)
    view.flags.writeable = False
    made = rnp.asarray(view)
    source[0] = 7
    assert view[0] == 7 and np.array_equal(made, [1, 1, 1])


def test_what_a_pullback_keeps_does_not_change():
    source = np.full(3, 2, np.float32)
    _, pull = rlx.vjp(lambda x: x * x, source)
    source[:] = 100
    assert np.array_equal(pull(np.ones(3, np.float32))[0], [4, 4, 4])


def test_what_a_jitted_function_closes_over_is_that_of_its_trace():
    large = np.ones(1000, np.float32)
    double = rlx.jit(lambda x: x + large)
    first = double(large)
    large[:] = 5
    assert np.array_equal(first, np.full(1000, 2, np.float32))
    assert np.array_equal(double(np.ones(1000, np.float32)), np.full(1000, 2, np.float32))


def test_views_handed_out_are_read_only():
    x = rnp.asarray([1.0, 2.0, 3.0])
    for view in (np.asarray(x), x.numpy(), x.__array__()):
        assert np.shares_memory(view, x.numpy())
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 9
    assert np.array_equal(x, [1, 2, 3])
    own = np.array(x)
    own[0] = 9
    assert np.array_equal(x, [1, 2, 3])


def test_memory_that_nobody_can_write_to_is_shared():
    source = np.ones(3, np.float32)
    source.flags.writeable = False
    assert np.shares_memory(rnp.asarray(source).numpy(), source)
    assert not np.shares_memory(rnp.array(source).numpy(), source)
    assert np.shares_memory(rnp.array(source, copy=False).numpy(), source)


def test_memory_is_given_away_by_copy_false():
    source = np.ones(3, np.float32)
    assert np.shares_memory(rnp.asarray(source, copy=False).numpy(), source)
    for x, dtype in ((source, "f16"), ([1, 2], None)):
        with pytest.raises(ValueError, match="only by a copy"):
            rnp.asarray(x, dtype, copy=False)


def test_a_capsule_says_that_it_is_read_only_where_the_protocol_can():
    x = rnp.asarray([1.0, 2.0, 3.0])
    assert not np.from_dlpack(x).flags.writeable
    assert np.array_equal(np.from_dlpack(x), x)
