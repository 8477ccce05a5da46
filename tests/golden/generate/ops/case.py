"""A golden case: one node of the textual IR, its inputs, and outputs that someone else computed.

A Family collects cases and writes two files: FAMILY.rlx, the graphs one after another behind one version line, and
FAMILY.safetensors, the tensors named CASE/in0, CASE/in1, ... and CASE/out0, ... Attributes are written in the order
given, lists as lists, strings as bare words.

A case with a derivative also has CASE/ct0, ..., cotangents of outputs (an absent one is zero), and CASE/d0, ..., the
cotangents of inputs that follow from them. derivative.py asks JAX or PyTorch for both.
"""
import json
import struct
import zlib

import ml_dtypes
import numpy as np

bf16 = np.dtype(ml_dtypes.bfloat16)
f16, f32, f64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
i8, i16, i32, i64 = (np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64))
u8, u16, u32, u64 = (np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))
f8e4m3fn, f8e5m2, f8e8m0fnu = (np.dtype(t) for t in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu))
boolean, c64, c128 = np.dtype(np.bool_), np.dtype(np.complex64), np.dtype(np.complex128)

# dtype -> its name in the IR and in a safetensors header
NAMES = {boolean: ("bool", "BOOL"), f16: ("f16", "F16"), bf16: ("bf16", "BF16"), f32: ("f32", "F32"), f64: ("f64", "F64"),
         i8: ("i8", "I8"), i16: ("i16", "I16"), i32: ("i32", "I32"), i64: ("i64", "I64"), u8: ("u8", "U8"), u16: ("u16", "U16"),
         u32: ("u32", "U32"), u64: ("u64", "U64"), c64: ("c64", "C64"), c128: ("c128", None),
         f8e4m3fn: ("f8e4m3fn", "F8_E4M3"), f8e5m2: ("f8e5m2", "F8_E5M2"), f8e8m0fnu: ("f8e8m0fnu", "F8_E8M0")}


class Packed:
    """What neither NumPy nor safetensors has a dtype for: blocks, and elements narrower than a byte. Stored as bytes."""
    def __init__(self, name, dims, data):
        self.name, self.shape, self.data = name, tuple(dims), np.ascontiguousarray(data, np.uint8).ravel()

    @staticmethod
    def codes(name, codes):
        """Integers, or codes of narrow floats, packed from the low bit up: as many bits each as the name says."""
        bits = {"i4": 4, "f4e2m1fn": 4}.get(name) or int(name[1:])
        lowest = np.unpackbits((np.asarray(codes) & (1 << bits) - 1).astype(np.uint8).reshape(-1, 1), axis=1, bitorder="little")[:, :bits]
        return Packed(name, np.shape(codes), np.packbits(lowest.ravel(), bitorder="little"))



def type_text(array):
    if isinstance(array, Packed):
        return f"{array.name}[{', '.join(map(str, array.shape))}]"
    return f"{NAMES[array.dtype][0]}[{', '.join(map(str, array.shape))}]"


def attribute_text(value):
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(attribute_text, value)) + "]"
    if isinstance(value, np.dtype):
        return NAMES[value][0]
    return str(value)


