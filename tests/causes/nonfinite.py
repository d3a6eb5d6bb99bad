"""The births of NaN and Inf that the table asks: of each the line, the reason, and whether its remedy cures."""

from __future__ import annotations

import inspect
import re
import tempfile
from pathlib import Path

from causes.rows import CONSEQUENCES, of_findings


def reasons(report):
    """The kinds of the births of a report, each with its reason."""
    found = (one for one in report.findings if one.kind not in CONSEQUENCES)
    return ", ".join(one.kind + (f" {one.fields['why']}" if one.fields.get("why") else "") for one in found) or "none"


def row(key, report, marked, file, **judged):
    """The row of a report on NaN and Inf."""
    made = of_findings(key, [one.to_dict() for one in report.findings], marked, file, **judged)
    return made._replace(kinds=reasons(report))


def cases():
    """The programs of the page on NaN, as functions and in blocks."""
    from birth_forms import BIRTHS, in_block, in_function
    from nonfinite_cases import CASES

    for case in CASES:
        for form, explained in (("function", in_function), ("block", in_block)):
            report = explained(case.program, *case.args)
            births = [(one.kind, one.name, one.headline) for one in report.of_kind(*BIRTHS)]
            stated = [(kind, name) for kind, name, _ in case.births]
            right = [one[:2] for one in births] == stated if form == "function" else len(births) == len(stated)
            right = right and all(why in one[2] for one, (_, _, why) in zip(births, case.births, strict=True))
            marked = {*case.lines("forward"), *case.lines("backward")}
            key = "nonfinite_cases", "torch", form, case.title
            yield row(key, report, marked, "nonfinite_cases.py", right=right)


def statements():
    """Births in statements that no expression computes."""
    from torch import tensor

    from birth_forms import BIRTHS, in_block, in_function
    from test_nonfinite_statements import STATEMENTS

    for program, why in STATEMENTS:
        _, first = inspect.getsourcelines(program)
        text = inspect.getsource(program).splitlines()
        marked = [first + at for at, line in enumerate(text) if re.search(r"log|/|\[1 /", line)][:1]
        for form, explained in (("function", in_function), ("block", in_block)):
            report = explained(program, tensor([0.0, 2.0]))
            births = report.of_kind(*BIRTHS)
            right = bool(births) and births[0].fields.get("why") == why
            key = "nonfinite_statements", "torch", form, program.__name__
            yield row(key, report, marked, "test_nonfinite_statements.py", right=right)


def grist(framework):
    """GRIST's bugs in each form: the line, and whether the remedy cures, as `tests/grist_count.py` counts them."""
    from grist_cases import BUGS
    from grist_forms import FORMS, verdict

    with tempfile.TemporaryDirectory() as folder:
        for bug in BUGS:
            for form in FORMS[framework] if bug.framework == framework else ():
                first, (line, why, cures), report = verdict(bug, form, Path(folder))
                made = row(("grist", framework, form, bug.key), report, [], "", right=why, cures=cures, found=())
                yield made._replace(line=f"{int(line)} of 1", others="0" if first else "")
