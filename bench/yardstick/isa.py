"""Instruction sets: which the machine has, how the better ones are hidden from every program alike (`--isa`), and
whether a program kept to what it was left.

Where the processor has CPUID faulting, and the kernel lets programs use it, hide_cpu_features.c answers CPUID with fewer
bits than the processor has, for every program and in one way. Elsewhere (AMD's processors before Zen 5, many virtual
machines) each program is told by the variables that its libraries read, and not every library reads one. So no program is
believed: sample_instructions.c looks at what each executes in each case, and one whose instructions need more than was
left to it is shown, not judged.

What was seen of the variables at `--isa sse4` on an AMD processor with AVX2 (ONNX Runtime 1.31, OpenVINO 2026.4, PyTorch
2.15, JAX 0.10). RLX keeps to the set in every case tried. PyTorch's own kernels (softmax, chains) and oneDNN's (convolutions) do,
its products by MKL do not: MKL_ENABLE_INSTRUCTIONS is for Intel's processors, and MKL_CBWR=COMPATIBLE would hold it back too
far, as it asks for equal results everywhere, and for SSE2. Most kernels of OpenVINO do (ONEDNN_MAX_CPU_ISA), its products
with constant matrices by MLAS do not, and layer
normalization fails ("bad combination"). ONNX Runtime reads no such variable. JAX's chains do (--xla_cpu_max_isa), its
products, convolutions and softmax do not. Programs whose packages want AVX (JAX's) may refuse to start where CPUID hides it."""

import ctypes
import dataclasses
import hashlib
import os
import pathlib
import platform
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILT = HERE.parents[1] / "build/yardstick"
SETS = ("sse4", "avx2", "avx512", "avx512_vnni", "amx")  # RLX_ISA's of x86-64, each with all before it
WHOLE = 0xFFFFFFFF

# (set, leaf, subleaf, register: 0 ... 3 for eax ... edx, {bit: name in /proc/cpuinfo}): what CPUID says of it.
FEATURES = [
    ("avx2", "1", "*", 2, {12: "fma", 28: "avx", 29: "f16c"}),
    ("avx2", "80000001", "*", 2, {11: "xop", 16: "fma4"}),
    ("avx2", "7", "0", 1, {5: "avx2"}),
    ("avx2", "7", "0", 2, {9: "vaes", 10: "vpclmulqdq"}),
    ("avx512", "7", "0", 1, {16: "avx512f", 17: "avx512dq", 21: "avx512ifma", 26: "avx512pf", 27: "avx512er",
                             28: "avx512cd", 30: "avx512bw", 31: "avx512vl"}),
    ("avx512", "7", "0", 2, {1: "avx512vbmi", 6: "avx512_vbmi2", 12: "avx512_bitalg", 14: "avx512_vpopcntdq"}),
    ("avx512", "7", "0", 3, {2: "avx512_4vnniw", 3: "avx512_4fmaps", 8: "avx512_vp2intersect"}),
    ("avx512_vnni", "7", "0", 2, {11: "avx512_vnni"}),
    ("avx512_vnni", "7", "1", 0, {4: "avx_vnni", 5: "avx512_bf16", 23: "avx_ifma"}),
    ("avx512_vnni", "7", "1", 3, {4: "avx_vnni_int8", 5: "avx_ne_convert", 10: "avx_vnni_int16"}),
    ("amx", "7", "0", 3, {22: "amx_bf16", 23: "avx512_fp16", 24: "amx_tile", 25: "amx_int8"}),
    ("amx", "7", "1", 0, {21: "amx_fp16"}),
    ("amx", "7", "1", 3, {8: "amx_complex", 19: "avx10"}),  # AVX10 says all of AVX-512 at once, products of f16 with it
    # Registers that the system saves. Sizes stay as they are: XCR0 cannot be hidden, so XSAVE writes as much as before.
    ("avx2", "d", "0", 0, {2: ""}), ("avx512", "d", "0", 0, {5: "", 6: "", 7: ""}), ("amx", "d", "0", 0, {17: "", 18: ""}),
]  # fmt: skip
LEAVES = [("amx", "1d"), ("amx", "1e"), ("amx", "24")]  # tiles, their products, AVX10: hidden whole

# What /proc/cpuinfo says where RLX has the set (src/kernels/vector/instruction_set.cpp): one of these groups, whole.
REQUIRED = {
    "sse4": [{"sse4_1", "sse4_2"}],
    "avx2": [{"avx2", "fma", "f16c"}],
    "avx512": [{"avx512f", "avx512cd", "avx512dq", "avx512bw", "avx512vl"}],
    "avx512_vnni": [{"avx512_vnni"}, {"avx512_bf16"}],
    "amx": [{"amx_tile", "amx_bf16", "amx_int8"}],
}

