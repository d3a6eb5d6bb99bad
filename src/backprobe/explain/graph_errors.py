"""Errors that a framework raises about its graph, in words: the named values that they are about, and their lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from backprobe.backends.facts import Failure
from backprobe.cuts.missing_edges import Dataflow
from backprobe.cuts.unrecorded import unseen_calls
from backprobe.errors import labelled
from backprobe.explain.about_entries import is_returned, merged, own_name
from backprobe.explain.cut_findings import cut_finding
from backprobe.explain.framework_words import FrameworkWords
from backprobe.explain.text import say
from backprobe.explain.without_history import hidden_findings
from backprobe.findings.phrasing import MOST, location, quoted
from backprobe.findings.report import grouped
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.names import strip
from backprobe.source.user_code import package

WRITES = re.compile(r"\w_\(|[-+*/@%&|^]=|\]\s*=[^=]|\bout=|\bin_?place=|\.data\b")
"""What in a line is seen to write in place."""

Parts = list[tuple[str, str]]
"""What stands below the headline of a note: labels and texts, the last one of what to do."""


@dataclass(frozen=True)
class FailureContext:
    """A failure with the entries that it is about."""

    record: Record
    failure: Failure
    values: list[Entry]
    savers: list[tuple[Entry, str]]
    writers: list[Entry]
    users: list[Entry]

    def say(self, code: str, **fields: object) -> str:
        """A sentence about the values."""
        words: dict[str, object] = {"value": "a value without a name", "name": "u"}
        for entry in self.values[:1]:
            words = {"value": repr(entry.name), "name": own_name(entry.name)}
            words["described"] = f"{entry.dtype} of shape {entry.shape}"
        words["values"] = quoted([each.name for each in self.values], len(self.values))
        return say(code, **{**words, **fields})


def note(failure: Failure, record: Record, captured: Sequence[int]) -> str | None:
    """What there is to say about an error; ``captured`` are the positions of the entries that the failure speaks of.

    None where nothing more is known than the message says.
    """

    def entries(positions: Iterable[int]) -> list[Entry]:
        return [record.entries[captured[at]] for at in positions][:MOST]

    savers = [(record.entries[captured[at]], operations) for at, operations in failure.savers][:MOST]
    context = FailureContext(
        record, failure, entries(failure.values), savers, entries(failure.writers), entries(failure.users)
    )
    if not context.values and failure.kind not in ("in_place", "integer_leaf") and failure.earlier is None:
        return None
    if failure.kind == "freed":
        return _freed(context)
    if failure.kind == "no_history":
        parts = _without_history(context)
    elif failure.kind == "in_place":
        parts = [*_made(context), *_in_place(context)]
    else:
        parts = [*_made(context), ("next", context.say(f"{failure.kind}_next"))]
    return _note(context.say(failure.kind), parts)


def _note(headline: str, parts: Parts, width: int = 9) -> str:
    return "\n".join([f"backprobe: {headline}", *labelled(parts, width)])


def _made(context: FailureContext) -> Parts:
    return [("made", _at(entry)) for entry in context.values]


def _in_place(context: FailureContext) -> Parts:
    modules = {entry.name: path for entry in context.writers if (path := _module(context.record, entry))}
    written = [context.say("by_module", module=repr(modules[entry.name])) if entry.name in modules else _at(entry)
               for entry in context.writers]  # fmt: skip
    written += map(location, context.failure.lines[:MOST])
    return [
        *(("saved", context.say("saved_for", at=_at(entry), operations=names)) for entry, names in context.savers),
        *(("written", place) for place in written or [context.say("written_unseen")]),
        ("next", _without_writing(context, list(dict.fromkeys(modules.values())))),
    ]


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
    names = [own_name(entry.name) for entry in (*context.writers, *context.values)]
    name = next((name for name in names if name.isidentifier() and name != "return"), "u")
    text = next((f"`{source.text.strip()}`" for source in sources), "the write")
    return context.say("write", name=name, text=text)


def _module(record: Record, entry: Entry) -> str:
    """The path of the module that gave an entry which no line of the program's own gave."""
    if entry.source is not None and package(entry.source.file) is None:
        return ""
    names = [strip(full) for full, at in record.names.items() if record.entries[at] is entry]
    paths = [name.removesuffix(":return") for name in names if name.endswith(":return") and not name.startswith("/")]
    return max(paths, key=len, default="")  # the innermost: those around it give the same


