"""The accounting of one check: which calls were checked and what was found, which were not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from backprobe.backends.recheck import Input, UncheckedCalls
from backprobe.check import text
from backprobe.check.listener import CallListener
from backprobe.check.locate_error import Wrong
from backprobe.check.report import CheckReport, WrongDerivative
from backprobe.check.verdict import Verdict
from backprobe.findings.phrasing import place, shorten
from backprobe.record.reasons import Reason
from backprobe.record.source import Source
from backprobe.source.sites import CallSite

PARTIAL = frozenset({"captured", "derives", "unseen_own", "hooked", "skipped"})
"""Codes of remarks after which the heading claims no more than what was checked."""


@dataclass(frozen=True)
class WrongCall:
    """One call whose derivative is wrong: where, which binding of its name, and what it was given."""

    listener: CallListener
    count: int
    inputs: Sequence[Input]
    wrong: Wrong


class CheckResults:
    """All that is known of one run. Remarks are counted by the place that they are about."""

    def __init__(self) -> None:
        self.error = 0.0  # the largest of derivatives that are right
        self.checked: Counter[CallSite] = Counter()
        self.wrong: dict[tuple[CallSite, str, str], list[WrongCall]] = {}  # by site, and place and path of the input
        self.unchecked: Counter[tuple[str, Reason]] = Counter()
        self.remarks: Counter[tuple[str, Reason]] = Counter()
        self.own = 0  # calls of the framework's own functions whose gradient is not their derivative

    def add(self, listener: CallListener, site: CallSite, inputs: Sequence[Input], verdict: Verdict) -> None:
        """What was found of a call."""
        where = _place_of(listener, site)
        for reason, at in verdict.remarks:
            wrt = "" if at is None else text.with_respect_to(input_text(site, inputs[at]))
            self.remarks[where, Reason(reason.code, {**reason.fields, "wrt": wrt})] += 1
        self.own += any(reason.code == "not_derivative" for reason, _ in verdict.remarks)
        if verdict.unchecked is not None:
            self.unchecked[where, verdict.unchecked] += 1
            return
        self.checked[site] += 1
        self.error = max(self.error, verdict.error)
        for wrong in verdict.wrong:
            key = ("", "") if wrong.input is None else (inputs[wrong.input].place, inputs[wrong.input].path)
            found = WrongCall(listener, listener.counts.get(site.local, 0), inputs, wrong)
            self.wrong.setdefault((site, *key), []).append(found)

    def known(self, site: CallSite, inputs: Sequence[Input]) -> frozenset[int]:
        """The inputs of a call for which another call of this line was wrong: it is known how."""
        return frozenset(at for at, one in enumerate(inputs) if (site, one.place, one.path) in self.wrong)

    def add_unseen(self, unseen: UncheckedCalls) -> None:
        """What the run differentiated outside the calls that were followed."""
        self.unchecked.update((name, Reason("unseen_custom")) for name in unseen.custom)
        if unseen.own:
            self.remarks[text.operations(unseen.own), Reason("unseen_own")] += 1
        for name in unseen.hooked:
            self.remarks[name, Reason("hooked")] += 1

    def report(self, of: str, unfollowed: Sequence[object], remedy: str) -> CheckReport:
        """The report on a target, when the program is over.

        ``unfollowed`` are notes on functions that were not followed, ``remedy`` is what helps where nothing was
        differentiated.
        """
        findings = tuple(self._finding(site, found) for (site, _, _), found in self.wrong.items())
        unchecked = tuple(text.unchecked(where, why, count) for (where, why), count in self.unchecked.items())
        remarks = [text.remark(where, reason, count) for (where, reason), count in self.remarks.items()]
        notes = (*unchecked, *remarks, *map(str, unfollowed))
        checked, codes = self.checked.total(), {reason.code for _, reason in self.remarks}
        heading = text.heading(
            of, wrong=len(findings), checked=checked, unchecked=self.unchecked.total(), own=self.own,
            error=self.error, is_partial=bool(unchecked or unfollowed or codes & PARTIAL),
        )  # fmt: skip
        if not checked and not notes:
            notes = (text.nothing(remedy),)
        return CheckReport(heading, findings, notes, checked, self.error, unchecked)

    def _finding(self, site: CallSite, found: Sequence[WrongCall]) -> WrongDerivative:
        first = found[0]
        wrong, listener = first.wrong, first.listener
        of = "" if wrong.input is None else input_text(site, first.inputs[wrong.input])
        facts = text.facts(wrong, None if wrong.like is None else input_text(site, first.inputs[wrong.like]))
        if len(found) < self.checked[site]:
            facts.append(f"it is wrong in {len(found)} of {self.checked[site]} calls of this line")
        return WrongDerivative(
            "wrong_derivative", _name(listener, site, first.count),
            text.wrong_derivative(_expression(site), of, wrong.error),
            Source(listener.file, site.line, site.text) if site.line else None, tuple(facts),
            remedy=text.INTENDED.format(_skipped(site)), input=of, error=wrong.error,
        )  # fmt: skip


def _name(listener: CallListener, site: CallSite, count: int) -> str:
    """The name of what a statement binds; of what binds nothing, the operation's."""
    local = site.local or f"{site.op or site.spelled}()"
    if site.local and listener.counts.get(site.local, 0) > 1:
        local = f"{local}#{count}"
    within = listener.full_name()
    return f"{within}:{local}" if within else local


def _place_of(listener: CallListener, site: CallSite) -> str:
    """The place of a call and its text, as it is printed."""
    called = shorten(_expression(site))
    return f"{place(listener.file, site.line)}, {called}" if site.line else called


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
