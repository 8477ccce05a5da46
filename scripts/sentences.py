#!/usr/bin/env python3
"""Prints real sentences, one a line, out of texts that lie on this machine and whose origin is clear: the documents
of this project, the licence texts of the system, and the language reference that comes with Python. Says on stderr
how many came from where. Texts are taken in that order, and no sentence twice.

    scripts/sentences.py [--count N]
"""

import argparse
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
END = re.compile(r"(?<=[.!?])[\"')”]*\s+(?=[\"'(“]*[A-Z])")  # the end of one sentence and the begin of another
NO_END = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|Inc|No|Dr|Mr|v|[A-Z])\.$")
MARKDOWN = re.compile(r"```.*?```|^\|.*$|^#.*$|[`*_]|\[(?P<text>[^\]]*)\]\([^)]*\)", re.DOTALL | re.MULTILINE)


def texts():
    """(origin, text) of everything that is there."""
    for file in [SOURCE / "README.md", SOURCE / "CONTRIBUTING.md", *sorted((SOURCE / "docs").glob("*.md"))]:
        if file.exists():
            markdown = file.read_text(encoding="utf-8")
            yield "the project's documents", MARKDOWN.sub(lambda match: match["text"] or " ", markdown)
    for file in [SOURCE / "LICENSE", *sorted(pathlib.Path("/usr/share/common-licenses").glob("*"))]:
        if file.is_file() and not file.is_symlink():
            yield "licences", file.read_text(encoding="utf-8", errors="ignore")
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some distributions keep Python's documents apart
        return
    for name in sorted(topics):
        yield "Python's language reference", topics[name]


def sentences(text):
    for paragraph in re.split(r"\n\s*\n|\n\s*(?=[-*•] )", text):
        lines = paragraph.strip("\n").split("\n")
        if any(re.match(r"\s*(>>>|[=*~^\"-]{3,}$|.*::=)", line) for line in lines):
            continue  # code, a grammar, or the line under a heading
        begin = ""
        for part in END.split(" ".join(" ".join(lines).split())):
            part = begin + part
            begin = ""
            if NO_END.search(part):
                begin = part + " "
            elif part.endswith((".", "!", "?")) and is_prose(part):
                yield part


def is_prose(part):
    words = part.split()
    letters = sum(c.isalpha() or c.isspace() for c in part)
    return 5 <= len(words) <= 60 and part[0].isupper() and letters > 0.85 * len(part)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=2000, help="at most so many (default 2000)")
    count = parser.parse_args().count
    seen, counts = set(), {}
    for origin, text in texts():
        for sentence in sentences(text):
            if sentence not in seen and len(seen) < count:
                seen.add(sentence)
                counts[origin] = counts.get(origin, 0) + 1
                print(sentence)
    for origin, number in counts.items():
        print(f"{number:6} sentences from {origin}", file=sys.stderr)


if __name__ == "__main__":
    main()
