"""The errors that a framework raises about its graph, in words: which named values they are about, at which lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backprobe.backends.facts import Failure
from backprobe.cuts.cuts import Ways
from backprobe.cuts.unrecorded import unseen_calls
from backprobe.explain.cutting import cut_finding
from backprobe.explain.sentences import is_returned, merged
from backprobe.explain.without_history import hidden_findings
from backprobe.findings.report import Finding
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.names import strip
from backprobe.record.source import Source
from backprobe.source.user_code import package

MOST = 8
WRITES = re.compile(r"\w_\(|[-+*/@%&|^]=|\]\s*=[^=]|\bout=|\bin_?place=|\.data\b")
"""What in a line is seen to write in place."""
ITEM = re.compile(r"\w[\w.]*(\[.*\])+\s*=[^=].*")
AUGMENTED = re.compile(r"(\w+)\s*(\*\*|//|>>|<<|[-+*/@%&|^])=.*")


@dataclass(frozen=True)
class FailureContext:
    """A failure with the entries that it is about."""

    record: Record
    values: list[Entry]
    savers: list[tuple[Entry, str]]
    writers: list[Entry]
    users: list[Entry]
    earlier: Source | None
    is_one_forward: bool
    lines: Sequence[Source]

    @property
    def first(self) -> str:
        """What the program calls the first of the values."""
        return own_name(self.values[0].name) if self.values else "u"

    @property
    def has_word(self) -> bool:
        """Can that be assigned to as it is written?"""
        return (
            bool(self.values) and all(part.isidentifier() for part in self.first.split(".")) and self.first != "return"
        )


Lines = list[str]


def note(failure: Failure, record: Record, captured: Sequence[int]) -> str | None:
    """What is to be said of an error; ``captured`` are the positions of the entries that the failure speaks of.

    None where nothing more is known than the message says.
    """

    def entries(positions: Sequence[int]) -> list[Entry]:
        return [record.entries[captured[at]] for at in positions][:MOST]

    savers = [(record.entries[captured[at]], operations) for at, operations in failure.savers][:MOST]
    writers, users = entries(failure.writers), entries(failure.users)
    values, lines = entries(failure.values), failure.lines[:MOST]
    told = FailureContext(record, values, savers, writers, users, failure.earlier, failure.is_one_forward, lines)
    if not told.values and failure.kind not in ("in_place", "not_float") and failure.earlier is None:
        return None
    said = SAYING[failure.kind](told)
    return "\n".join(["backprobe: " + said[0], *("  " + text for text in said[1:])])


def own_name(name: str) -> str:
    """A name as the program writes it: without scope and count."""
    return strip(name).rpartition(":")[2]


def _in_place(told: FailureContext) -> Lines:
    what = repr(told.values[0].name) if told.values else "a value without a name"
    said = [f"backward needs {what} as it was, and the program has written to it since"]
    said += _made(told)
    said += [f"saved:   {_at(entry)}, for the derivative of {operations}" for entry, operations in told.savers]
    modules = {entry.name: path for entry in told.writers if (path := _module(told.record, entry))}
    said += [f"written: {_written(entry, modules.get(entry.name, ''))}" for entry in told.writers]
    said += [f"written: {_line(line)}" for line in told.lines]
    if not told.writers and not told.lines:
        said.append("written: at a line that is not known: no name that was recorded was live there")
    if modules:
        named = ", ".join(map(repr, dict.fromkeys(modules.values())))
        return [*said, f"next:    inplace=False for the module {named}"]
    if told.values and told.values[0].source is None:
        return [*said, "next:    update it after the last backward() through what was computed from it"]
    if told.lines or any(entry.source is not None and ".step(" in entry.source.text for entry in told.writers):
        return [*said, "next:    update it after the last backward() through what was computed from it"]
    if told.writers and not any(entry.source and WRITES.search(entry.source.statement) for entry in told.writers):
        return [*said, "next:    inplace=False for the module that this line calls, or no write in what it calls"]
    return [*said, f"next:    an ordinary operation instead, {_ordinary(told)}"]


def _ordinary(told: FailureContext) -> str:
    """What to write instead of the line that writes: that is about its variable, whatever the saved value is called."""
    names = (own_name(entry.name) for entry in [*told.writers, *told.values])
    name = next((name for name in names if name.isidentifier() and name != "return"), "u")
    texts = [entry.source.text.strip() for entry in told.writers if entry.source]
    if any(map(ITEM.fullmatch, texts)):
        return f"a new tensor in its place, torch.stack([...]) or torch.where(...), and not {name}[...] = ..."
    if any(".copy_(" in text for text in texts):
        return f"a new tensor each time, {name} = ..., and not {name}.copy_(...)"
    augmented = map(AUGMENTED.fullmatch, texts)
    found = next((match for match in augmented if match is not None), None)
    if found is None:
        return f"{name} = {name} * 2 and not {name}.mul_(2)"
    return f"{found[1]} = {found[1]} {found[2]} ... and not {found[1]} {found[2]}= ..."


def _written(entry: Entry, module: str) -> str:
    if not module:
        return _at(entry)
    return f"by the module {module!r}" + ("" if entry.name == module else f", as {entry.name!r}")


def _module(record: Record, entry: Entry) -> str:
    """The path of the module that gave an entry which no line of the program's own gave."""
    if entry.source is not None and package(entry.source.file) is None:
        return ""
    names = [strip(full) for full, at in record.names.items() if record.entries[at] is entry]
    paths = [name.removesuffix(":return") for name in names if name.endswith(":return") and not name.startswith("/")]
    return max(paths, key=len, default="")  # the innermost: those around it give the same


