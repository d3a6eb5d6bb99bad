"""Finds attributes that the program has replaced by another value, for example by ``self.loss = self.loss(x)``.

``rebound_names.py`` does the same for names. An attribute may be set anywhere. Therefore the methods of the object's
classes and the failing function are examined.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
from collections.abc import Iterator
from types import FrameType, FunctionType
from typing import Any

from backprobe.source.bound_values import Bound, BoundUse, Look, bound_by
from backprobe.source.frames import UNKNOWN, attribute, name_in
from backprobe.source.scopes import Binding, How, SourceNames, SourceScope, SourceText
from backprobe.source.user_code import innermost, package


def holds(frame: FrameType, owner: str, attr: str) -> Any:
    """Return an attribute of the object in a variable, if the object itself has the attribute and not only its class;
    otherwise ``UNKNOWN``.
    """
    found = name_in(frame, owner)
    own = UNKNOWN if found is UNKNOWN or issubclass(type(found), type) else attribute(found, attr)
    return UNKNOWN if own is UNKNOWN or _in_class(type(found), attr) is own else own


def defined_and_set(
    frame: FrameType, owner: str, attr: str, beside: list[Binding]
) -> tuple[Binding, Bound, list[Binding]] | None:
    """Return the definition of a callable attribute, the value that it gave, and the assignments that replaced it. None
    unless the definition and the replacement are certain.

    ``beside`` are assignments to the attribute in the failing function.
    """
    found, held = name_in(frame, owner), holds(frame, owner, attr)
    kinds = [kind for kind in type(found).__mro__ if isinstance(vars(kind).get("__module__"), str)]
    classes = [(kind, *read) for kind in kinds if (read := _class_text(kind)) is not None]
    setting = [one for kind, own, node in classes for one in _set_in(node, attr, own)]
    setting += [one for one in beside if not _is_known(one, setting)]
    looks = {id(one): _look(frame, one, type(found)) for one in setting}
    bound = {id(one): bound_by(one, looks[id(one)], attr) for one in setting}
    taking = [one for one in setting if bound[id(one)].may_be(held) and not bound[id(one)].can(BoundUse.CALL)]
    method = _method(kinds, attr)
    if method is not None and taking:
        return method, Bound(kind=FunctionType), taking
    able = [one for one in setting if bound[id(one)].can(BoundUse.CALL)]
    if not able or len(taking) != 1:
        return None
    return able[0], bound[id(able[0])], taking


def set_beside(names: SourceNames, scope: SourceScope, owner: str, attr: str, text: SourceText) -> list[Binding]:
    """Return the assignments to an attribute of this variable, in the scope that holds the variable."""
    holder = scope.holder(owner)
    every = [] if holder is None else _set_on(holder.node, owner, attr, text)
    return [
        one for one in every if one.node.value in names.scopes and names.scopes[one.node.value].holder(owner) is holder
    ]


def _in_class(kind: type, attr: str) -> Any:
    return next((vars(each)[attr] for each in kind.__mro__ if attr in vars(each)), UNKNOWN)


def _method(kinds: list[type], attr: str) -> Binding | None:
    # Return the definition of a method; None if there is no such method, or if its text cannot be read.
    found = next((vars(kind)[attr] for kind in kinds if attr in vars(kind)), None)
    plain = _function(found)
    text = None if plain is None else _text(plain.__code__.co_filename)
    if plain is None or text is None:
        return None
    for node in ast.walk(text.tree):
        first = min([getattr(node, "lineno", 0), *(one.lineno for one in getattr(node, "decorator_list", ()))])
        is_it = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == plain.__name__
        if is_it and first == plain.__code__.co_firstlineno:
            return Binding(How.FUNCTION, node, node, text, SourceScope(text.tree, None))
    return None


def _function(held: Any) -> FunctionType | None:
    # Return the plain function of a method, as stored in a class, without decorators; None for anything else.
    if type(held) in (staticmethod, classmethod):
        held = held.__func__
    return innermost(held) if type(held) is FunctionType else None


def _class_text(kind: type) -> tuple[SourceText, ast.ClassDef] | None:
    # Return the definition of a class of the program, which is found through one of its methods; None if it is not
    # found.
    for held in vars(kind).values():
        plain = _function(held)
        if plain is None or plain.__qualname__ != f"{kind.__qualname__}.{plain.__name__}":
            continue
        file, line = plain.__code__.co_filename, plain.__code__.co_firstlineno
        text = _text(file) if package(file) is None else None
        for node in () if text is None else ast.walk(text.tree):
            is_around = isinstance(node, ast.ClassDef) and node.lineno <= line <= (node.end_lineno or 0)
            if isinstance(node, ast.ClassDef) and is_around and node.name == kind.__name__ and text is not None:
                return text, node
    return None


def _text(file: str) -> SourceText | None:
    lines = tuple(linecache.getlines(file))
    try:
        return SourceText(file, lines, ast.parse("".join(lines))) if lines else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def _set_in(node: ast.ClassDef, attr: str, text: SourceText) -> Iterator[Binding]:
    # Yield the assignments in the methods of a class to an attribute of the object itself.
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [*method.args.posonlyargs, *method.args.args]
            if arguments:
                yield from _set_on(method, arguments[0].arg, attr, text)


def _set_on(tree: ast.AST, owner: str, attr: str, text: SourceText) -> Iterator[Binding]:
    # Yield the assignments in a tree to this attribute of a variable with this name.
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            for part in ast.walk(target):
                match part:
                    case ast.Attribute(value=ast.Name(id=name), attr=found, ctx=ast.Store()):
                        if (name, found) == (owner, attr):
                            value = statement.value if part is target else None
                            value = None if isinstance(statement, ast.AugAssign) else value
                            yield Binding(How.ASSIGNED, part, statement, text, SourceScope(tree, None), value)


def _is_known(one: Binding, others: list[Binding]) -> bool:
    place = (one.text.file, one.node.lineno, one.node.col_offset)
    return any((other.text.file, other.node.lineno, other.node.col_offset) == place for other in others)


def _look(frame: FrameType, one: Binding, kind: type) -> Look:
    # Return a function that looks up names for the code that sets an attribute. The globals are known there, but not
    # the locals.
    arguments = getattr(one.within.node, "args", None)
    hidden = {
        part.id for part in ast.walk(one.within.node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }
    hidden |= set() if arguments is None else {part.arg for part in ast.walk(arguments) if isinstance(part, ast.arg)}
    module = sys.modules.get(kind.__module__)
    home = frame.f_globals if one.text.file == frame.f_code.co_filename or module is None else vars(module)
    return lambda name: UNKNOWN if name in hidden else home.get(name, vars(builtins).get(name, UNKNOWN))
