"""One run of a probed program: forward, backward, and the recording."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from backprobe.backends.facts import Backward, Ran, Root
from backprobe.errors import BadOutput, NothingToDifferentiate
from backprobe.probe.error_notes import explain_unconnected, so_far
from backprobe.probe.form import Form
from backprobe.probe.inner_output import named_output
from backprobe.probe.output import ProbedOutput, Words, choose
from backprobe.probe.replacements import refuse_never_bound
from backprobe.probe.request import name_of
from backprobe.probe.several_outputs import AskedOutput
from backprobe.probe.source_names import name_unbound
from backprobe.record.entries import Record
from backprobe.recording import Recording
from backprobe.tracing.schema import Schema
from backprobe.tracing.transcribe import over


class TargetRun(Form):
    """One call of a target: it runs forward, and then backward from the output."""

    differentiated: list[int]
    """The numbers of the outputs."""

    schema: Schema
    cut: Record | None = None
    """The record of the run, if an output could not be differentiated and the framework can make a record then."""

    def record(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Recording:
        """Run forward and backward. Everything installed for the run is removed, even after an error.

        If the user interrupts the run, the KeyboardInterrupt usually has an attribute ``so_far``: the recording up to
        then.
        """
        try:
            inputs = self.inputs(args, kwargs)
            run = functools.partial(self.tape.run, self._program, inputs, self.probe.wrt, self.undo)
            return self._recording(*self.noting(run))
        except (BadOutput, NothingToDifferentiate) as error:
            self.cut = explain_unconnected(self, error)
            raise
        except KeyboardInterrupt as stop:
            record, _ = so_far(self)
            if record is not None:
                stop.so_far = Recording(record)  # type: ignore[attr-defined]  # for who catches it
            raise
        finally:
            self.release()

    def _program(self, inputs: Mapping[str, Any]) -> Ran:
        # Run forward, and choose the outputs.
        result = self.result(inputs)
        self.doing = "choosing the output of"
        outputs = [self.output(result, one) for one in self.probe.asked]
        self.doing = "differentiating"
        self.differentiated = [self.hold(output) for output in outputs]
        self.hold_unnamed()
        self.trace.close()
        self.schema = self.trace.schema(self.differentiated)
        missed = self.schema.unmatched(self.selection) if self.probe.select is not None else ()
        if missed:
            name_unbound(self.trace, missed, self.source_names())
            self.schema = self.trace.schema(self.differentiated)
        tensors = [self.trace.versions.tensors[number] for number in self.differentiated]
        roots = [Root(tensor, output.cotangent) for tensor, output in zip(tensors, outputs, strict=True)]
        kept = self.probe.options.flow
        return Ran(result, roots, self.trace.captures(self.schema), None if kept is None else self._flow(kept))

    def result(self, inputs: Mapping[str, Any]) -> Any:
        """Run forward. Returns the named return value. Raises the error of a replacement, even if the program caught
        it.
        """
        result = self.returned(self.forward(inputs))
        if self.replacing is not None and self.replacing.failed is not None:
            raise self.replacing.failed
        return result

    def _flow(self, kept: Callable[[str, Any], Any]) -> Callable[[int, Any], Any]:
        # Return a function that selects the contributions to keep for each capture. Backends identify captures by
        # position.
        names, captured = self.schema.names.of_entries, self.schema.captured
        return lambda at, flowed: kept(names[captured[at]][0], flowed)

    def returned(self, result: Any) -> Any:
        """Give names to the return value of the target. Raises NothingToDifferentiate for a generator or coroutine."""
        result = self.trace.name_result(result)
        if inspect.isgenerator(result) or inspect.iscoroutine(result):
            result.close()
            raise NothingToDifferentiate(
                f"{name_of(self.probe.target)} returns a {type(result).__name__}, which has computed nothing yet",
                asked=self.spelled(),
                next="probe a function that runs it to its end",
            )
        return result

    def _recording(self, result: Any, passes: Sequence[Backward]) -> Recording:
        ran = over(
            self.trace,
            self.backend,
            self.schema,
            passes,
            live=self.probe.options.create_graph,
            code=self.code,
            keys=self.probe.keys,
        )
        self.refuse_missed(self.schema)
        if self.replacing is not None:
            refuse_never_bound(self.replacing, self.names(self.schema), self.probe.target, self.schema.names.printed)
        return Recording(self.judged(ran), result)

    def hold(self, output: ProbedOutput) -> int:
        """Return the number of the output, which always gets an entry."""
        return self.trace.hold_output(output.tensor, output.path, output.name or "return")

    def inputs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values to make differentiable, by name."""
        return {}

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    def output(self, result: Any, asked: AskedOutput) -> ProbedOutput:
        """Return the requested output. Raises BadOutput or NothingToDifferentiate."""
        words, of, cotangent = Words(framework=self.backend.name, key=asked.key), asked.of, asked.cotangent
        inner = named_output(self.trace, result, of, cotangent, words)
        if inner is not None:
            return inner
        names = lambda: self.names(self.trace.schema_so_far(()))  # noqa: E731 - a part of the call
        found = choose(result, of, cotangent, self.tape, words, names)
        return replace(found, path=asked.leaf, name="of()") if asked.leaf and callable(of) else found
