"""Each line marked `refused` is wrong in its types, and mypy says so; no other line is."""

import rlx
import rlx.numpy as rnp

x = rnp.ones((3, 4))
rnp.tanh()  # refused: no operand
rnp.sum(x, axis="rows")  # refused: an axis is a number
rnp.tahn(x)  # refused: no such function
n: int = rnp.mean(x)  # refused: an array is no int
rlx.ops.softmax(x, axis="last")  # refused: an attribute of the wrong type
rlx.ops.softmax(x, "last")  # refused: an axis is an integer
rlx.ops.reduce(x, kind="median")  # refused: none of the kinds
rlx.ops.layer_norm(x, epsilon=None)  # refused: a number is needed
a, b = rlx.ops.tanh(x)  # one result that is unpacked: an Array can be iterated over
v, i, more = rlx.ops.top_k(x, k=2)  # refused: there are two results
rlx.grad(3)  # refused: not a function
rlx.jit(lambda y: y)(x, static=1)  # refused: a parameter that the function has not
loss = rlx.jit(rnp.exp)
loss.lowered(x)  # refused: no such method
state = rlx.Session().compile(rlx.Graph()).new_state(["s"])  # refused: values have names
rlx.llm.load("model").generate("a", temprature=1)  # refused: no such setting