def _freed(context: FailureContext) -> str:
    earlier = context.failure.earlier
    if earlier is None:
        call, parts = "backward() or grad(), not seen here,", []
    else:
        call = "grad()" if "grad(" in earlier.text and "backward(" not in earlier.text else "backward()"
        survived = [_at(value) for value in context.values] or ["a value without a name"]
        parts = [("freed", location(earlier)), *(("survived", each) for each in survived)]
    is_itself = bool(context.values) and not context.users
    detach = "" if is_itself or context.failure.is_one_forward else _detaching(context)
    code = "freed_carried" if detach else "freed" if call == "backward()" else "freed_by_grad"
    parts += [*(("used", _at(user)) for user in context.users), ("next", context.say(f"{code}_next", detach=detach))]
    return _note(context.say("freed_itself" if is_itself else "freed", call=call), parts, 10)


def _detaching(context: FailureContext) -> str:
    """What cuts a value off that is carried from one step over to the next."""
    name = own_name(context.values[0].name) if context.values else ""
    container, _, item = name.rpartition(".")
    if item.isdigit() and container.isidentifier() and container != "return":
        return f"{container} = tuple(part.detach() for part in {container})"
    is_name = all(part.isidentifier() for part in name.split(".")) and name != "return"
    return f"{name} = {name}.detach()" if is_name else "detach() it"


def _without_history(context: FailureContext) -> Parts:
    """Why backward cannot begin at an entry."""
    flow = Dataflow(context.record, has_run=False)
    at = [flow.position[context.values[0].name]]
    before = flow.before(at)
    among = before if len(before) > 1 else set(range(len(flow.entries)))  # where only modules are recorded: all
    return _cuts_among(flow, among, at) or _frozen(context, flow, among, at)


def _frozen(context: FailureContext, flow: Dataflow, among: Iterable[int], at: Sequence[int]) -> Parts:
    """What requires no gradient: what a call gives that is not recorded, such as a model's, and leaves."""
    frozen = {each: unseen_calls(flow.entries[each]) for each in sorted(among)
              if flow.entries[each].status is GradStatus.FROZEN}  # fmt: skip
    calls = {text: flow.entries[each].source for each, texts in frozen.items() for text in texts}
    leaves = [flow.entries[each] for each, texts in frozen.items()
              if each not in at and not (texts or flow.sources(each) or is_returned(flow, each))]  # fmt: skip
    parts = [("frozen", f"`{text}`" + (f" ({location(line)})" if line else "")) for text, line in calls.items()]
    parts = [*parts, *(("frozen", _at(entry)) for entry in leaves)][:MOST]
    names = " or ".join(own_name(entry.name) for entry in leaves[:3])
    remedy = FrameworkWords("torch", {"text": ", ".join(f"`{text}`" for text in list(calls)[:3])})["require_inside"]
    return [*parts, ("next", remedy if calls else context.say("frozen_leaves", names=names) if names else "")]


def cut_note(record: Record) -> str | None:
    """The note about a result that does not depend on what is differentiated: the lines that cut it off, if any."""
    flow = Dataflow(record, has_run=False)
    parts = _cuts_among(flow, flow.before(record.outputs), record.outputs)
    return _note(say("unconnected"), parts) if parts else None


def _cuts_among(flow: Dataflow, among: set[int], ends: Sequence[int]) -> Parts:
    cuts = [cut_finding(flow, cut) for cut in flow.severing(among, ends)] or hidden_findings(flow, among)
    # of one line one: that of a module of the framework's does it to each
    groups = grouped(merged(cuts), lambda found: (found.kind, found.source or found.name))
    parts = []
    for found, *_ in groups[:MOST]:
        line = "" if found.source is None else location(found.source)
        parts += [("cut", found.headline), ("at", line), ("next", found.remedy.partition(";\n")[0])]
    return parts


def _at(entry: Entry) -> str:
    is_of_program = entry.source is not None and package(entry.source.file) is None
    return f"{entry.name!r} ({location(entry.source)})" if is_of_program and entry.source else repr(entry.name)
