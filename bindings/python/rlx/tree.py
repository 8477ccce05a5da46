"""Pytrees: nested tuples, lists, dicts, named tuples, dataclasses, registered classes and None, and functions over their leaves.

Dicts are sorted by their keys; an OrderedDict keeps its order. Of a dataclass the fields are branches, but for those that are
declared static, `field(metadata={"static": True})`: they belong to the structure, and so must be hashable. A class of
one's own is a leaf until `register_pytree_node`, `register_pytree_node_class` or `register_dataclass` says what is in it.
A class that was registered, or is a dataclass, is built again without its `__init__` being called with anything but its fields.
"""

import builtins
import collections
import dataclasses
import functools

from ._native import Error, at_user_line


class _Kind:
    """How a class is taken apart and built: flatten(x) -> (parts, rest), unflatten(rest, parts) -> x."""

    def __init__(self, flatten, unflatten, keys=None):
        self.flatten, self.unflatten, self.keys = flatten, unflatten, keys


_nothing = object()
_kinds = {}
_not_kinds = set()  # classes that are known to be leaves


def _sorted(keys):
    try:
        return tuple(sorted(keys))
    except TypeError:  # keys of several kinds
        return tuple(sorted(keys, key=lambda k: (type(k).__name__, k)))


def _kind_of(cls):
    """The kind of a class, None if it is a leaf. Structures of those that are here have three parts: (class, rest, parts)."""
    kind = _kinds.get(cls)
    if kind is None and cls not in _not_kinds:
        if dataclasses.is_dataclass(cls):
            is_static = lambda f: f.metadata.get("static", False) or f.metadata.get("pytree_node", True) is False
            fields = dataclasses.fields(cls)
            kind = _kinds[cls] = _dataclass_kind(cls, [f.name for f in fields if not is_static(f)], [f.name for f in fields if is_static(f)])
        else:
            _not_kinds.add(cls)
    return kind


def _dataclass_kind(cls, data, meta):
    def flatten(x):
        return tuple(getattr(x, name) for name in data), tuple(getattr(x, name) for name in meta)

    def unflatten(rest, parts):
        # Not by __init__: it may take other arguments, or check what is no array while a structure is mapped.
        made = object.__new__(cls)
        for name, value in [*zip(data, parts), *zip(meta, rest)]:
            object.__setattr__(made, name, value)
        return made

    return _Kind(flatten, unflatten, lambda rest: [f".{name}" for name in data])


def _register(cls, kind):
    if not isinstance(cls, type):
        raise TypeError(at_user_line(f"a class is registered, not {cls!r}"))
    if cls in _kinds and not dataclasses.is_dataclass(cls) or cls in (tuple, list, dict, type(None)):
        raise ValueError(at_user_line(f"{cls.__name__} is registered already, or a tree as it is"))
    _kinds[cls] = kind
    _not_kinds.discard(cls)


def register_pytree_node(cls, flatten_func, unflatten_func):
    """Makes instances of `cls` trees: flatten_func(x) gives (what is below it, the rest), unflatten_func(rest, what is below) an
    instance. The rest belongs to the structure and must be hashable. As jax.tree_util.register_pytree_node."""
    def flatten(x):
        parts, rest = flatten_func(x)
        return tuple(parts), rest
    _register(cls, _Kind(flatten, unflatten_func))


def register_pytree_node_class(cls):
    """Decorates a class with methods `tree_flatten(self)` and `tree_unflatten(cls, rest, parts)`, as JAX's of that name."""
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)
    return cls


def register_dataclass(cls=None, data_fields=None, meta_fields=None):
    """Says of a dataclass (or any class with those attributes) which fields are branches and which belong to the structure. Without
    them all are branches that are not declared static. As jax.tree_util.register_dataclass; also a decorator."""
    if cls is None:
        return functools.partial(register_dataclass, data_fields=data_fields, meta_fields=meta_fields)
    if data_fields is None and meta_fields is None:
        if not dataclasses.is_dataclass(cls):
            raise TypeError(at_user_line(f"{cls.__name__} is no dataclass: name its data_fields and meta_fields"))
        _kind_of(cls)
        return cls
    if data_fields is None or meta_fields is None:
        raise TypeError(at_user_line("data_fields and meta_fields are given both, or neither"))
    if dataclasses.is_dataclass(cls):
        missing = {f.name for f in dataclasses.fields(cls) if f.init} - {*data_fields, *meta_fields}
        unknown = {*data_fields, *meta_fields} - {f.name for f in dataclasses.fields(cls)}
        if missing or unknown:
            raise ValueError(at_user_line(f"the fields of {cls.__name__} are {', '.join(f.name for f in dataclasses.fields(cls))}; "
                                          f"{', '.join(sorted(missing or unknown))} {'is in neither list' if missing else 'is none of them'}"))
    _register(cls, _dataclass_kind(cls, tuple(data_fields), tuple(meta_fields)))
    return cls


