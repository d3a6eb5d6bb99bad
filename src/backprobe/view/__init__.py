"""A page that shows runs: a loss, every name over the steps, alerts with their lines, each number at each step.

It also shows recordings as circuits, comparisons of two recordings, attributions and sweeps. The same page is served
by a local server, which follows a training, or saved as one file that needs no server.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from backprobe.errors import BadOption, BadRun
from backprobe.markup import Html, element, framed, joined
from backprobe.record.brief import kind, written
from backprobe.record.disk import check_folders, unwritable, write_whole
from backprobe.record.options import Option, check_folder, check_options
from backprobe.view.shown import Shown, Viewable

OPTIONS = (
    Option(
        "port",
        int,
        lambda port: 0 <= port < 65536 and port is not False and port is not True,
        "8000",
        says="a number from 0, for any that is free, to 65535",
    ),
    Option("open", bool),
)
NOTEBOOK_BINS, NOTEBOOK_FIELDS = 200, ("grad.rms",)


def view(*sources: Any, port: int = 0, open: bool = True) -> Viewer:
    """Show runs, recordings, comparisons, attributions and sweeps in a browser; runs also while they are written.

    >>> import tempfile, torch, backprobe as bp
    >>> model, folder = torch.nn.Linear(3, 1), tempfile.mkdtemp()
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with bp.watch(model, folder, optimizer=optimizer):
    ...     for x in torch.ones(5, 3):
    ...         model(x).sum().backward()
    ...         optimizer.step()
    >>> with bp.view(folder, open=False) as viewer:
    ...     viewer.url.startswith("http://127.0.0.1:")
    True

    - ``sources``: runs, their folders, or folders that contain runs; by default the current folder. Recordings,
      drawings of ``bp.draw``, reports of ``bp.diff`` on two recordings and results of ``bp.attribute`` can be given as
      well. They are shown as interactive circuits, and sweeps as maps. Recordings that are saved in one of the folders,
      now or later, are also shown. So are the contents of pages that ``bp.draw`` or a ``save`` method wrote.
    - ``port``: the port of the server; 0 chooses any free port.
    - ``open``: if True, open a browser.

    Only programs on this machine can reach the server, and only with the token at the end of the viewer's ``url``. The
    server runs until ``viewer.close()`` is called or the program ends. In a notebook, the viewer shows the present
    state of the runs.

    Raises BadOption, BadRun for a path that is not a folder, and BadRecording for a page that cannot be shown.
    """
    check_options({"port": port, "open": open}, OPTIONS)
    asked = f"bp.view({', '.join(map(written, sources))})"
    found = [_shown_of(one, asked) for one in sources]
    shown = [one for one in found if isinstance(one, Shown)]
    folders = [one for one in found if isinstance(one, Path)]
    viewer = Viewer(folders if sources else [Path.cwd()], port, asked, shown)
    if open:
        open_browser(viewer.url)
    return viewer


def open_browser(url: str) -> None:
    """Open an address in a browser. Without a screen nothing is opened: a text browser would block."""
    has_screen = sys.platform in ("darwin", "win32") or {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"} & os.environ.keys()
    if has_screen:
        import webbrowser

        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(url)


class Viewer:
    """A server that shows runs. ``url`` is its address; ``close()`` ends it, and so does leaving its context."""

    def __init__(self, folders: list[Path], port: int, asked: str, shown: Sequence[Shown] = ()) -> None:
        from backprobe.view.answers import Answers  # imports NumPy
        from backprobe.view.recordings import ShownRecordings
        from backprobe.view.runs import ShownRuns
        from backprobe.view.server import Server

        self._runs, self._shown = ShownRuns(folders), shown
        try:
            self._server = Server(Answers(self._runs, shown, ShownRecordings(folders)), port)
        except OSError as error:
            raise BadOption(
                f"port {port} cannot be had",
                asked=asked,
                found=error.strerror or str(error),
                next="port=0, for any that is free",
            ) from error

    @property
    def url(self) -> str:
        """The address to open. Whoever has it can read the runs."""
        return self._server.url

    @property
    def is_followed(self) -> bool:
        """Is one of the runs being written?"""
        return any(one["state"] == "written" for one in self._server.answers.brief())

    def close(self) -> None:
        """End the server, and close the files."""
        self._server.close()
        self._runs.close()

    def wait(self, until: Callable[[], bool] = lambda: False) -> None:
        """Return when the viewer is closed, or when ``until()`` is true."""
        while not self._server.closed.wait(0.2) and not until():
            pass

    def __enter__(self) -> Viewer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        others = (f"a{'n' * (one.kind == 'attribution')} {one.kind}" for one in self._shown)
        shown = [*map(str, self._runs.folders), *others]
        return f"<backprobe.Viewer of {', '.join(shown)}>"

    def _repr_html_(self) -> str:
        link = element("a", "open the viewer, which follows the run", href=self.url, target="_blank", rel="noopener")
        return joined([framed_runs(self._runs.folders, self._shown), element("p", link)])


def framed_runs(folders: list[Path], shown: Sequence[Shown] = ()) -> Html:
    """The page in a frame of a notebook, with few fields in few bins."""
    from backprobe.view.export import page_of
    from backprobe.view.runs import ShownRuns

    with contextlib.closing(ShownRuns(folders)) as runs:
        return framed(page_of(runs, shown, bins=NOTEBOOK_BINS, fields=NOTEBOOK_FIELDS), "The run, to explore")


def save(folders: list[Path], path: Any, asked: str, start: Mapping[str, Any] | None = None) -> None:
    """Write the page of some runs as one self-contained file. Raises BadOption and BadRun.

    ``start`` selects the first view of the page, in the form of the fragment of its address.
    """
    from backprobe.view.export import page_of
    from backprobe.view.runs import ShownRuns

    target = _checked(path, asked, "run")
    with contextlib.closing(ShownRuns(folders)) as runs:
        text = page_of(runs, start=start)
    _write(target, text, asked)


def save_page(shown: Shown, path: Any, asked: str) -> None:
    """Write a page that shows this item as one file. Raises BadOption."""
    from backprobe.view.circuit import page
    from backprobe.view.export import page_of
    from backprobe.view.runs import ShownRuns

    target = _checked(path, asked, shown.kind)
    _write(target, page_of(ShownRuns([]), [shown]) if shown.kind == "sweep" else page(shown), asked)


def _checked(path: Any, asked: str, what: str) -> Path:
    # The path of a page. Raises BadOption.
    check_folder(path, "a page is a file, whose path is a text", asked, f"'{what}.html'")
    check_html(Path(path), asked, what)
    return Path(path)


def _write(target: Path, text: str, asked: str) -> None:
    try:
        write_whole(target, text.encode())
    except OSError as error:
        raise unwritable("the page", target, error, asked=asked, call="{!r}", smaller="another disk") from error


def check_html(target: Path, asked: str, what: str = "run") -> None:
    """Raise BadOption if the path does not end in ``.html``, or if its folder cannot be made. This is called before
    runs are read.
    """
    if target.suffix.lower() != ".html":
        raise BadOption(
            f"a {what} is saved as a page",
            asked=asked,
            found=f"the ending {target.suffix!r}" if target.suffix else "no ending",
            next=f"{(target.stem or what) + '.html'!r}",
        )
    check_folders("the page", target, asked, f"{target.name!r}")


def _shown_of(source: Any, asked: str) -> Shown | Path:
    # Find the object to show for a source: an item that is shown with runs, or the folder of runs. Raises BadOption,
    # BadRecording and BadRun.
    if isinstance(source, Viewable):
        return source._viewed()
    if isinstance(source, str | Path) and Path(source).suffix.lower() == ".html" and not Path(source).is_dir():
        from backprobe.view.saved_pages import read_page  # imports NumPy

        return read_page(Path(source), asked)
    return _folder(source, asked)


def _folder(source: Any, asked: str) -> Path:
    # The folder to show. Raises BadOption and BadRun.
    found = getattr(source, "folder", source)  # runs and watches have a folder
    if not isinstance(found, str | os.PathLike) or not os.fspath(found) or "\0" in str(found):
        raise BadOption(
            f"a viewer shows runs, recordings, diffs, attributions and sweeps, not {kind(source)}",
            asked=asked,
            next="bp.view('runs/exp1'), bp.view(rec)",
        )
    folder = Path(found)
    if not folder.is_dir():
        raise BadRun(
            f"{folder} is not a folder of runs",
            asked=asked,
            found="a file" if folder.exists() else "no such folder",
            next="the folder that bp.watch(model, folder) was given, or one around it",
        )
    return folder