def _freed(told: FailureContext) -> Lines:
    if told.earlier is None:
        return [
            f"an earlier backward() or grad(), not seen here, has gone through what {told.values[0].name!r} leads to",
            "next:     retain_graph=True there, or create_graph=True of an inner probe; or compute it again",
        ]  # fmt: skip
    call = "grad()" if "grad(" in told.earlier.text and "backward(" not in told.earlier.text else "backward()"
    said = [f"what is differentiated now goes on from what an earlier {call} has gone through and freed"]
    said += [f"freed:    {_line(told.earlier)}"]
    said += [f"survived: {_at(value)}" for value in told.values] or ["survived: a value without a name"]
    if not told.users and told.values:
        return [
            f"{call} has gone through {told.values[0].name!r} before, and has freed what leads to it", *said[1:],
            "next:     retain_graph=True in that call" if call == "grad()" else
            "next:     call backward() once; two losses of the same values are summed first: (a + b).backward()",
        ]  # fmt: skip
    said += [f"used:     {_at(user)}" for user in told.users]
    if told.is_one_forward:
        return [*said, "next:     sum the losses and call backward() once: (a + b).backward();",
                "          or retain_graph=True in the call that comes first"]  # fmt: skip
    first = f"{told.first} = {told.first}.detach()" if told.has_word else "detach() on what is carried over"
    container, _, item = told.first.rpartition(".")
    if item.isdigit() and container.isidentifier() and container != "return":
        first = f"{container} = tuple(part.detach() for part in {container})"
    return [
        *said,
        f"next:     {first} before it is used again, where gradients need not flow into what was before;",
        "          or compute it again; or sum the losses and call backward() once",
    ]


def _without_history(told: FailureContext) -> Lines:
    """Why backward cannot begin at an entry."""
    root = told.values[0]
    ways = Ways(told.record, has_run=False)
    at = [ways.position[root.name]]
    before = ways.before(at)
    among = before if len(before) > 1 else set(range(len(ways.entries)))  # where only modules are recorded: all
    said = [f"{root.name!r} leads back to nothing that requires a gradient", *_cuts_among(ways, among, at)]
    if len(said) == 1:
        frozen = [each for each in sorted(among) if ways.entries[each].status is GradStatus.FROZEN]
        leaves = [each for each in frozen if each not in at and not ways.sources(each) and not is_returned(ways, each)]
        said += _frozen([ways.entries[each] for each in leaves],
                        [ways.entries[each] for each in frozen if unseen_calls(ways.entries[each])])  # fmt: skip
    return said


