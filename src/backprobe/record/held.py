"""Values as entries hold them: shared with the program, or lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backprobe.record.reasons import Reason


def plain_text(value: Any) -> str:
    """The text of a value that is not a tensor, such as a number or None; for a lost one, its kind, or the reason if
    the kind is unknown. (Python refuses to print integers of thousands of digits.)
    """
    if isinstance(value, Lost):
        return f"<{value.why.fields.get('kind', value.reason)}>"
    try:
        return repr(value)
    except ValueError:
        return f"an integer of {value.bit_length()} bits"


@dataclass(frozen=True)
class Lost:
    """Takes the place of a value that was overwritten before a copy could be taken, or that could not be kept."""

    why: Reason

    @property
    def reason(self) -> str:
        """A sentence that says why the value was lost."""
        return str(self.why)


@dataclass(frozen=True, eq=False, slots=True)
class Alias:
    """A value that shares memory with the program's own tensor. The value is lost when the program writes to the
    tensor.

    ``version`` is the tensor's version at the end of the recording, and ``current`` returns its version now; None if
    the framework does not count writes.
    """

    tensor: Any
    version: int
    current: Callable[[Any], int | None]

    @property
    def held(self) -> Any:
        """The tensor; ``Lost`` if it was written to since."""
        is_same = self.current(self.tensor) in (self.version, None)
        return self.tensor if is_same else Lost(Reason("overwritten_since"))

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has its own memory and its own count of writes, so the value itself is pickled."""
        return _itself, (self.held,)


def _itself(value: Any) -> Any:
    return value
