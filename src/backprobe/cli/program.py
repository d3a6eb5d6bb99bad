"""The program that a command works on: ``FILE:FUNCTION``, or the folder of a saved recording."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NoReturn, TypeVar

import click

import backprobe as bp
from backprobe.backends.dialects import dialect_of
from backprobe.backends.discover import BACKENDS, load_backend
from backprobe.cli.arguments import arguments, literal
from backprobe.cli.call import called_with
from backprobe.cli.output import tell
from backprobe.cli.progress import progress
from backprobe.cli.refusal import INTERRUPTED
from backprobe.cli.stopping import loading
from backprobe.errors import BadOption, NoBackend
from backprobe.record.names import nearest

T = TypeVar("T")
IMPORTED = "backprobe.imported"
"""Key in a command's context: the modules that were imported from files, by file."""
BESIDE = "backprobe.beside"
"""Key in a command's context: the command's other programs, before and after the current one."""
MODULE = "backprobe.module"
"""Key in a command's context: the name of the program if it is a module given by ``-m``."""


def is_saved(program: str) -> bool:
    """Is the program a folder, and so a saved recording rather than a function?"""
    return bool(program) and not is_module(program) and Path(program).is_dir()


def is_script(program: str) -> bool:
    """Is the program a script or module that runs as a whole? Also True for a file that does not exist."""
    return is_module(program) or (bool(program) and ":" not in program and not is_saved(program))


def is_module(program: str) -> bool:
    """Is the program a module given by ``-m``?"""
    return program == click.get_current_context().meta.get(MODULE)


def refuse_without_partials(program: str, recording: bp.Recording, *, is_wanted: bool = True) -> None:
    """Raise BadOption if partials are missing and no option of the same command would give them.

    This is so for a saved recording, which needs a new run. With ``is_wanted``, it is also so for a script whose
    framework has no partials in blocks.
    """
    framework = recording.record.framework
    is_without = is_script(program) and is_wanted and not dialect_of(framework).runs_backward
    if recording.path_sums is not None or not (is_saved(program) or is_without):
        return
    if is_saved(program):
        raise BadOption(
            f"the recording in {program} has no partials",
            asked=asked(program),
            found="a recording without partials",
            next=f"backprobe probe toy.py:f x=3 --partials true --save {program} --overwrite, for the function f that "
            "it is of",
        )
    raise BadOption(
        f"no partials are known of {program}",
        asked=asked(program),
        found=f"a script of {load_backend(framework).title}, which runs as it is written",
        why="the local partials of a script are those of PyTorch alone",
        next=f"{asked(f'{program}:f', 'x=3')}, for a function f in it",
    )


def probed(
    program: str,
    words: Sequence[str],
    *,
    select: Sequence[str],
    of: Sequence[str],
    wrt: Sequence[str],
    cotangent: str | None,
    partials: Any,
    **options: Any,
) -> bp.Recording:
    """Record a function. Raises BadOption, and the errors of the function and of ``probe``."""
    given = {name: value for name, value in options.items() if value is not None}
    if cotangent is not None:
        given["cotangent"] = literal("cotangent", cotangent)
    target = load(program)
    args, kwargs = called_with(target, words)
    outputs = of[0] if len(of) == 1 else list(of) or None
    probe = bp.probe(target, select or None, of=outputs, wrt=wrt or None, partials=partials or False, **given)
    with progress(lambda: f"{program} runs"), _inferring(program, words), so_far(bp.Recording) as made:
        return probe(*args, **kwargs)
    return made[0]


def checked(
    program: str, words: Sequence[str], skip: Sequence[str], backend: Any, order: Literal[1, 2]
) -> bp.CheckReport:
    """Run ``check`` on a function, and return its report.

    Raises BadOption, and the errors of the function and ``check``.
    """
    target = load(program)
    check = bp.check(target, order=order, skip=[beside(target, program, name) for name in skip], backend=backend)
    args, kwargs = called_with(target, words)
    with progress(lambda: f"{program} is checked"), _inferring(program, words), so_far(bp.CheckReport) as made:
        return check(*args, **kwargs)
    return made[0]


def provoked(
    program: str, words: Sequence[str], bounds: Sequence[str], seed: int, tries: int, backend: Any
) -> bp.Provocations:
    """Run ``provoke`` on a function, and return its report.

    Raises BadOption, and errors of the function and ``provoke``.
    """
    target = load(program)
    provoke = bp.provoke(target, bounds=arguments(bounds) or None, seed=seed, tries=tries, backend=backend)
    args, kwargs = called_with(target, words)
    with _inferring(program, words), so_far(bp.Provocations) as made:
        return provoke(*args, **kwargs)
    return made[0]


@contextmanager
def _inferring(program: str, words: Sequence[str]) -> Iterator[None]:
    # If the framework cannot be inferred, let the error message name an option of the command, not of Python's API.
    try:
        yield
    except NoBackend as error:
        named = next((name for name in BACKENDS if f'backend="{name}"' in error.next), None)
        if named is not None:
            error.next = asked(program, *words, "--backend", named)
        raise


@contextmanager
def so_far(kind: type[T]) -> Iterator[list[T]]:
    """Yield a list. After Ctrl-C the list contains the partial result of the interrupted run, if there is one."""
    made: list[T] = []
    try:
        yield made
    except KeyboardInterrupt as stop:
        found = getattr(stop, "so_far", None)
        if not isinstance(found, kind):
            raise
        made.append(found)
        click.get_current_context().meta[INTERRUPTED] = True
        tell("stopped by Ctrl-C; what is known so far:")


