"""The verb ``provoke``: which input would break a program?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backprobe.backends.discover import find_backend, find_program
from backprobe.errors import BadOption, Unsupported
from backprobe.markup import facts, shown
from backprobe.probe.request import name_of, refuse_uncallable
from backprobe.provoke.report import Provocation, Provocations
from backprobe.record.containers import leaves
from backprobe.record.options import Option
from backprobe.record.renamed import renamed
from backprobe.source.tracebacks import FRAMES_OF_PROGRAM

__all__ = ["Provocation", "Provocations", "Provoke", "provoke"]

TRIES = 100


@renamed("bp.provoke(f{})", {"steps": "tries={}"})
def provoke(target: Any, *, tries: int = TRIES, backend: str | None = None) -> Provoke:
    """Make a function or model that, called with an example, searches inputs near it at which it gives NaN or Inf.

    >>> import torch, backprobe as bp
    >>> def loss(x, w):
    ...     p = torch.sigmoid(x @ w)
    ...     return -torch.log(1 - p).mean()
    >>> x, w = torch.tensor([[0.5, 1.0], [2.0, -1.0]]), torch.tensor([1.0, 0.5])
    >>> report = bp.provoke(loss)(x, w, bounds={"x": (-30.0, 30.0), "w": None})
    >>> report.heading, report.findings[0].headline
    ('loss breaks at 1 of 1 risky operation', '`torch.log(1 - p)` gives NaN or Inf')
    >>> loss(*report.findings[0].args)
    tensor(inf)

    The program runs once under a probe. Of each operation that has no finite result or derivative everywhere, such as
    ``log``, ``sqrt``, a division or ``exp``, the operand is then brought to the end of its range, step by step along
    its own gradient with respect to the arguments, from the example and from a few other starts. An input counts where
    the framework itself gives NaN or Inf in the result, or in the gradient of its sum, in a run without a probe. It is
    then brought as near to the example as it can be.

    ``bounds`` is a pair of numbers for all arguments, or a dict of pairs by argument; an argument of None is not
    varied. By default a number stays within the range of its argument in the example; one number alone goes from its
    negative to itself. Integers, and arguments that are not floating, are left as they are. ``seed`` is what random
    numbers begin from in each run of the program, and those of the search. ``tries`` is how many inputs are tried for
    each operand, at most.

    Random states, buffers of modules and ``.grad`` of parameters are afterwards as they were before. Each run of the
    program is a real one: what it prints or writes elsewhere happens each time.

    Raises BadOption, NoBackend, NoSource, NothingToDifferentiate and Unsupported; what the program raises at the
    example comes out as it is.

    The search follows the idea of GRIST: Yan et al., "Exposing Numerical Bugs in Deep Learning via Gradient
    Back-Propagation", ESEC/FSE 2021.
    """
    Option("tries", int, 1, str(TRIES)).check(tries)
    return Provoke(target, tries, backend)


@dataclass(frozen=True, repr=False)
class Provoke:
    """A function or model ready to be provoked: call it with an example."""

    target: Any
    tries: int
    backend: str | None

    def __repr__(self) -> str:
        return f"<Provoke of {name_of(self.target)}>"

    def _repr_html_(self) -> str:
        return shown(facts(f"Provoke of {name_of(self.target)}", []))

    def __call__(self, *example: Any, bounds: Any = None, seed: int = 0, **keywords: Any) -> Provocations:
        """Search inputs near this example that break the target. Returns the report."""
        with FRAMES_OF_PROGRAM:
            return self._searched(example, keywords, bounds, seed)

    def _searched(self, example: tuple[Any, ...], keywords: dict[str, Any], bounds: Any, seed: int) -> Provocations:
        from backprobe.provoke.run import run_provoke  # which imports NumPy, when there is something to search

        asked = f"bp.provoke({name_of(self.target)})"
        Option("seed", int, 0, "0").check(seed)
        if _is_graph(self.target, self.backend):
            raise Unsupported(
                "a graph cannot be provoked", asked=asked, found="operations that a session runs, instead of calls",
                why="the program runs again and again, as Python runs it",
                next="bp.provoke(f)(x), with f the Python function",
            )  # fmt: skip
        refuse_uncallable(self.target, "provoke")
        values = [leaf for value in (*example, *keywords.values()) for _, leaf in leaves(value)]
        found = find_backend(self.backend, [self.target, *values], spelled="bp.provoke(f, {})")
        found.refuse(self.target, asked)
        for value in values:
            found.refuse_argument(value, asked)
        return run_provoke(self.target, found, example, keywords, bounds, seed, self.tries)


def _is_graph(target: Any, backend: str | None) -> bool:
    # Is it a graph, whatever it would need to run?
    try:
        return find_program(backend, target, None) is not None
    except BadOption:
        return True
