"""The files of the package import each other in one direction, also those that are imported within functions: a file can be read
knowing only what stands below it. What a lower file needs of a higher one the higher one installs (_operators.py, _loop_prints.py)."""

import ast
import pathlib

import rlx

ROOT = pathlib.Path(rlx.__file__).parent


def modules_of(root):
    found = {}
    for path in sorted(root.rglob("*.py")):
        names = ["rlx", *path.relative_to(root).with_suffix("").parts]
        found[".".join(names[:-1] if names[-1] == "__init__" else names)] = path
    return found


def imports_of(name, path, modules):
    """The modules of the package that a module imports, wherever in its text it does."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*base, *([node.module] if node.module else [])])
            found.update(f"{base}.{each.name}" if f"{base}.{each.name}" in modules else base for each in node.names)
    return (found & modules.keys()) - {name}


def circle_in(graph):
    """The modules of one circle, in order; none if there is no circle."""
    done = set()

    def search(name, path):
        if name in path:
            return path[path.index(name):]
        if name in done:
            return []
        for other in sorted(graph[name]):
            if circle := search(other, [*path, name]):
                return circle
        done.add(name)
        return []

    return next((circle for name in graph if (circle := search(name, []))), [])


def test_no_module_imports_one_that_imports_it():
    modules = modules_of(ROOT)
    assert len(modules) > 50
    assert circle_in({name: imports_of(name, path, modules) for name, path in modules.items()}) == []


def test_a_circle_is_found():
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c"]
