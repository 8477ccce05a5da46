"""What every generator needs to say about itself: where its data goes and with which versions it was made."""
import importlib.metadata
import json
import pathlib
import platform

GOLDEN = pathlib.Path(__file__).resolve().parents[3] / "tests" / "golden"


def folder(name):
    path = GOLDEN / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_versions(path, script, packages, **facts):
    """versions.json beside the data: the script, Python, its packages, and what was measured on the way."""
    record = {"made_by": f"tests/golden/generate/{script}", "python": platform.python_version()}
    record["packages"] = {name: importlib.metadata.version(name) for name in packages}
    record.update(facts)
    (path / "versions.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
