"""Each name of jax.numpy is one of rlx.numpy too, and so is each parameter of its functions, but for those that are listed here with the reason.
jax_names.txt has the names, and says of which version of JAX."""

import inspect
import pathlib

import pytest

import rlx

LISTED = [line.split() for line in pathlib.Path(__file__).with_name("jax_names.txt").read_text().splitlines() if line[0] != "#"]

NO_SUCH_DTYPE = "a dtype that the package has not"
NAMES_LEFT_OUT = {
    **{f"numpy.{n}": NO_SUCH_DTYPE for n in "float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz int1 int2 int4 uint1 "
       "uint2 uint4".split()},
    **{f"numpy.{n}": "a dtype by its name alone, as \"f8e4m3fn\"" for n in
       "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu".split()},
    "numpy.ComplexWarning": "a warning that is never given: complex numbers do not become real ones in silence",
}
PARAMETERS_LEFT_OUT = {
    "out_sharding": "arrays are on one device", "precision": "products are of the operands' precision", "_dot_general": "JAX's own",
    "where": "of functions of elements: it leaves elements of out= as they are, and JAX refuses it too",
}


def _found(name):
    module, _, last = name.partition(".")
    return getattr({"numpy": rlx.numpy, "linalg": rlx.linalg, "fft": rlx.fft}[module], last, None)


def test_the_list_is_one_of_a_version():
    first = pathlib.Path(__file__).with_name("jax_names.txt").read_text().splitlines()[0]
    assert first.startswith("# Exported by JAX 0.") and len(LISTED) > 400


@pytest.mark.parametrize("name", [name for name, *_ in LISTED])
def test_a_name_of_jax_is_here(name):
    if name in NAMES_LEFT_OUT:
        assert _found(name) is None, f"{name} is here now: take it off the list"
    else:
        assert _found(name) is not None or name == "numpy.newaxis"


@pytest.mark.parametrize("name,wanted", [(name, wanted) for name, *wanted in LISTED if wanted and name not in NAMES_LEFT_OUT])
def test_a_parameter_of_jax_is_here(name, wanted):
    ours = inspect.signature(_found(name)).parameters
    if any(p.kind is p.VAR_KEYWORD for p in ours.values()):
        return
    element_wise = "axis" not in wanted
    missing = [p for p in wanted if p not in ours and not (p == "out" and element_wise)
               and not (p in PARAMETERS_LEFT_OUT and (p != "where" or element_wise))]
    assert not missing
