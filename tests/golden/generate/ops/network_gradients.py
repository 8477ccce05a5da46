"""Derivatives of norms, attention, rotary positions, losses and activations, by PyTorch, and the backward kinds of these,
whose results are the same cotangents."""
import optax
import torch
import torch.nn.functional as F

from .derivative import *


def with_kind(f, case, op, backward, operands, results, inputs, function, source, **attributes):
    """The derivative of `op`, and its backward kind: which inputs (and "ct") it takes, which gradients it gives."""
    outputs, cotangents, gradients = by_torch(case, function, [np.asarray(x) for x in inputs])
    f.add("d_" + case, op, inputs, outputs, source, cotangents, gradients, **attributes)
    f.add(f"{backward}_{case}", backward, [cotangents[0] if o == "ct" else inputs[o] for o in operands], [gradients[r] for r in results], source, **attributes)


def rms(x, gamma=1.0, beta=0.0, epsilon=1e-6, axis=-1):
    axes = tuple(range(axis % x.ndim, x.ndim))
    return x * torch.rsqrt((x * x).mean(axes, keepdim=True) + epsilon) * gamma + beta


def layer(x, gamma=None, beta=None, epsilon=1e-5, axis=-1):
    return F.layer_norm(x, x.shape[axis:], gamma, beta, epsilon)


def norms(f):
    for op, function in (("layer_norm", layer), ("rms_norm", rms)):
        kind, source = op + "_backward", "torch autograd in f64"
        for name, dims, dtype, epsilon, offset, axis in (
                ("matrix", (5, 16), f64, 1e-5, 0, -1), ("rank3", (2, 3, 8), f64, 1e-12, 0, -1), ("vector", (9,), f64, 1e-5, 0, 0), ("wide", (2, 384), f32, 1e-12, 0, -1),
                ("odd", (3, 37), f32, 1e-5, 0, -1), ("many_rows", (130, 20), f32, 1e-5, 1, -1), ("trailing2", (3, 6, 4), f64, 1e-5, 0, 1),
                ("everything", (3, 2, 4), f32, 1e-3, 1, 0), ("f16", (3, 50), f16, 1e-5, 0, -1), ("bf16", (3, 50), bf16, 1e-5, 0, -1)):
            x = (normal("d" + op + name, dims, f64) + offset).astype(dtype)
            inner = dims[axis:]
            gamma, beta = (1 + normal("d" + name + "gamma", inner, f64, 0.3)).astype(dtype), normal("d" + name + "beta", inner, dtype)
            with_kind(f, f"{op}_{name}", op, kind, [0, 1, "ct"], [0, 1, 2], [x, gamma, beta], lambda x, g, b: function(x, g, b, epsilon, axis), source, axis=axis,
                      epsilon=epsilon)
        x, gamma = normal("d" + op + "bare", (3, 10)), normal("d" + op + "bare_gamma", (10,))
        with_kind(f, f"{op}_bare", op, kind, [0, "ct"], [0], [x], lambda x: function(x, epsilon=1e-5), source, epsilon=1e-5, has_gamma=False, has_beta=False)
        with_kind(f, f"{op}_gamma", op, kind, [0, 1, "ct"], [0, 1], [x, gamma], lambda x, g: function(x, g, epsilon=1e-5), source, epsilon=1e-5, has_beta=False)
    for dims, groups, dtype in (((2, 6, 3, 4), 3, f64), ((1, 8, 5, 5), 1, f32), ((3, 4, 2, 2), 4, f32), ((2, 6, 7), 2, f32), ((1, 4, 2, 3, 2), 2, f64)):
        name = f"group_norm_{'x'.join(map(str, dims))}_{groups}"
        x, g, b = normal("d" + name, dims, dtype), normal("d" + name + "g", dims[1:2], dtype), normal("d" + name + "b", dims[1:2], dtype)
        with_kind(f, name, "group_norm", "group_norm_backward", [0, 1, "ct"], [0, 1, 2], [x, g, b], lambda x, g, b: F.group_norm(x, groups, g, b, 1e-5),
                  "torch autograd of group_norm in f64", num_groups=groups, epsilon=1e-5)
    x, g, b = normal("dimage", (2, 5, 3, 4)), normal("dimage_g", (5,)), normal("dimage_b", (5,))
    f.add_derivative("d_instance_norm", "instance_norm", [x, g, b], by_torch, lambda x, g, b: F.instance_norm(x, None, None, g, b, eps=1e-5),
                     "torch autograd of instance_norm in f64", epsilon=1e-5)
    f.add_derivative("d_layer_norm_2d", "layer_norm_2d", [x, g, b], by_torch, lambda x, g, b: layer(x.movedim(1, -1), g, b, 1e-6).movedim(-1, 1),
                     "torch autograd of layer_norm over channels in f64", epsilon=1e-6)
    for axis in (1, -1):
        features = x.shape[axis]
        g, b, mean = (normal(f"dbn{axis}{s}", (features,)) for s in "gbm")
        var = uniform(f"dbnv{axis}", (features,), 0.1, 3)
        with_kind(f, f"batch_norm_inference_axis{axis % 4}", "batch_norm_inference", "batch_norm_inference_backward", [0, 1, 3, 4, "ct"], [0, 1, 2, 3, 4],
                  [x, g, b, mean, var],
                  lambda x, g, b, mean, var: ((x.movedim(axis, -1) - mean) / torch.sqrt(var + 1e-3) * g + b).movedim(-1, axis),
                  "torch autograd of the formula in f64", feature_axis=axis, epsilon=1e-3)
    x = normal("dl2", (4, 4, 5))
    for axis in (-1, 1):
        f.add_derivative(f"d_l2_normalize_axis{axis % 3}", "l2_normalize", [x], by_torch, lambda v: F.normalize(v, dim=axis),
                         "torch autograd of normalize in f64", axis=axis, epsilon=1e-12)


