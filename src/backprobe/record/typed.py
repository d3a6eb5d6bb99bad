"""Types for checkers and editors: type variables, and the literal texts that options accept."""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar

Strategy = Literal["edges", "retain_grad", "hooks", "separate"]
Values = Literal["alias", "copy"]
ExportFormat = Literal["parquet", "arrow", "tensorboard"]
RunKind = Literal["value", "grad", "param", "update", "grad_backward"]


class Tensor(Protocol):
    """The attributes that the tensors of all frameworks have."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...


P = ParamSpec("P")

if TYPE_CHECKING:
    from typing import Generic as Generic

    from typing_extensions import TypeVar as DefaultTypeVar

    R = DefaultTypeVar("R", covariant=True, default=Any)
    T = DefaultTypeVar("T", covariant=True, default=Any)
    V = DefaultTypeVar("V", bound=Tensor, default=Any)
else:  # defaults of type variables are new in Python 3.13
    R, T, V = TypeVar("R"), TypeVar("T"), TypeVar("V")

    class Generic:
        """Accepts any number of type arguments, since those with a default may be left out."""

        __class_getitem__ = classmethod(GenericAlias)


class HasForward(Protocol[P, R]):
    """A PyTorch model: its ``__call__`` is not typed, but its ``forward`` may be."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
