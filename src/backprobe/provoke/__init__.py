"""The verb ``provoke``: searches inputs that make a program produce NaN or Inf."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from backprobe.backends.discover import BackendName
from backprobe.executors import EXECUTOR
from backprobe.probe.waiting import Waiting
from backprobe.provoke.asked import AskedProvoke
from backprobe.provoke.report import Provocation, Provocations
from backprobe.record.options import Option, check_options
from backprobe.record.renamed import renamed
from backprobe.record.typed import P

__all__ = ["Provocation", "Provocations", "provoke"]

TRIES = 100
OPTIONS = (Option("tries", int, 1, str(TRIES)), Option("seed", int, 0, "0"), EXECUTOR)


@renamed("bp.provoke(f{})", {"steps": "tries={}"})
def provoke(
    target: Callable[P, Any],
    *,
    bounds: Any = None,
    seed: int = 0,
    tries: int = TRIES,
    executor: Executor | None = None,
    backend: BackendName | None = None,
) -> Waiting[P, Provocations]:
    """Prepare to search inputs at which a target gives NaN or Inf. Call the result with an example input.

    >>> import torch, backprobe as bp
    >>> def loss(x, w):
    ...     p = torch.sigmoid(x @ w)
    ...     return -torch.log(1 - p).mean()
    >>> x, w = torch.tensor([[0.5, 1.0], [2.0, -1.0]]), torch.tensor([1.0, 0.5])
    >>> report = bp.provoke(loss, bounds={"x": (-30.0, 30.0), "w": None})(x, w)
    >>> report.heading, report.findings[0].headline
    ('loss breaks at 1 of 1 risky operation', '`torch.log(1 - p)` gives NaN or Inf')
    >>> loss(*report.findings[0].args)
    tensor(inf)

    The program runs once under a probe. Operations such as ``log``, ``sqrt``, division or ``exp`` have no finite result
    or derivative for some operands. For each such operation, the search moves the operand toward the end of its valid
    range. It follows the operand's gradient with respect to the arguments step by step, from the example and from a few
    other starting points. An input is reported if the framework itself gives NaN or Inf in the result, or in the
    gradient of the result's sum, in a run without a probe. Then the search moves the input as close to the example as
    possible.

    - ``target``: the function or model. Arguments that are not floating are never changed.
    - ``bounds``: a pair of numbers for all arguments, or a dict that maps arguments to pairs, or to None if an argument
      must not be varied. By default, numbers stay within the range of their argument in the example. An argument with a
      single number x varies from -x to x.
    - ``seed``: the seed of random numbers in each run of the program and in the search.
    - ``tries``: the largest number of inputs that are tried for each operand.
    - ``executor``: searches operands in other processes, as in ``sweep``.
    - ``backend``: only needed if the arguments do not show the framework.

    Afterwards the program's state is restored (docs/replay.md). Other effects of the program, such as printing or
    writing to files, happen in each run.

    Raises BadOption, NoBackend, NoSource, NothingToDifferentiate and Unsupported. Errors of the program at the example
    are raised unchanged.

    The search follows the idea of GRIST: Yan et al., "Exposing Numerical Bugs in Deep Learning via Gradient
    Back-Propagation", ESEC/FSE 2021.
    """
    check_options({"tries": tries, "seed": seed, "executor": executor}, OPTIONS)
    return _Waiting(target, backend, tries, bounds, seed, executor)


class _Waiting(AskedProvoke[P]):
    # A search that runs when it is called with an example.
    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Provocations:
        from backprobe.provoke.run import run_provoke  # imports NumPy, which is only needed for a search

        return run_provoke(self, self._backend_of(args, kwargs), args, kwargs)
