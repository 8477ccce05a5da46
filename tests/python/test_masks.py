"""Indexing by boolean masks, beside NumPy."""

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
FITTING = [(X > 7,), (np.array([True, False]),), (np.array([[True, False, True], [False, True, False]]),),
           (slice(None), np.array([True, False, True])), (..., np.array([False, True, True, False])),
           (0, np.array([True, True, False])), (None, np.array([True, False])), (np.zeros(2, bool),),
           (np.array([True, False]), slice(None), 1), ([True, False],)]
# One extent of the mask is not that of the dims it selects from: too short, too long, another shape, at another axis.
OTHER = [(np.array([True]),), (np.array([True, False, True]),), (np.ones((3, 2), bool),), (np.ones((2, 3, 5), bool),),
         (np.ones((2, 2), bool),), (slice(None), np.array([True, False])), (..., np.array([True, False, True])),
         (np.ones((2, 3, 4, 1), bool),), (0, np.array([True, True]))]


@pytest.mark.parametrize("index", FITTING, ids=str)
def test_a_mask_selects_what_numpy_selects(index):
    index = index if len(index) > 1 else index[0]
    got = rnp.asarray(X)[index]
    assert np.array_equal(got, X[index]) and got.shape == X[index].shape
    changed = X.copy()
    changed[index] = -1
    assert np.array_equal(rnp.asarray(X).at[index].set(-1), changed)


@pytest.mark.parametrize("index", OTHER, ids=str)
def test_a_mask_of_another_shape_is_an_index_error(index):
    index = index if len(index) > 1 else index[0]
    with pytest.raises(IndexError):
        X[index]
    with pytest.raises(IndexError):
        rnp.asarray(X)[index]
    with pytest.raises(IndexError):
        rnp.asarray(X).at[index].set(0)
    with pytest.raises(IndexError):
        rlx.jit(lambda x: x[index])(X)


def test_the_message_has_both_extents():
    with pytest.raises(IndexError, match="extent 2 for axis 0, whose extent is 3"):
        rnp.ones(3)[np.array([True, False])]


@pytest.mark.parametrize("mask", [X > 7, np.array([True, False]), np.array([[True, False, True], [False, True, False]])], ids=lambda m: str(m.shape))
def test_a_traced_mask_updates_as_numpy_does(mask):
    rest = X.shape[mask.ndim:]
    for values in (np.float32(2), np.arange(1, rest[-1] + 1, dtype=np.float32) if rest else np.float32(3), np.full((1,) + rest, 5, np.float32)):
        for how, combined in {"set": lambda x, v: v, "add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum,
                              "subtract": np.subtract, "divide": np.divide}.items():
            wanted = X.copy()
            wanted[mask] = combined(wanted[mask], values)
            got = rlx.jit(lambda x, m, v: getattr(x.at[m], how)(v))(X, mask, values)
            np.testing.assert_allclose(got, wanted, rtol=1e-6)
    wanted = X.copy()
    wanted[mask] = np.sqrt(wanted[mask])
    np.testing.assert_allclose(rlx.jit(lambda x, m: x.at[m].apply(rnp.sqrt))(X, mask), wanted, rtol=1e-6)


def test_what_a_traced_mask_cannot_say_is_refused_with_the_remedy():
    mask = X > 7
    with pytest.raises(TypeError, match="rlx.numpy.where"):
        rlx.jit(lambda x, m: x[m])(X, mask)
    with pytest.raises(TypeError, match="rlx.numpy.where"):
        rlx.jit(lambda x, m: x.at[m].set(np.arange(16, dtype=np.float32)))(X, mask)
    with pytest.raises(IndexError, match=r"\(3,\)"):
        rlx.jit(lambda x, m: x.at[m].set(0))(X, np.ones(3, bool))


def test_the_gradient_of_an_update_by_a_traced_mask():
    mask = X > 7
    got = rlx.grad(lambda x: rnp.sum(rlx.jit(lambda y, m: y.at[m].multiply(3))(x, mask)))(X)
    assert np.array_equal(got, np.where(mask, 3, 1))
