"""A progress bar on standard error, which is only shown in terminals."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

NO_CODES = ("dumb", "unknown")  # the TERM of terminals that show control codes as text
LINE_ABOVE = "\x1b[A\x1b[2K"  # moves to the line above, and clears it


@contextmanager
def progress(doing: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a progress bar while this context is open. Call its value with the name of the next part, before each part.

    The bar disappears when the context ends. It is not shown in a pipe or a notebook.
    """
    if not total or sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") in NO_CODES:
        yield lambda what: None
        return
    from click import progressbar

    begun = iter(range(total))
    bar = progressbar(
        length=total,
        label=doing,
        show_pos=True,
        show_percent=False,
        show_eta=False,
        file=sys.stderr,
        item_show_func=lambda item: item or "",
    )

    def advance(what: str) -> None:
        bar.pos, bar.current_item = next(begun, total), what
        bar.render_progress()

    try:
        with bar:
            yield advance
    finally:
        sys.stderr.write(LINE_ABOVE)
        sys.stderr.flush()
