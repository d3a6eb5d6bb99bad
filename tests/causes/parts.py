"""What each part of the reading of source text buys, in rows of the table of NaN and Inf: one is off at a time.

Run as ``python tests/causes/parts.py [PART …] [--group GROUP]``: without words all `PARTS` are switched off in turn and
the groups are those of PyTorch. Printed for each part are the rows that are worse than with all of them, as
`tests/causes/table.py` compares rows, and how many those are. Each part runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "frameworks"), str(HERE.parent.parent / "src")]

from causes.rows import KEY, Row  # noqa: E402
from causes.table import worse  # noqa: E402

WITHIN = "backprobe.explain.nonfinite"
GROUPS = ("nonfinite cases", "nonfinite statements", "grist torch")

PARTS: Mapping[str, str] = {
    # all of a kind
    "evaluation of parts of a line": "computation.Computation._evaluated = lambda self, term: "
    "term.constant if term.is_constant else None if term.op or term.at is None else self._numbers(term.at)",
    "functions of NumPy that are not ufuncs": "arithmetic.OTHERS = {}; arithmetic.MEANINGS = {}",
    "functions of the framework": "computation.unknown_to_numpy; evidence.Evidence._evaluated = lambda self, term, "
    "numbers, result: computation.Computation(term, numbers, result, self.record.framework)",
    "statements that are no expressions": "sources.computed = evidence.computed = lambda entry: None",
    "hidden parts of a line": "computation.Computation.hidden = lambda self: iter(())",
    # reasons
    "reasons number by number": "mechanism.CHECKS = {}",
    "reasons of sums and matrices": "mechanism._of_all = lambda *_: None",
    "reasons of matrices": "mechanism._of_matrix = lambda *_: None",
    "overflow": "mechanism._beyond = lambda *_: None",
    "reasons by the result": "mechanism._by_result = lambda *_: None",
    "poles": "mechanism.POLES.clear()",
    "products of an infinite gradient": "mechanism.PRODUCTS = frozenset()",
    # remedies
    "remedies of several operations": "remedies.CHAINS = ()",
    "remedies of one operation": "remedies.SINGLE = ()",
    "what comes after a remedy": "remedies.Remedies._moves_on = lambda *_: False",
    "remedies for rounding alone": "remedies._is_rounding = lambda *_: True",
    "operations that change nothing": "formulas._Matcher._changes_nothing = lambda *_: False",
    "statements that write into their operand": "remedies._augmented = lambda *_: None",
    # names
    "other names of operations": "terms.ALSO.clear()",
    "layers that are one operation": "terms.LAYERS = frozenset()",
    "orders of calls": "terms._orders = lambda node: []",
    "calls of objects": "sources._called_objects = lambda *_: {}",
    "attributes": "sources._attributes = lambda *_: {}",
    "turns of comprehensions": "sources._turns = lambda *_: {}; terms._Reader._turns = lambda self, each, turns, text: "
    "terms.Term(text=text)",
    "results that the line does not spell": "sources._returned_unseen = lambda *_: []",
    "branches of where": "backward_births.BackwardPass._left_out = lambda *_: []",
    "one of several lines, by the numbers": "backward_births.BackwardPass._has_pole = "
    "backward_births.BackwardPass._multiplies_by_inf = lambda *_: False",
}
"""What is assigned to switch a part off."""


def switch_off(part):
    """Take one part away, in this process."""
    import importlib

    names = (
        "arithmetic",
        "backward_births",
        "computation",
        "evidence",
        "formulas",
        "forward_births",
        "mechanism",
        "remedies",
        "sources",
        "statements",
        "terms",
    )
    modules = {name: importlib.import_module(f"{WITHIN}.{name}") for name in names}
    exec(PARTS[part], modules)


def asked(part, groups):
    """The rows of some groups without a part; with all parts where that is empty."""
    paths = os.pathsep.join(filter(None, [*sys.path[:3], os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", __file__, "--rows", part, *(f"--group={one}" for one in groups)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{part}: {ran.stdout}{ran.stderr}")
    return [Row(*each) for each in json.loads(ran.stdout.splitlines()[-1])]


def main(words):
    """Ask with all parts, and without each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--rows")
    given = parser.parse_args(words)
    groups = given.group or GROUPS
    if given.rows is not None:
        from causes.catalogues import GROUPS as asking

        if given.rows:
            switch_off(given.rows)
        print(json.dumps([row for group in groups for row in asking[group]()]))
        return
    before = asked("", groups)
    for part in given.parts or PARTS:
        after = {KEY(row): row for row in asked(part, groups)}
        changed = [(row, worse(row, after.get(KEY(row)))) for row in before]
        ways = Counter(way for _, why in changed for way in why.split(", ") if way)
        counted = ", ".join(f"{count} in {way}" for way, count in ways.items())
        print(f"{part}: {sum(bool(why) for _, why in changed)} of {len(before)} rows are worse: {counted or '-'}")
        for row, why in changed:
            if why:
                print(f"- {' / '.join(KEY(row))}: {why}")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
