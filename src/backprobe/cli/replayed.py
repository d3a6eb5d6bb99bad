"""The command ``replay``: runs a captured step again, with the function or class that creates its model."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import backprobe as bp
from backprobe.backends.discover import imported_backends, is_model
from backprobe.cli.arguments import arguments
from backprobe.cli.program import asked, beside_others, load
from backprobe.errors import BadOption
from backprobe.record.brief import kind
from backprobe.storage.steps import step_data, told


def replayed(step: str, program: str, words: Sequence[str], models: Sequence[str] = ()) -> bp.ReplayReport:
    """Run a captured step again, and return the report.

    Raises BadOption, and the errors of the program and ``replay``.
    """
    known = told(step) or {}
    is_function = bool(known.get("is_function"))
    if ":" not in program:
        file = program if program.endswith(".py") else "model.py"
        words = (*filter(None, [program if file != program else ""]), *words)
        raise BadOption(
            f"no function that {'was captured' if is_function else 'makes the model'}",
            asked=asked(step, *filter(None, [program])),
            found=f"a step of {known['model']}" if known else "",
            why="a step holds numbers, and no code",
            next=f"{asked(step, f'{file}:{_name(known)}', *_arguments(words))}, with {_made(known)} in {file}",
        )
    step_data(Path(step), asked(step, program, *words))  # raises an error for a bad step before the program is loaded
    with beside_others([step], []):
        found = load(program, (), classes=not is_function)
        if is_function:
            _refuse_words(program, words)
            return bp.replay(step, found, models=[_model(load(one, (), classes=True), one, ()) for one in models])
        return bp.replay(step, _model(found, program, words))


def _arguments(words: Sequence[str]) -> list[str]:
    return [word for word in words if "=" in word]


def _name(known: dict[str, Any]) -> str:
    return str(known["model"]) if known.get("is_function") else "make_model"


def _made(known: dict[str, Any]) -> str:
    if known.get("is_function"):
        return f"the function {known['model']}"
    return f"def make_model(): return {known.get('model', 'Net')}(...)"


def _model(found: Any, program: str, words: Sequence[str]) -> Any:
    # The model: the named object itself, or the result of the named function.
    file, _, name = program.rpartition(":")
    if _is_model(found):
        _refuse_words(program, words)
        return found
    if not callable(found):
        raise BadOption(
            f"{name} is no function and no model",
            asked=asked(program, *words),
            found=kind(found),
            next=f"{asked(f'{file}:make_model')}, a function in {file} that returns the model",
        )
    given = arguments(words)
    try:
        inspect.signature(found).bind(**given)
    except TypeError as error:
        raise BadOption(
            f"{name} cannot be called with these arguments: {error}",
            asked=asked(program, *words),
            found=f"{name}{inspect.signature(found)}",
            next=asked(program, *_needed(found)),
        ) from error
    made = found(**given)
    if not _is_model(made):
        raise BadOption(
            f"{name} does not return a model",
            asked=asked(program, *words),
            found=kind(made),
            why="it is called, and what it returns is given the parameters of the step",
            next=f"{asked(f'{file}:make_model')}, a function in {file} that returns the model",
        )
    return made


def _needed(function: Any) -> list[str]:
    # The arguments without a default, each with an example number.
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    known = inspect.signature(function).parameters.values()
    return [f"{one.name}=4" for one in known if one.default is one.empty and one.kind not in several]


def _is_model(value: Any) -> bool:
    return any(is_model(backend, value) for backend in imported_backends())


def _refuse_words(program: str, words: Sequence[str]) -> None:
    if words:
        raise BadOption(
            f"{words[0]} is for a function that makes the model", asked=asked(program, *words), next=asked(program)
        )
