#!/usr/bin/env python3
"""Writes tests/python/jax_names.txt: what the modules of JAX that is installed export, and the names of their functions' parameters, but for
those that are given by position alone. test_jax_names.py holds rlx.numpy against the list, for which JAX need not be there.

    python tests/python/jax_names.py
"""

import inspect
import pathlib

import jax
import jax.numpy

LIST = pathlib.Path(__file__).with_name("jax_names.txt")


def parameters(f):
    """Also of what JAX has as an object that is called."""
    try:
        given = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in given if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def main():
    lines = [f"# Exported by JAX {jax.__version__}, written by jax_names.py."]
    for module, short in ((jax.numpy, "numpy"), (jax.numpy.linalg, "linalg"), (jax.numpy.fft, "fft")):
        for name in sorted(n for n in dir(module) if not n.startswith("_")):
            value = getattr(module, name)
            is_function = callable(value) and not inspect.isclass(value) and type(value).__name__ != "_ScalarMeta"
            lines.append(" ".join([f"{short}.{name}", *(parameters(value) if is_function else [])]))
    LIST.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
