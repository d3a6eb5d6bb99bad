"""The listener of a program under check: it makes calls on behalf of the program, and checks them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, BuiltinMethodType, FunctionType, MethodType
from typing import Any

from backprobe.backends.pure_calls import attribute_of, items_of, with_element
from backprobe.backends.recheck import Recheck, RecordedCall
from backprobe.check.results import CheckResults
from backprobe.errors import NothingToDifferentiate
from backprobe.probe.request import asked_as, name_of
from backprobe.record.names import quote
from backprobe.record.quoted_errors import first_line
from backprobe.record.reasons import Reason
from backprobe.source import frame_builtins
from backprobe.source.followed_calls import FollowedCalls
from backprobe.source.listener import NO_CALL, CodeListener
from backprobe.source.reporting import reporting
from backprobe.source.sites import CallSite, Origin, Site, operator_of
from backprobe.source.user_code import innermost, package
from backprobe.tracing.values import ScopeId

ITERATING = (zip, enumerate, list, tuple, iter, reversed)
"""Builtins that only iterate over their argument, without computing anything from the elements."""
IN_PLACE = frozenset({"iadd", "isub", "imul", "itruediv", "ipow", "ifloordiv", "imod", "imatmul"})
REDUCING = (sum, max, min)
"""Builtins that compute something from the elements over which they iterate."""


class CallListener(CodeListener):
    """The listener of one execution of a function: it performs and checks the calls inside."""

    def __init__(self, program: CheckedProgram, scope: ScopeId, sites: Sequence[Site]) -> None:
        self.program, self.scope, self.sites = program, scope, sites
        self.calling: CallSite | None = None  # the call whose function was asked for last, or is followed now

    def call(self, function: Any, may_write: bool = False, at: int = NO_CALL, /) -> Any:
        """Return the callable to run instead of a function.

        It is a rewritten version of the function, which reports the calls inside, or a wrapper, which checks this call
        unless the function is skipped or a user's class. Other classes are returned as they are.
        """
        if type(function) is BuiltinFunctionType and function in frame_builtins.LOOKS_AT_FRAME:
            return frame_builtins.seen_by(function)
        program = self.program
        for position, one in enumerate(program.skipped):
            if _is(function, one):
                program.skips[position] += 1
                return functools.partial(program.skip, function)
        site = self.calling = self._call_site(at)
        followed = program.follow(self, function)
        depth = program.calls.differentiates(function)
        if depth:
            return functools.partial(program.differentiate, self.scope, site, depth, function, followed)
        if isinstance(followed, functools.partial):
            return functools.partial(self._called, site, followed)
        if followed is not None:
            return followed
        if any(function is one for one in ITERATING):
            return functools.partial(self._with_items, site, function)
        if any(function is one for one in REDUCING):
            return functools.partial(self._with_list, site, function)
        if isinstance(function, type):
            return functools.partial(program.instantiate, function) if runs_user_code(function) else function
        return functools.partial(program.call, self.scope, site, function)

    def _called(self, site: CallSite, followed: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        # Python asked for the functions of calls among the arguments after it asked for this one.
        self.calling = site
        return followed(*args, **kwargs)

    def operate(self, at: int, /, *operands: Any) -> Any:
        site = self._call_site(at)
        return self.program.call(self.scope, site, operator_of(site), *operands)

    def __exit__(self, *error: object) -> None:
        self.program.left = self.program.calls.now()

    def attribute(self, at: int, owner: Any, name: str, /) -> Any:
        if self._is_computed(owner, name):
            found = self.program.compute(self.scope, self._call_site(at), attribute_of, owner, name)
            if name == "data" and self.program.calls.is_differentiated(owner):
                self.program.hidden[id(found)] = found
            return found
        getter = users_property(owner, name)
        followed = None if getter is None else self.program.follow(self, getter)
        if followed is None:
            return getattr(owner, name)
        try:
            return followed()
        except AttributeError:
            if hasattr(type(owner), "__getattr__"):  # Python would call ``__getattr__`` if the attribute is missing
                return type(owner).__getattr__(owner, name)
            raise

    def iterate(self, at: int, value: Any, /) -> Any:
        return self._items(self._call_site(at), value)

    def put(self, at: int, owner: Any, index: Any, value: Any, /) -> None:
        if self.program.calls.is_tensor(owner):
            self.program.compute(self.scope, self._call_site(at), with_element, owner, index, value)
        else:
            owner[index] = value

    def _is_computed(self, owner: Any, name: str) -> bool:
        return self.program.calls.is_tensor(owner) and users_property(owner, name) is None

    def _items(self, site: CallSite, value: Any) -> Any:
        if not self.program.calls.is_tensor(value):
            return value
        return self.program.compute(self.scope, site, items_of, value)

    def bind(self, at: int, value: Any, /) -> Any:
        self.scope.next_count(self.sites[at].local)
        return value

    name = wrote = bind

    def _with_items(self, site: CallSite, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        return function(*(self._items(site, one) for one in args), **kwargs)

    def _with_list(self, site: CallSite, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        # Turn an iterator into a list, because an iterator can be read only once and the call may be repeated.
        given = [list(one) if isinstance(one, Iterator) else one for one in args[:1]]
        return self.program.call(self.scope, site, function, *given, *args[1:], **kwargs)

    def _call_site(self, at: int) -> CallSite:
        site = self.sites[at]
        assert isinstance(site, CallSite)
        return site


class CheckedProgram(FollowedCalls[CallListener | None]):
    """One run of a program in which each call is performed and checked here.

    Functions are followed as in a recording, except functions with a custom derivative. Functions in ``skipped`` are
    not checked. Its items are functions as the program calls them, or classes that define them.
    """

    def __init__(
        self, calls: Recheck, results: CheckResults, home: str | None, paths: Mapping[int, str], skipped: Sequence[Any]
    ) -> None:
        super().__init__(calls, results.note, home)
        self.calls, self.results, self.paths, self.skipped = calls, results, paths, skipped
        self.skips = [0] * len(skipped)  # how often each skipped function was called
        self.entered: dict[str, int] = {}
        self.last: tuple[ScopeId, Site] | None = None
        # Tensors that ``.data`` returned for differentiated values; autograd does not see writes to these.
        self.hidden: dict[int, Any] = {}
        self.differentiating = 0  # number of differentiating transforms that are running
        self.left = 0  # the time when the last followed function returned

    def run(self, target: Any, inputs: Mapping[str, Any]) -> Any:
        """Run a target on its inputs: follow its code, or check it as a single call if it cannot be followed."""
        positional = [value for name, value in inputs.items() if name.isdigit()]
        keywords = {name: value for name, value in inputs.items() if not name.isdigit()}
        function = self.follow(None, target)
        if function is None:
            site = CallSite("", 0, "", spelled=name_of(target))
            function = CallListener(self, ScopeId(None, "", 0), (site,)).call(target, False, 0)
        result = function(*positional, **keywords)
        self.results.add_second(self.calls)
        if inspect.isgenerator(result) or inspect.iscoroutine(result):
            result.close()
            raise NothingToDifferentiate(
                f"{name_of(target)} returns a {type(result).__name__}, which has computed nothing yet",
                asked=f"bp.check({asked_as(target)})",
                next="check a function that runs it to its end",
            )
        return result

    def call(self, scope: ScopeId, site: CallSite, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make one of the program's calls, and check it."""
        self.last = scope, site
        self._may_write(scope, site, function, args)
        since = self.calls.now()
        made = self.calls.record(function, args, kwargs)
        result = self._checked(scope, site, made, function(*args, **kwargs), since)
        if isinstance(made, RecordedCall) and self.calls.now() > since:
            self._check_inside(scope, site, function, args, kwargs)
        return result

    def _may_write(self, scope: ScopeId, site: CallSite, function: Any, args: tuple[Any, ...]) -> None:
        # Note a write through ``.data``: autograd would then compute derivatives at other values than the forward pass.
        owner, name = self.calls.owner(function), getattr(function, "__name__", "")
        target = next(iter(args), None) if owner is None else owner
        is_write = function is with_element or name.endswith("_") or name in IN_PLACE
        if is_write and not name.endswith("__") and self.hidden.get(id(target)) is target is not None:
            self.results.add_hidden_write(scope, site)

    def _check_inside(
        self, scope: ScopeId, site: CallSite, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        # Check the function that a transform such as ``torch.func.grad`` differentiates, at the values that it
        # receives.
        while (inside := self.calls.differentiated_by(function, args, kwargs)) is not None:
            function, args, kwargs = inside
            spelled = f"{name_of(function)}, inside {site.origin.expression or site.spelled},"
            own = dataclasses.replace(site, origin=Origin(expression=spelled))
            since, made = self.calls.now(), self.calls.record_inside(function, args, kwargs)
            try:
                with self.calls.unnoticed():
                    result = function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001  # it is made for what the transform gives it
                made, result = Reason("raises", {"error": first_line(error)}), None
            self._checked(scope, own, made, result, since)

    def _checked(
        self, scope: ScopeId, site: CallSite, made: RecordedCall | Reason | None, result: Any, since: int
    ) -> Any:
        if isinstance(made, RecordedCall):
            made = made.returned(result)
        elif self.calls.now() == since:
            made = None
        until = self.calls.now()
        if made is not None:
            self.calls.account_for(since)
            is_twice = bool(self.differentiating) if self.calls.has_transforms else None
            self.results.add(scope, site, made, since, until, is_twice=is_twice)
        return result

    def compute(self, scope: ScopeId, site: CallSite, function: Any, /, *args: Any) -> Any:
        """Perform an operation that is not written as a call, and check it if it is differentiated."""
        since = self.calls.now()
        self._may_write(scope, site, function, args)
        made = self.calls.record(function, args, {})
        result = function(*args)
        if self.calls.now() == since:  # no operation has run, because the result existed before, as for ``x.grad``
            return result
        return self._checked(scope, site, made, result, since)

    def differentiate(
        self, scope: ScopeId, site: CallSite, depth: int, function: Any, followed: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        """Call a function that computes derivatives.

        The derivative of its result is right if the second derivatives of the calls inside are right. All operations
        after the last followed function has returned belong to the backward pass.
        """
        since = self.left = self.calls.now()
        self.differentiating += depth
        try:
            result = (followed or function)(*args, **kwargs)
            if followed is None:
                self._check_inside(scope, site, function, args, kwargs)
        finally:
            self.differentiating -= depth
        if self.calls.now() > since:
            self.calls.differentiates_twice = True
            again = self.differentiating + depth > 1
            said = Reason("derives_again" if again else "computes_derivatives")
            self.results.add(scope, site, said, since, since, is_twice=False)
        self.calls.account_for(max(since, self.left))
        return result

    def skip(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call without checking it, because the user listed it in ``skip``."""
        since = self.calls.now()
        result = function(*args, **kwargs)
        self.calls.account_for(since)
        return result

    def instantiate(self, kind: type, /, *args: Any, **kwargs: Any) -> Any:
        """Create an object of a user's class, whose constructor may compute."""
        since = self.calls.now()
        made = kind(*args, **kwargs)
        if self.calls.now() > since:
            self.note("class_not_followed", name=kind.__qualname__)
        return made

    # Methods for calls of functions that are followed.

    def follow(self, caller: CallListener | None, function: Any) -> Any:
        return None if self.calls.is_whole(function) else super().follow(caller, function)

    def is_followed(self, function: Any, inner: FunctionType) -> bool:
        return self.calls.opens(getattr(function, "__self__", None)) or super().is_followed(function, inner)

    def reporting(self, function: Any, caller: CallListener | None, label: str) -> Any:
        """Follow a function.

        A module of the checked model reports under its path; a function at the root has no name.
        """
        own = self.paths.get(id(getattr(function, "__self__", None)), "" if caller is None else None)

        parent = None if own is not None or caller is None else caller.scope

        def open_with(name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], CallListener]:
            path = f"/{quote(label or name)}" if own is None else own
            return lambda: CallListener(self, self._entered(parent, path, file), sites)

        return reporting(function, open_with, calls=True)

    def _entered(self, parent: ScopeId | None, path: str, file: str) -> ScopeId:
        siblings = self.entered if parent is None else parent.entered
        siblings[path] = siblings.get(path, 0) + 1
        return ScopeId(parent, path, siblings[path] - 1, file)

    def exchanged(self, caller: CallListener | None, argument: Any) -> Any:
        """Wrap a function that is passed as an argument. If it cannot be followed, each call of it is checked."""
        given = super().exchanged(caller, argument)
        if given is not argument or not callable(argument) or isinstance(argument, type):
            return given
        assert caller is not None
        assert caller.calling is not None
        # the arguments are left out, because the outer function chooses them, not the program
        site = dataclasses.replace(caller.calling, arguments=())
        return functools.partial(self.call, caller.scope, site, argument)


def runs_user_code(kind: type) -> bool:
    """Does creating an object of the class run code that the user wrote?"""
    for name in ("__init__", "__post_init__", "__new__"):
        inner = innermost(getattr(kind, name, None))
        file = inner.__code__.co_filename if inner is not None else "<"
        if not file.startswith("<") and package(file) is None:
            return True
    return False


def users_property(owner: Any, name: str) -> Any:
    """The getter of a property that the user wrote, bound to its object; None for any other attribute."""
    kind = next((kind for kind in type(owner).__mro__ if name in vars(kind)), None)
    getter = None if kind is None else getattr(vars(kind)[name], "fget", None)
    if not isinstance(getter, FunctionType):
        return None
    inner = innermost(getter)
    return MethodType(getter, owner) if inner and package(inner.__code__.co_filename) is None else None


METHODS = (MethodType, BuiltinMethodType)


def _is(function: Any, one: Any) -> bool:
    # methods are compared by function and object, because each access to a method creates a new one
    if isinstance(function, METHODS):
        return function.__self__ is one or (isinstance(one, METHODS) and function == one)
    return function is one or type(function) is one
