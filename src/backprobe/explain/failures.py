"""The errors that a framework raises about its graph, in words: which named values they are about, at which lines."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.backends.base import Failure
from backprobe.cuts import Ways
from backprobe.explain.missing import cut_finding
from backprobe.record import Entry, GradStatus, Record, Source

MOST = 8


def note(failure: Failure, record: Record, captured: Sequence[int]) -> str | None:
    """What is to be said of an error; ``captured`` are the positions of the entries that the failure speaks of.

    None where nothing more is known than the message says.
    """

    def entries(positions: Sequence[int]) -> list[Entry]:
        return [record.entries[captured[at]] for at in positions][:MOST]

    said = SAYING[failure.kind](failure, entries(failure.values), entries(failure.savers), entries(failure.writers))
    if failure.kind == "no_history":
        said = _without_history(record, [captured[at] for at in failure.values])
    return "\n".join(["backprobe: " + said[0], *("  " + text for text in said[1:])]) if said else None


Lines = list[str]


def _in_place(failure: Failure, values: list[Entry], savers: list[Entry], writers: list[Entry]) -> Lines:
    name = repr(values[0].name) if values else "a value without a name"
    said = [f"backward needs {name} as it was, and the program has written to it since"]
    said += [f"made:    {_at(entry)}" for entry in values]
    said += [f"saved:   {_at(entry)}, for the derivative of {failure.detail}" for entry in savers]
    said += [f"written: {_at(entry)}" for entry in writers]
    if not writers:
        said.append("written: at a line that is not known: no name that was recorded was live there")
    own = values[0].name.partition("#")[0] if values else "u"
    return [*said, f"next:    an ordinary operation instead, {own} = {own} * 2 and not {own}.mul_(2)"]


def _freed(failure: Failure, values: list[Entry], savers: list[Entry], writers: list[Entry]) -> Lines:
    if savers and any(value is root for value in values for root in savers):
        return [
            f"backward() has run from {savers[0].name!r} before, and has freed what leads to it",
            f"made:    {_at(savers[0])}",
            "next:    call backward() once; two losses of the same values are summed first: (a + b).backward()",
        ]
    if not values:
        return []
    return [
        "what is differentiated now goes on from values that an earlier backward() has gone through and freed",
        *(f"survived: {_at(value)}" for value in values),
        f"next:    {values[0].name.partition('#')[0]} = {values[0].name.partition('#')[0]}.detach() before it is used "
        "again, where gradients need not flow into what was before;",
        "         or compute it again; or sum the losses and call backward() once",
    ]


def _without_history(record: Record, at: Sequence[int]) -> Lines:
    """Why backward cannot begin at an entry."""
    if not at:
        return []
    ways, root = Ways(record, has_run=False), record.entries[at[0]]
    said = [f"{root.name!r} leads back to nothing that requires a gradient", *cuts_towards(record, at)]
    if len(said) == 1:
        frozen = [
            ways.entries[each] for each in sorted(ways.before(at))
            if ways.entries[each].status is GradStatus.FROZEN and not ways.sources(each)
        ]  # fmt: skip
        said += [f"frozen:  {_at(entry)}" for entry in frozen[:MOST]]
        if frozen:
            names = " or ".join(entry.name for entry in frozen[:3])
            said.append(f"next:    requires_grad_() on {names}, before it is used")
    return said


def cuts_towards(record: Record, at: Sequence[int]) -> Lines:
    """The lines that cut these entries off from what is differentiated, where backward has not run."""
    ways = Ways(record, has_run=False)
    said = []
    for cut in ways.among(ways.before(at)):
        found = cut_finding(ways, cut)
        said += [
            f"cut:     {found.headline}",
            *(f"at:      {_place(line)}" for line in [found.source] if line is not None),
        ]
        said += [f"next:    {found.remedy.splitlines()[0].rstrip(';')}"]
    return said


def _not_scalar(failure: Failure, values: list[Entry], savers: list[Entry], writers: list[Entry]) -> Lines:
    if not values:
        return []
    name = values[0].name
    return [
        f"{name!r} has the shape {failure.detail}, and only a single number has one gradient",
        f"made:    {_at(values[0])}",
        f"next:    {name}.sum().backward() or .mean(); {name}.backward(v) for the product of a vector and the Jacobian",
    ]


def _unused(failure: Failure, values: list[Entry], savers: list[Entry], writers: list[Entry]) -> Lines:
    said = [f"nothing leads from the output back to {entry.name!r}: {_at(entry)}" for entry in values]
    if not said:
        return []
    return [*said, "next:    use it in what is computed, or allow_unused=True, which gives None for it"]


def _leaf_written(failure: Failure, values: list[Entry], savers: list[Entry], writers: list[Entry]) -> Lines:
    if not values:
        return []
    name = values[0].name
    return [
        f"{name!r} is a leaf that requires a gradient, and this line writes to it: {_at(values[0])}",
        f"next:    {name} = {name} * 2 for a new value; with torch.no_grad(): around an update as an optimizer's",
    ]


def _view_written(failure: Failure, values: list[Entry], savers: list[Entry], writers: list[Entry]) -> Lines:
    if not values:
        return []
    name = values[0].name
    return [
        f"{name!r} is a view that may not be written to, and this line writes to it: {_at(values[0])}",
        f"next:    {name} = {name} * 2 for a new value; or write to the tensor that it is a view of, u[0].mul_(2)",
    ]


def _inference(failure: Failure, values: list[Entry], savers: list[Entry], writers: list[Entry]) -> Lines:
    if not values:
        return []
    return [
        *(f"{entry.name!r} was computed under torch.inference_mode(): {_at(entry)}" for entry in values),
        f"next:    {values[0].name}.clone() where it is used, or torch.no_grad() instead of torch.inference_mode()",
    ]


def _not_float(failure: Failure, values: list[Entry], savers: list[Entry], writers: list[Entry]) -> Lines:
    return [
        "whole numbers and truth values have no derivative",
        "next:    write floating point numbers, torch.tensor([1.0, 2.0]), or dtype=torch.float32",
    ]


def _nothing(failure: Failure, values: list[Entry], savers: list[Entry], writers: list[Entry]) -> Lines:
    return []


SAYING = {
    "in_place": _in_place, "freed": _freed, "no_history": _nothing, "not_scalar": _not_scalar, "unused": _unused,
    "leaf_written": _leaf_written, "view_written": _view_written, "inference": _inference, "not_float": _not_float,
}  # fmt: skip


def _at(entry: Entry) -> str:
    return repr(entry.name) + (f" ({_place(entry.source)})" if entry.source is not None else "")


def _place(line: Source) -> str:
    return f"{line.file}:{line.line}: {line.text.strip()}"
