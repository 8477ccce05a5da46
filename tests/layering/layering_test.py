#!/usr/bin/env python3
"""Holds the order of the layers: reads the #includes of src/, extras/, include/ and tools/ and names each that points upward.

The order and its exceptions are those of docs/architecture.md. A layer includes itself and what stands below it;
layers of one rank are siblings and do not include each other; neither do two backends, nor two frontends.
"""

import pathlib
import re
import sys
import tempfile

# From the bottom up; those of one line are siblings.
RANKS = [
    ["base"],
    ["tensor"],
    ["ir"],
    ["ops"],
    ["reference", "autodiff", "passes", "plan", "codegen", "kernels", "io"],
    ["extras"],
    ["backends", "frontends"],
    ["compile"],
    ["runtime"],
    ["cost"],
    ["devices"],
    ["judge"],
    ["models", "train", "data"],
    ["quantization"],
    ["c_api"],
    ["extras"],
    ["tools"],
]
RANK = {layer: rank for rank, layers in enumerate(RANKS) for layer in layers}

# Siblings that may: constants are folded by the reference; a function of scalars becomes one of arrays by autodiff; a plan asks the passes for what they know of a graph.
ALLOWED_SIBLINGS = {("passes", "reference"), ("passes", "autodiff"), ("plan", "passes")}

# Folders whose sub-folders are worlds of their own. What two of them share moves down.
PARTITIONED = {"backends", "frontends", "devices", "extras"}

# The layer of each public header, and of each folder of them: a layer may include those of its own layer and of the
# layers below.
PUBLIC = {
    "ops/": "ops",
    "extras/": "extras",
    "error.h": "base",
    "event.h": "base",
    "version.h": "base",
    "dtype.h": "base",
    "rounding.h": "base",
    "fields.h": "base",
    "scanner.h": "base",
    "blocks.h": "tensor",
    "chat_template.h": "io",
    "element.h": "tensor",
    "tensor.h": "tensor",
    "thread_pool.h": "kernels",
    "type.h": "tensor",
    "graph.h": "ir",
    "op_def.h": "ir",
    "ops.h": "ops",
    "autodiff.h": "autodiff",
    "gguf.h": "io",
    "io.h": "io",
    "lazy_tensor.h": "io",
    "png.h": "io",
    "quantization.h": "quantization",
    "tokenizer.h": "io",
    "too_large.h": "io",
    "graph_file.h": "frontends",
    "device.h": "backends",
    "device_tensor.h": "backends",
    "kernel.h": "backends",
    "report.h": "passes",
    "compile.h": "compile",
    "coreml.h": "devices",
    "device_speed.h": "cost",
    "manifest.h": "cost",
    "machine.h": "backends",
    "session.h": "runtime",
    "state.h": "runtime",
    "artifact.h": "runtime",
    "coreml_model.h": "devices",
    "mil_builder.h": "devices",
    "execution_profile.h": "models",
    "generation.h": "models",
    "language_model.h": "models",
    "models.h": "models",
    "pipeline.h": "models",
    "models/": "models",
    "sampler.h": "models",
    "data.h": "data",
    "lora.h": "train",
    "log.h": "base",
    "metrics.h": "data",
    "train.h": "train",
    "backend.h": "c_api",
    "plugin.h": "c_api",
    "rlx.h": "c_api",
    "c.h": "c_api",
}

# What CMake writes into the build folder.
GENERATED = {"rlx_choices.h"}

# Headers of others that are written in quotes, as their own documents do.
QUOTED_THIRD_PARTY = {"hwy"}

# What extras may include of src/: functions of vectors, which are compiled with each kernel that uses Highway. A public
# header cannot have them, as those include the standard library only.
FOR_EXTRAS = "kernels/vector/"

