"""An alert: a finding with its step, its number, and the threshold that the number passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backprobe.findings.phrasing import Where, quoted
from backprobe.findings.report import Finding
from backprobe.record.source import Source
from backprobe.rules.rule import RULES

MOST = 6  # the most names that one alert lists


@dataclass(frozen=True, repr=False)
class Alert(Finding):
    """A problem of a training, with the step at which it began.

    ``kind``, ``name`` and ``headline`` are those of any finding. ``source`` is the line that calls the module; for a
    loss function of JAX it is the line that binds the name. ``step`` is the first step at which the problem could be
    recognised from that step and earlier ones. ``field`` is the statistic of ``name`` that was read, and ``number`` the
    number that passed ``threshold``, which is 0 if the rule has none. ``facts`` give the rule and the source of its
    threshold, and ``remedy`` is advice.
    ``ranks`` are the processes that have NaN or Inf, if others have none.
    """

    step: int = 0
    field: str = ""
    number: float = 0.0
    threshold: float = 0.0
    ranks: tuple[int, ...] = ()

    def _title(self, where: Where | None) -> str:
        # The name is put before the place: text that follows the place would look like a part of it.
        name = f"'{self.name}'"
        if where is None or self.source is None:
            return self.headline
        return self.headline.replace(name, f"{name} ({where(self.source)})", 1)

    def __repr__(self) -> str:
        return f"<Alert {self.kind} at step {self.step}: {self.headline}>"


def line_of(name: str, lines: Mapping[str, Source]) -> Source | None:
    """The line that binds a name, calls the module that returns it, or calls the module that has it as a parameter;
    None if it is not known.
    """
    module = name.partition(":")[0]
    around = "return" if name.startswith("return.") else module.rpartition(".")[0]
    return next((lines[one] for one in (name, module, around) if one in lines), None)


@dataclass(frozen=True)
class Sighting:
    """A name to which a rule applies, the first step in which it does, and the number that shows it."""

    step: int
    name: str
    number: float


def alert(
    kind: str, seen: Sequence[Sighting], field: str, headline: str, remedy: str, facts: Sequence[str] = ()
) -> list[Alert]:
    """A single alert for everything that a rule has seen. It describes the first sighting; there is no alert without
    one.

    ``headline`` is a format with the fields ``name`` and ``number``.
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
