"""Values that a program holds: what it closes over, and what it finds among its globals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from backprobe.backends.pure_calls import closed_over
from backprobe.record.containers import leaves
from backprobe.source.user_code import innermost

DEEPEST = 4  # functions that call functions


def held_by(target: Any) -> Iterator[Any]:
    """The target, and what it and the functions that it calls close over and find among their globals."""
    waiting, seen = [(target, 0)], set[int]()
    while waiting:
        value, depth = waiting.pop()
        if id(value) in seen or depth > DEEPEST:
            continue
        seen.add(id(value))
        yield value
        function = innermost(value)
        if function is not None:
            known = [function.__globals__.get(name) for name in function.__code__.co_names]
            found = [leaf for one in (*closed_over(value), *known) for _, leaf in leaves(one)]
            waiting += [(one, depth + 1) for one in found]
