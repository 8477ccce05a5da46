"""The Python that README.md and docs/ show runs, with the names around it that its text takes for granted."""

import ast
import contextlib
import io
import pathlib
import re
import warnings

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx import train

ROOT = pathlib.Path(__file__).resolve().parents[2]


def code_of(document, n):
    """The n-th block of Python of a document, counted from 0."""
    return (ROOT / document).read_text().split("```python\n")[n + 1].split("```")[0]


def run(document, n, names):
    exec(compile(code_of(document, n), f"{document}, block {n}", "exec"), names)
    return names


def test_the_first_example():
    rng = np.random.default_rng(0)
    w, x, y = rng.normal(size=(4, 3)), rng.normal(size=(8, 4)), rng.normal(size=(8, 3))
    names = run("README.md", 0, {"w": w, "x": x, "y": y})
    t = np.tanh(x @ w)
    wanted = x.T @ (2 * (t - y) * (1 - t * t)) / y.size
    np.testing.assert_allclose(names["gradient"], wanted, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(names["per_example"](w, x, y)).mean(0), wanted, rtol=1e-12)


def test_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(1).normal(size=(16, 3)).astype(np.float32)
    batch = {"x": x, "t": x @ np.float32([[1], [2], [3]])}
    params = {"w": np.zeros((3, 1), np.float32), "b": np.zeros(1, np.float32)}
    names = run("docs/training.md", 0, {"rlx": rlx, "rnp": rnp, "params": params, "batches": [batch] * 5})
    assert names["result"].loss < np.mean(batch["t"] ** 2) and names["result"].step == 5
    assert set(names["params"]) == {"w", "b"} and np.any(np.asarray(names["params"]["w"]))
    assert (tmp_path / "run.safetensors").exists()


def test_training_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(1).normal(size=(200, 3)).astype(np.float32)
    data = {"x": x, "t": x @ np.float32([[1], [2], [3]]), "np": np}
    code = code_of("docs/training.md", 1)

    def trained(resuming, steps):
        loss = lambda p, b: rnp.mean((b["x"] @ p["w"] - b["t"]) ** 2)
        session = train.Session(loss, {"w": np.zeros((3, 1), np.float32)}, train.adamw(train.cosine(0.01, 1000)))
        exec(code.replace("1000", str(steps)), {**data, "session": session, "resuming": resuming})
        return session

    whole = trained(False, 1000)
    trained(False, 550)
    resumed = trained(True, 1000)
    assert resumed.steps == 1000 and np.array_equal(whole.params["w"], resumed.params["w"])


def test_quantization(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    x = rng.normal(size=(16, 3)).astype(np.float32)
    w, t = rng.normal(size=(3, 2)).astype(np.float32), rng.normal(size=(16, 2)).astype(np.float32)
    graph = rlx.Graph.parse("""rlx 1
graph @prediction {
  %0 = input() @"x" : f32[16, 3]
  %1 = param() @"w" : f32[3, 2]
  %2 = matmul(%0, %1) : f32[16, 2]
  return %2 @"y"
}
""")
    loss = rlx.Graph.parse("""rlx 1
graph @loss {
  %0 = input() @"x" : f32[16, 3]
  %1 = input() @"t" : f32[16, 2]
  %2 = param() @"w" : f32[3, 2]
  %3 = matmul(%0, %2) : f32[16, 2]
  %4 = sub(%3, %1) : f32[16, 2]
  %5 = square(%4) : f32[16, 2]
  %6 = mean(%5) {axes = [0, 1]} : f32[]
  return %6 @"loss"
}
""")
    names = run("docs/quantization.md", 0, {"rlx": rlx, "loss": loss, "graph": graph, "params": {"w": w}, "batches": [{"x": x, "t": t}] * 3})
    assert "qmatmul" in names["int8"].table and (tmp_path / "int8.rlx").exists()


def test_the_guide(tmp_path, monkeypatch):
    """Its blocks one after another; an expression with a comment behind it gives what the comment says, as `print` has it or repr."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/python.md").read_text()
    blocks, names, checked, out = text.split("```python\n")[1:], {}, 0, io.StringIO()
    one_line = lambda value: " ".join(value.split())
    with contextlib.redirect_stdout(out):
        for n, block in enumerate(b.split("```")[0] for b in blocks):
            lines = block.splitlines()
            for node in ast.parse(block).body:
                code, where = ast.Module([node], []), f"docs/python.md, block {n}"
                said = re.search(r"  # (.*)$", lines[node.end_lineno - 1])
                if isinstance(node, ast.Expr) and said:
                    value = eval(compile(ast.Expression(node.value), where, "eval"), names)
                    assert one_line(said[1]) in (one_line(repr(value)), one_line(str(value))), (lines[node.lineno - 1], value)
                    checked += 1
                else:
                    exec(compile(code, where, "exec"), names)
    assert out.getvalue() == "the sum is 6.0\n" and checked > 50 and len(blocks) > 20


def test_manifests_and_profiles(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    head = rlx.Graph.parse("""rlx 1
graph @f {
  %0 = input() @"x" : f32[2, 3]
  %1 = input() @"w" : f32[4, 3]
  %2 = linear(%0, %1) @"head" : f32[2, 4]
  return %2 @"y"
}
""")
    found = run("docs/manifest.md", 0, {"rlx": rlx, "graph": head})["found"]
    assert found.totals["flops"] == 2 * 2 * 3 * 4 and (tmp_path / "f.svg").read_text().startswith("<svg")
    toml = (ROOT / "docs/profiles.md").read_text().split("```toml\n")[1].split("```")[0]
    (tmp_path / "profile.toml").write_text(toml)
    graph = rlx.Graph.parse('rlx 1\ngraph @g {\n  %0 = input() @"x" : f32[B, S]\n  %1 = exp(%0) : f32[B, S]\n  return %1 @"y"\n}\n')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the GPU that is not here
        names = run("docs/profiles.md", 0, {"rlx": rlx, "f": rnp.tanh, "graph": graph})
        assert names["profile"].phases == ("prefill", "decode") and names["profile"].settings("decode")["bounds"] == {"S": 2048}


def test_gguf(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run("docs/gguf.md", 0, {"rlx": rlx, "np": np})
    assert names["file"].metadata == {"general.architecture": "mine", "layers": 3} and names["file"].kind("w") == "F32"
    assert names["packed"].dtype == "f32" and np.array_equal(np.asarray(names["file"]["w"]), np.ones((2, 4)))


def test_generation(tmp_path, monkeypatch):
    """With a small model of random weights in the place of the one that is named."""
    import test_llm
    monkeypatch.chdir(tmp_path)
    folder = test_llm.with_letters(tmp_path / "Qwen3-0.6B", "gpt2")
    (folder / "chat_template.jinja").write_text(test_llm.TEMPLATE)
    names, out = {"rlx": rlx}, io.StringIO()
    with contextlib.redirect_stdout(out):
        run("docs/generation.md", 0, names)
    model = names["model"]
    assert names["text"] == model.generate("The capital of France is", max_tokens=20, temperature=0) and out.getvalue()
    if test_llm.has_templates():
        run("docs/generation.md", 1, names)
        assert [m["role"] for m in names["messages"]] == ["system", "user", "assistant", "user", "assistant"]
        assert names["writer"].read_tokens < len(model.chat_prompt(names["messages"][:-1]))
    run("docs/generation.md", 2, names)
    assert len(names["sequence"]) == len(names["other"]) == 11 and names["logits"].shape == (41,) and names["everything"].shape == (11, 41)
