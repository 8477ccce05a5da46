#!/usr/bin/env python3
"""Collects the licences of the libraries of others that a package of RLX carries, lists them in an SBOM, and checks both.

    scripts/third_party.py collect PARTS --root FOLDER --licences FOLDER/licences --sbom FOLDER/rlx.cdx.json ...
    scripts/third_party.py check PACKAGE        # an unpacked wheel or an installation: everything in it is listed and has its licence

PARTS is a table that CMake writes (cmake/third_party.cmake): one part a line, three columns with tabs between them.

    carried  /usr/lib/libz.so.1   rlx/_lib/librlx_z.so.1   a library that lies in the package, and where it came from
    header   /usr/include/zip.h   rlx/_lib/librlx_c.so     a header whose code was compiled into a file of the package
    crate    vendor/memchr-2.8.3  rlx/_lib/librlx_c.so     a Rust crate, by the folder of its sources
    rust     sysroot of rustc     rlx/_lib/librlx_c.so     Rust's standard library

Version, licence and texts come from whatever installed the part here: Debian's dpkg, pip, cargo, rustup or Homebrew. The SBOM is
CycloneDX 1.6. Its times and serial number are left out: what is the same gives the same file.
"""

import argparse
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

# What Debian's packages are licensed under, as SPDX writes it; their own files say it in words. By source package, without the
# digits that are a version, or by binary package where that differs. What is missing here is an error: somebody has to read it.
LICENCE_OF = {
    "bzip2": "bzip2-1.0.6",
    "cli11": "BSD-3-Clause",
    "eigen": "MPL-2.0",  # EIGEN_MPL2_ONLY refuses the files under the LGPL
    "gcc": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "highway": "Apache-2.0",
    "libquadmath": "LGPL-2.1-or-later",
    "libzip": "BSD-3-Clause",
    "nlohmann-json": "MIT",
    "onednn-cpu-gomp": "Apache-2.0",
    "openblas": "BSD-3-Clause",
    "openssl": "Apache-2.0",
    "pcre": "BSD-3-Clause",
    "rust": "MIT OR Apache-2.0",
    "tomlplusplus": "MIT",
    "utf8proc": "MIT AND Unicode-DFS-2015",
    "zlib": "Zlib",
}
# The crates that Rust's standard library was compiled with. rustup says their versions nowhere but in the code itself.
STANDARD_CRATES = {
    "addr2line": "Apache-2.0 OR MIT",
    "adler2": "0BSD OR MIT OR Apache-2.0",
    "gimli": "MIT OR Apache-2.0",
    "hashbrown": "MIT OR Apache-2.0",
    "memchr": "Unlicense OR MIT",
    "miniz_oxide": "MIT OR Zlib OR Apache-2.0",
    "object": "Apache-2.0 OR MIT",
    "rustc-demangle": "MIT OR Apache-2.0",
}
TEXT_NAMES = re.compile(r"^(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|UNLICENSE|THIRD-PARTY)", re.IGNORECASE)
COMMON = "/usr/share/common-licenses/"
# A licence is at least this long: the shortest one, Zlib's, has some 800 characters.
LEAST_TEXT = 400
problems = []