def refuse_beside_recording(saved: Sequence[str], words: Sequence[str], options: Mapping[str, Any]) -> None:
    """Raise BadOption if arguments or options for a function are given, but the programs are saved recordings."""
    given = [*words, *(f"--{name}" for name, value in options.items() if value)]
    if given:
        are = "is a saved recording" if len(saved) == 1 else "are saved recordings"
        raise BadOption(
            f"{given[0]} is for a function, and {' and '.join(saved)} {are}",
            asked=asked(*saved, given[0]),
            why="a recording holds what was computed when it was made",
            next=asked(*saved),
        )


def load(program: str, example: Sequence[str] = ("x=3",), *, classes: bool = False) -> Any:
    """Return the object that ``FILE:FUNCTION`` names, and import its file with its folder on the path.

    Raises BadOption.

    ``example`` are the arguments shown in error messages. A class raises BadOption unless ``classes`` is True.
    """
    text, colon, name = program.rpartition(":")
    if not colon or not Path(text).is_file():
        _refuse_unnamed(program, text, colon, name, example)
    module = _imported(text, program)
    found: Any = module
    for step in name.split("."):
        if not hasattr(found, step):
            _refuse_missing(program, text, name, module)
        found = getattr(found, step)
    if isinstance(found, type) and not classes:
        raise BadOption(
            f"{name} is a class, and what is probed is an object of it, or a function",
            asked=asked(program),
            found=f"class {name} in {text}",
            next=f"write {found.__name__.lower()} = {found.__name__}(...) into {text}, and type "
            + asked(f"{text}:{found.__name__.lower()}"),
        )
    return found


def _refuse_unnamed(program: str, text: str, colon: str, name: str, example: Sequence[str]) -> NoReturn:
    # Raise BadOption for a text without a colon, or with a file that is not there.
    if not colon and Path(program).is_file() and program.endswith(".py"):
        raise BadOption(
            f"{program} is a whole script, and this takes a function in it",
            asked=asked(program),
            why="what is called with the arguments given here is one function",
            next=f"{asked(f'{program}:f', 'x=3')}, for a function f in it; backprobe explain {program} or "
            f"backprobe health {program}, which take the script; or with bp.probe() as rec: around one step in it",
        )
    file_, dot, function = program.partition(".py.")
    spelled = f"{file_}.py:{function}" if dot and Path(f"{file_}.py").is_file() else "toy.py:f"
    meant = _meant(text, name) if colon else f"{program}:f" if Path(program).is_file() else spelled
    raise BadOption(
        f"{program!r} does not name a function in a file",
        asked=asked(program),
        found="no colon" if not colon else f"no file {text!r}",
        next=asked(meant, *example),
    )


def _refuse_missing(program: str, text: str, name: str, module: Any) -> NoReturn:
    called = {known: value for known, value in vars(module).items() if callable(value) and known[:1] != "_"}
    # list classes last, because a class cannot be probed
    functions = sorted(called, key=lambda known: isinstance(called[known], type))
    close = nearest(name, functions) or functions
    raise BadOption(
        f"{text} has no function {name!r}",
        asked=asked(program),
        found=", ".join(functions) or "no functions",
        next=asked(f"{text}:{close[0]}") if close else f"define a function in {text}",
    )


def _meant(text: str, name: str) -> str:
    # The most likely FILE:FUNCTION if the given file does not exist.
    file = similar_file(text)
    return f"{file}:{name}" if file else "toy.py:f"


def similar_file(text: str) -> str | None:
    """The existing Python file in the same folder whose name is most similar to the given one; None if none is."""
    folder = Path(text).parent
    there = [one.stem for one in folder.glob("*.py")] if folder.is_dir() else []
    close = nearest(Path(text).stem, there)
    return f"{folder / close[0]}.py" if close else None


def _imported(text: str, program: str) -> ModuleType:
    # The module of a file. Each file is imported at most once in a command.
    file = Path(text).resolve()
    known: dict[Path, ModuleType] = click.get_current_context().meta.setdefault(IMPORTED, {})
    if file not in known:
        known[file] = _import(text, program)
    return known[file]


def _import(text: str, program: str) -> ModuleType:
    file = Path(text).resolve()
    # a file such as random.py must not replace the standard module random
    name = file.stem if file.stem not in sys.modules else f"{file.stem} (probed)"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadOption(f"{text!r} is not a Python file", asked=asked(program), next="a file whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    with loading():
        spec.loader.exec_module(module)
    return module


def beside(target: Any, program: str, name: str) -> Any:
    """The object with this name in the file of a function. Raises BadOption."""
    known = vars(sys.modules[target.__module__])
    if name not in known:
        raise BadOption(
            f"{program.rpartition(':')[0]} has no {name!r}",
            asked=f"--skip {name}",
            found=", ".join(nearest(name, list(known))) or "no similar name",
            next="--skip with a function or class of that file",
        )
    return known[name]


@contextmanager
def beside_others(before: Sequence[str], behind: Sequence[str]) -> Iterator[None]:
    """Inside this context, error messages show the command's other programs before and after the current one."""
    meta = click.get_current_context().meta
    meta[BESIDE] = (before, behind)
    try:
        yield
    finally:
        del meta[BESIDE]


def asked(*words: str, options: Sequence[str] = ()) -> str:
    """The command with these words as text, for error messages. The first word is the program."""
    context = click.get_current_context()
    before, behind = context.meta.get(BESIDE, ((), ()))
    options = [*options, "-m"] if words and is_module(words[0]) else options
    return shlex.join(["backprobe", context.info_name or "", *options, *before, *words[:1], *behind, *words[1:]])
