"""Every program of known births: the kind, the name and the line of each, in the function form and in a block."""

import inspect

import pytest
import torch

import backprobe as bp
from birth_forms import BIRTHS
from nonfinite_cases import CASES

by_title = pytest.mark.parametrize("case", CASES, ids=lambda case: case.program.__name__)
pytestmark = pytest.mark.filterwarnings("ignore:var()")  # the variance of one number, which is what a case is about


def differentiated(args):
    return [arg.clone().requires_grad_() for arg in args]


def test_there_are_enough_of_them():
    kinds = [kind for case in CASES for kind, *_ in case.births]
    assert len(CASES) >= 45
    assert kinds.count("born") >= 25
    assert kinds.count("born_backward") >= 12


@by_title
def test_kind_name_and_reason(case):
    report = bp.explain(bp.probe(case.program, nonfinite=True)(*case.args))
    found = [finding for finding in report.findings if finding.kind in BIRTHS]
    assert [(finding.kind, finding.name) for finding in found] == [(kind, name) for kind, name, _ in case.births]
    for finding, (_, _, said) in zip(found, case.births, strict=True):
        assert said in finding.headline
    assert report.ok == (not case.births)


@by_title
def test_line(case):
    report = bp.explain(bp.probe(case.program, nonfinite=True)(*case.args))
    for kind, word in ((("born", "came_in"), "forward"), (("born_backward", "came_in_backward"), "backward")):
        found = {(finding.source.file, finding.source.line) for finding in report.of_kind(*kind)}
        assert found == {(inspect.getsourcefile(case.program), line) for line in case.lines(word)}


@by_title
def test_line_in_a_block(case):
    args = differentiated(case.args)
    with bp.probe(nonfinite=True) as rec:
        output = case.program(*args)
        output.backward(torch.ones_like(output))
    found = {finding.source.line for finding in bp.explain(rec).of_kind(*BIRTHS) if finding.source is not None}
    expected = {*case.lines("forward"), *case.lines("backward")}
    if case.program.__name__ == "custom":  # a block looks into the forward of a Function
        text = inspect.getsource(inspect.getmodule(case.program))
        expected = {1 + text.partition("Broken = ")[0].count("\n")}
    if case.program.__name__ == "nan_argument":  # which no line of the block computed
        expected = set()
    assert found == expected


@by_title
def test_nothing_is_observed(case):
    args, plain = differentiated(case.args), differentiated(case.args)
    with bp.probe(nonfinite=True):
        output = case.program(*args)
        output.backward(torch.ones_like(output))
    expected = case.program(*plain)
    expected.backward(torch.ones_like(expected))
    torch.testing.assert_close(output, expected, rtol=0, atol=0, equal_nan=True)
    for arg, other in zip(args, plain, strict=True):
        torch.testing.assert_close(arg.grad, other.grad, rtol=0, atol=0, equal_nan=True)
