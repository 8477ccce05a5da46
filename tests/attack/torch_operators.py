#!/usr/bin/env python3
"""PyTorch's operator database through `rlx.from_torch`'s operators: each sample of each operator in f32, its results and its gradients
beside PyTorch's own.

    RLX_LIBRARY=build/release/lib/librlx_c.so tests/attack/torch_operators.py [--op NAME ...] [--json F] [--most N] [--show]

A sample (torch.testing's OpInfo.sample_inputs, seed 0) is traced by make_fx into ATen's core operators, as torch.export does for
from_torch, and RLX runs these. Forward: every result within 1e-4 relative and 1e-5 absolute of PyTorch's (integers and booleans equal,
NaN beside NaN, shapes and dtypes equal); eigenvalues of matrices that are not symmetric, which have no order, by the sums of their
powers, and their vectors by the matrix that they make. Gradients, where the operator has them: of all results with random cotangents, for all f32
inputs, within 1e-3 and 1e-4; RLX's cotangent of a complex number is the conjugate of PyTorch's (docs/ir.md). Operators that draw random numbers are counted and not judged. Where PyTorch's own code
branches on elements, or a result has as many elements as data say, the graph is that of the sample's data, and is counted (from_torch,
whose graph holds for all data, refuses such a module). The table lists the operators with failures
and the first reason of each; the last line is the sum. PyTorch and `expecttest` come with scripts/bench-deps.
"""

import argparse
import collections
import functools
import json
import pathlib
import re
import signal
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bindings/python"))
warnings.filterwarnings("ignore")

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree

import rlx
from rlx import _torch

FORWARD, GRADIENT = dict(rtol=1e-4, atol=1e-5), dict(rtol=1e-3, atol=1e-4)
SECONDS = 30  # of the processor: a loaded machine fails nothing
DECOMPOSITIONS = dict(_torch.decompositions())


def power_sums(values):
    """Of eigenvalues, which have no order: the sums of their first powers, which determine them."""
    return [(values ** k).sum(-1) for k in range(1, values.shape[-1] + 1)]


INVARIANTS = {
    "linalg.eigvals": power_sums,
    # Eigenvectors are unique up to their factors: the matrix is made of them again.
    "linalg.eig": lambda out: [*power_sums(out[0]), out[1] @ (out[0].unsqueeze(-1) * torch.linalg.inv(out[1]))],
}


class TooSlow(Exception):
    pass


def too_slow(*_):
    raise TooSlow(f"more than {SECONDS} s of the processor")


class Program:
    """A function of tensors as RLX runs it."""

    def __init__(self, function, tensors):
        trace = functools.partial(make_fx, decomposition_table=DECOMPOSITIONS)
        functional = torch.func.functionalize(function, remove="mutations")
        self.data_decide = False
        try:
            self.graph = trace(functional)(*tensors)
        except RuntimeError as error:
            if "get value out of a tracing tensor" not in str(error):
                raise
            self.data_decide = True
            self.graph = trace(functional, _error_on_data_dependent_ops=False)(*tensors)
        if any(_torch.name_of(node).split(".")[0].endswith("_") for node in self.graph.graph.nodes if node.op == "call_function"):
            # A decomposition changes something in place itself; torch.export's run_decompositions makes functions of it, too.
            self.graph = make_fx(torch.func.functionalize(self.graph, remove="mutations"), _error_on_data_dependent_ops=not self.data_decide)(*tensors)
        for node in list(self.graph.graph.nodes):  # what is written back into an input at the end is no result
            if node.op == "call_function" and _torch.name_of(node) == "copy_.default" and node.args[0].op == "placeholder":
                node.replace_all_uses_with(node.args[1])
                self.graph.graph.erase_node(node)
        self.graph.graph.eliminate_dead_code()
        missing = sorted({_torch.name_of(node) for node in self.graph.graph.nodes
                          if node.op == "call_function" and _torch.name_of(node) not in _torch.OPERATORS})
        if missing:
            raise NotImplementedError("no function for " + ", ".join(missing))

    def __call__(self, *arrays):
        known, given = {}, iter(arrays)
        look_up = lambda x: known[x] if isinstance(x, torch.fx.Node) else x
        for node in self.graph.graph.nodes:
            if node.op == "placeholder":
                known[node] = next(given)
            elif node.op == "get_attr":
                known[node] = _torch.array_of(getattr(self.graph, node.target))
            elif node.op == "call_function":
                known[node] = _torch.OPERATORS[_torch.name_of(node)](*_torch.mapped(node.args, look_up),
                                                                       **{k: _torch.mapped(v, look_up) for k, v in node.kwargs.items()})
            elif node.op == "output":
                return [look_up(x) for x in node.args[0]]


