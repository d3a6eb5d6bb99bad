"""The verb ``provoke``: which input would break a program?"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from backprobe.backends.discover import BackendName
from backprobe.backends.protocol import Backend
from backprobe.executors import EXECUTOR
from backprobe.probe.waiting import Waiting
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
    """Make a function or model that, called with an example, searches inputs near it at which it gives NaN or Inf.

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

    The program runs once under a probe. Of each operation that has no finite result or derivative everywhere, such as
    ``log``, ``sqrt``, a division or ``exp``, the operand is then brought to the end of its range, step by step along
    its own gradient with respect to the arguments, from the example and from a few other starts. An input counts where
    the framework itself gives NaN or Inf in the result, or in the gradient of its sum, in a run without a probe. It is
    then brought as near to the example as it can be.

    - ``target`` is the function or model. Arguments that are integers, or not floating, are left as they are.
    - ``bounds`` is a pair of numbers for all arguments, or a dict of pairs by argument; an argument of None is not
      varied. By default a number stays within the range of its argument in the example; one number alone goes from its
      negative to itself.
    - ``seed`` is what random numbers begin from in each run of the program, and those of the search.
    - ``tries`` is how many inputs are tried for each operand, at most.
    - ``executor`` searches operands in other processes, as in ``sweep``.
    - ``backend`` is needed only where the arguments do not show which it is.

    Afterwards the program's state is as it was (docs/replay.md). What it prints, or writes into its own lists or into
    files, happens in each run.

    Raises BadOption, NoBackend, NoSource, NothingToDifferentiate and Unsupported; what the program raises at the
    example comes out as it is.

    The search follows the idea of GRIST: Yan et al., "Exposing Numerical Bugs in Deep Learning via Gradient
    Back-Propagation", ESEC/FSE 2021.
    """
    check_options({"tries": tries, "seed": seed, "executor": executor}, OPTIONS)
    return Provoke(target, backend, tries, bounds, seed, executor)


@dataclass(frozen=True, repr=False)
class Provoke(Waiting[P, Provocations]):
    """A function or model ready to be provoked."""

    tries: int
    bounds: Any
    seed: int
    executor: Any = None
    verb = "provoke"

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Provocations:
        from backprobe.provoke.run import run_provoke  # which imports NumPy, when there is something to search

        return run_provoke(self, self._backend_of(args, kwargs), args, kwargs)

    def _backend_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Backend:
        # The backend of the target. Raises BadOption, NoBackend and Unsupported.
        return self._found(args, kwargs, "provoked", "the program runs again and again, as Python runs it")
