"""The bookkeeping of one check: which calls were checked with which result, which were not checked, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from backprobe.backends.recheck import Input, Recheck, RecordedCall
from backprobe.check import text
from backprobe.check.locate_error import Wrong
from backprobe.check.report import CheckReport, WrongDerivative
from backprobe.check.second_derivative import GradientCall
from backprobe.check.verdict import check_call
from backprobe.findings.phrasing import shorten
from backprobe.record.brief import place
from backprobe.record.reasons import Note, Reason
from backprobe.record.source import Source
from backprobe.source.sites import CallSite
from backprobe.tracing.values import ScopeId

UNJUDGED = frozenset(
    {
        "captured",
        "derives",
        "derives_off",
        "may_have_rule",
        "unseen_own",
        "hooked",
        "input_unsettled",
        "gradient_not_finite",
        "spread",
        "outputs_unsettled",
        "hidden_write",
    }
)
"""Codes of remarks for calls that were not fully checked."""
PARTIAL = UNJUDGED | {"skipped"}
"""Codes of remarks after which the heading of the report claims only that the checked calls are right."""


MOST_TWICE = 64  # the most calls that are kept to check their second derivatives when the program is over
# second derivatives are not checked for calls whose arguments have more elements, because copies of the arguments are
# kept until the program ends
LARGEST_TWICE = 2**20


@dataclass(frozen=True)
class RightCall:
    """A call with a right derivative. It is kept with its time, because its second derivative may be checked later."""

    scope: ScopeId
    site: CallSite
    call: RecordedCall
    since: int
    until: int


@dataclass(frozen=True)
class WrongCall:
    """A call with a wrong derivative: its scope, its number among the calls there, and the error."""

    scope: ScopeId
    count: int
    wrong: Wrong


class CheckResults:
    """The results of one run. Equal remarks about the same place are counted.

    With ``order`` 2, second derivatives are checked for the first right call of each call site. Otherwise they are
    checked only for right calls whose gradient the program differentiates.
    """

    def __init__(self, order: int = 1) -> None:
        self.order = order
        self.checked_twice: set[CallSite] = set()  # places whose second derivatives were checked because of ``order``
        self.error = 0.0  # the largest error among right derivatives
        self.checked: Counter[CallSite] = Counter()
        # the bool in the key is True for a second derivative
        self.wrong: dict[tuple[CallSite, Input | None, bool], list[WrongCall]] = {}
        self.right: dict[CallSite, RightCall] = {}
        # right calls beyond ``MOST_TWICE`` or ``LARGEST_TWICE``, with the time when each was made
        self.too_many: dict[CallSite, tuple[int, int]] = {}
        self.derivatives: Counter[str] = Counter()  # places where the program computes derivatives
        self.second: Counter[tuple[str, Reason]] = Counter()  # gaps in the check of second derivatives
        self.unchecked: Counter[tuple[str, Reason]] = Counter()
        self.remarks: Counter[tuple[str, Reason]] = Counter()
        self.notes: dict[Note, None] = {}  # notes on functions that were not followed

    def note(self, code: str, **fields: str) -> None:
        self.notes[Note(code, fields)] = None

    def add(
        self,
        scope: ScopeId,
        site: CallSite,
        made: RecordedCall | Reason,
        since: int,
        until: int,
        *,
        is_twice: bool | None,
    ) -> None:
        """Check a call and store the result; if ``made`` is a reason, the call cannot be checked.

        ``is_twice`` says whether the gradient of the call is differentiated too. None means that this is not known yet.
        The backend can tell later, from the time of the call between ``since`` and ``until``.
        """
        where = _where(scope, site)
        if isinstance(made, Reason):
            if made.code == "computes_derivatives":
                self.derivatives[where] += 1
            else:
                self.unchecked[where, made] += 1
            return
        verdict = check_call(made, {one for one in made.inputs.values() if (site, one, False) in self.wrong})
        for reason, of in verdict.remarks:
            self.remarks[where, _about(reason, site, of)] += 1
        if verdict.unchecked is not None:
            self.unchecked[where, verdict.unchecked] += 1
            return
        self.checked[site] += 1
        self.error = max(self.error, verdict.error)
        self._blame(scope, site, verdict.wrong, is_second=False)
        if verdict.wrong or site in self.right:
            return
        right = RightCall(scope, site, made, since, until)
        if self.order == 2:
            if site not in self.checked_twice:
                self.checked_twice.add(site)
                self._check_second(right)
        elif is_twice:
            self._check_second(right)
        elif is_twice is None:
            self._keep(right)

    def _keep(self, right: RightCall) -> None:
        size = sum(value.size for kept in (*self.right.values(), right) for value in kept.call.values)
        if len(self.right) < MOST_TWICE and size <= LARGEST_TWICE:
            self.right[right.site] = right
        else:
            self.too_many[right.site] = right.since, right.until

    def _blame(self, scope: ScopeId, site: CallSite, found: Sequence[Wrong], *, is_second: bool) -> None:
        for wrong in found:
            one = WrongCall(scope, scope.counts.get(site.local, 0), wrong)
            self.wrong.setdefault((site, wrong.input, is_second), []).append(one)

    def add_second(self, calls: Recheck) -> None:
        """Check second derivatives of the calls that were kept and whose gradients the program has differentiated. Of
        such calls that were not kept, only the number is stored.
        """
        if not calls.differentiates_twice:
            return
        for right in self.right.values():
            if calls.is_differentiated_twice(right.since, right.until):
                self._check_second(right)
        missing = sum(calls.is_differentiated_twice(*when) for when in self.too_many.values())
        if missing:
            self.second.update((where, Reason("too_many", {"count": f"{missing}"})) for where in self.derivatives)

    def _check_second(self, right: RightCall) -> None:
        where, verdict = _where(right.scope, right.site), check_call(GradientCall(right.call))
        self.error = max(self.error, verdict.error)
        self._blame(right.scope, right.site, verdict.wrong, is_second=True)
        for reason, of in verdict.remarks:
            if reason.code in UNJUDGED:
                self.second[where, _about(reason, right.site, of)] += 1
        if verdict.unchecked is not None:
            self.second[where, verdict.unchecked] += 1

    def add_hidden_write(self, scope: ScopeId, site: CallSite) -> None:
        """Note a write that autograd does not see."""
        self.remarks[_where(scope, site), Reason("hidden_write")] += 1

    def add_unseen(self, calls: Recheck) -> None:
        """Add remarks on operations that the run differentiated outside the followed calls, and on hooks."""
        unseen = calls.unaccounted()
        self.unchecked.update((name, Reason("unseen_custom")) for name, by_hand in unseen if by_hand)
        own = [name for name, by_hand in unseen if not by_hand]
        if own:
            self.remarks[text.operations(own), Reason("unseen_own")] += 1
        self.remarks.update((name, Reason("hooked")) for name in calls.hooked)

    def report(self, of: str, remedy: str, entered: dict[str, int]) -> CheckReport:
        """The final report on a target. ``remedy`` is the advice to print if nothing was differentiated."""
        findings = tuple(self._finding(*key, found, entered) for key, found in self.wrong.items())
        unchecked = tuple(text.remark(key, count, "not checked, ") for key, count in self.unchecked.items())
        second = tuple(text.remark(key, count, "second derivatives: ") for key, count in self.second.items())
        remarks = {key: text.remark(key, count) for key, count in self.remarks.items()}
        partly = {key: said for key, said in remarks.items() if key[1].code in UNJUDGED}
        notes = (*unchecked, *second, *remarks.values(), *map(str, self.notes))
        unjudged = (*unchecked, *second, *partly.values(), *map(str, self.notes))
        places = [
            *(where for where, _ in (*self.unchecked, *self.second, *partly)),
            *(note.fields.get("name", "") for note in self.notes),
        ]
        checked, codes = self.checked.total(), Counter(reason.code for _, reason in self.remarks.elements())
        heading = text.heading(
            of,
            wrong=len(findings),
            checked=checked,
            unchecked=self.unchecked.total(),
            own=codes["not_derivative"],
            error=self.error,
            is_partial=bool(unjudged or codes.keys() & PARTIAL),
            unjudged=places,
        )
        if not checked and not notes:
            nothing = "no call computed anything that depends on a differentiated value"
            notes = (f"{nothing}; {remedy}" if remedy else nothing,)
        complete = bool(checked and not unjudged)
        return CheckReport(heading, findings, notes, checked, self.error, unjudged, complete=complete)

    def _finding(
        self, site: CallSite, one: Input | None, is_second: bool, found: Sequence[WrongCall], entered: dict[str, int]
    ) -> WrongDerivative:
        scope, wrong = found[0].scope, found[0].wrong
        of = "" if one is None else input_text(site, one)
        facts = text.facts(wrong, None if wrong.like is None else input_text(site, wrong.like))
        if len(found) < self.checked[site] and not is_second:
            facts.append(f"it is wrong in {len(found)} of {self.checked[site]} calls of this line")
        local, within = site.local or f"{site.op or site.spelled}()", scope.printed(entered)
        if scope.counts.get(site.local, 0) > 1:
            local = f"{local}#{found[0].count}"
        return WrongDerivative(
            "wrong_derivative",
            f"{within}:{local}" if within else local,
            text.wrong_derivative(_expression(site), of, wrong.error, is_second=is_second),
            Source(scope.file, site.line, site.text) if site.line else None,
            tuple(facts),
            remedy=text.INTENDED.format(_skipped(site)),
            input=of,
            error=wrong.error,
        )


def _where(scope: ScopeId, site: CallSite) -> str:
    called = shorten(_expression(site))
    return f"{place(scope.file, site.line)}, {called}" if site.line else called


def _about(reason: Reason, site: CallSite, of: Input | None) -> Reason:
    # Return a remark that also names the input that it is about.
    wrt = "" if of is None else f" with respect to {input_text(site, of)}"
    return Reason(reason.code, {**reason.fields, "wrt": wrt})


def _expression(site: CallSite) -> str:
    return site.origin.expression or site.spelled


def _skipped(site: CallSite) -> str:
    # The text for ``skip=``: the function as the program calls it, or the class of an ``autograd.Function``.
    is_name = all(part.isidentifier() for part in site.spelled.split("."))
    return site.spelled.removesuffix(".apply") if is_name else "Function"


def input_text(site: CallSite, one: Input) -> str:
    """Return an input as the source writes it, followed by the path of the tensor inside it."""
    # the tensor is not an argument: it is the object whose method is called, or a parameter of the module
    if not one.place:
        return (site.spelled if one.path else site.spelled.rpartition(".")[0]) + one.path
    unknown = f"input {one.place}" if one.place.isdigit() else one.place
    return dict(site.arguments).get(one.place, unknown) + one.path
