"""Where the way from a value to the output is cut: a recorded value is mentioned, and nothing leads back to it.

Gradients flow along edges, which the framework's graph has. What the program says of itself is what each of its
expressions mentions. Where an expression mentions a value that has a history, and no edge leads from the result back
to that value, the derivative is lost there.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from backprobe.cuts.lines import line_of
from backprobe.cuts.unrecorded import CERTAIN, FIRM, LOSING
from backprobe.cuts.usage import Use, as_called, uses
from backprobe.record.entries import LINES_OF_THEIR_OWN, Entry, GradStatus, Record
from backprobe.record.names import partition, split, strip
from backprobe.record.source import Source

HISTORY = (GradStatus.OK, GradStatus.NOT_CONNECTED, GradStatus.BACKWARD_NOT_RUN, GradStatus.OPAQUE)
NO_NUMBERS, CHECKPOINT, DIFFERENTIATED = "shape", "checkpoint", "differentiated"
LOOPS = ("for ", "async for ")


@dataclass(frozen=True)
class Mention:
    """One recorded value that another is computed from, as the program says it: the line, and what it does with it."""

    source: int
    target: int
    line: Source | None
    uses: tuple[Use, ...] = ()

    @property
    def use(self) -> Use:
        """The use that cuts, where several do not all."""
        kept = [use for use in self.uses if use.kind != NO_NUMBERS]
        cutting = [use for use in kept if use.kind not in ("", DIFFERENTIATED)]
        return next(iter(cutting or [use for use in kept if use.kind] or kept), Use())

    @property
    def is_firm(self) -> bool:
        """Does each use of its numbers cut wherever it stands, so that none of them would let a history through?"""
        kinds = {use.kind for use in self.uses} - {NO_NUMBERS}
        return bool(kinds) and kinds.issubset(FIRM)

    @property
    def place(self) -> Source | None:
        """The line of the part that cuts, where the statement goes over several."""
        return None if self.line is None else line_of(self.line, self.use.text or self.use.flat or self.use.call)


@dataclass(frozen=True)
class Cut:
    """A value with a history that is mentioned where nothing leads back to it.

    ``is_silent`` says that an edge is there, and that backward brought nothing along it, ``is_limited`` that it was not
    asked to. ``is_behind`` says that the value has no history of its own, since another cut lies before, and would be
    cut off here again.
    """

    mention: Mention
    is_silent: bool = False
    is_limited: bool = False
    is_behind: bool = False

    @property
    def target(self) -> int:
        return self.mention.target


class Ways:
    """The ways on which one recorded value goes into another: the framework's edges, and what the program mentions."""

    def __init__(self, record: Record, *, has_run: bool = True) -> None:
        self.has_run = has_run  # did backward run to its end, so that what has a gradient leads to the output?
        self.record, self.entries = record, record.entries
        self.position = {entry.name: at for at, entry in enumerate(record.entries)}
        self.edges = [self._positions(edge.name for edge in entry.inputs) for entry in record.entries]
        self.mentions = [_mentions(at, entry, self.position) for at, entry in enumerate(record.entries)]
        self._mention_parameters()
        self.consumers: dict[int, dict[int, None]] = defaultdict(dict)
        for target in range(len(self.entries)):
            for source in self.sources(target):
                self.consumers[source][target] = None

    def has_history(self, at: int) -> bool:
        """Is a value differentiated? Of what a framework does not let be seen only an edge can tell."""
        status = self.entries[at].status
        return status in HISTORY and (status is not GradStatus.OPAQUE or at in self._on_edges)

    @cached_property
    def _on_edges(self) -> set[int]:
        """The values that an edge leads to or from."""
        return {each for target, sources in enumerate(self.edges) if sources for each in (target, *sources)}

    def _positions(self, names: Iterable[str]) -> dict[int, None]:
        return {self.position[name]: None for name in names if name in self.position}

    @cached_property
    def modules_cut(self) -> list[int]:
        """What modules return without a history, though their parameters have one."""
        cut = (GradStatus.DETACHED, GradStatus.NO_GRAD)
        return [at for at, entry in enumerate(self.entries) if entry.source is None and entry.status in cut]

    @cached_property
    def turns(self) -> list[int]:
        """The variables of loops whose numbers were taken from recorded values: an output depends on their count."""
        loops = [at for at, entry in enumerate(self.entries) if entry.status is GradStatus.NOT_TENSOR
                 and entry.source is not None and entry.source.text.startswith(LOOPS)]  # fmt: skip
        return [at for at in loops if any(mention.use.kind for mention in self.mentions[at])]

    def _mention_parameters(self) -> None:
        """No expression mentions the parameters of a module that returns something without a history."""
        cut = {strip(self.entries[at].name): at for at in self.modules_cut}
        if "return" in cut:  # of the model itself
            cut[""] = cut["return"]
        for name, at in self.record.names.items() if cut else ():
            if split(name)[1] is None:
                segments = partition(name, ".")
                for length in range(len(segments) - 1, -1, -1):
                    target = cut.get(".".join(segments[:length]))
                    if target is not None:
                        self.mentions[target].append(Mention(at, target, self.entries[target].cause))
                        break

    def modules_above(self, at: int) -> list[int]:
        """What the modules that a parameter lies in returned, the outermost first; none for anything else."""
        entry = self.entries[at]
        segments = partition(entry.name, ".") if entry.source is None and split(entry.name)[1] is None else ()
        above = [".".join(segments[:length]) for length in range(1, len(segments))]
        return [self.position[path] for path in above if path in self.position]

    def sources(self, target: int) -> dict[int, None]:
        """What goes into a value by either way."""
        return self.edges[target] | {mention.source: None for mention in self.mentions[target]}

    @cached_property
    def ends(self) -> set[int]:
        """The outputs, what modules return that no further way was recorded of, and how often loops run."""
        ends = [at for at in (*self.modules_cut, *self.turns) if not self.consumers.get(at)]
        return {*self.record.outputs, *ends}

    @cached_property
    def leading(self) -> set[int]:
        """The values that go into one of the ends."""
        return self.before(self.ends)

    @cached_property
    def to_outputs(self) -> set[int]:
        """The values that go into an output."""
        return self.before(self.record.outputs)

    def before(self, outputs: Iterable[int]) -> set[int]:
        """The values that go into any of these, and these."""
        found, pending = set(outputs), list(outputs)
        while pending:
            new = self.sources(pending.pop()).keys() - found
            found |= new
            pending += new
        return found

    def after(self, at: int) -> dict[int, int | None]:
        """The values that one goes into, each with the one before it on a shortest way, nearest first."""
        found: dict[int, int | None] = {at: None}
        pending = deque([at])
        while pending:
            source = pending.popleft()
            for target in self.consumers.get(source, ()):
                if target not in found:
                    found[target] = source
                    pending.append(target)
        return found

    def chain(self, after: dict[int, int | None], at: int) -> tuple[str, ...]:
        """The names on the way that ``after`` found to a value."""
        names = []
        step: int | None = at
        while step is not None:
            names.append(self.entries[step].name)
            step = after[step]
        return tuple(reversed(names))

    def cuts(self, at: int) -> list[Cut]:
        """Every cut on a way from one value to an output, in the order of execution."""
        return self.severing(self.after(at).keys() & self.leading)

    def severing(self, values: set[int], ends: Collection[int] = ()) -> list[Cut]:
        """The cuts between values of a set that would have to be mended: gradients come by none of them otherwise."""
        return [cut for cut in self.among(values) if not self._is_beside(cut, ends or self.ends)]

    def beside(self, values: set[int]) -> list[Mention]:
        """The cuts between values of a set that take nothing away: the value cut off flows on past them."""
        return [cut.mention for cut in self.among(values) if self._is_beside(cut, self.ends)]

    def _is_beside(self, cut: Cut, ends: Collection[int]) -> bool:
        """Do the numbers go on only into what the value that is cut off flows into as well, as in ``u - u.item()``?

        Mending such a cut brings no gradient: where that result is cut off in its turn, that is the cause.
        """
        if cut.is_silent or cut.is_behind:
            return False
        flowed = self._flowing[cut.mention.source]
        seen, pending, is_met = {cut.target}, [cut.target], False
        while pending:
            at = pending.pop()
            if at in ends:
                return False
            targets = self.consumers.get(at, {}).keys()
            is_met |= not flowed.isdisjoint(targets)
            new = targets - seen - flowed
            seen |= new
            pending += new
        return is_met

    @cached_property
    def _flowing(self) -> Flowing:
        return Flowing(self.edges)

    def among(self, values: set[int]) -> list[Cut]:
        """The cuts between values of a set."""
        found = []
        for target in sorted(values):
            found += [
                cut for mention in self.mentions[target] if mention.source in values and (cut := self._cut(mention))
            ]
            found += [self._silent(source, target) for source in self.edges[target]
                      if source in values and self._is_silent(source, target)]  # fmt: skip
        return found

    @cached_property
    def first_of_line(self) -> dict[int, int]:
        """By position, the first value of the same name that the same line made."""
        firsts: dict[object, int] = {}
        found = {}
        for at, entry in enumerate(self.entries):
            if entry.source is not None:
                found[at] = firsts.setdefault((strip(entry.name), entry.source.file, entry.source.line), at)
        return found

    @cached_property
    def derived(self) -> dict[int, Mention]:
        """The values of which the derivative goes on somewhere, and not the numbers: by position, the first mention."""
        found: dict[int, Mention] = {}
        for mention in (mention for mentions in self.mentions for mention in mentions):
            if mention.use.kind == DIFFERENTIATED and not self._flows(mention.source, mention.target):
                found.setdefault(mention.source, mention)
        return found

    def doubted(self, at: int) -> list[Mention]:
        """The mentions on a way to an output that are in what a call is given, and lead nowhere: that may be no use."""
        values = self.after(at).keys() & self.to_outputs
        mentions = [mention for target in sorted(values) for mention in self.mentions[target]]
        return [
            mention for mention in mentions
            if mention.source in values and self.has_history(mention.source)
            and self.entries[mention.source].status is not GradStatus.OK
            and mention.line is self.entries[mention.target].source and mention.line is not None
            and mention.line.expression and mention.use.call and not mention.use.is_conditional
            and not self._flows(mention.source, mention.target)
        ]  # fmt: skip

    def left_out(self, at: int) -> Cut | None:
        """The first mention on a way to an output that nothing leads back from: under a condition, or where what the
        value is given to makes an object that holds no tensor.
        """
        values = self.after(at).keys() & self.to_outputs
        mentions = (mention for target in sorted(values) for mention in self.mentions[target])
        return next((Cut(mention) for mention in mentions if mention.source in values and self._is_passed_by(mention)),
                    None)  # fmt: skip

    def _is_passed_by(self, mention: Mention) -> bool:
        source, line = self.entries[mention.source], mention.line
        if source.status is not GradStatus.NOT_CONNECTED or line is None or not line.expression:
            return False
        is_given = mention.use.is_argument and line != self.entries[mention.target].source
        return (mention.use.is_conditional or is_given) and not self._flows(mention.source, mention.target)

    def lost_beside(self, values: set[int]) -> list[Mention]:
        """The mentions among these along which nothing comes back to a value that has a gradient by another way."""
        mentions = [mention for target in sorted(values) for mention in self.mentions[target]]
        found = []
        for mention in mentions:
            source, target = self.entries[mention.source], self.entries[mention.target]
            if mention.source not in values or source.status is not GradStatus.OK:
                continue
            flows = self._flows(mention.source, mention.target)
            kinds = {use.kind for use in mention.uses}
            is_cut = not flows and target.status in (GradStatus.DETACHED, GradStatus.NO_GRAD)
            if is_cut or not kinds.isdisjoint(CERTAIN if flows else LOSING):
                found.append(mention)
        return found

    def _cut(self, mention: Mention) -> Cut | None:
        source, target = self.entries[mention.source], self.entries[mention.target]
        if mention.use.kind == DIFFERENTIATED and not _is_first_order(mention.use, target):
            return None
        if self.has_history(mention.source):
            arrived = self.has_run and source.status is GradStatus.OK
            connected = arrived or self._flows(mention.source, mention.target)
            return None if connected or self._may_be_left_out(mention) else Cut(mention)
        if mention.use.kind == CHECKPOINT and source.status is target.status is GradStatus.FROZEN:
            return Cut(mention) if "use_reentrant=False" not in mention.use.text else None
        if mention.is_firm and source.status in (GradStatus.DETACHED, GradStatus.NO_GRAD):
            return Cut(mention, is_behind=True) if target.status is not GradStatus.OK else None
        return None

    def _may_be_left_out(self, mention: Mention) -> bool:
        """Does the line perhaps not use the value for this result, which leads back to others?

        So it is under a condition, with an index that is computed, where one of several results is not known from
        another, or has no derivatives, and where the statement has bound that name itself. What is given to a call as
        it is, is used there. A part of the line that cuts in any case is no such thing, nor a result without history.
        """
        source, target, use = self.entries[mention.source].source, self.entries[mention.target], mention.use
        if not use.kind and target.status is GradStatus.NOT_FLOAT and _is_one_of_several(target):
            return True  # a count beside the state of an optimizer, say
        if use.kind or (use.flat and not use.is_conditional) or target.status not in HISTORY:
            return False
        line = target.source
        if line is None or not line.expression or mention.line is not line:
            return True
        is_own = source is not None and (source.file, source.line) == (line.file, line.line)
        return is_own or use.is_conditional or not use.is_argument

    def _flows(self, source: int, target: int) -> bool:
        """Do edges lead from one value into another? Most that do are near: the nearest are looked at first."""
        seen, pending = {target}, deque([target])
        while pending:
            edges = self.edges[pending.popleft()]
            if source in edges:
                return True
            new = edges.keys() - seen
            seen |= new
            pending += new
        return False

    def _is_silent(self, source: int, target: int) -> bool:
        return self.entries[source].status is GradStatus.NOT_CONNECTED and self.entries[target].status is GradStatus.OK

    def _silent(self, source: int, target: int) -> Cut:
        entry = self.entries[source]
        if entry.is_because("no_path_to_inputs") and entry.cause is not None:
            return Cut(Mention(source, target, entry.cause), is_silent=True, is_limited=True)
        found = next((mention for mention in self.mentions[target] if mention.source == source), None)
        return Cut(found or Mention(source, target, self.entries[target].source), is_silent=True)