def output_of(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def field_of(text, name):
    found = re.search(rf'^{name}\s*[:=]\s*"?([^"\n]*)', text, flags=re.MULTILINE)
    return found.group(1).strip() if found else ""


def licence_of(*names):
    for name in names:
        if name in LICENCE_OF:
            return LICENCE_OF[name]
        if (stem := re.sub(r"[-.\d]+(t64)?$", "", name)) in LICENCE_OF:
            return LICENCE_OF[stem]
    return ""


class Package:
    """Something of others: `texts` are the files that say its licence, `folder` is where they go, shared by packages of one source."""

    def __init__(self, name, version, purl, licence, folder, texts):
        self.name, self.version, self.purl, self.licence, self.folder, self.texts = name, version, purl, licence, folder, texts
        self.places, self.carried = set(), set()


def debian(path):
    if not shutil.which("dpkg-query"):
        return None
    # dpkg knows a file by the name that it was packed under: with or without /usr, which are one folder today.
    names = {str(path), re.sub(r"^/usr(?=/lib)", "", str(path)), re.sub(r"^(?=/lib)", "/usr", str(path))}
    owner = next((out for name in sorted(names) if (out := output_of("dpkg-query", "-S", name))), "").split(": ")[0].split(",")[0]
    if not owner:
        return None
    source, version, arch = output_of("dpkg-query", "-W", "-f", "${source:Package}\t${Version}\t${Architecture}", owner).split("\t")
    binary = owner.split(":")[0]
    distribution = field_of(pathlib.Path("/etc/os-release").read_text(), "ID") or "debian"
    text = pathlib.Path("/usr/share/doc", binary, "copyright")
    return Package(binary, version, f"pkg:deb/{distribution}/{binary}@{urllib.parse.quote(version)}?arch={arch}", licence_of(re.sub(r"\d+$", "", binary), source),
                   source, [text] if text.is_file() else [])


def from_pip(path):
    for above in path.parents:
        for record in sorted(above.glob("lib/python3*/site-packages/*.dist-info/RECORD")) + sorted(above.glob("*.dist-info/RECORD")):
            packages = record.parents[1]
            files = [line.split(",")[0] for line in record.read_text().splitlines()]
            if any(f.endswith("/" + path.name) and (packages / f).resolve() == path for f in files):
                about = (record.parent / "METADATA").read_text()
                name, version = field_of(about, "Name"), field_of(about, "Version")
                texts = [packages / f for f in files if TEXT_NAMES.match(pathlib.PurePath(f).name)]
                return Package(name, version, f"pkg:pypi/{name}@{version}", licence_of(name) or field_of(about, "License-Expression"), name,
                               [t for t in texts if t.is_file()])
    return None


def homebrew(path):
    keg = re.match(r"(.*/Cellar/([^/]+)/([^/]+))/", str(path))
    if not keg:
        return None
    name, version = keg.group(2), keg.group(3)
    return Package(name, version, f"pkg:brew/{name}@{version}", licence_of(name), name, texts_in(pathlib.Path(keg.group(1))))


def texts_in(folder):
    return sorted(p for p in folder.iterdir() if p.is_file() and TEXT_NAMES.match(p.name))


def crate(folder):
    about = (folder / "Cargo.toml").read_text()
    name, version = field_of(about, "name"), field_of(about, "version")
    return Package(name, version, f"pkg:cargo/{name}@{version}", field_of(about, "license"), folder.name, texts_in(folder))


def rust(sysroot):
    library = next(iter(sorted(sysroot.glob("lib/rustlib/*/lib/libstd-*.rlib"))), None)
    if library and (package := debian(library.resolve())):
        package.licence = LICENCE_OF["rust"]
        return package
    documents = sysroot / "share/doc/rust"
    texts = [p for p in (documents / "COPYRIGHT-library.html",) if p.is_file()] + sorted((documents / "licenses").glob("*"))
    version = re.search(r"\d+\.\d+\.\d+", output_of(sysroot / "bin/rustc", "--version"))
    version = version.group() if version else ""
    return Package("rust-std", version, f"pkg:generic/rust-std@{version}", LICENCE_OF["rust"], "rust-std", texts)


def crates_named_in(library):
    """The crates whose messages of panics name their sources: name-version."""
    return {m.decode() for m in re.findall(rb"(?<=/)[a-z][a-z0-9_-]*-\d+\.\d+\.\d+(?=/src/[a-z0-9_/]*\.rs)", library.read_bytes())}


def find_packages(parts, root):
    packages = {}

    def add(package, place):
        known = packages.setdefault(package.purl, package)
        known.places.add(place)
        return known

    for line in dict.fromkeys(parts.read_text().splitlines()):
        kind, path, place = line.split("\t")
        path = pathlib.Path(path).resolve()
        if kind in ("carried", "header"):
            package = debian(path) or from_pip(path) or homebrew(path)
        else:
            package = {"crate": crate, "rust": rust}[kind](path)
        if package:
            add(package, place)
        else:
            problems.append(f"{path}, in {place}: neither dpkg nor pip nor Homebrew installed it, so that its licence is unknown")
    standard = [p for p in packages.values() if "rust" in p.name]
    for place in sorted({place for package in standard for place in package.places}):
        for name, version in (each.rsplit("-", 1) for each in sorted(crates_named_in(root / place))):
            if f"pkg:cargo/{name}@{version}" not in packages:
                add(Package(name, version, f"pkg:cargo/{name}@{version}", STANDARD_CRATES.get(name, ""), standard[0].folder,
                            standard[0].texts), place)
    return sorted(packages.values(), key=lambda p: p.purl)


def copy_texts(package, licences):
    folder = licences / package.folder
    folder.mkdir(parents=True, exist_ok=True)
    for text in package.texts:
        shutil.copyfile(text, folder / text.name)
        # Debian's texts name the common licences instead of repeating them; elsewhere that file does not exist.
        for name in named_common(text):
            if pathlib.Path(COMMON, name).is_file():
                (licences / "common-licenses").mkdir(exist_ok=True)
                shutil.copyfile(pathlib.Path(COMMON, name), licences / "common-licenses" / name)


def named_common(text):
    named = re.findall(re.escape(COMMON) + r"([A-Za-z0-9.-]*[A-Za-z0-9])", text.read_text(errors="replace"))
    return sorted(set(named))


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def component(package, root, licences):
    found = {"type": "library", "bom-ref": package.purl, "name": package.name, "version": package.version, "purl": package.purl}
    if package.licence:
        found["licenses"] = [{"expression": package.licence}]
    found["evidence"] = {"occurrences": [{"location": place} for place in sorted(package.places)]}
    found["externalReferences"] = [{"type": "license", "url": f"{licences.name}/{package.folder}/{t.name}"} for t in package.texts]
    # A file that is this library alone can be told by its sum; code within ours cannot.
    own = [p for p in sorted(package.places) if package.carried and p in package.carried]
    if len(own) == 1:
        found["hashes"] = [{"alg": "SHA-256", "content": sha256(root / own[0])}]
    return found


def collect(given):
    shutil.rmtree(given.licences, ignore_errors=True)
    packages = find_packages(given.parts, given.root)
    carried = {line.split("\t")[2] for line in given.parts.read_text().splitlines() if line.startswith("carried\t")}
    for package in packages:
        package.carried = carried
        copy_texts(package, given.licences)
        if not package.licence:
            problems.append(f"{package.purl}: what it is licensed under is not known; read its texts and name it in LICENCE_OF or STANDARD_CRATES")
        if not package.version or not package.texts:
            problems.append(f"{package.purl}: it has no {'version' if not package.version else 'text of a licence'} here")
    about = {"type": "library", "bom-ref": "rlx", "name": "rlx", "version": given.version, "licenses": [{"expression": "Apache-2.0"}]}
    bom = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": about},
           "components": [component(p, given.root, given.licences) for p in packages],
           "dependencies": [{"ref": "rlx", "dependsOn": [p.purl for p in packages]}]}
    given.sbom.parent.mkdir(parents=True, exist_ok=True)
    given.sbom.write_text(json.dumps(bom, indent=1, ensure_ascii=False) + "\n")


