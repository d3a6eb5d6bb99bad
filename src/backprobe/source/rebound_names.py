"""Finds names that were bound to something new before they were used: the lines that define them, and the lines that
rebind them.

An error such as "'tuple' object is not callable" names a type, but no variable. The position of the failing instruction
shows which name was called, and the bindings of that name show its original meaning and the value that replaced it.
Nothing is reported unless the meaning and the value are certain.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType, FunctionType, ModuleType, TracebackType
from typing import Any

from backprobe.source.binding_order import BindingOrder, Point
from backprobe.source.bound_values import Bound, BoundUse, bound_by, can, exports, module_of
from backprobe.source.failing_expression import expressions_at, raising_step, statement_at, text_of
from backprobe.source.frames import UNKNOWN, name_in
from backprobe.source.locate import is_module
from backprobe.source.notebook_cells import cells, namespace
from backprobe.source.rebound_attributes import defined_and_set, holds, set_beside
from backprobe.source.scopes import Binding, How, SourceNames, SourceScope, SourceText
from backprobe.source.tracebacks import steps

NOT_CALLABLE = "object is not callable"
NO_ITEMS = ("is not subscriptable", "does not support item assignment", "does not support item deletion")
ERRORS = (TypeError, AttributeError, UnboundLocalError)


@dataclass(frozen=True)
class Failed:
    """How the program used a name when the error was raised. ``held`` is the name's value, and ``node`` the expression
    that reads it.
    """

    use: BoundUse
    node: ast.Name
    expression: ast.expr
    attribute: str = ""
    held: Any = UNKNOWN
    is_method: bool = False  # True if the attribute exists, but calling it raised the error
    is_unbound: bool = False


@dataclass(frozen=True)
class Rebound:
    """A name, its definition, and the bindings that replaced it since.

    ``defined`` is None for built-in names. ``means`` is the defined object, or only its type, as far as known.
    ``rebound`` is in the order of the text. ``others`` also bind the name, but it is not known whether they ran.
    ``is_hidden`` says that the definition still exists in an outer scope. ``is_renewed`` says that the new value was
    computed from the name itself, as in ``loss = loss(x)``.
    """

    name: str
    failed: Failed
    defined: Binding | None
    means: Bound
    rebound: tuple[Binding, ...]
    others: tuple[Binding, ...]
    is_hidden: bool
    is_renewed: bool
    scope: SourceScope
    text: SourceText
    names: SourceNames
    frame: FrameType


def rebound_name(error: BaseException) -> Rebound | None:
    """Return the name that caused an error, if the name was bound to something else before; otherwise None."""
    if type(error) not in ERRORS:
        return None
    try:
        return _found(error)
    except RecursionError:  # an expression is nested too deeply
        return None


def _found(error: BaseException) -> Rebound | None:
    step = raising_step(error)
    texts = [] if step is None else _texts(step.tb_frame)
    text = None if step is None else next((one for one in texts if one.file == step.tb_frame.f_code.co_filename), None)
    if step is None or text is None:
        return None
    failed = _failed(error, step, text)
    if failed is None:
        return None
    search = _Search(error, step, failed, text, texts)
    return search.attribute_found() if failed.use is BoundUse.CALL and failed.attribute else search.found()


def _texts(frame: FrameType) -> list[SourceText]:
    # Return the text of the module of a frame, if it can be read. In a notebook, return the texts of its cells.
    if frame.f_globals is namespace():
        return cells()
    text = text_of(frame)
    return [] if text is None else [text]


def _failed(error: BaseException, step: TracebackType, text: SourceText) -> Failed | None:
    # Return how a name was used at the place at which the error was raised; None if the error is not about a name.
    said, frame = str(error), step.tb_frame
    for node, around in expressions_at(step, text):
        match node:
            case ast.Call(func=ast.Name() as name) if isinstance(error, TypeError) and NOT_CALLABLE in said:
                return Failed(BoundUse.CALL, name, node, held=name_in(frame, name.id))
            case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr=attr)) if isinstance(error, TypeError):
                if NOT_CALLABLE in said:
                    return Failed(BoundUse.CALL, name, node, attr, holds(frame, name.id, attr))
                return Failed(BoundUse.ATTRIBUTE, name, node, attr, name_in(frame, name.id), is_method=True)
            case ast.Subscript(value=ast.Name() as name) if isinstance(error, TypeError):
                if any(part in said for part in NO_ITEMS):
                    return Failed(BoundUse.ITEM, name, node, held=name_in(frame, name.id))
            case ast.Attribute(value=ast.Name() as name, attr=attr) if isinstance(error, AttributeError):
                if error.name == attr:
                    return Failed(BoundUse.ATTRIBUTE, name, node, attr, error.obj)
            case ast.Name() if isinstance(error, UnboundLocalError):
                match around:
                    case ast.Call(func=called) if called is node:
                        return Failed(BoundUse.CALL, node, node, is_unbound=True)
                    case ast.Attribute(attr=attr):
                        return Failed(BoundUse.ATTRIBUTE, node, node, attr, is_unbound=True)
    return None


class _Search:
    # Searches for the definition of a name, and for the binding that replaced it.
    def __init__(
        self, error: BaseException, step: TracebackType, failed: Failed, text: SourceText, texts: list[SourceText]
    ) -> None:
        self.error, self.step, self.failed, self.text, self.texts = error, step, failed, text, texts
        self.frame, self.name = step.tb_frame, failed.node.id
        self.names = SourceNames(texts)
        self.order = BindingOrder(self.names)
        self.scope = self.names.scopes[failed.node]

    def found(self) -> Rebound | None:
        holder = self.scope.holder(self.name)
        if holder is None or (self.failed.is_unbound and self.name in holder.emptied):
            return None
        bindings = self._bindings(holder)
        taking = bindings if self.failed.is_unbound else self._taking(holder, bindings)
        if not taking or not self._is_held_as_said(taking):
            return None
        return self._defined_before(holder, bindings, taking) or self._defined_outside(holder, taking)

    def attribute_found(self) -> Rebound | None:
        # Return the result for an attribute of an object: its definition in the class, or the first value that was set,
        # and the bindings that replaced it. None unless the definition and the replacement are certain.
        failed = self.failed
        beside = set_beside(self.names, self.scope, self.name, failed.attribute, self.text)
        if not self._is_held_as_said(beside):
            return None
        found = defined_and_set(self.frame, self.name, failed.attribute, beside)
        if found is None:
            return None
        defined, means, taking = found
        self.name = f"{self.name}.{failed.attribute}"
        return self._rebound(self.scope, defined, means, taking, is_hidden=False)

    def _bindings(self, scope: SourceScope) -> list[Binding]:
        # Return the bindings of the name in a scope, in the order of the text.
        every = [*scope.bindings.get(self.name, ()), *(one for one in scope.stars if self._gives(one))]
        return sorted(every, key=lambda one: (one.text.order, one.line))

    def _gives(self, star: Binding) -> bool:
        home = module_of(star.statement, self._look(star.within))
        return bool(home) and exports(home, self.name)

    def _taking(self, holder: SourceScope, bindings: Sequence[Binding]) -> list[Binding]:
        # Return the bindings that may have given the name its current value.
        point = self._point(holder)
        found = [
            one
            for one in bindings
            if self.order.may_precede(one, point)
            and not self.order.is_overridden(one, bindings, point)
            and self._bound(one).may_be(self.failed.held)
            and not self._can(self._bound(one))
        ]
        texts = {(one.how, one.text.lines[one.line - 1]): one for one in found}
        return list(texts.values())  # if a cell ran twice, its last run counts

    def _is_held_as_said(self, taking: Sequence[Binding]) -> bool:
        # Does the error concern the name's current value? The check is skipped if the name is unbound, and for values
        # bound by comprehensions or ``except``, because they no longer exist.
        failed = self.failed
        if failed.is_unbound or (taking and all(one.how in (How.COMPREHENSION, How.EXCEPT) for one in taking)):
            return True
        if failed.held is UNKNOWN:
            return False
        if failed.is_method:
            return not issubclass(type(failed.held), ModuleType)
        if can(failed.held, failed.use, failed.attribute):
            return False  # the error came from inside the called function
        kind = type(failed.held).__name__
        return failed.use is not BoundUse.CALL or f"{kind}' {NOT_CALLABLE}" in str(self.error)

    def _defined_before(
        self, holder: SourceScope, bindings: Sequence[Binding], taking: Sequence[Binding]
    ) -> Rebound | None:
        # Return the result if the definition is in the same scope, and the new binding ran after it; otherwise None.
        if self.failed.is_unbound:
            return None
        last, point = taking[-1], self._point(holder)
        before = Point(last.text, last.within, last.node)
        for one in reversed(bindings):
            has_run = self.order.surely_precedes(one, point) or (
                len(taking) == 1 and self.order.surely_precedes(one, before)
            )
            is_known = self._can(self._bound(one)) or (len(taking) == 1 and one is not last and self._uses_itself(last))
            is_before = all(self.order.is_earlier(one, other) for other in taking)
            if is_known and has_run and is_before and not self.order.are_alternatives(one, last):
                return self._rebound(holder, one, self._bound(one), taking, is_hidden=False)
        return None

    def _defined_outside(self, holder: SourceScope, taking: Sequence[Binding]) -> Rebound | None:
        # Return the result if the definition is in an outer scope, or among Python's builtins; otherwise None.
        outer = None if holder.parent is None else holder.parent.holder(self.name)
        if outer is not None and outer.parent is not None:
            able = [one for one in self._bindings(outer) if self._can(self._bound(one))]
            return self._rebound(holder, able[-1], self._bound(able[-1]), taking, is_hidden=True) if able else None
        is_module = holder.parent is None
        held = UNKNOWN if is_module else self.frame.f_globals.get(self.name, UNKNOWN)
        if held is UNKNOWN and (outer is None or is_module):
            own = Bound(vars(builtins).get(self.name, UNKNOWN))
            return self._rebound(holder, None, own, taking, is_hidden=True) if self._can(own) else None
        if outer is None or held is UNKNOWN or not self._can(Bound(held)) or not self._is_of_code(held):
            return None
        giving = [one for one in self._bindings(outer) if self._bound(one).may_be(held)]
        exactly = [one for one in giving if self._bound(one).value is held]
        chosen = [*giving, *exactly][-1:]
        return self._rebound(holder, chosen[0], Bound(held), taking, is_hidden=True) if chosen else None

    def _is_of_code(self, held: Any) -> bool:
        # For a use as an attribute: is the value a module, class or function? Other objects may have the same attribute
        # by chance. True for other uses.
        return self.failed.use is not BoundUse.ATTRIBUTE or issubclass(type(held), ModuleType | type | FunctionType)

    def _rebound(
        self, scope: SourceScope, defined: Binding | None, means: Bound, taking: Sequence[Binding], *, is_hidden: bool
    ) -> Rebound:
        others = [] if "." in self.name else self._others(scope, taking, is_hidden)
        return Rebound(
            self.name,
            self.failed,
            defined,
            means,
            tuple(taking),
            tuple(others),
            is_hidden,
            self._uses_itself(taking[-1]),
            scope,
            self.text,
            self.names,
            self.frame,
        )

    def _others(self, scope: SourceScope, taking: Sequence[Binding], is_hidden: bool) -> list[Binding]:
        # Return further bindings of the name that may have caused the error. In a function, any binding hides the outer
        # definition.
        point, is_local = self._point(scope), is_hidden and scope.parent is not None
        return [
            one
            for one in self._bindings(scope)
            if one not in taking
            and (is_local or (self.order.may_precede(one, point) and not self._can(self._bound(one))))
        ]

    def _can(self, bound: Bound) -> bool:
        # Is it certain that the defined value supports the use that failed?
        failed = self.failed
        if failed.is_method:
            is_module = issubclass(type(bound.value), ModuleType)
            return is_module and callable(vars(bound.value).get(failed.attribute))
        return bound.can(failed.use, failed.attribute) is True

    def _bound(self, one: Binding) -> Bound:
        return bound_by(one, self._look(one.within), self.name)

    def _look(self, within: SourceScope) -> Any:
        # Return a function that looks up names for the code of a scope. In the failing scope, it also finds local
        # variables.
        if within.frame is self.scope.frame:
            return lambda name: name_in(self.frame, name)
        return lambda name: self.frame.f_globals.get(name, vars(builtins).get(name, UNKNOWN))

    def _uses_itself(self, one: Binding) -> bool:
        # Does the binding itself use the name in the way that failed later? Then the name still had its old meaning
        # when the binding ran.
        value = one.value if one.how in (How.ASSIGNED, How.WALRUS) else getattr(one.statement, "iter", None)
        value = getattr(one.statement, "value", None) if value is None and one.how is How.ASSIGNED else value
        return any(self._is_such_use(node) for node in _evaluated(value))

    def _is_such_use(self, node: ast.AST) -> bool:
        match node:
            case ast.Call(func=ast.Name(id=name)):
                return name == self.name and self.failed.use is BoundUse.CALL
            case ast.Attribute(value=ast.Name(id=name), attr=attr):
                return name == self.name and self.failed.use is BoundUse.ATTRIBUTE and attr == self.failed.attribute
        return False

    def _point(self, holder: SourceScope) -> Point:
        # Return the point that has been reached in the code of the scope that holds the name.
        if holder.frame is self.scope.frame:
            return Point(self.text, holder, self.failed.node)
        if holder.parent is not None:
            return Point(self.text, holder)
        for frame, line in self._frames():
            text = next((one for one in self.texts if one.file == frame.f_code.co_filename), None)
            if frame.f_globals is self.frame.f_globals and is_module(frame.f_code) and text is not None:
                return Point(text, holder, statement_at(line, text))
        return Point(self.texts[-1], holder)

    def _frames(self) -> Iterator[tuple[FrameType, int]]:
        # Yield the frames in the error's traceback, innermost first, and then their callers, each with its current
        # line.
        every = list(steps(self.error.__traceback__))
        for step in reversed(every):
            yield step.tb_frame, step.tb_lineno
        frame = every[0].tb_frame.f_back
        while frame is not None:
            yield frame, frame.f_lineno
            frame = frame.f_back


def _evaluated(node: ast.AST | None) -> Iterator[ast.AST]:
    # Yield the parts of an expression that are evaluated whenever the expression is.
    if node is None or isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        return
    yield node
    inner = [node.test] if isinstance(node, ast.IfExp) else [node.values[0]] if isinstance(node, ast.BoolOp) else None
    for part in ast.iter_child_nodes(node) if inner is None else inner:
        yield from _evaluated(part)
