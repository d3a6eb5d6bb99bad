"""Findings, and the report that holds them: the answer of ``explain``, ``health`` and ``check``.

A report prints as a numbered list, each finding with the file and line of its cause as editors and terminals link them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, NoReturn, TypeVar

from backprobe.errors import UnknownAttribute, indented, labelled
from backprobe.findings.phrasing import shorten
from backprobe.findings.wrapping import fitted
from backprobe.markup import Html, Printed, element, facts, joined, numbered, shown
from backprobe.record.brief import path, place
from backprobe.record.source import Source

T = TypeVar("T")
FEW, WHOLE = 5, 2
"""The causes that a printed report shows in full: all of so many, and of more the first, so that it fits a screen."""
LINE = 78
"""The characters of a cause that is shown in one line."""
REST = "  {first} to {last} are cut short here: report.findings has them in full, and so has --json"


@dataclass(frozen=True, repr=False)
class Finding:
    """One thing that was found: what it is, where, what was seen that shows it, and what would change it.

    ``kind`` is a word of the answer that it belongs to (``detach``, ``born``, ``wrong_derivative``), for programs
    that read it; ``headline`` says it in a sentence. ``name`` is the printed name of the entry that it is about, and
    ``source`` the user's line that caused it, None where no line did. ``facts`` are what was seen, a sentence
    each. ``chain`` are the printed names of entries along the way to the place, from the value that was asked about.
    ``remedy`` is what to write instead and what that changes; it is empty where nothing is known to help. ``fields``
    are the parts of the headline that come from the recording, by what they are. ``cause`` is the headline of the
    finding beneath which this one is printed, because it follows from that. ``lines`` are the lines of the entries in
    ``chain``, one for each, None where an entry has none; they are there in reports on a recording.

    >>> import torch, backprobe as bp
    >>> finding = bp.explain(bp.probe(lambda x, w: x.detach() * w)(2.0, 3.0), "x").findings[0]
    >>> finding.kind, finding.name, finding.chain
    ('detach', 'return', ('x', 'return'))
    """

    kind: str
    name: str
    headline: str
    source: Source | None = None
    facts: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()
    remedy: str = ""
    fields: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    cause: str = ""
    lines: tuple[Source | None, ...] = field(default=(), repr=False, compare=False)

    level: ClassVar[str] = "warning"
    """How grave it is, as SARIF says it."""

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data for ``json.dumps``: its fields by name, ``source`` as file, line and text."""
        return {one.name: plain(getattr(self, one.name)) for one in fields(self) if one.compare}

    def __repr__(self) -> str:
        where = "" if self.source is None else f" ({place(self.source.file, self.source.line)})"
        return f"<Finding {self.kind}: {self.headline}{where}>"

    def __str__(self) -> str:
        return fitted(self._text())

    def _text(self) -> str:
        return "\n".join([self.headline, *labelled(self._parts())])

    def _repr_html_(self) -> str:
        return shown(self._html())

    def _html(self) -> Html:
        return facts(self.headline, self._parts())

    def _parts(self) -> list[tuple[str, str]]:
        # What is said of it, each with its label.
        source = self.source
        line = "" if source is None else f"{path(source.file, source.line)}\n  {source.text.strip()}"
        seen = [("seen", fact) for fact in self.facts]
        return [("at", line), ("path", " -> ".join(self.chain)), *seen, ("next", self.remedy)]


