"""One check: the program runs once, as it is, and each call that it makes is judged as it is made."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from backprobe.backends.protocol import Backend
from backprobe.backends.recheck import Operation
from backprobe.check.answer import CheckReport
from backprobe.check.hearing import Hearing, HearingScope
from backprobe.check.left_out import LeftOut
from backprobe.check.report import CheckResults
from backprobe.check.verdict import Verdict, judge
from backprobe.errors import BackprobeError, BadOption, NothingToDifferentiate
from backprobe.findings.phrasing import place
from backprobe.probe.run import home, name_of
from backprobe.source.sites import CallSite
from backprobe.source.user_code import innermost


class CheckRun:
    """A target that is run once."""

    def __init__(self, target: Any, backend: Backend, skip: Sequence[Any] = ()) -> None:
        self.target, self.backend = target, backend
        self.calls = backend.calls()
        self.hearsay = CheckResults()
        called = self.calls.called(target, True)
        inner = innermost(target if called is None else called[0])
        within = None if inner is None else home(inner.__code__.co_filename)
        self.left_out = LeftOut(skip)
        self.hearing = Hearing(self.calls, self._judge, within, self.calls.paths(target), self.left_out)

    def report(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CheckReport:
        if not self.backend.is_model(self.target):
            self._refuse_arguments(args, kwargs)
        given = {str(at): value for at, value in enumerate(args)} | dict(kwargs)
        try:
            self.calls.run(self._program, self.target, given)
        except BackprobeError:
            raise
        except BaseException as error:
            self._add_notes(error)
            raise
        finally:
            untold = self.calls.untold()
            self.calls.release()
        self.left_out.refuse_unused(name_of(self.target))
        return self.hearsay.report(
            name_of(self.target), [*self.left_out.notes(), *map(str, self.hearing.notes)], untold
        )

    def _refuse_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise BadOption for arguments that the target does not take, as far as it says what it takes."""
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

    def _program(self, target: Any, inputs: Mapping[str, Any]) -> Any:
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
        """The target as it is run: followed, or itself one call that is judged."""
        followed = self.hearing.following.follow(None, target)
        if followed is not None:
            return followed
        site = CallSite("", 0, "", spelled=name_of(self.target))
        scope = HearingScope(self.hearing, None, "", "", (site,))
        return scope.call(target, False, 0)

    def _judge(self, scope: HearingScope, site: CallSite, made: Operation | str) -> None:
        if isinstance(made, str):
            self.hearsay.add(scope, site, [], Verdict(unjudged=made))
            return
        inputs = [(one.place, one.path) for one in made.inputs]
        verdict = judge(made, self.hearsay.known(site, inputs))
        verdict.notes += made.notes
        self.hearsay.add(scope, site, inputs, verdict)

    def _add_notes(self, error: BaseException) -> None:
        """Say in an error of the program's where the check was."""
        note = f"backprobe: raised while checking {name_of(self.target)}"
        if self.hearing.last is not None and self.hearing.last[1].line:
            scope, site = self.hearing.last
            note += f"; the last call was made at {place(scope.file, site.line)}: {site.text}"
        error.add_note(note)
