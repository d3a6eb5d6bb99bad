"""The verb ``noise_floor``: measures how much each value and gradient changes if the inputs change by one ulp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

from backprobe.backends.discover import BackendName
from backprobe.diff.floor import NoiseFloor
from backprobe.noise_floor.runs import NoiseRuns
from backprobe.probe.several_outputs import Of
from backprobe.probe.waiting import Waiting
from backprobe.record.typed import P


def noise_floor(
    target: Callable[P, Any],
    select: str | Sequence[str] | None = None,
    *,
    of: Of = None,
    wrt: str | Sequence[str] | None = None,
    cotangent: Any = None,
    precision: str | None = None,
    runs: int = 4,
    executor: Executor | None = None,
    backend: BackendName | None = None,
) -> Waiting[P, NoiseFloor]:
    """Prepare to measure the noise floor of a function or model. Call the result with the arguments of the target.

    >>> import torch, backprobe as bp
    >>> def f(x, w):
    ...     u = x * w
    ...     return (u - 5.0).square()
    >>> def g(x, w):
    ...     u = x * w * (1 + 2**-23)
    ...     return (u - 5.00001).square()
    >>> x, w = torch.tensor(2.0), torch.tensor(3.0)
    >>> floor = bp.noise_floor(f)(x, w)
    >>> floor
    <NoiseFloor of 4 values: 4 runs with arguments and parameters moved by one ulp>
    >>> a, b = bp.probe(f)(x, w), bp.probe(g)(x, w)
    >>> bp.diff(a, b).ok, bp.diff(a, b, noise=floor).first.name
    (True, 'return')

    The target runs once unchanged, as the reference. Then it runs ``runs`` times, with all floating-point arguments
    moved up or down by one unit in the last place. If the target or an argument is a model, its parameters and buffers
    are moved as well. Python floats are moved only if nothing else can be. Other values that a function reads, such as
    global variables, are not moved. The floor of an entry is 4 times its largest difference from the reference, or up
    to 16 times for an entry with few elements. It is at least 2 eps of the entry's dtype, relative to its magnitude.
    ``bp.diff`` takes the result as ``noise=``.

    - ``target``, ``select``, ``of``, ``wrt``, ``cotangent`` and ``backend``: as in ``probe``.
    - ``precision``: a dtype such as ``"bfloat16"``, if the program to compare with the reference computes in lower
      precision. The target then also runs ``runs`` times with arguments and parameters cast to it.
    - ``runs``: the number of runs with moved values.
    - ``executor``: runs them in other processes, as in ``sweep``.

    All runs draw the same random numbers. Afterwards the program's state is restored (docs/replay.md).

    Returns a ``NoiseFloor`` when called. Raises the errors of ``probe``, BadOption if no value can be moved, and
    Unsupported if the first run has consumed items of an iterator that the target holds.
    """
    return NoiseRuns(target, backend, select, of, wrt, cotangent, precision, runs, executor)


__all__ = ["NoiseFloor", "noise_floor"]
