"""What is asked of each program. Every answer is a statement of backprobe, which is right or wrong.

A program is a function of ``around``, which stands for ``bp.probe``, ``bp.watch`` or nothing at all:

    def training(around):
        model, optimizer = ..., ...
        with around(model, optimizer=optimizer) as seen:
            ...
        return seen, parameters

It makes all that it needs, and returns what its block gave, and what has to be the same bit for bit.
``ask.block(training)`` runs it as it is and with a probe, and ``ask.watched(training)`` with a watch. What ``bp.probe``
takes as a function or a model is asked by ``ask.function(f, inputs)``, where ``inputs()`` makes the arguments.
``ask.script(path)`` takes a whole script of PyTorch that prints what it has computed, with a head as those of
``tests/field``.

No answer stops a test: what is wrong is listed at its end, so that a run counts the statements that are right.
"""

from __future__ import annotations

import inspect
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from values import array, differing, drawn, seeded

import backprobe as bp
from field import asking

Program = Callable[..., Any]
BLOCK = """
import torch

import backprobe as bp


def main():
{}

with bp.probe() as rec:
    main()
print(rec, bp.explain(rec), sep="\\n")
"""


@dataclass
class Ask:
    """The statements that a test has asked for: how many were right, and what each wrong one says."""

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    claims: list[tuple[str, str]] = field(default_factory=list)

    def that(self, is_right: bool, otherwise: str) -> None:
        """One statement; ``otherwise`` says what is wrong with it."""
        if is_right:
            self.right += 1
        else:
            self.wrong.append(otherwise)

    def works(self, text: str) -> None:
        """For the table in the docs, if all statements of this test are right."""
        self.claims.append(("works", text))

    def refuses(self, text: str) -> None:
        """For the table in the docs: what is refused, or is said not to be seen."""
        self.claims.append(("refused", text))

    def select(self, text: str) -> None:
        """For the table in the docs: what to select, or what to write in the place of something."""
        self.claims.append(("select", text))

    # the same program

    def function(self, function: Program, inputs: Callable[[], tuple[Any, ...]], *patterns: str, **options: Any) -> Any:
        """The recording of a function, which returns bit for bit what it returns without backprobe."""
        seeded()
        bare = function(*inputs()), drawn()
        seeded()
        rec = bp.probe(function, *([list(patterns)] if patterns else []), **options)(*inputs())
        self._same(bare, (rec.result, drawn()), "bp.probe")
        return rec

    def block(self, program: Program, *args: Any, **options: Any) -> Any:
        """The recording of the block that a program opens by ``with around(…) as seen``; its results are the same."""

        def around(model: Any = None, select: Any = None, optimizer: Any = None) -> Any:
            return bp.probe(*[each for each in (model, select) if each is not None], **options)

        return self._beside(program, args, around, "the block")

    def watched(
        self, program: Program, *args: Any, steps: int = 20, alerts: tuple[str, ...] = (), **options: Any
    ) -> Any:
        """The last step of a training under ``bp.watch``: it has so many, and warns of nothing but ``alerts``."""
        with tempfile.TemporaryDirectory() as folder:

            def around(model: Any = None, select: Any = None, optimizer: Any = None) -> Any:
                given = {"select": select} if select is not None else {}
                return bp.watch(model, f"{folder}/run", optimizer=optimizer, **given, **options)

            self._beside(program, args, around, "bp.watch")
            run = bp.open_run(f"{folder}/run")
            self.that(len(run.steps) == steps, f"the run has {len(run.steps)} steps, not {steps}")
            found = sorted({finding.kind for finding in run.alerts})
            self.that(found == sorted(alerts), f"alerts {found}, not {sorted(alerts)}:\n{run.alerts}")
            last = run.at(steps - 1)
            return {name: dict(last[name]) for name in last}

    def watched_function(self, program: Program, *args: Any, steps: int = 20, **options: Any) -> Any:
        """The last step of a training in JAX under ``bp.watch_function``, as ``watched`` has it for models."""
        with tempfile.TemporaryDirectory() as folder:
            watch = partial(bp.watch_function, folder=f"{folder}/run", **options)
            self._beside(program, args, watch, "bp.watch_function")
            run = bp.open_run(f"{folder}/run")
            self.that(len(run.steps) == steps, f"the run has {len(run.steps)} steps, not {steps}")
            last = run.at(steps - 1)
            return {name: dict(last[name]) for name in last}

    def rows(self, last: Mapping[str, Any], *names: str) -> None:
        """The last step of a watch has gradients of these names."""
        for name in names:
            self.that("grad.rms" in last.get(name, {}), f"{name} has no gradient: {list(last)}")

    def script(self, path: Path) -> None:
        """A script prints the same under ``backprobe watch`` and in a block; ``backprobe explain`` answers its head."""
        head = asking.asked(path)
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copy(path, folder)
            bare = _ran(folder, copy)
            self.that(bare.returncode == 0, f"{path.name} fails by itself:\n{bare.stderr}")
            watched = _ran(folder, "-m", "backprobe", "watch", copy)
            same = watched.returncode == 0 and bare.stdout in watched.stdout
            self.that(same, f"{path.name} under watch prints\n{watched.stdout}{watched.stderr}\nnot\n{bare.stdout}")
            Path(folder, "block.py").write_text(BLOCK.format(textwrap.indent(path.read_text(), " " * 4)))
            block = _ran(folder, "block.py")
            same = block.returncode == 0 and bare.stdout in block.stdout
            self.that(same, f"{path.name} in a block prints\n{block.stdout}{block.stderr}\nnot\n{bare.stdout}")
            explained = _ran(folder, "-m", "backprobe", *shlex.split(head.ask), copy)
        wrong = asking.wrong_in(path, explained.returncode, explained.stdout + explained.stderr)
        self.that(not wrong, f"{path.name}: " + "\n".join(wrong))

    def bare(self, program: Program, *args: Any) -> Any:
        """What a program computes by itself: the gradients that the library gives."""
        seeded()
        _, *results = program(lambda *_, **__: nullcontext(), *args)
        return results

    def _beside(self, program: Program, args: tuple[Any, ...], around: Any, how: str) -> Any:
        bare, then = self.bare(program, *args), drawn()
        seeded()
        seen, *observed = program(around, *args)
        self._same((bare, then), (observed, drawn()), how)
        return seen

    def _same(self, bare: Any, observed: Any, how: str) -> None:
        changed = differing(bare, observed)
        self.that(not changed, f"{how} changes {', '.join(changed)}")

    # names and numbers

    def gradients(self, rec: Any, right: Mapping[str, Any], tolerance: float = 1e-5) -> None:
        """Each gradient is the right one, to so much of its greatest element."""
        for name, expected in right.items():
            self.that(*_compared(name, lambda name=name: rec[name].grad, expected, tolerance))

    def values(self, rec: Any, right: Mapping[str, Any], tolerance: float = 1e-5) -> None:
        """Each value is the right one."""
        for name, expected in right.items():
            self.that(*_compared(f"value of {name}", lambda name=name: rec[name].value, expected, tolerance))

    def names(self, rec: Any, *names: str) -> None:
        """Each name that its user would guess is one of the recording."""
        for name in names:
            try:
                rec[name]
            except bp.BackprobeError as error:
                self.that(False, f"{name} is no name: {error}")
            else:
                self.that(True, "")

    def statuses(self, rec: Any, right: Mapping[str, str | tuple[str, str]]) -> None:
        """Each value has the status, and a reason that has the pattern."""
        for name, wanted in right.items():
            status, reason = (wanted, "") if isinstance(wanted, str) else wanted
            try:
                entry = rec[name]
            except bp.BackprobeError as error:
                self.that(False, f"{name} is no name: {error}")
                continue
            said = f"{entry.status}, {entry.reason}"
            self.that(entry.status == status and _has(entry.reason or "", reason), f"{name} is {said}; not {wanted}")

    def notes(self, rec: Any, *patterns: str) -> None:
        """What can't be seen has a note; without patterns there is none."""
        notes = [str(note) for note in rec.notes]
        if not patterns:
            self.that(not notes, f"there are notes: {notes}")
        for pattern in patterns:
            self.that(any(_has(note, pattern) for note in notes), f"no note has {pattern!r}: {notes}")

    # explanations

    def clean(self, rec: Any) -> None:
        """Nothing is found in a healthy program."""
        report = bp.explain(rec)
        self.that(report.ok, f"something is found in a healthy program:\n{report}")

    def cut(self, rec: Any, program: Program, *says: str) -> None:
        """What is found are the lines of the program that end with ``# <- cut``, and no others."""
        self._lines(bp.explain(rec), program, "cut", says)

    def nan(self, rec: Any, program: Program, *says: str) -> None:
        """The first finding is at the line of the program that ends with ``# <- nan``, or says that it is in there."""
        report = bp.explain(rec)
        births = [finding for finding in report.findings if finding.kind not in ("propagated", "healed")]
        inside = [fact for birth in births[:1] for fact in birth.facts if ", in `" in fact]
        if inside:
            lines = [line for line, text in _marked(program, "nan") if text in inside[0] and f":{line})" in inside[0]]
            self.that(bool(lines), f"the line inside is not that of the nan:\n{report}")
        else:
            self._lines(report, program, "nan", says, births[:1])

    def _lines(self, report: Any, program: Program, mark: str, says: tuple[str, ...], findings: Any = None) -> None:
        right = [line for line, _ in _marked(program, mark)]
        found = report.findings if findings is None else findings
        lines = sorted({finding.source.line if finding.source else None for finding in found}, key=str)
        self.that(lines == right, f"the {mark} is found at lines {lines}, not {right}:\n{report}")
        for pattern in says:
            self.that(_has(str(report), pattern), f"the report has no {pattern!r}:\n{report}")

    def refused(self, call: Callable[[], Any], error: type[Exception], pattern: str) -> None:
        """The call is refused by this error, with a reason."""
        try:
            call()
        except error as raised:
            self.that(_has(str(raised), pattern), f"the refusal has no {pattern!r}: {raised}")
        else:
            self.that(False, f"nothing was refused, where {pattern!r} should be")


def _ran(folder: str, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=300)


def _marked(program: Program, mark: str) -> list[tuple[int, str]]:
    # The numbers and the code of lines that end with a mark.
    lines, first = inspect.getsourcelines(program)
    found = [(first + at, re.split(rf"# <- {mark}\b", line)) for at, line in enumerate(lines)]
    return [(line, parts[0].strip()) for line, parts in found if len(parts) > 1]


def _has(text: str, pattern: str) -> bool:
    return re.search(pattern, " ".join(text.split())) is not None


def _compared(name: str, read: Callable[[], Any], expected: Any, tolerance: float) -> tuple[bool, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = array(read())
        except bp.BackprobeError as error:
            return False, f"{name} is not there: {error}"
    expected = array(expected)
    if found.shape != expected.shape:
        return False, f"{name} has the shape {found.shape}, not {expected.shape}"
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    close = np.allclose(found, expected, rtol=tolerance, atol=tolerance * scale + 1e-12, equal_nan=True)
    return bool(close), f"{name} is {found}, not {expected}"
