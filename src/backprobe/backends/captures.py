"""The protocol of captures: a step in which NaN or Inf arose, as data that can be run again in another process.

Nothing is copied while a training is well. When NaN or Inf is found, no optimizer has stepped yet: the parameters are
still those that the forward began with. Buffers and random states are what a guard keeps of each call anyway.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from backprobe.backends.guards import Found, Repeatable

Result = Mapping[str, Any]
"""What is known of a tensor that a step computed: ``digest`` of its bits, ``shape``, ``dtype``, ``nan`` and ``inf``."""

SINCE = "written to since"
"""In the words about what was left out because it was overwritten before NaN was found."""


class KeptTensor:
    """A tensor as it was before the forward. Tied parameters are one object. A dataclass would count as a container."""

    def __init__(self, tensor: Any, size: int, facts: Mapping[str, Any]) -> None:
        self.tensor, self.size, self.facts = tensor, size, facts


class LeftOut:
    """Stands for a part of a call that is not in the file."""

    def __init__(self, why: str, next: str = "") -> None:
        self.why, self.next = why, next


@dataclass(frozen=True, eq=False)
class CapturedCall:
    """One call of a model, or of a module of it that the program called by itself."""

    path: str
    """Where the module is in the model; empty for the model itself."""

    given: Any
    """Its positional and keyword arguments, with a ``KeptTensor`` for each tensor."""

    state: Mapping[str, KeptTensor] = field(default_factory=dict)
    """What the call began with and writes to, such as running statistics, by path."""

    gradients: Mapping[str, KeptTensor] = field(default_factory=dict)
    """What came to its outputs in backward, by their paths."""

    random: Mapping[str, Any] = field(default_factory=dict)
    """The states of random generators, by their names."""

    modes: Mapping[str, Any] = field(default_factory=dict)
    """Plain facts about how it ran: training or evaluation, precision."""

    returned: Mapping[str, Result] = field(default_factory=dict)
    """What it returned, by path, as far as that has not changed since."""

    wanted: Mapping[str, Any] = field(default_factory=dict)
    """Of a function that was differentiated: with respect to which arguments, and of which output."""


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
    """What the pass has left in parameters that had no gradient before it."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Plain facts about the process: threads, precision of products."""

    devices: Sequence[str] = ()
    left_out: Sequence[str] = ()
    """What is not in it, in words."""

    is_function: bool = False
    """Is it about a function that was differentiated, and not about a model?"""


@dataclass(frozen=True)
class RanCalls:
    """What the calls of a step have given when they were run again."""

    returned: Sequence[Mapping[str, Result]]
    """By the path of the output, of each call."""

    gradients: Mapping[str, Result]
    """By the path of the parameter."""

    found: Found
    """What of that is not finite: outputs, or gradients where backward ran."""


@dataclass(frozen=True)
class MisfitParameter:
    """A parameter or buffer that is in the file, or in the model, and does not fit the other."""

    name: str
    captured: tuple[int, ...] | None
    """Its shape in the file; None where it is not there."""

    held: tuple[int, ...] | None
    """The same of the model."""


class Captures(Protocol):
    """What captures need of a framework."""

    @abstractmethod
    def captured(self, model: Any, calls: Sequence[Any], *, is_backward: bool) -> CapturedStep:
        """What is known of these calls, the first call first."""

    def with_models(self, step: CapturedStep, models: Sequence[Any]) -> CapturedStep:
        """The step of a function with these models among its arguments, with the arrays that the file has for them."""
        return step

    @abstractmethod
    def misfits(self, model: Any, step: CapturedStep) -> Sequence[MisfitParameter]:
        """What of the file and of the model does not fit the other; nothing where it can be run."""

    @abstractmethod
    def calls(self, model: Any, step: CapturedStep) -> Sequence[Any]:
        """The calls again, as a guard has them: each can be made again, or recorded."""

    @abstractmethod
    def run(self, model: Any, step: CapturedStep, calls: Sequence[Repeatable]) -> RanCalls:
        """Run them forward, and backward where that is what failed."""

    @abstractmethod
    def otherwise(self, step: CapturedStep) -> Sequence[str]:
        """What is not as it was when the step failed, and may change the last bits, in words."""

    def settled(self, settings: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Within this context the process has these settings, as far as it can."""
        return nullcontext()

    def number(self) -> int:
        """That of this process, of several that train together."""
        return 0

    def spelled(self, value: Any) -> str | None:
        """A value of the framework that is no tensor, such as a dtype, as a text; None for what has none."""
        return None

    def unspelled(self, text: str) -> Any:
        """The value that was spelled so. Raises ValueError."""
        raise ValueError(f"a value {text!r}")
