"""rlx.from_torch beside PyTorch itself: modules give what they give there, with their gradients; what is not known is refused
by its name. Skipped, visibly, where PyTorch is not installed."""

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
# torch.export warns of what PyTorch's own recurrent layers do.
pytestmark = pytest.mark.filterwarnings("ignore:The tensor attributes? .* assigned during export")
nn = torch.nn


class Decoder(nn.Module):
    """A transformer's decoder in small: embeddings, causal attention, tied weights."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(20, 16), nn.Parameter(torch.randn(8, 16))
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, ids):
        x = self.tokens(ids) + self.places[: ids.shape[1]]
        heads = [a.view(*a.shape[:2], 4, 4).transpose(1, 2) for a in self.qkv(self.norm(x)).chunk(3, -1)]
        y = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return (x + self.out(y.transpose(1, 2).reshape(x.shape))) @ self.tokens.weight.T


class Function(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *xs):
        return self.f(*xs)


class Block(nn.Module):
    """Of a residual network, with a buffer that is no param."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.n = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.Conv2d(4, 4, 3, padding="same"), nn.BatchNorm2d(4)
        self.n.running_mean.normal_(), self.n.running_var.uniform_(0.5, 2)

    def forward(self, x):
        return torch.relu(x + self.b(torch.relu(self.n(self.a(x)))))


