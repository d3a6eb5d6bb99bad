"""The report: a list of findings that ``explain``, ``health``, ``check`` and other verbs return.

A report prints as a numbered list. The file and line of each cause are written so that editors and terminals link them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from backprobe.errors import UnknownAttribute, indented
from backprobe.findings.finding import Finding, plain
from backprobe.findings.phrasing import places, plural
from backprobe.findings.sarif import sarif
from backprobe.findings.wrapping import fitted
from backprobe.markup import Printed, element, joined, numbered, shown

T = TypeVar("T")
FEW, WHOLE = 5, 2
"""With at most ``FEW`` causes, a printed report shows all in full; with more, the first ``WHOLE``."""
SCREEN = 48
"""If a report with more causes than that would be longer than this number of lines, only one is shown in full."""
LINE = 78
"""The width, in characters, of a cause that is shown in one line."""
REST = "  {first} to {last} are cut short here: report.findings has them in full, and so has --json"


@dataclass(frozen=True, repr=False)
class Report(Printed):
    """The result of a verb: its findings, the causes first, and notes, such as on what could not be judged and why.

    ``heading`` is the result in a sentence. ``ok`` is True if nothing was found, and ``complete`` is True if everything
    that the verb judges was judged. A report is a collection of its findings: its length is their number, and it is
    true if there is one. Printing it shows each finding with the file and line of its cause.

    >>> import torch, backprobe as bp
    >>> report = bp.explain(bp.probe(lambda x, w: x.detach() * w)(2.0, 3.0), "w")
    >>> report.ok, report.complete, report.heading, len(report)
    (True, True, "'w' has its gradient: nothing is missing", 0)
    """

    heading: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    complete: bool = field(default=True, kw_only=True)

    @property
    def ok(self) -> bool:
        """True if nothing was found. If ``complete`` is False, this holds only for what was judged."""
        return not self.findings

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for ``json.dumps``: texts, numbers, lists and dicts.

        Every report has the keys ``ok``, ``complete``, ``heading``, ``findings`` and ``notes``; numbers that are not
        finite become texts: ``"NaN"``, ``"infinite"`` or ``"-infinite"``. The option ``--json`` prints this data.
        """
        return {
            "ok": self.ok,
            "complete": self.complete,
            "heading": self.heading,
            "findings": [one.to_dict() for one in self.findings],
            "notes": list(self.notes),
        }

    def to_sarif(
        self,
        program: str | os.PathLike[str] = ".",
        *,
        root: str | os.PathLike[str] | None = None,
        verb: str = "",
        ran: bool = True,
    ) -> dict[str, Any]:
        """The findings in SARIF 2.1.0, for ``json.dump``: GitHub and editors show each at its line.

        - ``program`` is the file or folder that the report is about, where findings without a line are shown.
        - ``root`` is the folder to which file names are relative, by default the current one.
        - ``verb`` is the verb to name in the description of each kind of finding.
        - ``ran`` is True if the program ran to its end.

        >>> import torch, backprobe as bp
        >>> report = bp.explain(bp.probe(lambda x, w: x.detach() * w)(2.0, 3.0), "x")
        >>> [one["ruleId"] for one in report.to_sarif()["runs"][0]["results"]]
        ['detach']
        """
        folder = Path.cwd() if root is None else Path(root).absolute()
        return sarif(self.findings, self.notes, folder, os.fspath(program), verb=verb, ran=ran)

    @property
    def data(self) -> NoReturn:
        """The old name of ``to_dict()``."""
        raise UnknownAttribute("'data' is 'to_dict' now", asked="report.data", next="report.to_dict()")

    def assert_ok(self, *, strict: bool = False) -> None:
        """Raise an AssertionError with the text of the report if anything was found; made for tests.

        >>> import torch, backprobe as bp
        >>> bp.explain(bp.probe(lambda x, w: x.detach() * w)(2.0, 3.0), "x").assert_ok()
        Traceback (most recent call last):
            ...
        AssertionError: 'x' has no gradient (not_connected): no path leads from it to the output
          `x.detach()` at ... cuts 'return' off from 'x'
        ...

        With ``strict`` it also raises if not everything could be judged, that is, if ``complete`` is False.
        """
        __tracebackhide__ = True  # pytest then shows the line of the test instead of this line
        if not self.ok or (strict and not self.complete):
            raise AssertionError(str(self))

    def of_kind(self, *kinds: str) -> Sequence[Finding]:
        """The findings of these kinds."""
        return [finding for finding in self.findings if finding.kind in kinds]

    def __str__(self) -> str:
        text = self._printed(WHOLE)
        return text if text.count("\n") < SCREEN else self._printed(1)

    def _printed(self, whole: int) -> str:
        # The text to print, with ``whole`` causes in full if there are many.
        return fitted(in_lines(self.heading, self.findings, self.notes, whole))

    def __repr__(self) -> str:
        found = f"; {plural(len(self.findings), 'finding')}" if self.findings else ""
        return f"<{type(self).__name__}: {self.heading}{found}>"

    def _repr_html_(self) -> str:
        where = places(one.source for one in self.findings)
        found = numbered(
            [
                joined([root._html(where), numbered([each._html(where) for each in beneath])])
                for root, beneath in arranged(self.findings)
            ]
        )
        notes = [element("div", f"note: {note}", class_="note") for note in self.notes]
        return shown(element("div", self.heading, class_="heading"), found, *notes)


