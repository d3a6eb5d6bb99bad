"""Verbs about named values of a program and one of its outputs: their arguments are checked before the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from backprobe.errors import BadOption
from backprobe.probe import probe
from backprobe.probe.request import asked_as, refuse_uncallable
from backprobe.probe.several_outputs import refuse_several
from backprobe.probe.waiting import Waiting
from backprobe.record.brief import written
from backprobe.record.options import Option, check_options
from backprobe.record.typed import P, R
from backprobe.recording import Recording


@dataclass(frozen=True, repr=False)
class OfNamedValues(Waiting[P, R]):
    """A verb that is waiting for its call, with its target, the names of values, and the output."""

    select: Any
    of: Any
    declared: ClassVar[Sequence[Option]] = ()
    """The options that this verb has besides those of ``probe``."""

    about: ClassVar[str]
    """The sentence of an error message which says that this verb needs named values."""

    all_names: ClassVar[str]
    one_output: ClassVar[str]
    """Advice for a user who has requested several outputs."""

    def __post_init__(self) -> None:
        """Check the options. Raises BadOption."""
        refuse_uncallable(self.target, self.verb, self.options)
        refuse_several(self.of, f"bp.{self.verb}({asked_as(self.target)}, ..., ", self.one_output)
        if isinstance(self.select, list | tuple) and not self.select:
            raise BadOption(
                "select is empty, and selects nothing", asked=f"bp.{self.verb}(..., [])", next=self.all_names
            )
        # Create a probe, which raises the errors for options that ``probe`` itself refuses.
        probe(self.target, self.select, of=self.of, backend=self.backend)
        if self.select is None:
            raise BadOption(self.about, asked=f"bp.{self.verb}(..., None)", next=self.all_names)
        check_options(vars(self), self.declared)

    def _asked(self) -> list[tuple[str, str]]:
        return [("select", written(self.select))]


def output_of(asked: OfNamedValues[Any, Any], first: Recording) -> Any:
    """Return the requested output. If none was requested and the probe chose one in a container that the program
    returns, return its path.
    """
    path = first.outputs[0].name.partition("return.")[2]
    return path if asked.of is None and path else asked.of
