"""What was found in one run of a check, as the report that is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backprobe.backends.recheck import PARTIAL, UncheckedCalls
from backprobe.check.answer import CheckReport, WrongDerivative
from backprobe.check.hearing import HearingScope
from backprobe.check.narrow import Element, Wrong
from backprobe.check.verdict import Verdict
from backprobe.findings.phrasing import listed, place, plural, shorten
from backprobe.record.source import Source
from backprobe.source.sites import CallSite

MEANT = "correct it; if it is meant (a straight-through estimator, a reversed gradient): bp.check(f, skip=[{}])"

ELSEWHERE = "it was called where no call is followed, as in a property, an operator or an iterator of a class"
OWN_ELSEWHERE = (
    "made by no call that is followed, but by an attribute, an element that is assigned, iteration or the like"
)

HOOKED = "it has hooks, and what they do to values and gradients is not judged"
NOTHING = "no call was made that differentiates anything"


class CheckResults:
    """All that is found in one run."""

    def __init__(self) -> None:
        self.judged, self.error = 0, 0.0
        self.own = 0  # calls of functions of the framework whose gradient is by definition another
        self.calls: dict[CallSite, int] = {}  # how often each was judged
        self.wrong: dict[tuple[CallSite, str, str], list[Occurrence]] = {}
        self.unjudged: dict[tuple[str, str], int] = {}
        self.notes: dict[tuple[str, str], int] = {}

    def add(self, scope: HearingScope, site: CallSite, inputs: Sequence[tuple[str, str]], verdict: Verdict) -> None:
        """A call was judged. ``inputs`` are the place and path of each input of it."""
        where = called_at(scope, site)
        unknown = [f"towards {input_text(site, *inputs[at])} differences of it do not settle" for at in verdict.unknown]
        coarse = [f"towards {input_text(site, *inputs[at])} {said}" for at, said in verdict.coarse.items()]
        own = [_own(site, inputs, wrong) for wrong in verdict.own]
        self.own += bool(own)
        for note in (*verdict.notes, *unknown, *coarse, *own):
            self.notes[where, note] = self.notes.get((where, note), 0) + 1
        if verdict.unjudged:
            self.unjudged[where, verdict.unjudged] = self.unjudged.get((where, verdict.unjudged), 0) + 1
            return
        self.judged += 1
        self.error = max(self.error, verdict.error)
        self.calls[site] = self.calls.get(site, 0) + 1
        for wrong in verdict.wrong:
            place, path = ("", "") if wrong.input is None else inputs[wrong.input]
            found = self.wrong.setdefault((site, place, path), [])
            found.append(Occurrence(scope, scope.counts.get(site.local, 0), inputs, wrong))

    def known(self, site: CallSite, inputs: Sequence[tuple[str, str]]) -> frozenset[int]:
        """The inputs of a call towards which another call of this line was wrong: how is known."""
        return frozenset(at for at, (place, path) in enumerate(inputs) if (site, place, path) in self.wrong)

    def report(self, of: str, followed: Sequence[str], untold: UncheckedCalls) -> CheckReport:
        """The report, when the program is over; ``of`` is what was checked."""
        for name in untold.custom:
            self.unjudged[name, ELSEWHERE] = self.unjudged.get((name, ELSEWHERE), 0) + 1
        hooked = [f"{one}: {HOOKED}" for one in untold.hooked]
        followed = [*_own_elsewhere(untold.own), *hooked, *followed]
        if not self.judged and not self.unjudged and not followed:
            followed = [NOTHING + (f"; {untold.remedy}" if untold.remedy else "")]
        findings = tuple(self._finding(site, place, path, found) for (site, place, path), found in self.wrong.items())
        unjudged = tuple(f"{where}: not judged, {why}{_times(n)}" for (where, why), n in self.unjudged.items())
        notes = tuple(f"{where}: {note}{_times(n)}" for (where, note), n in self.notes.items())
        return CheckReport(
            self._heading(of, len(findings), bool(followed)),
            findings,
            (*unjudged, *notes, *followed),
            self.judged,
            self.error,
            unjudged,
        )

    def _heading(self, of: str, wrong: int, is_partial: bool) -> str:
        unjudged = sum(self.unjudged.values())
        counts = [f"{self.judged} call{'s' * (self.judged != 1)} judged"] if self.judged else []
        counts += [f"{unjudged} not judged"] if unjudged else []
        counts += [f"largest error of the right ones {self.error:.1e}"] if self.judged else []
        is_partial |= bool(unjudged) or any(note in PARTIAL for _, note in self.notes)
        right = "every derivative that was judged is right" if is_partial else "every derivative is right"
        right += f", but for {self.own} of the framework's own" if self.own else ""
        said = right if self.judged else "nothing was judged"
        if wrong:
            said = f"{wrong} derivative{'s are' if wrong > 1 else ' is'} wrong"
        return f"{of}: {said}" + (f" ({', '.join(counts)})" if counts else "")

    def _finding(self, site: CallSite, place: str, path: str, found: Sequence[Occurrence]) -> WrongDerivative:
        first = found[0]
        wrong, scope = first.wrong, first.scope
        written = "" if wrong.input is None else input_text(site, place, path)
        towards = "" if wrong.input is None else f" towards its input {written}"
        facts = [wrong.looks, *_facts(site, first)]
        if len(found) < self.calls[site]:
            facts.append(f"it is so in {len(found)} of {self.calls[site]} calls of this line")
        return WrongDerivative(
            "wrong_derivative", name_of(scope, site, first.count),
            f"the derivative of {shorten(expression(site))}{towards} is wrong{_size(wrong.error)}",
            Source(scope.file, site.line, site.text) if site.line else None, tuple(filter(None, facts)),
            remedy=MEANT.format(_skipped(site)), input=written, error=wrong.error,
        )  # fmt: skip


@dataclass(frozen=True)
class Occurrence:
    """One call whose derivative is wrong: in which scope, which binding of its name, and where its inputs come from."""

    scope: HearingScope
    count: int
    inputs: Sequence[tuple[str, str]]
    wrong: Wrong


def name_of(scope: HearingScope, site: CallSite, count: int) -> str:
    """The name of what a statement binds; of what binds nothing, the operation's."""
    local = site.local or f"{site.op or site.spelled}()"
    if site.local and scope.counts.get(site.local, 0) > 1:
        local = f"{local}#{count}"
    within = scope.full_name()
    return f"{within}:{local}" if within else local


