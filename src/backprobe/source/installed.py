"""Finds the installed package that contains a file, in whatever folder it is installed.

A file counts as installed if it is in a folder for installed packages, or if a distribution next to its package lists
it in its ``RECORD``. Packages may lie in any folder: ``PYTHONPATH``, a ``.pth`` file, ``pip install --target``, an
overlay or an archive may add one to ``sys.path``. An editable installation counts as the user's own code.
"""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

FOLDERS = ("site-packages", "dist-packages")
EGG = ".egg"
ABOUT = (".dist-info", ".egg-info")
"""The endings of names of folders that describe a distribution."""
LISTS = ("RECORD", "installed-files.txt")
"""Names of files, in a folder that describes a distribution, that list the distribution's files. In the second one,
paths are relative to that folder.
"""
EDITABLE = re.compile(r'"editable"\s*:\s*true')
"""Found in the ``direct_url.json`` of an editable installation."""


class Recorded(NamedTuple):
    """The files of a distribution, in the folder or archive in which the distribution is installed."""

    modules: frozenset[str]  # modules that are a single file
    folders: frozenset[str]  # folders that contain files
    packages: frozenset[str]  # packages, known only by name because no files are listed

    def has(self, inside: str) -> bool:
        """Does a file belong to the distribution, or is it in a folder that belongs to the distribution?"""
        around = inside.rpartition("/")[0]
        if not around:
            return inside in self.modules
        return around in self.folders or inside.partition("/")[0] in self.packages


def in_folder(file: str) -> tuple[str, str] | None:
    """Return the folder of installed packages that contains a file, and the package or module of the file. None if the
    file is in no such folder.
    """
    parts = file.split("/")
    for at, part in enumerate(parts[1:-1], 1):
        if part in FOLDERS or part.endswith(EGG):
            return "/".join(parts[: at + 1]), parts[at + 1]
    return None


@lru_cache(4096)
def is_edited(root: str, top: str) -> bool:
    """Is this package only a link to an editable installation, which is the user's own code?"""
    return os.path.islink(f"{root}/{top}") and any(
        EDITABLE.search(_read(about, "direct_url.json")) and top in _tops(about) for about in _distributions(root)
    )


def recorded_package(file: str) -> str | None:
    """Return the package or module of a file, according to the list of files of a distribution in any folder or archive
    on the path; None if no list has the file.
    """
    parts = file.split("/")
    searched = _searched(tuple(sys.path_importer_cache))
    for at in range(len(parts) - 1, 0, -1):
        root = "/".join(parts[:at])
        if root in searched and _is_recorded(root, "/".join(parts[at:])):
            return parts[at]
    return None


@lru_cache(4)
def _searched(entries: tuple[str, ...]) -> frozenset[str]:
    # Return the folders and archives in which Python has looked for modules, spelled as in file names.
    found = [getattr(sys.path_importer_cache.get(entry), "path", entry) for entry in entries]
    return frozenset([*found, *map(os.path.abspath, found)])


def _is_recorded(root: str, inside: str) -> bool:
    # Does a distribution in this folder or archive contain the file? The distribution that has the package's name is
    # checked first.
    changed, top = _changed(root), inside.partition("/")[0].removesuffix(".py")
    names = sorted(_names(root, changed), key=lambda name: _package(name) != top)
    return any(_recorded(root, name, changed).has(inside) for name in names)


def _changed(root: str) -> int:
    # Return the time at which a folder or archive was last changed, because packages may be installed while the program
    # runs.
    for place in (root, *map(str, Path(root).parents)):  # a folder in an archive has no time
        try:
            return os.stat(place).st_mtime_ns
        except OSError:
            continue
    return 0


@lru_cache(256)
def _names(root: str, changed: int) -> tuple[str, ...]:
    return tuple(about.name for about in _distributions(root))


@lru_cache(4096)
def _recorded(root: str, name: str, changed: int) -> Recorded:
    about = _opened(Path(root)) / name
    files = [*_files(about)]
    around = [file.rpartition("/")[0] for file in files]
    says_no_more = not files and name.endswith(ABOUT[0])
    return Recorded(
        frozenset(file for file, folder in zip(files, around, strict=True) if not folder),
        frozenset(filter(None, around)),
        frozenset(_packages(about) if says_no_more else ()),
    )


def _distributions(root: str) -> Iterator[Any]:
    # Yield the folders that describe the distributions in a folder or archive.
    opened = _opened(Path(root))
    try:
        yield from [one for one in opened.iterdir() if one.name.endswith(ABOUT)] if opened is not None else ()
    except OSError:
        return


def _opened(root: Path) -> Any:
    # Return a path object for a folder, which may be inside an archive; None if it does not exist.
    if root.is_dir():
        return root
    outer = next((one for one in (root, *root.parents) if one.is_file()), None)
    if outer is None:
        return None
    import zipfile  # local import, because most programs do not need it

    try:
        inside = "" if outer == root else f"{root.relative_to(outer)}/"
        return zipfile.Path(str(outer), inside)
    except (OSError, zipfile.BadZipFile):
        return None


def _files(about: Any) -> Iterator[str]:
    # Return the files of a distribution, relative to the folder in which it is installed.
    for name in LISTS:
        for row in csv.reader(_read(about, name).replace("\0", "").splitlines()):
            file = "".join(row[:1])
            if name != LISTS[0]:
                file = os.path.normpath(f"{about.name}/{file}")
            if file and not file.startswith(("..", "/")):
                yield file


def _packages(about: Any) -> Iterable[str]:
    # Return the packages of a distribution that does not list its files.
    return _read(about, "top_level.txt").split() or [_package(about.name)]


@lru_cache(4096)
def _package(name: str) -> str:
    # Return the package of a distribution, guessed from the name of the folder that describes it.
    return re.sub(r"[-.]+", "_", name.partition("-")[0])


def _read(about: Any, name: str) -> str:
    try:
        return str((about / name).read_text(encoding="utf-8", errors="replace"))
    except (OSError, KeyError):  # KeyError: the archive has no such file
        return ""


def _tops(about: Any) -> set[str]:
    # Return the packages and modules of a distribution.
    return {*(file.partition("/")[0] for file in _files(about)), *_packages(about)}
