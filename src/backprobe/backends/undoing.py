"""Runs a list of undo functions to the end, even if interrupted."""

from __future__ import annotations

from collections.abc import Callable
from operator import call
from typing import Any


def undo_all(undo: list[Any], take_back: Callable[[Any], object] = call) -> None:
    """Call the undo functions, last first, and remove them. A call that raises is made once more. The first exception
    is raised at the end.

    ``take_back`` is called with each item of the list. By default it calls the item.

    >>> undo = [lambda: print("first"), lambda: print("second")]
    >>> undo_all(undo)
    second
    first
    >>> undo
    []
    """
    error: BaseException | None = None
    is_again = False
    while undo:
        try:
            take_back(undo[-1])
        except BaseException as raised:  # noqa: BLE001  it is raised below
            error = error or raised
            is_again = not is_again
            if is_again:
                continue
        is_again = False
        undo.pop()
    if error is not None:
        raise error
