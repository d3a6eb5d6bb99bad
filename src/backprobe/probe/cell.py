"""The cell form: a notebook cell runs at module level, rewritten or under a block; its values are not altered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import CodeType
from typing import Any

from backprobe.backends.discover import BACKENDS, find_backend, load_backend
from backprobe.backends.facts import Options
from backprobe.backends.refusals import refuse
from backprobe.errors import NoBackend
from backprobe.probe.cell_block import record_cell
from backprobe.probe.cell_output import OfCell
from backprobe.probe.cell_scope import CellScope, tensors_read
from backprobe.probe.request import Request
from backprobe.probe.run import TargetRun
from backprobe.record.patterns import selection
from backprobe.recording import Recording
from backprobe.source.cell import Cell, refusing_depth
from backprobe.source.derivative_calls import derivative_calls


def probe_cell(
    cell: Cell,
    select: Sequence[str] | None = None,
    *,
    of: str | None = None,
    cotangent: CodeType | None = None,
    values: str = "alias",
    partials: bool | str = True,
    backend: str | None = None,
) -> Recording:
    """Run a notebook cell once, as the magic ``%%probe`` does, and backward once if the cell takes no gradient itself.

    Entries are the variables that the cell assigns, and the tensors that it reads from the notebook. ``of`` is the name
    of the variable to differentiate. By default this is the last expression if its value is a floating tensor, or else
    the variable that was last assigned a tensor that requires a gradient. ``cotangent`` is the code of an expression,
    which is evaluated when the cell has run.
    """
    options = Options(values=values, partials=partials, retain_graph=True)  # the graph is kept for later cells
    ready = Request(cell, select, of=of, cotangent=cotangent, options=options, backend=backend)
    mentioned = [name for name in cell.names.imported if name in BACKENDS]
    try:
        found = find_backend(backend, map(cell.value, cell.names.read))
    except NoBackend as error:
        if backend is not None:
            raise
        if len(mentioned) != 1:
            raise NoBackend(
                "cannot infer the framework from the cell",
                asked="%%probe",
                found=error.found,
                next=f"import {next(iter(BACKENDS))} in the cell or before it, or --backend {next(iter(BACKENDS))}",
            ) from None
        found = load_backend(mentioned[0])
    if found.blocks is None:
        refuse(found, "cells", "%%probe", derivative_calls([cell.tree], found.name, found.derivatives))
    is_block = found.blocks.differentiates_at_end or cell.mentions(found.blocks.takes_gradients)
    if is_block and not selection(ready.chosen, True).asks_operations:
        return record_cell(ready, found)
    found.refuse(cell, "%%probe")
    return CellRun(ready, found).record((), {})


class CellRun(OfCell, TargetRun):
    """Runs a rewritten notebook cell once."""

    def inner_names(self) -> tuple[str, ...]:
        """Return nothing, because the output of a cell is one of its variables, and never a value inside a function."""
        return ()

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        with refusing_depth(self.cell.file):
            scope = self.trace.use_root(partial(CellScope, self.cell, tensors_read(self.cell, self.tape)))
            certain = self.cell.read_first
            run, sites = self.cell.reporting(scope.unread.keys() - set(certain), operations=self.trace.operations)
        self.bound = scope.bound
        self.trace.open_root(self.cell.file, sites)
        try:
            scope.reads(*certain)
            run(scope)
            self.has_run = True
            return scope.result
        finally:
            scope.exit()

    def returned(self, result: Any) -> Any:
        """Return the value of the last expression unchanged, because it already has a name."""
        return result
