"""The share of remedies for NaN that were tried and have cured, of those that `explain` prints.

Run as ``python tests/causes/proven.py [FORM …]``: the programs of `nonfinite_cases.py` and GRIST's bugs of PyTorch,
as functions unless the other form is named: function or block. A remedy is code in the place of other code, as
the table or the generic ones have it; advice in words, as to look at a value, cannot be tried. It is proven where the
finding says what came of it.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "src")]

CODE = re.compile(r"^`[^`]+` instead of `")


def counted(findings):
    """How many findings have a remedy that is code, and how many of these are proven."""
    remedied = [one for one in findings if CODE.match(one.remedy)]
    return len(remedied), sum(bool(one.tried) for one in remedied), [one for one in remedied if not one.tried]


def of_cases(form):
    from birth_forms import in_block, in_function
    from nonfinite_cases import CASES

    for case in CASES:
        yield case.title, {"function": in_function, "block": in_block}[form](case.program, *case.args)


def of_grist(form):
    from grist_cases import BUGS
    from grist_forms import explained

    with tempfile.TemporaryDirectory() as folder:
        for bug in BUGS:
            if bug.framework == "torch":
                yield bug.key, explained(bug, form, Path(folder))


def main(forms):
    """Ask, and print the shares."""
    for form in forms or ["function"]:
        for name, asked in (("nonfinite cases", of_cases), ("grist torch", of_grist)):
            every = [(key, counted(report.findings)) for key, report in asked(form)]
            remedied, proven = (sum(counts[at] for _, counts in every) for at in (0, 1))
            print(f"{name}, {form}: {proven} of {remedied} proven", flush=True)
            for key, (_, _, others) in every:
                for one in others:
                    print(f"- {key}: {one.headline}: {one.remedy[:100]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
