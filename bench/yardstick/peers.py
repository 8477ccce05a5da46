"""The peers of each suite, and how one is asked for its times."""

import dataclasses
import json
import os
import pathlib
import select
import subprocess
import tempfile
import time

from . import isa

PROGRAMS = {  # suite: peer: (program, variant, the packages it needs)
    "kernels": {
        "onnxruntime": ("kernels_onnx", "onnxruntime", ("onnxruntime", "onnx")),
        "openvino": ("kernels_onnx", "openvino", ("openvino", "onnx")),
        "pytorch": ("kernels_torch", "", ("torch",)),
        "pytorch-compiled": ("kernels_torch", "compile", ("torch",)),
        "jax": ("kernels_jax", "", ("jax",)),
    },
    "minilm": {
        "onnxruntime": ("minilm_onnx", "onnxruntime", ("onnxruntime", "onnx", "safetensors")),
        "onnxruntime-fused": ("minilm_onnx", "onnxruntime-fused", ("onnxruntime", "onnx", "safetensors")),
        "openvino": ("minilm_onnx", "openvino", ("openvino", "onnx", "safetensors")),
        "pytorch": ("minilm_torch", "", ("torch", "safetensors")),
        "jax": ("minilm_jax", "", ("jax", "safetensors")),
    },
    "bert": {
        "onnxruntime": ("minilm_onnx", "onnxruntime", ("onnxruntime", "onnx", "safetensors")),
        "onnxruntime-fused": ("minilm_onnx", "onnxruntime-fused", ("onnxruntime", "onnx", "safetensors")),
        "openvino": ("minilm_onnx", "openvino", ("openvino", "onnx", "safetensors")),
        "pytorch": ("minilm_torch", "", ("torch", "safetensors")),
    },
    "tagger": {
        "onnxruntime": ("tagger_onnx", "onnxruntime", ("onnxruntime", "onnx")),
        "openvino": ("tagger_onnx", "openvino", ("openvino", "onnx")),
        "pytorch": ("tagger_torch", "", ("torch",)),
    },
    "vision": {
        "onnxruntime": ("vision_onnx", "onnxruntime", ("onnxruntime", "onnx")),
        "openvino": ("vision_onnx", "openvino", ("openvino", "onnx")),
        "pytorch": ("vision_torch", "", ("torch",)),
        "pytorch-compiled": ("vision_torch", "compile", ("torch",)),
    },
    "start": {
        "onnxruntime": ("minilm_onnx", "onnxruntime", ("onnxruntime", "onnx", "safetensors")),
        "openvino": ("minilm_onnx", "openvino", ("openvino", "onnx", "safetensors")),
        "pytorch": ("minilm_torch", "", ("torch", "safetensors")),
    },
    "train": {
        "pytorch": ("train_torch", "", ("torch",)),
        "jax": ("train_jax", "", ("jax",)),
    },
}
ANSWER_SECONDS = 300
MANY = 1 << 20  # runs: the budget ends them


class PeerError(Exception):
    """A peer that cannot be measured; the text says why."""


@dataclasses.dataclass
class Server:
    """A program that stays, and answers a line with a line."""

    name: str
    command: list
    environment: dict
    process: subprocess.Popen = None
    errors: object = None  # a file, for a pipe that nobody reads would fill

    def measure(self, case, iterations, budget, result=None):
        """`result`: the file that the result is written to, as .npy."""
        return self._ask({"case": case, "iterations": iterations, "budget": budget} | ({"result": result} if result else {}))

    def sample(self, case, budget, library):
        """How many of the instructions that it was seen at belong to each of isa.SETS."""
        return self._ask({"case": case, "iterations": MANY, "budget": budget, "sampler": library}).get("instructions", [])

    def _ask(self, request):
        if self.process is None or self.process.poll() is not None:
            self.close()
            self.errors = tempfile.TemporaryFile("w+")
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                            text=True, env=self.environment)  # fmt: skip
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer, or its absence, says why
        end = time.monotonic() + ANSWER_SECONDS + 10 * request["budget"]
        while not select.select([self.process.stdout], [], [], 1)[0]:
            if time.monotonic() > end:
                self.close()
                raise PeerError(f"no answer within {end:.0f} seconds")
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.errors.seek(0)
            errors = self.errors.read().strip().splitlines() or ["no message"]
            self.close()
            raise PeerError(f"ended with {code}: {errors[-1][:300]}")
        return _answer(line)

    def close(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout, self.errors):
                pipe.close()
            self.process = None