class Flowing(dict[int, set[int]]):
    """The values that edges lead to from each one, found when it is asked for."""

    def __init__(self, edges: Sequence[dict[int, None]]) -> None:
        super().__init__()
        self.targets: dict[int, list[int]] = defaultdict(list)
        for target, sources in enumerate(edges):
            for source in sources:
                self.targets[source].append(target)

    def __missing__(self, at: int) -> set[int]:
        found: set[int] = set()
        pending = [at]
        while pending:
            new = set(self.targets.get(pending.pop(), ())) - found
            found |= new
            pending += new
        self[at] = found
        return found


Said = tuple[str, Source | None, tuple[Use, ...] | None]
"""A name that is mentioned, at which line, and what that does with it: None where the text does not tell."""


def _mentions(target: int, entry: Entry, position: dict[str, int]) -> list[Mention]:
    """What goes into an entry as the program says it, but for what only its shape was asked of."""
    called = [*(read.spelled for read in entry.reads), *(way.through for way in entry.indirect)]
    followed = tuple(dict.fromkeys(name.removesuffix("()") for name in called if name.endswith("()")))
    found: dict[tuple[int, Source | None], Mention] = {}
    for name, line, known in (*_read(entry, followed), *_passed_on(entry, followed)):
        source = position.get(name, target)
        if source == target or (known is not None and all(use.kind == NO_NUMBERS for use in known)):
            continue
        before = found.get((source, line))
        kept = before is not None and before.uses
        found[source, line] = before if before and kept else Mention(source, target, line, known or ())
    return list(found.values())


