"""One run of a check: the program runs once, and each of its calls is checked as it happens."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backprobe.backends.discover import is_model
from backprobe.backends.protocol import Backend
from backprobe.backends.recheck import RecordedCall
from backprobe.backends.refusals import refuse
from backprobe.check.listener import CallListener, CheckedProgram
from backprobe.check.report import CheckReport
from backprobe.check.results import CheckResults
from backprobe.check.skips import Skips
from backprobe.check.verdict import Verdict, check_call
from backprobe.errors import BackprobeError, BadOption, NothingToDifferentiate
from backprobe.findings.phrasing import place
from backprobe.probe.form import home
from backprobe.probe.request import name_of
from backprobe.record.reasons import Reason
from backprobe.source.sites import CallSite
from backprobe.source.user_code import innermost


class CheckRun:
    """A target that is run once."""

    def __init__(self, target: Any, backend: Backend, skip: Sequence[Any] = ()) -> None:
        self.target, self.backend, self.skips = target, backend, Skips(skip)
        self.calls = (backend.recheck or refuse(backend, "recheck", f"bp.check({name_of(target)})"))()
        self.results = CheckResults()
        called = self.calls.called(target, True)
        inner = innermost(target if called is None else called[0])
        within = None if inner is None else home(inner.__code__.co_filename)
        self.program = CheckedProgram(self.calls, self._check, within, self.calls.paths(target), self.skips)

    def report(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CheckReport:
        if not is_model(self.backend, self.target):
            self._refuse_arguments(args, kwargs)
        undo: list[Callable[[], None]] = []
        given = {str(at): value for at, value in enumerate(args)} | dict(kwargs)
        try:
            self.calls.run(self._run, self.target, given, undo)
        except BackprobeError:
            raise
        except BaseException as error:
            self._add_notes(error)
            raise
        finally:
            for put_back in reversed(undo):
                put_back()
            unseen = self.calls.unaccounted()
            self.calls.release()
        self.skips.refuse_unused(name_of(self.target))
        self.results.add_unseen(unseen)
        self.results.remarks.update(self.skips.remarks())
        return self.results.report(name_of(self.target), list(self.program.notes), unseen.remedy)

    def _refuse_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise BadOption for arguments that do not fit the signature of the target, if it has one."""
        try:
            signature = inspect.signature(self.target)
        except (TypeError, ValueError):  # a function written in C
            return
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadOption(
                f"{name_of(self.target)} cannot be called with these arguments: {error}",
                asked=f"{len(args)} positional arguments" + "".join(f", {name}=" for name in kwargs),
                found=f"{name_of(self.target)}{signature}", next="the arguments that the function itself takes",
            ) from error  # fmt: skip

    def _run(self, target: Any, inputs: Mapping[str, Any]) -> Any:
        positional = [value for name, value in inputs.items() if name.isdigit()]
        keywords = {name: value for name, value in inputs.items() if not name.isdigit()}
        result = self._root(target)(*positional, **keywords)
        if inspect.isgenerator(result) or inspect.iscoroutine(result):
            result.close()
            raise NothingToDifferentiate(
                f"{name_of(self.target)} returns a {type(result).__name__}, which has computed nothing yet",
                asked=f"bp.check({name_of(self.target)})", next="check a function that runs it to its end",
            )  # fmt: skip
        return result

    def _root(self, target: Any) -> Any:
        """The target as it is run: followed, or itself one call that is checked."""
        followed = self.program.followed.follow(None, target)
        if followed is not None:
            return followed
        site = CallSite("", 0, "", spelled=name_of(self.target))
        return CallListener(self.program, None, "", "", (site,)).call(target, False, 0)

    def _check(self, listener: CallListener, site: CallSite, made: RecordedCall | Reason) -> None:
        if isinstance(made, Reason):
            self.results.add(listener, site, [], Verdict(unchecked=made))
        else:
            inputs = list(made.inputs.values())
            verdict = check_call(made, self.results.known(site, inputs))
            self.results.add(listener, site, inputs, verdict)

    def _add_notes(self, error: BaseException) -> None:
        """Add to an error of the program where the check was."""
        note = f"backprobe: raised while checking {name_of(self.target)}"
        if self.program.last is not None and self.program.last[1].line:
            listener, site = self.program.last
            note += f"; the last call was made at {place(listener.file, site.line)}: {site.text}"
        error.add_note(note)
