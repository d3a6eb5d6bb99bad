"""Notes on errors of probed programs. The values recorded before an error help to explain a framework's message.

Code that explains is imported only if there is an error, because importing it takes a third of the time of all imports.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Collection, Sequence
from dataclasses import replace
from types import FrameType, FunctionType, TracebackType
from typing import Any, Protocol

from backprobe.backends.facts import Failure
from backprobe.backends.protocol import Backend, Tape
from backprobe.errors import BackprobeError, NothingToDifferentiate
from backprobe.probe.request import Request
from backprobe.record.entries import Record
from backprobe.record.quoted_errors import first_line, rest_of
from backprobe.record.reasons import Reason
from backprobe.source.sites import Origin, Site, names_read
from backprobe.source.tracebacks import steps
from backprobe.source.user_code import package
from backprobe.tracing.schema import kept
from backprobe.tracing.trace import Trace
from backprobe.tracing.transcribe import over
from backprobe.tracing.values import NamedAs, Value

DIFFERENTIATING = ("grad", "backward")


class FailingRun(Protocol):
    """The attributes of a run that this file needs to explain an error of the program."""

    backend: Backend
    trace: Trace
    probe: Request

    @property
    def tape(self) -> Tape: ...


def explained(run: FailingRun, error: BaseException) -> str | None:
    """Return a note about an error of the framework, or about the error that caused it (``raise ... from``).

    If the error arose because a name was bound to something new, the note says so. None if nothing is known.
    """
    said = _explained(run, error)
    cause = error.__cause__
    said = _explained(run, cause) if said is None and cause is not None else said
    if said is not None or not isinstance(error, Exception):  # a generator may be closed when imports no longer work
        return said
    from backprobe.explain.rebound import rebound_note

    return rebound_note(error)


def _explained(run: FailingRun, error: BaseException) -> str | None:
    if run.backend.errors is None:
        return None
    failure = run.backend.errors(error, run.tape, run.trace.captures(run.trace.schema_so_far([])))
    if failure is None:
        return None
    if not isinstance(failure, Failure):
        return failure
    at = _users(error.__traceback__)
    if failure.kind == "inference" and at is not None:
        failure = _mentioned(run, failure, at)
    outputs: list[int] = []
    is_of_output = failure.kind == "not_in_graph" and not failure.outputs
    is_of_value = failure.kind in ("no_history", "not_scalar", "freed") and not failure.values
    if failure.root is not None and (is_of_output or is_of_value):
        outputs = [_hold(run, failure.root, at)]
    record, captured = so_far(run, outputs)
    if record is None:
        return None
    if outputs:
        held = run.trace.captures(run.trace.schema_so_far(outputs))
        found = (held.index(run.trace.versions.captures[outputs[0]]),)
        failure = replace(failure, outputs=found) if is_of_output else replace(failure, values=found)
    from backprobe.explain.graph_errors import note

    return note(failure, record, captured, _in_place(run))


def _in_place(run: FailingRun) -> Collection[str]:
    # Return the paths of the modules that are configured to write in place, if the target is a model.
    models, target = run.backend.models, run.probe.target
    return models.in_place(target) if models is not None and models.is_model(target) else ()


def unconnected(run: FailingRun) -> Record | None:
    """Return the record of a program whose result depends on no differentiated value. The result is used as the
    output. None if the framework cannot make a record of an unfinished run.
    """
    made = run.trace.read().naming.made
    returned = [value for value in made if any(_is_returned(run, name) for name in value.names)]
    return so_far(run, outputs=returned)[0]


def explain_unconnected(run: FailingRun, error: BackprobeError) -> Record | None:
    """Add a note to an error that says why the result depends on no differentiated value, if that is known. Returns the
    record of the run; None if the framework cannot make one.
    """
    from backprobe.explain.graph_errors import cut_note, frozen_note, of_note

    record = unconnected(run)
    said = None if record is None else cut_note(record)
    if said is None and run.tape.undifferentiated is not None:
        said = frozen_note(run.tape.undifferentiated())
    if said is None and record is not None and isinstance(error, NothingToDifferentiate):
        said = of_note(record, [one.of for one in run.probe.asked if callable(one.of)])
    if said is not None:
        error.add_note(said)
    return record


def _is_returned(run: FailingRun, name: NamedAs) -> bool:
    return name[0] is run.trace.read().root.id and name[1] == "return"


def so_far(
    run: FailingRun, numbers: Sequence[int] = (), outputs: Sequence[Value] = ()
) -> tuple[Record | None, list[int]]:
    """Return the record up to now, before backward, and the positions of the entries that belong to the captures. None,
    and no positions, if the framework cannot make a record of an unfinished run.
    """
    if run.tape.unfinished is None:
        return None, []
    schema = run.trace.schema_so_far(numbers, outputs)
    with run.tape.quiet():
        passed = run.tape.unfinished(run.trace.captures(schema))
    return over(run.trace, run.backend, schema, [passed]).record(), list(schema.captured)


def raised(error: BaseException, known: str) -> Reason:
    """Return a reason that describes an error: its message, the program's innermost line if there is one, and
    ``known``, the facts about it.
    """
    fields = {"error": first_line(error), "known": known, "rest": rest_of(error)}
    if not isinstance(error, Exception):
        return Reason("interrupted", fields)
    at = _users(error.__traceback__)
    if at is None:
        return Reason("raised", fields)
    file, line = at.tb_frame.f_code.co_filename, at.tb_lineno
    return Reason("raised_at", {**fields, "at": f"{file}:{line}", "text": linecache.getline(file, line).strip()})


def _users(step: TracebackType | None) -> TracebackType | None:
    # Return the innermost line of the program in an error's traceback; None if there is none.
    own = [one for one in steps(step) if package(one.tb_frame.f_code.co_filename) is None]
    return own[-1] if own else None


def _mentioned(run: FailingRun, failure: Failure, at: TracebackType) -> Failure:
    # The failure, with its possible values restricted to those that the failing line mentions, if it mentions any.
    from backprobe.cuts.parsed import parsed

    tree = parsed(linecache.getline(at.tb_frame.f_code.co_filename, at.tb_lineno))
    names = () if tree is None else names_read(tree)
    values = [v for v in kept(run.trace.read(), run.trace.selection, []) if v.number is not None]
    found = tuple(one for one in failure.values if any(local in names for _, local, *_ in values[one].names))
    return replace(failure, values=found or failure.values)


def _hold(run: FailingRun, tensor: Any, at: TracebackType | None) -> int:
    # Hold the unnamed tensor on which backward was called, and return its number. The failing line shows from which
    # values the tensor was computed.
    from backprobe.cuts.parsed import parsed

    if at is None:
        return run.trace.hold(tensor, "backward()", "")
    file = at.tb_frame.f_code.co_filename
    text = linecache.getline(file, at.tb_lineno).strip()
    tree = parsed(text)
    call, began = (None, None) if tree is None else _began(tree, at.tb_frame)
    origin = Origin() if tree is None else Origin(reads=names_read(tree)) if began is None else Origin.of(began)
    return run.trace.hold_at(tensor, Site(call or "backward()", at.tb_lineno, text, origin), file)


def _began(tree: ast.AST, frame: FrameType) -> tuple[str | None, ast.expr | None]:
    # Return the name of the only differentiating call in a line, and the expression that it differentiates. Both are
    # None if there is no such call, or if there are several.
    calls = {
        node: name
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and (name := _differentiates(node.func, frame))
    }
    if len(calls) != 1:
        return None, None
    ((call, name),) = calls.items()
    if isinstance(call.func, ast.Attribute) and not ast.unparse(call.func.value).endswith("autograd"):
        return f"{name}()", call.func.value
    given = [word.value for word in call.keywords if word.arg in ("outputs", "tensors")]
    return f"{name}()", next(iter([*call.args, *given]), None)


def _differentiates(called: ast.expr, frame: FrameType) -> str:
    # Return the name of a called function if it differentiates; otherwise an empty text. It may be a method, or a
    # function to which a name in the frame refers.
    if isinstance(called, ast.Attribute):
        return called.attr if called.attr in DIFFERENTIATING else ""
    if not isinstance(called, ast.Name):
        return ""
    function = frame.f_locals.get(called.id, frame.f_globals.get(called.id))
    if not isinstance(function, FunctionType) or not function.__module__.endswith("autograd"):
        return ""
    return function.__name__ if function.__name__ in DIFFERENTIATING else ""
