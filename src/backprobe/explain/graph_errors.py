"""Errors that a framework raises about its graph, in words: the named values that they are about, and their lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from backprobe.backends.facts import Failure
from backprobe.cuts.cuts import Dataflow
from backprobe.cuts.unrecorded import unseen_calls
from backprobe.explain.about_entries import is_returned, merged
from backprobe.explain.cutting import cut_finding
from backprobe.explain.text import in_error
from backprobe.explain.without_history import hidden_findings
from backprobe.findings.phrasing import MOST, location, quoted
from backprobe.findings.report import Finding
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.names import strip
from backprobe.source.user_code import package

WRITES = re.compile(r"\w_\(|[-+*/@%&|^]=|\]\s*=[^=]|\bout=|\bin_?place=|\.data\b")
"""What in a line is seen to write in place."""
ITEM = re.compile(r"\w[\w.]*(\[.*\])+\s*=[^=].*")
AUGMENTED = re.compile(r"(\w+)\s*(\*\*|//|>>|<<|[-+*/@%&|^])=.*")

Lines = list[str]


@dataclass(frozen=True)
class FailureContext:
    """A failure with the entries that it is about."""

    record: Record
    failure: Failure
    values: list[Entry]
    savers: list[tuple[Entry, str]]
    writers: list[Entry]
    users: list[Entry]

    @property
    def first(self) -> str:
        """What the program calls the first of the values."""
        return own_name(self.values[0].name) if self.values else "u"

    def say(self, code: str, **fields: object) -> str:
        """A sentence about the values."""
        entry = self.values[0] if self.values else None
        value = repr(entry.name) if entry else "a value without a name"
        shape = entry.shape if entry else None
        names = quoted([each.name for each in self.values], len(self.values))
        return in_error(code, **{"value": value, "values": names, "name": self.first, "shape": shape, **fields})


def note(failure: Failure, record: Record, captured: Sequence[int]) -> str | None:
    """What there is to say about an error; ``captured`` are the positions of the entries that the failure speaks of.

    None where nothing more is known than the message says.
    """

    def entries(positions: Sequence[int]) -> list[Entry]:
        return [record.entries[captured[at]] for at in positions][:MOST]

    savers = [(record.entries[captured[at]], operations) for at, operations in failure.savers][:MOST]
    context = FailureContext(
        record, failure, entries(failure.values), savers, entries(failure.writers), entries(failure.users)
    )
    if not context.values and failure.kind not in ("in_place", "not_float") and failure.earlier is None:
        return None
    first, *rest = SPECIAL.get(failure.kind, _plain)(context)
    return "\n".join([f"backprobe: {first}", *(f"  {text}" for text in rest)])


def own_name(name: str) -> str:
    """A name as the program writes it: without scope and count."""
    return strip(name).rpartition(":")[2]


def _plain(context: FailureContext) -> Lines:
    """What happened, the lines of the values, and what to write instead."""
    kind = context.failure.kind
    return [context.say(kind), *_made(context), f"next:    {context.say(f'{kind}_next')}"]


def _made(context: FailureContext) -> Lines:
    return [f"made:    {_at(entry)}" for entry in context.values]


def _in_place(context: FailureContext) -> Lines:
    lines = [f"written: {location(line)}" for line in context.failure.lines[:MOST]]
    modules = {entry.name: path for entry in context.writers if (path := _module(context.record, entry))}
    said = [context.say("in_place"), *_made(context)]
    said += [f"saved:   {context.say('saved_for', at=_at(entry), operations=operations)}"
             for entry, operations in context.savers]  # fmt: skip
    said += [f"written: {_written(context, entry, modules.get(entry.name, ''))}" for entry in context.writers] + lines
    if not context.writers and not lines:
        said.append(f"written: {context.say('written_unseen')}")
    return [*said, f"next:    {_without_writing(context, list(dict.fromkeys(modules.values())))}"]


def _without_writing(context: FailureContext, modules: Sequence[str]) -> str:
    """What to do instead of the write."""
    sources = [entry.source for entry in context.writers if entry.source is not None]
    is_update = bool(context.values) and context.values[0].source is None
    if modules:
        return context.say("write_of_modules", modules=quoted(modules, len(modules)))
    if is_update or context.failure.lines or any(".step(" in source.text for source in sources):
        return context.say("write_of_update")
    if context.writers and not any(WRITES.search(source.statement) for source in sources):
        return context.say("write_in_call")
    return _ordinary(context, [source.text.strip() for source in sources])


def _ordinary(context: FailureContext, texts: Sequence[str]) -> str:
    """What to write instead of the line that writes: that is about its variable, whatever the saved value is called."""
    names = (own_name(entry.name) for entry in [*context.writers, *context.values])
    name = next((name for name in names if name.isidentifier() and name != "return"), "u")
    if any(map(ITEM.fullmatch, texts)):
        return context.say("write_of_item", name=name)
    if any(".copy_(" in text for text in texts):
        return context.say("write_by_copy", name=name)
    found = next(filter(None, map(AUGMENTED.fullmatch, texts)), None)
    if found is None:
        return context.say("write", name=name)
    return context.say("write_augmented", name=found[1], operator=found[2])


def _written(context: FailureContext, entry: Entry, module: str) -> str:
    if not module:
        return _at(entry)
    return context.say("by_module" if entry.name == module else "by_module_as", module=repr(module),
                       value=repr(entry.name))  # fmt: skip


def _module(record: Record, entry: Entry) -> str:
    """The path of the module that gave an entry which no line of the program's own gave."""
    if entry.source is not None and package(entry.source.file) is None:
        return ""
    names = [strip(full) for full, at in record.names.items() if record.entries[at] is entry]
    paths = [name.removesuffix(":return") for name in names if name.endswith(":return") and not name.startswith("/")]
    return max(paths, key=len, default="")  # the innermost: those around it give the same


