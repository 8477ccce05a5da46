"""The 5,000 lines that tokenizer.py encodes: real sentences of many scripts, then what text does when nobody looks.

A line never contains a line separator of any convention (what str.splitlines splits at), so that every reader
agrees on where it ends; those characters are covered one by one in codepoints.txt.
"""
import random
import unicodedata

import sentences

ZERO_WIDTH = ["\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u200e", "\u200f", "\u202a", "\u202e", "\u202c",
              "\u2066", "\u2069", "\u061c", "\u180e", "\u034f", "\u2061", "\u2063"]
SPACES = [" ", "  ", "\t", "\u00a0", "\u1680", "\u2000", "\u2003", "\u2007", "\u2009", "\u200a", "\u202f", "\u205f", "\u3000"]
CONTROLS = [chr(c) for c in range(0x20) if chr(c) not in "\n\r\x0b\x0c\x1c\x1d\x1e"] + [
    chr(c) for c in range(0x7F, 0xA0) if c != 0x85] + ["\ufffd", "\ufffe", "\uffff", "\ue000", "\uf8ff", "\U000f0000", "\U0010ffff"]
MARKS = [chr(c) for c in range(0x300, 0x370)] + list("\u0483\u0591\u05b0\u05bc\u064b\u0651\u0670\u06dc\u093c\u094d\u0e31\u0eb1"
                                                     "\u0f71\u1ab0\u1dc0\u20d0\u20dd\u302a\u3099\u309a\ufe20\U0001d165\U0001e8d0")
SPECIAL = ["[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]"]
NEARLY_SPECIAL = ["[mask]", "[Mask]", "[MASK ]", "[ MASK]", "[MASK", "MASK]", "[[MASK]]", "[unused0]", "[unused99]", "[CLS][SEP]",
                  "[MASK][MASK]", "##ing", "## ing", "##", "[MA\u200bSK]", "[ＭＡＳＫ]", "<s>", "</s>", "<mask>", "[U N K]"]

