"""The accounting of one check: which calls were checked and what was found, which were not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from backprobe.backends.recheck import Input, Recheck, RecordedCall
from backprobe.check import text
from backprobe.check.locate_error import Wrong
from backprobe.check.report import CheckReport, WrongDerivative
from backprobe.check.verdict import check_call
from backprobe.findings.phrasing import place, shorten
from backprobe.record.reasons import Note, Reason
from backprobe.record.source import Source
from backprobe.source.sites import CallSite
from backprobe.tracing.values import ScopeId

PARTIAL = frozenset({"captured", "derives", "unseen_own", "hooked", "skipped"})
"""Codes of remarks after which the heading claims no more than what was checked."""


@dataclass(frozen=True)
class WrongCall:
    """One call whose derivative is wrong: where, and which binding of its name."""

    scope: ScopeId
    count: int
    wrong: Wrong


class CheckResults:
    """All that is known of one run. Remarks are counted by the place that they are about."""

    def __init__(self) -> None:
        self.error = 0.0  # the largest of derivatives that are right
        self.checked: Counter[CallSite] = Counter()
        self.wrong: dict[tuple[CallSite, Input | None], list[WrongCall]] = {}
        self.unchecked: Counter[tuple[str, Reason]] = Counter()
        self.remarks: Counter[tuple[str, Reason]] = Counter()
        self.notes: dict[Note, None] = {}  # on functions that were not followed

    def note(self, code: str, **fields: str) -> None:
        self.notes[Note(code, fields)] = None

    def add(self, scope: ScopeId, site: CallSite, made: RecordedCall | Reason) -> None:
        """Check a call that was made, unless there is a reason why it can't be."""
        called = shorten(_expression(site))
        where = f"{place(scope.file, site.line)}, {called}" if site.line else called
        if isinstance(made, Reason):
            self.unchecked[where, made] += 1
            return
        verdict = check_call(made, {one for one in made.inputs.values() if (site, one) in self.wrong})
        for reason, of in verdict.remarks:
            wrt = "" if of is None else f" with respect to {input_text(site, of)}"
            self.remarks[where, Reason(reason.code, {**reason.fields, "wrt": wrt})] += 1
        if verdict.unchecked is not None:
            self.unchecked[where, verdict.unchecked] += 1
            return
        self.checked[site] += 1
        self.error = max(self.error, verdict.error)
        for wrong in verdict.wrong:
            found = WrongCall(scope, scope.counts.get(site.local, 0), wrong)
            self.wrong.setdefault((site, wrong.input), []).append(found)

    def add_unseen(self, calls: Recheck) -> None:
        """What the run differentiated outside the calls that were followed."""
        unseen = calls.unaccounted()
        self.unchecked.update((name, Reason("unseen_custom")) for name, by_hand in unseen if by_hand)
        own = [name for name, by_hand in unseen if not by_hand]
        if own:
            self.remarks[text.operations(own), Reason("unseen_own")] += 1
        self.remarks.update((name, Reason("hooked")) for name in calls.hooked)

    def report(self, of: str, remedy: str, entered: dict[str, int]) -> CheckReport:
        """The report on a target, when the program is over; ``remedy`` helps where nothing was differentiated."""
        findings = tuple(self._finding(site, one, found, entered) for (site, one), found in self.wrong.items())
        unchecked = tuple(text.remark(key, count, "not checked, ") for key, count in self.unchecked.items())
        remarks = [text.remark(key, count) for key, count in self.remarks.items()]
        notes = (*unchecked, *remarks, *map(str, self.notes))
        checked, codes = self.checked.total(), Counter(reason.code for _, reason in self.remarks.elements())
        heading = text.heading(
            of, wrong=len(findings), checked=checked, unchecked=self.unchecked.total(), own=codes["not_derivative"],
            error=self.error, is_partial=bool(unchecked or self.notes or codes.keys() & PARTIAL),
        )  # fmt: skip
        if not checked and not notes:
            nothing = "no call computed anything that depends on a differentiated value"
            notes = (f"{nothing}; {remedy}" if remedy else nothing,)
        return CheckReport(heading, findings, notes, checked, self.error, unchecked)

    def _finding(
        self, site: CallSite, one: Input | None, found: Sequence[WrongCall], entered: dict[str, int]
    ) -> WrongDerivative:
        scope, wrong = found[0].scope, found[0].wrong
        of = "" if one is None else input_text(site, one)
        facts = text.facts(wrong, None if wrong.like is None else input_text(site, wrong.like))
        if len(found) < self.checked[site]:
            facts.append(f"it is wrong in {len(found)} of {self.checked[site]} calls of this line")
        local, within = site.local or f"{site.op or site.spelled}()", scope.printed(entered)
        if scope.counts.get(site.local, 0) > 1:
            local = f"{local}#{found[0].count}"
        return WrongDerivative(
            "wrong_derivative", f"{within}:{local}" if within else local,
            text.wrong_derivative(_expression(site), of, wrong.error),
            Source(scope.file, site.line, site.text) if site.line else None, tuple(facts),
            remedy=text.INTENDED.format(_skipped(site)), input=of, error=wrong.error,
        )  # fmt: skip


def _expression(site: CallSite) -> str:
    return site.origin.expression or site.spelled


def _skipped(site: CallSite) -> str:
    """What ``skip`` would name: the function as the program calls it, of an ``autograd.Function`` the class."""
    is_name = all(part.isidentifier() for part in site.spelled.split("."))
    return site.spelled.removesuffix(".apply") if is_name else "Function"


def input_text(site: CallSite, one: Input) -> str:
    """An input as the source writes it, and where it is in that."""
    if not one.place:  # what the function itself holds: the tensor of a method, or a parameter of a module
        return (site.spelled if one.path else site.spelled.rpartition(".")[0]) + one.path
    unknown = f"input {one.place}" if one.place.isdigit() else one.place
    return dict(site.arguments).get(one.place, unknown) + one.path
