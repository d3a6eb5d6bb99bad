"""Names that a release has changed: for one release, using the old name raises an error that gives the new one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, cast

from backprobe.errors import BadOption, UnknownAttribute
from backprobe.record.brief import written

F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K", bound=type[Any])
Spelling = str | Callable[[Mapping[str, Any]], str]


def renamed(call: str, names: Mapping[str, Spelling]) -> Callable[[F], F]:
    """Decorator that refuses old keyword parameters of a function and keeps its signature. Not for functions that run
    often.

    ``call`` is the call as text, with ``{}`` after its last argument. A new spelling is an argument such as
    ``folder={}``, in which ``{}`` is replaced by the given value; or a whole line; or a function of all given keywords.
    """

    def around(function: F) -> F:
        @wraps(function)
        def checked(*args: Any, **given: Any) -> Any:
            if not names.keys().isdisjoint(given):
                refuse_renamed(call, names, given)
            return function(*args, **given)

        return cast("F", checked)

    return around


def refuse_renamed(call: str, names: Mapping[str, Spelling], given: Mapping[str, Any]) -> None:
    """Raise BadOption if one of these keywords is an old name."""
    verb, added = call.partition("(")[0], ""
    old = {name: value for name, value in given.items() if name in names}
    new = [one(given) if callable(one := names[name]) else one.format(written(old[name])) for name in old]
    for one in dict.fromkeys(filter(None, new)):
        name, is_argument, value = one.partition("=")
        if not (is_argument and name.isidentifier()):
            call, added = one, ""
            break
        placed = re.search(rf"\b{name}\b(?![(=])", call)
        if placed is not None:  # the parameter has become a positional argument
            call = call[: placed.start()] + value + call[placed.end() :]
        else:
            added += f", {one}"
    if old:
        raise BadOption(
            f"{verb} has no {', '.join(f'{name}=' for name in old)}",
            asked=", ".join(f"{name}={written(value)}" for name, value in old.items()),
            next=call.replace("{}", added),
        )


def renamed_attributes(**names: str) -> Callable[[K], K]:
    """Class decorator that refuses old attributes; ``names`` maps each to its new name."""

    def around(kind: K) -> K:
        def missing(self: Any, name: str) -> Any:
            if name in names:
                raise UnknownAttribute(
                    f"a {kind.__name__} has no {name!r} any more", asked=f".{name}", next=f".{names[name]}"
                )
            raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")

        cast("Any", kind).__getattr__ = missing
        return kind

    return around