# (first, last) of blocks whose characters are worth mixing; small ones in full, large ones sampled.
BLOCKS = [(0x21, 0x7E), (0xA0, 0xFF), (0x100, 0x17F), (0x180, 0x24F), (0x250, 0x2AF), (0x2B0, 0x2FF), (0x370, 0x3FF), (0x400, 0x4FF),
          (0x500, 0x52F), (0x530, 0x58F), (0x590, 0x5FF), (0x600, 0x6FF), (0x700, 0x74F), (0x780, 0x7BF), (0x7C0, 0x7FF), (0x900, 0x97F),
          (0x980, 0x9FF), (0xA00, 0xA7F), (0xB80, 0xBFF), (0xC00, 0xC7F), (0xE00, 0xE7F), (0xF00, 0xFFF), (0x1000, 0x109F),
          (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137F), (0x13A0, 0x13FF), (0x1400, 0x167F), (0x16A0, 0x16FF), (0x1780, 0x17FF),
          (0x1800, 0x18AF), (0x1C80, 0x1CBF), (0x1D00, 0x1DBF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x209F),
          (0x20A0, 0x20CF), (0x2100, 0x214F), (0x2150, 0x218F), (0x2190, 0x21FF), (0x2200, 0x22FF), (0x2300, 0x23FF), (0x2460, 0x24FF),
          (0x2500, 0x25FF), (0x2600, 0x27BF), (0x2800, 0x28FF), (0x2C00, 0x2C5F), (0x2C60, 0x2C7F), (0x2D00, 0x2D2F), (0x2E00, 0x2E7F),
          (0x2E80, 0x2FDF), (0x3000, 0x303F), (0x3040, 0x309F), (0x30A0, 0x30FF), (0x3100, 0x312F), (0x3130, 0x318F), (0x3200, 0x33FF),
          (0x3400, 0x4DBF), (0x4DC0, 0x4DFF), (0x4E00, 0x9FFF), (0xA000, 0xA4CF), (0xA640, 0xA69F), (0xA720, 0xA7FF), (0xAB30, 0xAB6F),
          (0xAB70, 0xABBF), (0xAC00, 0xD7AF), (0xE000, 0xF8FF), (0xF900, 0xFAFF), (0xFB00, 0xFB4F), (0xFB50, 0xFDFF), (0xFE10, 0xFE6F),
          (0xFE70, 0xFEFF), (0xFF00, 0xFFEF), (0x10000, 0x100FF), (0x10300, 0x1034F), (0x10400, 0x1044F), (0x104B0, 0x104FF),
          (0x10C80, 0x10CFF), (0x118A0, 0x118FF), (0x12000, 0x123FF), (0x13000, 0x1342F), (0x16E40, 0x16E9F), (0x1D100, 0x1D1FF),
          (0x1D400, 0x1D7FF), (0x1E900, 0x1E95F), (0x1F000, 0x1F0FF), (0x1F100, 0x1F2FF), (0x1F300, 0x1F64F), (0x1F680, 0x1F6FF),
          (0x1F900, 0x1F9FF), (0x1FA70, 0x1FAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
          (0x2CEB0, 0x2EBEF), (0x2F800, 0x2FA1F), (0x30000, 0x3134F), (0xE0000, 0xE007F), (0xE0100, 0xE01EF), (0xF0000, 0xF00FF)]


def sponge(text):
    return "".join(c.upper() if i % 2 else c.lower() for i, c in enumerate(text))


RECASED = [str.upper, str.lower, str.title, str.swapcase, sponge] + [
    lambda s, form=form: unicodedata.normalize(form, s) for form in ("NFC", "NFD", "NFKC", "NFKD")]


class Maker:
    def __init__(self, vocabulary):
        self.rng = random.Random(20240229)
        self.sentences = [s for _, s in sentences.every_sentence()]
        self.pieces = [p for p in vocabulary if not p.startswith("[")]

    def sentence(self):
        return self.rng.choice(self.sentences)

    def sprinkle(self, text, what, times):
        """`text` with `times` draws of `what` put in at random places, between any two code points."""
        for _ in range(times):
            at = self.rng.randrange(len(text) + 1)
            text = text[:at] + self.rng.choice(what) + text[at:]
        return text

    def recased(self):
        text = self.sentence()
        for change in self.rng.sample(RECASED, self.rng.randrange(1, 4)):
            text = change(text)
        return text

    def two_sentences(self):
        return self.sentence() + self.rng.choice([" ", "", "\t", " — ", "\u3000"]) + self.sentence()

    def word_shuffle(self):
        words = (self.sentence() + " " + self.sentence()).split()
        self.rng.shuffle(words)
        return self.rng.choice([" ", "-", "_", "", "/", ". "]).join(words[: self.rng.randrange(1, 14)])

    def technical(self):
        source = self.rng.choice([sentences.CODE, sentences.ADDRESSES, sentences.NUMBERS, sentences.PUNCTUATION])
        text = self.rng.choice(source)
        return self.rng.choice([text, text + " " + self.rng.choice(source), self.sentence() + " " + text, text.upper(), text[::-1]])

    def number(self):
        r = self.rng
        digits = str(r.randrange(10 ** r.randrange(1, 25)))
        return r.choice(["{}", "-{}", "{}.{:03d}", "${}", "{}%", "0x{:x}", "{:,}", "{}e-{}", "v{}.{}-rc", "{}th", "№{}", "{}×{}", "{}-{}-{}"]).format(
            *([int(digits)] + [r.randrange(100) for _ in range(3)]))

    def emoji(self):
        some = [self.rng.choice(sentences.EMOJI) for _ in range(self.rng.randrange(1, 6))]
        return self.rng.choice(["", " "]).join(some) if self.rng.random() < 0.4 else self.sprinkle(self.sentence(), some, 3)

    def special_tokens(self):
        return self.sprinkle(self.sentence(), SPECIAL + NEARLY_SPECIAL, self.rng.randrange(1, 5))

    def invisible(self):
        return self.sprinkle(self.sentence(), ZERO_WIDTH, self.rng.randrange(1, 8))

    def controls(self):
        return self.sprinkle(self.sentence(), CONTROLS, self.rng.randrange(1, 8))

    def spaces(self):
        return self.sprinkle(self.sentence(), SPACES, self.rng.randrange(1, 8))

    def marks(self):
        return self.sprinkle(self.sentence(), MARKS, self.rng.randrange(1, 12))

    def vocabulary_salad(self):
        """Pieces of the vocabulary run together: the longest match has to be found again, or a word is unknown."""
        words = []
        for _ in range(self.rng.randrange(1, 9)):
            words.append("".join(self.rng.choice(self.pieces).removeprefix("##") for _ in range(self.rng.randrange(1, 5))))
        return " ".join(words)

    def wide_salad(self):
        """Pieces that are not plain ASCII, among which the vocabulary is thin."""
        wide = [p.removeprefix("##") for p in self.pieces if not p.isascii()]
        return " ".join("".join(self.rng.choice(wide) for _ in range(self.rng.randrange(1, 4))) for _ in range(self.rng.randrange(1, 8)))

    def random_characters(self):
        first, last = self.rng.choice(BLOCKS)
        text = "".join(chr(self.rng.randint(first, last)) for _ in range(self.rng.randrange(1, 16)))
        return self.sprinkle(text, [" ", "a", "Z", "é", "ing"], self.rng.randrange(4))

    def between_letters(self):
        """`axb` for characters x of many blocks: shows whether x stays, goes, splits the word or stands alone."""
        blocks = [self.rng.choice(BLOCKS) for _ in range(12)]
        return " ".join("a" + chr(self.rng.randint(*b)) + "b" for b in blocks)

    def unassigned(self):
        holes = [0x378, 0x530, 0x557, 0x5C8, 0x70E, 0x9A9, 0xFFE7, 0x1FFF, 0x2FE0, 0x10200, 0x11F00, 0x1F8FF, 0x2FFFE, 0x40000, 0xDFFFF, 0x1FFFE]
        return self.sprinkle(self.sentence(), [chr(c) for c in holes], self.rng.randrange(1, 5))

    def long_word(self):
        """Around 100 characters, where a word becomes [UNK] whole; in characters, not in bytes."""
        unit = self.rng.choice(["a", "é", "е", "字", "ab", "ing", "ß", "ﬁ", "한", "e\u0301", "😀", "-", "x\u200b", "İ"])
        size = self.rng.choice([49, 50, 51, 98, 99, 100, 101, 102, 199, 200, 201, 300])
        return self.rng.choice(["", "start "]) + (unit * size)[:size] + self.rng.choice(["", " end", ".", "!?"])

    def long_line(self):
        """From just below the 256 tokens where `rlx embed` cuts to far beyond the 512 positions of the model."""
        text, size = "", self.rng.choice([900, 1100, 1200, 1300, 1400, 1500, 2400, 3200, 6000])
        while len(text) < size:
            text += self.sentence() + " "
        return text.strip()


def is_one_line(text):
    return len(text.splitlines()) <= 1 and text == "".join(text.splitlines())


RECIPE = [("recased", 730), ("two_sentences", 250), ("word_shuffle", 350), ("technical", 300), ("number", 200), ("emoji", 250),
          ("special_tokens", 250), ("invisible", 250), ("controls", 250), ("spaces", 200), ("marks", 250), ("vocabulary_salad", 500),
          ("wide_salad", 150), ("random_characters", 300), ("between_letters", 200), ("unassigned", 60), ("long_word", 80), ("long_line", 60)]


def make(vocabulary, count=5000):
    maker = Maker(vocabulary)
    lines = list(maker.sentences) + sentences.EMOJI + sentences.CODE + sentences.ADDRESSES + sentences.NUMBERS + sentences.PUNCTUATION
    lines += SPECIAL + NEARLY_SPECIAL + list(dict.fromkeys(SPACES)) + ["\t \t", "a\t", "\ta", " a ", "\u200b", "\ufeff", "\ufffd", "\x00", "a\x00b"]
    # The lengths at which truncation to 256 begins: "a" is one token, and [CLS] and [SEP] are two.
    lines += [" ".join(["a"] * n) for n in (253, 254, 255, 256, 510, 511, 2000)]
    seen = set(lines)
    for kind, wanted in RECIPE:
        made = 0
        while made < wanted:
            text = getattr(maker, kind)()
            if is_one_line(text) and text not in seen:
                seen.add(text)
                lines.append(text)
                made += 1
    empty = count - len(lines)
    assert 10 <= empty <= 60, empty
    for _ in range(empty):
        lines.insert(maker.rng.randrange(1, len(lines)), "")
    assert len(lines) == count and all(map(is_one_line, lines)) and lines[-1]
    return lines
