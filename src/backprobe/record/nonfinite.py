"""NaN and Inf in a recording: in values, gradients, operations of backward, and parameter updates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from backprobe.record.positions import Position, named_by
from backprobe.record.source import Source

Kind = Literal["finite", "inf", "nan"]
"""The worst kind of number in a tensor."""

BEFORE: Final = "before"
GradientKind = Literal["finite", "inf", "nan", "none", "before"]
"""The worst kind of number in a gradient: ``none`` if there was no gradient, and ``before`` if the parameters already
contained NaN or Inf before.
"""


@dataclass(frozen=True)
class Nonfinite:
    """How many numbers of a tensor are NaN, how many are infinite, and how many there are.

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
    """An operation's own derivative at the first bad element of the gradient that it made, as the framework reports it.

    ``at`` is the index of that element, ``derivative`` the derivative of the operation's result with respect to it, and
    ``came`` the incoming gradient of that result: the bad element is their product.
    """

    at: tuple[int, ...]
    derivative: float
    came: float


@dataclass(frozen=True)
class BackwardOp:
    """An operation in the backward of an entry that produced NaN or Inf. ``operation`` is the framework's name for it.

    ``at`` is the position of the entry whose gradient it computed, and ``name`` its printed name; None if there is no
    such entry. ``given`` is the worst number that the operation received and ``made`` the worst that it returned:
    ``finite``, ``inf`` or ``nan``. ``local`` is the local derivative at the bad element, if it was requested from the
    framework. ``decomposes`` is True if the framework shows that the operation decomposed a matrix into vectors and
    their eigenvalues or singular values.
    """

    operation: str
    at: Position | None = field(repr=False)
    name: str | None = field(default=None, kw_only=True, metadata=named_by("at"))
    given: Kind
    made: Kind
    local: LocalDerivative | None = field(default=None, compare=False)
    decomposes: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True)
class Finiteness:
    """The result of ``nonfinite=True`` for one entry: the counts in its value and its gradient. A count is None if
    there is no tensor, or if its numbers are not known.

    ``made`` are the operations of the entry's line that turned a finite gradient into NaN or Inf, or an Inf into a NaN.
    None if the framework does not report each operation.
    """

    value: Nonfinite | None
    grad: Nonfinite | None
    made: tuple[BackwardOp, ...] | None = None


@dataclass(frozen=True)
class Update:
    """A statement that wrote NaN or Inf into finite parameters, or NaN into parameters with Inf.

    ``size`` is the number of these parameters, and ``parameters`` are their names in the program, if they have any.
    ``optimizer`` is the type and learning rate of their optimizer, if known. ``gradient`` is the worst number in their
    gradients and ``made`` the worst in the parameters now: ``finite``, ``inf`` or ``nan``. ``gradient`` is ``none`` if
    there was no gradient. It is ``before`` if the parameters had NaN or Inf by the first ``backward()``, but no write
    was seen. ``source`` is the line and ``after`` the position of the last entry before it; None if not known.
    """

    parameters: tuple[str, ...]
    size: int
    optimizer: str
    gradient: GradientKind
    made: Kind
    source: Source | None
    after: Position | None
