#!/usr/bin/env python3
"""How many bytes of thread-local variables a shared library has, which src/base/static_tls.h limits.

    tests/api/thread_local_bytes.py LIBRARY [READELF]
"""

import subprocess
import sys

MOST = 400  # of some 1,600 that glibc keeps for all libraries that are loaded late


def main():
    library, readelf = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "readelf"
    lines = subprocess.run([readelf, "-lW", library], capture_output=True, text=True, check=True).stdout.splitlines()
    [tls] = [line.split() for line in lines if line.split()[:1] == ["TLS"]]
    size = int(tls[5], 16)  # in memory
    print(f"{library} has {size} bytes of thread-local variables; {MOST} are allowed")
    return size > MOST


sys.exit(main())
