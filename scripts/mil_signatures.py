#!/usr/bin/env python3
"""Writes src/frontends/mil/signatures.def: what each op of MIL takes in each opset, from the op registry of coremltools (9.0).

    python scripts/mil_signatures.py         # in an environment with coremltools; `rlx lint` holds programs to the result
"""

import logging
import pathlib
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

from coremltools.converters.mil.mil import types  # noqa: E402
from coremltools.converters.mil.mil.input_type import (  # noqa: E402
    ListInputType, StateInputType, TensorInputType, TupleInputType)
from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry  # noqa: E402

TARGET = pathlib.Path(__file__).resolve().parents[1] / "src/frontends/mil/signatures.def"
HEAD = """// What each op of MIL takes, by the first opset that has it so: MIL_SIGNATURE(op, opset, parameters). A parameter is "name kind":
// a kind is a variable that stands for one dtype (T, U, ...; its domain follows behind ';'), or list, tuple, state, any. A '!' says
// that it is to be known when the program is loaded, a '?' that it may be left out.
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


def signature(op):
    variables, parameters = {}, []
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
        parameters.append(f"{name} {text}" + ("!" if kind.const else "") + ("?" if kind.optional else ""))
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
