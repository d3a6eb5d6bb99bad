"""Sets attributes of an object for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def temporarily(owner: Any, **values: Any) -> Iterator[None]:
    """Within this context these attributes of an object have these values; afterwards they have their former values.

    >>> from types import SimpleNamespace
    >>> log = SimpleNamespace(is_muted=False)
    >>> with temporarily(log, is_muted=True):
    ...     log.is_muted
    True
    >>> log.is_muted
    False
    """
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)
