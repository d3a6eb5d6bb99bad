"""The verb ``per_sample``: the gradient that each sample of a batch brings to any value, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from backprobe.backends.discover import BackendName
from backprobe.per_sample.asked import AskedSamples
from backprobe.per_sample.result import PerSample
from backprobe.probe.request import spelled_as
from backprobe.probe.waiting import Waiting
from backprobe.record.typed import P

__all__ = ["PerSample", "per_sample"]


def per_sample(
    target: Callable[P, Any],
    select: str | Sequence[str],
    *,
    of: str | int | Callable[[Any], Any] | None = None,
    chunk: int | None = None,
    batch: str | Sequence[str] | None = None,
    backend: BackendName | None = None,
) -> Waiting[P, PerSample]:
    """Make a function or model that, called with a batch, returns the gradient of each sample in it.

    >>> import torch, backprobe as bp
    >>> def loss(w, x, y):
    ...     error = x @ w - y
    ...     return error.square().mean()
    >>> w, x, y = torch.ones(2), torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]), torch.zeros(3)
    >>> samples = bp.per_sample(loss, ["w", "error"])(w, x, y)
    >>> samples["w"]
    tensor([[0.6667, 0.0000],
            [0.0000, 2.6667],
            [6.0000, 0.0000]])
    >>> bp.probe(loss)(w, x, y)["w"].grad
    tensor([6.6667, 2.6667])
    >>> samples.norms("w")["w"].round(2)
    array([0.67, 2.67, 6.  ])

    - ``target`` is the function or model.
    - ``select`` is a pattern, or a list of them, of the values whose gradients are taken: parameters, arguments and
      inner values, by the names that ``probe`` gives them.
    - ``of`` is the output, as in ``probe``: a path into the return value, ``"loss"`` say, a function of it, or any
      value by name. It is one number.
    - ``chunk`` is how many samples are computed at once. By default as many as have at most 1 GB of gradients
      together, and no more than a quarter of the memory that is free on their device.
    - ``batch`` are the names of the arguments whose first axis counts the samples. By default these are all arguments
      that hold tensors, all of the same length along their first axis, and are not selected.
    - ``backend`` is needed only where the arguments do not show which it is.

    A sample runs as a batch of one, under the framework's own ``vmap``. The rows of a gradient sum to the gradient of
    the loss as the program computes it: where that is a mean over the samples, each row is divided by their number,
    and ``weights`` says by how much. This is compared in each call with one run of the whole batch.

    Afterwards the program's state is as it was, as after each verb that runs a program again (docs/replay.md).

    Returns a ``PerSample`` when called. Raises Unsupported, with the line, where what a sample computes depends on the
    others in its batch, as under a batch normalisation in training; BadOption where the samples of the arguments
    cannot be told; NothingMatched for a pattern that matches nothing, and what ``probe`` raises.
    """
    return _Waiting(target, backend, select, of, chunk, batch)


class _Waiting(AskedSamples[P]):
    # A target ready to be called.
    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PerSample:
        from backprobe.per_sample.measure import measured  # which imports NumPy

        with spelled_as(r"^bp\.probe\((?!.*\), for every name)", "bp.per_sample("):
            found = self._found(args, kwargs, "run on single samples", "its values were fixed when it was made")
            return measured(self, found, args, kwargs)