def check(package):
    """What is wrong with the notices of an unpacked wheel or an installation, in sentences: the files beside the SBOM."""
    information = next(iter(package.glob("rlx-*.dist-info")), None)
    if information:
        sbom, texts_from, folder, own = information / "sboms/rlx.cdx.json", information / "licenses", "rlx/_lib", {"librlx_c.so", "rlx"}
    else:
        texts_from, own = package / "share/licenses/rlx", set()
        sbom, folder = texts_from / "rlx.cdx.json", next((p.relative_to(package).as_posix() for p in package.glob("lib*/**/rlx") if list(p.glob("lib*.so*"))), "")
    if not sbom.is_file():
        return [f"there is no {sbom}"]
    components = json.loads(sbom.read_text())["components"]
    wrong = []
    for file in sorted((package / folder).iterdir()) if folder else []:
        place = file.relative_to(package).as_posix()
        here = [c for c in components if any(o["location"] == place for o in c["evidence"]["occurrences"])]
        # What we compiled ourselves has no sum in the list, and crates are looked for in it below.
        is_ours = file.name in own or file.name.startswith("librlx_") and not information
        if not is_ours and not here:
            wrong.append(f"{place} is carried, and the SBOM does not list it")
        sums = {h["content"] for c in here for h in c.get("hashes", [])}
        if not is_ours and here and sums != {sha256(file)}:
            wrong.append(f"{place} is another file than the one that the SBOM describes")
    listed = {f"{c['name']}-{c['version']}" for c in components}
    for library in {p.resolve() for p in package.rglob("librlx*.so*") if p.name.startswith(("librlx.so", "librlx_c.so"))}:
        wrong += [f"{library.name} has code of {each}, and the SBOM does not list it" for each in sorted(crates_named_in(library) - listed)]
    for each in components:
        what = f"{each['name']} {each['version']}"
        if not each["version"] or not each.get("licenses"):
            wrong.append(f"{what} has no version or no licence in the SBOM")
        texts = [texts_from / r["url"] for r in each["externalReferences"] if r["type"] == "license"]
        missing = [t for t in texts if not t.is_file()]
        length = sum(len(t.read_text(errors="replace").strip()) for t in texts if t.is_file())
        if missing or length < LEAST_TEXT:
            wrong.append(f"{what} has no licence text in the package: {[t.name for t in missing]} missing, {length} characters there")
        for text in (t for t in texts if t.is_file()):
            wrong += [f"the text of {what} refers to {COMMON}{name}, which the package has not"
                      for name in named_common(text) if not (text.parents[1] / "common-licenses" / name).is_file()]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("parts", type=pathlib.Path)
    for name in ("--root", "--licences", "--sbom"):
        collecting.add_argument(name, type=pathlib.Path, required=True)
    collecting.add_argument("--version", required=True)
    commands.add_parser("check").add_argument("package", type=pathlib.Path)
    given = parser.parse_args()
    if given.command == "collect":
        collect(given)
        wrong = problems
    else:
        wrong = check(given.package)
    print(*wrong, sep="\n", file=sys.stderr)
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
