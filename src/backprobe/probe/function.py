"""The function form: the function itself is rewritten, and its arguments may be made differentiable."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any

from backprobe.errors import BadOption, BadOutput, NothingToDifferentiate
from backprobe.findings.phrasing import listed
from backprobe.probe.output import ProbedOutput
from backprobe.probe.request import asked_as, bound, name_of
from backprobe.probe.run import TargetRun
from backprobe.probe.several_outputs import AskedOutput
from backprobe.probe.source_names import bound_in
from backprobe.record.containers import leaves
from backprobe.record.names import nearest
from backprobe.source.reporting import reporting
from backprobe.source.sites import Site
from backprobe.source.user_code import innermost
from backprobe.tracing.scope import Scope


class FunctionRun(TargetRun):
    """One run of a function, which is rewritten. It gets aliases, which require a gradient, of the arguments that
    ``wrt`` names or, without ``wrt``, of all floating arguments if none of them requires a gradient.
    """

    lifted_numbers: Sequence[str] = ()
    around: Callable[..., Any] | None = None
    """If the target is a transform: calls a given function as the transform calls its own. Otherwise None."""

    def starts_at(self) -> Any:
        """Return the function to rewrite. For a callable object, this is the method that runs when the object is
        called; for a transform of the framework, the function that it transforms.
        """
        target = self.probe.target
        called = self.tape.called(target, False)
        if called is not None:
            self.around = called[1]
            return called[0]
        method = type(target).__call__
        return MethodType(method, target) if innermost(target) is None and isinstance(method, FunctionType) else target

    def inputs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        function = self.starts_at()
        self.reporting = reporting(function, self._opened, operations=self.trace.operations)
        self.bound = self._bound(function, args, kwargs)
        return self.bound.arguments

    def _opened(self, name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], Scope]:
        # Opens the scope of the probed function. A recursive call gets a scope of its own.
        trace = self.trace

        def opened() -> Scope:
            return trace.enter(trace.root, name, file, sites) if trace.is_root_open else trace.open_root(file, sites)

        return opened

    def source_names(self) -> Sequence[str]:
        return bound_in(self.starts_at(), operations=self.selection.asks_operations)

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        given = self.bound.arguments
        self.arguments = [leaf for value in inputs.values() for _, leaf in leaves(value)]
        self.lifted_numbers = [
            name for name, value in given.items() if isinstance(value, int | float) and inputs[name] is not value
        ]
        given.update(inputs)
        if self.around is None:
            return self.reporting(*self.bound.args, **self.bound.kwargs)
        return self.trace.following.call_settled(self.around, self.reporting, *self.bound.args, **self.bound.kwargs)

    def explain_error(self, error: BaseException) -> str | None:
        if self.doing != TargetRun.doing or not self.lifted_numbers or not isinstance(error, TypeError):
            return None
        from backprobe.explain.rebound import rebound_reason

        if rebound_reason(error) is not None:
            return None
        names = ", ".join(self.lifted_numbers)
        left = self._left_as_numbers()
        return f"backprobe: the numbers given for {names} were made tensors, to be differentiated" + left

    def _left_as_numbers(self) -> str:
        # Return advice for users who want numbers not to be differentiated: name the tensors among the arguments, or
        # one number. Empty if there is no tensor, and only one number.
        numbers, given = [*self.lifted_numbers], self.bound.arguments
        tensors = [name for name, value in given.items() if name not in numbers and self._is_floating(value)]
        if tensors:
            wrt, others = tensors[0] if len(tensors) == 1 else tensors, "numbers"
        elif len(numbers) > 1:
            wrt, others = numbers[0], "others"
        else:
            return ""
        asked = [wrt] if isinstance(wrt, str) else wrt
        return f"; wrt={wrt!r} differentiates {listed(asked)} alone and leaves the {others} as they are"

    def _is_floating(self, value: Any) -> bool:
        return any(self.tape.is_tensor(leaf) and self.tape.is_floating(leaf) for _, leaf in leaves(value))

    def _bound(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        found = bound(inspect.signature(function), name_of(function), "probe", args, kwargs)
        unknown = (self.probe.wrt or frozenset()) - found.arguments.keys()
        if unknown:
            asked = sorted(unknown)[0]
            close = nearest(asked, found.arguments) or list(found.arguments)
            raise BadOption(
                f"{asked!r} is not an argument of {name_of(function)}",
                asked=f"wrt={sorted(self.probe.wrt or ())}",
                found=f"arguments: {', '.join(found.arguments)}",
                next=f"wrt={close[0]!r}",
            )
        return found

    def output(self, result: Any, asked: AskedOutput) -> ProbedOutput:
        """Return the output. Raises BadOutput or NothingToDifferentiate, with the reason if ``wrt`` is empty, or if no
        argument is floating and nothing else is differentiated.
        """
        try:
            return super().output(result, asked)
        except (BadOutput, NothingToDifferentiate) as error:
            if isinstance(error, NothingToDifferentiate) and self.probe.wrt is not None and not self.probe.wrt:
                error.why, error.next = "wrt=[] differentiates no argument", "leave out wrt= to differentiate them all"
                raise
            tape, known = self.tape, self.trace.versions.tensors
            # If something else, such as a Variable, is differentiated, the arguments are not the reason.
            is_other = any(tape.is_tensor(one) and tape.is_differentiated(one) for one in known)
            if not is_other and not any(tape.is_tensor(leaf) and tape.is_floating(leaf) for leaf in self.arguments):
                self._refuse_no_floating(self.arguments)
            raise

    def _refuse_no_floating(self, every: Sequence[Any]) -> None:
        tensors = {str(self.tape.describe(value).dtype) for value in every if self.tape.is_tensor(value)}
        kinds = sorted(tensors | {type(value).__name__ for value in every if not self.tape.is_tensor(value)})
        raise NothingToDifferentiate(
            f"{name_of(self.probe.target)} has no floating argument to differentiate",
            asked=f"bp.probe({asked_as(self.probe.target)})",
            found=f"arguments of type {', '.join(kinds)}" if kinds else "no arguments",
            why="only floating point and complex values have derivatives",
            next="pass floating point values, 3.0 instead of 3",
        )