def _flatten_default_dict(x):
    keys = _sorted(x)
    return tuple(x[k] for k in keys), (x.default_factory, keys)


_of_keys = lambda keys: [f"[{k!r}]" for k in keys]
_kinds[collections.OrderedDict] = _Kind(lambda x: (tuple(x.values()), tuple(x)),
                                        lambda keys, parts: collections.OrderedDict(zip(keys, parts)), _of_keys)
_kinds[collections.defaultdict] = _Kind(
    _flatten_default_dict, lambda rest, parts: collections.defaultdict(rest[0], zip(rest[1], parts)), lambda rest: _of_keys(rest[1]))


def flatten(tree, is_leaf=None):
    """The leaves in order, and the structure: a hashable value from which `unflatten` builds the tree again. What `is_leaf` holds
    for is not looked into."""
    leaves = []
    return leaves, _structure(tree, leaves, is_leaf)


def _structure(tree, leaves, is_leaf=None):
    kind = type(tree)
    if is_leaf is not None and is_leaf(tree):
        leaves.append(tree)
        return "*"
    if kind is tuple or kind is list:
        return (kind, tuple([_structure(t, leaves, is_leaf) for t in tree]))
    if kind is dict:
        keys = _sorted(tree)
        return (dict, keys, tuple([_structure(tree[k], leaves, is_leaf) for k in keys]))
    if tree is None:
        return None
    known = _kinds.get(kind)
    if known is None:
        if isinstance(tree, tuple) and hasattr(tree, "_fields"):
            return (kind, tuple([_structure(t, leaves, is_leaf) for t in tree]))
        known = None if kind in _not_kinds else _kind_of(kind)
    if known is None:
        leaves.append(tree)
        return "*"
    parts, rest = known.flatten(tree)
    return (kind, rest, tuple([_structure(t, leaves, is_leaf) for t in parts]))


def unflatten(structure, leaves):
    """The tree of that structure with these leaves, of which there are as many as it has."""
    given = iter(leaves)
    try:
        made = _build(structure, given)
    except StopIteration:
        raise ValueError(at_user_line(f"a tree {drawn(structure)} has {count(structure)} leaves, and fewer were given")) from None
    if next(given, _nothing) is not _nothing:
        raise ValueError(at_user_line(f"a tree {drawn(structure)} has {count(structure)} leaves, and more were given"))
    return made


def _build(structure, leaves):
    if structure == "*":
        return next(leaves)
    if structure is None:
        return None
    kind, built = structure[0], [_build(s, leaves) for s in structure[-1]]
    if kind is tuple or kind is list:
        return kind(built)
    if kind is dict:
        return dict(zip(structure[1], built))
    if len(structure) == 3:
        return _kinds[kind].unflatten(structure[1], built)
    return kind(*built)


def count(structure):
    """How many leaves a structure has."""
    return 1 if structure == "*" else 0 if structure is None else sum(count(s) for s in structure[-1])


def _steps(structure):
    """How Python reaches each part from the node: "[0]", "['w']", ".scale"."""
    if structure[0] is dict:
        return _of_keys(structure[1])
    if len(structure) == 3:
        known = _kinds[structure[0]].keys
        if known is not None:
            return known(structure[1])
    return [f"[{i}]" for i in range(len(structure[-1]))]


def paths(structure, before=""):
    """Where each leaf stands, as Python would write it behind the tree's name: "[0]['w']"."""
    if structure == "*":
        return [before]
    if structure is None:
        return []
    return [path for step, part in zip(_steps(structure), structure[-1]) for path in paths(part, before + step)]


def map(f, tree, *rest, is_leaf=None):
    """f over the leaves of trees of one structure."""
    leaves, structure = flatten(tree, is_leaf)
    others = []
    for other in rest:
        more, its = flatten(other, is_leaf)
        if its != structure:
            raise Error(at_user_line(f"the trees differ: {drawn(structure)} and {drawn(its)}"))
        others.append(more)
    return unflatten(structure, [f(*each) for each in zip(leaves, *others)])


def leaves(tree, is_leaf=None):
    """The leaves in order."""
    return flatten(tree, is_leaf)[0]


def structure(tree, is_leaf=None):
    """The structure: a hashable value."""
    return flatten(tree, is_leaf)[1]


def reduce(f, tree, initializer=_nothing, is_leaf=None):
    """The leaves combined by f, from the first one or `initializer` on."""
    found = leaves(tree, is_leaf)
    return functools.reduce(f, found) if initializer is _nothing else functools.reduce(f, found, initializer)


def all(tree, is_leaf=None):
    """Whether all leaves are true."""
    return builtins.all(leaves(tree, is_leaf))


def drawn(structure):
    """A structure as the tree with its leaves as stars."""
    return repr(unflatten(structure, [_Star()] * count(structure)))


class _Star:
    def __repr__(self):
        return "*"