@dataclasses.dataclass
class Command:
    """A program that is run once for each request, as `rlx bench` is."""

    name: str
    command: list
    environment: dict

    def measure(self, case, iterations, budget, result=None):
        return self._run(case, iterations, budget, self.environment, ["--result", result] if result else [])

    def sample(self, case, budget, library):
        """As of Server; of the whole process."""
        environment = dict(os.environ if self.environment is None else self.environment)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "samples"
            environment["LD_PRELOAD"] = isa.joined("LD_PRELOAD", environment.get("LD_PRELOAD"), library)
            environment["YARDSTICK_SAMPLES"] = str(file)
            self._run(case, MANY, budget, environment)
            lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
        return [sum(column) for column in zip(*(map(int, line.split()) for line in lines))]

    def _run(self, case, iterations, budget, environment, more=()):
        command = [*self.command, "--iters", str(iterations), "--budget", str(budget), *more, case]
        limit = ANSWER_SECONDS + 10 * budget
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=limit, check=False)
        except subprocess.TimeoutExpired as late:
            raise PeerError(f"no answer within {limit:.0f} seconds") from late
        if done.returncode != 0 or not done.stdout.strip():
            errors = done.stderr.strip().splitlines() or ["it printed nothing"]
            raise PeerError(f"ended with {done.returncode}: {errors[0][:300]}")
        return _answer(done.stdout.splitlines()[-1])

    def close(self):
        pass


def _answer(line):
    try:
        answer = json.loads(line)
    except json.JSONDecodeError as error:
        raise PeerError(f"printed what is not JSON: {line[:100]!r}") from error
    if "error" in answer:
        raise PeerError(" ".join(answer["error"].split()))  # one line of the table
    if not answer.get("times_ms"):
        raise PeerError("printed no times")
    return answer


def missing_packages(python, packages):
    """Those that this Python cannot import; all of them if there is no such Python."""
    if not pathlib.Path(python).exists():
        return list(packages)
    code = "import importlib.util, sys; print(*(p for p in sys.argv[1:] if importlib.util.find_spec(p) is None))"
    done = subprocess.run([str(python), "-c", code, *packages], capture_output=True, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else list(packages)


TAKES_FLOATS = {"openvino", "pytorch", "pytorch-compiled"}  # and so are measured as asked (--compute)
TAKES_INT8 = {(suite, name) for suite in ("minilm", "bert", "tagger", "vision") for name in ("onnxruntime", "onnxruntime-fused", "openvino", "pytorch")}


def environment_of(suite, python, environment):
    """What the suite's programs are given: in `bert` RLX_MODEL is the folder of BERT, which is made if it is not there."""
    if suite != "bert":
        return environment
    made = subprocess.run([str(python), "-m", "yardstick.programs.minilm_weights"], capture_output=True, text=True, check=False, env=environment)
    if made.returncode != 0:
        raise SystemExit(f"yardstick: BERT's weights could not be made: {made.stderr.strip().splitlines()[-1:]}")
    return dict(environment, RLX_MODEL=made.stdout.split("\n")[-2])


def peers_of(suite, python, threads, environment, chosen=None):
    """(peers that can run, {peer: why it cannot})."""
    ready, absent = [], {}
    for name, (program, variant, packages) in PROGRAMS[suite].items():
        if chosen and name not in chosen:
            continue
        if missing := missing_packages(python, packages):
            absent[name] = f"not installed: {', '.join(missing)} (scripts/bench-deps installs it)"
            continue
        command = [str(python), "-m", f"yardstick.programs.{program}", "--threads", str(threads)]
        compute = environment.get("YARDSTICK_COMPUTE", "f32")
        if compute != "f32" and not ((suite, name) in TAKES_INT8 if compute == "int8" else name in TAKES_FLOATS):
            name += " (f32)"
        ready.append(Server(name, command + (["--variant", variant] if variant else []), environment))
    return ready, absent
