"""The verb ``sweep``: replaces one value after another, and measures how the output changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

from backprobe.backends.discover import BackendName
from backprobe.probe.request import spelled_as
from backprobe.probe.waiting import Waiting
from backprobe.record.typed import P
from backprobe.recording import Recording
from backprobe.sweep.asked import AskedSweep
from backprobe.sweep.result import Sweep

__all__ = ["Sweep", "sweep"]


def sweep(
    target: Callable[P, Any],
    select: str | Sequence[str],
    *,
    of: str | int | Callable[[Any], Any] | None = None,
    replace: Callable[[Any], Any] | Recording,
    axis: int | Sequence[int] | None = None,
    approximate: bool = False,
    executor: Executor | None = None,
    backend: BackendName | None = None,
) -> Waiting[P, Sweep]:
    """Prepare to replace values of a target, one in each run. Call the result with the arguments of the target.

    >>> import torch, backprobe as bp
    >>> def f(x, w, b):
    ...     u = x * w
    ...     v = u + b
    ...     return torch.relu(v)
    >>> swept = bp.sweep(f, ["u", "v"], replace=torch.zeros_like)(3.0, 2.0, 1.0)
    >>> swept.output, swept.effects
    (7.0, {'u': -6.0, 'v': -7.0})

    - ``target``: the function or model.
    - ``select``: a pattern or a list of patterns for the values to replace. These are floating-point tensors, and
      parameters if a probe can replace them.
    - ``of``: the output, as in ``probe``: a path into the return value, a function of the return value, or the name of
      any value. The output must be a single number.
    - ``replace``: a function of the value, such as ``torch.zeros_like``, for an ablation. Or the recording of another
      run, whose entries replace the values of the same names, for activation patching.
    - ``axis``: makes one run for each index along an axis of the values, such as positions or heads, or for each
      combination of indices along several axes. Effects then have names such as ``h.0[:, 3]``.
    - ``approximate``: if True, also compute the sum of gradient × (replaced - original) for each value. This is what
      the effect would be if the output were linear in the value. It needs a single backward pass, in the run without
      replacements. With a recording, this is called attribution patching.
    - ``executor``: makes the runs in other processes: a ``ProcessPoolExecutor``, Dask's ``client.get_executor()``, or
      ``bp.executors.ray(2)``. The results equal those of a single process, bit by bit.
    - ``backend``: only needed if the arguments do not show the framework.

    >>> clean = bp.probe(f)(4.0, 2.0, 1.0)
    >>> bp.sweep(f, ["u", "w"], replace=clean)(3.0, 2.0, 1.0).effects
    {'w': 0.0, 'u': 2.0}

    All runs draw the same random numbers and begin with the same buffers and parameters. Afterwards the program's state
    is restored (docs/replay.md).

    Returns a ``Sweep`` when called. If Ctrl-C interrupts it, the attribute ``so_far`` of the KeyboardInterrupt has the
    finished runs. Raises NothingMatched for a pattern that matches nothing, BadOutput for an output that is not a
    single number, and WorkerLost. Raises BadOption if the recording lacks one of the values or has it with another
    shape or dtype, or if the executor cannot be used. Also raises the errors of ``probe``.
    """
    return _Waiting(target, backend, select, of, replace, axis, approximate, executor)


class _Waiting(AskedSweep[P]):
    # A sweep that runs when it is called with the arguments of its target.
    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sweep:
        from backprobe.sweep.runs import ReplacedRuns  # imports NumPy

        with spelled_as(r"^bp\.probe\((?!.*\), for every name)", "bp.sweep("):
            return ReplacedRuns(self, self._backend_of(args, kwargs), args, kwargs).run()