def residuals(f):
    x, r, bias, g, b = (normal("dres_" + n, d) for n, d in (("x", (2, 3, 16)), ("r", (2, 3, 16)), ("bias", (16,)), ("g", (16,)), ("b", (16,))))
    for dtype in (f32, bf16):
        args = [v.astype(dtype) for v in (x, r, bias, g, b)]
        for op, function in (("fused_residual_layer_norm", layer), ("fused_residual_rms_norm", rms)):
            name = f"d_{op}_{NAMES[dtype][0]}"
            f.add_derivative(name, op, args, by_torch, lambda x, r, bias, g, b: (function(x + bias + r, g, b, 1e-5), x + bias + r), "torch autograd in f64",
                             epsilon=1e-5, has_bias=True)
            f.add_derivative(name + "_bare", op, args[:2] + args[3:4], by_torch, lambda x, r, g: (function(x + r, g, epsilon=1e-5), x + r),
                             "torch autograd in f64", epsilon=1e-5, has_beta=False)
    scale, shift = normal("dada_scale", (2, 1, 16)), normal("dada_shift", (2, 1, 16))
    for kind, function in (("layer_norm", layer), ("rms_norm", rms)):
        with_kind(f, f"ada_layer_norm_{kind}", "ada_layer_norm", "ada_layer_norm_backward", [0, 1, 2, "ct"], [0, 1, 2], [x, scale, shift],
                  lambda x, s, h: function(x, epsilon=1e-6) * (1 + s) + h, "torch autograd in f64", kind=kind, epsilon=1e-6)
    with_kind(f, "ada_layer_norm_shared", "ada_layer_norm", "ada_layer_norm_backward", [0, 1, 2, "ct"], [0, 1, 2], [x, scale[0, 0], shift[:, :, :1]],
              lambda x, s, h: layer(x, epsilon=1e-6) * (1 + s) + h, "torch autograd in f64", epsilon=1e-6)
    with_kind(f, "gated_residual", "gated_residual", "gated_residual_backward", [1, 2, "ct"], [0, 1, 2], [x, r, scale], lambda x, y, gate: x + gate * y,
              "torch autograd in f64")
    with_kind(f, "gated_residual_scalar", "gated_residual", "gated_residual_backward", [1, 2, "ct"], [0, 1, 2], [x, r[0, 0], np.float32(0.7)],
              lambda x, y, gate: x + gate * y, "torch autograd in f64")


