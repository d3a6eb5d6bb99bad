"""The command ``view``: prints the viewer's address and runs until Ctrl-C."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import backprobe as bp
from backprobe.cli.output import is_asked, show, tell
from backprobe.errors import BadOption
from backprobe.show.printing import echo
from backprobe.view import Viewer, check_html, open_browser, save


def viewed(sources: tuple[str, ...], port: int, is_opened: bool, until_ended: bool) -> None:
    """Show runs until Ctrl-C, or with ``until_ended`` until no run is being written. Raises BadOption and BadRun."""
    with bp.view(*map(_shown, sources), port=port, open=False) as viewer:
        announce(viewer, is_opened)
        wait(viewer, until_ended)
    show(None, {"url": viewer.url})


def _shown(source: str) -> Any:
    # Load the source if it is a recording; return any other source unchanged.
    from backprobe.storage.recordings import DATA  # imported late, because it imports NumPy

    return bp.load(source, to="numpy") if (Path(source) / DATA).is_file() else source


def announce(viewer: Viewer, is_opened: bool) -> None:
    """Print the viewer's address, and over SSH also how to reach it. With ``is_opened``, open a browser."""
    if not is_asked("quiet"):
        echo(viewer.url)
    port = viewer.url.partition("#")[0].rstrip("/").rpartition(":")[2]
    if "SSH_CONNECTION" in os.environ:
        tell(f"on your own machine: ssh -L {port}:127.0.0.1:{port} {socket.gethostname()}, and open that address there")
    sys.stdout.flush()
    if is_opened:
        open_browser(viewer.url)


def wait(viewer: Viewer, until_ended: bool = False) -> None:
    """Return after Ctrl-C, or with ``until_ended`` when no run is being written."""
    tell("the viewer goes on until Ctrl-C" + ", or until no run is being written" * until_ended)
    with suppress(KeyboardInterrupt):
        viewer.wait(until=lambda: until_ended and not viewer.is_followed)


def begin(folder: Path) -> Viewer:
    """Open a viewer for runs that will be written to a folder later."""
    viewer = Viewer([folder], 0, "backprobe watch --view")
    announce(viewer, True)
    return viewer


def saved(runs: tuple[str, ...], path: str, **others: Any) -> NoReturn:
    """Write a page about some runs, and exit with 1 if one of them has alerts. Raises BadOption and BadRun."""
    asked = f"backprobe report {' '.join(runs)} --html {path}"
    given = [f"--{name}" for name, value in others.items() if value is not None]
    if given:
        raise BadOption("a page shows all of a run", asked=f"{asked} {given[0]}", next=f"{asked}, or without --html")
    check_html(Path(path), asked)
    reports = []
    for run in runs:
        with bp.open_run(run) as opened:
            reports.append(opened.report().to_dict())
    save([Path(run) for run in runs], path, asked)
    show(f"the page: {path}", {**(reports[0] if len(runs) == 1 else {}), "page": str(path)})
    sys.exit(int(not all(one["ok"] for one in reports)))
