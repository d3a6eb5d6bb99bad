"""The recording of a block, which can be read before the block has ended."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NoReturn, Self

from backprobe.errors import NotSaved
from backprobe.record.entries import Record
from backprobe.record.lookup import Index
from backprobe.record.typed import T
from backprobe.recording import Recording
from backprobe.recording.results import NOT_KEPT
from backprobe.tracing.transcribe import FinishedRun


class BlockRecording(Recording[NoReturn, T]):
    """The recording of a block. While the block is open, look-ups return the values and gradients recorded so far.

    >>> import torch, backprobe as bp
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> with bp.probe() as rec:
    ...     u = x * 2
    ...     u.backward()
    >>> rec["x"].grad
    tensor(2.)
    """

    def __init__(self, read: Callable[[], Record | FinishedRun], progress: Callable[[], Any]) -> None:
        self._read: Callable[[], Record | FinishedRun] | None = read
        self._result = NOT_KEPT
        self._progress, self._read_at = progress, None

    @property
    def _now(self) -> Record | FinishedRun | Index:
        if self._read is not None and (now := self._progress()) != self._read_at:
            self._known, self._read_at = self._read(), now
        return self._known

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy with tensors of its own. While the block is open, it is a copy of what is recorded so far."""
        if self._read is None:
            return super().__deepcopy__(memo)
        so_far = copy.copy(self)
        so_far.settle(self.record)
        return copy.deepcopy(so_far, memo)

    def settle(self, record: Record | FinishedRun) -> None:
        """Called when the block has ended, with its final record."""
        self._known, self._read = record, None
        del self._progress  # this function would keep the run in memory

    @property
    def result(self) -> NoReturn:
        """A block returns nothing. Raises NotSaved."""
        raise NotSaved(
            "a block returns nothing",
            asked="rec.result",
            found="the recording of a block",
            why="its values are variables of your own",
            next="rec.outputs, for what backward() was called on",
        )
