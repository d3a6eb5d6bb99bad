"""Every row of the catalogue: the cause that is found, and the line that it names."""

import pytest
import torch

import backprobe as bp
from explain_cases import BLOCKS, ERRORS, FUNCTIONS, W, X


def arguments():
    return torch.tensor(X, requires_grad=True), torch.tensor(W, requires_grad=True)


def names(cases):
    return {"argvalues": cases, "ids": [case.name for case in cases]}


def check(report, case):
    assert [finding.kind for finding in report.findings] == list(case.kinds), str(report)
    assert sorted({f.source.line for f in report.findings if f.source is not None}) == case.lines() or not case.lines()


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True to a scalar")
@pytest.mark.parametrize("case", **names(FUNCTIONS))
def test_a_function(case):
    check(bp.explain(bp.probe(case.program)(*arguments()), case.asked), case)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True")
@pytest.mark.parametrize("case", **names(BLOCKS))
def test_a_block(case):
    check(bp.explain(case.program(*arguments(), bp.probe), case.asked), case)


@pytest.mark.parametrize("case", **names(ERRORS))
def test_an_error(case):
    with pytest.raises(RuntimeError) as caught:
        case.program(*arguments(), bp.probe)
    notes = "\n".join(caught.value.__notes__)
    print(notes)
    for word in ("made", "saved", "written", "survived", "at", "'a'", "'q'", "nothing leads"):
        for line in case.lines(word):
            assert [one for one in notes.splitlines() if word in one and f"explain_cases.py:{line}: " in one], (
                word,
                line,
                notes,
            )
