"""How the models of tests/golden/language_models go on with a text, tests/golden/generation/greedy.json: by `generate` of the package
`transformers`, which takes the likeliest token each time.

usage: generation.py

{name: {"prompt": ids, "tokens": ids}}: `tokens` are up to 40 that follow the prompt, the last of which may be the one that ends a text.
Everything is read again for each token (use_cache=False): positions that stretch with the length (dynamic, longrope) are then those of
the whole text. Of two tokens that are almost as likely, rounding would choose: the script fails if any two are nearer than 1e-4.
"""

import json
import pathlib

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODELS = ROOT / "tests/golden/language_models"
FOLDER = ROOT / "tests/golden/generation"
PROMPT, NEW, NEAR = 12, 40, 1e-4


def main():
    made = {}
    for folder in sorted(p for p in MODELS.iterdir() if p.is_dir()):
        model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
        prompt = json.loads((folder / "ids.json").read_text())[:PROMPT]
        with torch.no_grad():
            ids = torch.tensor([prompt])
            result = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW, use_cache=False,
                                    output_logits=True, return_dict_in_generate=True)
        gaps = [float(-torch.diff(step[0].topk(2).values)) for step in result.logits]
        if min(gaps) < NEAR:
            raise SystemExit(f"{folder.name}: two tokens are {min(gaps)} apart")
        made[folder.name] = {"prompt": prompt, "tokens": result.sequences[0, PROMPT:].tolist()}
        print(folder.name, made[folder.name]["tokens"], min(gaps))
    FOLDER.mkdir(exist_ok=True)
    lines = ",\n".join(f' "{name}": {json.dumps(each)}' for name, each in made.items())
    (FOLDER / "greedy.json").write_text("{\n" + lines + "\n}\n")
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    (FOLDER / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


if __name__ == "__main__":
    main()
