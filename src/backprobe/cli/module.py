"""The script or module that a command runs as a whole: its file, or what ``python -m`` would find."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

import click

from backprobe.cli.program import asked, is_module, similar_file
from backprobe.cli.stopping import loading
from backprobe.errors import BadOption
from backprobe.findings.phrasing import listed
from backprobe.record.names import nearest
from backprobe.show.printing import echo

PLACED = "backprobe.placed"
"""In a command's context: a line on the script's words that are spelled like options of ours."""


def main_program(program: str) -> tuple[str, ModuleSpec | None]:
    """The file that runs as ``__main__``, and its spec where it is a module. Raises BadOption.

    The packages of a module are imported, as ``python -m`` does: what they raise comes out.
    """
    context = click.get_current_context()
    spec = _spec(program) if is_module(program) else None
    if spec is None and not Path(program).is_file():
        there = asked(similar_file(program) or "train.py")
        function = f", or {asked('toy.py:f', 'x=3')} for a function in a file"
        raise BadOption(
            f"there is no script {program!r}", asked=asked(program),
            next=there + function * (context.info_name != "watch"),
        )  # fmt: skip
    if PLACED in context.meta and is_first():
        echo(context.meta.pop(PLACED), err=True)
    return (program, None) if spec is None else (str(spec.origin), spec)


def is_first() -> bool:
    """Of several processes that ``torchrun`` starts, is it the first?"""
    return os.environ.get("RANK", "0") == "0"


def _spec(name: str) -> ModuleSpec:
    if Path(name).is_file():
        raise _is_file(name)
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        with loading():
            spec = _found(name)
            places = None if spec is None else spec.submodule_search_locations
            if places is not None:
                spec = _found(f"{name}.__main__")
                if spec is None:
                    raise _no_main(name, places)
        if spec is None:
            raise _no_module(name)
    finally:
        sys.path.remove(here)
    if not spec.has_location or not str(spec.origin).endswith(".py") or not os.path.isfile(str(spec.origin)):
        raise BadOption(
            f"the module {name!r} has no file of source", asked=asked(name), found=str(spec.origin),
            why="what runs is recorded by its lines", next=f"{asked('package.train')}, a module written in Python",
        )  # fmt: skip
    return spec


def _found(name: str) -> ModuleSpec | None:
    # Where a module is; its packages are imported, but not itself.
    package = name.rpartition(".")[0]
    try:
        if package:
            __import__(package)
        return importlib.util.find_spec(name) if name.strip(".") == name else None
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a package of it imports what is not there
    except ValueError:  # what has no spec
        pass
    return None


def _no_main(name: str, places: Sequence[str]) -> BadOption:
    modules = _modules(places)
    return BadOption(
        f"{name} is a package without __main__.py", asked=asked(name),
        found=listed(modules) if modules else "no modules",
        why="a package runs by the __main__.py in it, as with python -m",
        next=asked(f"{name}.{modules[0]}", as_module=True) if modules
        else f"write {name.replace('.', '/')}/__main__.py",
    )  # fmt: skip


def _is_file(name: str) -> BadOption:
    module = ".".join(Path(name).with_suffix("").parts)
    return BadOption(
        f"{name!r} is a file, and -m takes the name of a module", asked=asked(name), found=f"a file {name}",
        why="the name of a module has dots and no .py",
        next=f"{asked(name, as_module=False)}, or {asked(module, as_module=True)}",
    )  # fmt: skip


def _no_module(name: str) -> BadOption:
    package, _, last = name.rpartition(".")
    parent = sys.modules.get(package)
    places = [os.getcwd()] if not package else list(getattr(parent, "__path__", ()))
    modules = _modules(places)
    close = nearest(last, modules)
    has = f"{package} has no module {last!r}" if parent is not None else f"no package {package!r}"
    return BadOption(
        f"there is no module {name!r}", asked=asked(name), found=has if package else f"no {name}.py, and no {name}/",
        why="modules are looked for in the current folder, and then as by any import",
        next=asked(".".join([*([package] if package else []), close[0]]), as_module=True) if close
        else f"change into the folder that holds {name.partition('.')[0]}, and type it again",
    )  # fmt: skip


def _modules(places: Sequence[str]) -> list[str]:
    return sorted(one.name for one in pkgutil.iter_modules(list(places)) if one.name[:1] != "_")
