#!/usr/bin/env python3
"""Holds every source to the standard headers it uses: a precompiled header (RLX_PCH) brings them to a file that has
forgotten one, and a unity build brings its neighbours', so neither compiler misses it; another library or platform would.

What a file includes, and what headers of ours that it includes do, counts; what one standard header happens to include
of another does not.
"""

import functools
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["include", "src", "extras", "tools", "tests", "bench", "examples"]
SEARCHED = [ROOT, ROOT / "include", ROOT / "src", ROOT / "tests"]

# The names of each header of RLX_PCH_HEADERS (cmake/compiler.cmake) that are told from others by their name alone.
NAMES = {
    "algorithm": "all_of any_of none_of for_each find find_if find_if_not count count_if copy copy_n copy_if copy_backward "
                 "fill fill_n transform generate replace remove remove_if unique reverse rotate sort stable_sort partial_sort "
                 "nth_element lower_bound upper_bound equal_range binary_search is_sorted min max minmax min_element "
                 "max_element clamp equal mismatch search lexicographical_compare next_permutation partition",
    "array": "array to_array",
    "atomic": "atomic atomic_flag memory_order_relaxed memory_order_acquire memory_order_release",
    "cmath": "sqrt cbrt exp exp2 expm1 log log2 log10 log1p pow sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh "
             "atanh erf erfc lgamma tgamma floor ceil trunc round nearbyint rint fmod remainder fma hypot ldexp frexp scalbn "
             "isnan isinf isfinite signbit copysign nextafter",
    "cstring": "memcpy memmove memset memcmp strlen strcmp strerror",
    "functional": "function hash less greater plus multiplies minus reference_wrapper ref cref invoke",
    "limits": "numeric_limits",
    "map": "map multimap",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared enable_shared_from_this",
    "mutex": "mutex lock_guard unique_lock scoped_lock once_flag call_once recursive_mutex",
    "optional": "optional nullopt make_optional",
    "span": "span",
    "sstream": "ostringstream istringstream stringstream",
    "stdexcept": "runtime_error logic_error out_of_range invalid_argument",
    "string": "string to_string stoll stoull stod getline",
    "string_view": "string_view",
    "unordered_map": "unordered_map",
    "utility": "pair make_pair move forward swap exchange declval index_sequence make_index_sequence",
    "variant": "variant visit get_if holds_alternative monostate",
    "vector": "vector",
}
HEADER_OF = {name: header for header, names in NAMES.items() for name in names.split()}
# Overloads of other headers have these names too.
ALSO = {"hash": {"string", "string_view", "memory"}, "array": {"span"}, "remove": {"cstdio", "filesystem"},
        "move": {"algorithm"}, "exp": {"complex"}, "log": {"complex"}, "sqrt": {"complex"}, "pow": {"complex"}, "sin": {"complex"},
        "cos": {"complex"}, "tan": {"complex"}, "sinh": {"complex"}, "cosh": {"complex"}, "tanh": {"complex"},
        "getline": {"istream", "fstream", "iostream"}}  # fmt: skip
USED = re.compile(r"\bstd::(\w+)")
SIZED = re.compile(r"\bu?int(?:8|16|32|64|ptr)_t\b")
INCLUDED = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.S)


@functools.cache
def text_of(path):
    return path.read_text(encoding="utf-8")


@functools.cache
def brought(path):
    """The standard headers that a file includes, itself or by ours."""
    found, open_, seen = set(), [path], {path}
    while open_:
        at = open_.pop()
        for kind, name in INCLUDED.findall(text_of(at)):
            ours = next((p for p in [at.parent / name, *(folder / name for folder in SEARCHED)] if p.is_file()), None)
            if kind == '"' and ours:
                ours = ours.resolve()
                if ours not in seen:
                    seen.add(ours)
                    open_.append(ours)
            else:
                found.add(name)
    return found


def missing(path):
    has = brought(path)
    text = COMMENT.sub("", text_of(path))
    found = {f"<{HEADER_OF[name]}> for std::{name}" for name in set(USED.findall(text))
             if name in HEADER_OF and HEADER_OF[name] not in has and not ALSO.get(name, set()) & has}  # fmt: skip
    sized = SIZED.search(text)
    if sized and not {"cstdint", "stdint.h"} & has:
        found.add(f"<cstdint> for {sized[0]}")
    return sorted(found)


def sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp") and "build" not in path.relative_to(ROOT).parts:
                yield path.resolve()


def main():
    # A planted mistake is found, so that a change of the expressions above cannot make this test pass always.
    with tempfile.TemporaryDirectory() as folder:
        planted = pathlib.Path(folder) / "planted.cpp"
        planted.write_text("#include <map>\nstd::vector<int> v; // std::span\n")
        if missing(planted) != ["<vector> for std::vector"]:
            print(f"of a planted file, {missing(planted)} is missing, not <vector>")
            return 1
    precompiled = set(re.findall(r"<(\w+)>", text_of(ROOT / "cmake/compiler.cmake").split("set(RLX_PCH_HEADERS")[1].split(")")[0]))
    if precompiled != {*NAMES, "cstdint"}:
        print("RLX_PCH_HEADERS and NAMES differ:", ", ".join(precompiled ^ {*NAMES, "cstdint"}))
        return 1
    failures = 0
    count = 0
    for path in sources():
        count += 1
        for what in missing(path):
            print(f"{path.relative_to(ROOT)}: does not include {what}")
            failures += 1
    print(f"{count} files, {failures} headers missing")
    return 1 if failures or count < 300 else 0


if __name__ == "__main__":
    sys.exit(main())
