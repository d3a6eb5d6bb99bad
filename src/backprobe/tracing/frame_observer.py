"""Observes running frames, so that unmodified code reports to scopes as rewritten code does."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

from backprobe.backends.capabilities import Late, Recompute
from backprobe.backends.protocol import BlockTape
from backprobe.errors import NoSource
from backprobe.source.bytecode import Event, Events, events, is_rewritten, opcode
from backprobe.source.frames import UNKNOWN, name_in, value_in
from backprobe.source.locate import is_generated, is_type_expression
from backprobe.source.marks import Does
from backprobe.source.none_checks import GRADIENT
from backprobe.source.sites import Site
from backprobe.source.tracebacks import steps
from backprobe.source.tracer import Tracer, WatchedFrame
from backprobe.source.user_code import innermost, is_of_program, package
from backprobe.tracing.log import ScopeKind
from backprobe.tracing.none_reads import Returning, line_of, look, look_at_clearing
from backprobe.tracing.scope import Scope
from backprobe.tracing.trace import Trace
from backprobe.tracing.values import OWN, ScopeNames

COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
NO_FUNCTIONS = ("<module", "<generic parameters of")  # the latter exists for ``def f[T](…)``, from Python 3.12 on
EXPOSING = ("numpy", "data_ptr", "untyped_storage", "__array__", "__dlpack__")  # methods that give access to memory
OF_TENSORS = ("requires_grad", "grad", "data")  # assigning to these attributes gives no value a name
OWN_WORK = -1  # returned instead of a distance if backprobe itself runs this code
DIFFERENTIATING = "grad"  # the name of functions that return gradients
STORING = (Does.BIND, Does.CLOSE)
SUSPENDED, COROUTINE = ("YIELD_VALUE", "SEND", "RESUME"), 0x80 | 0x20 | 0x200  # RESUME: on Python 3.13


RAISING = Event(Does.RAISE)


class ObservedFrame:
    """A running frame of the program, with the scope to which it reports."""

    own: Sequence[str] = (OWN,)

    def __init__(
        self, observer: FrameObserver, scope: Scope, events: Events, code: CodeType, unread: dict[str, Any]
    ) -> None:
        self.observer, self.scope, self.events, self.code = observer, scope, events, code
        self.function = code  # the function that contains the code
        self.unread = unread  # variables bound before the block that the frame has not read yet
        self.pending: Event | None = None  # the instruction that is running
        self.held: Any = None  # the object to which the pending instruction may write
        self.bound: list[tuple[int, Any]] = []  # (site, value) for each variable that this statement has bound so far
        self.opened: dict[str, list[str]] = {}  # comprehensions that run in this frame, by variable
        self.transparent: frozenset[CodeType] = frozenset()

    def step(self, frame: FrameType) -> None:
        at = frame.f_lasti
        event = self.events.at.get(at)
        if event is not None and event is self.pending:
            return  # an instruction with a prefix takes two steps
        if self.pending is not None:
            self._done(frame)
        if self.bound and (event is None or event.does not in STORING):
            self._bind_all()
        if event is not None:
            self.pending = event
            BEFORE.get(event.does, ObservedFrame._nothing)(self, frame, event)
        elif self.unread:
            self._read(frame, self.events.loads.get(at, ()))

    def raised(self, error: BaseException) -> None:
        self.pending, self.held = RAISING, None
        if self.observer.is_of_backward(error.__traceback__):
            self._bind_all()
            self.observer.failed(error)

    def left(self, frame: FrameType, value: Any) -> bool:
        event, self.pending = self.pending, None
        self._bind_all()
        if event is not None and event.does is Does.RETURN:
            self.scope.bind(event.site, value)
        elif event is not RAISING and self._is_suspended(frame):
            return False
        self._leave()
        return True

    def _is_suspended(self, frame: FrameType) -> bool:
        return bool(self.code.co_flags & COROUTINE) and opcode(frame) in SUSPENDED

    def _leave(self) -> None:
        self.scope.exit()

    def _read(self, frame: FrameType, names: Sequence[str]) -> None:
        # A variable that was bound before the block is an input of the block. It is reported when the frame first reads
        # it, unless the block has bound it again.
        for name in names:
            if name in self.unread and name_in(frame, name) is self.unread[name]:
                self.scope.read(name, self.unread.pop(name))

    # Methods that run before an instruction.

    def _nothing(self, frame: FrameType, event: Event) -> None: ...

    def _before_call(self, frame: FrameType, event: Event) -> None:
        call = event.node
        function = UNKNOWN if call is None else value_in(frame, call.func)  # type: ignore[attr-defined]
        if event.clears and self.observer.kept is not None:
            look_at_clearing(self.observer.kept, frame, event.node)
        self.transparent = _wrappers(function)
        self.scope.recorder.following.note_compiled(function)
        if function is UNKNOWN or call is None:
            self._expose_owner(frame, call)
            self.scope.before_unknown_call()
            return
        arguments, named = _arguments(frame, call)
        self.held = self.scope.before_call(function, arguments, named, event.flagged)

    def _expose_owner(self, frame: FrameType, call: Any) -> None:
        # In ``u[0].mul_(2)`` or ``u.detach().numpy()``, a method may write to the value ``u``, whose name is inside the
        # expression of the method's object.
        method = getattr(call, "func", None)
        if isinstance(method, ast.Attribute) and (method.attr.endswith("_") or method.attr in EXPOSING):
            self._expose(frame, method.value)

    def _before_exposing(self, frame: FrameType, event: Event) -> None:
        self._expose(frame, event.node)

    def _expose(self, frame: FrameType, node: ast.expr | None) -> None:
        held = value_in(frame, node)
        if held is not UNKNOWN:
            self.scope.expose(held)
            return
        for part in ast.walk(node) if node is not None else ():
            if isinstance(part, ast.Name):
                self.scope.expose(name_in(frame, part.id))

    def _before_augment(self, frame: FrameType, event: Event) -> None:
        held, place = value_in(frame, event.node), event.node
        if held is UNKNOWN and isinstance(place, ast.Subscript):
            held = value_in(frame, place.value)  # a write to an element changes its tensor
        if held is UNKNOWN:
            self.scope.before_unknown_write()
        self.held = held
        self.scope.writing(held)

    def _before_item(self, frame: FrameType, event: Event) -> None:
        self.held = value_in(frame, event.node.value)  # type: ignore[union-attr]  # a subscript's node
        self.scope.writing(self.held)

    def _before_attribute(self, frame: FrameType, event: Event) -> None:
        if event.node.attr == "data":  # type: ignore[union-attr]  # an attribute's node
            self.scope.expose(value_in(frame, event.node.value))  # type: ignore[union-attr]  # the same

    def _before_gradient(self, frame: FrameType, event: Event) -> None:
        kept = self.observer.kept
        if kept is not None and event.read is not None and self.scope.recorder.is_recording:
            look(kept, frame, event.read)

    # Methods that run after an instruction.

    def _done(self, frame: FrameType) -> None:
        event, self.pending = self.pending, None
        while event is not None:
            AFTER.get(event.does, ObservedFrame._nothing)(self, frame, event)
            event = event.then

    def _bound(self, frame: FrameType, event: Event) -> None:
        # Store the value, because Python may bind the parts of ``a, b = …`` in another order than that of the text.
        # They are reported later, in the order of the text.
        self.unread.pop(event.name, None)
        self.bound.append((event.site, name_in(frame, event.name)))

    def _bind_all(self) -> None:
        bound, self.bound = sorted(self.bound, key=itemgetter(0)), []
        for site, value in bound:
            self.scope.bind(site, value)

    def _walrus(self, frame: FrameType, event: Event) -> None:
        self.unread.pop(event.name, None)
        self.scope.name(event.site, name_in(frame, event.name))

    def _bound_in_comprehension(self, frame: FrameType, event: Event) -> None:
        own, value = self.opened.get(event.name, self.own)[-1], name_in(frame, event.name)
        if value is UNKNOWN:
            self.scope.recorder.note("unreadable", name=event.name, line=str(self.scope.sites[event.site].line))
        else:
            self.scope.name(event.site, value, own)

    def _opened(self, frame: FrameType, event: Event) -> None:
        # A comprehension begins that has no frame of its own. Its variables are distinguished from variables of the
        # function with the same names.
        self.opened.setdefault(event.name, []).append(self.scope.begin_comprehension())

    def _closed(self, frame: FrameType, event: Event) -> None:
        if self.opened.get(event.name):
            self.scope.end_comprehension(self.opened[event.name].pop())

    def _read_after(self, frame: FrameType, event: Event) -> None:
        # Runs after an instruction that stores one variable and then reads another one.
        self._bind_all()
        self._read(frame, [event.name])

    def _augmented(self, frame: FrameType, event: Event) -> None:
        held, self.held = self.held, None
        self.scope.written(held)

    def _augmented_bound(self, frame: FrameType, event: Event) -> None:
        self.unread.pop(event.name, None)
        self.scope.wrote(event.site, name_in(frame, event.name))

    def _called(self, frame: FrameType, event: Event) -> None:
        written, self.held = self.held, None
        for tensor in written if isinstance(written, list) else ():
            self.scope.written(tensor)

    def _set_item(self, frame: FrameType, event: Event) -> None:
        owner, self.held = self.held, None
        if owner is not UNKNOWN and self.scope.recorder.tape.is_tensor(owner):
            self.scope.stored(event.site, owner)
        else:
            self._bind_place(frame, event)

    def _bind_place(self, frame: FrameType, event: Event) -> None:
        value = value_in(frame, event.node)
        if value is not UNKNOWN:
            self.scope.bind(event.site, value)
            self.scope.stored(event.site, None)
        elif getattr(event.node, "attr", "") in OF_TENSORS:
            tape, kept = self.scope.recorder.tape, self.observer.kept
            if kept is not None and isinstance(event.node, ast.Attribute) and event.node.attr == GRADIENT:
                kept.assigned(value_in(frame, event.node.value), line_of(frame, event.node))
            if isinstance(tape, Late):
                tape.look_again((self.scope.kind.file, self.scope.sites[event.site].line))
        else:
            site = self.scope.sites[event.site]
            self.scope.recorder.note("binding_unseen", name=site.local, line=str(site.line))
            self.scope.done(event.site, None)

    def _ended(self, frame: FrameType, event: Event) -> None:
        self.scope.done(event.site, None)

    def _deleted(self, frame: FrameType, event: Event) -> None:
        self.unread.pop(event.name, None)
        self.scope.forget(event.name)


def _arguments(frame: FrameType, call: Any) -> tuple[list[Any], dict[str, Any]]:
    # Return the arguments of a call, as far as their values are known.
    arguments: list[Any] = []
    for given in call.args:
        value = value_in(frame, given.value if isinstance(given, ast.Starred) else given)
        several = isinstance(given, ast.Starred) and isinstance(value, tuple | list)
        arguments += value if several else [value]
    named: dict[str, Any] = {}
    for keyword in call.keywords:
        value = value_in(frame, keyword.value)
        if keyword.arg is not None:
            named[keyword.arg] = value
        elif type(value) is dict:
            named |= value
    return arguments, named


BEFORE = {
    Does.CALL: ObservedFrame._before_call,
    Does.AUGMENT: ObservedFrame._before_augment,
    Does.SET_ITEM: ObservedFrame._before_item,
    Does.SET_ATTRIBUTE: ObservedFrame._before_attribute,
    Does.EXPOSE: ObservedFrame._before_exposing,
    Does.READ_GRADIENT: ObservedFrame._before_gradient,
}
AFTER = {
    Does.BIND: ObservedFrame._bound,
    Does.WALRUS: ObservedFrame._walrus,
    Does.EACH: ObservedFrame._bound_in_comprehension,
    Does.AUGMENT: ObservedFrame._augmented,
    Does.STORE_AUGMENTED: ObservedFrame._augmented_bound,
    Does.SET_ATTRIBUTE: ObservedFrame._bind_place,
    Does.SET_ITEM: ObservedFrame._set_item,
    Does.CALL: ObservedFrame._called,
    Does.END: ObservedFrame._ended,
    Does.DELETE: ObservedFrame._deleted,
    Does.OPEN: ObservedFrame._opened,
    Does.CLOSE: ObservedFrame._closed,
    Does.READ: ObservedFrame._read_after,
}


class ComprehensionFrame(ObservedFrame):
    """Observes the frame of a comprehension. It reports to the surrounding scope, but its variables are kept apart."""

    def __init__(self, around: ObservedFrame, events: Events, code: CodeType) -> None:
        super().__init__(around.observer, around.scope, events, code, around.unread)
        self.function = around.function
        self.own = [around.scope.begin_comprehension()]

    def left(self, frame: FrameType, value: Any) -> bool:
        event, self.pending = self.pending, None
        if event is not RAISING and self._is_suspended(frame):
            return False
        self._leave()
        return True

    def _leave(self) -> None:
        self.scope.end_comprehension(self.own[0])


class FrameObserver:
    """Watches the frames of user code that are entered, directly or not, from a watched frame."""

    def __init__(self, trace: Trace, tape: BlockTape) -> None:
        self.trace, self.tape = trace, tape
        self.late = tape if isinstance(tape, Late) else None
        self.recompute = tape if isinstance(tape, Recompute) else None
        self.kept = tape.kept_gradients
        self.tracer = Tracer(self._entered)
        self.failed: Callable[[BaseException], None] = lambda error: None
        """Called with an error of backward, in each frame through which the error passes, because the program may catch
        it.
        """
        self.users: dict[str, bool] = {}  # by file: does it belong to the user's program?
        self.callers: dict[Any, tuple[ScopeKind, ScopeNames]] = {}  # for code to recompute: its caller

    def start(
        self,
        frame: FrameType,
        unread: dict[str, Any],
        watching: type[ObservedFrame] = ObservedFrame,
        more: Sequence[Site] = (),
    ) -> None:
        """Watch a frame from now on. If the frame's source cannot be read, only the functions that it calls are
        watched.

        ``more`` are additional sites that the frame's text does not contain.

        Raises NoSource in a function that reports to another probe.
        """
        code = frame.f_code
        try:
            found = events(code, code, code.co_filename)
        except NoSource as error:
            if is_rewritten(code):
                raise
            self.trace.note("block_not_read", name=code.co_qualname, why=error.headline)
            found, unread = Events((), {}), {}
        sites = (*found.sites, *more) if more else found.sites  # the same tuple, because its identity is a key
        scope = self.trace.open_root(code.co_filename, sites)
        self.tracer.start(frame, watching(self, scope, found, code, unread))

    def stop(self) -> None:
        if not self.tracer.stop():
            self.trace.note("tracer_replaced")

    def is_of_backward(self, step: TracebackType | None) -> bool:
        """Does an error come from a function of the framework that differentiates?"""
        return any(self.tape.differentiates(one.tb_frame.f_code) for one in islice(steps(step), 1, None))

    def _entered(self, frame: FrameType) -> WatchedFrame | None:
        code = frame.f_code
        if code.co_name in self.tape.hears and self.trace.is_recording:
            self.tape.entered(frame)
        users = self.users.get(code.co_filename)
        if users is None:
            users = self.users[code.co_filename] = is_of_program(code.co_filename, self.trace.home)
        if not users or (code.co_freevars and self._is_probed(code)):
            return self._returning(frame) if code.co_name == DIFFERENTIATING else None
        if not self.trace.is_recording:
            return None
        above, distance = self._above(frame)
        if above is not None:
            return self._watched(frame, above.scope, above, distance)
        if distance == OWN_WORK:
            return None
        caller = self._caller_of_repeated()
        return None if caller is None else self._watched(frame, caller, None, distance)

    def _returning(self, frame: FrameType) -> Returning | None:
        # Return an object that will receive the gradients that the function in this frame returns. None unless the
        # program called the function, uses its result, and may get None from it.
        caller = self.tracer.frames.get(frame.f_back) if frame.f_back is not None else None
        watched = None if caller is None else caller.watched
        event = watched.pending if isinstance(watched, ObservedFrame) else None
        call = event.node if event is not None and event.may_be_none else None
        if self.kept is None or frame.f_back is None or not isinstance(call, ast.Call):
            return None
        is_asked = self.trace.is_recording and self.kept.may_give_none(frame)
        return Returning(self.kept, frame.f_back, call) if is_asked else None

    def _caller_of_repeated(self) -> Scope | None:
        # Return the scope from which a checkpoint recomputes a part now; None if no part is recomputed. The scope
        # belongs to the trace of the recomputation.
        if self.recompute is None:
            return None
        trace, part = self.trace.repeats.now(), self.recompute.repeated()
        caller = self.callers.get(part)
        return None if caller is None else trace.caller_again(*caller)

    def _is_probed(self, code: CodeType) -> bool:
        if is_rewritten(code):
            self.trace.note("already_probed", name=code.co_qualname)
            return True
        return False

    def _above(self, frame: FrameType) -> tuple[ObservedFrame | None, int]:
        # Return the nearest watched frame among the callers of a frame, and the number of other frames between the two.
        # None if there is none, or if code of the framework that hides its callers, or of backprobe, is nearer.
        distance, caller = 0, frame.f_back
        while caller is not None:
            known = self.tracer.frames.get(caller)
            if known is not None and isinstance(known.watched, ObservedFrame):
                return known.watched, distance
            if package(caller.f_code.co_filename) == "backprobe":
                return None, OWN_WORK
            if self.tape.hides(caller.f_code):
                return None, distance
            distance, caller = distance + 1, caller.f_back
        return None, distance

    def _watched(
        self, frame: FrameType, caller: Scope, above: ObservedFrame | None, distance: int
    ) -> ObservedFrame | None:
        code = frame.f_code
        if code.co_name in COMPREHENSIONS:
            if above is None or code not in above.code.co_consts:
                return None
            with suppress(NoSource):  # the surrounding frame may also have no source
                return ComprehensionFrame(above, events(code, above.function, code.co_filename), code)
            return None
        transparent = above.transparent if above is not None else ()
        if not caller.kind.follows or code in transparent or code.co_name.startswith(NO_FUNCTIONS):
            return None
        part = None if self.recompute is None else self.recompute.to_be_repeated()
        if part is not None:
            self.callers.setdefault(part, (caller.kind, caller.recorder.names_of(caller)))
        try:
            found = events(code, code, code.co_filename)
        except NoSource as error:
            if not (distance or is_generated(code) or is_type_expression(code)):
                self.trace.note("not_followed", name=code.co_qualname, why=error.headline)
            return None
        if self.late is not None:
            self.late.entering(frame)
        scope = caller.enter(self._label(frame, distance) or code.co_name, code.co_filename, found.sites)
        watched = ObservedFrame(self, scope, found, code, {})
        for name, site in found.arguments:
            scope.bind(site, name_in(frame, name))
        return watched

    def _label(self, frame: FrameType, distance: int) -> str:
        # Return the label of a frame's scope. For a module, or an object with ``__call__``, it is the type's name. The
        # body of a class is not a call, so it has the label "class ...". For any other code it is empty.
        code = frame.f_code
        if not code.co_flags & inspect.CO_OPTIMIZED:
            return f"class {code.co_name}"
        owner = name_in(frame, code.co_varnames[0]) if code.co_argcount else UNKNOWN
        if owner is UNKNOWN:
            return ""
        called = self.tape.called(owner, True) if distance else None
        function = type(owner).__call__ if code.co_name == "__call__" and called is None else called and called[0]
        inner = innermost(function)
        return type(owner).__name__ if inner is not None and inner.__code__ is code else ""


def _wrappers(function: Any) -> frozenset[CodeType]:
    # Return the code of the wrappers that decorators have put around a function.
    found = []
    while isinstance(function, FunctionType) and hasattr(function, "__wrapped__"):
        found.append(function.__code__)
        function = function.__wrapped__
    return frozenset(found)
