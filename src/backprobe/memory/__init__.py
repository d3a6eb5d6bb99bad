"""The verb ``memory``: what is kept for backward, and what keeps the graphs of earlier steps alive."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from backprobe.backends.discover import BackendName, find_backend
from backprobe.backends.refusals import refuse
from backprobe.memory.report import Held, MemoryReport

__all__ = ["Held", "MemoryReport", "memory"]


def memory(model: Any = None, *, backend: BackendName | None = None) -> Memory:
    """Measure, in a block around one or several steps, what is kept for backward and what outlives its step.

    >>> import torch, backprobe as bp
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters())
    >>> losses = []
    >>> with bp.memory(model) as report:
    ...     for _ in range(5):
    ...         loss = model(torch.ones(3, 4)).square().mean()
    ...         losses.append(loss)
    ...         loss.backward()
    ...         optimizer.step()
    ...         optimizer.zero_grad()
    >>> report.steps, report.held[0].path, report.held[0].graphs
    (5, 'losses[…]', 4)

    - ``model`` gives modules the names that they have in it. Without one they are named by their class.
    - ``backend`` is needed only where several frameworks are imported and no model is given.

    A step ends with ``optimizer.step()``, or where the program calls ``report.step()``. What outlives its step is
    looked for when the block ends, if there were three steps or more: graphs of several earlier steps, and the variable
    that leads to them.

    Returns a context manager, which gives a ``MemoryReport`` that is filled when the block ends. Raises NoBackend, and
    Unsupported for a framework that does not tell what it keeps.
    """
    return Memory(model, backend)


class Memory:
    """A block whose memory is measured."""

    def __init__(self, model: Any, backend: BackendName | None) -> None:
        values = [] if model is None else [model]
        self.backend = find_backend(backend, values or [sys._getframe(2)], spelled="bp.memory({})")
        make = self.backend.memory or refuse(self.backend, "memory", "bp.memory()")
        self.listener = make(model)
        self.report = MemoryReport()

    def __enter__(self) -> MemoryReport:
        """The block begins."""
        self.report._step = self.listener.step
        self.listener.open()
        return self.report

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The block is over, and the report is filled."""
        self.listener.close()
        if kind is None:
            self.report._fill(self.listener, sys._getframe(1))
        self.report._step = None
