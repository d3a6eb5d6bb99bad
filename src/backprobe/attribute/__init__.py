"""The verb ``attribute``: how much of the difference between two runs goes through each value, by one backward pass."""

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
"""How messages spell a call of the program, and the probe of some names."""


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

    The attribution of a value is (clean - corrupt) · gradient, summed over its elements: its value in the clean run
    less its value in the corrupt run, and the gradient of the corrupt run. It is what the output would change by if the
    clean value took its place there, as far as the output is linear in it. That of an edge is the part of it that
    flows along this edge. This is known as attribution patching, and of edges as edge attribution patching (EAP).

    - ``target`` is the function or model.
    - ``clean`` and ``corrupt`` are the arguments of both runs: a tuple of them, a dict by name, or one argument alone.
    - ``select`` is a pattern, or a list of them, of the values: modules, inner values, arguments, by the names that
      ``probe`` gives them.
    - ``of`` is the output, as in ``probe``: a path into the return value, a function of it, or any value by name. It is
      one number, such as a difference of two logits.
    - ``steps`` takes the mean gradient at so many points on the way from the corrupt run to the clean one: integrated
      gradients, and of edges EAP-IG. There is a run for each point.
    - ``along`` are the values that move on this way. By default these are the first of the selected values, those that
      no other of them flows into.
    - ``axis`` also keeps the attribution of each index along an axis of the values, or several: ``result.parts``.
    - ``edges=False`` leaves out the edges between the values, and the short backward pass of each value for them.
    - ``chunk`` is how many values are held at once. Each chunk has runs of its own; by default all are held at once.
    - ``executor`` makes the runs backward in other processes, one for each chunk at each of the ``steps``, as in
      ``sweep``. Results are those of one process, bit by bit.
    - ``backend`` is needed only where the arguments do not show which it is.

    >>> round(bp.attribute(f, clean, corrupt, ["x"], steps=10).sum, 3)
    45.0

    All runs draw the same random numbers and begin with the same buffers and parameters. Afterwards the program's state
    is as it was, as after each verb that runs a program again (docs/replay.md).

    Raises BadOption where a value has another shape in the other run, or is in one of them alone; NoGradient for a
    name that has no gradient; NothingMatched for a pattern that matches nothing, BadOutput for an output that is not
    one number, and what ``probe`` raises.
    """
    return _Waiting(target, backend, select, of, clean, corrupt, steps, along, axis, edges, chunk, executor)()


class _Waiting(AskedAttribution):
    # The target and both runs, ready to be called.
    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Attribution:
        from backprobe.attribute.runs import AttributionRuns  # which imports NumPy

        with spelled_as(CALLED, r"\1("), spelled_as(PROBED, r"bp.attribute(\1, clean, corrupt, "):
            return AttributionRuns(self, self._backend_of()).run()
