"""Names from a script's report, converted to names of the model, so that they can be pasted into ``bp.probe(model,
...)``.

A block finds modules through the running frames, and names them by class: ``/train/Net/Block#1:h``. Parameters are
named by the program's expression for them: ``trainer.model.head.weight``. The model's own names are paths that begin at
the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from backprobe.backends.capabilities import ModelCall
from backprobe.record.names import partition, split, strip
from backprobe.record.patterns import glob_of_modules, texts_of


def as_in_model(patterns: str | Sequence[str], target: Any, call: ModelCall) -> tuple[str, ...]:
    """Return the patterns, in which a script's names are converted to names of the model. Raises BadName."""
    root, found = type(target).__name__, list[str]()
    for text in texts_of(patterns):
        mark, body = text[: text.startswith("!")], text.removeprefix("!")
        first, dot, _ = body.partition(".")
        if body.startswith("/"):
            found += [mark + one for one in _of_frames(body, root, call.kinds())]
        elif dot and first.isidentifier() and not hasattr(target, first):
            known = [*call.module_paths(), *call.parameter_paths()]
            found.append(mark + _below(body, [path for path in known if path]))
        else:
            found.append(text)
    return tuple(found)


def _of_frames(body: str, root: str, kinds: Mapping[str, str]) -> list[str]:
    # Convert a name of a script's report, which consists of classes and functions, to names of the model. There is one
    # name for each module of the class, because a script counts the calls of all of these modules together. A name
    # without a class of the model is returned unchanged.
    scope, local = split(body)
    steps, of_model = partition(scope, "/"), {root, *kinds.values()}
    at = next((at for at, step in enumerate(steps) if strip(step) in of_model), None)
    if at is None:
        return [body]
    paths, rest = [""], steps[at + (strip(steps[at]) == root) :]
    while rest:
        above = tuple(f"{path}." for path in paths if path) or ("",)
        below = [path for path, kind in kinds.items() if path.startswith(above) and path and kind == strip(rest[0])]
        if not below:
            break
        paths, rest = below, rest[1:]
    inside = "".join(f"/{step}" for step in rest) + ("" if local is None else f":{local}")
    return [f"{path}{inside}" or ":return" for path in paths]


def _below(body: str, known: Sequence[str]) -> str:
    # Return a name without the prefix that leads to the model, if the rest is a name of the model. Otherwise return it
    # unchanged.
    rest = body
    while rest:
        expression = glob_of_modules(strip(re.split("[:/]", rest)[0]))
        if any(re.fullmatch(expression, path) for path in known):
            return rest
        rest = rest.partition(".")[2]
    return body
