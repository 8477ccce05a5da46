"""A corpus of real sentences, 20 questions, and the nearest line to each by PyTorch.

usage: search.py MODEL_DIR [LICENSES_DIR]    (default /usr/share/common-licenses, Debian's package base-files)
writes tests/golden/search/: corpus.txt (one sentence or clause a line), queries.jsonl, versions.json
"""
import hashlib
import json
import pathlib
import re
import sys

import numpy as np
import torch

import recorded
from encoder import Encoder

# Texts that may be copied freely as they are; they are only re-wrapped here, one sentence or clause a line, nothing left out.
TEXTS = ["GPL-1", "GPL-2", "GPL-3", "LGPL-2.1", "LGPL-3", "GFDL-1.3", "Apache-2.0", "MPL-1.1", "MPL-2.0",
         "Artistic", "BSD", "CC0-1.0"]

QUESTIONS = """\
Can I charge money for giving someone a copy of the program?
What happens to my rights if I break the rules of the license?
Is there any guarantee that the software works?
Who pays if the program damages something?
May I put the document's title on the front cover of a printed edition?
What is a transparent copy of a manual?
What does "source code" mean here?
Am I allowed to use the trademarks of the licensor?
Someone sues claiming that the software infringes a patent. What then?
How do I apply these terms to my new library?
Giving up all copyright and dedicating a work to the public domain
Can the license be updated by its publisher in the future?
Tivoization: a device refuses to run modified software
Which country's law governs a dispute?
Do I have to accept the license in order to run the program?
Linking a proprietary application with a free library
Translations of the document into other languages
How long must the source code be offered to people who received only the binary?
Combining several documents into one collection
What must a file that I changed say about the change?
Is software for sale by anonymous FTP considered distribution?
Private use without sharing with others
The moral rights of the author
Must the author be told before a commercial distribution of many copies?
Contributions submitted on purpose are covered by the same terms
No one may be discriminated because of their field of work
""".strip().split("\n")
WANTED, MARGIN = 20, 1e-3  # a question counts only if its best line is clearly the best

# A full stop ends no sentence after these, nor after a section's number.
NO_END = re.compile(r"(?:\b(?:Inc|Ltd|v|vs|e\.g|i\.e|etc|No|Sec|Art|St|U\.S\.C)|(?:^|\s)\(?(?:\d+(?:\.\d+)*|[a-zA-Z]|[ivx]+))\.$")


def sentences_of(text):
    for paragraph in re.split(r"\n\s*\n|\f", text):
        words, start = paragraph.split(), 0
        for at, word in enumerate(words):
            ends = re.search(r"[.!?:;][\"')\]]*$", word) and not NO_END.search(" ".join(words[start : at + 1]))
            if at + 1 == len(words) or word.endswith(";") or (ends and re.match(r"[\"'(\[`]*[A-Z0-9]", words[at + 1])):
                yield " ".join(words[start : at + 1])
                start = at + 1


def main(model, licenses="/usr/share/common-licenses"):
    corpus, origin = [], {}
    for name in TEXTS:
        text = (pathlib.Path(licenses) / name).read_text(encoding="utf-8")
        lines = list(sentences_of(text))
        assert " ".join(lines).split() == text.split(), name  # every word, in order
        origin[name] = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "lines": [len(corpus), len(corpus) + len(lines)]}
        corpus += lines
    print(len(corpus), "sentences,", len(set(corpus)), "distinct")

    encoder, judge = Encoder(model), Encoder(model, torch.float64)
    scores = encoder.embed(QUESTIONS) @ encoder.embed(corpus).T
    precise = judge.embed(QUESTIONS) @ judge.embed(corpus).T
    kept = []
    for question, row, check in zip(QUESTIONS, scores, precise):
        second, first = np.argsort(row, kind="stable")[-2:]
        margin = float(row[first] - row[second])
        assert first == np.argmax(check) or margin < 1e-6  # equal sentences occur in several texts
        print(f"{'  ' if margin > MARGIN else '- '}{row[first]:.3f} +{margin:.4f} {question} -> {corpus[first]}")
        if margin > MARGIN:
            kept.append({"query": question, "line": int(first), "score": round(float(row[first]), 6), "text": corpus[first],
                         "runner_up": {"line": int(second), "score": round(float(row[second]), 6)}})
    assert len(kept) >= WANTED and len(corpus) >= 1000 and np.abs(scores - precise).max() < 1e-6

    out = recorded.folder("search")
    (out / "corpus.txt").write_text("".join(line + "\n" for line in corpus), encoding="utf-8", newline="\n")
    (out / "queries.jsonl").write_text("".join(json.dumps(q, ensure_ascii=False) + "\n" for q in kept[:WANTED]), encoding="utf-8")
    recorded.write_versions(out, "search.py", ["torch", "numpy", "tokenizers", "safetensors"], corpus=origin, sentences=len(corpus),
                            smallest_margin=round(min(q["score"] - q["runner_up"]["score"] for q in kept[:WANTED]), 6))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
