"""The variable that leads to an object, and the attributes, items and closures between."""

from __future__ import annotations

import gc
import re
import sys
from collections import deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from types import CellType, FrameType, FunctionType, GeneratorType, ModuleType, TracebackType
from typing import Any

from backprobe.backends.pure_calls import contents
from backprobe.source.user_code import package

AS_ITEM = re.compile(r"^\['(\w+)'\]")
OF_MODULE = re.compile(r"\._modules\['(\w+)'\]")
NOWHERE = range(0)
FURTHEST = 12  # objects between a variable and what it holds
MOST = 4000  # objects that are looked at for one


@dataclass(frozen=True)
class Holder:
    """A variable, and the way from it to what it holds: ``model.history[…]``, ``errors[…].__traceback__``.

    ``name`` is the last part that has a name, which the line that fills it mentions. ``file`` is that of the variable.
    """

    path: str
    name: str
    kind: str
    file: str
    lines: range = NOWHERE
    """Those of the function, of a variable of one."""


@dataclass(frozen=True)
class _Root:
    name: str
    kind: str
    file: str
    lines: range = NOWHERE


class Holders:
    """The variables of a program as they are now: of functions that run, and of modules."""

    def __init__(self, frame: FrameType | None) -> None:
        self.roots: dict[int, _Root] = {}
        self.values: list[Any] = []
        self.ignored = {id(self), id(self.__dict__), id(self.roots), id(self.values)}
        self._add_frames(frame)
        self._add_modules()

    def _add_frames(self, frame: FrameType | None) -> None:
        for one in _callers(frame):
            if package(one.f_code.co_filename) is not None or one.f_code.co_name == "<module>":
                continue
            code, kind = one.f_code, f"a variable of {one.f_code.co_name}()"
            last = max((line for *_, line in code.co_lines() if line is not None), default=code.co_firstlineno)
            for name, value in one.f_locals.items():
                root = _Root(name, kind, code.co_filename, range(code.co_firstlineno, last + 1))
                self._add(value, root)

    def _add_modules(self) -> None:
        for module in [*sys.modules.values()]:
            file = getattr(module, "__file__", None) or ""
            if not isinstance(module, ModuleType) or (package(file) is not None and module.__name__ != "__main__"):
                continue
            for name, value in [*vars(module).items()]:
                if not name.startswith("__"):
                    self._add(value, _Root(name, "a global variable", file))

    def _add(self, value: Any, root: _Root) -> None:
        if id(value) not in self.roots:
            self.roots[id(value)] = root
            self.values.append(value)

    def of(self, held: Any) -> Holder | None:
        """The nearest variable that leads to an object; None where none does."""
        left: deque[tuple[Any, str, str, int]] = deque([(held, "", "", 0)])
        seen = {id(held), id(left)}
        while left and len(seen) < MOST:
            one, path, name, deep = left.popleft()
            root = self.roots.get(id(one))
            if root is not None:
                return _holder(root, path, name)
            if deep == FURTHEST:
                continue
            around = gc.get_referrers(one)
            seen.add(id(around))
            for owner in around:
                if id(owner) in seen or id(owner) in self.ignored or self._is_ours(owner):
                    continue
                seen.add(id(owner))
                if getattr(owner, "__dict__", None) is one:  # what a dictionary has under a key is an attribute
                    left.append((owner, AS_ITEM.sub(r".\1", path, count=1), name, deep + 1))
                    continue
                step, step_name = _step(owner, one, seen)
                left.append((owner, step + path, name or step_name, deep + 1))
            del around
        return self._below(held) if gc.get_freeze_count() else None

    def _below(self, held: Any) -> Holder | None:
        # The same from the variables down: of objects that ``gc.freeze()`` was told of, no owner is known.
        left = deque((value, 0) for value in self.values)
        owners: dict[int, Any] = {id(value): None for value in self.values}
        while left and len(owners) < MOST * 10:
            one, deep = left.popleft()
            if one is held:
                return self._from_above(held, owners)
            if deep < FURTHEST and not isinstance(one, ModuleType | type):
                for below in gc.get_referents(one):
                    if id(below) not in owners:
                        owners[id(below)] = one
                        left.append((below, deep + 1))
        return None

    def _from_above(self, held: Any, owners: Mapping[int, Any]) -> Holder | None:
        # The way from a variable down, read from its end.
        path, name, one, seen = "", "", held, {id(held)}
        while id(one) not in self.roots:
            owner = owners[id(one)]
            if owner is None:
                return None
            seen.add(id(owner))
            if getattr(owner, "__dict__", None) is one:
                path = AS_ITEM.sub(r".\1", path, count=1)
            else:
                step, step_name = _step(owner, one, seen)
                path, name = step + path, name or step_name
            one = owner
        return _holder(self.roots[id(one)], path, name)

    def _is_ours(self, owner: Any) -> bool:
        is_frame = isinstance(owner, FrameType)
        return (is_frame and package(owner.f_code.co_filename) == "backprobe") or isinstance(owner, ModuleType)


def _holder(root: _Root, path: str, name: str) -> Holder:
    path = OF_MODULE.sub(r".\1", path)
    return Holder(root.name + path, name or root.name, root.kind, root.file, root.lines)


def _callers(frame: FrameType | None) -> Iterable[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _step(owner: Any, held: Any, seen: Container[int]) -> tuple[str, str]:
    # How an object leads to one that it refers to, and the name in that.
    if isinstance(owner, Mapping):
        keys = [key for key, value in [*owner.items()] if value is held]
        return (f"[{keys[0]!r}]", keys[0]) if keys and isinstance(keys[0], str) else ("[…]", "")
    if isinstance(held, CellType) and isinstance(owner, tuple):
        return "", ""
    if isinstance(owner, list | tuple | set | frozenset | deque):
        return "[…]", ""
    if isinstance(owner, CellType):
        return "", ""
    if isinstance(owner, FunctionType):
        names = [name for name, cell in zip(owner.__code__.co_freevars, owner.__closure__ or (), strict=False)
                 if id(contents(cell)) in seen]  # fmt: skip
        return (f"'s {names[0]}", names[0]) if names else ("", "")
    if isinstance(owner, FrameType):
        names = [name for name, value in owner.f_locals.items() if value is held]
        return f" → {names[0] if names else '…'} of {owner.f_code.co_name}()", ""
    if isinstance(owner, TracebackType):
        return "", ""
    if isinstance(owner, BaseException):
        return ".__traceback__", ""
    if isinstance(owner, GeneratorType):
        return " (a generator)", ""
    names = [name for name, value in _attributes(owner) if value is held]
    return (f".{names[0]}", names[0]) if names else ("", "")


def _attributes(owner: Any) -> list[tuple[str, Any]]:
    try:
        return [*vars(owner).items()]
    except TypeError:
        return []
