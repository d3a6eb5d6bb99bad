"""Plain tensors, buffers and plain lists in the place of parameters: what is said of them, and the cure."""

import pytest

from commands import invoked
from goldens import golden

PROGRAM = """
import torch
from torch import nn
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        {made}

    def forward(self, x):
        return {computed}

net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(2):
    loss = net(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LOST = {
    "a plain tensor": (
        "self.scale = torch.ones(4, requires_grad=True)",
        "self.layer(x) * self.scale",
        "'net.scale' is a plain tensor, not a parameter: it gets gradients, but no optimizer has it",
        "self.scale = nn.Parameter(...), and",
        "self.scale = nn.Parameter(torch.ones(4, requires_grad=True))",
    ),
    "a result of a parameter": (
        "self.scale = nn.Parameter(torch.ones(4)) * 0.1",
        "self.layer(x) * self.scale",
        "'net.scale' is computed once, where it is assigned, from a leaf that gets gradients and that no optimizer has",
        "self.scale = nn.Parameter(...) around all of",
        "self.scale = nn.Parameter(nn.Parameter(torch.ones(4)) * 0.1)",
    ),
    "plain tensors in a list": (
        "self.scales = [torch.ones(4, requires_grad=True)]",
        "self.layer(x) * self.scales[0]",
        "'net.scales' is a plain list: its parameters get gradients, but no optimizer has them",
        "self.scales = nn.ParameterList(...), and",
        "self.scales = nn.ParameterList([torch.ones(4, requires_grad=True)])",
    ),
    "modules in a dict": (
        "self.heads = {'a': nn.Linear(4, 1)}",
        "self.heads['a'](self.layer(x))",
        "'net.heads' is a plain dict: its parameters get gradients, but no optimizer has them",
        "self.heads = nn.ModuleDict(...), and",
        "self.heads = nn.ModuleDict({'a': nn.Linear(4, 1)})",
    ),
}


def explained(tmp_path, made, computed, text=PROGRAM):
    script = tmp_path / "train.py"
    script.write_text(text.replace("{made}", made).replace("{computed}", computed))
    status, printed, _ = invoked("explain", str(script))
    return status, printed


@pytest.mark.parametrize("case", LOST)
def test_what_gets_a_gradient_and_is_no_parameter_is_found_and_the_remedy_cures(case, tmp_path):
    made, computed, headline, remedy, cured = LOST[case]
    status, printed = explained(tmp_path, made, computed)
    assert (status, headline in printed, f"next:  {remedy} " in printed) == (1, True, True), printed
    status, printed = explained(tmp_path, cured, computed)
    assert status == 0, printed
    assert "parameters got a gradient" in printed


@pytest.mark.parametrize(
    ("made", "what"),
    [("self.shift = torch.zeros(4)", "a plain tensor"), ("self.register_buffer('shift', torch.zeros(4))", "a buffer")],
)
def test_what_requires_no_gradient_and_is_no_parameter_is_a_note(made, what, tmp_path):
    status, printed = explained(tmp_path, made, "self.layer(x) + self.shift")
    note = f"note: used, but not trained, since it is not a parameter: 'net.shift' ({what}); nn.Parameter(...) in its"
    assert (status, note in printed) == (0, True), printed


QUIET = {
    "a buffer that forward writes": (
        "self.register_buffer('mean', torch.zeros(4))",
        "self.layer(x) - self.mean.lerp_(x.mean(0).detach(), 0.1)",
    ),
    "one that another method sets": (
        "pass",
        "self.layer(x) * self.set(x)\n    def set(self, x):\n"
        "        self.kept = x.requires_grad_()\n        return self.kept",
    ),
    "whole numbers": ("self.order = torch.arange(4)", "self.layer(x)[:, self.order]"),
    "a buffer of code that is generated": (
        "root, graph = nn.Module(), torch.fx.Graph()\n"
        "        root.register_buffer('shift', torch.ones(4))\n"
        "        graph.output(graph.call_function(torch.add, (graph.placeholder('x'), graph.get_attr('shift'))))\n"
        "        self.made = torch.fx.GraphModule(root, graph)",
        "self.layer(self.made(x))",
    ),
    "what forward does not read": ("self.classes = torch.ones(4)", "self.layer(x)"),
    "a network that is not to be trained": (
        "self.other = [nn.Linear(4, 4).requires_grad_(False)]",
        "self.other[0](self.layer(x))",
    ),
    "inputs that are differentiated": (
        "self.points = torch.ones(4, requires_grad=True)",
        "self.slope(self.layer(self.points))\n"
        "    def slope(self, y):\n"
        "        return torch.autograd.grad(y.sum(), self.points, create_graph=True)[0]",
    ),
    "a leaf that the program updates itself": (
        "self.bias = torch.zeros(4, requires_grad=True)",
        "self.layer(x) + self.bias\n    def follow(self):\n        self.bias.data -= 0.1 * self.bias.grad",
    ),
}


@pytest.mark.parametrize("case", QUIET)
def test_of_what_is_meant_nothing_is_said(case, tmp_path):
    _, printed = explained(tmp_path, *QUIET[case])
    assert "optimizer has" not in printed
    assert "not a parameter" not in printed


OTHERS = {
    "made for another head": (
        "optimizer = torch.optim.SGD(net.parameters(), 0.1)\nnet.layer = nn.Linear(4, 4)",
        "net.layer.weight",
    ),
    "of a copy": (
        "import copy\nbest = copy.deepcopy(net)\noptimizer = torch.optim.SGD(best.parameters(), 0.1)",
        "net.layer.weight",
    ),
    "of clones": (
        "kept = [p.detach().clone().requires_grad_() for p in net.parameters()]\n"
        "optimizer = torch.optim.SGD(kept, 0.1)",
        "net.layer.weight",
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_an_optimizer_of_what_did_not_run_and_the_parameters_that_got_gradients(case, tmp_path):
    made, lost = OTHERS[case]
    text = PROGRAM.replace("optimizer = torch.optim.SGD(net.parameters(), 0.1)", made)
    status, printed = explained(tmp_path, "pass", "self.layer(x)", text)
    assert status == 1
    golden("explain", printed)
    assert lost in printed
    cured = f"{made}\noptimizer = torch.optim.SGD(net.parameters(), 0.1)"
    text = PROGRAM.replace("optimizer = torch.optim.SGD(net.parameters(), 0.1)", cured)
    assert explained(tmp_path, "pass", "self.layer(x)", text)[0] == 0


def test_an_optimizer_that_the_program_keeps_out_of_sight_is_known(tmp_path):
    made = "self.parts = [nn.Linear(4, 4)]"
    others = "class Trainers:\n    own = [torch.optim.SGD(net.parts[0].parameters(), 0.1)]\n"
    text = PROGRAM.replace("for _ in range(2)", f"{others}for _ in range(2)")
    status, printed = explained(tmp_path, made, "self.parts[0](self.layer(x))", text)
    assert status == 0, printed
