"""A progress bar on standard error, in a terminal only."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

NO_CODES = ("dumb", "unknown")  # the TERM of terminals that show control codes as text
LINE_ABOVE = "\x1b[A\x1b[2K"  # go there, and clear it


@contextmanager
def progress(doing: str, total: int) -> Iterator[Callable[[str], None]]:
    """While this context is open a bar is shown; what it gives is called with what comes next, once for each part.

    The bar is gone when the context ends. In a pipe or a notebook there is none.
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
