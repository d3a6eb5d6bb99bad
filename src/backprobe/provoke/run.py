"""One run of ``provoke``: records the program, finds risky operations, searches inputs, and reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy

from backprobe.backends.discover import is_model
from backprobe.backends.protocol import Backend
from backprobe.backends.refusals import refuse
from backprobe.backends.replay import Replay
from backprobe.executors.state import GlobalState, SentCall
from backprobe.executors.tasks import Tasks
from backprobe.explain.nonfinite import BIRTHS
from backprobe.findings.phrasing import plural
from backprobe.findings.report import Finding, Report
from backprobe.probe.request import asked_as, name_of
from backprobe.provoke import text
from backprobe.provoke.asked import AskedProvoke
from backprobe.provoke.inputs import Inputs
from backprobe.provoke.program import Look, TriedProgram, Unreachable
from backprobe.provoke.report import Provocation, Provocations
from backprobe.provoke.risks import Risk, Unsearched, risks_of
from backprobe.provoke.search import Search, SearchOutcome
from backprobe.provoke.shrink import smaller
from backprobe.record.names import strip
from backprobe.show.progress import progress

Array = Any
Place = tuple[str, int, str]
MOST = 4  # the most inputs of one search that are explained to find what is to blame
OF_INF = ("infinite_gradient", "zero_inf", "inf_minus_inf", "inf_inf", "infinite_row", "infinite_terms")


def run_provoke(
    asked: AskedProvoke[...], backend: Backend, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Provocations:
    """Search inputs that break a target, starting from these arguments."""
    provoking = provoking_of(asked, backend, args, kwargs)
    if asked.executor is None:
        return provoking.run(provoking.searched)
    work = SearchWork(replace(asked, executor=None), args, kwargs, GlobalState.of(backend))
    parts = {provoking.name: asked.target, "args": args, "kwargs": kwargs}
    return provoking.run(partial(_elsewhere, asked.executor, work, parts))


def provoking_of(
    asked: AskedProvoke[...], backend: Backend, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Provoking:
    """The object that searches the operands of a target."""
    target, bounds, seed, steps = asked.target, asked.bounds, asked.seed, asked.tries
    call = f"bp.provoke({asked_as(target)})"
    trials = (backend.trials or refuse(backend, "trials", call))()
    function, named = target, target
    if is_model(backend, target):
        assert backend.models is not None
        function, named = trials.function(target), backend.models.call(target, (), {}).forward
    inputs = Inputs(function, named, trials, backend.arrays, args, kwargs, bounds)
    program = TriedProgram(function, backend, trials, inputs, Replay(backend, target, args, kwargs, seed=seed))
    return Provoking(name_of(target), program, seed, steps)


class SearchWork(SentCall):
    """The searches in the form that is sent to a worker process."""

    def begin(self) -> Callable[[int], Searched]:
        """Return a function that searches the operand with a given number."""
        provoking = provoking_of(self.asked, self.backend(), self.args, self.kwargs)
        provoking.look_for_risks()
        return provoking.search


def _elsewhere(
    executor: Executor, work: SearchWork, parts: dict[str, Any], risks: Sequence[Risk]
) -> Iterator[tuple[int, Searched]]:
    # Search all operands on an executor, in their order. If Ctrl-C ends the search, yield the finished ones.
    names = [risk.text for risk in risks]
    tasks = Tasks(executor, work, names, f"bp.provoke({next(iter(parts))}, ...)", parts)
    try:
        yield from enumerate(tasks.run(lambda name: None))
    except KeyboardInterrupt:
        yield from sorted(tasks.done.items())
        raise


@dataclass(frozen=True)
class Searched:
    """The result of the search for one operand: how it ended, what it found, and other operations that broke meanwhile.

    ``raised`` has the number of errors that the program raised, by class name.
    """

    outcome: SearchOutcome
    found: Provocation | None
    elsewhere: Mapping[Place, tuple[Risk | None, Look]]
    raised: Mapping[str, int]


class Provoking:
    """Searches the operands of one program."""

    def __init__(self, name: str, program: TriedProgram, seed: int, steps: int) -> None:
        self.name, self.program, self.inputs = name, program, program.inputs
        self.seed, self.steps = seed, steps
        self.risks: list[Risk] = []
        self.unsearched: list[Unsearched] = []
        self.found: dict[Place, Provocation] = {}
        # operations that broke while another one was searched
        self.elsewhere: dict[Place, tuple[Risk | None, Look, int]] = {}
        # operations that broke in the present search, but are not the one it searches
        self.broke: dict[Place, tuple[Risk | None, Look]] = {}
        self.outcomes: list[SearchOutcome] = []
        self.judged = self.taken = 0

    def run(self, searched: Callable[[Sequence[Risk]], Iterator[tuple[int, Searched]]]) -> Provocations:
        """Search all operands. ``searched`` yields the number and the result of each search."""
        try:
            is_broken = self.program.broken(self.inputs.example)
        except Exception as error:
            error.add_note(f"backprobe: raised while running {self.name} on the example, before any other input")
            raise
        if is_broken:
            return self._at_example()
        self.inputs.refuse_fixed(f"bp.provoke({self.name})")
        self.look_for_risks()
        notes = [text.say(code, text=one) for code, one in self.unsearched]
        try:
            with progress(f"provoking {self.name}", len(self.risks)) as advance:
                for number, one in searched(self.risks):
                    advance(self.risks[number].text)
                    self._add(self.risks[number], one)
        except KeyboardInterrupt as stop:
            left = plural(len(self.risks) - len(self.outcomes), "operand")
            stop.so_far = self._report([*notes, text.say("interrupted", left=left)])  # type: ignore[attr-defined]
            raise
        for place, (blamed, look, steps) in self.elsewhere.items():
            if place not in self.found:
                self.found[place] = self._provocation(blamed, look, steps)
        return self._report(notes)

    def look_for_risks(self) -> None:
        """Find the operations that may break, by running the example once."""
        self.risks, self.unsearched = risks_of(self.program.recorded(self.inputs.example).record)

    def searched(self, risks: Sequence[Risk]) -> Iterator[tuple[int, Searched]]:
        """Search all operands in this process, except those whose operation has already broken."""
        yield from ((number, self.search(number)) for number, risk in enumerate(risks) if risk.place not in self.found)

    def search(self, number: int) -> Searched:
        """Search one operand. The result does not depend on earlier searches."""
        risk, kept = self.risks[number], self.program.raised
        self.judged, self.broke, self.program.raised = 0, {}, {}
        random = numpy.random.default_rng([self.seed, number])
        search = Search(self.program, risk, self.steps, random, self._is_to_blame)
        found = None
        try:
            try:
                outcome = search.run()
            except Unreachable as error:
                outcome = search.outcome
                outcome.why_not = str(error)
            if outcome.found is not None:
                near = smaller(self.program, risk, outcome.found)
                look = near if near is outcome.found or self._blamed(near.row)[0].count(risk) else outcome.found
                found = self._provocation(risk, look, outcome.steps)
            return Searched(outcome, found, self.broke, self.program.raised)
        finally:
            self.program.raised = kept

    def _add(self, risk: Risk, one: Searched) -> None:
        # Add the result of a search, unless a break of its operation was found before.
        if risk.place in self.found:
            return
        for place, (blamed, look) in one.elsewhere.items():
            self.elsewhere.setdefault(place, (blamed, look, self.taken))
        self.taken += one.outcome.steps
        self.outcomes.append(one.outcome)
        for error, times in one.raised.items():
            self.program.raised[error] = self.program.raised.get(error, 0) + times
        if one.found is not None:
            self.found[risk.place] = one.found

    def _is_to_blame(self, risk: Risk, look: Look) -> bool:
        # Is this operation to blame for NaN or Inf? It is if ``explain`` says that NaN or Inf first occurs there, or if
        # the operand is at its end and no other risky operation is blamed.
        self.judged += 1
        if self.judged > MOST:
            return False
        blamed, births = self._blamed(look.row)
        if any(one.place == risk.place for one in blamed) or (look.is_there and not blamed):
            return True
        for one in blamed:
            self.broke.setdefault(one.place, (one, look))
        source = births[0].source if births and not blamed else None
        if source is not None:
            self.broke.setdefault((source.file, source.line, ""), (None, look))
        return False

    def _blamed(self, row: Array) -> tuple[list[Risk], list[Finding]]:
        # Return the risky operations at which NaN or Inf first occurs, and the findings about all such places.
        births = _births(self.program.explained(row))
        return [risk for risk in self.risks if any(self._is_of(one, risk) for one in births)], births

    def _is_of(self, birth: Finding, risk: Risk) -> bool:
        # Does the finding belong to this operation? In another iteration of a loop, the result has another count in its
        # name.
        if birth.name == risk.name:
            return True
        if not _is_at(birth, risk) or strip(birth.name) != strip(risk.name):
            return False
        same = {one.place for one in self.risks if _is_at(birth, one) and strip(one.name) == strip(birth.name)}
        return same == {risk.place}

    def _provocation(self, risk: Risk | None, look: Look, steps: int) -> Provocation:
        made = self._broken_at(look.row, risk)
        number = None if risk is None else self._number(risk, look)
        headline = text.say("elsewhere", headline=made.headline) if risk is None else text.headline(risk, made.broken)
        verdict = [] if risk is None else [made.headline]
        facts = (*text.facts(risk, self.inputs, number, look.row, steps), *verdict)
        return replace(made, headline=headline, facts=facts, change=text.change(self.inputs, look.row), tries=steps)

    def _broken_at(self, row: Array, risk: Risk | None) -> Provocation:
        # The finding about a run that breaks, with the headline about the first NaN or Inf; if possible, about that of
        # the given risk.
        explained = self.program.explained(row)
        births = _births(explained)
        own = [one for one in births if risk is not None and self._is_of(one, risk)] or births
        first = own[0] if own else Finding("unknown", "", explained.heading)
        args, kwargs = self.inputs.arguments(row)
        return Provocation(
            "provoked",
            first.name,
            first.headline,
            first.source if risk is None else risk.source,
            remedy=first.remedy,
            args=args,
            kwargs=kwargs,
            broken=self.program.broken(row) or "result",
            explained=explained,
        )

    def _number(self, risk: Risk, look: Look) -> float | None:
        # The operand's number that is nearest to the end of its range.
        own = self.program.look(risk, look.row)
        return None if own is None else own.number

    def _at_example(self) -> Provocations:
        made = self._broken_at(self.inputs.example, None)
        one = replace(made, headline=text.say("example_breaks"), facts=(made.headline,))
        heading = text.say("broke_at_example", name=self.name)
        return Provocations(heading, (one,), tuple(self._notes()), complete=False)

    def _report(self, notes: Sequence[str]) -> Provocations:
        risky = len({risk.place for risk in self.risks})
        still = [one for one in self.outcomes if one.risk.place not in self.found]
        notes = [*map(text.how_far, still), *notes, *self._notes()]
        heading = text.heading(self.name, len(self.found), risky, self.taken, bool(self.unsearched))
        searched = [one for one in still if one.nearest is not None]
        is_searched = len(searched) == sum(risk.place not in self.found for risk in self.risks)
        return Provocations(
            heading,
            tuple(self.found.values()),
            tuple(notes),
            risky=risky,
            tries=self.taken,
            complete=is_searched and not self.unsearched,
        )

    def _notes(self) -> list[str]:
        raised = [
            text.say("raised", error=error, times=plural(times, "input"))
            for error, times in self.program.raised.items()
        ]
        return [*raised, *(text.say(code, **fields) for code, fields in self.inputs.notes)]


def _births(report: Report) -> list[Finding]:
    # The findings about first occurrences of NaN or Inf. Occurrences that only follow from another Inf are left out,
    # unless there are no others.
    births = [one for one in report.findings if one.kind in BIRTHS]
    return [one for one in births if one.fields.get("why") not in OF_INF] or births


def _is_at(one: Finding, risk: Risk) -> bool:
    source = one.source
    return source is not None and (source.file, source.line) == (risk.source.file, risk.source.line)
