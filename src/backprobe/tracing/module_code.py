"""Finds causes of missing gradients in the source of a model's forwards, whose local variables were not recorded."""

from __future__ import annotations

import dis
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import CodeType
from typing import Any

from backprobe.backends.call_sites import Instruction
from backprobe.backends.cuts_beside import around_call, in_forward
from backprobe.backends.result_uses import call_under_mode, uses_of_parameter, uses_of_result
from backprobe.backends.user_lines import source_at
from backprobe.record.brief import path
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.names import quote_path, split, strip
from backprobe.record.reasons import Note, Reason
from backprobe.record.training import HOOK, ModuleCall, UsedAt
from backprobe.source.user_code import package

RETURNED = re.compile(r"return#(\d+)")
KEEPING = frozenset({"append", "extend", "update", "add", "__setitem__", "print"})
"""Functions that keep or show a value and return None. A lambda that mentions one of them counts as returning None."""
NOTHING = ("LOAD_CONST", None)
LACKING = (GradStatus.NOT_CONNECTED, GradStatus.NO_GRAD)


@dataclass(frozen=True)
class ModuleCode:
    """The code of a model: the classes of modules that have parameters, and the hooks on forwards, both by path.

    All calls of modules are also stored, as a flat list. Each call has three items: the module's path, the caller's
    code, and the position of the instruction.
    """

    called: list[Any] = field(default_factory=list)
    kinds: dict[str, type] = field(default_factory=dict)
    hooks: dict[str, list[CodeType]] = field(default_factory=dict)

    @property
    def calls(self) -> dict[str, list[Instruction]]:
        """Return the instructions that called each module, in order. The keys are the modules' paths."""
        found: dict[str, list[Instruction]] = {}
        for module, code, at in zip(self.called[::3], self.called[1::3], self.called[2::3], strict=True):
            found.setdefault(module, []).append((code, at))
        return found


NO_CODE = ModuleCode()


def with_uses(record: Record, code: ModuleCode) -> Record:
    """Return the record, in which values without a gradient get the statements that use them. This applies to values
    without a line of their own, from which no recorded value was computed.

    The record also gets notes on lines that take a parameter out of the graph although its gradient is there. Entries
    of modules that were used without being called are marked as used directly.
    """
    record = _used_directly(record)
    flowing = {edge.at for entry in record.entries for edge in entry.inputs} if code.called else set()
    lacking = {
        full: at
        for full, at in record.names.items()
        if code.called
        and at not in flowing
        and record.entries[at].status in LACKING
        and record.entries[at].source is None
    }
    hooked = _hooked(record, code) if code.hooks else ()
    record = replace(record, notes=(*record.notes, *_beside(record, code))) if code.called else record
    if not lacking and not hooked:
        return record
    reader = _Reader(record, code)
    found: dict[int, Sequence[ModuleCall]] = {}
    for full, at in lacking.items():
        found[at] = found.get(at, ()) or reader.uses(full, record.entries[at])
    used = tuple([UsedAt(at, tuple(uses)) for at, uses in found.items() if uses])
    # a call that ran while gradients were switched off gets its line
    off = {one.at: one.uses[0].source for one in used if record.entries[one.at].status is GradStatus.NO_GRAD}
    record = record.with_entries({at: replace(record.entries[at], cause=line) for at, line in off.items()})
    return replace(record, used_at=(*used, *hooked))


def _used_directly(record: Record) -> Record:
    # Return the record, in which modules that were used without being called are marked as used directly. A module was
    # used if a gradient arrived at one of its own parameters, unless another module that holds the parameter was
    # called. The modules around it that were not called are marked, too.
    idle = {
        strip(split(full)[0]): at
        for full, at in record.names.items()
        if record.entries[at].is_because("module_not_run")
    }
    owners: dict[int, list[str]] = {}
    for full, at in record.names.items() if idle else ():
        if split(full)[1] is None and record.entries[at].status is GradStatus.OK:
            owners.setdefault(at, []).append(full.rpartition(".")[0])
    entries: dict[int, Entry] = {}
    for owner in {one for each in owners.values() if idle.keys() >= {*each} for one in each}:
        while owner in idle:
            at = idle[owner]
            entries[at] = replace(record.entries[at], status=GradStatus.OPAQUE, why=Reason("used_directly"))
            owner = owner.rpartition(".")[0]
    return record.with_entries(entries)