def reduced_losses(f):
    """The losses that PyTorch reduces, with its options; class weights get no derivative there."""
    torch_name = {"batch_mean": "batchmean"}
    labels = np.array([3, -100, 0, 8, 3, -100, 5])
    for case, dtype, ignored, smoothing, reduction, weighted in (
            ("plain", f64, -100, 0, "mean", False), ("sum", f32, -100, 0, "sum", False), ("none", f32, 3, 0.1, "none", False), ("smooth", f64, -100, 0.1, "mean", False),
            ("smooth_all", f32, -100, 1.0, "mean", False), ("weighted", f64, -100, 0, "mean", True), ("weighted_smooth", f64, 3, 0.25, "mean", True),
            ("weighted_none", f32, -100, 0.25, "none", True), ("bf16", bf16, -100, 0.1, "mean", False)):
        x, ids = normal("ce" + case, (7, 9), f64, 3).astype(dtype), np.where(labels < 0, ignored, labels).astype(i64)
        weight = uniform("cew" + case, (9,), 0, 2, dtype) if weighted else None
        function = lambda v, l: F.cross_entropy(v, l, weight=torch.from_numpy(weight.astype(f64)) if weighted else None, ignore_index=ignored,
                                                label_smoothing=smoothing, reduction=reduction)
        outputs, cotangents, gradients = by_torch("d_cross_entropy_" + case, function, [x, ids])
        f.add("d_cross_entropy_" + case, "cross_entropy", [x, ids] + [weight] * weighted, outputs, "torch autograd of cross_entropy", cotangents,
              list(gradients) + [None] * weighted, ignore_index=ignored, label_smoothing=smoothing, reduction=reduction)
    x, ids = normal("ceimage", (2, 4, 3, 5), f32), integers("ceimage", (2, 3, 5), 0, 4, i64)
    f.add_derivative("d_cross_entropy_image", "cross_entropy", [x, ids], by_torch, lambda v, l: F.cross_entropy(v, l, ignore_index=2), "torch autograd of cross_entropy",
                     axis=1, ignore_index=2)
    x, ids = normal("cenone", (3, 4), f32), np.full(3, -100, i64)
    f.add("cross_entropy_of_nothing", "cross_entropy", [x, ids], [F.cross_entropy(torch.from_numpy(x), torch.from_numpy(ids)).numpy()], "torch cross_entropy")
    targets = torch.softmax(torch.from_numpy(normal("smooth", (5, 6), f64)), 1).numpy()
    f.add("smooth_labels", "smooth_labels", [targets], [np.asarray(optax.smooth_labels(targets, 0.3))], "optax.smooth_labels", smoothing=0.3)
    x, target = normal("huber", (4, 6), f32, 3), normal("hubert", (4, 6), f32)
    for delta, reduction in ((1.0, "mean"), (0.25, "sum"), (2.5, "none")):
        f.add_derivative(f"d_huber_{reduction}", "huber", [x, target], by_torch, lambda x, y: F.huber_loss(x, y, reduction=reduction, delta=delta),
                         "torch autograd of huber_loss", delta=delta, reduction=reduction)
    log_p, p = (torch.log_softmax(torch.from_numpy(normal(name, (4, 6), f64)), 1).numpy() for name in ("klp", "klq"))
    for log_target in (False, True):
        for reduction in ("none", "mean", "sum", "batch_mean"):
            f.add_derivative(f"d_kl_divergence_{'log_' * log_target}{reduction}", "kl_divergence", [log_p, p if log_target else np.exp(p)], by_torch,
                             lambda x, y: F.kl_div(x, y, reduction=torch_name.get(reduction, reduction), log_target=log_target), "torch autograd of kl_div",
                             log_target=log_target, reduction=reduction)
    sparse = np.array([[0, 0.25, 0.75], [1, 0, 0]], f32)
    x = np.log(np.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]], f32))
    f.add("kl_divergence_zero_target", "kl_divergence", [x, sparse], [F.kl_div(torch.from_numpy(x), torch.from_numpy(sparse), reduction="batchmean").numpy()], "torch kl_div",
          reduction="batch_mean")


