"""One run of a check: the program runs once, and its calls are checked right after they were made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backprobe.backends.discover import is_model
from backprobe.backends.protocol import Backend
from backprobe.backends.refusals import refuse
from backprobe.backends.replay import Replay
from backprobe.check.listener import CheckedProgram
from backprobe.check.report import CheckReport
from backprobe.check.results import CheckResults
from backprobe.errors import BackprobeError, BadOption
from backprobe.findings.phrasing import plural
from backprobe.probe.form import home
from backprobe.probe.request import bound, name_of
from backprobe.record.brief import place
from backprobe.record.reasons import Reason
from backprobe.source.user_code import innermost


def run_check(
    target: Any,
    backend: Backend,
    skip: Sequence[Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    order: int = 1,
) -> CheckReport:
    """Run a target once with these arguments, and check the derivatives of its calls up to ``order``."""
    name = name_of(target)
    calls = (backend.recheck or refuse(backend, "recheck", f"bp.check({name})"))()
    if not is_model(backend, target):
        _refuse_arguments(target, args, kwargs)
    called = calls.called(target, True)
    inner = innermost(target if called is None else called[0])
    within = None if inner is None else home(inner.__code__.co_filename)
    results = CheckResults(order)
    program = CheckedProgram(calls, results, within, calls.paths(target), skip)
    undo: list[Callable[[], None]] = []
    given = {str(at): value for at, value in enumerate(args)} | dict(kwargs)
    try:
        with Replay(backend, target, args, kwargs, draws_anew=False).run():
            calls.run(program.run, target, given, undo)
    except BackprobeError:
        raise
    except BaseException as error:
        error.add_note(_raised_in(name, program))
        if isinstance(error, KeyboardInterrupt):
            results.note("interrupted", error="KeyboardInterrupt", known="")
            error.so_far = results.report(name, calls.remedy, program.entered)  # type: ignore[attr-defined]
        raise
    finally:
        for put_back in reversed(undo):
            put_back()
        calls.release()
    _refuse_unused(name, skip, program.skips)
    results.add_unseen(calls)
    for one, count in zip(skip, program.skips, strict=True):
        results.remarks[name_of(one), Reason("skipped", {"calls": plural(count, "call")})] += 1
    return results.report(name, calls.remedy, program.entered)


def _raised_in(name: str, program: CheckedProgram) -> str:
    note = f"backprobe: raised while checking {name}"
    if program.last is not None and program.last[1].line:
        scope, site = program.last
        note += f"; the last call was made at {place(scope.file, site.line)}: {site.text}"
    return note


def _refuse_unused(name: str, skip: Sequence[Any], skips: Sequence[int]) -> None:
    unused = [name_of(one) for one, count in zip(skip, skips, strict=True) if not count]
    if unused:
        raise BadOption(
            f"{', '.join(unused)} in skip is never called",
            asked=f"bp.check({name}, skip=...)",
            found="no call of it in the program",
            why="a misspelled name in skip would otherwise go unnoticed",
            next="the function as the program calls it, or the class of an autograd.Function",
        )


def _refuse_arguments(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    # Raise BadOption if the target has a signature and the arguments do not fit it.
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # functions written in C may have no signature
        return
    bound(signature, name_of(target), "check", args, kwargs)
