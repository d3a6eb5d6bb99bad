"""The verb ``noise_floor``: how much each entry of a reference moves when its inputs move by one ulp."""

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
    """Make a function or model that, called with its arguments, returns the floor of each entry, for ``bp.diff``.

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

    The target runs once as it is, and then ``runs`` times with each floating-point argument, and each parameter and
    buffer of a model that is the target or an argument, moved by one unit in the last place, up or down. What a
    function takes from elsewhere does not move. The floor of an entry is 4 times the largest difference to the first
    run, and up to 16 times that where it has few elements; it is at least 2 eps of its dtype.

    - ``target``, ``select``, ``of``, ``wrt``, ``cotangent`` and ``backend`` are as in ``probe``.
    - ``precision`` is that of what is to be compared with the reference, where it is a lower one: the target also runs
      as often with arguments and parameters cast to it, ``"bfloat16"`` say.
    - ``runs`` is how often the target runs with what was moved.
    - ``executor`` makes these runs in other processes, as in ``sweep``.

    All runs draw the same random numbers, and afterwards the program's state is as it was (docs/replay.md).

    Returns a ``NoiseFloor``. Raises what ``probe`` raises, and BadOption where nothing can be moved;
    Unsupported where the first run has taken from an iterator that the target holds.
    """
    return NoiseRuns(target, backend, select, of, wrt, cotangent, precision, runs, executor)


__all__ = ["NoiseFloor", "noise_floor"]
