"""The option ``--patch``: writes remedies that were tried with success to a file for ``git apply``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import backprobe as bp
from backprobe.cli.output import tell
from backprobe.cli.program import asked, is_saved
from backprobe.errors import BadOption
from backprobe.findings.phrasing import plural
from backprobe.record.disk import check_folders, unwritable, write_whole
from backprobe.source.edits import Edit, patch


def refuse_patch(program: str, words: Sequence[str], path: str) -> None:
    """Raise BadOption if the program is a saved recording, or if the file exists or its folder cannot be made."""
    spelled = asked(program, *words, options=("--patch", path))
    if is_saved(program):
        raise BadOption(
            "--patch is for a program, with which its remedies are tried",
            asked=spelled,
            found="a recording, which cannot run again",
            next="backprobe explain FILE:FUNCTION x=... --patch fix.diff",
        )
    if Path(path).exists():
        other = Path(path).with_name(f"{Path(path).stem}-2{Path(path).suffix}")
        raise BadOption(
            f"{path} is there already, and is not written over",
            asked=spelled,
            next=asked(program, *words, options=("--patch", str(other))),
        )
    check_folders("the patch", Path(path), spelled, asked(program, *words, options=("--patch", Path(path).name)))


def write_patch(report: bp.Report, path: str) -> None:
    """Write the successfully tried remedies to a file and print a note. Without any, no file is written."""
    edits = list(dict.fromkeys(edit for one in report.findings for edit in one.edits))
    if not edits:
        tell(f"{path} is not written: no remedy was found by trying")
        return
    root = root_of(edits)
    made = patch(edits, root)
    try:
        write_whole(Path(path), made)
    except OSError as error:
        said = {"asked": f"--patch {path}", "call": "--patch {}", "smaller": "another disk"}
        raise unwritable("the patch", Path(path), error, **said) from error
    typed = ["git", "apply", path]
    if root != Path.cwd():
        typed = ["git", "-C", os.path.relpath(root), "apply", os.path.relpath(path, root)]
    tell(f"{path} has {plural(len(edits), 'edit')}: {shlex.join(typed)}")


def root_of(edits: Sequence[Edit]) -> Path:
    """The folder to which paths in a patch are relative: the repository's or else the current one, if it contains all
    edited files. Otherwise the innermost folder that does.
    """
    files = [Path(edit.file).absolute() for edit in edits]
    repository = next((folder for folder in files[0].parents if (folder / ".git").exists()), None)
    for folder in (repository, Path.cwd()):
        if folder is not None and all(folder in file.parents for file in files):
            return folder
    return Path(os.path.commonpath([file.parent for file in files]))
