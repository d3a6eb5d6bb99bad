"""Copies recordings together with the result of the function. A recording holds the result itself, without a copy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from typing import Any, TypeVar

from backprobe.errors import NotSaved
from backprobe.record.containers import leaves
from backprobe.record.quoted_errors import first_line

Held = TypeVar("Held")


class NoResult:
    """Used instead of a result that was not stored. It is a class, so that copies and pickles refer to the same
    object.
    """


NOT_KEPT = NoResult


def deep_copy(recording: Held, state: Mapping[str, Any], memo: dict[int, Any]) -> Held:
    """Return a deep copy of a recording with this state, and with a result of its own.

    Raises NotSaved if something that the function returned can be neither copied nor pickled.
    """
    for _, leaf in leaves(state["_result"]):
        try:
            copy.deepcopy(leaf, memo)
        except Exception:  # noqa: BLE001  PyTorch copies no tensor with a history, but pickles it
            memo[id(leaf)] = _pickled(leaf)
    made = memo[id(recording)] = type(recording).__new__(type(recording))
    vars(made).update(copy.deepcopy(state, memo))
    return made


def _pickled(value: Any) -> Any:
    try:
        return pickle.loads(pickle.dumps(value))
    except Exception as error:
        raise NotSaved(
            "a recording is not copied together with what the function returned",
            asked="copy.deepcopy(rec)",
            found=f"{type(value).__name__}: {first_line(error)}",
            why="it can be neither copied nor pickled",
            next='rec.save("folder"), then bp.load("folder")',
        ) from error
