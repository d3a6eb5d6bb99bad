"""The verb ``memory``: reports the memory kept for backward, and the references that keep earlier graphs alive."""

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
    """Measure the memory kept for backward in a block of training steps, and find objects that outlive a step.

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

    - ``model``: the model whose paths name modules in the report, in PyTorch. Without it they are named by their class.
    - ``backend``: only needed if several frameworks are imported and no model is given.

    A step ends with ``optimizer.step()``, in TensorFlow with a step of a Keras optimizer, or when the program calls
    ``report.step()``, which JAX programs must do. If there were at least three steps, the end of the block looks for
    objects of several earlier steps that still exist, and for the variables that refer to them. These objects are
    graphs in PyTorch, pullbacks and arrays in JAX, and tapes and arrays in TensorFlow.

    The block's value is a ``MemoryReport``, which is filled when the block ends. Raises NoBackend, and Unsupported for
    a framework that does not report the memory it keeps.
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
