"""The three notebooks that everything began with, read word for word from the folder beside the checkout."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

SEEDS = Path(__file__).parents[2] / "shared" / "seeds"
CELL = re.compile(r"^In \[(\d+)\]:\n(.*?)(?=^In \[|\Z)", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"\n```\n(.*?)\n```", re.DOTALL)
NOT_CODE = re.compile(r"^([\[{<]|tensor\(|\w+: |##)", re.MULTILINE)  # what a cell has printed, or a heading
PARAGRAPH = re.compile(r"\n[ \t]*(?:\n|\Z)")


@cache
def cells(seed: int) -> dict[int, str]:
    """The code of each cell of a seed, by its number."""
    assert SEEDS.is_dir(), f"the seeds are read from {SEEDS}, which is not there"
    text = sorted(SEEDS.glob("*.txt"))[seed].read_text()
    found = {int(cell[1]): cell[2] for cell in CELL.finditer(text)}
    if seed > 0:
        return {number: code(rest) for number, rest in found.items()}
    return {number: indented(FENCED.search(rest)[1]) for number, rest in found.items() if FENCED.search(rest)}


def joined(seed: int, *numbers: int) -> str:
    return "\n\n".join(cells(seed)[number] for number in numbers) + "\n"


def imports(seed: int, number: int) -> str:
    """The imports of a cell, which the cells below it need where they stand alone."""
    lines = cells(seed)[number].splitlines()
    return "".join(f"{line}\n" for line in lines if line.startswith(("import ", "from ")))


def line_of(text: str, start: str) -> int:
    """The number of the first line that starts so, however deep it stands."""
    return next(at for at, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith(start))


def code(text: str) -> str:
    """The cell without what it printed and the prose below it: the most paragraphs that are a program."""
    shown = NOT_CODE.search(text)
    text = text[: shown.start()] if shown else text
    for end in reversed([found.start() for found in PARAGRAPH.finditer(text)]):
        if is_program(text[:end]):
            return text[:end]
    raise AssertionError(f"no program in {text!r}")


def is_program(text: str) -> bool:
    try:
        return bool(ast.parse(text).body)
    except SyntaxError:
        return False


def indented(text: str) -> str:
    """A cell of the first seed, whose indentation is lost: the second has nearly the same cells, with theirs."""
    lines = text.splitlines()
    twins = [{line.strip(): line for line in twin.splitlines()} for twin in cells(1).values()]
    twin = max(twins, key=lambda twin: len(twin.keys() & set(lines)))
    return "\n".join(twin.get(line, line) for line in lines)