# Variable: its values for sse4, avx2, avx512, avx512_vnni (nothing is better than amx); "" sets none. What they reach:
VARIABLES = {
    "RLX_ISA": ("sse4", "avx2", "avx512", "avx512_vnni"),
    "OPENBLAS_CORETYPE": ("Nehalem", "Haswell", "SkylakeX", "Cooperlake"),  # LAPACK, RLX's too
    "ONEDNN_MAX_CPU_ISA": ("SSE41", "AVX2", "AVX512_CORE", "AVX512_CORE_BF16"),  # PyTorch, OpenVINO
    "DNNL_MAX_CPU_ISA": ("SSE41", "AVX2", "AVX512_CORE", "AVX512_CORE_BF16"),  # the same, older
    "ATEN_CPU_CAPABILITY": ("default", "avx2", "avx512", "avx512"),  # PyTorch's own kernels, torch.compile's vectors
    "TORCHINDUCTOR_CPP_MARCH": ("x86-64-v2", "x86-64-v3", "x86-64-v4", "cooperlake"),  # else -march=native
    "MKL_ENABLE_INSTRUCTIONS": ("SSE4_2", "AVX2", "AVX512", "AVX512_E3"),  # PyTorch's products, on Intel's processors
    "FBGEMM_ENABLE_INSTRUCTIONS": ("", "AVX2", "AVX512", "AVX512_E1"),  # PyTorch's products of int8
    "XLA_FLAGS": tuple(f"--xla_cpu_max_isa={s}" for s in ("SSE4_2", "AVX2", "AVX512", "AVX512_BF16")),
}
LISTS = {"XLA_FLAGS": " ", "GLIBC_TUNABLES": ":", "LD_PRELOAD": ":"}  # what is set already stays, and where it ends
# Copies (AVX_Fast_Unaligned_Load is what memcpy asks for) and functions of libm, which choose before any preload.
GLIBC = {"avx2": "-AVX,-AVX2,-FMA,-FMA4,-AVX_Fast_Unaligned_Load", "avx512": "-AVX512F,-AVX512VL,-AVX512BW"}

LEAST_SAMPLES = 20
MOST_ABOVE = 0.02  # the share of samples that is not counted against a program


class IsaError(Exception):
    """A set that cannot be measured here; the text says why."""


@dataclasses.dataclass
class Hiding:
    """What is hidden from the programs. `way`: "cpuid", "variables", or "nothing" where the machine has no more anyway."""

    isa: str = None
    way: str = "nothing"
    hidden: tuple = ()  # names of /proc/cpuinfo
    environment: dict = dataclasses.field(default_factory=dict)  # what the programs are run with, beside their own
    sampler: str = None  # the library that looks at what they execute

    def applied(self, environment):
        """The environment with this one's variables."""
        return {**environment, **{name: joined(name, environment.get(name), value) for name, value in self.environment.items()}}


def joined(name, before, value):
    return f"{before}{LISTS[name]}{value}" if before and name in LISTS else value


def is_above(isa, other):
    return SETS.index(other) > SETS.index(isa)


def has(isa, flags):
    """Whether a processor with these flags has the set and, as RLX asks for it, the vectors below it."""
    vectors = [s for s in ("sse4", "avx2", "avx512") if not is_above(isa, s)]
    return all(any(group <= flags for group in REQUIRED[s]) for s in {*vectors, isa})


def best_of(flags):
    return next((s for s in reversed(SETS) if has(s, flags)), None)


def hidden_features(isa, flags):
    """Names of what the processor has beyond the set."""
    return tuple(sorted(name for owner, *_, bits in FEATURES if is_above(isa, owner) for name in bits.values() if name in flags))


def cpuid_rules(isa):
    """What YARDSTICK_HIDE of hide_cpu_features.c is set to."""
    bits = {}
    for owner, leaf, subleaf, register, names in FEATURES:
        if is_above(isa, owner):
            bits[leaf, subleaf, register] = bits.get((leaf, subleaf, register), 0) | sum(1 << b for b in names)
    bits |= {(leaf, "*", register): WHOLE for owner, leaf in LEAVES if is_above(isa, owner) for register in range(4)}
    return ",".join(f"{leaf}:{subleaf}:{register}:{mask:x}" for (leaf, subleaf, register), mask in bits.items())


