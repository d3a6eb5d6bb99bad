"""Random programs: none of their lines is blamed, and a line that is put in to cut the graph is found.

The programs cut nothing by themselves, so whatever has no gradient in them is not used. Then, after an assignment,
``u = u.detach()`` is written, and the arguments that have lost their gradients by it must be told that line.
"""

import ast
import inspect
import os
import random
from collections import Counter

import torch

import backprobe as bp
from random_programs.compare import load
from random_programs.interpreter import ARGUMENTS
from random_programs.statements import generate
from sampled import count, drawn

COUNT = int(os.environ.get("RANDOM_PROGRAMS", count(150)))
TRIED = 8  # one program of so many is experimented with
NOT_USED = {"unused", "other_call", "made_again", "not_tensor", "zero_derivative", "added_up"}


def recorded(program, path):
    """The recording of a program; None where PyTorch cannot differentiate it."""
    f = load(program, path)
    names = inspect.signature(f).parameters
    given = [torch.tensor(numbers, dtype=torch.float64) for numbers in ARGUMENTS[: len(names)]]
    try:
        return bp.probe(f)(*given)
    except (RuntimeError, bp.NothingToDifferentiate):
        return None


def with_a_cut(program, chance):
    """The program with one line that cuts the graph, and the number of that line; None where it has none."""
    (function,) = [node for node in ast.parse(program).body if isinstance(node, ast.FunctionDef) and node.name == "f"]
    places = [
        statement
        for statement in function.body
        if isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Name)
        and isinstance(statement.value, ast.BinOp)
    ]
    if not places:
        return None
    chosen = chance.choice(places)
    name, lines = chosen.targets[0].id, program.split("\n")
    lines.insert(chosen.end_lineno, f"    {name} = {name}.detach()")
    return "\n".join(lines), chosen.end_lineno + 1


def programs():
    chance = random.Random(COUNT)
    return chance, (generate(lambda count: chance.randrange(count) if count > 1 else 0) for _ in range(COUNT))


@drawn
def test_no_line_is_blamed_that_cuts_nothing(tmp_path):
    kinds = Counter()
    for at, program in enumerate(programs()[1]):
        recording = recorded(program, tmp_path / f"p{at}.py")
        for name in recording or ():  # each experiment runs the program several times
            found = [finding.kind for finding in bp.explain(recording, name, experiments=at % TRIED == 0).findings]
            assert set(found) <= NOT_USED, f"{name}: {bp.explain(recording, name)}\n{program}"
            kinds.update(found)
    assert kinds["unused"] > COUNT


@drawn
def test_a_line_that_cuts_is_found(tmp_path):
    chance, each = programs()
    cut_off = 0
    for at, program in enumerate(each):
        made = with_a_cut(program, chance)
        before = recorded(program, tmp_path / f"p{at}.py")
        after = None if made is None else recorded(made[0], tmp_path / f"c{at}.py")
        if before is None or after is None:
            continue
        for name in ("x", "z", "y"):
            old, new = before.get(f"{name}#0") or before.get(name), after.get(f"{name}#0") or after.get(name)
            if old is not None and new is not None and (old.status, new.status) == ("ok", "not_connected"):
                cut_off += 1
                found = {(f.kind, f.source.line) for f in bp.explain(after, new.name).findings}
                assert ("detach", made[1]) in found, f"{new.name}: {bp.explain(after, new.name)}\n{made[0]}"
    assert cut_off > COUNT / 20
