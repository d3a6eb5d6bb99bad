"""The recorded values that a value was computed from: edges with their derivatives, reads, and indirect inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from backprobe.markup import facts, shown
from backprobe.record.brief import brief
from backprobe.record.positions import Position, named_by
from backprobe.record.source import Source

KEPT = {"static": True}
"""Marks fields that hold the recording's own tensors. A search for leaves skips them.

So a program that binds an entry to a variable adds no values to its own recording.
"""


@dataclass(frozen=True, repr=False)
class Edge:
    """One recorded value that flows directly into another, with the requested derivatives along this edge.

    ``partial`` is the local partial: the derivative of the value with respect to this input alone, with the other
    inputs held fixed. It has the input's shape if the value has one element; otherwise it exists only if
    ``partials="full"`` asked for the whole Jacobian block, with the value's shape followed by the input's.
    ``contribution`` is the part of the input's gradient that flows along this edge: the value's own gradient times the
    local partial (a vector-Jacobian product), in the input's shape. Each is None if it was not requested or does not
    exist.

    >>> import torch, backprobe as bp
    >>> bp.probe(lambda x: x * 3, partials=True)(torch.tensor(2.0))["return"].inputs
    (Edge(name='x', partial=tensor(3.), contribution=tensor(3.)),)
    """

    at: Position = field(repr=False)
    name: str = field(default="", kw_only=True, metadata=named_by("at"))
    partial: Any = field(default=None, metadata=KEPT)
    contribution: Any = field(default=None, metadata=KEPT)

    def __repr__(self) -> str:
        return f"Edge({', '.join([f'name={self.name!r}', *(f'{name}={text}' for name, text in self._held())])})"

    def _repr_html_(self) -> str:
        return shown(facts(self.name, self._held()))

    def _held(self) -> list[tuple[str, str]]:
        held = (("partial", self.partial), ("contribution", self.contribution))
        return [(name, brief(value)) for name, value in held if value is not None]


@dataclass(frozen=True)
class Read:
    """One recorded value that an expression mentions, and its spelling there.

    For example ``u``, ``self.scale``, ``pair.0`` for a leaf of ``pair``, and ``func()`` for the return value of a call
    of ``func``, once for each call, in the order of their returns.

    >>> import torch, backprobe as bp
    >>> bp.probe(lambda x: x * 3)(torch.tensor(2.0))["return"].reads
    (Read(spelled='x', name='x'),)
    """

    spelled: str
    at: Position = field(repr=False)
    name: str = field(default="", kw_only=True, metadata=named_by("at"))


@dataclass(frozen=True)
class IndirectInput:
    """One recorded value that went into another without being mentioned in its expression.

    Either it went ``through`` a name that holds no tensor, such as a NumPy array: then ``source`` is the line that
    converted the value ``name``, and ``spelled`` is the value's spelling in this line. Or a statement wrote in place to
    the variable ``through``.

    >>> import torch, backprobe as bp
    >>> def f(x):
    ...     n = x.detach().numpy()
    ...     return torch.from_numpy(n) * x
    >>> [(way.through, way.name, way.source.expression) for way in bp.probe(f)(torch.tensor(2.0))["return"].indirect]
    [('n', 'x', 'x.detach().numpy()')]
    """

    spelled: str
    at: Position = field(repr=False)
    name: str = field(default="", kw_only=True, metadata=named_by("at"))
    through: str
    source: Source


@dataclass(frozen=True, kw_only=True)
class PathSums:
    """Whether the contributions along all edges sum to the recorded gradients, as the chain rule says they must.

    By induction over the edges this is the sum over all paths of the products of the partials along them. ``judged`` is
    the number of compared gradients. ``difference`` is the largest relative difference, and ``worst`` the entry that
    has it. ``unjudged`` are the names of gradients that cannot be compared, for example because of a hook of the
    program that changes the gradient, a nested tensor, a JAX loop that carries the value on, or terms that cancel or
    underflow, so that only rounding errors are left. ``agree`` is True if each compared gradient agrees in half of the
    digits of the coarsest dtype involved.

    >>> import torch, backprobe as bp
    >>> bp.probe(lambda x: x * 3, partials=True)(torch.tensor(2.0)).path_sums
    PathSums(judged=2, difference=0.0, worst=None, agree=True, unjudged=())
    """

    judged: int
    difference: float
    worst: str | None = field(default=None, metadata=named_by("worst_at"))
    agree: bool
    unjudged: tuple[str, ...] = field(default=(), metadata=named_by("unjudged_at"))
    worst_at: Position | None = field(default=None, repr=False)
    unjudged_at: tuple[Position, ...] = field(default=(), repr=False)
