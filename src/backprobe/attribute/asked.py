"""The arguments of ``attribute``, and checks of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from backprobe.attribute.result import Attribution
from backprobe.backends.protocol import Backend
from backprobe.errors import BadOption
from backprobe.executors import EXECUTOR
from backprobe.probe import probe
from backprobe.probe.axes import AXIS, axes_of
from backprobe.probe.named_values import OfNamedValues
from backprobe.probe.request import asked_as, spelled_as
from backprobe.record.brief import kind, written
from backprobe.record.options import Option
from backprobe.record.patterns import texts_of
from backprobe.recording import Recording

OPTIONS = (
    Option("steps", int, 1, "10", or_none=True),
    Option("chunk", int, 1, "16", or_none=True),
    Option("edges"),
    AXIS,
    EXECUTOR,
)
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, repr=False)
class AskedAttribution(OfNamedValues[[], Attribution]):
    """The target, the arguments of both runs, the selected values, and the options."""

    clean: Any
    corrupt: Any
    steps: Any
    along: Any
    axis: Any
    edges: Any
    chunk: Any
    executor: Any = None
    verb = "attribute"
    options = ", clean, corrupt, 'u'"
    declared, about = OPTIONS, "an attribution is of named values"
    all_names = "bp.attribute(model, clean, corrupt, 'h.*', of=...)"
    one_output = "bp.attribute(f, ..., of='ce'), once for each"

    def __post_init__(self) -> None:
        """Check all arguments. Raises BadOption."""
        # error messages then show bp.attribute(f, ...) instead of bp.probe(f)(x)
        with spelled_as(r"\(x\), with f", ", with f"):
            super().__post_init__()
        for which in ("clean", "corrupt"):
            self._check_arguments(which)
        if self.along is not None:
            # raises an error if ``along`` is not a valid pattern
            probe(self.target, self.along, of=self.of, backend=self.backend)
        if self.along is not None and self.steps is None:
            raise BadOption(
                "along= says what moves from the corrupt run to the clean one, in steps",
                asked=f"along={written(self.along)}",
                found="no steps=",
                next=f"along={written(self.along)}, steps=10",
            )

    def _backend_of(self) -> Backend:
        # The backend of the target. Raises BadOption, NoBackend and Unsupported.
        given = (*self.clean_args[0], *self.corrupt_args[0])
        both = enumerate((self.clean_args, self.corrupt_args))
        named = {f"{at} {name}": one for at, (_, own) in both for name, one in own.items()}
        return self._found(given, named, "attributed", "its values were fixed when it was made")

    def _check_arguments(self, which: str) -> None:
        given = getattr(self, which)
        wrong = isinstance(given, Recording)
        if isinstance(given, Mapping) and not wrong:
            wrong = not all(isinstance(name, str) for name in given)
        if wrong or given is None:
            raise BadOption(
                f"{which} has the arguments of a run",
                asked=f"{which}={written(given)}",
                found=kind(given),
                why="a tuple holds positional arguments, a dict those by name, and anything else is the one argument",
                next="bp.attribute(model, clean_ids, corrupt_ids, 'h.*', of=...), or (x, w), or {'input_ids': ids}",
            )

    @cached_property
    def clean_args(self) -> Arguments:
        """The arguments of the clean run."""
        return _arguments(self.clean)

    @cached_property
    def corrupt_args(self) -> Arguments:
        """The arguments of the corrupt run."""
        return _arguments(self.corrupt)

    @cached_property
    def exact_names(self) -> frozenset[str]:
        """The selected patterns that are plain names, without wildcards."""
        texts = [] if isinstance(self.select, str) and not self.select else texts_of(self.select)
        return frozenset(one for one in texts if "*" not in one and not one.startswith(("re:", "!")))

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which each index gets an attribution of its own."""
        return axes_of(self.axis)

    @property
    def call(self) -> str:
        """The call of ``attribute`` as text, for error messages."""
        return f"bp.attribute({asked_as(self.target)}, clean, corrupt, {written(self.select)})"


def _arguments(given: Any) -> Arguments:
    if isinstance(given, tuple) and not hasattr(given, "_fields"):
        return given, {}
    return ((), dict(given)) if isinstance(given, Mapping) else ((given,), {})
