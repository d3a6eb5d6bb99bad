"""One finding: its kind, place, evidence and remedy; and its conversion to plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar

from backprobe.errors import labelled
from backprobe.findings.known import Known
from backprobe.findings.phrasing import Where, location, mid_sentence, placed, short, shorten
from backprobe.findings.wrapping import fitted
from backprobe.markup import Html, facts, shown
from backprobe.record.source import Source
from backprobe.source.edits import Edit


@dataclass(frozen=True, repr=False)
class Finding:
    """One result of an analysis: what is wrong, where, what was observed, and what would change it.

    ``kind`` is an identifier for programs that read it (``detach``, ``born``, ``wrong_derivative``). ``headline``
    states the finding in a sentence. ``name`` is the printed name of the entry that it is about. ``source`` is the line
    of user code that caused it, or None. ``facts`` are the observations, a sentence each. ``chain`` are the printed
    names of entries along the path from the value in question to the place. ``lines`` are the lines of these entries,
    with None for an entry without a line; only reports on a recording have them. ``remedy`` says what to write instead
    and what that changes. It is empty if nothing is known to help.

    ``fields`` are texts by their meaning, mainly the parts of the headline that come from the recording. ``cause`` is
    the headline of the finding that this one follows from; this one is then printed below it. ``lost`` are the names of
    parameters that have no gradient because of the finding. ``consequence`` is a short text printed after the headline.
    ``tried`` are the results of experiments in which the program ran again with a change, a sentence each. ``edits``
    are changes of the program's text that were tried and helped: gradients arrived and outputs stayed the same, or NaN
    and Inf were gone. ``known`` are facts about the cause that no sentence states.

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
    lost: tuple[str, ...] = ()
    consequence: str = ""
    tried: tuple[str, ...] = ()
    lines: tuple[Source | None, ...] = field(default=(), repr=False, compare=False)
    edits: tuple[Edit, ...] = field(default=(), repr=False, compare=False)
    known: Known = field(default=Known.NOTHING, repr=False, compare=False)

    level: ClassVar[str] = "warning"
    """Its severity, as a level of SARIF."""

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data for ``json.dumps``, with ``source`` as file, line and text.

        It has all fields by name but ``fields``, ``lines``, ``edits`` and ``known``.
        """
        return {one.name: plain(getattr(self, one.name)) for one in fields(self) if one.compare}

    def __repr__(self) -> str:
        return f"<Finding {self.kind}: {placed(self.headline, self.source)}>"

    def __str__(self) -> str:
        return fitted(self._text())

    def _text(self, where: Where = short) -> str:
        return "\n".join([self._title(where), *labelled(self._parts(where))])

    def _repr_html_(self) -> str:
        return shown(self._html())

    def _html(self, where: Where = short) -> Html:
        return facts(self._title(where), self._parts(where))

    @property
    def title(self) -> str:
        """The first line of the printed finding: the headline with its place, and the consequence."""
        return self._title(short)

    def _title(self, where: Where | None) -> str:
        # The title; without ``where`` the place is left out, for a text that shows it elsewhere.
        sign = ";" if mid_sentence(self.headline) is not None else ":"
        headline = self.headline if where is None else placed(self.headline, self.source, where)
        return f"{headline}{sign} {self.consequence}" if self.consequence else headline

    def _shortened(self, before: str, most: int) -> str:
        # Return the title in one line after these words. If it is too long, the headline is cut, and the consequence is
        # kept without the names in it.
        whole = before + " ".join(self._title(None).split())
        end = shorten(f": {self.consequence.partition(' (')[0]}", most // 2) if self.consequence else ""
        return whole if len(whole) <= most else shorten(before + self.headline, most - len(end)) + end

    def _parts(self, where: Where = short) -> list[tuple[str, str]]:
        # The labelled parts of the text; a part with an empty text is not shown. The first is the line of code. It has
        # its path in front if the title shows only the file's name. Otherwise it is empty if the title contains it.
        line = "" if self.source is None else location(self.source)
        if self.source is not None and line.startswith(f"{where(self.source)}: "):
            line = self.source.text.strip()
            line = "" if f"`{line}`" in self.headline else line
        seen = [("seen", fact) for fact in self.facts]
        tried = [("tried", sentence) for sentence in self.tried]
        return [("line", line), ("path", " -> ".join(self.chain)), *seen, *tried, ("next", self.remedy)]


def plain(value: Any) -> Any:
    """Convert a value to dicts, lists, numbers and strings; NaN and Inf become words, because JSON cannot store them.

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
