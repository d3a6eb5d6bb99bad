"""Temporarily imports the modules of a program again, with other code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from backprobe.source.user_code import package

Code = Callable[[str], CodeType]
"""A function that returns the code of a file."""


@contextmanager
def imported_anew(kept: Collection[str], code: Code, names: Mapping[str, Any]) -> Iterator[None]:
    """Inside this context the program's own modules are imported again, with this code and these additional names.

    Modules in ``kept`` existed before the program, and are not imported again. Afterwards all modules are restored.
    """
    own = _own(kept)
    for name in own:
        del sys.modules[name]
    finder = _Finder(code, names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in _own(kept):
            del sys.modules[name]
        sys.modules.update(own)


def _own(kept: Collection[str]) -> dict[str, ModuleType]:
    return {
        name: module
        for name, module in [*sys.modules.items()]
        if name not in kept and name != "__main__" and _is_own(module)
    }


def _is_own(module: Any) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and package(file) is None


class _Finder(MetaPathFinder):
    # Finds the program's modules where Python would find them, but loads them with other code.
    def __init__(self, code: Code, names: Mapping[str, Any]) -> None:
        self.code, self.names = code, names

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not SourceFileLoader or package(str(spec.origin)) is not None:
            return None
        spec.loader = _Loader(name, str(spec.origin), self)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, file: str, finder: _Finder) -> None:
        super().__init__(name, file)
        self.finder = finder

    def get_code(self, fullname: str) -> CodeType:
        return self.finder.code(self.path)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self.finder.names)
        super().exec_module(module)
