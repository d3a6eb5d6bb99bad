"""One captured value, from the moment when it gets its name until backward has run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backprobe.record.entries import GradStatus
from backprobe.record.reasons import Reason


@dataclass(eq=False)
class Capture:
    """A tensor, which never changes, or a Variable at one version, with its value at that version."""

    source: Any  # the object with respect to which the tape differentiates
    value: Any
    number: int  # the number of the tensor, or of the Variable's handle
    version: int = 0
    is_variable: bool = False
    status: GradStatus = GradStatus.OK  # OK if the tape follows the value, else why it has no gradient
    why: Reason | None = None

    @property
    def is_followed(self) -> bool:
        return self.status is GradStatus.OK

    @property
    def key(self) -> tuple[int, int]:
        return self.number, self.version
