"""Trees: which classes are some, what of them is a leaf and what structure, and that transforms take them. Where JAX is
installed, beside it."""

import collections
import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from conftest import close, jax


@dataclasses.dataclass
class Layer:
    w: object
    b: object
    activation: str = dataclasses.field(default="tanh", metadata={"static": True})


@dataclasses.dataclass(frozen=True)
class Frozen:
    scale: object

    def __post_init__(self):
        assert self.scale is not None


class Pair(NamedTuple):
    a: object
    b: object


@rlx.tree_util.register_pytree_node_class
class Ring:
    def __init__(self, items, name):
        self.items, self.name = list(items), name

    def tree_flatten(self):
        return self.items, self.name

    @classmethod
    def tree_unflatten(cls, name, items):
        return cls(items, name)


class Plain:
    def __init__(self, x, n):
        self.x, self.n = x, n


rlx.tree_util.register_dataclass(Plain, data_fields=["x"], meta_fields=["n"])
W, B = np.float32([[1, 2], [3, 4]]), np.float32([5, 6])
TREES = [
    ((W, [B, None]), ["[0]", "[1][0]"]), ({"b": B, "a": W}, ["['a']", "['b']"]), (Pair(W, B), ["[0]", "[1]"]),
    (collections.OrderedDict(b=B, a=W), ["['b']", "['a']"]), (collections.defaultdict(list, b=B, a=W), ["['a']", "['b']"]),
    (Layer(W, B), [".w", ".b"]), (Frozen(B), [".scale"]), (Ring([W, B], "r"), ["[0]", "[1]"]), (Plain(W, 3), [".x"]),
    ({"layers": [Layer(W, B, "relu"), Layer(W, {"x": B})]}, ["['layers'][0].w", "['layers'][0].b", "['layers'][1].w", "['layers'][1].b['x']"]),
]


@pytest.mark.parametrize("value,paths", TREES, ids=lambda v: type(v).__name__)
def test_a_tree_is_taken_apart_and_built_again(value, paths):
    leaves, structure = rlx.tree.flatten(value)
    assert hash(structure) == hash(rlx.tree.structure(value)) and rlx.tree.paths(structure) == paths
    assert all(isinstance(x, np.ndarray) for x in leaves) and rlx.tree.count(structure) == len(paths)
    built = rlx.tree.unflatten(structure, leaves)
    assert type(built) is type(value) and rlx.tree.structure(built) == structure
    assert all(x is y for x, y in zip(rlx.tree.leaves(built), leaves))


@pytest.mark.parametrize("value,paths", TREES, ids=lambda v: type(v).__name__)
def test_transforms_take_it_and_give_it(value, paths):
    total = lambda t: sum(rnp.sum(x * x) for x in rlx.tree.leaves(t))
    gradient = rlx.jit(rlx.grad(total))(value)
    assert rlx.tree.structure(gradient) == rlx.tree.structure(value)
    for g, x in zip(rlx.tree.leaves(gradient), rlx.tree.leaves(value)):
        close(g, 2 * x)
    doubled = rlx.jit(lambda t: rlx.tree.map(lambda x: x * 2, t))(value)
    assert type(doubled) is type(value)
    close(rlx.tree.leaves(doubled), [2 * x for x in rlx.tree.leaves(value)])


def test_static_fields_belong_to_the_structure():
    traced = []

    @rlx.jit
    def f(layer):
        traced.append(layer.activation)
        return getattr(rnp, layer.activation)(layer.w @ layer.b)

    close(f(Layer(W, B)), np.tanh(W @ B))
    close(f(Layer(W, B, "sin")), np.sin(W @ B))
    f(Layer(W + 1, B))
    assert traced == ["tanh", "sin"]
    with pytest.raises(TypeError, match="not hashable"):
        f(Layer(W, B, ["tanh"]))


def test_leaves_that_are_none_of_ours_stop_where_is_leaf_says():
    assert rlx.tree.leaves([1, (2, 3)], is_leaf=lambda x: isinstance(x, tuple)) == [1, (2, 3)]
    assert rlx.tree.map(len, {"a": (2, 3)}, is_leaf=lambda x: isinstance(x, tuple)) == {"a": 2}
    assert rlx.tree.reduce(lambda a, b: a + b, {"a": 1, "b": (2, 3)}) == 6
    assert rlx.tree.all([True, 1]) and not rlx.tree.all([True, 0])


def test_trees_that_differ_are_drawn():
    with pytest.raises(ValueError, match=r"\{'a': \*\} and \[\*\]"):
        rlx.tree.map(lambda x, y: x, {"a": 1}, [1])


@pytest.mark.parametrize("call", [
    lambda: rlx.tree_util.register_pytree_node_class(Ring), lambda: rlx.tree_util.register_pytree_node(dict, None, None),
    lambda: rlx.tree_util.register_dataclass(Plain), lambda: rlx.tree_util.register_dataclass(Layer, ["w"], []),
    lambda: rlx.tree_util.register_dataclass(Layer, ["w", "b", "activation", "more"], []), lambda: rlx.tree_util.register_dataclass(Layer, ["w"]),
])
def test_wrong_registrations_are_refused(call):
    with pytest.raises((TypeError, ValueError), match=r"test_trees\.py"):
        call()


@pytest.mark.skipif(jax is None, reason="JAX is not installed")
def test_the_order_of_leaves_is_that_of_jax():
    for value in ({"b": 1, "a": (2, None, [3])}, collections.OrderedDict(b=1, a=2), collections.defaultdict(int, b=1, a=2), Pair(1, 2), None, 5):
        assert rlx.tree.leaves(value) == jax.tree.leaves(value)
