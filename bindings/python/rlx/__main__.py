"""`python -m rlx` is the program `rlx`, which the wheel brings beside the library. RLX_PROGRAM names another."""

import os
import sys


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    program = os.environ.get("RLX_PROGRAM") or os.path.join(here, "_lib", "rlx")
    if not os.access(program, os.X_OK):
        sys.exit(f"rlx: there is no program {program}: a wheel brings it, a checkout has it in build/release/bin; RLX_PROGRAM names it")
    os.execv(program, ["rlx", *sys.argv[1:]])


if __name__ == "__main__":
    main()