def difference(ours, theirs, rtol, atol):
    """Empty if they are alike."""
    theirs = theirs.detach().resolve_conj().resolve_neg()
    theirs = theirs.to_dense() if theirs.layout != torch.strided else theirs
    theirs = np.zeros(theirs.shape, str(theirs.dtype).removeprefix("torch.")) if theirs._is_zerotensor() else \
        np.asarray(_torch.array_of(theirs)) if theirs.dtype == torch.bfloat16 else theirs.numpy()
    ours = np.asarray(ours)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype}{list(ours.shape)} for {theirs.dtype}{list(theirs.shape)}"
    if theirs.dtype.kind in "fc":
        if np.allclose(ours, theirs, rtol=rtol, atol=atol, equal_nan=True):
            return ""
        with np.errstate(all="ignore"):
            return f"differs by up to {np.nanmax(np.abs(ours - theirs)) if ours.size else 0:.3g}, or by its NaNs"
    return "" if np.array_equal(ours, theirs) else f"{int(np.sum(ours != theirs))} of {ours.size} elements differ"


def judge(op, sample, counts):
    """What is wrong in the results and in the gradients; None where there is nothing to judge."""
    leaves, spec = _pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    tensors = [leaves[i].detach().clone() for i in places]

    def function(*given):
        all_leaves = list(leaves)
        for i, x in zip(places, given):
            all_leaves[i] = x
        args, kwargs = _pytree.tree_unflatten(all_leaves, spec)
        out = op.op(*args, **kwargs)
        out = INVARIANTS[op.name](out) if op.name in INVARIANTS else sample.output_process_fn_grad(out)
        return [x for x in _pytree.tree_leaves(out) if isinstance(x, torch.Tensor)]

    with torch.no_grad():
        torch.manual_seed(1)
        wanted = function(*[x.clone() for x in tensors])
        torch.manual_seed(2)
        again = function(*[x.clone() for x in tensors])
    if not wanted:
        return None, None
    if any(a.shape != b.shape or not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(wanted, again)):
        return None, None
    arrays = [_torch.array_of(x.resolve_conj().resolve_neg()) for x in tensors]
    try:
        with torch.no_grad():
            program = Program(function, tensors)
        counts["decided by data"] += program.data_decide
        got = program(*arrays)
        wrong = [difference(a, b, **FORWARD) for a, b in zip(got, wanted)] if len(got) == len(wanted) else ["another number of results"]
        forward = next((w for w in wrong if w), "")
    except TooSlow:
        raise
    except Exception as error:  # whatever it is, it is what a user would see
        forward = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return forward, "the forward pass fails" if op.supports_autograd else None
    floats = [i for i, x in enumerate(tensors) if x.dtype == torch.float32]
    if not op.supports_autograd or not floats:
        return forward, None
    given = [x.clone().requires_grad_(i in floats) for i, x in enumerate(tensors)]
    try:
        out = function(*given)
    except Exception:
        return forward, None  # in place on a leaf
    with_gradient = [i for i, x in enumerate(out) if x.requires_grad]
    if not with_gradient:
        return forward, None
    generator = torch.Generator().manual_seed(3)
    cotangents = [torch.randn(out[i].shape, dtype=out[i].dtype, generator=generator) for i in with_gradient]
    theirs = torch.autograd.grad([out[i] for i in with_gradient], [given[i] for i in floats], cotangents, allow_unused=True)
    theirs = [torch.zeros_like(given[i]) if g is None else g for g, i in zip(theirs, floats)]
    try:
        def of_floats(*some):
            all_arrays = list(arrays)
            for i, x in zip(floats, some):
                all_arrays[i] = x
            results = program(*all_arrays)
            return tuple(results[i] for i in with_gradient)

        _, pull = rlx.vjp(of_floats, *[arrays[i] for i in floats])
        ours = pull(tuple(_torch.array_of(c.conj()) for c in cotangents))
        wrong = [difference(a, b, **GRADIENT) for a, b in zip(ours, theirs)]
        return forward, next((w for w in wrong if w), "")
    except TooSlow:
        raise
    except Exception as error:
        return forward, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", action="append", default=[], metavar="NAME", help="only these operators; may be repeated")
    parser.add_argument("--most", type=int, default=0, metavar="N", help="at most so many samples an operator")
    parser.add_argument("--json", metavar="FILE", help="write counts and reasons by operator")
    parser.add_argument("--show", action="store_true", help="print each operator as it is done")
    options = parser.parse_args()
    from torch.testing._internal.common_methods_invocations import op_db

    signal.signal(signal.SIGPROF, too_slow)
    torch.set_num_threads(1)
    table, sums = {}, collections.Counter()
    for op in op_db:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if torch.float32 not in op.dtypes or (options.op and op.name not in options.op and name not in options.op):
            continue
        row, reasons = collections.Counter(), collections.Counter()
        torch.manual_seed(0)
        np.random.seed(0)
        try:
            samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=False))
        except Exception as error:
            print(f"{name}: PyTorch makes no samples: {error}", file=sys.stderr)
            continue
        for sample in samples[: options.most or None]:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                forward, gradient = judge(op, sample, row)
            except TooSlow as error:
                forward, gradient = str(error), None
            except Exception as error:  # PyTorch itself refuses its sample here
                row["refused by PyTorch"] += 1
                reasons[f"PyTorch: {str(error).splitlines()[0] if str(error) else type(error).__name__}"] += 0
                continue
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            if forward is None:
                row["random"] += 1
                continue
            row["forward passed" if not forward else "forward failed"] += 1
            if gradient is not None:
                row["gradient passed" if not gradient else "gradient failed"] += 1
            for kind, reason in (("forward", forward), ("gradient", gradient)):
                if reason and reason != "the forward pass fails":
                    reasons[f"{kind}: {re.sub(r'0x[0-9a-f]+', '...', reason)[:160]}"] += 1
        table[name] = {"counts": dict(row), "reasons": dict(reasons)}
        sums.update(row)
        if options.show:
            print(name, dict(row), dict(reasons.most_common(1)), flush=True)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps({"torch": torch.__version__, "sums": dict(sums), "operators": table}, indent=1))
    width = max((len(name) for name in table), default=0)
    print(f"{'operator':{width}}  forward    gradients  first reason")
    for name, row in table.items():
        counts = row["counts"]
        if counts.get("forward failed") or counts.get("gradient failed"):
            of = lambda kind: f"{counts.get(kind + ' passed', 0)}/{counts.get(kind + ' passed', 0) + counts.get(kind + ' failed', 0)}"
            print(f"{name:{width}}  {of('forward'):9}  {of('gradient'):9}  {next(iter(row['reasons']), '')}")
    print(f"{sums['forward passed']} forward passed, {sums['forward failed']} failed; {sums['gradient passed']} gradients passed, "
          f"{sums['gradient failed']} failed; {sums['decided by data']} traced with branches that data "
          f"decided; {sums['random']} random or without tensors, {sums['refused by PyTorch']} refused by PyTorch")


if __name__ == "__main__":
    main()
