"""The stubs that are written by hand say what the package has; scripts/python_ops.py and python_stubs.py check the others,
scripts/check_wheel what mypy makes of them."""

import ast
import inspect
import pathlib

import pytest

import rlx

FOLDER = pathlib.Path(rlx.__file__).parent


def stub(name):
    return ast.parse((FOLDER / name).read_text()).body


def parameters(node):
    a = node.args
    given = [*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg]
    return [x.arg for x in given if x is not None]


def functions(body):
    """By name; of several signatures of one function the first."""
    found = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, node)
    return found


def agrees(node, function):
    """The parameters of the stub are those of the function; a wrapper that takes *args takes whatever the stub says."""
    has = [p for p in inspect.signature(function).parameters.values()]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in has):
        return True
    return [p.name for p in has] == parameters(node)


@pytest.mark.parametrize("name,module", [("__init__.pyi", rlx), ("tree.pyi", rlx.tree), ("train.pyi", rlx.train), ("debug.pyi", rlx.debug)])
def test_stub_of_a_module(name, module):
    declared = functions(stub(name))
    for function, node in declared.items():
        assert agrees(node, getattr(module, function)), (function, parameters(node), inspect.signature(getattr(module, function)))
    own = ("rlx",) if module is rlx else (module.__name__,)  # a helper that a module took from another one is no part of it
    made = {n for n, f in vars(module).items() if inspect.isfunction(f) and not n.startswith("_") and f.__module__.startswith(own)}
    assert made == set(declared)


def test_stub_of_arrays():
    from rlx._array import Array
    (array,) = [n for n in stub("_array.pyi") if isinstance(n, ast.ClassDef) and n.name == "Array"]
    declared = functions(array.body)
    missing = [n for n in declared if not hasattr(Array, n)]
    assert not missing
    public = {n for n in vars(Array) if not n.startswith("_")} | {n for n in ("__add__", "__matmul__", "__getitem__") if hasattr(Array, n)}
    assert public <= set(declared), public - set(declared)


def test_every_class_that_is_declared_exists():
    for node in stub("__init__.pyi"):
        if isinstance(node, ast.ClassDef) and node.name != "Compiled":
            kind = getattr(rlx, node.name)
            for method in functions(node.body):
                assert hasattr(kind, method), (node.name, method)
