"""What JAX gives for the calls of tests/python/jax_cases.py, with derivatives, and the names of its modules with their parameters.

    python tests/golden/generate/python_jax.py            # with an interpreter that has jax and scipy
    python tests/golden/generate/python_jax.py NAME...    # these calls alone; others stay, but those that are no longer there
"""

import inspect
import json
import pathlib
import sys

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TESTS / "python"))
from jax_cases import CASES  # noqa: E402

FOLDER = TESTS / "golden" / "python_jax"
MODULES = {"lax": jax.lax, "nn": jax.nn, "random": jax.random, "scipy.special": jax.scipy.special}


def leaves_of(value):
    return [np.asarray(x) for x in jax.tree_util.tree_leaves(value)]


def total(value):
    return sum(jnp.sum(jnp.real(x) * jnp.cos(jnp.arange(x.size, dtype=jnp.float32).reshape(x.shape)))
               for x in jax.tree_util.tree_leaves(value) if jnp.issubdtype(x.dtype, jnp.inexact))


def recorded(wanted):
    kept = {}
    for name, case in CASES.items():
        if wanted and name not in wanted:
            continue
        f, arrays = case.function(jax)
        try:
            given = f(*[jnp.asarray(a) for a in arrays])
        except Exception as error:
            print(f"JAX refuses {name}: {str(error).splitlines()[0]}")
            continue
        for i, x in enumerate(leaves_of(given)):
            # bfloat16 has no place in a file of NumPy
            kept[f"{name}/{i}"] = x.astype(np.float32) if x.dtype.name == "bfloat16" else x
        if case.grad:
            spots = [i for i, a in enumerate(case.args) if isinstance(a, np.ndarray)]
            places = tuple(spots.index(i) for i in case.grad)
            for i, x in enumerate(leaves_of(jax.grad(lambda *a: total(f(*a)), places)(*[jnp.asarray(a) for a in arrays]))):
                kept[f"{name}/grad{i}"] = x
    return kept


def names():
    """The public functions and classes of JAX's modules, with their parameters."""
    found = {}
    for short, module in MODULES.items():
        functions = {}
        for name in sorted(dir(module)):
            value = getattr(module, name)
            if name.startswith("_") or name.endswith("_p") or inspect.ismodule(value) or not callable(value):
                continue
            try:
                functions[name] = [] if inspect.isclass(value) else list(inspect.signature(value).parameters)
            except (TypeError, ValueError):
                functions[name] = []
        found[short] = functions
    return {"version": jax.__version__, "modules": found}


def _written(found):
    """A line for each name."""
    blocks = [f'  {json.dumps(module)}: {{\n' + ",\n".join(f"   {json.dumps(n)}: {json.dumps(p)}" for n, p in its.items()) + "\n  }"
              for module, its in found["modules"].items()]
    return f'{{\n "version": {json.dumps(found["version"])},\n "modules": {{\n' + ",\n".join(blocks) + "\n }\n}\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "names.json").write_text(_written(names()))
    wanted, path = sys.argv[1:], FOLDER / "values.npz"
    old = {key: x for key, x in np.load(path).items() if key.rpartition("/")[0] not in wanted} if wanted else {}
    made = {**old, **recorded(wanted)}
    np.savez_compressed(path, **{key: x for key, x in made.items() if key.rpartition("/")[0] in CASES})
