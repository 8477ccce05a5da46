#!/usr/bin/env python3
"""Writes src/frontends/mil/signatures.def: what each op of MIL takes in each opset, from the op registry of coremltools (9.0).

    python scripts/mil_signatures.py         # in an environment with coremltools; `rlx lint` holds programs to the result
"""

import logging
import pathlib
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import numpy as np  # noqa: E402
from coremltools.converters.mil.mil import types  # noqa: E402
from coremltools.converters.mil.mil.input_type import (  # noqa: E402
    ListInputType, StateInputType, TensorInputType, TupleInputType)
from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry  # noqa: E402

TARGET = pathlib.Path(__file__).resolve().parents[1] / "src/frontends/mil/signatures.def"
HEAD = """// What each op of MIL takes, by the first opset that has it so: MIL_SIGNATURE(op, opset, parameters). A parameter is "name kind":
// a kind is a variable that stands for one dtype (T, U, ...; its domain follows behind ';'), or list, tuple, state, any. A '!' says
// that it is to be known when the program is loaded, a '?' that it may be left out, and behind '=' stands what it is then: a number,
// true, false, a word; "1*spatial" and "0*2*spatial" are that number for each spatial dim of x, or twice; "range" is 0, 1 ... rank(x) - 1.
// Written by scripts/mil_signatures.py from the op registry of coremltools 9.0.
"""


def kind_of(kind):
    if isinstance(kind, StateInputType):
        return "state"
    if isinstance(kind, TupleInputType):
        return "tuple"
    if isinstance(kind, ListInputType):
        return "list"
    if isinstance(kind, TensorInputType):
        return None
    return "any"


class Like:
    """An argument of which a default may ask the rank."""

    def __init__(self, rank):
        self.rank, self.dtype, self.shape, self.val = rank, types.fp32, (3,) * rank, None


def defaults_of(op):
    """Each optional parameter's default as text; those that are None, or follow from more than the rank of x, are left out."""
    found = []
    for rank in (4, 5):
        made = object.__new__(op)
        for name in op.input_spec.input_types:
            made.__dict__["_input_vars"] = {}
            setattr(made, name, None if op.input_spec.input_types[name].optional else Like(rank))
        try:
            found.append(dict(op.default_inputs(made).items()))
        except AttributeError:  # of ops that have no defaults
            found.append({})
    texts = {}
    for name, value in found[0].items():
        other = found[1].get(name)
        if isinstance(value, np.generic):
            value = {"log": 1e-45, "rsqrt": 1e-12, "inverse": 1e-4}[op.__name__]  # rounded to x's dtype
        if value is None or isinstance(value, np.ndarray) or name in ("box_indices", "output_indices_dtype"):
            continue  # `linear` has a bias of zeros, `crop_resize` an image for each box, `topk` a dtype only with indices
        if isinstance(value, range):
            value = list(value)
        if isinstance(value, list):
            if value == list(range(4)) and other is not None and list(other) == list(range(5)):
                texts[name] = "range"
            elif len(value) in (2, 4) and set(value) == set(other) and len(other) * 2 == len(value) * 3:
                texts[name] = f"{value[0]}*" + ("2*" if len(value) == 4 else "") + "spatial"
            else:
                raise ValueError(f"{op.__name__}.{name} = {value}, {other}")
        else:
            texts[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts


def signature(op):
    variables, parameters, defaults = {}, [], defaults_of(op)
    for name, kind in op.input_spec.input_types.items():
        if name.startswith("_"):  # the functions of control flow, which are blocks in a program
            continue
        text = kind_of(kind)
        if text is None:
            variable = kind.type_domain_id
            domain = op.type_domains[variable] if variable is not None else kind.type_domain
            if isinstance(domain, type):
                domain = (domain,)
            key = (variable or name, tuple(sorted({types.builtin_to_string(t) for t in domain})))
            variables[key] = None
            text = variable_of(key, variables)
        parameters.append(f"{name} {text}" + ("!" if kind.const else "") + ("?" if kind.optional else "")
                          + (f"={defaults[name]}" if kind.optional and name in defaults else ""))
    domains = "".join(f"; {variable_of(key, variables)}={'|'.join(key[1])}" for key in variables)
    return ", ".join(parameters) + domains


def variable_of(key, variables):
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[list(variables).index(key)]


def quoted(text):
    """A string literal, in parts if it is long."""
    parts = [""]
    for word in text.split(" "):
        if len(parts[-1]) + len(word) > 96 or len(parts) == 1 and len(parts[-1]) + len(word) > 70:
            parts.append("")
        parts[-1] += word + " "
    parts[-1] = parts[-1][:-1]
    return '\n              '.join(f'"{part}"' for part in parts if part)


def main():
    lines = []
    for name, versions in sorted(SSAOpRegistry.core_ops.items()):
        if name.startswith("_"):
            continue
        last = None
        for opset in sorted(versions, key=lambda v: v.value):
            number = max(5, opset.value - 1)  # specification 6 has CoreML5
            text = signature(versions[opset])
            if text != last:
                lines.append((name, number, text))
            last = text
    lines.append(("write_state", 8, "input state, data A; A=fp16|fp32|int32"))  # exporters write it, the registry has it not
    body = "".join(f"MIL_SIGNATURE({name}, {number}, {quoted(text)})\n" for name, number, text in sorted(lines))
    TARGET.write_text(HEAD + body)
    print(len(lines), "signatures of", len({name for name, _, _ in lines}), "ops")


main()
