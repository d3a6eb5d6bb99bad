"""The verb ``diff_live``: compares two programs segment by segment, each computing from the first program's values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backprobe.backends.discover import BackendName
from backprobe.diff import DiffReport
from backprobe.diff.floor import NoiseFloor
from backprobe.diff_live.runs import DiffRuns, Of
from backprobe.probe.waiting import Waiting
from backprobe.recording import Recording


def diff_live(
    reference: Callable[..., Any],
    port: Callable[..., Any],
    select: str | Sequence[str] | None = None,
    *,
    of: Of = None,
    wrt: str | Sequence[str] | None = None,
    cotangent: Any = None,
    rename: Mapping[str, str] | None = None,
    layout: Mapping[str, str | Sequence[int]] | None = None,
    noise: NoiseFloor | Recording | str | os.PathLike[str] | Sequence[Any] | None = None,
    backend: BackendName | tuple[BackendName, BackendName] | None = None,
    convention: str | tuple[str, str] | None = None,
) -> Waiting[..., DiffReport]:
    """Compare two programs: call the result with the arguments of both to get a report of where they disagree.

    >>> import torch, backprobe as bp
    >>> def f(x, w):
    ...     u = x * w
    ...     v = torch.sin(u)
    ...     return v * v
    >>> def g(x, w):
    ...     u = x * w.abs()
    ...     v = torch.sin(u)
    ...     return v * v * 2
    >>> report = bp.diff_live(f, g)(torch.tensor(2.0), torch.tensor(-3.0))
    >>> [finding.name for finding in report.findings]
    ['u', 'return']

    - ``reference`` and ``port`` are called with the same arguments. If they use two frameworks, pass NumPy arrays.
    - ``select``, ``of``, ``wrt``, ``cotangent`` and ``backend`` are as in ``probe``, for both programs. ``of`` and
      ``backend`` may also be a pair with one option for each program.
    - ``rename``, ``layout``, ``noise`` and ``convention`` are as in ``diff``.

    Both programs run once, and are compared as by ``diff``. If a value between arguments and outputs differs, or its
    gradient, the port runs once more. In this run each such value is replaced by the value of the reference, and so is
    each such gradient. A difference at a value is therefore caused by the lines between this value and the previous
    named values: a replaced error is not passed on, and each mistake is found by itself. A note names what could not be
    replaced.

    All runs draw the same random numbers. Afterwards the state of both programs is restored (docs/replay.md).

    Returns a ``DiffReport``. Raises the errors of ``probe`` and ``diff``.
    """
    return DiffRuns(reference, backend, port, select, of, wrt, cotangent, rename, layout, noise, convention)
