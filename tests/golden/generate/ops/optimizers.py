"""One step of an optimizer from given states, in f64: by torch.optim and Optax. Muon (PyTorch's is computed in bf16) and Sophia (which neither
has) are the published updates in NumPy; Muon's is held against PyTorch's within what bf16 allows."""
import jax
import numpy as np
import optax
import torch

from .case import *

jax.config.update("jax_enable_x64", True)


def wide(x):
    return torch.tensor(np.asarray(x, f64))


def torch_step(optimizer, keys):
    """-> a function of (param, grad, lr, step, states): the new param and states, from a PyTorch optimizer that is handed the old ones."""
    def run(param, grad, lr, step, states):
        p = torch.nn.Parameter(wide(param))
        p.grad = wide(grad)
        made = optimizer([p], float(lr))
        if keys:
            made.state[p] = dict(zip(keys, map(wide, states)), step=torch.tensor(float(step - 1), dtype=torch.float64))
        made.step()
        return [p.detach().numpy()] + [made.state[p][key].numpy() for key in keys]
    return run


def sgd(**options):
    def run(param, grad, lr, step, states):
        p = torch.nn.Parameter(wide(param))
        p.grad = wide(grad)
        made = torch.optim.SGD([p], lr=float(lr), **options)
        if states:
            made.state[p]["momentum_buffer"] = wide(states[0])
        made.step()
        return [p.detach().numpy()] + ([made.state[p]["momentum_buffer"].numpy()] if states else [])
    return run


def optax_step(optimizer, replaced):
    def run(param, grad, lr, step, states):
        made = optimizer(float(lr))
        state = made.init(np.asarray(param, f64))
        state = (replaced(state[0], step, [np.asarray(s, f64) for s in states]),) + tuple(state[1:])
        change, state = made.update(np.asarray(grad, f64), state, np.asarray(param, f64))
        new = [np.asarray(param, f64) + np.asarray(change)]
        return new + [np.asarray(getattr(state[0], name)) for name in ("mu", "nu")[:len(states)]]
    return run


def adam_state(state, step, states):
    return state._replace(count=np.asarray(step - 1, np.int32), mu=states[0], nu=states[1])


def lion_state(state, step, states):
    return state._replace(count=np.asarray(step - 1, np.int32), mu=states[0])


def muon(momentum=0.95, nesterov=True, iterations=5, weight_decay=0.0):
    def run(param, grad, lr, step, states):
        p, g, m = (np.asarray(x, f64) for x in (param, grad, states[0]))
        m = momentum * m + (1 - momentum) * g
        o = momentum * m + (1 - momentum) * g if nesterov else m
        flip = p.shape[0] > p.shape[1]
        x = o.T if flip else o
        x = x / max(np.linalg.norm(x), 1e-7)
        for _ in range(iterations):
            a = x @ x.T
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
        x = x.T if flip else x
        new = p * (1 - float(lr) * weight_decay) - float(lr) * np.sqrt(max(1, p.shape[0] / p.shape[1])) * x
        parameter = torch.nn.Parameter(wide(param))
        parameter.grad = wide(grad)
        judge = torch.optim.Muon([parameter], lr=float(lr), momentum=momentum, nesterov=nesterov, ns_steps=iterations, weight_decay=weight_decay)
        judge.state[parameter]["momentum_buffer"] = wide(states[0])
        judge.step()
        assert np.abs(parameter.detach().numpy() - new).max() < 0.05 * float(lr) * max(1, np.abs(x).max()), "Muon differs from PyTorch's"
        return [new, m]
    return run


def sophia(beta1=0.965, gamma=0.05, epsilon=1e-15, weight_decay=0.0):
    def run(param, grad, lr, step, states):
        p, g, m, h = (np.asarray(x, f64) for x in (param, grad, *states))
        m = beta1 * m + (1 - beta1) * g
        return [p * (1 - float(lr) * weight_decay) - float(lr) * np.clip(m / np.maximum(gamma * h, epsilon), -1, 1), m, h]
    return run


def adafactor_states(dims):
    return [dims] if len(dims) < 2 else [dims[:-1] + (1,), dims[:-2] + (1,) + dims[-1:]]


# op, attributes, states (their dims from the param's; which are squares), the judge and its name
def same(count):
    return lambda dims: [dims] * count


