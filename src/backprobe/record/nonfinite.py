"""NaN and Inf in a recording: in values, gradients, operations of backward, and updates of parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from backprobe.record.positions import Position, named_by
from backprobe.record.source import Source

Kind = Literal["finite", "inf", "nan"]
"""The worst among the numbers of a tensor."""

BEFORE: Final = "before"
GradientKind = Literal["finite", "inf", "nan", "none", "before"]
"""The same of a gradient, which may be missing, or may have played no part."""


@dataclass(frozen=True)
class Nonfinite:
    """How many numbers of a tensor are NaN and how many infinite, out of how many.

    >>> import torch, backprobe as bp
    >>> bp.probe(lambda x: 1 / x, nonfinite=True)(torch.tensor(0.0))["return"].finiteness.value
    Nonfinite(nan=0, inf=1, of=1)
    """

    nan: int
    inf: int
    of: int

    @property
    def is_finite(self) -> bool:
        """Is every number finite?"""
        return not (self.nan or self.inf)

    def __str__(self) -> str:
        """``1 NaN and 2 Inf of 8``, or ``finite``."""
        kinds = [f"{count} {kind}" for count, kind in ((self.nan, "NaN"), (self.inf, "Inf")) if count]
        return f"{' and '.join(kinds)} of {self.of}" if kinds else "finite"


@dataclass(frozen=True)
class LocalDerivative:
    """An operation's own derivative at the first bad element of the gradient that it made, as the framework gives it.

    ``at`` is the index of that element, ``derivative`` that of the operation's result with respect to it, and ``came``
    the gradient that came to that result: the element is their product.
    """

    at: tuple[int, ...]
    derivative: float
    came: float


@dataclass(frozen=True)
class BackwardOp:
    """An operation in the backward of an entry that produced NaN or Inf: ``operation`` is what the framework calls it.

    ``at`` is the position of the entry whose gradient it computes and ``name`` its printed name, None where there is no
    such entry. ``given`` is the worst that the operation received and ``made`` the worst that it returned: ``finite``,
    ``inf`` or ``nan``. ``local`` is what it is multiplied by there, where the framework was asked.
    """

    operation: str
    at: Position | None = field(repr=False)
    name: str | None = field(default=None, kw_only=True, metadata=named_by("at"))
    given: Kind
    made: Kind
    local: LocalDerivative | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Finiteness:
    """What ``nonfinite=True`` found in one entry: its value and its gradient, None where there is no tensor to check.

    ``made`` are the operations of its line that turned a finite gradient into a non-finite one, or an Inf into a NaN;
    None where the framework does not show each operation.
    """

    value: Nonfinite | None
    grad: Nonfinite | None
    made: tuple[BackwardOp, ...] | None = None


@dataclass(frozen=True)
class Update:
    """A statement that wrote NaN or Inf into finite parameters, or NaN into parameters that held Inf.

    ``size`` is how many these are, and ``parameters`` what the program calls them, where it does. ``optimizer`` is the
    type and learning rate of the optimizer that has them, if one is at hand. ``gradient`` is what their gradients held,
    and ``made`` what they hold now: ``finite``, ``inf``, or ``nan`` where a NaN was among it; ``none`` where there was
    no gradient, and ``before`` where nothing was seen to write it: they held it by the first ``backward()``.
    ``source`` is the line and ``after`` the position of the last entry before it, None where that is
    not known.
    """

    parameters: tuple[str, ...]
    size: int
    optimizer: str
    gradient: GradientKind
    made: Kind
    source: Source | None
    after: Position | None
