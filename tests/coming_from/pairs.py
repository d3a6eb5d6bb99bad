"""The same question in another tool's lines and in ours: both are run, and have to give the same numbers.

A file of this folder has the pairs of a tool; ``python tests/coming_from/pairs.py captum`` runs them where that tool is
installed. ``make test-coming-from`` runs all, each tool in an environment of its own, and ``python
tests/coming_from/page.py`` makes docs/coming-from.md of the same text.
"""

from __future__ import annotations

import ast
import runpy
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Pair:
    """What is asked, and the lines of both; the last line of each is the answer."""

    asked: str
    theirs: str
    ours: str
    said: str = ""  # where one of them is shorter, or cannot do it


def run(tool: str) -> int:
    """How many pairs differ."""
    import torch

    module = runpy.run_path(str(HERE / f"with_{tool}.py"))
    wrong = 0
    for pair in module["PAIRS"]:
        answers = []
        for text in (pair.theirs, pair.ours):
            torch.manual_seed(0)
            with tempfile.TemporaryDirectory() as folder:
                try:
                    answers.append(numbers(answer(text, {**module["given"](), "folder": folder}, folder)))
                except Exception as error:  # noqa: BLE001  # it is a pair that is wrong
                    answers.append(f"{type(error).__name__}: {error}")
        if not alike(*answers):
            wrong += 1
            print(f"{tool}: {pair.asked}:\n  theirs {answers[0]}\n  ours   {answers[1]}")
    print(f"{tool}: {len(module['PAIRS']) - wrong} passed, {wrong} failed")
    return wrong


def answer(text: str, names: dict[str, Any], folder: str) -> Any:
    """What the last line of a program gives, which is a file as users have one."""
    tree = ast.parse(text)
    last = tree.body[-1]
    assert isinstance(last, ast.Expr), text
    file = Path(folder) / "program.py"
    file.write_text(text)
    body = ast.Module(tree.body[:-1], [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(body, str(file), "exec"), names)
        return eval(compile(ast.Expression(last.value), str(file), "eval"), names)


def numbers(value: Any) -> Any:
    """Tensors as lists of numbers, in containers too."""
    if isinstance(value, dict):
        return {key: numbers(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [numbers(one) for one in value]
    value = value.detach() if hasattr(value, "detach") else value
    return value.tolist() if hasattr(value, "tolist") else value


def alike(one: Any, other: Any) -> bool:
    """Are they the same numbers, to single precision?"""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= 1e-5 * max(1.0, abs(one))
    return type(one) is type(other) and one == other and "Error" not in str(one)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    sys.exit(min(1, sum(map(run, sys.argv[1:]))))