def losses(f):
    logits = normal("dlogits", (6, 9), f64, 5)
    logits[0, 3], logits[1, 2] = 800, -800
    labels = integers("dlabels", (6,), 0, 9)
    op, kind = "softmax_cross_entropy_with_logits", "softmax_cross_entropy_backward"
    for dtype in (f64, f32, bf16):
        x = logits.astype(dtype)
        with_kind(f, f"{op}_{NAMES[dtype][0]}", op, kind, [0, 1, "ct"], [0], [x, labels], lambda v, l: F.cross_entropy(v, l.long(), reduction="none"),
                  "torch autograd of cross_entropy in f64")
        if dtype != bf16:
            targets = torch.softmax(torch.from_numpy(normal("dtargets", (6, 9), f64)), 1).numpy().astype(dtype)
            f.add_derivative(f"d_softmax_cross_entropy_{NAMES[dtype][0]}", "softmax_cross_entropy", [x, targets], by_torch,
                             lambda v, p: F.cross_entropy(v, p, reduction="none"), "torch autograd of cross_entropy in f64")
    for axis in (1, -1):
        x = normal(f"dclass{axis}", (2, 4, 3), f64)
        labels = integers(f"dclass{axis}", (2, 3) if axis == 1 else (2, 4), 0, x.shape[axis], i64)
        with_kind(f, f"{op}_axis{axis % 3}", op, kind, [0, 1, "ct"], [0], [x, labels],
                  lambda v, l: F.cross_entropy(v.movedim(axis, 1), l, reduction="none"), "torch autograd of cross_entropy", axis=axis)
        f.add_derivative(f"d_nll_axis{axis % 3}", "nll", [x, labels], by_torch, lambda v, l: F.nll_loss(v.movedim(axis, 1), l, reduction="none"),
                         "torch autograd of nll_loss", axis=axis)
    reduced_losses(f)
    x, target = normal("dprediction", (3, 5), f32, 30), uniform("dtarget", (3, 5), 0, 1)
    for reduction in ("none", "mean", "sum"):
        f.add_derivative(f"d_mse_{reduction}", "mse", [x, target], by_torch, lambda x, y: F.mse_loss(x, y, reduction=reduction), "torch autograd of mse_loss",
                         reduction=reduction)
        f.add_derivative(f"d_binary_cross_entropy_with_logits_{reduction}", "binary_cross_entropy_with_logits", [x, target], by_torch,
                         lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction=reduction), "torch autograd of binary_cross_entropy_with_logits",
                         reduction=reduction)


def in_sight(queries, keys, causal, window):
    """Query i stands at keys - queries + i; causal: it sees no key behind that; window: none further away than that."""
    at = np.arange(queries)[:, None] + keys - queries
    j = np.arange(keys)[None]
    return (j <= at if causal else j >= 0) & (np.abs(j - at) <= (window if window is not None else keys + queries))


FROM_LAYOUT = {  # to [B, H, S, D]
    "bhsd": lambda x, h: x, "bshd": lambda x, h: x.transpose(1, 2), "packed": lambda x, h: x.unflatten(-1, (h, -1)).transpose(1, 2)}
TO_LAYOUT = {"bhsd": lambda x: x, "bshd": lambda x: x.transpose(1, 2), "packed": lambda x: x.transpose(1, 2).flatten(-2)}