OPTIMIZERS = [
    ("sgd", {}, same(0), "", sgd(), "torch.optim.SGD"),
    ("sgd", dict(weight_decay=0.1), same(0), "", sgd(weight_decay=0.1), "torch.optim.SGD"),
    ("sgd", dict(momentum=0.9), same(1), "m", sgd(momentum=0.9), "torch.optim.SGD"),
    ("sgd", dict(momentum=0.9, nesterov=True, weight_decay=0.01), same(1), "m", sgd(momentum=0.9, nesterov=True, weight_decay=0.01), "torch.optim.SGD"),
    ("adam", {}, same(2), "mv", torch_step(lambda p, lr: torch.optim.Adam(p, lr=lr), ("exp_avg", "exp_avg_sq")), "torch.optim.Adam"),
    ("adam", dict(beta1=0.8, beta2=0.95, epsilon=1e-4, weight_decay=0.1), same(2), "mv",
     torch_step(lambda p, lr: torch.optim.Adam(p, lr=lr, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1), ("exp_avg", "exp_avg_sq")), "torch.optim.Adam"),
    ("adam", dict(weight_decay=0.1, decoupled=True), same(2), "mv", torch_step(lambda p, lr: torch.optim.AdamW(p, lr=lr, weight_decay=0.1), ("exp_avg", "exp_avg_sq")), "torch.optim.AdamW"),
    ("adagrad", {}, same(1), "v", torch_step(lambda p, lr: torch.optim.Adagrad(p, lr=lr), ("sum",)), "torch.optim.Adagrad"),
    ("adagrad", dict(epsilon=1e-3, weight_decay=0.1), same(1), "v", torch_step(lambda p, lr: torch.optim.Adagrad(p, lr=lr, eps=1e-3, weight_decay=0.1), ("sum",)), "torch.optim.Adagrad"),
    ("rmsprop", {}, same(1), "v", torch_step(lambda p, lr: torch.optim.RMSprop(p, lr=lr), ("square_avg",)), "torch.optim.RMSprop"),
    ("rmsprop", dict(alpha=0.9, weight_decay=0.1, momentum=0.9), same(2), "vm",
     torch_step(lambda p, lr: torch.optim.RMSprop(p, lr=lr, alpha=0.9, weight_decay=0.1, momentum=0.9), ("square_avg", "momentum_buffer")), "torch.optim.RMSprop"),
    ("rmsprop", dict(momentum=0.5, centered=True), same(3), "vsm",
     torch_step(lambda p, lr: torch.optim.RMSprop(p, lr=lr, momentum=0.5, centered=True), ("square_avg", "grad_avg", "momentum_buffer")), "torch.optim.RMSprop"),
    ("adafactor", dict(epsilon=1e-10), adafactor_states, "vv", None, "torch.optim.Adafactor"),
    ("adafactor", dict(decay=0.5, epsilon=1e-10, clip=1.5, weight_decay=0.1), adafactor_states, "vv", None, "torch.optim.Adafactor"),
    ("lamb", {}, same(2), "mv", optax_step(lambda lr: optax.lamb(lr), adam_state), "optax.lamb"),
    ("lamb", dict(weight_decay=0.1), same(2), "mv", optax_step(lambda lr: optax.lamb(lr, weight_decay=0.1), adam_state), "optax.lamb"),
    ("lion", {}, same(1), "m", optax_step(lambda lr: optax.lion(lr, weight_decay=0.0), lion_state), "optax.lion"),
    ("lion", dict(weight_decay=0.1), same(1), "m", optax_step(lambda lr: optax.lion(lr, weight_decay=0.1), lion_state), "optax.lion"),
    ("muon", {}, same(1), "m", muon(), "the published update in numpy, torch.optim.Muon within bf16"),
    ("muon", dict(nesterov=False, weight_decay=0.1), same(1), "m", muon(nesterov=False, weight_decay=0.1), "the published update in numpy, torch.optim.Muon within bf16"),
    ("sophia", {}, same(2), "mv", sophia(), "the published update in numpy"),
    ("sophia", dict(beta1=0.9, gamma=2, weight_decay=0.1), same(2), "mv", sophia(0.9, 2, 1e-15, 0.1), "the published update in numpy"),
]


def adafactor(attributes, dims):
    keys = ("variance",) if len(dims) < 2 else ("row_var", "col_var")
    return torch_step(lambda p, lr: torch.optim.Adafactor(p, lr=lr, beta2_decay=-attributes.get("decay", 0.8), eps=(1e-10, 1e-3), d=attributes.get("clip", 1.0),
                                                          weight_decay=attributes.get("weight_decay", 0.0)), keys)


def state(name, kind, dims, dtype):
    x = normal(name, dims, f64, 0.3)
    # A mean ("s") small enough for the mean square about it to be positive.
    return {"m": x, "v": x * x + 0.2, "s": 0.5 * x.clip(-0.5, 0.5)}[kind].astype(dtype)


def cases():
    f = Family("optimizers")
    for count, (op, attributes, dims_of, kinds, judge, source) in enumerate(OPTIMIZERS):
        shapes = [(5, 3), (3, 8)] if op == "muon" else [(4, 6), (7,), ()]
        for dims in shapes:
            for dtype in (f32, f64):
                for step in (1, 2, 1000):
                    name = f"{op}_{count}_{'x'.join(map(str, dims)) or 'scalar'}_{NAMES[dtype][0]}_{step}"
                    param, grad = normal("p" + name, dims, dtype), normal("g" + name, dims, dtype)
                    lr = np.asarray(0.01, dtype)
                    states = [state(f"s{i}" + name, kind, extents, dtype) * (step > 1) for i, (kind, extents) in enumerate(zip(kinds, dims_of(dims)))]
                    states = [np.asarray(s, dtype) for s in states]
                    run = adafactor(attributes, dims) if op == "adafactor" else judge
                    out = [np.asarray(x).astype(dtype) for x in run(param, grad, lr, step, states)]
                    f.add(name, f"{op}_update", [param, grad, lr, np.asarray(step, i32), *states], out, source, **attributes)
    return [f]
