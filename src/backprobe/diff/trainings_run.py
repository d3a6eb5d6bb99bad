"""Runs one comparison of two runs, and makes the report."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy

from backprobe.diff import text
from backprobe.diff.rename import Rename, renamed, renames_of
from backprobe.diff.trainings import KINDS, ComparedRows, RowParting, compare, paired
from backprobe.diff.trainings_report import RunDiffReport, RunDivergence
from backprobe.errors import BadOption
from backprobe.findings.phrasing import listed, plural, quoted
from backprobe.record.brief import written
from backprobe.record.options import Option
from backprobe.runs import Run, open_run
from backprobe.storage.runs.layout import FILE
from backprobe.storage.runs.merged import LOGGED

MOST = 4
NOISE = Option(
    "noise",
    object,
    None,
    "['runs/a-again']: the first training run once more, in another way that is right",
    says="other runs of the same training",
)
WHAT = {
    "value": "what {} returns",
    "grad": "the gradient of {}",
    "grad_backward": "the gradient that backward() left in {}",
    "update": "the update of {}",
    "param": "{} after the step",
    "logged": "the logged {}",
}


def is_run(given: Any) -> bool:
    """Is this a run, or the path of a run?"""
    if isinstance(given, Run):
        return True
    return isinstance(given, str | os.PathLike) and any(Path(given).glob(FILE.format("*")))


def diff_runs(a: Any, b: Any, rename: Any, layout: Any, noise: Any, convention: Any = None) -> RunDiffReport:
    """Compare two runs. Raises BadOption if one of them is not a run, if they have nothing in common or if an option is
    for recordings; BadName, BadOption or NothingMatched for ``rename``; and BadRun for a run that cannot be read.
    """
    for which, one in (("first", a), ("second", b)):
        if not is_run(one):
            is_missing = isinstance(one, str | os.PathLike) and not os.path.exists(one)
            raise BadOption(
                "a run is compared with a run",
                asked="bp.diff(a, b)",
                found=f"the {which} is {written(one)}" + ", which does not exist" * is_missing,
                next="bp.diff('runs/a', 'runs/b'), or two recordings",
            )
    for option, value in (("layout", layout), ("convention", convention)):
        if value is not None:
            raise BadOption(
                f"{option} is for recordings",
                asked=f"bp.diff(a, b, {option}={written(value)})",
                found="two runs",
                why="a run has statistics of tensors, which are the same in any layout",
                next="bp.diff(a, b)",
            )
    with ExitStack() as opened:
        first, second, *others = (
            one if isinstance(one, Run) else opened.enter_context(open_run(one)) for one in (a, b, *_noise(noise))
        )
        return _report(first, second, others, rename)


def _noise(noise: Any) -> Sequence[Any]:
    if noise is None:
        return ()
    several = list(noise) if isinstance(noise, Sequence) and not isinstance(noise, str) else [noise]
    if not several or not all(map(is_run, several)):
        raise NOISE.refused(noise)
    return several


def _report(a: Run, b: Run, noise: Sequence[Run], rename: Any) -> RunDiffReport:
    names = _partners(a.names, b.names, renames_of(rename, a.names, b.names, "run"))
    pairs = paired(a._reader, b._reader, names)
    shared = numpy.intersect1d(a.steps, b.steps)
    if not pairs or not len(shared):
        raise BadOption(
            "these runs have nothing in common",
            asked="bp.diff(a, b)",
            found=f"{_about(a)} in the first, {_about(b)} in the second",
            why="names belong together if they are equal, or by rename=; steps by their numbers",
            next=f"bp.diff(a, b, rename={{{a.names[-1]!r}: {b.names[-1]!r}}}), if these belong together"
            if len(shared) and a.names and b.names
            else "runs with steps in common",
        )
    _refuse_other_noise(a, noise)
    kinds = list(_kinds_of_one(a, b, names))
    skipped = []
    if len(a.ranks) != len(b.ranks):
        parameters = a._reader.parameters()
        skipped = [one for one in pairs if one.kind == "grad" and one.name not in parameters]
        pairs = [one for one in pairs if one not in skipped]
    rows = compare(a._reader, b._reader, pairs, [one._reader for one in noise])
    first = _first(rows, plural(len(noise), "other run") if noise else "")
    only = tuple(one for one in a.names if one not in names), tuple(one for one in b.names if one not in names.values())
    notes = [*_notes(a, b, rows, only, shared), *kinds, *([SEVERAL] if skipped else [])]
    is_whole = not any((*only, kinds, skipped)) and len(a.steps) == len(b.steps) == len(shared)
    heading = (
        f"no difference in {plural(len(shared), 'step')} of {plural(len(rows), 'row')}"
        if first is None
        else f"the trainings part at step {first.step}: {first.headline}"
    )
    return RunDiffReport(
        heading,
        () if first is None else (first,),
        tuple(notes),
        first=first,
        rows=tuple(rows),
        only_a=only[0],
        only_b=only[1],
        complete=is_whole and not any(row.only_one for row in rows),
        folders=(a.folder, b.folder),
    )


SEVERAL = (
    "the runs are of different numbers of processes: gradients of what modules return were not compared, since each "
    "process has those of its own loss"
)


def _partners(names: Sequence[str], others: Sequence[str], renames: Sequence[Rename]) -> Mapping[str, str]:
    # The second run's name for each name of the first. A rename takes precedence over an equal name.
    found = renamed(names, set(others), renames)
    chosen = {name: to for name, (to, _) in found.items() if to in others}
    taken = set(chosen.values())
    equal = {name: name for name in names if name in others and name not in chosen and name not in taken}
    return chosen | equal


def _kinds_of_one(a: Run, b: Run, names: Mapping[str, str]) -> Iterator[str]:
    # Yield notes on statistics that only one run measured, although both have the name.
    back = {to: name for name, to in names.items()}
    own = {(name, kind) for name, kind in a._reader.rows() if name in names}
    others = {(back[name], kind) for name, kind in b._reader.rows() if name in back}
    for only, which in ((own - others, "first"), (others - own, "second")):
        for kind in sorted({kind for _, kind in only}, key=KINDS.index):
            of = quoted([name for name in names if (name, kind) in only])
            yield f"{WHAT[kind].format(of)}: only in the {which}, and not compared"


def _refuse_other_noise(a: Run, noise: Sequence[Run]) -> None:
    rows = a._reader.rows().keys()
    for run in noise:
        if not rows & run._reader.rows().keys() or not len(numpy.intersect1d(a.steps, run.steps)):
            raise BadOption(
                "a run of noise= has nothing in common with the first run",
                asked=f"noise=[{str(run.folder)!r}]",
                found=f"{_about(a)} in the first, {_about(run)} in this one",
                why="noise is measured on the first training itself",
                next="noise=['runs/a-again']",
            )


def _about(run: Run) -> str:
    steps = run.steps
    between = f", {steps[0]} to {steps[-1]}" if len(steps) else ""
    names = quoted(run.names, MOST)
    return f"{plural(len(steps), 'step')}{between}, with {names or 'no name'}"


def _first(rows: Sequence[ComparedRows], measured: str) -> RunDivergence | None:
    # The finding for the first step at which anything differs, and there for the name that is computed first.
    partings = [row.parting for row in rows if row.parting is not None]
    if not partings:
        return None
    found = min(partings, key=lambda one: one.step)  # for equal steps, min returns the first row
    pair = found.pair
    what = WHAT[pair.kind].format(repr(pair.name))
    what += "" if pair.name == pair.other else f" ({pair.other!r} in the second)"
    field = LOGGED if pair.kind == LOGGED else f"{pair.kind}.{found.field}"
    a, b = (f"{number:.6g}" for number in found.numbers)
    its = "it" if pair.kind == LOGGED else f"its {found.field}"
    return RunDivergence(
        pair.kind,
        pair.name,
        f"{what} differs: {its} is {a} in the first, {b} in the second",
        None,
        tuple(_facts(found, rows, partings, measured)),
        step=found.step,
        other=pair.other,
        field=field,
        numbers=found.numbers,
        error=found.error,
        excess=found.excess,
    )


def _facts(
    found: RowParting, rows: Sequence[ComparedRows], partings: Sequence[RowParting], measured: str
) -> Iterator[str]:
    yield f"relative error {text.number(found.error)}, {text.times(found.excess)}"
    same = [row.pair for row in rows if row.parting is None or row.parting.step > found.step]
    earlier = [one for one in same if KINDS.index(one.kind) < KINDS.index(found.pair.kind)]
    kinds = [WHAT[kind].format("each name") for kind in KINDS if any(one.kind == kind for one in earlier)]
    if earlier:
        yield f"in this step these agree: {listed(list(dict.fromkeys(kinds)))}"
    if found.step > min(row.first for row in rows if row.pair == found.pair):
        yield f"in the steps before it was at most {text.times(found.before)}"
    also = [one for one in partings if one.step == found.step and one is not found]
    if also:
        yield (
            f"{plural(len(also), 'more row')} part{'s' * (len(also) == 1)} at this step: "
            f"{listed([WHAT[one.pair.kind].format(repr(one.pair.name)) for one in also], MOST)}"
        )
    if not found.later:
        yield "in all later steps it agrees again"
    yield f"floor: measured: {measured}" if measured else "floor: the root of eps of float32"


def _notes(
    a: Run, b: Run, rows: Sequence[ComparedRows], only: tuple[Sequence[str], Sequence[str]], shared: Any
) -> Iterator[str]:
    for names, which in zip(only, ("first", "second"), strict=True):
        if names:
            yield f"only in the {which}, and not compared: {quoted(names)}"
    for run, which in ((a, "first"), (b, "second")):
        if len(run.steps) > len(shared):
            yield f"{plural(len(run.steps) - len(shared), 'step')} only in the {which}, and not compared"
    partly = [row.pair.name for row in rows if row.only_one]
    if partly:
        names = quoted(list(dict.fromkeys(partly)))
        yield f"measured in one of the two in some steps, which were not compared: {names}"
    whole = [row.pair.name for row in rows if row.times != 1]
    if whole:
        names = quoted(list(dict.fromkeys(whole)))
        yield f"each process of one run has these whole, and they are counted in each: {names}"
    skipped = [set(run.skipped.tolist()) & set(shared.tolist()) for run in (a, b)]
    if skipped[0] != skipped[1]:
        steps = sorted(skipped[0] ^ skipped[1])
        yield f"skipped by a GradScaler in one of the two: {plural(len(steps), 'step')}, the first {steps[0]}"
