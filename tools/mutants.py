"""Planted faults: which of them the tests notice, before and after the tests were changed.

    python tools/mutants.py plant faults.json --seed 0 --count 300   # choose them, and run the tests of each
    python tools/mutants.py again faults.json later.json             # the same faults, found again by their text
    python tools/mutants.py again faults.json later.json --marks "not long and not sweep"   # what make test notices

The tests of a line are those that ran it: ``make contexts`` writes them down. A few of them are run, by the seed, and a
fault is noticed if one fails. The others might notice it as well: two runs can be compared, but neither is a score.
Each fault changes one expression in a copy of ``src`` and leaves all line numbers as they are, because backprobe reads
its own frames. Tools that rewrite whole functions don't, so none of them is used.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "backprobe"
CASES = 3  # of a parametrized test that are run
SECONDS = 120  # after which a fault counts as noticed: it loops

COMPARED = {
    ast.Eq: ast.NotEq,
    ast.Lt: ast.LtE,
    ast.Gt: ast.GtE,
    ast.LtE: ast.Lt,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.NotEq: ast.Eq,
}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


@dataclass(frozen=True)
class Fault:
    """One changed expression: ``old`` in this function of this file, the so-manieth of its like there, as ``new``."""

    file: str
    function: str
    kind: str
    old: str
    new: str
    number: int


@dataclass(frozen=True)
class Place:
    """Where a fault lies in the text of its file, in lines from 1 and bytes of them."""

    line: int
    column: int
    end_line: int
    end_column: int


def faulty(node: ast.AST) -> tuple[str, ast.AST] | None:
    """The kind of a fault, and an expression with it in place of this node; None where none is planted."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARED:
            return "comparison", ast.Compare(node.left, [COMPARED[type(operator)]()], node.comparators)
        case ast.BoolOp():
            return "and, or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            return "not", node.operand
        case ast.BinOp(op=operator) if type(operator) in COMPUTED:
            return "arithmetic", ast.BinOp(node.left, COMPUTED[type(operator)](), node.right)
        case ast.IfExp():
            return "condition", ast.IfExp(node.test, node.orelse, node.body)
        case ast.Constant(value=bool(value)):
            return "constant", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            return "number", ast.Constant(value + 1)
        case ast.Constant(value=str(value)) if value.strip():
            return "text", ast.Constant(value + "XX")
    return None


def planted(file: Path) -> Iterator[tuple[Fault, Place]]:
    """All faults that can be planted in a file: in its functions, not in docstrings, annotations and f-strings."""
    tree, text = ast.parse(file.read_text()), file.read_text()
    seen: dict[tuple[str, ...], int] = defaultdict(int)

    def walk(node: ast.AST, function: str) -> Iterator[tuple[Fault, Place]]:
        inside = function
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inside = f"{function}.{node.name}".lstrip(".")
        change = faulty(node) if function else None
        if change is not None:
            key = (inside, change[0], ast.get_source_segment(text, node) or "")
            fault = Fault(str(file.relative_to(PACKAGE)), *key, ast.unparse(change[1]), seen[key])
            seen[key] += 1
            yield fault, Place(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.JoinedStr | ast.match_case):
                continue
            for child in value if isinstance(value, list) else [value]:
                is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
                if isinstance(child, ast.AST) and not is_docstring:
                    yield from walk(child, inside)

    yield from walk(tree, "")


def with_fault(file: Path, fault: Fault, place: Place) -> str:
    """The text of a file with a fault in it, each line where it was."""
    lines = file.read_bytes().splitlines(keepends=True)
    first, last = lines[place.line - 1], lines[place.end_line - 1]
    changed = f"({fault.new}{chr(10) * (place.end_line - place.line)})".encode()
    lines[place.line - 1 : place.end_line] = [first[: place.column], changed, last[place.end_column :]]
    return b"".join(lines).decode()


def runners(file: Path) -> dict[str, dict[int, list[str]]]:
    """The test functions that run each line of each file, as pytest spells them: what ``contexts.py`` wrote down."""
    read = json.loads(file.read_text())
    return {name: {int(line): tests for line, tests in lines.items()} for name, lines in read.items()}


def chosen(tests: dict[str, dict[int, list[str]]], seed: int, count: int) -> list[tuple[Fault, Place]]:
    """Faults in lines that a test runs: as many of each kind, as far as there are."""
    random_ = random.Random(seed)
    kinds: dict[str, list[tuple[Fault, Place]]] = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        run = tests.get(str(file.relative_to(PACKAGE)), {})
        for fault, place in planted(file):
            if run.get(place.line):
                kinds[fault.kind].append((fault, place))
    for faults in kinds.values():
        random_.shuffle(faults)
    found: list[tuple[Fault, Place]] = []
    while len(found) < count and any(kinds.values()):
        found += [faults.pop() for faults in kinds.values() if faults]
    return found[:count]


