"""Pickles the work. If a part of it cannot be pickled, the error names it and the line that creates it."""

from __future__ import annotations

import ast
import inspect
import io
import linecache
import textwrap
import types
from collections import ChainMap
from collections.abc import Callable, Iterator
from typing import Any

from backprobe.backends.discover import imported_backends
from backprobe.errors import BadOption, installed
from backprobe.record.brief import kind

DEEPEST = 12


def pickled(work: Any, parts: dict[str, Any], asked: str) -> bytes:
    """The work as bytes. ``parts`` are its parts by name, for messages. Raises BadOption and NotInstalled."""
    cloudpickle = installed("cloudpickle", asked="executor=")
    try:
        return dumped(cloudpickle, work)
    except Exception as error:
        path, culprit, line = _culprit(cloudpickle, parts)
        raise BadOption(
            f"{path} cannot be sent to another process",
            asked=asked,
            found=kind(culprit) + (f", made at {line}" if line else ""),
            why=f"{type(error).__name__}: {error}",
            next=f"{path} made where it is used" + (f", in place of {line}" if line else "") + "; or without executor=",
        ) from error


def dumped(cloudpickle: Any, work: Any) -> bytes:
    """Pickle an object. Functions keep their file name and source text, which names need and cloudpickle drops."""
    known = cloudpickle.Pickler.dispatch_table[types.CodeType]

    def reduced(code: types.CodeType) -> tuple[Any, ...]:
        return _with_text, (*known(code)[:2], code.co_filename, linecache.getlines(code.co_filename))

    ways = [backend.reduced for backend in imported_backends() if backend.reduced is not None]

    def override(self: Any, value: Any) -> Any:
        own = next((found for way in ways if (found := way(value)) is not None), None)
        return cloudpickle.Pickler.reducer_override(self, value) if own is None else own

    table = ChainMap({types.CodeType: reduced}, cloudpickle.Pickler.dispatch_table)
    pickler = type("Pickler", (cloudpickle.Pickler,), {"dispatch_table": table, "reducer_override": override})
    file = io.BytesIO()
    pickler(file).dump(work)
    return file.getvalue()


def _with_text(make: Callable[..., types.CodeType], args: Any, file: str, lines: list[str]) -> types.CodeType:
    # Restore a code object with its original file name. The source text is kept too, because another machine may not
    # have the file.
    if lines and not linecache.getlines(file):
        linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    return make(*args).replace(co_filename=file)


def _culprit(cloudpickle: Any, parts: dict[str, Any]) -> tuple[str, Any, str]:
    # Return the innermost part found that cannot be pickled: its path, the object, and the line that assigns it or else
    # a part around it; empty if there is no such line. If each part can be pickled alone, the object is None.
    found: tuple[str, Any, str] = (" and ".join(parts), None, "")
    queue, line = list(parts.items()), ""
    for _ in range(DEEPEST):
        inner = next(((path, one) for path, one in queue if not _can(cloudpickle, one)), None)
        if inner is None:
            break
        path, one = inner
        owner = found[1]
        line = _line(owner, path.rpartition(".")[2]) or line
        found = path, one, line
        queue = [(_joined(path, name), each) for name, each in _inside(one)]
    return found


def _can(cloudpickle: Any, one: Any) -> bool:
    try:
        cloudpickle.Pickler(io.BytesIO()).dump(one)
    except Exception:  # noqa: BLE001  # whatever a value's own method raises
        return False
    return True


def _joined(path: str, name: str) -> str:
    return path + name if name.startswith("[") else f"{path}.{name}"


def _inside(one: Any) -> Iterator[tuple[str, Any]]:
    # Yield the parts of a value, each with its spelling.
    if isinstance(one, types.FunctionType):
        inner = inspect.getclosurevars(one)
        yield from {**inner.nonlocals, **inner.globals}.items()
    elif isinstance(one, types.MethodType):
        yield "__self__", one.__self__
    elif isinstance(one, dict):
        for key, each in one.items():
            yield f"[{key!r}]", each
    elif isinstance(one, list | tuple):
        for at, each in enumerate(one):
            yield f"[{at}]", each
    else:
        held = getattr(one, "__dict__", {})
        for name, each in held.items():
            if name in ("_modules", "_parameters", "_buffers") and isinstance(each, dict):
                yield from each.items()
            else:
                yield name, each


def _line(owner: Any, name: str) -> str:
    # The line that assigns this attribute or variable, as ``file:line: text``.
    if owner is None:
        return ""
    kinds: list[Any] = [owner, inspect.getmodule(owner)] if inspect.isfunction(owner) else [*type(owner).__mro__]
    for one in kinds:
        try:
            lines, first = inspect.getsourcelines(one)
            tree = ast.parse(textwrap.dedent("".join(lines)))
            file = inspect.getsourcefile(one)
        except (OSError, TypeError, SyntaxError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Assign):
                continue
            if any(getattr(to, "attr", getattr(to, "id", None)) == name for to in node.targets):
                return f"{file}:{first + node.lineno - 1}: {ast.unparse(node)}"
    return ""
