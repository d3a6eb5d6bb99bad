"""Runs a watched loss function under a probe, inside whatever transforms the calling program applies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backprobe.backends.facts import Backward
from backprobe.backends.protocol import Backend
from backprobe.backends.watches import DifferentiatedLoss, LossProbe
from backprobe.errors import BadOutput
from backprobe.probe.function import FunctionRun
from backprobe.probe.output import ProbedOutput
from backprobe.probe.request import Request, asked_as, name_of
from backprobe.probe.several_outputs import AskedOutput
from backprobe.record.brief import kind
from backprobe.record.held import Lost
from backprobe.record.patterns import Selection, refuse_unmatched
from backprobe.recording import Recording
from backprobe.tracing.schema import Schema


class WatchedRun(FunctionRun):
    """One run of a loss function: its recording, and the gradients of its arguments."""

    has_aux = False
    parameters: Sequence[str] = ()
    came: Sequence[Any] = ()

    def output(self, result: Any, asked: AskedOutput) -> ProbedOutput:
        """The loss, which is the first of two results if there is auxiliary data. Raises BadOutput."""
        loss = result
        if self.has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise BadOutput(
                    f"{name_of(self.probe.target)} does not return a loss and auxiliary data",
                    asked="run.value_and_grad(...), with has_aux=True",
                    found=kind(result),
                    next="return loss, aux; or leave out has_aux=True",
                )
            loss = result[0]
        is_tensor = self.tape.is_tensor(loss)
        shape, dtype = self.tape.describe(loss)[:2] if is_tensor else (None, "")
        if shape != () or not self.tape.is_floating(loss) or "complex" in str(dtype):
            is_pair = isinstance(result, tuple) and not self.has_aux
            raise BadOutput(
                f"{name_of(self.probe.target)} does not return one real number",
                asked="run.value_and_grad(...)",
                found=f"an array of shape {shape} and dtype {dtype}" if is_tensor else kind(loss),
                why="a loss is one floating number, whose gradients are taken",
                next="bp.watch_function(loss_fn, folder, has_aux=True), where it returns loss, aux"
                if is_pair
                else "return loss.mean()",
            )
        made = super().output(loss, asked)
        return ProbedOutput(made.tensor, f".0{made.path or ''}", made.cotangent) if self.has_aux else made

    def _recording(self, result: Any, passes: Sequence[Backward]) -> Recording:
        self.came = passes[0].inputs
        return super()._recording(result, passes)

    def refuse_missed(self, schema: Schema) -> None:
        """Raise NothingMatched for a pattern that matches neither a value nor a parameter."""
        missed = [] if self.probe.select is None else schema.unmatched(self.selection)
        for pattern in missed:
            if not any(pattern.matches(f":{name}") for name in self.parameters):
                why = " ".join(map(str, self.trace.notes | dict.fromkeys(schema.notes)))
                names = [*self.names(schema), *self.parameters]
                refuse_unmatched(pattern.text, names, self.subject(), self.spelled, why)

    def spelled(self, pattern: str | None = None) -> str:
        chosen = "" if pattern is None else f", select={pattern!r}"
        return f"bp.watch_function({asked_as(self.probe.target)}, folder{chosen})"


def probing(
    function: Callable[..., Any], backend: Backend, select: str | Sequence[str] | None, has_aux: bool
) -> LossProbe:
    """Returns a function that runs the loss function under a probe."""

    def probed(
        args: Sequence[Any], kwargs: Mapping[str, Any], wrt: Sequence[str], parameters: Sequence[str]
    ) -> DifferentiatedLoss:
        run = WatchedRun(Request(function, select, wrt=frozenset(wrt)), backend)
        run.has_aux, run.parameters = has_aux, parameters
        recording = run.record(tuple(args), dict(kwargs))
        entries = [entry for entry in recording.values() if not isinstance(entry.held, Lost)]
        values = [(entry.name, entry.held, entry.grad_or_none) for entry in entries]
        aliases = [(alias, entry.name) for entry in entries for alias in entry.aliases]
        lines = [(entry.name, entry.source) for entry in entries if entry.source is not None]
        selection = Selection(select, in_function=True)
        return DifferentiatedLoss(
            recording.result, values, aliases, lines, run.came, lambda name: selection.might_want(f":{name}")
        )

    return probed
