"""Containers of values: the leaves that a value holds, their keys, and the same container with other leaves."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, compress, count
from operator import not_
from typing import Any

from backprobe.record.names import quote

DEEPEST = 8
MANY = 16  # once more containers than this were entered, none of them is entered again
PLACES = tuple(f".{at}" for at in range(64))


def children(value: Any) -> list[tuple[str, Any]] | None:
    """The keys and values directly inside a dict, tuple, list or dataclass; None for anything else."""
    kind: Any = type(value)  # ``isinstance`` would ask the object for its class, which may run the program's code
    # Dicts are checked before dataclasses, because transformers' ModelOutput is both. As a dict it omits fields that
    # are None.
    if issubclass(kind, dict):
        return [(str(key), item) for key, item in dict.items(value)]
    if issubclass(kind, tuple):
        if hasattr(kind, "_fields"):
            return list(zip(value._fields, value, strict=True))
        # a subclass may define another iterator
        return list(zip(map(str, count()), tuple.__iter__(value), strict=False))
    if issubclass(kind, list):
        return list(zip(map(str, count()), list.__iter__(value), strict=False))
    if hasattr(kind, "__dataclass_fields__"):
        return [*zip(_fields_held(kind), held(value), strict=True)]
    return None


def held(value: Any) -> list[Any]:
    """The values of the fields of a dataclass, except static fields.

    They are read without its own ``__getattribute__`` where possible, since that may run code. Programs bind
    configurations with a hundred fields again and again, so as much as possible is done in C.
    """
    kind: Any = type(value)
    names = _fields_held(kind)
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:  # the class has slots
        own = {}
    if own.keys() >= set(names):
        return [*map(own.__getitem__, names)]
    return [own[name] if name in own else getattr(value, name, None) for name in names]


@lru_cache(4096)
def _fields_held(kind: Any) -> tuple[str, ...]:
    # The fields of a dataclass without static ones, which hold no data in JAX.
    return tuple(field.name for field in dataclasses.fields(kind) if not field.metadata.get("static"))


CONTAINERS = (dict, tuple, list)
TEXTS = frozenset({str, bytes})
SIMPLE = TEXTS | {int, float, complex, bool, type(None)}


def direct(value: Any) -> Iterable[Any] | None:
    """The values directly inside a dict, tuple or list, or of a subclass of these; None for anything else.

    >>> [*direct((2, 3))], [*direct({"eps": 1e-5})], direct(object())
    ([2, 3], [1e-05], None)
    """
    kind = type(value)
    for base in CONTAINERS:
        if issubclass(kind, base):
            return dict.values(value) if base is dict else base.__iter__(value)
    return None


def is_container(kind: type) -> bool:
    """Are objects of this type searched for leaves?"""
    return issubclass(kind, CONTAINERS) or hasattr(kind, "__dataclass_fields__")


def by_key(value: Any) -> Any:
    """A mapping that is no dict, converted to a dict, as are such mappings among its values. Anything else is returned
    unchanged, and so is a mapping whose own code raises an error.

    >>> from types import MappingProxyType
    >>> by_key(MappingProxyType({"loss": 2.0})), by_key([1])
    ({'loss': 2.0}, [1])
    """
    if issubclass(type(value), dict) or not issubclass(type(value), Mapping):
        return value
    try:
        return {key: by_key(value[key]) for key in value.keys()}  # noqa: SIM118  # one may iterate over its rows
    # the mapping's own code may raise any of these
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, OSError):
        return value


def holds(value: Any, sought: Callable[[Any], bool]) -> bool:
    """Does a container hold a value, or a container, for which ``sought`` is true? It is searched down to ``DEEPEST``
    levels. Numbers, strings, bytes and None are skipped. Paths are not computed.

    >>> holds({"a": [1, (2.5, ...)]}, lambda leaf: leaf is ...), holds([1, "x"], lambda leaf: leaf is ...)
    (True, False)
    """
    if not is_container(type(value)):
        return False
    level, seen = [value], {id(value)}
    for _ in range(DEEPEST):
        every = [*chain.from_iterable(map(_inside, level))]
        below = [*compress(every, map(not_, map(SIMPLE.__contains__, map(type, every))))]
        if any(map(sought, below)):
            return True
        level = []
        for item in below:
            if id(item) not in seen:
                seen.add(id(item))
                level.append(item)
        if not level:
            return False
    return False


def _inside(value: Any) -> Iterable[Any]:
    # The values directly inside a container, and none for anything else.
    found = direct(value)
    if found is not None:
        return found
    return held(value) if hasattr(type(value), "__dataclass_fields__") else ()


def leaves(value: Any) -> list[tuple[str, Any]]:
    """The leaves of a container with their paths, such as ``.0.hidden``; a value that is no container is a leaf with an
    empty path. Below ``DEEPEST`` levels, containers count as leaves.

    A container inside itself is not entered again. After more than ``MANY`` containers, no container is entered again:
    objects that refer to each other, like the nodes of a graph, are connected by too many paths to follow all.

    >>> leaves((1, {"k": 2}))
    [('.0', 1), ('.1.k', 2)]
    """
    found: list[tuple[str, Any]] = []
    _add_leaves(value, "", [], set(), found)
    return found


def flat_leaves(value: Any) -> list[tuple[str, Any]]:
    """Every leaf, with its path, of a container without containers inside it.

    >>> flat_leaves((1, 2)), flat_leaves({"k": 3})
    ([('.0', 1), ('.1', 2)], [('.k', 3)])
    """
    if type(value) in (tuple, list) and len(value) <= len(PLACES):
        return [*zip(PLACES, value, strict=False)]
    return [(f".{quote(key)}", item) for key, item in children(value) or ()]


def _add_leaves(value: Any, path: str, around: list[int], seen: set[int], found: list[tuple[str, Any]]) -> None:
    # Written without a generator, since each enclosing generator would be resumed for each leaf.
    inside = children(value) if len(around) < DEEPEST else None
    if inside is None:
        found.append((path, value))
    elif id(value) not in around and not (len(seen) > MANY and id(value) in seen):
        seen.add(id(value))
        around.append(id(value))
        for key, item in inside:
            below, kind = f"{path}.{quote(key)}", type(item)
            if kind in SIMPLE or not (issubclass(kind, CONTAINERS) or hasattr(kind, "__dataclass_fields__")):
                found.append((below, item))
            else:
                _add_leaves(item, below, around, seen, found)
        around.pop()


def exchanged(
    value: Any,
    replace: Callable[[Any], Any],
    undo: list[Callable[[], None]],
    is_leaf: Callable[[Any], bool] = lambda value: False,
    depth: int = 0,
) -> Any:
    """The value with each leaf replaced. Tuples are rebuilt, and values for which ``is_leaf`` is true are not entered.

    Lists, dicts and dataclasses stay the same objects, so that changes by the program reach the caller. ``undo``
    collects functions that restore the old leaves.
    """
    inside = children(value) if depth < DEEPEST and not is_leaf(value) else None
    if inside is None:
        return replace(value)
    pairs = [(item, exchanged(item, replace, undo, is_leaf, depth + 1)) for _, item in inside]
    changed = [(old, new) for old, new in pairs if old is not new]
    if not changed:
        return value
    if isinstance(value, tuple):
        return _as_tuple(value, [new for _, new in pairs])
    _put(value, changed)
    undo.append(lambda: _put(value, [(new, old) for old, new in changed]))
    return value


def _put(container: Any, changed: list[tuple[Any, Any]]) -> None:
    # Replace some objects in a container, at every place where the container holds them now.
    by_identity = {id(old): new for old, new in changed}
    if isinstance(container, list):
        for at, item in enumerate(container):
            container[at] = by_identity.get(id(item), item)
    elif isinstance(container, dict):
        for key, item in list(container.items()):
            if id(item) in by_identity:
                container[key] = by_identity[id(item)]
    else:
        for field in dataclasses.fields(container):
            item = getattr(container, field.name, None)
            if id(item) in by_identity:
                object.__setattr__(container, field.name, by_identity[id(item)])  # works for frozen dataclasses too


def at_path(value: Any, path: str) -> Any:
    """The value at a dotted path of keys, positions and attributes. Raises KeyError with the step that failed."""
    for step in path.split("."):
        inside = children(value)
        found = dict(inside) if inside is not None else {}
        if step in found:
            value = found[step]
        elif hasattr(value, step) and not step.isdigit():
            value = getattr(value, step)
        else:
            raise KeyError(step)
    return value


def with_leaves(value: Any, new: Mapping[str, Any], path: str = "", depth: int = 0) -> Any:
    """A value with other leaves at these paths. Only the containers around them are copied.

    >>> with_leaves((1, {"k": 2}), {".1.k": 3})
    (1, {'k': 3})
    """
    if path in new:
        return new[path]
    is_around = any(leaf.startswith(f"{path}.") for leaf in new)
    inside = children(value) if is_around and depth < DEEPEST else None
    if inside is None:
        return value
    items = [with_leaves(item, new, f"{path}.{quote(key)}", depth + 1) for key, item in inside]
    return _refilled(value, inside, items)


def refilled(value: Any, replace: Callable[[Any], Any], depth: int = 0) -> Any:
    """A copy of a value's containers with each leaf replaced; the value itself stays unchanged.

    >>> refilled({"a": [1, 2]}, lambda leaf: leaf * 10)
    {'a': [10, 20]}
    """
    inside = children(value) if depth < DEEPEST else None
    if inside is None:
        return replace(value)
    return _refilled(value, inside, [refilled(item, replace, depth + 1) for _, item in inside])


def _refilled(value: Any, inside: Sequence[tuple[str, Any]], items: list[Any]) -> Any:
    # A copy of a container with other items in place of those ``inside``. They are exchanged by position, since one
    # object may occur several times with different replacements.
    if isinstance(value, tuple):
        return _as_tuple(value, items)
    made = copy.copy(value)
    if isinstance(value, list):
        list.__setitem__(made, slice(None), items)
    elif isinstance(value, dict):
        for key, item in zip(list(dict.keys(value)), items, strict=True):
            made[key] = item
    else:
        for (name, old), item in zip(inside, items, strict=True):
            if item is not old:
                object.__setattr__(made, name, item)  # works for frozen dataclasses too
    return made


def _as_tuple(like: tuple[Any, ...], items: list[Any]) -> Any:
    return type(like)(*items) if hasattr(like, "_fields") else type(like)(items)
