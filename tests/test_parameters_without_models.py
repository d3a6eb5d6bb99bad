"""Parameters that are variables of the module and read in functions; and optimizers whose parameters are all frozen."""

import pytest
import torch
from torch import nn

import backprobe as bp
from goldens import golden
from remedied import defined

HEAD = """
import torch
import backprobe as bp
from torch import nn
torch.manual_seed(0)
x, net = torch.randn(8, 4), nn.Linear(4, 1)
scale = torch.tensor(2.0, requires_grad=True)
"""
STEP = """
def train(block):
    optimizer = torch.optim.SGD([scale, *net.parameters()], 0.1)
    with block as rec:
        loss = {loss}
        loss.backward()
        optimizer.step()
    return bp.explain(rec)
"""
READING = {
    "a number in a function": ("def scaled(h):\n    return h * scale.item()", "number"),
    "detached in a function": ("def scaled(h):\n    return h * scale.detach()", "detach"),
    "data in a function that another calls": (
        "def factor():\n    return scale.data * 2\ndef scaled(h):\n    return h * factor()",
        "data",
    ),
    "in a lambda": ("scaled = lambda h: h * scale.detach()", "detach"),
    "in a method of an object": (
        "class Scaling:\n    def __call__(self, h):\n        return h * scale.item()\nscaled = Scaling()",
        "number",
    ),
}


@pytest.mark.parametrize("case", READING)
def test_the_line_of_a_function_that_takes_out_a_global_variable(case, tmp_path):
    functions, kind = READING[case]
    text = HEAD + functions + STEP.format(loss="scaled(net(x)).square().mean()")
    report = defined(text, tmp_path).train(bp.probe())
    (finding,) = report.findings
    assert finding.kind == kind
    assert "scale" in finding.source.text
    assert (finding.lost, finding.consequence) == (("scale",), "scale gets no gradient")
    golden("explain", report)
    assert "make the optimizer after the last change of the model" not in str(report)


@pytest.mark.parametrize("of_model", [True, False])
def test_a_variable_that_is_not_used_is_not_said_to_be_of_a_model_that_changed(of_model, tmp_path):
    program = defined(HEAD + STEP.format(loss="net(x).square().mean()"), tmp_path)
    report = program.train(bp.probe(program.net) if of_model else bp.probe())
    (finding,) = report.findings
    assert finding.kind == "unknown"


def test_an_optimizer_with_a_layer_that_the_model_has_no_more():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 10))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    net[1] = nn.Linear(4, 2)
    with bp.probe() as rec:
        loss = net(torch.ones(1, 4)).square().mean()
        loss.backward()
        optimizer.step()
    new, old = bp.explain(rec).findings
    assert (new.kind, old.kind) == ("not_held", "replaced")
    assert new.facts[0].endswith("net.1.weight, net.1.bias")


@pytest.mark.parametrize("of_model", [True, False])
def test_an_optimizer_that_has_nothing_to_train(of_model):
    net = nn.Linear(4, 1).requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with bp.probe(net) if of_model else bp.probe() as rec:
        loss = net(torch.ones(1, 4)).square().mean()
        try:
            loss.backward()
        except RuntimeError:
            pass
        optimizer.step()
    report = bp.explain(rec)
    assert report.ok is False
    golden("explain", report)
    assert "frozen" in {finding.kind for finding in report.findings}


def test_parameters_that_are_frozen_after_their_step_were_trained():
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with bp.probe() as rec:
        loss = net(torch.ones(1, 4)).square().mean()
        loss.backward()
        optimizer.step()
        net.requires_grad_(False)
    report = bp.explain(rec)
    assert (report.ok, report.heading.partition(";")[0]) == (True, "all 2 parameters got a gradient")


def test_a_frozen_model_that_nothing_trains_is_no_finding():
    net = nn.Linear(4, 1).requires_grad_(False)
    x = torch.ones(1, 4, requires_grad=True)
    with bp.probe() as rec:
        loss = net(x).square().mean()
        loss.backward()
    assert bp.explain(rec).ok


def test_an_optimizer_of_the_wrong_model():
    """The student gets gradients, and the optimizer has the teacher's parameters: both models ran."""
    student, teacher = nn.Linear(4, 2), nn.Linear(4, 2)
    optimizer, x = torch.optim.SGD(teacher.parameters(), 0.1), torch.randn(8, 4)
    with bp.probe() as rec:
        with torch.no_grad():
            wanted = teacher(x)
        loss = (student(x) - wanted).square().mean()
        loss.backward()
        optimizer.step()
    report = bp.explain(rec)
    assert [one.kind for one in report] == ["not_held", "no_grad"]
    assert "student.weight" in report.findings[0].facts[0]


def test_a_loss_through_a_model_of_another_optimizer():
    """The generator's loss gives gradients to the discriminator's parameters too, which have another optimizer."""
    made, judge = nn.Linear(2, 4), nn.Linear(4, 1)
    optimizer, other = torch.optim.SGD(made.parameters(), 0.1), torch.optim.SGD(judge.parameters(), 0.1)
    with bp.probe() as rec:
        loss = judge(made(torch.randn(8, 2)).detach()).square().mean()
        loss.backward()
        optimizer.step()
    assert [one.kind for one in bp.explain(rec)] == ["detach"]
    other.step()
