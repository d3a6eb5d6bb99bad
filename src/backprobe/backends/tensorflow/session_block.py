"""The graphs that a program builds for sessions in a block: their named values, gradient calls and runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from backprobe.backends.facts import Backward, Outcome, OwnPass
from backprobe.backends.tensorflow.capture import Capture
from backprobe.backends.tensorflow.session_gradients import GraphPass, GraphPasses
from backprobe.backends.tensorflow.session_none import none_given, training
from backprobe.backends.tensorflow.session_outcomes import Fetched, PassRun, fetched
from backprobe.backends.tensorflow.session_partials import moved, with_partials
from backprobe.backends.tensorflow.session_runs import SessionRun, SessionRuns
from backprobe.backends.tensorflow.tensors import identity, in_session
from backprobe.record.held import Lost
from backprobe.record.none_gradients import NoneGiven
from backprobe.record.reasons import Reason
from backprobe.record.training import Training

NOT_RUN = Lost(Reason("in_graph"))


class SessionBlock:
    """The graphs of one block. ``began`` is called with the outputs whose gradients a session has run."""

    began: Callable[[Sequence[Any]], object]

    def __init__(self, may_join: Callable[[], bool], partials: bool | str = False) -> None:
        self.partials = partials
        self.named: dict[int, Any] = {}  # the tensors that have names, by their numbers
        self.gradients = GraphPasses()
        self.sessions = SessionRuns(self.gradients.of, self.named, may_join, keeps_inputs=bool(partials))
        self.sessions.began = self._ran

    @contextmanager
    def listening(self) -> Iterator[None]:
        with self.gradients.listening(), self.sessions.listening():
            yield

    @property
    def runs(self) -> Sequence[SessionRun]:
        return self.sessions.runs

    @property
    def calls(self) -> list[GraphPass]:
        """The ``tf.gradients`` calls observed in the block, and those whose gradients a session ran."""
        every = [*self.gradients.heard, *(call for run in self.runs for call in run.passes)]
        return [*{id(call): call for call in every}.values()]

    def _ran(self, run: SessionRun) -> None:
        self.began(list({id(one): one for call in run.passes for one in call.outputs}.values()))

    def outputs(self) -> list[Any]:
        """Return the outputs whose gradients the program fetched, once for each run."""
        return [one for run in self.runs for call in run.passes for one in call.outputs]

    def capture(self, value: Any) -> Capture:
        tensor = in_session(value)
        number = identity(value)
        self.named[number] = tensor
        return Capture(tensor, NOT_RUN, number)

    def none_given(self, captures: Sequence[Capture]) -> tuple[NoneGiven, ...]:
        return none_given(self.calls, captures)

    def training(self, captures: Sequence[Capture]) -> Training | None:
        is_known = bool(self.runs) or any(one is None for call in self.calls for one in call.given)
        return training(self.calls, captures) if is_known else None

    def notes(self) -> list[Reason]:
        """Return notes on the session runs that a reader of the recorded numbers needs to know."""
        found = fetched(self.runs)
        joined = [why for one in found if one.run.is_joined for why in one.run.changing.values()]
        notes = [Reason("session_joined", {"operation": joined[0]})] if joined else []
        if len(self.runs) > len(found):
            notes.append(Reason("session_runs", {"count": str(len(self.runs))}))
        return notes

    def passes(self, captures: Sequence[Capture], otherwise: Backward) -> list[Backward]:
        """Return a pass for each output whose gradients were run. ``otherwise`` has the outcomes of values that are in
        no graph.
        """
        given = [one for call in self.calls for one in call.given]
        return [self._pass(one, captures, otherwise, given) for one in fetched(self.runs)]

    def _pass(self, one: Fetched, captures: Sequence[Capture], otherwise: Backward, given: Sequence[Any]) -> Backward:
        graph = one.calls[0].graph
        places = [at for at, each in enumerate(captures) if each.number in self.named and each.source.graph is graph]
        run = PassRun(one, [captures[at].source for at in places], given)
        outcomes: list[Outcome] = [*otherwise.outcomes]
        known: Sequence[Outcome] = run.outcomes()
        sums = None
        if self.partials:
            known, sums = with_partials(one, [captures[at].source for at in places], known, self.partials)
        for at, outcome in zip(places, known, strict=True):
            outcomes[at] = replace(outcome, inputs=tuple([replace(e, at=places[e.at]) for e in outcome.inputs]))
        begun_at = [at for at in places if any(captures[at].source is output for output in one.outputs)]
        order = tuple([places[at] for at in run.order()])
        sums = None if sums is None else moved(sums, places)
        return replace(
            otherwise, outcomes=outcomes, order=order, sums=sums, own=OwnPass(tuple(begun_at), adds_up=False)
        )