def in_lines(heading: str, findings: Sequence[Finding], notes: Sequence[str], whole: int | None = None) -> str:
    """Return a report as text: causes, numbered if there are several, each with the findings that follow from it.

    With ``whole``, a report with more than ``FEW`` causes shows only so many in full, and the others in one line each.
    """
    found, roots, where = [], arranged(findings), places(one.source for one in findings)
    whole = len(roots) if whole is None or len(roots) <= FEW else whole
    for number, (root, beneath) in enumerate(roots[:whole], 1):
        mark = f"  {number}. " if len(roots) > 1 else "  "
        found.append(mark + indented(root._text(where), len(mark)))
        found += [" " * len(mark) + "- " + indented(each._text(where), len(mark) + 2) for each in beneath]
    for number, (root, _) in enumerate(roots[whole:], whole + 1):
        # put the place first, because the end of the line may be cut off
        line = "" if root.source is None else f"{where(root.source)}: "
        found.append("  " + root._shortened(f"{number}. {line}", LINE))
    if whole < len(roots):
        found.append(REST.format(first=whole + 1, last=len(roots)))
    return "\n".join([heading, *found, *(f"  note: {note}" for note in notes)])


def arranged(findings: Sequence[Finding]) -> list[tuple[Finding, list[Finding]]]:
    """Return the findings that follow from no other, each with the findings that follow from it.

    Facts that begin with the headline of the cause are removed from the findings below it, and so is the remedy if both
    have the same.
    """
    places = {one.headline: at for at, one in reversed([*enumerate(findings)]) if not one.cause}
    found: dict[int, list[Finding]] = {at: [] for at, one in enumerate(findings) if one.cause not in places}
    for one in findings:
        if one.cause in places:
            root = findings[places[one.cause]]
            facts = tuple([fact for fact in one.facts if not fact.startswith(root.headline)])
            found[places[one.cause]].append(
                replace(one, facts=facts, remedy="" if one.remedy == root.remedy else one.remedy)
            )
    return [(findings[at], beneath) for at, beneath in found.items()]


def grouped(items: Iterable[T], key: Callable[[T], object]) -> list[list[T]]:
    """Group items with equal keys, in the order of the first item of each group."""
    groups: dict[object, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


__all__ = ["Finding", "Report", "arranged", "grouped", "in_lines", "plain"]
