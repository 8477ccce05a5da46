"""Pytrees: nested tuples, lists, dicts, named tuples and None, and functions over their leaves."""


def flatten(tree):
    """The leaves in order, and the structure: a hashable value from which `unflatten` builds the tree again."""
    leaves = []
    return leaves, _structure(tree, leaves)


def _structure(tree, leaves):
    kind = type(tree)
    if kind is tuple or kind is list:
        return (kind, tuple(_structure(t, leaves) for t in tree))
    if kind is dict:
        try:
            keys = tuple(sorted(tree))
        except TypeError:  # keys of several kinds
            keys = tuple(sorted(tree, key=lambda k: (type(k).__name__, k)))
        return (dict, keys, tuple(_structure(tree[k], leaves) for k in keys))
    if tree is None:
        return None
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return (kind, tuple(_structure(t, leaves) for t in tree))
    leaves.append(tree)
    return "*"


def unflatten(structure, leaves):
    leaves = iter(leaves)
    return _build(structure, leaves)


def _build(structure, leaves):
    if structure == "*":
        return next(leaves)
    if structure is None:
        return None
    if structure[0] is dict:
        return {k: _build(s, leaves) for k, s in zip(structure[1], structure[2])}
    kind, parts = structure
    built = [_build(s, leaves) for s in parts]
    if kind is tuple or kind is list:
        return kind(built)
    return kind(*built)


def paths(structure, before=""):
    """Where each leaf stands, as Python would write it behind the tree's name: "[0]['w']"."""
    if structure == "*":
        return [before]
    if structure is None:
        return []
    parts = zip(structure[1], structure[2]) if structure[0] is dict else enumerate(structure[1])
    return [path for key, part in parts for path in paths(part, f"{before}[{key!r}]")]


def map(f, tree, *rest):
    """f over the leaves of trees of one structure."""
    leaves, structure = flatten(tree)
    others = []
    for other in rest:
        more, its = flatten(other)
        if its != structure:
            raise ValueError(f"the trees differ: {structure} and {its}")
        others.append(more)
    return unflatten(structure, [f(*each) for each in zip(leaves, *others)])


def leaves(tree):
    return flatten(tree)[0]


def structure(tree):
    return flatten(tree)[1]
