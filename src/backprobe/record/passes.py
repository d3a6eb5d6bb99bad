"""A backward pass that a program ran itself, and its arguments."""

from __future__ import annotations

from dataclasses import dataclass

from backprobe.record.brief import place
from backprobe.record.source import Source


@dataclass(frozen=True)
class Pass:
    """One call that took gradients: ``output`` is the key of the output, ``call`` the called function.

    ``inputs`` are the printed names of the tensors to which the call was limited, as far as they are recorded.
    ``has_cotangents`` is True if cotangents such as ``grad_outputs`` were given. ``asked`` are the other arguments of
    the call.

    >>> import torch, backprobe as bp
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> with bp.probe() as rec:
    ...     y = x * x
    ...     (slope,) = torch.autograd.grad(y, x, create_graph=True)
    >>> rec.passes[0].output, rec.passes[0].call, rec.passes[0].inputs, rec.passes[0].asked
    ('y', 'autograd.grad', ('x',), ('create_graph',))
    """

    output: str
    call: str
    source: Source | None
    inputs: tuple[str, ...] = ()
    has_cotangents: bool = False
    asked: tuple[str, ...] = ()

    def __str__(self) -> str:
        at = "" if self.source is None else f" at {place(self.source.file, self.source.line)}"
        limits = f" for {', '.join(self.inputs)}" if self.inputs else ""
        asked = ", ".join([*(["cotangents"] if self.has_cotangents else []), *self.asked])
        return f"{self.call}{at}{limits}" + (f", with {asked}" if asked else "")
