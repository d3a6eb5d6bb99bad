"""Hooks on all modules, beside models that were compiled."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MESSAGE = re.compile(r"Using `torch\.compile\(module\)` when there are global hooks", re.IGNORECASE)
IGNORED: Any = ("ignore", MESSAGE, UserWarning, None, 0)
"""The filter that ignores the warning. It is put into ``warnings.filters`` directly: after ``filterwarnings``, Python
shows warnings again that it shows once for each line.
"""


@contextmanager
def without_warning_of_hooks() -> Iterator[None]:
    """Inside this context PyTorch does not warn that global hooks also see the wrapper of a compiled model. Hooks that
    are installed here have to ignore it.
    """
    filters: Any = warnings.filters
    filters.insert(0, IGNORED)
    try:
        yield
    finally:
        if IGNORED in filters:  # otherwise the program has set other filters
            filters.remove(IGNORED)