# The C ABI is C: its standard headers have a suffix.
C_STANDARD = {"stddef.h", "stdint.h", "string.h"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
SUFFIXES = {".h", ".hpp", ".c", ".cpp", ".mm", ".def", ".inc"}


def public_layer(name):
    """The layer of the header include/rlx/`name`; None if it is not listed."""
    return PUBLIC.get(name) or PUBLIC.get(name.split("/")[0] + "/" if "/" in name else name)


def violations(root):
    """Every include that breaks the order, as "file: reason", and the number of project includes that were read."""
    found, read = [], 0
    for file in sorted(p for top in ("include", "src", "extras", "tools") for p in (root / top).rglob("*")):
        if file.suffix not in SUFFIXES:
            continue
        where = file.relative_to(root)
        is_public = where.parts[0] == "include"
        if is_public:
            layer = public_layer(where.relative_to("include/rlx").as_posix())
            if layer is None:
                found.append(f"{where}: no layer is known for this public header; add it to PUBLIC in tests/layering/layering_test.py")
                continue
        else:
            layer = where.parts[0] if where.parts[0] in ("tools", "extras") else where.parts[1]
            if layer not in RANK or (where.parts[0] == "src" and len(where.parts) < 3):
                found.append(f"{where}: not in a layer; the folders of src/ are {', '.join(RANK)}")
                continue
        for quote, name in INCLUDE.findall(file.read_text(encoding="utf-8")):
            reason, ours = refusal(root, where, layer, is_public, quote, name)
            read += ours
            if reason:
                found.append(f'{where}: includes "{name}", {reason}')
    return found, read


def refusal(root, where, layer, is_public, quote, name):
    """Why `where` may not include `name` (None if it may), and whether that is a header of the project."""
    parts = pathlib.PurePosixPath(name).parts
    if parts[0] == "rlx":
        if quote == "<":
            return 'which is ours: write "rlx/..." in quotes', True
        target = public_layer("/".join(parts[1:]))
        if target is None:
            return f"a public header without a layer; add it to PUBLIC in tests/layering/layering_test.py", True
    elif quote == "<" or parts[0] in QUOTED_THIRD_PARTY:
        if is_public and name not in C_STANDARD and ("/" in name or "." in name) and not name.startswith("sys/"):
            return "a third-party header: the public headers include the standard library only", False
        return None, False
    elif name in GENERATED and not is_public:
        return None, True
    elif is_public:
        return "which is not public: the public headers include rlx/ and the standard library", True
    elif layer == "extras":
        if name.startswith(FOR_EXTRAS) and (root / "src" / name).exists():
            return None, True
        if parts[0] != "extras" or not (root / name).exists():
            return "which is not public: extras include rlx/, their own folder as extras/<family>/, and others in <>", True
        target = "extras"
    elif layer == "tools":
        target = parts[0] if parts[0] in RANK else "tools"
    elif name == "rlx_choices.h":  # written by cmake/choices.cmake: what a library holds
        target = "base"
    elif parts[0] in RANK and (root / "src" / name).exists():
        target = parts[0]
    else:
        return "which is not found: ours are relative to src/ or include/, others stand in <>", True

    if target != layer:
        if RANK[target] > RANK[layer]:
            return f"but {target} stands above {layer}", True
        if RANK[target] == RANK[layer] and (layer, target) not in ALLOWED_SIBLINGS:
            return f"but {target} and {layer} are siblings", True
    elif layer in PARTITIONED and parts[0] == layer and len(parts) > 2:
        below = where.parts[where.parts.index(layer) + 1 :]
        own = below[0] if len(below) > 1 else None
        if own is not None and parts[1] != own:
            return f"but {layer}/{own} does not know {layer}/{parts[1]}: what both need moves down", True
    return None, True


# Layers, and tests of all devices, that neither name a device nor compare one: what they have to know, a target says.
WITHOUT_DEVICES = ["src/compile", "src/runtime", "src/plan", "src/passes", "src/train", "src/judge", "tests/laws", "tests/support"]
DEVICE = re.compile(r"Device::(?:cpu|coreml|mlx|cuda|rocm|metal|wgpu|tpu|null)\(|\bDevice(?:::parse)?\(\"|"
                    r"#include \"(?:backends|devices)/(?!backend\.h|device_memory\.h|registry\.h)|\bcoreml\b|ComputeUnits")


def lines_with(pattern, root, folders, besides=frozenset()):
    """Each line of the sources in these folders that the pattern is found in, as (file, line); comments do not count."""
    for file in sorted(p for top in folders for p in (root / top).rglob("*")):
        name = file.relative_to(root).as_posix()
        if file.suffix not in SUFFIXES or name in besides:
            continue
        for line in file.read_text(encoding="utf-8").splitlines():
            code = line.split("//")[0]
            if pattern.search(code):
                yield name, code.strip()


def devices_named(root):
    return [f"{file}: names a device: {code}" for file, code in lines_with(DEVICE, root, WITHOUT_DEVICES)]


# Who shortens a mapped file ends the process, so files are copied. These map some: the readers that are asked to, what is asked
# for through C, weights in the user's own cache folder, and weights that are converted tensor by tensor. SECURITY.md, "Files that change while they are read", names them.
MAPPERS = {"src/io/file_bytes.cpp", "src/io/safetensors.cpp", "src/io/gguf.cpp", "src/c_api/c_gguf.cpp", "src/c_api/c_language_models.cpp",
           "src/backends/cpu/packed_file.cpp", "tools/convert_weights.cpp"}
MAPS = re.compile(r"FileAccess::mapped|FileBytes::map\(|\bmmap\([^;]*\bfd\b")


def mapped_files(root):
    return [f"{file}: maps a file that somebody may shorten: {code}" for file, code in lines_with(MAPS, root, ("src", "extras", "tools"), MAPPERS)]


def left_out_of_rlx_h(root):
    """Public headers that `rlx/rlx.h` neither includes nor names as left out: the C interfaces and the extras."""
    include = root / "include"
    reached, waiting = set(), ["rlx/rlx.h"]
    while waiting:
        name = waiting.pop()
        if name in reached or not (include / name).is_file():
            continue
        reached.add(name)
        waiting += re.findall(r'(?m)^\s*#\s*include "(rlx/[^"]+)"', (include / name).read_text())
    all_headers = {path.relative_to(include).as_posix() for path in (include / "rlx").rglob("*.h")}
    named = {name for name in all_headers if name in ("rlx/c.h", "rlx/backend.h") or name.startswith("rlx/extras/")}
    return [f"include/{name}: rlx/rlx.h does not include it" for name in sorted(all_headers - reached - named)]


def prove_that_it_finds():
    """Plants one mistake of each sort in a small tree, and expects exactly those."""
    planted = {
        "src/ir/graph.h": ('#include "ops/ops.h"\n', "but ops stands above ir"),
        "src/ops/ops.h": ('#include "ir/graph.h"\n#include <vector>\n', None),
        "src/passes/fold.cpp": ('#include "reference/run.h"\n', None),
        "src/reference/run.h": ('#  include "passes/fold.h"\n', "but passes and reference are siblings"),
        "src/passes/fold.h": ('#include "fold_detail.h"\n', "which is not found"),
        "src/backends/cpu/run.h": ('#include "backends/backend.h"\n', None),
        "src/backends/null/run.cpp": ('#include "backends/cpu/run.h"\n', "does not know backends/cpu"),
        "src/backends/backend.h": ("#include <cstdint>\n", None),
        "src/misc/thing.cpp": ("", "not in a layer"),
        "include/rlx/error.h": ("#include <nlohmann/json.hpp>\n", "third-party"),
        "include/rlx/graph.h": ('#include "rlx/session.h"\n', "but runtime stands above ir"),
        "include/rlx/surprise.h": ("", "no layer is known"),
        "include/rlx/ops/nn.h": ('#include "rlx/graph.h"\n', None),
        "src/base/early.cpp": ('#include "rlx/ops/nn.h"\n', "but ops stands above base"),
        "include/rlx/extras/sparse.h": ('#include "rlx/ops/nn.h"\n', None),
        "extras/sparse/rules.h": ('#include "rlx/session.h"\n', None),
        "extras/sparse/rules.cpp": ('#include "extras/sparse/rules.h"\n#include "rlx/extras/sparse.h"\n', None),
        "extras/sparse/inside.cpp": ('#include "ops/ops.h"\n', "which is not public: extras include rlx/"),
        "src/kernels/vector/math-inl.h": ("#include <cmath>\n", None),
        "extras/sparse/vectors.cpp": ('#include "kernels/vector/math-inl.h"\n', None),
        "extras/splat/rules.cpp": ('#include "extras/sparse/rules.h"\n', "does not know extras/sparse"),
        "src/ops/late.cpp": ('#include "rlx/extras/sparse.h"\n', "but extras stands above ops"),
        "tools/main.cpp": ('#include "runtime/session.h"\n', None),
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, (text, _) in planted.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found, _ = violations(root)
        (root / "src/runtime").mkdir()
        for line in ("Session s(Device::cpu());", 'auto d = Device::parse("cpu");', '#include "backends/cpu/cpu.h"',
                     'if (d.backend() == "coreml") return;'):
            (root / "src/runtime/session.cpp").write_text(f"// Device::cpu() in a comment\n{line}\n")
            assert len(devices_named(root)) == 1, line
        for line in ("auto file = FileBytes::map(path);", "open(path, FileAccess::mapped);", "mmap(nullptr, n, PROT_READ, MAP_SHARED, fd, 0);"):
            (root / "src/runtime/session.cpp").write_text(f"// FileBytes::map() in a comment\n{line}\n")
            assert len(mapped_files(root)) == 1, line
        (root / "include/rlx/rlx.h").write_text('#include "rlx/error.h"\n#include "rlx/ops/nn.h"\n')
        assert left_out_of_rlx_h(root) == ["include/rlx/surprise.h: rlx/rlx.h does not include it"], left_out_of_rlx_h(root)
    expected = {name: reason for name, (_, reason) in planted.items() if reason}
    named = {line.split(":")[0]: line for line in found}
    assert named.keys() == expected.keys(), f"expected {sorted(expected)}, found:\n" + "\n".join(found)
    for name, reason in expected.items():
        assert reason in named[name], f"{name}: expected '{reason}', found '{named[name]}'"


if __name__ == "__main__":
    prove_that_it_finds()
    source = pathlib.Path(__file__).resolve().parents[2]
    broken, count = violations(source)
    print(f"{count} includes of project headers, {len(broken)} against the order of the layers")
    named = devices_named(source)
    print(f"{len(named)} lines that name a device where none may be named")
    mapped = mapped_files(source)
    print(f"{len(mapped)} lines that map a file, outside of those that may")
    left_out = left_out_of_rlx_h(source)
    print(f"{len(left_out)} public headers that rlx/rlx.h leaves out")
    for line in broken + named + mapped + left_out:
        print(" ", line)
    sys.exit(1 if broken or named or mapped or left_out else 0)
