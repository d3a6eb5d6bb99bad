"""Containers of values: what leaves a value holds, under which keys, and the same container with other leaves."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from backprobe.names import quote

DEEPEST = 8
MANY = 16  # containers in one value


def children(value: Any) -> Iterator[tuple[str, Any]] | None:
    """The keys and values directly inside a container; None where the value is no container."""
    if isinstance(value, dict):  # before dataclasses: transformers' ModelOutput is both, and leaves its Nones out here
        return ((str(key), item) for key, item in dict.items(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return zip(value._fields, value, strict=True)
    if isinstance(value, tuple | list):
        items = tuple.__iter__(value) if isinstance(value, tuple) else list.__iter__(value)  # not the user's own
        return ((str(at), item) for at, item in enumerate(items))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = (field for field in dataclasses.fields(value) if not field.metadata.get("static"))  # JAX's word for it
        return ((field.name, getattr(value, field.name, None)) for field in held)
    return None


def leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """Every leaf of a container with its path, ``.0.hidden``; a value that is no container is its own leaf, ``""``.

    A container inside itself is not looked into again, nor any twice where there are very many: objects that know each
    other, as the nodes of a graph do, lead to each other by more ways than can be walked.

    >>> list(leaves((1, {"k": 2})))
    [('.0', 1), ('.1.k', 2)]
    """
    return _leaves(value, "", 0, [], set())


def _leaves(value: Any, path: str, depth: int, around: list[int], seen: set[int]) -> Iterator[tuple[str, Any]]:
    inside = children(value) if depth < DEEPEST else None
    if inside is None:
        yield path, value
    elif id(value) not in around and not (len(seen) > MANY and id(value) in seen):
        seen.add(id(value))
        around.append(id(value))
        for key, item in inside:
            yield from _leaves(item, f"{path}.{quote(key)}", depth + 1, around, seen)
        around.pop()


def exchanged(
    value: Any,
    replace: Callable[[Any], Any],
    undo: list[Callable[[], None]],
    is_leaf: Callable[[Any], bool] = lambda value: False,
    depth: int = 0,
) -> Any:
    """The value with each leaf replaced. Lists, dicts and dataclasses stay the same objects: what the program adds to
    them reaches the caller, and ``undo`` gets what puts the old leaves back. Tuples are made anew. What ``is_leaf``
    says is one is not looked into.
    """
    inside = children(value) if depth < DEEPEST and not is_leaf(value) else None
    if inside is None:
        return replace(value)
    pairs = [(item, exchanged(item, replace, undo, is_leaf, depth + 1)) for _, item in inside]
    changed = [(old, new) for old, new in pairs if old is not new]
    if not changed:
        return value
    if isinstance(value, tuple):
        new = [new for _, new in pairs]
        return type(value)(*new) if hasattr(value, "_fields") else type(value)(new)
    _put(value, changed)
    undo.append(lambda: _put(value, [(new, old) for old, new in changed]))
    return value


def _put(container: Any, changed: list[tuple[Any, Any]]) -> None:
    """Exchange these very objects wherever they stand in a container now."""
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
                object.__setattr__(container, field.name, by_identity[id(item)])  # frozen ones too


def at_path(value: Any, path: str) -> Any:
    """The value at a dotted path of keys, positions and attributes. Raises KeyError with the failing step."""
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


def refilled(value: Any, replace: Callable[[Any], Any], depth: int = 0) -> Any:
    """A copy of the containers in a value with each leaf replaced; the value itself stays as it is.

    >>> refilled({"a": [1, 2]}, lambda leaf: leaf * 10)
    {'a': [10, 20]}
    """
    inside = children(value) if depth < DEEPEST else None
    if inside is None:
        return replace(value)
    pairs = [(item, refilled(item, replace, depth + 1)) for _, item in inside]
    if isinstance(value, tuple):
        new = [new for _, new in pairs]
        return type(value)(*new) if hasattr(value, "_fields") else type(value)(new)
    made = copy.copy(value)
    _put(made, [(old, new) for old, new in pairs if old is not new])
    return made
