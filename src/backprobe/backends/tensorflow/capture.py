"""One captured value, from the moment it is named until backward has run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backprobe.record.entries import GradStatus
from backprobe.record.reasons import Reason


@dataclass(eq=False)
class Capture:
    """A tensor, which never changes, or a Variable at one version with the value that it had then."""

    source: Any  # what the tape differentiates with respect to
    value: Any
    number: int  # the number of the tensor, or of the Variable's handle
    version: int = 0
    is_variable: bool = False
    status: GradStatus = GradStatus.OK  # why it has no gradient
    why: Reason | None = None

    @property
    def is_followed(self) -> bool:
        return self.status is GradStatus.OK

    @property
    def key(self) -> tuple[int, int]:
        return self.number, self.version