def is_noticed(fault: Fault, place: Place, tests: list[str], folder: Path, marks: str = "") -> bool:
    """Does one of the tests with these marks fail with the fault in the copy of ``src`` in this folder?"""
    path = folder / "backprobe" / fault.file
    kept = path.read_text()
    path.write_text(with_fault(PACKAGE / fault.file, fault, place))
    environment = os.environ | {"PYTHONPATH": f"{folder}:{ROOT / 'tools'}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "mutants", "-p", "no:xdist", "-m", marks, *tests]
    try:
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(kept)
    if run.returncode not in (0, 1, 2, 3, 5):  # 2 and 3: the package no longer imports, or a plugin of the tests fails
        raise RuntimeError(f"{fault}\n{run.stdout}\n{run.stderr}")
    return run.returncode not in (0, 5)  # 5: none of the tests has these marks


@pytest.hookimpl(trylast=True)  # of those that have the marks
def pytest_collection_modifyitems(items: list) -> None:
    """As a plugin of pytest: run the first cases of each parametrized test alone."""
    cases: dict[str, int] = defaultdict(int)
    kept = []
    for item in items:
        cases[item.nodeid.partition("[")[0]] += 1
        if cases[item.nodeid.partition("[")[0]] <= CASES:
            kept.append(item)
    items[:] = kept


def run(
    faults: list[tuple[Fault, Place]],
    tests: dict[str, dict[int, list[str]]],
    asked: argparse.Namespace,
    before: dict[Fault, list[str]] | None = None,
) -> list[dict]:
    """What each fault came to, until the minutes are over. The tests that were run before are taken first."""
    before = before or {}
    folders: SimpleQueue[Path] = SimpleQueue()
    ends = time.monotonic() + 60 * asked.minutes

    def one(fault: Fault, place: Place) -> dict | None:
        if time.monotonic() > ends:
            return None
        those = tests[fault.file][place.line]
        kept = [test for test in before.get(fault, ()) if test in those]
        others = [test for test in those if test not in kept]
        random.Random(f"{asked.seed} {fault}").shuffle(others)
        some = [*kept, *others][: asked.tests]
        folder = folders.get()
        try:
            noticed = is_noticed(fault, place, some, folder, asked.marks)
        finally:
            folders.put(folder)
        print("." if noticed else "-", end="", flush=True)
        return asdict(fault) | {"line": place.line, "tests": some, "noticed": noticed}

    with tempfile.TemporaryDirectory() as top, ThreadPoolExecutor(asked.jobs) as pool:
        for number in range(asked.jobs):
            shutil.copytree(ROOT / "src", Path(top) / str(number), ignore=shutil.ignore_patterns("__pycache__"))
            folders.put(Path(top) / str(number))
        found = [each for each in pool.map(one, *zip(*faults, strict=True)) if each is not None]
    print()
    return found


def plant(asked: argparse.Namespace, tests: dict[str, dict[int, list[str]]]) -> None:
    """Choose faults, run them, and write what they came to."""
    found = run(chosen(tests, asked.seed, asked.count), tests, asked)
    asked.faults.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{sum(each['noticed'] for each in found)} of {len(found)} faults were noticed")


def again(asked: argparse.Namespace, tests: dict[str, dict[int, list[str]]]) -> int:
    """Run the faults that were noticed once more, in the source text and by the tests of today."""
    before = [each for each in json.loads(asked.faults.read_text()) if each["noticed"]]
    names = Fault.__dataclass_fields__
    today = {}
    for file in {each["file"] for each in before if (PACKAGE / each["file"]).exists()}:
        today.update(planted(PACKAGE / file))
    faults = [Fault(**{name: each[name] for name in names}) for each in before]
    there = [(fault, today[fault]) for fault in faults if fault in today]
    untested = [each for each in there if not tests.get(each[0].file, {}).get(each[1].line)]
    ran = dict(zip(faults, (each["tests"] for each in before), strict=True))
    found = run([each for each in there if each not in untested], tests, asked, ran)
    asked.later.write_text(json.dumps(found, indent=1) + "\n")
    print(
        f"of {len(before)} faults that were noticed, {sum(each['noticed'] for each in found)} are noticed again, "
        f"{len(before) - len(there)} are no longer in the source text"
    )
    for fault, place in untested:
        print(f"no test runs {fault.file}:{place.line}")
    for each in found:
        if not each["noticed"]:
            print(f"not noticed: {each['file']}:{each['line']} {each['old']!r} as {each['new']!r}, by", *each["tests"])
    return bool(untested) or not all(each["noticed"] for each in found)


def main() -> int | None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for verb in (plant, again):
        options = verbs.add_parser(verb.__name__, help=verb.__doc__)
        options.set_defaults(verb=verb)
        options.add_argument("faults", type=Path)
        if verb is again:
            options.add_argument("later", type=Path)
        options.add_argument(
            "--contexts", type=Path, default=ROOT / ".contexts.json", help="which tests run which lines"
        )
        options.add_argument("--seed", type=int, default=0)
        options.add_argument("--count", type=int, default=300)
        options.add_argument("--tests", type=int, default=6, help="most test functions that are run for a fault")
        options.add_argument("--marks", default="", help="which tests, as -m of pytest has it")
        options.add_argument("--minutes", type=float, default=30)
        options.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    return asked.verb(asked, runners(asked.contexts))


if __name__ == "__main__":
    sys.exit(main())
