"""Finds values that a program loads into a module. Loading copies their numbers, which a recording does not show.

The statement binds no name, so it is read from the source file, which must be the version that ran.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterable, Iterator, Sequence

from backprobe.backends.dialects import dialect_of
from backprobe.cuts.in_line import calls_in
from backprobe.cuts.missing_edges import Dataflow
from backprobe.explain.about_entries import about, as_one, own_name
from backprobe.findings.report import Finding, grouped
from backprobe.record.source import Source

MOST = 100  # fewer than this many lines below the value are searched


def loaded(flow: Dataflow, at: int) -> Iterator[Finding]:
    """Yield a finding if a line below the value loads it into a module, and no recorded value is computed from it."""
    entry = flow.entries[at]
    loading = dialect_of(flow.record.framework).loading
    if not loading or entry.source is None or flow.consumers[at]:
        return
    root = re.split(r"[.\[]", own_name(entry.name))[0]
    found = _loading(entry.source, root, loading)
    if found is not None:
        yield about(flow, "loaded", entry, found, plain=root, text=f"`{found.text}`")


def loaded_steps(flow: Dataflow, lost: Iterable[int]) -> list[Finding]:
    """Return findings at lines that load differentiated tensors into a module, one for each line.

    Only tensors with gradients taken with ``create_graph=True`` among their sources count: to load others, such as a
    moving average, is no problem.
    """
    found = [
        one for at in sorted(lost) if flow.has_history(at) and _is_of_gradients(flow, at) for one in loaded(flow, at)
    ]
    return [as_one(group) for group in grouped(found, lambda one: one.source)]


def _is_of_gradients(flow: Dataflow, at: int) -> bool:
    sources = [flow.entries[each].source for each in flow.before([at])]
    return any(source is not None and "create_graph=True" in source.statement for source in sources)


def _loading(line: Source, name: str, loading: Sequence[str]) -> Source | None:
    known = (below for below in lines_below(line) if any(word in below.text for word in loading))
    return next((below for below in known if _loads(below.text, name, loading)), None)


def lines_below(line: Source) -> Iterator[Source]:
    """Yield fewer than ``MOST`` lines below a given one, up to the next function or class outside of its block.

    Yields none if that line of the file no longer has its text.
    """
    if linecache.getline(line.file, line.line).strip() != line.text.strip():
        return
    indent = _indent(linecache.getline(line.file, line.line))
    for number in range(line.line + 1, line.line + MOST):
        text = linecache.getline(line.file, number)
        if text.lstrip().startswith(("def ", "class ", "async def ")) and _indent(text) < indent:
            return
        yield Source(line.file, number, text.strip())


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _loads(text: str, name: str, loading: Sequence[str]) -> bool:
    # Does the statement pass this name itself, as the first argument, to a function that loads?
    given = [call.args[:1] for call in calls_in(text) if ast.unparse(call.func).rpartition(".")[2] in loading]
    return any(isinstance(one, ast.Name) and one.id == name for args in given for one in args)
