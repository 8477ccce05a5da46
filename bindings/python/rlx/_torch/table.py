"""The table of operators: RLX's function for each of ATen's that it has one for, and PyTorch's own decompositions of the others.

What an operator means: PyTorch's documentation of `torch.ops.aten`, "Core ATen IR".
"""

import operator

from .. import _dtypes
from .._array import as_array

OPERATORS = {}


def of(*names):
    """Registers a function for operators by their names without "aten."."""
    def register(f):
        for name in names:
            OPERATORS[name] = f
        return f
    return register


def dtype_of(dtype):
    """torch.float32 -> "f32"."""
    return _dtypes.name_of(str(dtype).replace("torch.", ""))


def name_of(node):
    """The name that a node of a graph has here: "add.Tensor" of aten.add.Tensor, "getitem" of Python's, else the whole name."""
    return "getitem" if node.target is operator.getitem else _short(node.target)


def _short(target):
    name = str(target)
    return name[len("aten."):] if name.startswith("aten.") else name


def mapped(x, f):
    """f of each element of lists within lists."""
    if isinstance(x, (list, tuple)):
        return [mapped(v, f) for v in x]
    return f(x)


def array_of(tensor):
    return as_array(tensor.detach().cpu().resolve_conj().resolve_neg().contiguous())


def decompositions():
    """How PyTorch computes the operators that RLX has no function for by others: for torch.export's `run_decompositions` and for make_fx."""
    import torch
    import torch._refs  # noqa: F401, fills the table below
    from torch._decomp import decomposition_table
    table = torch.export.default_decompositions()
    for op, f in decomposition_table.items():
        if op not in table and isinstance(op, torch._ops.OpOverload):
            table[op] = f
    for op in [op for op in table if _short(op) in OPERATORS]:
        del table[op]
    return table
