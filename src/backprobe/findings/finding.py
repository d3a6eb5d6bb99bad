"""One finding: its kind, place, evidence and remedy; and values of findings as plain data."""

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
    """One thing that was found: what it is, where, what was seen that shows it, and what would change it.

    ``kind`` is a word of the answer that it belongs to (``detach``, ``born``, ``wrong_derivative``), for programs
    that read it; ``headline`` says it in a sentence. ``name`` is the printed name of the entry that it is about, and
    ``source`` the user's line that caused it, None where no line did. ``facts`` are what was seen, a sentence
    each. ``chain`` are the printed names of entries along the way to the place, from the value that was asked about.
    ``remedy`` is what to write instead and what that changes; it is empty where nothing is known to help. ``fields``
    are the parts of the headline that come from the recording, by what they are. ``cause`` is the headline of the
    finding beneath which this one is printed, because it follows from that. ``lost`` are the names of the parameters
    that have no gradient because of it, and ``consequence`` is what follows from it in a few words, which are printed
    behind the headline. ``lines`` are the lines of the entries in
    ``chain``, one for each, None where an entry has none; they are there in reports on a recording. ``tried`` says what
    an experiment has shown, a sentence each: the program ran again with something changed. It is empty where none did.
    ``edits`` are the changes of the program's text with which gradients arrive and outputs stay as they are. ``known``
    are facts about the cause that no sentence has.

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
    """How grave it is, as SARIF says it."""

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data for ``json.dumps``: its fields by name, ``source`` as file, line and text."""
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
        """What is printed first of a finding: the headline, with its place, and the consequence."""
        return self._title(short)

    def _title(self, where: Where | None) -> str:
        # Without ``where`` it has no place, as where another text has it.
        sign = ";" if mid_sentence(self.headline) is not None else ":"
        headline = self.headline if where is None else placed(self.headline, self.source, where)
        return f"{headline}{sign} {self.consequence}" if self.consequence else headline

    def _shortened(self, before: str, most: int) -> str:
        # In one line, behind these words: if not all has room, the consequence is kept, without the names in it.
        whole = before + " ".join(self._title(None).split())
        end = shorten(f": {self.consequence.partition(' (')[0]}", most // 2) if self.consequence else ""
        return whole if len(whole) <= most else shorten(before + self.headline, most - len(end)) + end

    def _parts(self, where: Where = short) -> list[tuple[str, str]]:
        # The parts of the text, each with its label. If the title does not name the line in full, it follows here.
        line = "" if self.source is None else location(self.source)
        if self.source is not None and line.startswith(f"{where(self.source)}: "):
            line = self.source.text.strip()
            line = "" if f"`{line}`" in self.headline else line
        seen = [("seen", fact) for fact in self.facts]
        tried = [("tried", sentence) for sentence in self.tried]
        return [("line", line), ("path", " -> ".join(self.chain)), *seen, *tried, ("next", self.remedy)]


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
