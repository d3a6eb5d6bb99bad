"""Hooks on all modules, beside models that were compiled."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

MESSAGE = re.compile(r"Using `torch\.compile\(module\)` when there are global hooks", re.IGNORECASE)


@contextmanager
def without_warning_of_hooks() -> Iterator[None]:
    """Inside this context PyTorch does not warn that global hooks also see the wrapper of a compiled model. Hooks that
    are installed here have to ignore it.
    """
    own = ("ignore", MESSAGE, UserWarning, None, 0)
    filters: Any = warnings.filters
    # not by ``filterwarnings``, after which Python shows warnings again that it shows once for each line
    filters.insert(0, own)
    try:
        yield
    finally:
        with suppress(ValueError):  # the program has set other filters
            filters.remove(own)
