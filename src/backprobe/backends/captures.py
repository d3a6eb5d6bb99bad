"""The protocol of captures: a step in which NaN or Inf arose, stored as data that another process can run again.

While a training is healthy, a capture needs next to no copies of its own. When NaN or Inf is found, the optimizer has
not stepped yet, so the parameters still have the values from before the forward. A guard keeps buffers and random
states for each call in any case.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from backprobe.backends.guards import Found, Repeatable

Result = Mapping[str, Any]
"""Facts about a tensor that a step computed: ``digest`` of its bits, ``shape``, ``dtype``, ``nan`` and ``inf``."""

SINCE = "written to since"
"""Used in messages about parts of a step that were left out because they were overwritten before NaN was found."""


class KeptTensor:
    """A tensor as it was before the forward. A tied parameter has only one such object. This is not a dataclass,
    because a dataclass would be treated as a container.
    """

    def __init__(self, tensor: Any, size: int, facts: Mapping[str, Any]) -> None:
        self.tensor, self.size, self.facts = tensor, size, facts


class LeftOut:
    """Replaces a part of a call that is not in the file."""

    def __init__(self, why: str, next: str = "") -> None:
        self.why, self.next = why, next


@dataclass(frozen=True, eq=False)
class CapturedCall:
    """One call of a model, or of one of its modules that the program called directly."""

    path: str
    """The path of the module in the model; empty for the model itself."""

    given: Any
    """The positional and keyword arguments, in which a ``KeptTensor`` replaces each tensor."""

    state: Mapping[str, KeptTensor] = field(default_factory=dict)
    """The state that the call reads and writes, such as running statistics, by path, as it was at the start."""

    gradients: Mapping[str, KeptTensor] = field(default_factory=dict)
    """The gradients that backward brought to the outputs of this call, by output path."""

    random: Mapping[str, Any] = field(default_factory=dict)
    """The states of the random generators, by name."""

    modes: Mapping[str, Any] = field(default_factory=dict)
    """Plain facts about the modes in which the call ran, such as training or evaluation, and precision."""

    returned: Mapping[str, Result] = field(default_factory=dict)
    """Facts about the outputs, by path. Outputs that have been written since are left out."""

    wanted: Mapping[str, Any] = field(default_factory=dict)
    """For a differentiated function: the arguments to differentiate, and the output that is differentiated."""


@dataclass(frozen=True, eq=False)
class CapturedStep:
    """The calls of a failed step in the order in which they were made."""

    backend: str
    model: str
    """The class name of the model, or the name of the function."""

    calls: Sequence[CapturedCall]
    is_backward: bool
    """Did the step fail in backward rather than in a forward?"""

    parameters: Mapping[str, KeptTensor] = field(default_factory=dict)
    """The parameters, by path in the model."""

    gradients: Mapping[str, Result] = field(default_factory=dict)
    """Facts about the gradients that the pass left in parameters that had no gradient before."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Plain facts about the process, such as the number of threads and the precision of matrix products."""

    devices: Sequence[str] = ()
    left_out: Sequence[str] = ()
    """Descriptions of the parts that are missing in the file."""

    is_function: bool = False
    """Was the step that of a differentiated function rather than of a model?"""


@dataclass(frozen=True)
class RanCalls:
    """The results of running the calls of a captured step again."""

    returned: Sequence[Mapping[str, Result]]
    """Facts about the outputs of each call, by output path."""

    gradients: Mapping[str, Result]
    """Facts about the gradients, by parameter path."""

    found: Found
    """The results that are not finite: outputs, or gradients if backward ran."""


@dataclass(frozen=True)
class MisfitParameter:
    """A parameter or buffer that differs between the file and the model."""

    name: str
    captured: tuple[int, ...] | None
    """The shape in the file; None if the file does not have this parameter."""

    held: tuple[int, ...] | None
    """The shape in the model; None if the model does not have this parameter."""


Shapes = Mapping[str, tuple[int, ...]]


def misfits_of(captured: Shapes, held: Shapes, needed: Iterable[str]) -> list[MisfitParameter]:
    """Return the captured parameters that the model lacks or has in another shape, and the ``needed`` parameters of the
    model that the file lacks.
    """
    found = [MisfitParameter(name, one, held.get(name)) for name, one in captured.items() if held.get(name) != one]
    return found + [MisfitParameter(name, None, held[name]) for name in needed if name not in captured]


class Captures(Protocol):
    """What a framework must be able to do so that its steps can be captured."""

    @abstractmethod
    def captured(self, model: Any, calls: Sequence[Any], *, is_backward: bool) -> CapturedStep:
        """Return the captured form of these calls, which are given in the order in which they ran."""

    def with_models(self, step: CapturedStep, models: Sequence[Any]) -> CapturedStep:
        """Return the step of a function with these models among its arguments. The models get the arrays from the
        file.
        """
        return step

    @abstractmethod
    def misfits(self, model: Any, step: CapturedStep) -> Sequence[MisfitParameter]:
        """Return the parameters that differ between file and model; empty if the step can be run."""

    @abstractmethod
    def calls(self, model: Any, step: CapturedStep) -> Sequence[Any]:
        """Return the calls in the form that guards use, ready to be repeated or recorded."""

    @abstractmethod
    def run(self, model: Any, step: CapturedStep, calls: Sequence[Repeatable]) -> RanCalls:
        """Run the calls forward, and also backward if the step failed in backward."""

    @abstractmethod
    def otherwise(self, step: CapturedStep) -> Sequence[str]:
        """Describe what differs now from the failed step and may change results, such as another device."""

    def settled(self, settings: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Within this context the process has these settings, as far as possible."""
        return nullcontext()

    def number(self) -> int:
        """Return the rank of this process among several that train together."""
        return 0

    def spelled(self, value: Any) -> str | None:
        """Return the text for a value of the framework that is not a tensor, such as a dtype; None if it has no
        text.
        """
        return None

    def unspelled(self, text: str) -> Any:
        """Return the value for a text of ``spelled``. Raises ValueError for any other text."""
        raise ValueError(f"a value {text!r}")


def under(path: str, name: str) -> str:
    """Return the path of a part with this name below a module; either may be empty."""
    return f"{path}.{name}" if path and name else path or name
