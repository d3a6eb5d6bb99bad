"""A progress bar on standard error, in a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(doing: str, total: int) -> Iterator[Callable[[str], None]]:
    """While this context is open a bar is shown; what it gives is called with what comes next, once for each part.

    The bar is gone when the context ends. In a pipe or a notebook there is none.
    """
    if not total or sys.stderr is None or not sys.stderr.isatty():
        yield lambda what: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    counted = TextColumn("{task.completed}/{task.total} {task.fields[at]}", markup=False)
    columns = TextColumn("{task.description}", markup=False), BarColumn(), counted
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=total, at="")
        begun = iter(range(total))

        def advance(what: str) -> None:
            bar.update(task, completed=next(begun, total), at=what)

        yield advance
