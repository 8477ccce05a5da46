"""The weights of the tagger, as `rlx bench` draws them too (tools/bench/cases.cpp): a table of words, an LSTM of one layer in
each direction, with gates i, f, g, o, and a product."""

import numpy as np
from yardstick.suites import EMBEDDING, HIDDEN, TAGS, WORDS


def load():
    random, rows = np.random.default_rng(0), 4 * HIDDEN

    def draw(*shape, scale=1 / 16):
        return random.uniform(-1, 1, shape).astype(np.float32) * np.float32(scale)

    return {"words": draw(WORDS, EMBEDDING, scale=1), "w_ih": draw(2, rows, EMBEDDING), "w_hh": draw(2, rows, HIDDEN),
            "bias": draw(2, rows), "tags": draw(2 * HIDDEN, TAGS), "tag_bias": draw(TAGS)}  # fmt: skip
