"""The packages of builder_test.cpp hold the programs that coremltools' own builder, `mb`, makes of the same calls.

    tests/coreml/builder_ops_test.py [PACKAGE FOLDER]   # without a folder the packages are written first, by $RLX_TESTS

Both are compared op by op: kind, arguments and their values, defaults included, types of results, blocks. Names may differ. Planted
differences are found. It needs an environment with coremltools, as apple_loader_test.py does, and is skipped without one.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

if "--compare" not in sys.argv:  # the part that any Python runs
    found = [p for p in (os.environ.get("RLX_COREMLTOOLS"), ROOT / ".deps/coremltools/bin/python") if p and pathlib.Path(p).exists()]
    if not found:
        print("skipped: no environment with coremltools; `scripts/deps --check` makes .deps/coremltools")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        given = sys.argv[1:]
        if not given:
            program = os.environ.get("RLX_TESTS") or ROOT / "build/release/tests/coreml"
            written = subprocess.run([str(program), "--test-case=the builder:*"], env={**os.environ, "RLX_COREML_CASES": folder},
                                     capture_output=True, text=True)
            if written.returncode:
                sys.exit(f"the packages were not written:\n{written.stdout[-4000:]}{written.stderr[-2000:]}")
        sys.exit(subprocess.run([str(found[0]), __file__, "--compare", *(given or [folder])]).returncode)

import warnings  # noqa: E402

warnings.filterwarnings("ignore")
import logging  # noqa: E402

logging.disable(logging.WARNING)
import coremltools as ct  # noqa: E402
import numpy as np  # noqa: E402
from coremltools import proto  # noqa: E402
from coremltools.converters.mil.frontend.milproto import load as loader  # noqa: E402
from coremltools.converters.mil.mil import Builder as mb  # noqa: E402
from coremltools.converters.mil.mil import Program, get_new_symbol, types  # noqa: E402

INNER = pathlib.Path("Data/com.apple.CoreML")


def numbers(shape, low=-1.0, high=1.0):
    """Those of tests/coreml/packages.h."""
    state, out = 42, np.empty(int(np.prod(shape)), np.float32)
    for i in range(out.size):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out[i] = low + (high - low) * (state >> 40) / (1 << 24)
    return out.reshape(shape)


def chain(added=0.25, last=mb.tanh, of_x=True):
    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 3))], opset_version=ct.target.iOS15)
    def program(x):
        half = mb.mul(x=x, y=0.5)
        y = last(x=mb.add(x=half if of_x else x, y=added))
        return y, mb.cast(x=mb.greater(x=x, y=0.0), dtype="int32")

    return program


def conv(pad=(1, 1, 1, 1), strides=(2, 2)):
    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 3, 8, 8))], opset_version=ct.target.iOS15)
    def program(image):
        c = mb.conv(x=image, weight=numbers((4, 3, 3, 3)), bias=numbers((4,)), pad_type="custom", pad=list(pad))
        p = mb.max_pool(x=mb.relu(x=c), kernel_sizes=[2, 2], strides=list(strides), pad_type="valid")
        return mb.linear(x=mb.reshape(x=p, shape=[1, -1]), weight=numbers((5, 64), -0.2, 0.2), bias=numbers((5,)))

    return program


def attention():
    length = get_new_symbol()
    spec = mb.TensorSpec(shape=(1, 2, length, 4))

    @mb.program(input_specs=[spec, spec, spec], opset_version=ct.target.iOS15)
    def program(q, k, v):
        scores = mb.matmul(x=q, y=k, transpose_y=True)
        return mb.matmul(x=mb.softmax(x=mb.mul(x=scores, y=0.5), axis=-1), y=v)

    return program


def loop():
    @mb.program(input_specs=[mb.TensorSpec(shape=(1,))], opset_version=ct.target.iOS15)
    def program(x):
        limit = mb.squeeze(x=x, axes=[0])
        power, doublings = mb.while_loop(
            _cond=lambda power, doublings: mb.less(x=power, y=limit),
            _body=lambda power, doublings: (mb.mul(x=power, y=2.0), mb.add(x=doublings, y=1)),
            loop_vars=(mb.const(val=np.float32(1)), mb.const(val=np.int32(0))))
        return mb.expand_dims(x=power, axes=[0]), mb.expand_dims(x=doublings, axes=[0])

    return program


def cond():
    @mb.program(input_specs=[mb.TensorSpec(shape=(2,))], opset_version=ct.target.iOS15)
    def program(x):
        def is_over(limit):
            return mb.greater(x=mb.reduce_sum(x=x, axes=[0], keep_dims=False), y=limit)

        return mb.cond(
            pred=is_over(0.0),
            _true_fn=lambda: mb.cond(pred=is_over(10.0), _true_fn=lambda: mb.mul(x=x, y=100.0), _false_fn=lambda: mb.identity(x=x)),
            _false_fn=lambda: mb.mul(x=x, y=-1.0))

    return program


def lstm():
    @mb.program(input_specs=[mb.TensorSpec(shape=(3, 2, 3))], opset_version=ct.target.iOS15)
    def program(x):
        zeros = np.zeros((2, 4), np.float32)
        return mb.lstm(x=x, initial_h=zeros, initial_c=zeros, weight_ih=numbers((16, 3)), weight_hh=numbers((16, 4), -0.5, 0.5),
                       bias=numbers((16,)), output_sequence=True)

    return program


def codes():
    return (np.arange(64) * 37 % 255 - 127).astype(np.int8).reshape(4, 16)


def affine(target):
    def made():
        @mb.program(input_specs=[mb.TensorSpec(shape=(2, 16))], opset_version=target)
        def program(x):
            scale = np.float32(0.01) * np.arange(1, 5, dtype=np.float32)
            w = mb.constexpr_affine_dequantize(quantized_data=codes(), zero_point=np.int8(3), scale=scale, axis=0)
            return mb.matmul(x=x, y=w, transpose_y=True)

        return program

    return made


def blockwise():
    @mb.program(input_specs=[mb.TensorSpec(shape=(2, 16))], opset_version=ct.target.iOS18)
    def program(x):
        w = mb.constexpr_blockwise_shift_scale(data=codes(), scale=numbers((4, 2), 0.01, 0.02))
        return mb.linear(x=x, weight=w, bias=np.zeros(4, np.float32))

    return program


def state():
    @mb.program(input_specs=[mb.TensorSpec(shape=(2,), dtype=types.fp16), mb.StateTensorSpec((2,), dtype=types.fp16)],
                opset_version=ct.target.iOS18)
    def program(x, total):
        y = mb.add(x=mb.read_state(input=total), y=x)
        return mb.mul(x=mb.coreml_update_state(state=total, value=y), y=np.float16(2))

    return program


def functions():
    made = Program()
    for name in ("plain", "doubled"):
        @mb.function(input_specs=[mb.TensorSpec(shape=(1, 8))], opset_version=ct.target.iOS18)
        def one(x):
            y = mb.linear(x=x, weight=numbers((8, 8)), bias=np.zeros(8, np.float32))
            return mb.mul(x=y, y=2.0) if name == "doubled" else y

        made.add_function(name, one)
    made.default_function_name = "plain"
    return made


PROGRAMS = {"chain": chain, "conv": conv, "attention": attention, "while": loop, "while_calls": loop, "cond": cond, "lstm": lstm,
            "affine16": affine(ct.target.iOS16), "affine18": affine(ct.target.iOS18), "blockwise": blockwise, "state": state,
            "functions": functions}


def loaded(package):
    spec = proto.Model_pb2.Model()
    spec.ParseFromString((package / INNER / "model.mlmodel").read_bytes())
    return loader.load(spec, spec.specificationVersion, str(package / INNER / "weights"))


class Comparison:
    def __init__(self):
        self.places, self.count = {}, 0

    def argument(self, ours, theirs, where):
        if isinstance(ours, (list, tuple)) or isinstance(theirs, (list, tuple)):
            if len(ours) != len(theirs):
                raise ValueError(f"{where}: {len(ours)} values, theirs are {len(theirs)}")
            for a, b in zip(ours, theirs):
                self.argument(a, b, where)
            return
        a_const, b_const = (v.op is not None and v.op.op_type == "const" for v in (ours, theirs))
        if a_const != b_const:
            raise ValueError(f"{where}: {ours.name} and {theirs.name}: only one of them is a constant")
        if not a_const:
            if self.places.get(id(ours)) != id(theirs):
                raise ValueError(f"{where}: {ours.name} is not what {theirs.name} is")
            return
        a, b = np.asarray(ours.val), np.asarray(theirs.val)
        if a.dtype.kind != b.dtype.kind or (a.dtype.kind != "U" and a.dtype != b.dtype) or a.shape != b.shape or not np.array_equal(a, b):
            raise ValueError(f"{where}: {a.dtype}{a.shape} {a.ravel()[:4]}, theirs {b.dtype}{b.shape} {b.ravel()[:4]}")

    def results(self, ours, theirs, where):
        if len(ours) != len(theirs):
            raise ValueError(f"{where}: {len(ours)} results, theirs are {len(theirs)}")
        for a, b in zip(ours, theirs):
            if a.dtype != b.dtype or a.rank != b.rank or [d for d in a.shape if isinstance(d, (int, np.integer))] != [
                    d for d in b.shape if isinstance(d, (int, np.integer))]:
                raise ValueError(f"{where}: the result is {a.dtype.__name__}{a.shape}, theirs {b.dtype.__name__}{b.shape}")
            self.places[id(a)] = id(b)

    def block(self, ours, theirs, where):
        def ops(block):
            return [op for op in block.operations if op.op_type != "const"]

        a_ops, b_ops = ops(ours), ops(theirs)
        if [op.op_type for op in a_ops] != [op.op_type for op in b_ops]:
            raise ValueError(f"{where}: {[op.op_type for op in a_ops]}, theirs are {[op.op_type for op in b_ops]}")
        for a, b in zip(a_ops, b_ops):
            here = f"{where}/{a.op_type} '{a.name}'"
            a_in, b_in = ({k: v for k, v in op.inputs.items() if v is not None and not k.startswith("_")} for op in (a, b))
            if a_in.keys() != b_in.keys():
                raise ValueError(f"{here}: takes {sorted(a_in)}, theirs {sorted(b_in)}")
            for name in a_in:
                self.argument(a_in[name], b_in[name], f"{here}.{name}")
            for i, (x, y) in enumerate(zip(a.blocks, b.blocks)):
                self.places.update({id(p): id(q) for p, q in zip(x.inputs, y.inputs)})
                self.block(x, y, f"{here}[{i}]")
            self.results(a.outputs, b.outputs, here)
            self.count += 1
        for a, b in zip(ours.outputs, theirs.outputs):
            self.argument(a, b, f"{where}, what comes out")

    def programs(self, ours, theirs):
        if ours.functions.keys() != theirs.functions.keys():
            raise ValueError(f"functions {sorted(ours.functions)}, theirs {sorted(theirs.functions)}")
        for name, function in ours.functions.items():
            other = theirs.functions[name]
            if function.opset_version != other.opset_version:
                raise ValueError(f"{name} is of {function.opset_version}, theirs of {other.opset_version}")
            self.places.update({id(a): id(b) for a, b in zip(function.inputs.values(), other.inputs.values())})
            self.block(function, other, name)
        return self.count


def main():
    folder = pathlib.Path(sys.argv[sys.argv.index("--compare") + 1])
    failed, count = 0, 0
    for name, made in PROGRAMS.items():
        try:
            count += Comparison().programs(loaded(folder / f"options.builder_{name}" / "model.mlpackage"), made())
        except Exception as error:  # whatever is not the same
            failed += 1
            print(f"FAILED  {name}: {type(error).__name__}: {error}")
    print(f"{len(PROGRAMS) - failed} of {len(PROGRAMS)} programs are those of mb, {count} ops; coremltools {ct.__version__}")
    wrong = {"another constant": ("chain", lambda: chain(added=0.25 + 1e-6)), "another op": ("chain", lambda: chain(last=mb.sigmoid)),
             "another argument": ("chain", lambda: chain(of_x=False)), "another program": ("chain", lstm),
             "another padding": ("conv", lambda: conv(pad=(1, 1, 0, 2))), "another stride": ("conv", lambda: conv(strides=(1, 1)))}
    missed = []
    for what, (name, made) in wrong.items():
        try:
            Comparison().programs(loaded(folder / f"options.builder_{name}" / "model.mlpackage"), made())
            missed.append(what)
        except ValueError:
            pass
    print(f"{len(wrong) - len(missed)} of {len(wrong)} planted differences are found {missed or ''}")
    sys.exit(1 if failed or missed else 0)


main()
