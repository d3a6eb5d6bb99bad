"""The protocol of captures: a step in which NaN or Inf arose, as data that can be run again in another process.

Nothing is copied while a training is healthy. When NaN or Inf is found, no optimizer has stepped yet, so the parameters
are still those with which the forward began. Buffers and random states are kept by a guard for each call anyway.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from backprobe.backends.guards import Found, Repeatable

Result = Mapping[str, Any]
"""Facts about a tensor that a step computed: ``digest`` of its bits, ``shape``, ``dtype``, ``nan`` and ``inf``."""

SINCE = "written to since"
"""Appears in the text about parts that were left out because they were overwritten before NaN was found."""


class KeptTensor:
    """A tensor as it was before the forward. Tied parameters are one object. Not a dataclass, which would be a
    container.
    """

    def __init__(self, tensor: Any, size: int, facts: Mapping[str, Any]) -> None:
        self.tensor, self.size, self.facts = tensor, size, facts


class LeftOut:
    """Stands for a part of a call that is not in the file."""

    def __init__(self, why: str, next: str = "") -> None:
        self.why, self.next = why, next


@dataclass(frozen=True, eq=False)
class CapturedCall:
    """One call of a model, or of one of its modules that the program called directly."""

    path: str
    """The path of the module in the model; empty for the model itself."""

    given: Any
    """Its positional and keyword arguments, with a ``KeptTensor`` in place of each tensor."""

    state: Mapping[str, KeptTensor] = field(default_factory=dict)
    """State that the call reads and writes, such as running statistics, by path, as it was at the start."""

    gradients: Mapping[str, KeptTensor] = field(default_factory=dict)
    """The gradients that backward brought to its outputs, by their paths."""

    random: Mapping[str, Any] = field(default_factory=dict)
    """The states of random generators, by their names."""

    modes: Mapping[str, Any] = field(default_factory=dict)
    """Plain facts about how it ran: training or evaluation, precision."""

    returned: Mapping[str, Result] = field(default_factory=dict)
    """The outputs, by path, unless they have changed since."""

    wanted: Mapping[str, Any] = field(default_factory=dict)
    """For a differentiated function: with respect to which arguments, and of which output."""


@dataclass(frozen=True, eq=False)
class CapturedStep:
    """The calls of a failed step in the order in which they were made."""

    backend: str
    model: str
    """The name of the class of the model, or of the function."""

    calls: Sequence[CapturedCall]
    is_backward: bool
    """Did it fail in backward, and not in a forward?"""

    parameters: Mapping[str, KeptTensor] = field(default_factory=dict)
    """By path in the model."""

    gradients: Mapping[str, Result] = field(default_factory=dict)
    """The gradients that the pass left in parameters that had none before."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Plain facts about the process: threads, precision of products."""

    devices: Sequence[str] = ()
    left_out: Sequence[str] = ()
    """Descriptions of what is missing in the file."""

    is_function: bool = False
    """Is it a differentiated function rather than a model?"""


@dataclass(frozen=True)
class RanCalls:
    """The results of running the calls of a step again."""

    returned: Sequence[Mapping[str, Result]]
    """For each call, by the path of the output."""

    gradients: Mapping[str, Result]
    """By the path of the parameter."""

    found: Found
    """The results that are not finite: outputs, or gradients if backward ran."""


@dataclass(frozen=True)
class MisfitParameter:
    """A parameter or buffer for which the file and the model do not agree."""

    name: str
    captured: tuple[int, ...] | None
    """Its shape in the file; None if it is not there."""

    held: tuple[int, ...] | None
    """Its shape in the model; None if it is not there."""


class Captures(Protocol):
    """What captures need of a framework."""

    @abstractmethod
    def captured(self, model: Any, calls: Sequence[Any], *, is_backward: bool) -> CapturedStep:
        """The captured form of these calls, in the order in which they ran."""

    def with_models(self, step: CapturedStep, models: Sequence[Any]) -> CapturedStep:
        """The step of a function with these models among its arguments; they get the arrays from the file."""
        return step

    @abstractmethod
    def misfits(self, model: Any, step: CapturedStep) -> Sequence[MisfitParameter]:
        """Parameters for which file and model do not agree; empty if the step can be run."""

    @abstractmethod
    def calls(self, model: Any, step: CapturedStep) -> Sequence[Any]:
        """The calls as a guard has them, ready to be repeated or recorded."""

    @abstractmethod
    def run(self, model: Any, step: CapturedStep, calls: Sequence[Repeatable]) -> RanCalls:
        """Run them forward, and also backward if backward is what failed."""

    @abstractmethod
    def otherwise(self, step: CapturedStep) -> Sequence[str]:
        """Descriptions of settings that differ from when the step failed, and may change the last bits."""

    def settled(self, settings: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Within this context the process has these settings, as far as possible."""
        return nullcontext()

    def number(self) -> int:
        """The number of this process among several that train together."""
        return 0

    def spelled(self, value: Any) -> str | None:
        """The text for a value of the framework that is no tensor, such as a dtype; None if it has no text."""
        return None

    def unspelled(self, text: str) -> Any:
        """The value that has this text. Raises ValueError."""
        raise ValueError(f"a value {text!r}")
