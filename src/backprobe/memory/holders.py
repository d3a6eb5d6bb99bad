"""Finds the variable that leads to an object, and the attributes, items and closures between them."""

from __future__ import annotations

import gc
import re
import sys
from collections import deque
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CellType, FrameType, FunctionType, ModuleType
from typing import Any

from backprobe.backends.pure_calls import contents
from backprobe.backends.user_lines import callers
from backprobe.source.user_code import package

AS_ITEM = re.compile(r"^\['(\w+)'\]")
OF_MODULE = re.compile(r"\._modules\['(\w+)'\]")
MOST = 2_000_000  # the most objects that are examined


@dataclass(frozen=True)
class Holder:
    """A variable, and the path from it to an object that it keeps alive: ``model.history[…]``,
    ``errors[…].__traceback__``.

    ``name`` is the last name in the path. The line that stores the object mentions this name. ``file`` is the file of
    the variable, and ``lines`` are the lines of the variable's function.
    """

    path: str
    name: str
    kind: str
    file: str
    lines: range = range(0)


class Holders:
    """The present variables of a program: those of its running functions, and those of its own modules."""

    def __init__(self, frame: FrameType | None) -> None:
        self.variables: dict[int, tuple[Any, Holder]] = {}
        self.left_out = {id(vars(module)) for module in [*sys.modules.values()] if isinstance(module, ModuleType)}
        for one in callers(frame):
            code = one.f_code
            if package(code.co_filename) is not None:
                continue
            if code.co_name != "<module>":
                last = max((line for *_, line in code.co_lines() if line is not None), default=code.co_firstlineno)
                lines, kind = range(code.co_firstlineno, last + 1), f"a variable of {code.co_name}()"
                self._add(one.f_locals, kind, code.co_filename, lines)
            # the variables of no imported module, for example of code run by ``exec``
            if id(one.f_globals) not in self.left_out:
                self._add(one.f_globals, "a global variable", code.co_filename)
        for module in [*sys.modules.values()]:
            file = getattr(module, "__file__", None)
            if file and isinstance(module, ModuleType) and package(file) is None:
                self._add(vars(module), "a global variable", file)

    def _add(self, variables: Mapping[str, Any], kind: str, file: str, lines: range = range(0)) -> None:
        for name, value in [*variables.items()]:
            if not name.startswith("__"):
                self.variables.setdefault(id(value), (value, Holder(name, name, kind, file, lines)))

    def of(self, held: Sequence[Any]) -> list[Holder | None]:
        """The nearest variable that leads to each of these objects; None for an object to which no variable leads."""
        sought = {id(one) for one in held}
        left = deque(value for value, _ in self.variables.values())
        owners: dict[int, Any] = dict.fromkeys(self.variables)
        while left and sought and len(owners) < MOST:
            one = left.popleft()
            if id(one) in sought:
                sought.discard(id(one))
            elif not isinstance(one, ModuleType) and id(one) not in self.left_out:
                for below in gc.get_referents(one):
                    if id(below) not in owners and gc.is_tracked(below) and not _is_of_library(below):
                        owners[id(below)] = one
                        left.append(below)
        return [self._way(one, owners) if id(one) in owners else None for one in held]

    def _way(self, held: Any, owners: Mapping[int, Any]) -> Holder:
        # The path from a variable to an object, followed from the object upwards.
        path, name, one, seen = "", "", held, {id(held)}
        while (owner := owners[id(one)]) is not None:
            seen.add(id(owner))
            # an item of an object's ``__dict__`` is an attribute of the object
            if getattr(owner, "__dict__", None) is one:
                key = AS_ITEM.match(path)
                name = name or (key[1] if key else "")
                path = AS_ITEM.sub(r".\1", path, count=1)
            else:
                step, step_name = _step(owner, one, seen)
                path, name = step + path, name or step_name
            one = owner
        variable = self.variables[id(one)][1]
        return replace(variable, path=variable.path + OF_MODULE.sub(r".\1", path), name=name or variable.name)


def _is_of_library(one: Any) -> bool:
    # Is the object a class that a library defines?
    if not isinstance(one, type):
        return False
    file = getattr(sys.modules.get(one.__module__), "__file__", None)
    return not file or package(file) is not None


def _step(owner: Any, held: Any, seen: Container[int]) -> tuple[str, str]:
    # The step of a path from an object to another one that it refers to, and the name in this step.
    if isinstance(owner, Mapping):
        keys = [key for key, value in [*owner.items()] if value is held]
        return f"[{keys[0]!r}]" if keys and isinstance(keys[0], str) else "[…]", ""
    if isinstance(owner, FunctionType):
        cells = zip(owner.__code__.co_freevars, owner.__closure__ or (), strict=False)
        names = [name for name, cell in cells if id(contents(cell)) in seen]
        return (f"'s {names[0]}", names[0]) if names else ("", "")
    if isinstance(owner, FrameType):
        names = [name for name, value in owner.f_locals.items() if value is held]
        return f" → {names[0] if names else '…'} of {owner.f_code.co_name}()", ""
    if isinstance(owner, list | tuple | set | frozenset | deque):
        return ("", "") if isinstance(held, CellType) else ("[…]", "")
    if isinstance(owner, BaseException):
        return ".__traceback__", ""
    try:
        names = [name for name, value in vars(owner).items() if value is held]
    except TypeError:
        return "", ""
    return (f".{names[0]}", names[0]) if names else ("", "")
