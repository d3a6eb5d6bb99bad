"""The value that a binding gives to a name, and its possible uses, as far as is known without running code."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from backprobe.source.frames import UNKNOWN, attribute
from backprobe.source.scopes import Binding

LITERALS: dict[type[ast.expr], type] = {
    ast.List: list,
    ast.ListComp: list,
    ast.Dict: dict,
    ast.DictComp: dict,
    ast.Tuple: tuple,
    ast.Set: set,
    ast.SetComp: set,
    ast.JoinedStr: str,
    ast.Lambda: FunctionType,
}
Look = Callable[[str], Any]
"""Returns the value of a name, or ``UNKNOWN``."""


class BoundUse(StrEnum):
    """How a program uses the value of a name."""

    CALL = "call"
    ATTRIBUTE = "attribute"
    ITEM = "item"


@dataclass(frozen=True)
class Bound:
    """The value that a binding gives to a name: the object, or only its type, or neither if both are unknown.

    ``is_now`` is true if the object was found just now by evaluating the text of the expression. When the binding ran,
    the same text may have meant another object. For a function, ``place`` is the file and line of its definition.
    """

    value: Any = UNKNOWN
    kind: type | None = None
    is_now: bool = False
    place: tuple[str, int] | None = None

    def can(self, use: BoundUse, name: str = "") -> bool | None:
        """Can the value be called, does it have this attribute, or does it have items? None if not known."""
        if self.value is not UNKNOWN:
            return can(self.value, use, name)
        if self.kind is None:
            return None
        if use is BoundUse.ATTRIBUTE:
            is_declared = any(name in vars(each).get("__annotations__", ()) for each in self.kind.__mro__)
            # None, because an object may have attributes that its class does not declare.
            return is_declared or _has(self.kind, name) or None
        if self.kind is type and use is BoundUse.ITEM:
            return None
        return _has(self.kind, "__call__" if use is BoundUse.CALL else "__getitem__")

    @property
    def is_of_code(self) -> bool:
        """Is the value a module, a class, a function or another callable object?"""
        kind = self.kind if self.value is UNKNOWN else type(self.value)
        return kind is not None and (issubclass(kind, ModuleType) or _has(kind, "__call__"))

    def may_be(self, held: Any) -> bool:
        """Could this value be ``held``, the object to which the name refers now?"""
        if held is UNKNOWN or self.is_now:
            return True
        if self.value is not UNKNOWN:
            return self.value is held or type(self.value) is type(held)
        if self.place is not None and type(held) is FunctionType:
            return self.place == (held.__code__.co_filename, held.__code__.co_firstlineno)
        return self.kind is None or type(held) is self.kind or (self.kind is type and issubclass(type(held), type))


def can(value: Any, use: BoundUse, name: str = "") -> bool:
    """Can an object be called, does it have this attribute, or does it have items? Runs no code of its class."""
    if use is BoundUse.CALL:
        return callable(value)
    if use is BoundUse.ATTRIBUTE:
        return attribute(value, name) is not UNKNOWN
    is_class = issubclass(type(value), type)
    return _has(type(value), "__getitem__") or (is_class and _has(value, "__class_getitem__"))


def bound_by(one: Binding, look: Look, name: str) -> Bound:
    """Return the value that a binding gives to a name. Names in the binding's expression are looked up now."""
    if isinstance(one.statement, ast.Import | ast.ImportFrom):
        return Bound(imported(one, look))
    if isinstance(one.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        if one.node.decorator_list:
            return Bound()
        is_class = isinstance(one.node, ast.ClassDef)
        return Bound(kind=type) if is_class else Bound(kind=FunctionType, place=(one.text.file, one.line))
    return Bound() if one.value is None else _of_expression(one.value, look, name)


def imported(one: Binding, look: Look) -> Any:
    """Return the object that an import binds. ``UNKNOWN`` if the module is not loaded or does not have the object."""
    statement, alias = one.statement, one.node
    if isinstance(statement, ast.Import):
        wanted = alias.name if alias.asname else alias.name.split(".")[0]
        return sys.modules.get(wanted, UNKNOWN)
    home = module_of(statement, look)
    return (
        vars(sys.modules[home]).get(alias.name, sys.modules.get(f"{home}.{alias.name}", UNKNOWN)) if home else UNKNOWN
    )


def module_of(statement: ast.ImportFrom, look: Look) -> str:
    """Return the full name of the module in a ``from`` import; empty if the module is not loaded."""
    full = "." * statement.level + (statement.module or "")
    if statement.level:
        package = look("__package__")
        try:
            full = importlib.util.resolve_name(full, package if isinstance(package, str) else "")
        except ImportError:
            return ""
    return full if issubclass(type(sys.modules.get(full)), ModuleType) else ""


def exports(home: str, name: str) -> bool:
    """Does ``from home import *`` bind this name?"""
    own = vars(sys.modules[home])
    listed = own.get("__all__")
    return name in own and (name in listed if isinstance(listed, list | tuple) else name[:1] != "_")


def _of_expression(value: ast.expr, look: Look, name: str) -> Bound:
    match value:
        case ast.Constant(value=constant):
            return Bound(constant)
        case ast.Name() | ast.Attribute():
            return Bound(_looked_up(value, look, name), is_now=True)
        case ast.Call(func=function):
            made = _looked_up(function, look, name)
            return Bound(kind=made if issubclass(type(made), type) and _makes_its_own(made) else None)
    return Bound(kind=LITERALS.get(type(value)))


def _looked_up(node: ast.expr, look: Look, name: str) -> Any:
    # Return the value of a name or of a chain of attributes; ``UNKNOWN`` for the name that is being bound, and for any
    # other expression.
    match node:
        case ast.Name(id=other):
            return UNKNOWN if other == name else look(other)
        case ast.Attribute(value=owner, attr=attr):
            return attribute(_looked_up(owner, look, name), attr)
    return UNKNOWN


def _makes_its_own(kind: type) -> bool:
    # Does calling a class create an instance of that class?
    is_plain = type(kind.__new__) is BuiltinFunctionType and kind is not type
    return is_plain and type(kind).__call__ is type.__call__


def _has(kind: type, name: str) -> bool:
    return any(name in vars(each) for each in kind.__mro__)
