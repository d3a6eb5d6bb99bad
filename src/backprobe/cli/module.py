"""Finds the script or module that a command runs as a whole, in the same way as ``python`` and ``python -m``."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import click

from backprobe.cli.output import PLACE, tell
from backprobe.cli.program import asked, is_module, similar_file
from backprobe.cli.stopping import loading
from backprobe.errors import BadOption
from backprobe.findings.phrasing import listed
from backprobe.record.names import nearest

PLACED = "backprobe.placed"
"""Key in a command's context: a remark about script arguments that look like options of backprobe."""

WHOLE = ("memory", "watch")
"""The commands that measure the steps of a training, and take no function."""


def main_program(program: str) -> tuple[str, ModuleSpec | None]:
    """Return the file to run as ``__main__``, and its spec if it is a module. Raises BadOption.

    The packages that contain a module are imported, as with ``python -m``. Their errors are not caught.
    """
    context = click.get_current_context()
    spec = _spec(program) if is_module(program) else None
    if spec is None and not Path(program).is_file():
        is_whole = context.info_name in WHOLE
        file, colon, _ = program.rpartition(":")
        if is_whole and colon and Path(file).is_file():
            headline = f"backprobe {context.info_name} takes a whole script, and {program!r} names a function in it"
            raise BadOption(headline, asked=asked(program), next=asked(file))
        function = f", or {asked('toy.py:f', 'x=3')} for a function in a file" * (not is_whole)
        next = asked(similar_file(program) or "train.py") + function
        raise BadOption(f"there is no script {program!r}", asked=asked(program), next=next)
    if PLACED in context.meta and is_first():
        tell(context.meta.pop(PLACED))
    context.meta[PLACE] = program if spec is None else str(spec.origin)
    return context.meta[PLACE], spec


def is_first() -> bool:
    """Is this process the first of those that ``torchrun`` started?"""
    return os.environ.get("RANK", "0") == "0"


def _spec(name: str) -> ModuleSpec:
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        with loading():
            spec = None if Path(name).is_file() else _found(name)
            if spec is not None and spec.submodule_search_locations is not None:
                spec = _found(f"{name}.__main__")
            if spec is None or not str(spec.origin).endswith(".py"):
                raise _refused(name, spec)
            return spec
    finally:
        sys.path.remove(here)


def _found(name: str) -> ModuleSpec | None:
    # Find the spec of a module. The packages that contain it are imported, but not the module itself.
    package = name.rpartition(".")[0]
    try:
        if package:
            __import__(package)
        return importlib.util.find_spec(name) if name.strip(".") == name else None
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a containing package exists, and failed to import another module
    except ValueError:  # the module has no spec
        pass
    return None


def _refused(name: str, spec: ModuleSpec | None) -> BadOption:
    # The error for a name that is not a module or cannot be run. It suggests a module that exists.
    package, _, last = name.rpartition(".")
    parent = name if name in sys.modules else package
    places = getattr(sys.modules.get(parent), "__path__", () if parent else [os.getcwd()])
    there = sorted(one.name for one in pkgutil.iter_modules(list(places)) if one.name[:1] != "_")
    found = f"in {parent or 'the current folder'}: {listed(there) or 'no modules'}"
    close = there if parent == name else nearest(last, there) or (there if parent else [])
    meant = ".".join([*filter(None, [parent]), *close[:1]]) if close else ""
    if Path(name).is_file():
        found, meant = f"the file {name}, which runs without -m", ".".join(Path(name).with_suffix("").parts)
    return BadOption(
        f"there is no module {name!r} that runs",
        asked=asked(name),
        found=found if spec is None else f"{spec.origin}, no file of source",
        why="a module is looked for in the current folder, then as by any import; a package runs by its __main__.py",
        next=f"backprobe {click.get_current_context().info_name} -m {meant}"
        if meant
        else f"change into the folder that holds {name.partition('.')[0]}, and type it again",
    )