def _frozen(leaves: list[Entry], computed: list[Entry]) -> Lines:
    """What requires no gradient: what a call gives that is not recorded, such as a model's, and leaves."""
    calls = {text: entry.source for entry in computed for text in unseen_calls(entry)}
    said = [f"frozen:  `{text}`" + (f" ({_line(line)})" if line else "") for text, line in calls.items()][:MOST]
    said += [f"frozen:  {_at(entry)}" for entry in leaves if entry not in computed][: MOST - len(said)]
    if calls:
        texts = ", ".join(f"`{text}`" for text in list(calls)[:3])
        said.append(f"next:    requires_grad_() on what {texts} computes with, as the parameters of a module")
    elif leaves:
        names = " or ".join(own_name(entry.name) for entry in leaves[:3])
        said.append(f"next:    requires_grad_() on {names}, before it is used")
    return said


def cuts_towards(record: Record, at: Sequence[int]) -> Lines:
    """The lines that cut these entries off from what is differentiated, where backward has not run."""
    ways = Ways(record, has_run=False)
    return _cuts_among(ways, ways.before(at), at)


def _cuts_among(ways: Ways, among: set[int], ends: Sequence[int]) -> Lines:
    said = []
    cuts = [cut_finding(ways, cut) for cut in ways.severing(among, ends)] or hidden_findings(ways, among)
    first: dict[object, Finding] = {}
    for found in merged(cuts):  # of one line one: that of a module of the framework's does it to each
        first.setdefault((found.kind, found.source or found.name), found)
    for found in list(first.values())[:MOST]:
        said.append(f"cut:     {found.headline}")
        if found.source is not None:
            said.append(f"at:      {_line(found.source)}")
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


def _not_scalar(told: FailureContext) -> Lines:
    return [
        f"{told.values[0].name!r} has the shape {told.values[0].shape}, and only a single number has one gradient",
        *_made(told),
        f"next:    {told.first}.sum().backward() or .mean(); {told.first}.backward(v) for a vector v",
    ]


def _unused(told: FailureContext) -> Lines:
    return [
        f"nothing leads from the output back to {', '.join(repr(entry.name) for entry in told.values)}", *_made(told),
        "next:    use it in what is computed, or allow_unused=True, which gives None for it",
    ]  # fmt: skip


def _leaf_written(told: FailureContext) -> Lines:
    return [
        f"{told.values[0].name!r} is a leaf that requires a gradient, and may not be written to", *_made(told),
        f"next:    {told.first} = {told.first} * 2 for a new value; with torch.no_grad(): around an update",
    ]  # fmt: skip


def _view_written(told: FailureContext) -> Lines:
    return [
        f"{told.values[0].name!r} is a view that may not be written to", *_made(told),
        f"next:    {told.first} = {told.first} * 2 for a new value; or write to what it is a view of, u[0].mul_(2)",
    ]  # fmt: skip


def _inference(told: FailureContext) -> Lines:
    names, were = ", ".join(repr(entry.name) for entry in told.values), "was" if len(told.values) == 1 else "were"
    return [
        f"{names} {were} made under torch.inference_mode()", *_made(told),
        f"next:    {told.first}.clone() where it is used, or torch.no_grad() instead of torch.inference_mode()",
    ]  # fmt: skip


def _made(told: FailureContext) -> Lines:
    return [f"made:    {_at(entry)}" for entry in told.values]


def _not_float(told: FailureContext) -> Lines:
    return [
        "whole numbers and truth values have no derivative",
        "next:    write floating point numbers, torch.tensor([1.0, 2.0]), or dtype=torch.float32",
    ]


SAYING: dict[str, Callable[[FailureContext], Lines]] = {
    "in_place": _in_place, "freed": _freed, "no_history": _without_history, "not_scalar": _not_scalar,
    "unused": _unused, "leaf_written": _leaf_written, "view_written": _view_written, "inference": _inference,
    "not_float": _not_float,
}  # fmt: skip


def _at(entry: Entry) -> str:
    is_of_program = entry.source is not None and package(entry.source.file) is None
    return f"{entry.name!r} ({_line(entry.source)})" if is_of_program and entry.source else repr(entry.name)


def _line(source: Source) -> str:
    return f"{source.file}:{source.line}: {source.text.strip()}"
