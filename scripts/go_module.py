#!/usr/bin/env python3
"""Serves the Go modules of bindings/go as a proxy of files, as the proxies of the internet serve theirs, and gets them.

A new module (`go mod init`, `go get`) then builds and runs the program of docs/go.md, and one that imports the backend of
GoMLX builds. What the modules require comes from the module cache: nothing is fetched. RLX_LIBRARY names the library.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERSION = "v" + re.search(r"project\(.*?VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text(), re.S).group(1)
MODULES = {"rlx.invalid/go": ROOT / "bindings/go", "rlx.invalid/go/gomlx": ROOT / "bindings/go/gomlx"}
BACKEND = """package main

import (
	"fmt"

	"github.com/gomlx/compute"
	_ "rlx.invalid/go/gomlx"
)

func main() {
	backend, err := compute.NewWithConfig("rlx")
	if err != nil {
		panic(err)
	}
	fmt.Println(backend)
}
"""


def serve(proxy, module, folder):
    """Puts one module below `proxy`, in the layout of https://go.dev/ref/mod#goproxy-protocol."""
    place = proxy / module / "@v"
    place.mkdir(parents=True)
    (place / "list").write_text(VERSION + "\n")
    (place / f"{VERSION}.info").write_text(json.dumps({"Version": VERSION, "Time": "2026-01-01T00:00:00Z"}))
    (place / f"{VERSION}.mod").write_bytes((folder / "go.mod").read_bytes())
    nested = [file.parent for file in folder.glob("*/**/go.mod")]
    with zipfile.ZipFile(place / f"{VERSION}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and not any(parent in nested for parent in file.parents):
                archive.write(file, f"{module}@{VERSION}/{file.relative_to(folder).as_posix()}")


def main():
    text = (ROOT / "docs/go.md").read_text()
    program, output = re.search(r"```go\n(package main\n.*?)```.*?```\n(.*?)```", text, re.S).groups()
    known = subprocess.run(["go", "env", "GOMODCACHE"], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        for module, folder in MODULES.items():
            serve(scratch / "proxy", module, folder)
        environment = dict(os.environ, GOPROXY=f"file://{scratch}/proxy,file://{known}/cache/download", GOSUMDB="off",
                           GOMODCACHE=str(scratch / "cache"), GOFLAGS="-modcacherw", GOWORK="off", CGO_ENABLED="0")

        def go(folder, *arguments):
            done = subprocess.run(["go", *arguments], cwd=folder, env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode:
                sys.exit(f"go {' '.join(arguments)} in a new module:\n{done.stdout}")
            return done.stdout

        for name, module, source, wanted in (("first", "rlx.invalid/go", program, output),
                                             ("learner", "rlx.invalid/go/gomlx", BACKEND, "rlx:cpu\n")):
            folder = scratch / name
            folder.mkdir()
            (folder / "main.go").write_text(source)
            go(folder, "mod", "init", f"example.org/{name}")
            go(folder, "get", f"{module}@{VERSION}")
            go(folder, "mod", "tidy")
            go(folder, "build", "-o", "program", ".")
            printed = subprocess.run([folder / "program"], env=environment, text=True, check=True,
                                     stdout=subprocess.PIPE).stdout
            if printed != wanted:
                sys.exit(f"the program printed {printed!r}, docs/go.md says {wanted!r}")
            print(f"go get {module}@{VERSION}: built and run")


main()