@dataclass(frozen=True, repr=False)
class Report(Printed):
    """The answer to one question: what was found, the causes first, and in ``notes`` what could not be judged and why.

    ``heading`` is the answer in a sentence. ``ok`` is whether nothing was found, and ``complete`` whether all was
    judged that the verb judges. A report is a collection of its findings: it has a length, and is true if there is one.
    Printing it shows each finding with the file and line of its cause.

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
        """Was nothing found? Where ``complete`` is False, that is said of what was judged alone."""
        return not self.findings

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for ``json.dumps``: texts, numbers, lists and dicts.

        Every report has the keys ``ok``, ``complete``, ``heading``, ``findings`` and ``notes``; a number that is not
        finite is a text: ``"NaN"``, ``"infinite"`` or ``"-infinite"``. ``--json`` prints it.
        """
        return {
            "ok": self.ok, "complete": self.complete, "heading": self.heading,
            "findings": [one.to_dict() for one in self.findings], "notes": list(self.notes),
        }  # fmt: skip

    @property
    def data(self) -> NoReturn:
        """An old name: ``to_dict()`` has taken its place."""
        raise UnknownAttribute("'data' is 'to_dict' now", asked="report.data", next="report.to_dict()")

    def assert_ok(self, *, strict: bool = False) -> None:
        """Raise an AssertionError, whose text is the report, if anything was found: for a test.

        >>> import torch, backprobe as bp
        >>> bp.explain(bp.probe(lambda x, w: x.detach() * w)(2.0, 3.0), "x").assert_ok()
        Traceback (most recent call last):
            ...
        AssertionError: 'x' has no gradient (not_connected): no path leads from it to the output
          `x.detach()` copies the values of 'x' but not its gradient history, so 'return' is disconnected
        ...

        With ``strict`` also if not everything could be judged, where ``complete`` is False.
        """
        __tracebackhide__ = True  # pytest then shows the test's own line, and not this one
        if not self.ok or (strict and not self.complete):
            raise AssertionError(str(self))

    def of_kind(self, *kinds: str) -> Sequence[Finding]:
        """The findings of these kinds."""
        return [finding for finding in self.findings if finding.kind in kinds]

    def __str__(self) -> str:
        return fitted(in_lines(self.heading, self.findings, self.notes, WHOLE))

    def __repr__(self) -> str:
        found = f"; {len(self.findings)} finding{'s' * (len(self.findings) != 1)}" if self.findings else ""
        return f"<{type(self).__name__}: {self.heading}{found}>"

    def _repr_html_(self) -> str:
        found = numbered([
            joined([root._html(), numbered([each._html() for each in beneath])])
            for root, beneath in arranged(self.findings)
        ])  # fmt: skip
        notes = [element("div", f"note: {note}", class_="note") for note in self.notes]
        return shown(element("div", self.heading, class_="heading"), found, *notes)


def in_lines(heading: str, findings: Sequence[Finding], notes: Sequence[str], whole: int | None = None) -> str:
    """A report as text: each finding in full, with a number where there are several, and beneath it what follows.

    With ``whole``, of more than ``FEW`` so many are shown in full, and the others in a line each.
    """
    found, roots = [], arranged(findings)
    whole = len(roots) if whole is None or len(roots) <= FEW else whole
    for number, (root, beneath) in enumerate(roots[:whole], 1):
        mark = f"  {number}. " if len(roots) > 1 else "  "
        found.append(mark + indented(root._text(), len(mark)))
        found += [" " * len(mark) + "- " + indented(each._text(), len(mark) + 2) for each in beneath]
    for number, (root, _) in enumerate(roots[whole:], whole + 1):
        where = "" if root.source is None else f"{place(root.source.file, root.source.line)}: "
        found.append("  " + shorten(f"{number}. {where}{root.headline}", LINE))
    if whole < len(roots):
        found.append(REST.format(first=whole + 1, last=len(roots)))
    return "\n".join([heading, *found, *(f"  note: {note}" for note in notes)])


def arranged(findings: Sequence[Finding]) -> list[tuple[Finding, list[Finding]]]:
    """The findings that follow from no other, each with those that follow from it, without what it says already."""
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


def plain(value: Any) -> Any:
    """A value as dicts and lists, with words for what JSON has no number for.

    >>> plain({"steps": (1, 2), "error": math.inf})
    {'steps': [1, 2], 'error': 'infinite'}
    """
    if isinstance(value, Source):
        return {"file": value.file, "line": value.line, "text": value.text}
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, complex):
        return {"real": plain(value.real), "imag": plain(value.imag)}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
    return value


def grouped(items: Iterable[T], key: Callable[[T], object]) -> list[list[T]]:
    """Items in groups that have one key, in the order of the first of each."""
    groups: dict[object, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())
