"""Parameters that have their gradients and are taken out of the graph beside that, in a block around their model."""

import pytest
import torch

import backprobe as bp


def network():
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))


def by_a_comprehension(net, x):
    with bp.probe(net) as rec:
        penalty = sum(q.data.pow(2).sum() for q in net.parameters())
        loss = net(x).square().mean()
        (loss + 0.01 * penalty).backward()
    return rec, "net.parameters()"


def by_a_loop(net, x):
    with bp.probe(net) as rec:
        penalty = 0.0
        for q in net.parameters():
            penalty = penalty + q.data.abs().sum()
        total = net(x).square().mean() + 0.01 * penalty
        total.backward()
    return rec, "q"


def by_name(net, x):
    with bp.probe(net) as rec:
        decay = net[0].weight.norm().item()
        loss = net(x).square().mean() + 0.01 * decay
        loss.backward()
    return rec, "net[0].weight.norm()"


@pytest.mark.parametrize("program", [by_a_comprehension, by_a_loop, by_name])
def test_a_penalty_that_passes_no_gradient_on_is_a_note(program):
    rec, value = program(network(), torch.ones(2, 4))
    for report in (bp.explain(rec), bp.explain(rec, "0.weight")):
        assert report.ok
        (note,) = [one for one in report.notes if "intended?" in one]
        assert note.startswith("no gradient flows back along `")
        assert note.endswith(f"to `{value}`: intended?")
        assert "test_cuts_beside.py:" in note


def to_show(net, x):
    with bp.probe(net) as rec:
        norm = sum(q.data.norm() for q in net.parameters())
        loss = net(x).square().mean()
        loss.backward()
        print(norm, loss.item())
    return rec


def with_its_gradient(net, x):
    with bp.probe(net) as rec:
        penalty = sum(q.pow(2).sum() for q in net.parameters())
        loss = net(x).square().mean() + 0.01 * penalty
        loss.backward()
    return rec


def updated_by_hand(net, x):
    with bp.probe(net) as rec:
        loss = net(x).square().mean()
        loss.backward()
        for q in net.parameters():
            q.data -= 0.1 * q.grad
    return rec


@pytest.mark.parametrize("program", [to_show, with_its_gradient, updated_by_hand])
def test_what_does_not_go_on_to_backward_is_none(program):
    rec = program(network(), torch.ones(2, 4))
    assert not any("intended?" in note for note in bp.explain(rec).notes)
    assert not rec.notes


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        size = self.weight.data.norm()
        return (x * self.weight).sum() / size


def test_in_a_forward_a_parameter_is_known_by_its_attribute():
    net = Scaled()
    with bp.probe(net) as rec:
        net(torch.ones(4)).backward()
    report = bp.explain(rec, "weight")
    assert report.ok
    assert any(note.endswith("to `self.weight`: intended?") for note in report.notes)
