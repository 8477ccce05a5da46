"""The workloads, and what each of them must at least compute and move: the counts behind "percent of the machine".

A case is named `<kind>_<shape>`. `rlx bench` knows the same names, shapes and arrays (numpy.random.default_rng(0)).
"""

KERNELS = [
    "gemm_512", "gemm_1024", "gemm_2048", "linear_1x4096x4096", "linear_16x1024x4096", "softmax_4096x1024",
    "layernorm_4096x1024", "ewchain_4096x4096", "sdpa_1x12x512x64", "conv3x3_1x64x56", "conv3x3_1x128x28",
    "conv3x3_1x256x14", "conv3x3_1x512x7", "conv3x3_8x64x56", "dwconv3x3_1x256x56", "sumrow_4096x4096",
    "sumcol_4096x4096",
]  # fmt: skip
SUITES = {
    "kernels": KERNELS,
    "minilm": ["minilm_1x16", "minilm_1x128", "minilm_8x128", "minilm_32x128"],
    "bert": ["bert_1x128"],
    "tagger": ["tagger_8x64"],
    "vision": ["resnet50_1", "resnet50_8", "mobilenetv2_1", "mobilenetv2_8"],
    "start": ["first_1x128", "restart_1x128"],
    "train": ["train_mlp", "train_cnn", "train_encoder"],
}
VISION_FLOPS = {"resnet50": 8_178_368_512, "mobilenetv2": 601_548_544}  # an image; programs/vision_nets.py counts them
ENCODERS = {"minilm": (6, 384, 1536, 12), "bert": (12, 768, 3072, 12)}  # layers, width, inner width, heads
WORDS, EMBEDDING, HIDDEN, TAGS = 20000, 128, 256, 17  # of the tagger


def kind_of(case):
    return case.split("_")[0]


def extents_of(case):
    """ "conv3x3_1x64x56" as [1, 64, 56]"""
    return [int(v) for v in case.split("_")[-1].split("x")]


def flops_of(case):
    """Multiplications and additions of the case's products, 2 each pair; 0 where products are not what it does. Taps of
    a convolution that fall on padding are counted, so that a program which skips them can pass 100 %."""
    kind = kind_of(case)
    if kind == "train":
        return 0
    d = extents_of(case)
    if kind == "gemm":
        return 2 * d[0] ** 3
    if kind == "linear":
        return 2 * d[0] * d[1] * d[2]
    if kind == "sdpa":
        return 4 * d[0] * d[1] * d[2] ** 2 * d[3]
    if kind == "conv3x3":
        return 2 * d[0] * d[1] ** 2 * 9 * d[2] ** 2
    if kind in VISION_FLOPS:
        return d[0] * VISION_FLOPS[kind]
    if kind in ENCODERS:
        layers, width, inner, _ = ENCODERS[kind]
        return d[0] * d[1] * layers * (2 * width * width * 4 + 4 * width * inner + 4 * d[1] * width)
    if kind == "tagger":
        return d[0] * d[1] * 2 * (2 * 4 * HIDDEN * (EMBEDDING + HIDDEN) + 2 * HIDDEN * TAGS)
    return 0


def bytes_of(case):
    """Bytes that have to be read once and written once; 0 where arithmetic bounds the case."""
    kind = kind_of(case)
    if kind == "train":
        return 0
    d = extents_of(case)
    if kind in ("softmax", "layernorm", "ewchain"):
        return 8 * d[0] * d[1]
    if kind in ("sumrow", "sumcol"):
        return 4 * d[0] * d[1]
    if kind == "linear" and d[0] == 1:
        return 4 * d[1] * d[2]
    if kind == "dwconv3x3":
        return 8 * d[0] * d[1] * d[2] ** 2
    return 0


def limit_of(case):
    """Which of the machine's limits bounds the case: "fma", "triad", "read", or "" if no single one does."""
    if kind_of(case) in ("linear", "sumrow", "sumcol") and bytes_of(case):
        return "read"
    if bytes_of(case):
        return "triad"
    return "fma" if flops_of(case) else ""


def arrays_of(case):
    """(what a run is given, what is constant), of a case of the suite `kernels`."""
    import numpy as np

    d, kind, random = extents_of(case), kind_of(case), np.random.default_rng(0)

    def draw(*shape):
        return random.uniform(-1, 1, shape).astype(np.float32)

    if kind == "gemm":
        return [draw(d[0], d[0]), draw(d[0], d[0])], []
    if kind == "linear":
        return [draw(d[0], d[1])], [draw(d[1], d[2])]
    if kind == "layernorm":
        return [draw(*d)], [draw(d[1]), draw(d[1])]
    if kind == "sdpa":
        return [draw(*d), draw(*d), draw(*d)], []
    if kind == "conv3x3":
        return [draw(d[0], d[1], d[2], d[2])], [draw(d[1], d[1], 3, 3)]
    if kind == "dwconv3x3":
        return [draw(d[0], d[1], d[2], d[2])], [draw(d[1], 1, 3, 3)]
    return [draw(*d)], []


def minilm_inputs(case):
    """Token ids, mask, types: what `rlx bench minilm_BxS` and `bert_BxS` take."""
    import numpy as np

    batch, length = extents_of(case)
    ids = (np.arange(batch * length, dtype=np.int64) * 131 % 30000).reshape(batch, length)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


def tagger_inputs(case):
    import numpy as np

    batch, length = extents_of(case)
    return {"ids": (np.arange(batch * length, dtype=np.int64) * 131 % WORDS).reshape(batch, length)}
