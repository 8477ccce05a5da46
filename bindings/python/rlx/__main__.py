"""`python -m rlx` is the program `rlx`, which the wheel brings beside the library. RLX_PROGRAM names another.

    python -m rlx --load my_ops.py ops clip_norm

runs it in this process, with the ops that a file defines by `rlx.custom_op`; libraries (`--load ops.so`) may stand beside it.
"""

import os
import sys


def main():
    words, files = _python_files(sys.argv[1:])
    if files:
        sys.exit(_run_here(files, words))
    here = os.path.dirname(os.path.abspath(__file__))
    program = os.environ.get("RLX_PROGRAM") or os.path.join(here, "_lib", "rlx")
    if not os.access(program, os.X_OK):
        sys.exit(f"rlx: there is no program {program}: a wheel brings it, a checkout has it in build/release/bin; RLX_PROGRAM names it")
    os.execv(program, ["rlx", *sys.argv[1:]])


def _python_files(words):
    """The words without `--load FILE.py` in front of the subcommand, and these files."""
    kept, files, i = [], [], 0
    while i < len(words) and words[i].startswith("-"):
        name, equals, value = words[i].partition("=")
        takes = 1 if name in ("--load", "--npz-limit") and not equals and i + 1 < len(words) else 0
        value = value if equals else words[i + 1] if takes else ""
        if name == "--load" and value.endswith(".py"):
            files.append(value)
        else:
            kept += words[i:i + 1 + takes]
        i += 1 + takes
    return kept + words[i:], files


def _run_here(files, words):
    import ctypes
    import runpy

    import rlx
    from rlx._native import lib

    program = getattr(lib, "rlx_program_main", None)
    if program is None:
        return "rlx: this library was built without the program"
    kept = []
    for file in files:
        try:
            made = runpy.run_path(file, run_name=os.path.splitext(os.path.basename(file))[0])
            ops = [each for each in made.values() if isinstance(each, rlx.CustomOp)]
            for op in ops:
                op.register()
        except Exception as error:  # of the file: its text is a user's
            print(f"rlx: error: {type(error).__name__}: {error}\n  while loading '{file}'", file=sys.stderr)
            return 1
        kept.append(made)
    sys.stdout.flush()
    arguments = [b"rlx", *(os.fsencode(word) for word in words)]
    return program(len(arguments), (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None))


if __name__ == "__main__":
    main()
