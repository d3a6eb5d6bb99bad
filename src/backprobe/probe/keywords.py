"""The keyword parameters of ``probe``, for its overloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from backprobe.backends.discover import BackendName
from backprobe.probe.several_outputs import Of
from backprobe.record.typed import Strategy, Tensor, Values

Select = str | Sequence[str] | None
Graph = Tensor | Sequence[Tensor] | Mapping[str, Tensor]


class Keywords(TypedDict, total=False):
    """All keyword parameters of ``probe`` except ``select``, with their types."""

    of: Of | Sequence[Of] | Mapping[str, Of]
    wrt: str | Sequence[str] | None
    cotangent: Any
    replace: Mapping[str, Any] | None
    replace_grad: Mapping[str, Any] | None
    strategy: Strategy
    values: Values
    partials: bool | Literal["full"]
    create_graph: bool
    nonfinite: bool
    backend: BackendName | None
    session: Any
