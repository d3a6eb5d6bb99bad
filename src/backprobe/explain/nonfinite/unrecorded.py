"""Finds unrecorded inputs of a line through which NaN or Inf may come in: buffers, globals and attributes.

Buffers have no entries, because nothing is differentiated with respect to them. Buffers that held NaN or Inf before the
model ran are recorded separately. Nothing is known about other names without an entry.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

from backprobe.cuts.operation_names import MODULES
from backprobe.cuts.parsed import parsed_expression
from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.sources import NONFINITE
from backprobe.explain.nonfinite.states import RECORDED, Badness, of_count
from backprobe.explain.nonfinite.text import say
from backprobe.record.names import split, strip
from backprobe.record.nonfinite import BEFORE


def unrecorded(known: Evidence, at: int) -> list[str]:
    """The values and modules that an expression mentions but that have no entry, as spelled in it."""
    # the last segments of the sources' names, such as "w" for the parameter self.w
    paths = {split(name)[0].split(".")[-1] for name in known.names(known.direct[at])}
    values = [
        name
        for name in known.sources.unknown[at]
        if not ("." in name and (name.split(".")[-1] in paths or name.split(".")[0] in MODULES))
        and f"{name}()" not in known.parts[at]
        and NONFINITE.fullmatch(name.split(".")[-1]) is None
    ]
    return [*values, *_modules(known, at)]


def brought(known: Evidence, at: int, names: Sequence[str], state: Badness) -> list[str]:
    """Return the buffers that held NaN or Inf, in at least this state, before the model ran.

    These are buffers that the line reads as attributes of ``self``; for an entry without a line, those of the module
    that returned it.
    """
    entry, buffers = known.entries[at], known.record.buffers
    if entry.source is not None:
        spelled = [_member(known, at, name) for name in names if "." in name]  # attributes of self
    else:
        module = split(strip(entry.name))[0]
        spelled = [name for name in buffers if name.rpartition(".")[0] == module]
    return [name for name in spelled if name in buffers and of_count(buffers[name]) >= state]


def held(known: Evidence, at: int, names: Sequence[str], state: Badness) -> list[str]:
    """Return those parameters and buffers of modules called on the line that hold NaN or Inf, in at least this state.

    Only lines before the first ``backward()`` are considered, because the program may have written to parameters later.
    """
    if at > min(known.record.outputs, default=-1):
        return []
    before = [one for one in known.record.updates if one.gradient == BEFORE and RECORDED[one.made] >= state]
    parameters = [name for one in before for name in one.parameters]
    return [one for one in parameters if any(one.startswith(f"{name}.") for name in names)]


def named_first(known: Evidence, at: int, names: Sequence[str]) -> str:
    """Return what to type so that the result of an unrecorded call in an expression is recorded; empty if unknown."""
    for one in known.term(at):
        call = parsed_expression(one.text) if one.is_unknown else None
        if isinstance(call, ast.Call) and (called := ast.unparse(call.func)) in names:
            return say("name_first", name=f"{called.replace('.', '_')}_result", call=one.text)
    return ""


def _modules(known: Evidence, at: int) -> list[str]:
    # Return the names of objects that the line calls and that may hold unrecorded parameters, if the line called an
    # object of a library's class.
    source, parts = known.entries[at].source, known.parts[at]
    if source is None or not any(call.split(".")[-1][:1].isupper() for call in source.calls):
        return []
    tree = parsed_expression(source.expression)
    every = [node for node in (ast.walk(tree) if tree is not None else ()) if isinstance(node, ast.Call)]
    calls = [node.func for node in every if node is tree or ast.unparse(node) not in parts]
    names = [ast.unparse(one) for one in calls if isinstance(one, ast.Name | ast.Attribute)]
    return [
        name
        for name in dict.fromkeys(names)
        if (name.isidentifier() and name not in vars(builtins) and f"{name}()" not in parts)
        or (name.startswith("self.") and not _is_recorded(known, _member(known, at, name)))
    ]


def _is_recorded(known: Evidence, path: str) -> bool:
    return any(name == path or name.startswith(f"{path}.") for name in known.record.names)


def _member(known: Evidence, at: int, name: str) -> str:
    # The full path of ``self.scale``, in the code of the module to which the entry's line belongs.
    module = strip(known.graph.scopes[at]).partition("/")[0]
    return f"{module}." * bool(module) + name.partition(".")[2]