def _read(entry: Entry, followed: tuple[str, ...]) -> Iterator[Said]:
    """What the entry's own expression mentions."""
    for read in entry.reads:
        yield read.name, entry.source, _uses(entry.source, read.spelled, followed)


def _passed_on(entry: Entry, followed: tuple[str, ...]) -> Iterator[Said]:
    """What came in through other names. An object may hold a value with its history, until the entry's line cuts it."""
    for way in entry.indirect:
        known, own = _uses(way.source, way.spelled, followed), _uses(entry.source, way.through, followed)
        cuts_here = not _has_cutter(known) and _has_cutter([use for use in own or () if not _is_own(use, way.through)])
        yield (way.name, entry.source, own) if cuts_here else (way.name, way.source, known)


def _is_own(use: Use, through: str) -> bool:
    """Is it an attribute or method of a name that holds no tensor? Those are its own, whatever they are called.

    But for ``sample()``, which only distributions have.
    """
    return use.kind != "sample" and re.fullmatch(rf"{re.escape(through)}\.\w+(\(.*)?", use.text, re.DOTALL) is not None


def _uses(line: Source | None, spelled: str, followed: tuple[str, ...]) -> tuple[Use, ...] | None:
    found = None if line is None else uses(line.expression or line.statement, spelled, followed)
    return None if line is None or found is None else tuple([as_called(use, line.calls) for use in found])


