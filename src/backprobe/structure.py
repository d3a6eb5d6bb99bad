"""Containers of values: what leaves a value holds, under which keys, and the same container with other leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from backprobe.names import quote

DEEPEST = 8


def children(value: Any) -> Iterator[tuple[str, Any]] | None:
    """The keys and values directly inside a container; None where the value is no container."""
    if isinstance(value, dict):  # before dataclasses: transformers' ModelOutput is both, and leaves its Nones out here
        return ((str(key), item) for key, item in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return zip(value._fields, value, strict=True)
    if isinstance(value, tuple | list):
        return ((str(at), item) for at, item in enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value))
    return None


def leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every leaf of a container with its path, ``.0.hidden``; a value that is no container is its own leaf, ``""``.

    >>> list(leaves((1, {"k": 2})))
    [('.0', 1), ('.1.k', 2)]
    """
    inside = children(value) if depth < DEEPEST else None
    if inside is None:
        yield path, value
    else:
        for key, item in inside:
            yield from leaves(item, f"{path}.{quote(key)}", depth + 1)


def replaced(value: Any, replace: Callable[[Any], Any]) -> Any:
    """The same container with each leaf replaced; the container itself where no leaf changed."""
    inside = children(value)
    if inside is None:
        return replace(value)
    pairs = [(key, item, replaced(item, replace)) for key, item in inside]
    if all(old is new for _, old, new in pairs):
        return value
    new = [item for _, _, item in pairs]
    if isinstance(value, dict):
        return type(value)(zip(value.keys(), new, strict=True))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*new)
    if isinstance(value, tuple | list):
        return type(value)(new)
    return dataclasses.replace(value, **{key: item for key, _, item in pairs})


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
