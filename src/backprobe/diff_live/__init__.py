"""The verb ``diff_live``: two programs compared segment by segment, each segment starting from the first's values."""

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
    """Make a comparison of two functions or models that, called with their arguments, returns where they disagree.

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

    - ``reference`` and ``port`` are called with the same arguments; where they are of two frameworks, give arrays of
      NumPy.
    - ``select``, ``of``, ``wrt``, ``cotangent`` and ``backend`` are as in ``probe``, for both; a pair as ``of`` or
      ``backend`` has one for each.
    - ``rename``, ``layout``, ``noise`` and ``convention`` are as in ``diff``.

    Both run once, and are compared as ``diff`` compares them. If anything differs, the port runs once more, and each
    named value that differs goes on as the reference has it, and each gradient that differs flows on as the
    reference's. So what is found at a value is the mistake of the lines between it and the values before: none is
    passed on, and each mistake is found by itself.

    All runs draw the same random numbers, and afterwards the state of both is as it was (docs/replay.md).

    Returns a ``DiffReport``. Raises what ``probe`` and ``diff`` raise.
    """
    return DiffRuns(reference, backend, port, select, of, wrt, cotangent, rename, layout, noise, convention)
