"""PyTorch modules as functions of RLX: `from_torch`."""

from .. import tree
from .._array import as_array, convert
from .._native import Error, at_user_line
from .table import OPERATORS, array_of, decompositions, dtype_of, mapped, name_of


class TorchModule:
    """A PyTorch module as a function of RLX: `m(x)`. It is a tree whose leaves are the params, by the names of the state dict in
    `m.params`, so that transforms take it: rlx.grad(lambda m: loss(m(x)))(m). Buffers that are no params stay as they are."""

    def __init__(self, params, program):
        self.params, self._program = params, program

    def __call__(self, *args, **kwargs):
        return self._program.run(self.params, args, kwargs)

    def tree_flatten(self):
        return (self.params,), self._program

    @classmethod
    def tree_unflatten(cls, program, parts):
        return cls(parts[0], program)


tree.register_pytree_node(TorchModule, TorchModule.tree_flatten, TorchModule.tree_unflatten)


class _Program:
    """The graph of torch.export, run operator by operator on arrays of RLX, traced or not."""

    def __init__(self, exported, constants):
        self._nodes = list(exported.graph.nodes)
        self._constants = constants  # by the name of the placeholder
        self._params = {spec.arg.name: spec.target for spec in exported.graph_signature.input_specs if spec.kind.name == "PARAMETER"}
        self._inputs = [spec.arg.name for spec in exported.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        self._in_spec, self._out_spec = exported.call_spec.in_spec, exported.call_spec.out_spec
        self._types = [(n.name, tuple(n.meta["val"].shape), str(n.meta["val"].dtype)) for n in self._nodes
                       if n.op == "placeholder" and n.name in set(self._inputs) and hasattr(n.meta.get("val"), "dtype")]

    def run(self, params, args, kwargs):
        import torch.utils._pytree as theirs
        leaves, spec = theirs.tree_flatten((args, kwargs))
        if len(leaves) != len(self._inputs):
            raise TypeError(at_user_line(f"the module was traced with {len(self._inputs)} inputs, and is given {len(leaves)}"))
        known = {name: params[target] for name, target in self._params.items()} | dict(self._constants)
        types = {name: (shape, dtype) for name, shape, dtype in self._types}
        for name, leaf in zip(self._inputs, leaves):
            known[name] = as_array(leaf) if name in types else leaf
            if name in types and known[name].shape != types[name][0]:
                raise Error(at_user_line(f"the input '{name}' has the shape {known[name].shape}, and the module was traced with {types[name][0]}; "
                                         "make a function of it for that shape, or use rlx.vmap for batches"), "shape_mismatch")
            if name in types and known[name].dtype_name != dtype_of(types[name][1]):
                known[name] = convert(known[name], dtype_of(types[name][1]))
        look_up = lambda x: known[x.name] if type(x).__name__ == "Node" else x
        for node in self._nodes:
            if node.op == "call_function":
                known[node.name] = self._called(node, [mapped(a, look_up) for a in node.args], {k: mapped(v, look_up) for k, v in node.kwargs.items()})
            elif node.op == "output":
                return theirs.tree_unflatten(list(mapped(node.args[0], look_up)), self._out_spec)

    @staticmethod
    def _called(node, args, kwargs):
        try:
            return OPERATORS[name_of(node)](*args, **kwargs)
        except Error as error:
            raise Error(f"{name_of(node)}: {error}", error.status) from error


def from_torch(module, example, kwargs=None):
    """A function of RLX that computes what a PyTorch module does, made by torch.export from an example of its inputs (a tensor, or a
    tuple of them; `kwargs` by name). It takes arrays of those shapes, and is a tree of the module's params: `jit`, `grad`
    and `vmap` take it, `rlx.save` saves it under PyTorch's names.

        m = rlx.from_torch(module.eval(), torch.ones(1, 3, 224, 224))
        y = rlx.jit(lambda m, x: m(x))(m, x)

    Errors: PyTorch is not installed (ImportError); the module cannot be exported, as torch.export says it; an operator that RLX
    has no function for, or one in a form it has none for (rlx.Error, NotImplementedError too, with all the names); a module
    that changes its buffers, as batch norm in training (likewise).
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("from_torch needs PyTorch: pip install torch") from error
    if not isinstance(module, torch.nn.Module):
        raise TypeError(at_user_line(f"from_torch takes a torch.nn.Module, not a {type(module).__name__}"))
    with torch.no_grad():
        exported = torch.export.export(module, tuple(example) if isinstance(example, (tuple, list)) else (example,), kwargs or {}).run_decompositions(decompositions())
    missing = {}
    for node in exported.graph.nodes:
        if node.op == "call_function" and name_of(node) not in OPERATORS:
            missing[str(node.target)] = missing.get(str(node.target), 0) + 1
        elif node.op not in ("call_function", "placeholder", "output"):
            missing[f"{node.op} {node.target}"] = 1
        if any(not isinstance(n, int) for n in getattr(node.meta.get("val"), "shape", ())):
            raise Error(at_user_line(f"'{node.name}' has a shape that data decide: {tuple(node.meta['val'].shape)}"), "unsupported")
    if missing:
        raise Error(at_user_line(f"{type(module).__name__} has operators that RLX has no functions for: "
                                 + ", ".join(f"{name} ({n} times)" if n > 1 else name for name, n in sorted(missing.items()))), "unsupported")
    changed = [spec.target or spec.arg.name for spec in exported.graph_signature.output_specs if spec.kind.name != "USER_OUTPUT"]
    if changed:
        raise Error(at_user_line(f"{type(module).__name__} changes {', '.join(map(str, changed[:3]))} when it is called; call module.eval() first, or give "
                                 "what it changes as inputs and outputs"), "unsupported")
    params, constants = {}, {}
    for spec in exported.graph_signature.input_specs:
        if spec.kind.name == "PARAMETER":
            params[spec.target] = array_of(exported.state_dict[spec.target])
        elif spec.kind.name in ("BUFFER", "CONSTANT_TENSOR"):
            held = exported.state_dict if spec.target in exported.state_dict else exported.constants
            constants[spec.arg.name] = array_of(held[spec.target])
        elif spec.kind.name != "USER_INPUT":
            raise Error(at_user_line(f"{type(module).__name__} has an input of the kind {spec.kind.name}"), "unsupported")
    made = TorchModule(params, _Program(exported, constants))
    from .._jit import eval_shape
    # What refuses its form says so now, and not when it is called.
    eval_shape(lambda m, args, kwargs: m(*args, **kwargs), made, *_example_types(example, kwargs))
    return made


def _example_types(example, kwargs):
    from .._jit import ShapeDtype
    import torch
    typed = lambda x: ShapeDtype(tuple(x.shape), str(x.dtype).replace("torch.", "")) if isinstance(x, torch.Tensor) else x
    args = tuple(example) if isinstance(example, (tuple, list)) else (example,)
    return tree.map(typed, args), tree.map(typed, dict(kwargs or {}))
