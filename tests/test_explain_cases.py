"""Every row of the catalogue: the cause that is found, and the lines that it names, those and no other."""

import re
import warnings

import pytest
import torch

import backprobe as bp
from explain_cases import BLOCKS, ERRORS, FUNCTIONS, WORDS, W, X
from goldens import golden

BESIDE = ("made_again", "unused", "differentiated")
NOTED = ("computed, and not used for an output: ", "nothing recorded leads to an output from: ",
         "only the derivative is used of: ")  # fmt: skip
LINE = re.compile(r"explain_cases\.py:(\d+): ")
pytestmark = pytest.mark.filterwarnings(
    "ignore:Converting a tensor with requires_grad=True to a scalar", "ignore:None of the inputs have requires_grad"
)


def arguments():
    return torch.tensor(X, requires_grad=True), torch.tensor(W, requires_grad=True)


def each(cases):
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


def check(report, case):
    assert tuple(finding.kind for finding in report.findings) == case.kinds, str(report)
    assert sorted({finding.source.line for finding in report.findings}) == case.lines(), str(report)
    assert all(finding.remedy for finding in report.findings)


@each(FUNCTIONS)
def test_a_function(case):
    report = bp.explain(bp.probe(case.program)(*arguments()), case.asked)
    check(report, case)
    golden("explain", report)


@each(FUNCTIONS)
def test_a_function_whose_recording_was_saved(case, tmp_path):
    recording = bp.probe(case.program)(*arguments())
    recording.save(tmp_path / "saved")
    check(bp.explain(bp.load(tmp_path / "saved", to="numpy"), case.asked), case)


@each(FUNCTIONS)
def test_the_whole_recording_of_a_function_has_the_cause_as_well(case):
    recording = bp.probe(case.program)(*arguments())
    report = bp.explain(recording)
    if case.kinds[0] in BESIDE:  # no argument's gradient is missing for it
        assert report.ok
        assert any(
            note.startswith(NOTED) and case.asked in re.split(r"[ ,]+", note.partition(": ")[2])
            for note in report.notes
        )
    elif recording[case.asked].status == "not_connected":
        assert {*case.kinds} <= {finding.kind for finding in report.findings}
        assert {*case.lines()} <= {finding.source.line for finding in report.findings}


@each(FUNCTIONS)
def test_reading_the_missing_gradient_names_the_first_line(case):
    entry = bp.probe(case.program)(*arguments())[case.asked]
    if entry.status == "ok" or case.kinds[0] in BESIDE:
        return
    with pytest.raises(bp.NoGradient) as caught:
        entry.grad
    assert f"explain_cases.py:{min(case.lines())}: " in str(caught.value)
    assert f"bp.explain(rec, {case.asked!r})" in caught.value.next


@each(BLOCKS)
def test_a_block(case):
    report = bp.explain(case.program(*arguments(), bp.probe), case.asked)
    check(report, case)
    golden("explain", report)


@each(ERRORS)
def test_an_error(case):
    with pytest.raises(RuntimeError) as bare, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case.program(*arguments(), bare_block)
    with pytest.raises(RuntimeError) as caught:
        case.program(*arguments(), bp.probe)
    assert (type(caught.value), caught.value.args) == (type(bare.value), bare.value.args)
    (_, note) = caught.value.__notes__
    said = [text.partition("  # <-")[0] for text in note.splitlines() if "explain_cases.py:" in text]
    named = {(next(word for word in WORDS if word in text), int(LINE.search(text)[1])) for text in said}
    assert named == {(word, line) for word in WORDS for line in case.lines(word)}, note
    assert note.splitlines()[-1].lstrip().startswith(("next:", "or "))
    golden("explain", note)


class bare_block:
    def __enter__(self):
        return None

    def __exit__(self, *error):
        return None
