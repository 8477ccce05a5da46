"""A program whose types are right: mypy --strict says nothing about it."""

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx import Array


@rlx.jit
def loss(w: Array, x: Array, y: Array) -> Array:
    return rnp.mean((rnp.tanh(x @ w) - y) ** 2)


def train(w: Array, x: Array, y: Array, steps: int = 3) -> Array:
    for _ in range(steps):
        gradient = rlx.grad(loss)(w, x, y)
        w = w - 0.1 * gradient
    return w


w = rnp.asarray(np.ones((4, 2), np.float32))
x, y = rnp.ones((3, 4)), rnp.zeros((3, 2), dtype="float32")
trained: Array = train(w, x, y)
values, places = rlx.ops.top_k(trained.reshape(-1), k=2)
normal: Array = rlx.ops.layer_norm(x, rnp.ones(4), None, epsilon=1e-5)
reduced: Array = rlx.ops.reduce(x, kind="max", axes=(0, 1))
carry, stacked = rlx.scan(lambda c, row: (c + row.sum(), c), rnp.asarray(0.0), x)
q, r = rlx.linalg.qr(x)
spectrum: Array = rlx.fft.rfft(x, n=8, axis=-1, norm="ortho")
soft: Array = rlx.nn.softmax(x, axis=1) + rlx.special.erf(x)
text: str = loss.lower(w, x, y).as_text()
shape: tuple[int, ...] = rnp.sum(x, axis=(0, 1), keepdims=True).shape
size: float = float(values[0]) + places.ndim
draws: Array = rlx.random.normal(rlx.random.key(0), (2, 3), dtype="bf16")
updated: Array = x.at[0, 1].set(2.0)
value, pull = rlx.vjp(lambda a: rnp.sum(a * a), x)
batched: Array = rlx.vmap(loss, in_axes=(None, 0, 0))(w, x[:, None], y[:, None])
step = rlx.Session().compile(rlx.Graph.parse("graph @g {\n  %0 = input() @\"s\" : f32[N]\n  return %0 @\"s\"\n}"), donate="s")
state: rlx.State = step.new_state({"s": np.ones(3, np.float32)}, extents={"N": 3}).copy()
outputs = step.run({}, state)
kept: int = state["s"].size + len(state.names) + len(state.why_torn)


def write(model: rlx.llm.LanguageModel, messages: list[dict[str, str]]) -> str:
    for piece in model.stream("Once", temperature=0.5, logit_bias={1: 2.0}, stop=["end"]):
        messages.append({"role": "user", "content": piece.strip()})
    logits: Array = model.sequence().copy().logits([1, model.config.hidden])
    messages[0]["content"] += str(rlx.llm.Sampler(top_k=4).sample(logits) + len(model.stop_ids))
    return model.chat(messages, variables={"brief": True}, max_tokens=3)