def _has_cutter(known: Iterable[Use] | None) -> bool:
    return any(use.kind not in ("", NO_NUMBERS, DIFFERENTIATED) for use in known or ())


def _is_one_of_several(entry: Entry) -> bool:
    """Is it a leaf of a container?"""
    return "." in strip(entry.name).rpartition(":")[2]


def _is_first_order(use: Use, result: Entry) -> bool:
    """Was ``create_graph`` off, where the text leaves that open?"""
    is_open = "create_graph=" in use.text and "create_graph=True" not in use.text
    return is_open and result.status in (GradStatus.DETACHED, GradStatus.NO_GRAD)


def places(record: Record) -> dict[int, Source]:
    """The line that cuts a value off in a statement of its own that goes over several, by position."""
    several = [at for at, entry in enumerate(record.entries) if entry.status in LINES_OF_THEIR_OWN
               and entry.cause is None and entry.source is not None and entry.source.below]  # fmt: skip
    mentions = Ways(record).mentions if several else []
    cutting = [mention for at in several for mention in mentions[at] if mention.use.kind]
    lines = ((mention.target, mention.place) for mention in reversed(cutting))
    return {at: line for at, line in lines if line is not None and line is not record.entries[at].source}


def causes(record: Record) -> dict[int, Source]:
    """The line of the first cut on the way from each value that no path leads from, by position.

    In one pass from the outputs back: the first cut of a value is its own, or that of the nearest value behind it.
    """
    ways = Ways(record)
    wanted = [at for at, entry in enumerate(record.entries) if entry.status is GradStatus.NOT_CONNECTED]
    own: dict[int, Source] = {}
    found: dict[int, Source] = {}
    limited: dict[int, Source] = {}  # which keep that line, where others cut them off as well
    for cut in reversed(ways.severing(ways.leading)):
        place = cut.mention.place
        if place is not None and not cut.is_behind:
            own[cut.mention.source] = place
            limited |= {cut.mention.source: place} if cut.is_limited else {}
    for at in reversed(wanted):
        behind = [own.get(at), *(found.get(target) for target in ways.consumers.get(at, ()))]
        line = next((line for line in behind if line is not None), None)
        if line is not None:
            found[at] = line
    return found | limited