def called_at(scope: HearingScope, site: CallSite) -> str:
    """The place of a call and its text, as it is printed."""
    called = shorten(expression(site))
    return f"{place(scope.file, site.line)}, {called}" if site.line else called


def expression(site: CallSite) -> str:
    return site.origin.expression or site.spelled


def _skipped(site: CallSite) -> str:
    """What ``skip`` would name: the function as the program calls it, of an ``autograd.Function`` the class."""
    is_name = all(part.isidentifier() for part in site.spelled.split("."))
    return site.spelled.removesuffix(".apply") if is_name else "Function"


def input_text(site: CallSite, place: str, path: str) -> str:
    """An input as the source writes it, and where it is in that."""
    if not place:  # what the function itself holds: the tensor of a method, or a parameter of a module
        return (site.spelled if path else site.spelled.rpartition(".")[0]) + path
    return dict(site.arguments).get(place, f"input {place}" if place.isdigit() else place) + path


def _own(site: CallSite, inputs: Sequence[tuple[str, str]], wrong: Wrong) -> str:
    """What is said of a function of the framework's own: for all that is known it is meant so."""
    towards = "" if wrong.input is None else f" towards {input_text(site, *inputs[wrong.input])}"
    return (
        f"its gradient{towards} is not its derivative{_size(wrong.error)}, and nothing in it was written by hand: what "
        "is detached, padded, clipped or read from one triangle has such a gradient by definition"
    )


MOST = 6


def _own_elsewhere(names: Sequence[str]) -> list[str]:
    """A note of the framework's own operations that no call was told of made."""
    if not names:
        return []
    each = list(dict.fromkeys(names))
    count = plural(len(names), "operation")
    return [f"{listed(each, MOST)} ({count} of the framework's own): not judged, {OWN_ELSEWHERE}"]


def _facts(site: CallSite, found: Occurrence) -> list[str]:
    wrong, facts = found.wrong, []
    if wrong.like is not None:
        facts.append(f"it is what {input_text(site, *found.inputs[wrong.like])} should get")
    if wrong.outputs:
        facts.append(f"it is so through output {' and '.join(map(str, wrong.outputs))} alone")
    shown = "; ".join(map(_element, wrong.off))
    if shown and wrong.size > 1:
        among = f"{wrong.seen} elements" + (f" looked at, of {wrong.size}" if wrong.seen < wrong.size else "")
        shown = f"off in {wrong.count} of {among}: {shown}"
    return [*facts, shown]


def _element(element: Element) -> str:
    index = f"[{', '.join(map(str, element.index))}] " if element.index else ""
    differences = "" if element.done != element.done else f", differences give {element.done:.6g}"
    return f"{index}it says {element.said:.6g}{differences}"


def _size(error: float) -> str:
    if error == float("inf"):
        return ""
    return f", off by {error:.0%} of its size" if error >= 0.01 else f", off by {error:.1e} of its size"


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""