def write_safetensors(path, tensors):
    """https://github.com/huggingface/safetensors, format: header size, JSON header, data. Sorted, so that bytes repeat.
    What it has no dtype for is written as bytes."""
    tensors = {name: np.frombuffer(x.tobytes(), np.uint8) if NAMES[x.dtype][1] is None else x for name, x in tensors.items()}
    header, at = {}, 0
    for name in sorted(tensors):
        size = tensors[name].nbytes
        header[name] = {"dtype": NAMES[tensors[name].dtype][1], "shape": list(tensors[name].shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            out.write(np.ascontiguousarray(tensors[name]).tobytes())


class Nodes:
    """The nodes of a graph behind its inputs, as text; called, it adds one and returns the numbers of its results."""
    def __init__(self, inputs):
        self.count, self.lines, self.ops = len(inputs), [], set()

    def __call__(self, op, operands, *types, **attributes):
        results = [self.count + i for i in range(len(types))]
        self.count += len(types)
        node = f"  {', '.join(f'%{r}' for r in results)} = {op}({', '.join(f'%{r}' for r in operands)})"
        if attributes:
            node += " {" + ", ".join(f"{name} = {attribute_text(value)}" for name, value in attributes.items()) + "}"
        self.lines.append(f"{node} : {', '.join(types)}")
        self.ops.add(op)
        return results


class Family:
    def __init__(self, name):
        self.name, self.graphs, self.tensors, self.ops = name, [], {}, set()

    def add(self, case, op, inputs, outputs, source, cotangents=(), gradients=(), **attributes):
        """One node. `source` names what computed the outputs; attributes that are None are left out. Cotangents are
        listed as the outputs are and gradients as the inputs are; None where there is none."""
        inputs, outputs = ([x if isinstance(x, Packed) else np.asarray(x) for x in xs] for xs in (inputs, outputs))
        for value, partner in [*zip(cotangents, outputs), *zip(gradients, inputs)]:
            assert value is None or (value.shape, value.dtype) == (partner.shape, partner.dtype), case
        attributes = {name: value for name, value in attributes.items() if value is not None}
        nodes = Nodes(inputs)
        results = nodes(op, range(len(inputs)), *map(type_text, outputs), **attributes)
        self.add_graph(case, nodes, results, inputs, outputs, source, cotangents, gradients)

    def add_graph(self, case, nodes, results, inputs, outputs, source, cotangents=(), gradients=()):
        """Several nodes, whose `results` are compared: what does not depend on a choice that an op is free in."""
        assert f"{case}/out0" not in self.tensors, case
        lines = [f"// {source}", f"graph @{case} {{"]
        lines += [f'  %{i} = input() @"in{i}" : {type_text(x)}' for i, x in enumerate(inputs)]
        lines += nodes.lines
        lines += ["  return " + ", ".join(f'%{r} @"out{i}"' for i, r in enumerate(results)), "}"]
        self.graphs.append("\n".join(lines) + "\n")
        self.ops |= nodes.ops
        for kind, tensors in (("in", inputs), ("out", outputs), ("ct", cotangents), ("d", gradients)):
            self.tensors |= {f"{case}/{kind}{i}": x.data if isinstance(x, Packed) else x for i, x in enumerate(tensors) if x is not None}

    def add_derivative(self, case, op, inputs, vjp, function, source, **attributes):
        """The same with cotangents: `vjp` is `by_jax` or `by_torch` of derivative.py, `function` what the op is in their
        terms."""
        outputs, cotangents, gradients = vjp(case, function, [np.asarray(x) for x in inputs])
        self.add(case, op, inputs, outputs, source, cotangents, gradients, **attributes)

    def write(self, folder):
        (folder / f"{self.name}.rlx").write_text("rlx 1\n" + "".join(self.graphs), encoding="ascii", newline="\n")
        write_safetensors(folder / f"{self.name}.safetensors", self.tensors)


# ---- inputs: drawn from a generator that NumPy promises never to change, seeded by the case's name ----
def rng(name):
    return np.random.RandomState(zlib.crc32(name.encode()))


def normal(name, dims, dtype=f32, scale=1.0):
    return np.asarray(scale * rng(name).standard_normal(dims)).astype(dtype)


def uniform(name, dims, low, high, dtype=f32):
    return np.asarray(rng(name).uniform(low, high, dims)).astype(dtype)


def integers(name, dims, low, high, dtype=i32):
    """low <= n < high"""
    return np.asarray(rng(name).randint(low, high, dims, dtype=np.int64)).astype(dtype)


def is_real(dtype):
    return dtype in (f16, bf16, f32, f64)


def in_f64(function, *inputs, dtype=None):
    """function of the inputs widened to f64 (complex: c128), rounded once to `dtype` (the first input's if None)."""
    def wide(x):
        x = np.asarray(x)
        return x.astype(f64) if is_real(x.dtype) else x.astype(c128) if x.dtype == c64 else x

    dtype = np.asarray(inputs[0]).dtype if dtype is None else dtype
    with np.errstate(all="ignore"):
        result = function(*map(wide, inputs))
        results = result if isinstance(result, (tuple, list)) else [result]
        return [np.asarray(r).astype(dtype) if np.asarray(r).dtype in (f64, c128) else np.asarray(r) for r in results]
