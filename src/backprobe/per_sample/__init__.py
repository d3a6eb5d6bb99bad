"""The verb ``per_sample``: the contribution of each sample of a batch to the gradient of any named value."""

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
    """Prepare to compute the gradient of each sample of a batch. Call the result with the arguments of the target.

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

    - ``target``: the function or model.
    - ``select``: a pattern or a list of patterns for the values whose gradients are computed. These may be parameters,
      arguments and inner values, by the names that ``probe`` gives them.
    - ``of``: the output, as in ``probe``: a path into the return value such as ``"loss"``, a function of the return
      value, or the name of any value. The output must be a single number.
    - ``chunk``: the number of samples that are computed together. By default their gradients may use 1 GB, and at most
      a quarter of the free memory on their device.
    - ``batch``: the names of the arguments whose first axis is the batch axis. By default these are all arguments with
      tensors that are not selected. Their first axes must have the same length.
    - ``backend``: only needed if the arguments do not show the framework.

    Each sample runs as a batch of one, under the framework's own ``vmap``. The rows of a gradient sum to the gradient
    of the program's own loss. If the loss is a mean over the samples, each row is divided by their number; ``weights``
    contains these factors. Each call checks the sum against a run of the whole batch.

    Afterwards the program's state is restored (docs/replay.md).

    Returns a ``PerSample`` when called. Raises Unsupported, with the line, if the result for a sample depends on other
    samples of its batch, as with batch normalization in training. Raises BadOption if it is unclear which arguments
    hold the samples, NothingMatched for a pattern that matches nothing, and the errors of ``probe``.
    """
    return _Waiting(target, backend, select, of, chunk, batch)


class _Waiting(AskedSamples[P]):
    # A target that computes the gradients of the samples when it is called.
    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PerSample:
        from backprobe.per_sample.measure import measured  # imports NumPy

        with spelled_as(r"^bp\.probe\((?!.*\), for every name)", "bp.per_sample("):
            found = self._found(args, kwargs, "run on single samples", "its values were fixed when it was made")
            return measured(self, found, args, kwargs)