def glibc_tunables(isa):
    return "glibc.cpu.hwcaps=" + ",".join(text for owner, text in GLIBC.items() if is_above(isa, owner))


def variables_of(isa):
    return {name: values[SETS.index(isa)] for name, values in VARIABLES.items() if values[SETS.index(isa)]}


def compiled(source, *link_options):
    """The shared library of a C file of this folder, compiled if it has changed."""
    path = HERE / source
    library = BUILT / f"{path.stem}-{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}.so"
    if not library.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        fresh = library.with_suffix(f".{os.getpid()}")
        command = [os.environ.get("CC", "cc"), "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", str(path), "-o", str(fresh),
                   "-ldl", *link_options]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise IsaError(f"--isa needs a C compiler ({command[0]}, or what CC names): {error.strerror}") from error
        if done.returncode != 0:
            raise IsaError(f"{path} was not compiled by {command[0]}: {done.stderr.strip()[:300]}")
        fresh.rename(library)
    return str(library)


def compiled_handler():
    return compiled("hide_cpu_features.c", "-Wl,-z,initfirst")  # its constructor before others', some of which ask CPUID


def kernel_hides():
    """Whether the kernel and the processor let a program hide CPUID. Asks for what is so anyway: that CPUID works."""
    arch_prctl, set_cpuid = 158, 0x1012
    return ctypes.CDLL(None, use_errno=True).syscall(arch_prctl, set_cpuid, ctypes.c_ulong(1)) == 0


# Run with the preload: prints what is not hidden although it should be.
CHECK = """
import ctypes, os, sys
ask = ctypes.CDLL(sys.argv[1]).hide_cpuid
for rule in os.environ["YARDSTICK_HIDE"].split(","):
    leaf, subleaf, register, bits = rule.split(":")
    answer = (ctypes.c_uint32 * 4)()
    ask(int(leaf, 16), 0 if subleaf == "*" else int(subleaf, 16), answer)
    if answer[int(register)] & int(bits, 16):
        print(rule)
"""


def check_preload(library, environment):
    """What is wrong with hiding by the preload, or nothing."""
    done = subprocess.run([sys.executable, "-c", CHECK, library], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})  # fmt: skip
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    return f"CPUID still says {', '.join(done.stdout.split())}" if done.stdout.strip() else ""


def cpu_flags():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return set()
    return next((set(line.split(":", 1)[1].split()) for line in lines if line.startswith("flags")), set())


def prepare(isa, flags=None, by_kernel=None):
    """The Hiding of a set's name, or of None. `flags`, `by_kernel`: of this machine if they are not given."""
    if isa is None:
        return Hiding()
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise IsaError(f"--isa hides features of x86-64 on Linux; this is {platform.machine()} on {platform.system()}")
    flags = cpu_flags() if flags is None else flags
    if not has(isa, flags):
        raise IsaError(f"--isa {isa}: this machine has {best_of(flags) or 'none of the sets'} at most; take one of "
                       f"{', '.join(s for s in SETS if has(s, flags))}, or leave --isa out")  # fmt: skip
    hidden = hidden_features(isa, flags)
    if not hidden:
        return Hiding(isa)
    environment = {"YARDSTICK_ISA": isa, "GLIBC_TUNABLES": glibc_tunables(isa),
                   "TORCHINDUCTOR_CACHE_DIR": str(BUILT / f"inductor-{isa}")}  # what torch.compile made for more  # fmt: skip
    sampler = compiled("sample_instructions.c")
    if kernel_hides() if by_kernel is None else by_kernel:
        library = compiled_handler()
        by_cpuid = {**environment, "LD_PRELOAD": library, "YARDSTICK_HIDE": cpuid_rules(isa)}
        wrong = check_preload(library, by_cpuid)
        if not wrong:
            return Hiding(isa, "cpuid", hidden, by_cpuid, sampler)
        print(f"yardstick: hiding by CPUID does not work here ({wrong}): variables instead", file=sys.stderr)
    return Hiding(isa, "variables", hidden, {**environment, **variables_of(isa)}, sampler)


def why_not_judged(isa, counts):
    """Why a program did not keep to the set, or "". `counts`: its samples, by set of the instruction, as in SETS."""
    total, above = sum(counts), sum(counts[SETS.index(isa) + 1 :])
    if total < LEAST_SAMPLES:
        return f"only {total} of its instructions could be looked at: give it more runs"
    if above <= MOST_ABOVE * total:
        return ""
    best = max(i for i, count in enumerate(counts) if count)
    return f"{100 * above / total:.0f} % of {total} instructions that were looked at are beyond {isa}, up to {SETS[best]}"
