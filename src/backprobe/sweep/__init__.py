"""The verb ``sweep``: replace one value after another, and see what each changes of the output."""

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
    """Make a function or model that, called with its arguments, replaces one value after another, one in each run.

    >>> import torch, backprobe as bp
    >>> def f(x, w, b):
    ...     u = x * w
    ...     v = u + b
    ...     return torch.relu(v)
    >>> swept = bp.sweep(f, ["u", "v"], replace=torch.zeros_like)(3.0, 2.0, 1.0)
    >>> swept.output, swept.effects
    (7.0, {'u': -6.0, 'v': -7.0})

    - ``target`` is the function or model.
    - ``select`` is a pattern, or a list of them, of the values that are replaced: floating-point tensors, and
      parameters where ``replace=`` of a probe takes them.
    - ``of`` is the output, as in ``probe``: a path into the return value, a function of it, or any value by name. It is
      one number.
    - ``replace`` is a function of the value, such as ``torch.zeros_like``: an ablation. Or it is the recording of
      another run, whose entries of the same names take the place of the values: activation patching.
    - ``axis`` makes one run for each index along an axis of the values, or for each combination of indices along
      several: positions, or heads. The effects are then by names such as ``h.0[:, 3]``.
    - ``approximate`` adds gradient × (replaced - original) of each value, summed, from the one backward pass of the run
      without replacing: what the effect would be if the output were linear in the value. For a recording this is called
      attribution patching.
    - ``executor`` makes the runs in other processes: a ``ProcessPoolExecutor``, Dask's ``client.get_executor()``,
      ``bp.executors.ray(2)``. Results are those of one process, bit by bit.
    - ``backend`` is needed only where the arguments do not show which it is.

    >>> clean = bp.probe(f)(4.0, 2.0, 1.0)
    >>> bp.sweep(f, ["u", "w"], replace=clean)(3.0, 2.0, 1.0).effects
    {'w': 0.0, 'u': 2.0}

    All runs draw the same random numbers and begin with the same buffers and parameters. Afterwards the program's state
    is as it was, as after each verb that runs a program again (docs/replay.md).

    Returns a ``Sweep`` when called. A user who stops it with Ctrl-C finds the runs until then as ``so_far`` of the
    KeyboardInterrupt. Raises NothingMatched for a pattern that matches nothing, BadOutput for an output that is not one
    number, BadOption for a recording without one of the values, or with another shape of it, or an executor that cannot
    be used, WorkerLost, and what ``probe`` raises.
    """
    return _Waiting(target, backend, select, of, replace, axis, approximate, executor)


class _Waiting(AskedSweep[P]):
    # A sweep ready to be called.
    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sweep:
        from backprobe.sweep.runs import ReplacedRuns  # which imports NumPy

        with spelled_as(r"^bp\.probe\((?!.*\), for every name)", "bp.sweep("):
            return ReplacedRuns(self, self._backend_of(args, kwargs), args, kwargs).run()