def attention(f):
    def add(name, layout="bhsd", dims=(2, 3, 5, 8), keys=None, kv_heads=None, value_dim=None, dtype=f32, causal=False, window=None, scale=None,
            softcap=None, padding=None, bias=None, magnitude=1.0):
        b, h, s, d = dims
        keys, value_dim, shared = keys or s, value_dim or d, kv_heads or h
        place = lambda x: np.ascontiguousarray(TO_LAYOUT[layout](torch.from_numpy(x.astype(f64))).numpy()).astype(dtype)
        q, k, v = (place(normal("d" + name + n, shape, dtype, size)) for n, shape, size in (
            ("q", (b, h, s, d), magnitude), ("k", (b, shared, keys, d), magnitude), ("v", (b, shared, keys, value_dim), 1)))
        keep = torch.from_numpy(in_sight(s, keys, causal, window))[None, None]
        mask = "key_padding" if padding is not None else "bias" if bias is not None else None
        if padding is not None:
            keep = keep & torch.from_numpy(padding.astype(f64).reshape(b, 1, 1, keys) >= 0.5)

        def function(q, k, v, more=None):
            q, k, v = FROM_LAYOUT[layout](q, h), FROM_LAYOUT[layout](k, shared), FROM_LAYOUT[layout](v, shared)
            k, v = (x.repeat_interleave(h // shared, 1) for x in (k, v))
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * (scale or d ** -0.5)
            if softcap:
                scores = softcap * torch.tanh(scores / softcap)
            if mask == "bias":
                scores = scores + more
            sees = keep.expand(b, h, s, keys)
            blind = ~sees.any(-1, keepdim=True)
            weights = torch.softmax(scores.masked_fill(~sees & ~blind, -torch.inf), -1).masked_fill(blind, 0)  # a query that sees nothing gives zeros
            return TO_LAYOUT[layout](torch.einsum("bhqk,bhkd->bhqd", weights, v))

        more = [x for x in (padding, bias) if x is not None]
        inputs = [q, k, v] + more
        outputs, cotangents, gradients = by_torch(name, function, inputs)
        if padding is not None:
            gradients[3] = np.zeros_like(padding) if is_real(padding.dtype) else None
        attributes = dict(heads=h, kv_heads=kv_heads, layout=layout, causal=causal or None, window=window, mask=mask, scale=scale, softcap=softcap)
        f.add(f"d_attention_{name}", "attention", inputs, outputs, "torch autograd of the formula in f64", cotangents, gradients, **attributes)
        f.add(f"attention_backward_{name}", "attention_backward", [q, k, v, cotangents[0]] + more, gradients[:4 if mask == "bias" else 3],
              "torch autograd of the formula in f64", **attributes)

    for layout in TO_LAYOUT:
        add(f"layout_{layout}", layout)
        add(f"causal_{layout}", layout, keys=7, causal=True)
        add(f"grouped_{layout}", layout, dims=(2, 6, 4, 8), kv_heads=2, value_dim=3, causal=True)
    for dtype in (f64, f16, bf16):
        add(NAMES[dtype][0], dtype=dtype)
    add("one_query", dims=(2, 3, 1, 8), keys=17, causal=True)
    add("one_key", keys=1)
    add("few_keys_causal", dims=(1, 2, 6, 4), keys=4, causal=True)  # the first two queries see nothing: zeros
    add("scale", scale=0.25)
    add("softcap", softcap=2.0, magnitude=3)
    add("softcap_scale_causal", softcap=5.0, scale=1.0, causal=True, dtype=f64)
    add("softcap_bias", softcap=3.0, bias=normal("dsoftcap_bias", (2, 3, 5, 5)))
    add("window", dims=(1, 2, 9, 4), causal=True, window=3)
    add("window_both_sides", dims=(1, 2, 9, 4), window=2)
    add("multi_query_causal", dims=(2, 4, 5, 8), kv_heads=1, causal=True)
    padding = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], f32)
    add("padding", padding=padding)
    add("padding_bool", padding=padding.astype(bool))
    add("padding_packed_causal", "packed", padding=padding, causal=True)
    add("padding_nothing", padding=np.array([[0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], f32))
    add("bias", bias=normal("dbias", (2, 3, 5, 5)))
    add("bias_of_heads", bias=normal("dbias_of_heads", (1, 3, 5, 5)))
    add("bias_of_keys", bias=normal("dbias_of_keys", (2, 1, 1, 5)))
    add("bias_rank2", bias=normal("dbias_rank2", (5, 5)), causal=True)
    add("large_scores", magnitude=10)
    add("long", dims=(1, 2, 70, 16), causal=True)


def rope(f):
    def add(name, style, heads, width, rotary, dtype=f32, layout="packed", batches=False, spare=0):
        batch, length = 2, 6
        x = TO_LAYOUT[layout](torch.from_numpy(normal("drope" + name + style, (batch, heads, length, width), f64))).numpy().astype(dtype)
        angle = uniform("dangle" + name, (batch if batches else 1, length, rotary // 2), -3, 3, f64)
        tables = [np.concatenate([t, np.zeros(t.shape[:2] + (spare,))], -1).astype(dtype) for t in (np.cos(angle), np.sin(angle))]
        if not batches:
            tables = [t[0] for t in tables]

        def function(x, cos, sin):
            x = FROM_LAYOUT[layout](x, heads)
            cos, sin = (t[..., :rotary // 2].reshape(-1, 1, length, rotary // 2) for t in (cos, sin))
            head, rest = x[..., :rotary], x[..., rotary:]
            left, right = head.chunk(2, -1) if style == "neox" else (head[..., 0::2], head[..., 1::2])
            l, r = left * cos - right * sin, right * cos + left * sin
            turned = torch.cat([l, r], -1) if style == "neox" else torch.stack([l, r], -1).flatten(-2)
            return TO_LAYOUT[layout](torch.cat([turned, rest], -1))

        with_kind(f, f"rope_{style}_{name}", "rope", "rope_backward", ["ct", 1, 2], [0], [x] + tables, function, "torch autograd of the formula in f64",
                  heads=heads, layout=layout, rotary_dims=None if rotary == width else rotary, style=style)

    for style in ("neox", "gptj"):
        add("one_head", style, 1, 8, 8)
        add("heads_f64", style, 3, 8, 8, dtype=f64)
        add("heads_bf16", style, 3, 8, 8, dtype=bf16)
        add("heads_bhsd", style, 3, 8, 8, layout="bhsd")
        add("heads_bshd", style, 3, 8, 8, layout="bshd")
        add("partial_wide_table", style, 2, 8, 4, spare=2)
        add("batches", style, 2, 8, 8, batches=True)


KINDS = {
    "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "relu": F.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "neg": torch.neg, "abs": torch.abs, "sin": torch.sin, "cos": torch.cos,
    "tan": torch.tan, "atan": torch.atan, "reciprocal": torch.reciprocal, "floor": torch.floor, "ceil": torch.ceil, "sign": torch.sign,
    "softplus": lambda x: F.softplus(x, threshold=1e9), "elu": F.elu, "erf": torch.erf, "hard_swish": F.hardswish, "hard_sigmoid": lambda x: F.relu6(x + 3) / 6,
    "mish": F.mish, "softsign": F.softsign, "log_sigmoid": F.logsigmoid}


def activations(f):
    for kind, function in KINDS.items():
        positive = kind in ("log", "sqrt", "rsqrt")
        for dtype in (f64, f32, bf16):
            x = uniform("dactivation" + kind, (5, 9), 0.1 if positive else -6, 6, dtype)
            if kind in ("gelu", "gelu_tanh", "silu", "softplus", "log_sigmoid", "elu", "mish", "sigmoid", "tanh") and dtype != bf16:
                x[0, :6] = [0, 20, -20, 80, -80, -1e-9]
            case = f"activation_{kind}_{NAMES[dtype][0]}"
            _, cotangents, gradients = by_torch(case, function, [x])
            f.add(case, "activation_backward", [x, cotangents[0]], [gradients[0]], f"torch autograd of {kind} in f64", kind=kind)
    x, ct = normal("dround", (7,)), normal("dround_ct", (7,))
    f.add("activation_round", "activation_backward", [x, ct], [ct], "straight through, by definition", kind="round")
    x, ct = np.array([0, -0.0, 1, -1, 1e-30, -1e-30, 3e38], f32), normal("drelu", (7,))
    f.add("relu_backward", "relu_backward", [x, ct], [np.where(x > 0, ct, 0)], "numpy")
    z = complex_normal("dnorm", (3, 4), c64)
    ct = normal("dnorm_ct", (3, 4), f32)
    f.add("complex_norm_sq_backward", "complex_norm_sq_backward", [z, ct], [(z * ct).astype(c64)], "numpy")


def cases():
    f, g, h, i = Family("norm_gradients"), Family("attention_network_gradients"), Family("loss_gradients"), Family("activation_gradients")
    norms(f)
    residuals(f)
    attention(g)
    rope(g)
    losses(h)
    activations(i)
    return [f, g, h, i]
