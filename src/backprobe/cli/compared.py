"""The command ``diff``: compares two programs, each a function in a file, a saved recording or a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import backprobe as bp
from backprobe.backends.discover import BACKENDS, is_imported, load_backend
from backprobe.backends.replay import Replay
from backprobe.cli import program as programs
from backprobe.errors import BadOption
from backprobe.view import check_html


def compared(
    a: str,
    b: str,
    words: Sequence[str],
    *,
    rename: Sequence[str],
    layout: Sequence[str],
    noise: Sequence[str],
    convention: str | None,
    html: str | None,
    **options: Any,
) -> bp.DiffReport | bp.RunDiffReport:
    """Return the report on two programs. Functions get the same arguments and draw the same random numbers.

    With ``html`` the report is also written to that file, as a page.

    Raises BadOption, and the errors of the functions themselves, ``probe``, ``load`` and ``diff``.
    """
    if html is not None:  # the path is checked before the programs run, which may take long
        check_html(Path(html), f"backprobe diff {a} {b} --html {html}", "comparison")
    layouts = {name: _axes(axes) for name, axes in _pairs("layout", layout, "**.kernel=T").items()}
    renames = _pairs("rename", rename, "h.*=layers.*")
    places = [(a, ((), (b,))), (b, ((a,), ()))]
    functions = [(one, place) for one, place in places if not programs.is_saved(one)]
    if not functions:
        programs.refuse_beside_recording([a, b], words, options)
    # Import both files before either function runs. Random numbers drawn by an import would otherwise change the
    # numbers that a function draws.
    for one, place in functions:
        with programs.beside_others(*place):
            programs.load(one)
    recordings: list[Any] = []
    for one, place in places:
        with programs.beside_others(*place), _same_numbers():
            recordings.append(one if programs.is_saved(one) else programs.probed(one, words, **options))
    found: bp.DiffReport | bp.RunDiffReport = bp.diff(
        *recordings, rename=renames or None, layout=layouts or None, noise=list(noise) or None, convention=convention
    )
    if html is not None:
        found.save(html)
    return found


@contextmanager
def _same_numbers() -> Iterator[None]:
    # Restore the random state of every imported framework when this context ends.
    with ExitStack() as stack:
        for backend in [load_backend(name) for name in BACKENDS if is_imported(name)]:
            stack.enter_context(Replay(backend, None).run())
        yield


def _pairs(option: str, texts: Sequence[str], example: str) -> dict[str, str]:
    # Split each ``A=B``. Raises BadOption.
    found: dict[str, str] = {}
    for text in texts:
        name, equals, other = text.partition("=")
        if not (name and equals and other):
            raise BadOption(
                f"{text!r} is not of the form A=B", asked=f"--{option} {text}", next=f"--{option} '{example}'"
            )
        if name in found:
            raise BadOption(
                f"{name!r} is given twice",
                asked=f"--{option} {name}={found[name]} --{option} {text}",
                next=f"--{option} '{text}'",
            )
        found[name] = other
    return found


def _axes(text: str) -> str | tuple[int, ...]:
    # Parse an order of axes such as ``3,2,0,1``; return any other text unchanged.
    axes = text.split(",")
    return tuple(map(int, axes)) if all(axis.strip().isdecimal() for axis in axes) else text