def _beside(record: Record, code: ModuleCode) -> Iterator[Note]:
    # Yield notes on lines in which a parameter is taken out of the graph, although its gradient is complete from other
    # uses.
    found = [
        one
        for at in dict.fromkeys(code.calls.get("", ()))
        for one in around_call(*at)
        if package(one.source.file) is None
    ]
    kinds = {quote_path(own): kind for own, kind in code.kinds.items()}
    for full, at in record.names.items():
        local, (module, _, name) = split(full)[1], full.rpartition(".")
        forward = getattr(getattr(kinds.get(module), "forward", None), "__code__", None)
        is_there = local is None and record.entries[at].status is GradStatus.OK
        if is_there and isinstance(forward, CodeType) and package(forward.co_filename) is None:
            found += in_forward(forward, name)
    for one in dict.fromkeys(found):
        kind = "detached_beside" if one.use.kind == "detach" else "cut_beside"
        place = path(one.source.file, one.source.line)
        yield Note(kind, {"text": f"`{one.use.text}`", "at": place, "value": f"`{one.value}`"})


def _hooked(record: Record, code: ModuleCode) -> tuple[UsedAt, ...]:
    # Return the program's own hooks on modules whose results have a name, if the hooks may return something. Nothing is
    # returned unless a gradient is missing.
    if all(entry.status is GradStatus.OK for entry in record.entries):
        return ()
    own = {
        quote_path(module): [one for one in codes if package(one.co_filename) is None and _returns(one)]
        for module, codes in code.hooks.items()
    }
    found = {}
    for full, at in record.names.items():
        scope, local = split(full)
        if local is not None and RETURNED.match(local) and (codes := own.get(strip(scope))):
            lines = [source_at(one.co_filename, one.co_firstlineno) for one in codes]
            found[at] = UsedAt(at, tuple([ModuleCall(line, strip(scope), HOOK) for line in lines]))
    return tuple(found.values())


def _returns(code: CodeType) -> bool:
    # May the function return something other than None?
    if code.co_name == "<lambda>" and KEEPING.intersection(code.co_names):
        return False
    steps = pairwise(dis.get_instructions(code))
    return any(one.opname == "RETURN_VALUE" and (last.opname, last.argval) != NOTHING for last, one in steps)


class _Reader:
    # Reads the source of the modules in one record, and the lines that call them.
    def __init__(self, record: Record, code: ModuleCode) -> None:
        self.calls = {quote_path(path): calls for path, calls in code.calls.items()}
        self.kinds = {quote_path(path): kind for path, kind in code.kinds.items()}
        self.counted: dict[str, int] = {}  # by path: how often the module returned
        for full in record.names:
            path, number = _call(full)
            self.counted[path] = max(self.counted.get(path, 0), number + 1)

    def uses(self, full: str, entry: Entry) -> Sequence[ModuleCall]:
        scope, local = split(full)
        if local is None:
            module, _, name = full.rpartition(".")
            return self._of_parameter(module, name)
        return self._of_result(*_call(full), entry) if RETURNED.match(local) and "/" not in scope else ()

    def _of_parameter(self, module: str, name: str) -> Sequence[ModuleCall]:
        forward = getattr(self.kinds.get(module), "forward", None)
        code = getattr(forward, "__code__", None)
        if not isinstance(code, CodeType) or package(code.co_filename) is not None:
            return ()
        return uses_of_parameter(code, name)

    def _of_result(self, module: str, number: int, entry: Entry) -> Sequence[ModuleCall]:
        calls = self.calls.get(module, [])
        if not calls or (len(calls) != self.counted[module] and len({*calls}) > 1):
            return ()  # for example a checkpoint has repeated some calls
        instruction = calls[min(number, len(calls) - 1)]
        if package(instruction[0].co_filename) is not None:
            return ()
        if entry.status is GradStatus.NOT_CONNECTED:
            return uses_of_result(instruction)
        return call_under_mode(instruction, "" if entry.why is None else entry.why.fields.get("mode", ""))


def _call(full: str) -> tuple[str, int]:
    # Return the path of the module in a full name, and the number of the module's call.
    scope, local = split(full)
    found = re.search(r"#(\d+)$", scope) if scope else RETURNED.match(local or "")
    return strip(scope), int(found[1]) if found else 0