def images(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


X = images(2, 3, 4)
MODULES = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 8), nn.GELU("tanh"), nn.Tanh(), nn.Linear(8, 3), nn.LogSoftmax(-1)), [X[0]]),
    "cnn": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 8, 3, stride=2, groups=2),
                                  nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(8, 5)), [images(2, 3, 16, 16)]),
    "residual": (Block, [images(2, 4, 6, 6)]),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), [images(2, 7, 16)]),
    "attention": (lambda: nn.MultiheadAttention(16, 4, batch_first=True), [images(2, 7, 16), images(2, 5, 16), images(2, 5, 16)]),
    "decoder": (Decoder, [torch.arange(16).reshape(2, 8)]),
    "lstm": (lambda: nn.LSTM(4, 8, batch_first=True), [X]), "gru": (lambda: nn.GRU(4, 8, 2, batch_first=True, bidirectional=True), [X]),
    "embedding": (lambda: nn.Sequential(nn.Embedding(10, 6), nn.LayerNorm(6)), [torch.tensor([[1, 2], [3, 9]])]),
    "norms": (lambda: nn.Sequential(nn.GroupNorm(2, 8), nn.Softplus(2, 1), nn.ELU(0.5), nn.Hardswish(), nn.LeakyReLU(0.2), nn.Hardtanh(), nn.Sigmoid(),
                                    nn.InstanceNorm2d(8), nn.Mish(), nn.ReLU6(), nn.Hardsigmoid()), [images(2, 8, 4, 4)]),
    "upwards": (lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), nn.AvgPool2d(2, padding=1),
                                      nn.ZeroPad2d((1, 2, 0, 3)), nn.PixelShuffle(2)), [images(1, 3, 4, 4)]),
    "reductions": (lambda: Function(lambda x: {"s": x.sum(1), "m": x.mean((0, 2), keepdim=True), "v": x.var(1), "a": x.argmax(1), "max": x.max(2)[0],
                                               "n": x.norm(dim=-1), "any": (x > 1).any(1), "c": x.cumsum(1), "p": x.prod(2), "std": x.std()}), [X]),
    "elementwise": (lambda: Function(lambda x: [x.clamp(-0.5, 0.7), torch.where(x > 0, x, x.sin()), x.abs().sqrt(), torch.add(x, x, alpha=3), 1 - x, 2 / x,
                                                x ** 2, x.abs() ** 0.5, 2 ** x, x // 0.3, torch.div(x, 0.3, rounding_mode="trunc"), x % 0.3, x.exp().log1p(), x.erf(),
                                                torch.maximum(x, -x), x.masked_fill(x > 0, 7.0), (x > 0) & (x < 1), x.rsqrt().nan_to_num() * 0]), [X.abs() + 0.1]),
    "moves": (lambda: Function(lambda x: [x[:, 1:, ::2], x[..., -1], x.permute(2, 0, 1), x.unsqueeze(1).squeeze(1), x.expand(2, 3, 4), torch.cat([x, x], 1), x.flip(1),
                                          torch.stack([x, x]), x.split(2, dim=2)[1], x.chunk(2, 2)[0], x.unbind(1)[2], x.repeat(1, 2, 1), x.roll(1, 2), x.tril(), x.triu(1),
                                          x.topk(2)[0], x.gather(2, torch.tensor([[[0, 1]] * 3] * 2)), x[:, torch.tensor([2, 0])], x.index_select(1, torch.tensor([1]))]), [X]),
    "dtypes": (lambda: Function(lambda x: [x.to(torch.float16), x.long(), x.bool(), torch.arange(3) + x[0, :, 0].long(), torch.ones(2, dtype=torch.int32),
                                           torch.full((2,), 1.5), torch.full_like(x, 2), x.double().sum()]), [X]),
    "integers": (lambda: Function(lambda i: [i.sum(), i.prod(), i.cumsum(1), (i > 2).sum(1), i // 2, i / 2, i * 0.5, i + 1, i == 3, i.max(), -i, i.clamp(min=2)]), [torch.tensor([[1, 5, 3]])]),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_gives_what_it_gives_in_pytorch(name):
    torch.manual_seed(0)
    make, example = MODULES[name]
    module = make().eval()
    with torch.no_grad():
        wanted = module(*example)
    ours = rlx.from_torch(module, tuple(example))
    arrays = [x.numpy() for x in example]
    for got in (rlx.jit(lambda m, *xs: m(*xs))(ours, *arrays), ours(*arrays)):
        theirs, got = rlx.tree.leaves(wanted), rlx.tree.leaves(got)
        assert len(got) == len(theirs)
        for g, w in zip(got, theirs):
            g, w = np.asarray(g), w.numpy()
            assert g.shape == w.shape and g.dtype == w.dtype, (g.dtype, w.dtype, g.shape, w.shape)
            np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("name", ["mlp", "cnn", "residual", "encoder", "decoder", "lstm"])
def test_gradients_of_the_params_are_those_of_pytorch(name):
    torch.manual_seed(0)
    make, example = MODULES[name]
    module = make().eval()
    first = lambda y: y[0] if isinstance(y, (tuple, list)) else y
    (first(module(*example)) ** 2).sum().backward()
    ours = rlx.from_torch(module, tuple(example))
    arrays = [x.numpy() for x in example]
    gradient = rlx.jit(rlx.grad(lambda m: rnp.sum(first(m(*arrays)) ** 2)))(ours)
    assert isinstance(gradient, rlx.TorchModule)
    for key, param in module.named_parameters():
        np.testing.assert_allclose(gradient.params[key], param.grad.numpy(), rtol=2e-3, atol=2e-4 * max(1.0, float(param.grad.abs().max())), err_msg=key)


def test_params_have_pytorchs_names_and_are_saved_under_them(tmp_path):
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).eval()
    ours = rlx.from_torch(module, torch.ones(4, 2))
    assert set(ours.params) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    rlx.save(tmp_path / "m.safetensors", ours.params)
    assert set(rlx.load(tmp_path / "m.safetensors")) == set(ours.params)
    stepped = rlx.tree.map(lambda p: p * 0, ours)
    np.testing.assert_allclose(stepped(np.ones((4, 2), np.float32)), np.zeros((4, 3)), atol=0)


def test_a_state_dict_is_a_tree(tmp_path):
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    state = module.state_dict()
    norm = rlx.jit(lambda s: sum(rnp.sum(x * x) for x in s.values()))(state)
    assert abs(float(norm) - sum(float((x.double() ** 2).sum()) for x in state.values())) < 1e-4
    rlx.save(tmp_path / "s.safetensors", state)
    back = rlx.load(tmp_path / "s.safetensors")
    assert list(back) == list(state) and all(np.array_equal(back[k], state[k].numpy()) for k in state)
    module.load_state_dict({k: torch.from_dlpack(x) for k, x in back.items()})


def test_it_goes_to_other_languages_as_a_graph():
    ours = rlx.from_torch(nn.Linear(2, 3), torch.ones(4, 2))
    assert "f32[4, 3]" in rlx.jit(lambda x: ours(x)).lower(np.ones((4, 2), np.float32)).as_text()


def test_what_is_not_known_is_refused_with_all_names():
    odd = Function(lambda x: torch.linalg.svd(x)[1] + torch.special.bessel_j0(x) + torch.special.bessel_j0(-x))
    with pytest.raises(rlx.Error, match=r"aten\._linalg_svd\.default, aten\.special_bessel_j0\.default \(2 times\)") as caught:
        rlx.from_torch(odd, torch.ones(3, 3))
    assert isinstance(caught.value, NotImplementedError) and "test_torch.py" in str(caught.value)


@pytest.mark.parametrize("make,example,message", [
    (lambda: nn.BatchNorm1d(3).train(), torch.ones(4, 3), "operators|changes .*running_mean"),
    (lambda: nn.MaxPool2d(2, ceil_mode=True), torch.ones(1, 1, 5, 5), "ceil_mode"),
    (lambda: nn.AdaptiveAvgPool2d(2), torch.ones(1, 1, 5, 5), "adaptive_avg_pool2d from"),
    (lambda: nn.MaxPool2d(2, return_indices=True), torch.ones(1, 1, 4, 4), "places"),
    (lambda: Function(lambda x: x[x > 0]), torch.ones(3), "data decide|index|operators"),
    (lambda: Function(lambda x: x + torch.rand(3)), torch.ones(3), r"aten\.rand"),
])
def test_forms_that_are_not_known_are_refused_when_it_is_made(make, example, message):
    with pytest.raises((rlx.Error, TypeError), match=message):
        rlx.from_torch(make(), example)


def test_wrong_uses():
    with pytest.raises(TypeError, match="torch.nn.Module"):
        rlx.from_torch(lambda x: x, torch.ones(3))
    ours = rlx.from_torch(nn.Linear(2, 3), torch.ones(4, 2))
    with pytest.raises(TypeError, match="1 inputs, and is given 2"):
        ours(np.ones((4, 2)), np.ones(3))
    with pytest.raises(ValueError, match=r"shape \(5, 2\), and the module was traced with \(4, 2\)"):
        ours(np.ones((5, 2), np.float32))
