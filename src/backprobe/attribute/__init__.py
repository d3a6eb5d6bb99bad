"""The verb ``attribute``: attributes the difference between two runs to single values, by their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

from backprobe.attribute.asked import AskedAttribution
from backprobe.attribute.result import Attribution
from backprobe.backends.discover import BackendName
from backprobe.probe.request import spelled_as

__all__ = ["Attribution", "attribute"]

CALLED, PROBED = r"^bp\.probe\(([\w<>]+)\)\(", r"^bp\.probe\(([\w<>]+), "
"""Patterns for error messages: they find calls of ``probe``, which are shown as the user's own call instead."""


def attribute(
    target: Callable[..., Any],
    clean: Any,
    corrupt: Any,
    select: str | Sequence[str],
    *,
    of: str | int | Callable[[Any], Any] | None = None,
    steps: int | None = None,
    along: str | Sequence[str] | None = None,
    axis: int | Sequence[int] | None = None,
    edges: bool = True,
    chunk: int | None = None,
    executor: Executor | None = None,
    backend: BackendName | None = None,
) -> Attribution:
    """Attribute the difference between two runs to named values and to the edges between them.

    >>> import torch, backprobe as bp
    >>> def f(x, w):
    ...     u = x * w
    ...     v = u + 2 * x
    ...     return (u * v).sum()
    >>> clean, corrupt = (torch.tensor([2.0]), torch.tensor([3.0])), (torch.tensor([1.0]), torch.tensor([3.0]))
    >>> result = bp.attribute(f, clean, corrupt, ["x", "u", "v"])
    >>> result.change, result["u"], result["v"]
    (45.0, 24.0, 15.0)
    >>> result.edges["u", "v"], result.edges["u", "return"]
    (9.0, 15.0)

    The attribution of a value is (clean - corrupt) · gradient, summed over its elements: the difference between its
    values in the two runs, times its gradient in the corrupt run. This estimates how much the output of the corrupt run
    would change if the value were replaced by its clean value. The estimate is exact if the output is linear in the
    value. The attribution of an edge is the part of its source's attribution that flows along that edge. The method is
    known as attribution patching, and for edges as edge attribution patching (EAP).

    - ``target`` is the function or model.
    - ``clean`` and ``corrupt`` are the arguments of the two runs: a tuple, a dict by name, or a single argument.
    - ``select`` is a pattern or a list of patterns for the values: modules, inner values and arguments, by the names
      that ``probe`` gives them.
    - ``of`` is the output, as in ``probe``: a path into the return value, a function of the return value, or any value
      by name. The output must be a single number, such as a difference of two logits.
    - ``steps`` is a number of points between the corrupt run and the clean run. The gradient is averaged over these
      points, with one run for each point. This is known as integrated gradients, and for edges as EAP-IG.
    - ``along`` are the values that are interpolated between the two runs at these points. By default these are the
      selected values that depend on no other selected value.
    - ``axis`` is an axis of the values, or several axes. ``result.parts`` then has an attribution for each index along
      them.
    - ``edges=False`` leaves out the edges between the values. This saves a short backward pass for each value.
    - ``chunk`` is how many values are kept in memory at the same time. Each chunk has its own runs. By default there is
      a single chunk of all values.
    - ``executor`` does the backward runs in other processes, as in ``sweep``: one task for each chunk at each of the
      ``steps``. The results are bitwise the same as those of one process.
    - ``backend`` is the name of the framework. It is needed only if the arguments do not show which framework they
      belong to.

    >>> round(bp.attribute(f, clean, corrupt, ["x"], steps=10).sum, 3)
    45.0

    All runs draw the same random numbers and begin with the same buffers and parameters. Afterwards the program's state
    is restored, as after each verb that runs a program again (docs/replay.md).

    Raises BadOption if a value has different shapes or dtypes in the two runs or exists in only one of them, NoGradient
    for a name that has no gradient, NothingMatched for a pattern that matches nothing, BadOutput for an output that is
    not a single number, and all errors of ``probe``.
    """
    return _Waiting(target, backend, select, of, clean, corrupt, steps, along, axis, edges, chunk, executor)()


class _Waiting(AskedAttribution):
    # The target and the arguments of both runs. Calling this object runs the attribution.
    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Attribution:
        from backprobe.attribute.runs import AttributionRuns  # imported late, because it imports NumPy

        with spelled_as(CALLED, r"\1("), spelled_as(PROBED, r"bp.attribute(\1, clean, corrupt, "):
            return AttributionRuns(self, self._backend_of()).run()
