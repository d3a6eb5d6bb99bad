"""The verb ``memory``: what is kept for backward, and what keeps the graphs of earlier steps alive."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from backprobe.backends.discover import BackendName, find_backend
from backprobe.backends.refusals import refuse
from backprobe.memory.report import Held, MemoryReport

__all__ = ["Held", "MemoryReport", "memory"]


@contextmanager
def memory(model: Any = None, *, backend: BackendName | None = None) -> Iterator[MemoryReport]:
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

    - ``model`` gives modules the names that they have in it, in PyTorch. Without one they are named by their class.
    - ``backend`` is needed only where several frameworks are imported and no model is given.

    A step ends with ``optimizer.step()``, in TensorFlow with a step of a Keras optimizer, or where the program calls
    ``report.step()``, as in JAX. What outlives its step is looked for when the block ends, if there were three steps or
    more: graphs of several earlier steps, in JAX pullbacks and in TensorFlow tapes, arrays of several earlier steps
    there, and the variable that leads to them.

    Gives a ``MemoryReport`` that is filled when the block ends. Raises NoBackend, and Unsupported for a framework that
    does not tell what it keeps.
    """
    values = [sys._getframe(2)] if model is None else [model]
    found = find_backend(backend, values, spelled="bp.memory({})")
    listener = (found.memory or refuse(found, "memory", "bp.memory()"))(model)
    report = MemoryReport(_step=listener.step)
    listener.open()
    try:
        yield report
    finally:
        listener.close()
        report._step = None
    report._fill(listener, sys._getframe())
