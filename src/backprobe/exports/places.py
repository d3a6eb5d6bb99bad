"""The location of a data set: a folder of this machine, or a URL of a file system that ``fsspec`` supports."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from backprobe.errors import BadOption, BadRun, NotInstalled, installed


def is_url(path: Any) -> bool:
    """Is this a URL, rather than a path of this machine?"""
    return isinstance(path, str) and "://" in path


class Place:
    """A folder on some file system. Raises NotInstalled, and BadOption for a URL that cannot be opened."""

    def __init__(self, path: str | os.PathLike[str], asked: str) -> None:
        self.shown, self.asked = os.fspath(path), asked
        self.arrow = installed("pyarrow", asked=asked)
        self.fs = installed("pyarrow.fs", asked=asked)
        self.system, self.root = self._opened()

    def _opened(self) -> tuple[Any, str]:
        if not is_url(self.shown):
            return self.fs.LocalFileSystem(), os.path.abspath(self.shown)
        fsspec = installed("fsspec", asked=f"the URL {self.shown}")
        try:
            system, root = fsspec.core.url_to_fs(self.shown)
        except ImportError as error:  # a missing package such as s3fs
            raise NotInstalled(
                f"{self.shown} needs a package that is not installed",
                asked=self.asked,
                found=str(error),
                next=f"pip install {error.name or 'the package that the line above names'}",
            ) from error
        except Exception as error:  # any error of the file system that the URL names
            raise BadOption(
                f"{self.shown} cannot be opened",
                asked=self.asked,
                found=f"{type(error).__name__}: {error}",
                next="a URL that fsspec opens: fsspec.open_files(URL)",
            ) from error
        return self.fs.PyFileSystem(self.fs.FSSpecHandler(system)), root

    def path(self, *parts: str) -> str:
        """A path below the folder; without parts, the folder itself."""
        return "/".join([self.root.rstrip("/"), *parts]) if parts else self.root

    def names(self, *parts: str) -> list[str]:
        """The names in a subfolder; none if the subfolder does not exist."""
        with self._failing():
            selector = self.fs.FileSelector(self.path(*parts), allow_not_found=True)
            return sorted(one.base_name for one in self.system.get_file_info(selector))

    def read_json(self, name: str) -> Any:
        """Read a JSON file. Raises BadRun if it is not JSON."""
        with self._failing(), self.system.open_input_stream(self.path(name)) as file:
            data = file.read()
        try:
            return json.loads(data)
        except ValueError as error:
            raise self.damaged(name, error) from error

    def write_json(self, name: str, data: Any) -> None:
        with self.replacing(name) as file:
            file.write(json.dumps(data).encode())

    @contextmanager
    def replacing(self, *parts: str) -> Iterator[Any]:
        """Yield a file to write. It replaces the old file only when complete, so that readers never see half a file."""
        *folders, name = parts
        hidden = self.path(*folders, f".{name}.part")
        with self._failing():
            self.system.create_dir(self.path(*folders), recursive=True)
            with self.system.open_output_stream(hidden) as file:
                yield file
            self.system.move(hidden, self.path(*parts))

    def remove(self, *parts: str) -> None:
        """Remove a subfolder if it exists."""
        with self._failing():
            if self.system.get_file_info(self.path(*parts)).type != self.fs.FileType.NotFound:
                self.system.delete_dir(self.path(*parts))

    def damaged(self, name: str, error: Exception) -> BadRun:
        """The error for a file that is truncated or has other content."""
        return BadRun(
            f"{self.shown} is not a whole export of a run",
            asked=self.asked,
            found=f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
            why="nothing of it is read",
            next="run.export(path) again, from the run",
        )

    @contextmanager
    def _failing(self) -> Iterator[None]:
        # Convert errors about access, and about files that are missing or exist, to BadOption. Other errors, such as
        # that of a full disk, stay as they are.
        try:
            yield
        except (PermissionError, NotADirectoryError, FileNotFoundError, FileExistsError) as error:
            raise BadOption(
                f"{self.shown} cannot be read or written",
                asked=self.asked,
                found=f"{type(error).__name__}: {error}",
                next="a folder, or a URL, that this process may write",
            ) from error
