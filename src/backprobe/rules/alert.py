"""An alert: a finding with its step, its number, and the threshold that this passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backprobe.findings.phrasing import Where, quoted
from backprobe.findings.report import Finding
from backprobe.record.source import Source
from backprobe.rules.rule import RULES

MOST = 6  # names that one alert lists


@dataclass(frozen=True, repr=False)
class Alert(Finding):
    """One thing that goes wrong in a training: ``kind``, ``name`` and ``headline`` as of a finding, and since when.

    ``source`` is the line in which its module is called, of a loss function of JAX that in which the name is bound.
    ``step`` is the first at which it could be said, from that and the steps before. ``field`` is what was read of
    ``name``, and ``number`` what it was there; ``threshold`` is what that passed. ``facts`` say where the threshold
    comes from, and ``remedy`` what to look at. ``ranks`` are the processes that have NaN or Inf, where others do not.
    """

    step: int = 0
    field: str = ""
    number: float = 0.0
    threshold: float = 0.0
    ranks: tuple[int, ...] = ()

    def _title(self, where: Where | None) -> str:
        # The place stands behind the name: the colon after the step does not end what happened.
        name = f"'{self.name}'"
        if where is None or self.source is None:
            return self.headline
        return self.headline.replace(name, f"{name} ({where(self.source)})", 1)

    def __repr__(self) -> str:
        return f"<Alert {self.kind} at step {self.step}: {self.headline}>"


def line_of(name: str, lines: Mapping[str, Source]) -> Source | None:
    """Where a name is bound, or the module is called that returns it or that has it as a parameter."""
    module = name.partition(":")[0]
    around = "return" if name.startswith("return.") else module.rpartition(".")[0]
    return next((lines[one] for one in (name, module, around) if one in lines), None)


@dataclass(frozen=True)
class Sighting:
    """That a rule applies: to which name, since which step, and the number that shows it."""

    step: int
    name: str
    number: float


def alert(
    kind: str, seen: Sequence[Sighting], field: str, headline: str, remedy: str, facts: Sequence[str] = ()
) -> list[Alert]:
    """One alert of all that the rule of a kind has seen, about the first of it; none where it has seen nothing.

    ``headline`` is a format of ``name`` and ``number``.
    """
    if not seen:
        return []
    rule = RULES[kind]
    ordered = sorted(seen, key=lambda one: one.step)
    first = ordered[0]
    others = [one.name for one in ordered[1:] if one.name != first.name]
    said = headline.format(name=first.name, number=f"{first.number:.3g}")
    more = [f"also: {quoted(list(dict.fromkeys(others)), MOST)}"] if others else []
    return [
        Alert(
            kind,
            first.name,
            f"step {first.step}: {said}",
            None,
            (rule.means, *facts, *more),
            (),
            remedy,
            step=first.step,
            field=field,
            number=first.number,
            threshold=rule.threshold,
        )
    ]
