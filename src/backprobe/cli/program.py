"""The program on a command line: ``FILE:FUNCTION``, or the folder of a saved recording."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import backprobe as bp
from backprobe.cli.arguments import arguments, literal
from backprobe.errors import BadOption
from backprobe.record.names import nearest

PARTIALS = {None: False, "true": True, "false": False}


def is_saved(program: str) -> bool:
    """Is it the folder of a recording, and not a function?"""
    return bool(program) and Path(program).is_dir()


def recorded(program: str, words: Sequence[str], *, partials: str | None, by_default: str = "false", **options: Any
             ) -> bp.Recording:  # fmt: skip
    """The recording of a function, or in a folder. Raises BadOption, and what ``probed`` and ``load`` raise."""
    if is_saved(program):
        _refuse_beside_recording(program, words, {**options, "partials": partials})
        return bp.load(program, to="numpy")
    return probed(program, words, partials=partials or by_default, **options)


def probed(
    program: str, words: Sequence[str], *, select: Sequence[str], wrt: Sequence[str], cotangent: str | None,
    partials: str | None, **options: Any,
) -> bp.Recording:  # fmt: skip
    """The recording of a function. Raises BadOption, and what the function itself and ``probe`` raise."""
    wanted: Any = PARTIALS.get(partials, partials)
    given = {name: value for name, value in options.items() if value is not None}
    if cotangent is not None:
        given["cotangent"] = literal("cotangent", cotangent)
    return bp.probe(load(program), select or None, wrt=wrt or None, partials=wanted, **given)(**arguments(words))


def _refuse_beside_recording(program: str, words: Sequence[str], options: dict[str, Any]) -> None:
    given = [*words, *(f"--{name}" for name, value in options.items() if value)]
    if given:
        raise BadOption(
            f"{given[0]} is for a function, and {program} is a saved recording", asked=asked(program, given[0]),
            why="a recording holds what was computed when it was made", next=asked(program),
        )  # fmt: skip


def load(program: str) -> Any:
    """What ``FILE:FUNCTION`` names; the file is imported, with its own folder on the path. Raises BadOption."""
    text, colon, name = program.rpartition(":")
    file = Path(text)
    if not colon or not file.is_file():
        raise BadOption(
            f"{program!r} does not name a function in a file", asked=asked(program),
            found="no colon" if not colon else f"no file {text!r}", next=asked("toy.py:f", "x=3"),
        )  # fmt: skip
    module = _imported(text, program)
    found: Any = module
    for step in name.split("."):
        if not hasattr(found, step):
            functions = [known for known, value in vars(module).items() if callable(value) and known[:1] != "_"]
            close = nearest(name, functions) or functions
            raise BadOption(
                f"{text} has no function {name!r}", asked=asked(program),
                found=", ".join(functions) or "no functions",
                next=asked(f"{text}:{close[0]}") if close else f"define a function in {text}",
            )  # fmt: skip
        found = getattr(found, step)
    return found


def _imported(text: str, program: str) -> ModuleType:
    file = Path(text).resolve()
    name = file.stem if file.stem not in sys.modules else f"{file.stem} (probed)"  # random.py does not replace random
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadOption(f"{text!r} is not a Python file", asked=asked(program), next="a file whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    spec.loader.exec_module(module)
    return module


def beside(target: Any, program: str, name: str) -> Any:
    """What a name is in the file of a function. Raises BadOption."""
    known = vars(sys.modules[target.__module__])
    if name not in known:
        raise BadOption(
            f"{program.rpartition(':')[0]} has no {name!r}", asked=f"--skip {name}",
            found=", ".join(nearest(name, list(known))) or "no similar name",
            next="--skip with a function or class of that file",
        )  # fmt: skip
    return known[name]


def asked(*words: str) -> str:
    """The command that runs, with these words behind it, as messages show it."""
    return " ".join(["backprobe", click.get_current_context().info_name or "", *words])
