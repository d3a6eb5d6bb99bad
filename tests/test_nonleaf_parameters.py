"""Results in the place of parameters, as of an inner loop that is differentiated: no warning, and true findings.

PyTorch warns whoever reads ``.grad`` of such a result; here every warning is an error.
"""

import pytest
import torch
from torch import nn

import backprobe as bp
from goldens import golden


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0, 2.0]]))

    def forward(self, x):
        return x @ self.weight.T


X = torch.tensor([[1.0, -2.0], [0.5, 3.0], [2.0, 1.0]])


def into_parameters(net, values):
    for (module, name), value in values.items():
        module._parameters[name] = value


def places(net):
    return {(module, name): one for module in net.modules() for name, one in module._parameters.items()}


def inner_steps(net, steps=1, rate=0.1):
    """Steps of gradient descent that are differentiated."""
    for _ in range(steps):
        held = places(net)
        inner = net(X).square().mean()
        grads = torch.autograd.grad(inner, list(held.values()), create_graph=True)
        stepped = {at: one - rate * grad for (at, one), grad in zip(held.items(), grads, strict=True)}
        into_parameters(net, stepped)


def one_weight():
    net = Net()
    leaves = [*net.parameters()]
    inner_steps(net)
    return leaves, (net(X) - 1).square().mean()


def two_steps():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    leaves = [*net.parameters()]
    inner_steps(net, 2)
    return leaves, (net(X) - 1).square().mean()


def one_layer_of_two():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    leaves = [*net.parameters()]
    inner = net(X).square().mean()
    held = {at: one for at, one in places(net).items() if at[0] is net[1]}
    grads = torch.autograd.grad(inner, list(held.values()), create_graph=True)
    into_parameters(net, {at: one - grad for (at, one), grad in zip(held.items(), grads, strict=True)})
    return leaves, (net(X) - 1).square().mean()


def retained():
    net = Net()
    leaves = [*net.parameters()]
    inner_steps(net)
    net._parameters["weight"].retain_grad()
    return leaves, (net(X) - 1).square().mean()


COUNTS = {
    one_weight: "the only parameter",
    two_steps: "all 4 parameters",
    one_layer_of_two: "all 4 parameters",
    retained: "the only parameter",
}


def gradients(program):
    leaves, loss = program()
    loss.backward()
    return loss, leaves


@pytest.mark.parametrize("options", [{}, {"nonfinite": True}, {"partials": True}], ids=str)
@pytest.mark.parametrize("program", COUNTS, ids=lambda one: one.__name__)
def test_a_block_judges_the_leaves_and_reads_no_gradient_of_a_result(program, options):
    loss, bare = gradients(program)
    with bp.probe(**options) as rec:
        found, leaves = gradients(program)
    missing = str(bp.explain(rec))

    assert torch.equal(found, loss)
    assert all(torch.equal(one.grad, other.grad) for one, other in zip(leaves, bare, strict=True))
    assert "no gradient" not in missing.partition("\n")[0]
    assert f"{COUNTS[program]} got a gradient" in missing or "nonfinite" in options


def test_a_leaf_that_gets_none_is_said():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    leaves = [*net.parameters()]
    with bp.probe() as rec:
        h = net[0](X).detach()
        inner = net[1](h).square().mean()
        held = {(net[1], name): one for name, one in net[1]._parameters.items()}
        grads = torch.autograd.grad(inner, list(held.values()), create_graph=True)
        into_parameters(net, {at: one - grad for (at, one), grad in zip(held.items(), grads, strict=True)})
        loss = net[1](h).sum()
        loss.backward()

    assert [one.grad is None for one in leaves] == [True, True, False, False]
    assert bp.explain(rec).heading == "2 of 4 parameters got no gradient"
    assert "net.0.weight" in str(bp.explain(rec))


def test_a_network_that_computes_the_weights_of_another():
    net, made = Net(), nn.Linear(1, 2, bias=False)
    with bp.probe() as rec:
        net._parameters["weight"] = made(torch.ones(1, 1))
        loss = net(X).sum()
        loss.backward()

    assert made.weight.grad is not None
    assert bp.explain(rec).heading == "the only parameter got a gradient"


def test_an_optimizer_of_results():
    """As with ``differentiable=True``, where the program gives them their gradients."""
    leaf = nn.Parameter(torch.tensor([1.0, 2.0]))
    with bp.probe() as rec:
        made = leaf.clone()
        optimizer = torch.optim.SGD([made], 0.1, differentiable=True)
        made.grad = made * 2
        optimizer.step()
        loss = made.sum()
        loss.backward()

    assert leaf.grad is not None
    assert "no gradient" not in bp.explain(rec).heading


def test_a_guard_of_such_a_model():
    net = Net()
    inner_steps(net)
    with bp.guard(net):
        net(X).sum().backward()


def test_a_watch_of_such_a_model_says_why_there_is_no_gradient(tmp_path):
    net, made = Net(), nn.Linear(1, 2, bias=False)
    net._parameters["weight"] = made(torch.ones(1, 1))
    with bp.watch(net, tmp_path / "run") as run:
        for _ in range(2):
            (net(X) - 1).square().mean().backward(retain_graph=True)
            run.step()
    report = str(bp.open_run(tmp_path / "run").gaps)

    golden("explain", report)
    assert ".grad was None" not in report


def test_a_watch_with_an_optimizer_of_what_the_model_held_before(tmp_path):
    net = Net()
    outer = torch.optim.SGD(net.parameters(), 0.1)
    leaf = net.weight
    with bp.watch(net, tmp_path / "run", optimizer=outer, what=("value", "grad", "param", "update"), clipping=True):
        for _ in range(2):
            net._parameters["weight"] = leaf
            inner_steps(net)
            (net(X) - 1).square().mean().backward()
            outer.step()
            outer.zero_grad()

    assert ".grad was None" not in str(bp.open_run(tmp_path / "run").gaps)