def _freed(context: FailureContext) -> Lines:
    earlier = context.failure.earlier
    if earlier is None:
        return [context.say("freed_unseen"), f"next:     {context.say('freed_unseen_next')}"]
    call = "grad()" if "grad(" in earlier.text and "backward(" not in earlier.text else "backward()"
    survived = [f"survived: {_at(value)}" for value in context.values] or ["survived: a value without a name"]
    lines = [f"freed:    {location(earlier)}", *survived]
    if not context.users and context.values:
        next = context.say("freed_itself_by_grad" if call == "grad()" else "freed_itself_next")
        return [context.say("freed_itself", call=call), *lines, f"next:     {next}"]
    lines += [f"used:     {_at(user)}" for user in context.users]
    next = context.say("freed_sum") if context.failure.is_one_forward else _carried(context)
    first, *rest = next.splitlines()
    return [context.say("freed", call=call), *lines, f"next:     {first}", *(f"          {line}" for line in rest)]


def _carried(context: FailureContext) -> str:
    """What to do where a value is carried from one step over to the next."""
    name = context.first
    container, _, item = name.rpartition(".")
    if item.isdigit() and container.isidentifier() and container != "return":
        return context.say("freed_carried", detach=f"{container} = tuple(part.detach() for part in {container})")
    is_name = bool(context.values) and all(part.isidentifier() for part in name.split(".")) and name != "return"
    return context.say("freed_carried", detach=f"{name} = {name}.detach()" if is_name else "detach() it")


def _without_history(context: FailureContext) -> Lines:
    """Why backward cannot begin at an entry."""
    flow = Dataflow(context.record, has_run=False)
    at = [flow.position[context.values[0].name]]
    before = flow.before(at)
    among = before if len(before) > 1 else set(range(len(flow.entries)))  # where only modules are recorded: all
    cuts = _cuts_among(flow, among, at)
    return [context.say("no_history"), *(cuts or _frozen(context, flow, among, at))]


def _frozen(context: FailureContext, flow: Dataflow, among: Iterable[int], at: Sequence[int]) -> Lines:
    """What requires no gradient: what a call gives that is not recorded, such as a model's, and leaves."""
    frozen = [each for each in sorted(among) if flow.entries[each].status is GradStatus.FROZEN]
    calls = {text: entry.source for entry in map(flow.entries.__getitem__, frozen) for text in unseen_calls(entry)}
    leaves = [flow.entries[each] for each in frozen
              if each not in at and not flow.sources(each) and not is_returned(flow, each)
              and not unseen_calls(flow.entries[each])]  # fmt: skip
    said = [f"frozen:  `{text}`" + (f" ({location(line)})" if line else "") for text, line in calls.items()]
    said = [*said, *(f"frozen:  {_at(entry)}" for entry in leaves)][:MOST]
    if calls:
        said.append(f"next:    {context.say('frozen_calls', calls=', '.join(f'`{text}`' for text in list(calls)[:3]))}")
    elif leaves:
        names = " or ".join(own_name(entry.name) for entry in leaves[:3])
        said.append(f"next:    {context.say('frozen_leaves', names=names)}")
    return said


def cuts_before(record: Record, at: Sequence[int]) -> Lines:
    """The lines that cut these entries off from what is differentiated, where backward has not run."""
    flow = Dataflow(record, has_run=False)
    return _cuts_among(flow, flow.before(at), at)


def _cuts_among(flow: Dataflow, among: set[int], ends: Sequence[int]) -> Lines:
    said = []
    cuts = [cut_finding(flow, cut) for cut in flow.severing(among, ends)] or hidden_findings(flow, among)
    first: dict[object, Finding] = {}
    for found in merged(cuts):  # of one line one: that of a module of the framework's does it to each
        first.setdefault((found.kind, found.source or found.name), found)
    for found in list(first.values())[:MOST]:
        said.append(f"cut:     {found.headline}")
        if found.source is not None:
            said.append(f"at:      {location(found.source)}")
        said += _first_remedy(found)
    return said


def _first_remedy(finding: Finding) -> Lines:
    """The first of several remedies, which end with a semicolon where another follows."""
    lines: list[str] = []
    for line in finding.remedy.splitlines():
        lines.append(("         " if lines else "next:    ") + line.removesuffix(";"))
        if line.endswith(";"):
            break
    return lines


def _at(entry: Entry) -> str:
    is_of_program = entry.source is not None and package(entry.source.file) is None
    return f"{entry.name!r} ({location(entry.source)})" if is_of_program and entry.source else repr(entry.name)


SPECIAL: dict[str, Callable[[FailureContext], Lines]] = {
    "in_place": _in_place, "freed": _freed, "no_history": _without_history,
}  # fmt: skip
"""How the notes of these kinds are made; of the others each has the same parts."""
