"""``backprobe explain train.py``: the parameters that get no gradient, grouped by the line that keeps it from them."""

import re
import sys
import textwrap

import pytest

from commands import invoked, printed

HEAD = """\
import numpy as np
import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(4, 8)
        self.mid = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x):
"""
LOOP = """
def train():
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    data, labels = torch.randn(32, 4), torch.randint(0, 2, (32,))
    total = 0.0
    for epoch in range(2):
        correct = 0
        for i in range(0, 32, 8):
            x, y = data[i : i + 8], labels[i : i + 8]
            optimizer.zero_grad()
            out = net(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            total += loss.item()
            correct += (out.argmax(1) == y).sum().item()

if __name__ == "__main__":
    train()
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Write a script and explain it in this process: its output and its exit status."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)

    def explain(text, status):
        (tmp_path / "train.py").write_text(text)
        return printed(invoked("explain", "train.py"), status)

    return explain


def with_forward(body):
    return HEAD + textwrap.indent(textwrap.dedent(body).strip(), " " * 8) + "\n" + LOOP


def lost(out):
    """The parameters that a report lists, those of each finding, without the model's name."""
    found = re.findall(r": (?:(\d+) parameters get no gradient \((.*)\)|(\S+) gets no gradient)$", out, re.MULTILINE)
    lists = [[name.removeprefix("net.") for name in (names or one).split(", ")] for _, names, one in found]
    assert [len(names) for names in lists] == [int(count or 1) for count, _, _ in found]
    return lists


ENC, MID, SCALE = ["enc.weight", "enc.bias"], ["mid.weight", "mid.bias"], ["scale"]
CUTS = {
    "detach at the end of it": (
        "h = torch.relu(self.enc(x)).detach() * self.scale\nreturn self.head(self.mid(h))",
        [ENC],
        "cuts 'h' off from `self.enc(x)`",
    ),
    "no_grad around a call": (
        "with torch.no_grad():\n    h = self.enc(x)\nreturn self.head(self.mid(h * self.scale))",
        [ENC],
        "`self.enc(x)` at train.py:15 runs under torch.no_grad(): 2",
    ),
    "data": ("h = self.enc(x).data\nreturn self.head(self.mid(h * self.scale))", [ENC], "`self.enc(x).data`"),
    "through numpy": (
        "h = torch.from_numpy(self.enc(x).detach().numpy())\nreturn self.head(self.mid(h * self.scale))",
        [ENC],
        "takes `self.enc(x)` out of the framework",
    ),
    "a new tensor": (
        "h = torch.tensor(self.enc(x).tolist())\nreturn self.head(self.mid(h * self.scale))",
        [ENC],
        "into a list of Python numbers",
    ),
    "a module that is not called": (
        "return self.head(self.enc(x) * self.scale)",
        [MID],
        "'net.mid' (Linear) was not called",
    ),
    "a parameter that is not mentioned": (
        "return self.head(self.mid(self.enc(x)))",
        [SCALE],
        "'net.scale' is not mentioned in the forward() of 'net'",
    ),
    "a parameter that is detached": (
        "return self.head(self.mid(self.enc(x) * self.scale.detach()))",
        [SCALE],
        "`self.scale.detach()` at train.py:14 cuts the result off from `self.scale`",
    ),
    "all in one line": (
        "return self.head(self.scale * torch.relu(self.mid(self.enc(x).detach())))",
        [ENC],
        "`self.enc(x).detach()`",
    ),
    "positions": (
        "h = self.mid(self.enc(x))\nreturn self.head(self.scale * F.one_hot(h.argmax(1), 8).float())",
        [ENC + MID],
        "`h.argmax(1)` at train.py:15 gives positions",
    ),
    "two lines": (
        "h = self.enc(x).detach()\nh = (self.mid(h) * self.scale > 0).float()\nreturn self.head(h)",
        [ENC, MID + SCALE],
        "is true or false",
    ),
    "a name in between": (
        "h = self.enc(x)\nb = h.detach()\nreturn self.head(self.mid(b * self.scale))",
        [ENC],
        "`h.detach()` at train.py:15 cuts '/train/Net:b' off from '/train/Net:h'",
    ),
    "a result that is not used": (
        "h = self.enc(x) * self.scale\naux = self.mid(h)\nreturn self.head(h)",
        [MID],
        "'/train/Net:aux' is computed, and nothing that was recorded leads from it",
    ),
    "a result that is thrown away": (
        "h = self.enc(x) * self.scale\nself.mid(h)\nreturn self.head(h)",
        [MID],
        "the result of `self.mid(h)` (train.py:15) is not used",
    ),
}


@pytest.mark.parametrize("case", CUTS)
def test_what_keeps_gradients_from_parameters_is_found(script, case):
    body, names, words = CUTS[case]
    out = script(with_forward(body), 1)
    assert out.splitlines()[0] == f"{sum(map(len, names))} of 7 parameters got no gradient"
    assert sorted(map(sorted, lost(out))) == sorted(map(sorted, names)), out
    assert words in out, out
    assert ("the parameter is" if names == [SCALE] else "these parameters are") + " given to optimizer (Adam)" in out


def test_the_line_of_a_chain_over_several_lines_is_that_of_the_cut(script, tmp_path):
    body = "return self.head(\n    self.scale * self.mid(\n        self.enc(x)\n        .detach()\n    )\n)"
    assert "(train.py:17): 2 parameters" in script(with_forward(body), 1)


def test_the_line_that_switched_gradients_off_is_named(script, tmp_path):
    text = with_forward("return self.head(self.mid(self.features(x) * self.scale))")
    method = "    @torch.no_grad()\n    def features(self, x):\n        return self.enc(x)\n\n    def forward"
    out = script(text.replace("    def forward", method), 1)
    assert lost(out) == [ENC]
    assert re.search(r"switched off at \S*train\.py:13: @torch\.no_grad\(\)", out)


def test_a_healthy_script_is_clean(script):
    out = script(with_forward("return self.head(self.mid(self.enc(x) * self.scale))"), 0)
    assert out.splitlines() == [
        "all 7 parameters got a gradient",
        "  note: this is iteration 2 of those that run backward(); the script was stopped after it, and later "
        "ones were not looked at: backprobe explain --steps 10 train.py looks at up to ten",
    ]


def test_what_is_frozen_on_purpose_is_counted_and_no_finding(script):
    text = with_forward("with torch.no_grad():\n    h = self.enc(x)\nreturn self.head(self.mid(h * self.scale))")
    frozen = "    for p in net.enc.parameters():\n        p.requires_grad = False\n    optimizer"
    assert script(text.replace("    optimizer", frozen, 1), 0).splitlines()[0] == (
        "all 5 parameters got a gradient; 2 frozen (requires_grad=False)"
    )


def test_a_plain_list_of_modules_is_found(script):
    text = with_forward("return self.head(self.parts[1](self.parts[0](x)) * self.scale)")
    text = text.replace(
        "        self.scale", "        self.parts = [nn.Linear(4, 8), nn.Linear(8, 8)]\n        self.scale"
    )
    text = text.replace("        self.enc = nn.Linear(4, 8)\n        self.mid = nn.Linear(8, 8)\n", "")
    out = script(text, 1)
    assert "'net.parts' is a plain list: its parameters get gradients, but no optimizer has them" in out
    assert "net.parts[0].weight, net.parts[0].bias, net.parts[1].weight, net.parts[1].bias" in out
    assert "next:  self.parts = nn.ModuleList(...), and model.parameters() has them" in out


def test_a_layer_that_was_replaced_after_the_optimizer_was_made_is_found(script):
    text = with_forward("return self.head(self.mid(self.enc(x) * self.scale))")
    text = text.replace("    data, labels", "    net.head = nn.Linear(8, 2)\n    data, labels")
    out = script(text, 1)
    assert "'net.head' is made anew after optimizer (Adam), which keeps the parameters of the one before" in out
    assert "next:  make the optimizer after this line" in out
    assert "optimizer.param_groups[0]['params'][5]" in out


GROUPS = """\
import torch, torch.nn as nn
G = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
D = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
optG = torch.optim.Adam([{"params": G[0].parameters(), "lr": 1e-3}, {"params": G[2].parameters()}])
optD = torch.optim.Adam(D.parameters())
for step in range(3):
    real, z = torch.randn(8, 3), torch.randn(8, 4)
    optD.zero_grad()
    fake = G(z)
    lossD = (D(real) - 1).square().mean() + D(fake.detach()).square().mean()
    lossD.backward()
    optD.step()
    optG.zero_grad()
    lossG = (D(FAKE) - 1).square().mean()
    lossG.backward()
    optG.step()
"""


def test_two_optimizers_are_told_apart(script):
    assert script(GROUPS.replace("FAKE", "fake"), 0).startswith("all 8 parameters got a gradient\n")
    out = script(GROUPS.replace("FAKE", "fake.detach()"), 1)
    assert out.startswith("4 of 8 parameters got no gradient\n")
    assert lost(out)[0] == ["G.0.weight", "G.0.bias", "G.2.weight", "G.2.bias"]
    assert "these parameters are given to optG (Adam)" in out


CRITIC = """\
import torch, torch.nn as nn
G = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
D = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
optG, optD = torch.optim.RMSprop(G.parameters()), torch.optim.RMSprop(D.parameters())
for step in range(3):
    for _ in range(5):
        fake = G(torch.randn(8, 4))
        const = fake.detach()
        optD.zero_grad()
        lossD = D(const).mean() - D(torch.randn(8, 3)).mean()
        lossD.backward()
        optD.step()
    optG.zero_grad()
    lossG = -D(G(torch.randn(8, 4))).mean()
    lossG.backward()
    optG.step()
"""


def test_a_model_that_this_step_does_not_train_is_no_finding(script):
    assert script(CRITIC, 0).startswith("all 4 parameters got a gradient\n")


FREEZING = {
    "one": (
        """\
def set_requires_grad(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)
""",
        "D",
    ),
    "several": (
        """\
def set_requires_grad(nets, flag):
    for net in nets:
        if net is not None:
            for p in net.parameters():
                p.requires_grad = flag
""",
        "[D]",
    ),
}
CRITIC_FIRST = """
for turn in range(3):
    optD.zero_grad()
    lossD = D(G(torch.randn(8, 4)).detach()).mean() - D(torch.randn(8, 3)).mean()
    lossD.backward()
    optD.step()
    set_requires_grad(NETS, False)
    optG.zero_grad()
    fake = G(torch.randn(8, 4))
    lossG = -D(fake).mean()
    lossG.backward()
    optG.step()
    set_requires_grad(NETS, True)
"""
GENERATOR_FIRST = """
def optimize_parameters(real):
    fake = G(torch.randn(8, 4))
    set_requires_grad(NETS, False)
    optG.zero_grad()
    lossG = -D(fake).mean()
    lossG.backward()
    optG.step()
    set_requires_grad(NETS, True)
    optD.zero_grad()
    lossD = D(fake.detach()).mean() - D(real).mean()
    lossD.backward()
    optD.step()

for real in torch.randn(3, 8, 3):
    optimize_parameters(real)
"""


@pytest.mark.parametrize("freezing", FREEZING)
@pytest.mark.parametrize("turns", [CRITIC_FIRST, GENERATOR_FIRST], ids=["critic", "generator"])
def test_a_loop_that_freezes_parameters_after_backward_does_not_end_the_iteration(script, freezing, turns):
    helper, nets = FREEZING[freezing]
    begin = CRITIC[: CRITIC.index("for step")]
    out = script(begin + helper + turns.replace("NETS", nets), 0)
    assert out.startswith("all 8 parameters got a gradient\n")


TEACHER = """\
import torch, torch.nn as nn
teacher, student = nn.Linear(4, 3), nn.Linear(4, 3)
optimizer = torch.optim.SGD(student.parameters(), 0.1)
for x in torch.randn(3, 8, 4):
    with torch.no_grad():
        soft = teacher(x)
    soft = soft + teacher(x).detach()
    loss = (student(x) - soft).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_teacher_that_no_optimizer_has_is_no_finding(script):
    assert script(TEACHER, 0).startswith("all 2 parameters got a gradient\n")


CLOSURE = """\
import torch, torch.nn as nn
net = nn.Conv2d(3, 4, 3)
target = net(torch.rand(1, 3, 6, 6)).detach()
image = torch.rand(1, 3, 6, 6, requires_grad=True)
optimizer = torch.optim.LBFGS([image])
for turn in range(3):
    def closure():
        with torch.no_grad():
            image.clamp_(0, 1)
        optimizer.zero_grad()
        loss = (net(image) - target).square().mean()
        loss.backward()
        return loss
    optimizer.step(closure)
"""


def test_a_step_with_a_closure_is_looked_at_when_it_is_over(script):
    assert script(CLOSURE, 0).startswith("the only parameter got a gradient\n")


UNNAMED = """\
import torch, torch.nn as nn
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
data = torch.randn(8, 4)
for turn in range(3):
    optimizer.zero_grad()
    net(data).square().mean().backward()
    optimizer.step()
"""


def test_a_backward_that_goes_through_nothing_with_a_name_is_heard(script):
    assert script(UNNAMED, 0).splitlines() == [
        "all 4 parameters got a gradient",
        "  note: this is iteration 2 of those that run backward(); the script was stopped after it, and later "
        "ones were not looked at: backprobe explain --steps 10 train.py looks at up to ten",
    ]


EXPERTS = """\
import torch, torch.nn as nn
class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 1) for _ in range(COUNT))

    def forward(self, x, turn):
        return self.experts[turn % 3](x)

net = Experts()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for turn in range(20):
    print("turn", turn)
    optimizer.zero_grad()
    loss = net(torch.randn(8, 4), turn).square().mean()
    loss.backward()
    optimizer.step()
"""


def test_a_module_that_a_later_iteration_calls_is_no_finding(script):
    out = script(EXPERTS.replace("COUNT", "3"), 0)
    assert out.count("turn ") == 3
    assert "note: modules that were not called in an earlier iteration were called in a later one" in out


def test_a_module_that_no_iteration_calls_is(script):
    out = script(EXPERTS.replace("COUNT", "4"), 1)
    assert lost(out) == [["experts.3.weight", "experts.3.bias"]]
    assert "note: no module of these was called in any of 8 iterations" in out


AT_MODULE_LEVEL = """\
import torch, torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)
    def forward(self, x):
        h = self.a(x)
        d = h.detach()
        return self.b(d)
net, w = Net(), torch.ones(1, requires_grad=True)
optimizer, other = torch.optim.SGD(net.parameters(), 0.1), torch.optim.SGD([w], 0.1)
for turn in range(2):
    loss = (net(torch.randn(8, 4)) * w).square().mean()
    loss.backward()
    optimizer.step(), other.step()
"""


def test_the_first_call_of_a_class_at_module_level_has_no_count(script):
    out = script(AT_MODULE_LEVEL, 1)
    assert "'/Net:h'" in out
    assert "Net#1" not in out
    assert "not used" not in out


HEALTHY = with_forward("return self.head(self.mid(self.enc(x) * self.scale))")


def test_gradients_that_are_cleared_before_the_step(script):
    text = HEALTHY.replace("            optimizer.zero_grad()\n", "").replace(
        "            optimizer.step()", "            optimizer.zero_grad()\n            optimizer.step()"
    )
    out = script(text, 1)
    assert "7 of 7 parameters had no gradient when the optimizer stepped" in out
    assert "optimizer.step() found no gradient in 7 parameters: they were cleared after backward()" in out
    assert re.search(r"seen:  .*\bnet\b", out) and "call zero_grad() before backward() or after step()" in out


@pytest.mark.parametrize(
    "loop",
    [
        "optimizer.step()\noptimizer.zero_grad()\nloss = F.cross_entropy(net(x), y)\nloss.backward()",
        "loss = F.cross_entropy(net(x), y)\nloss.backward()\noptimizer.step()\noptimizer.zero_grad()",
        "loss = F.cross_entropy(net(x), y)\ngrads = torch.autograd.grad(loss, list(net.parameters()))\n"
        "for p, g in zip(net.parameters(), grads):\n    p.grad = g\noptimizer.step()\noptimizer.zero_grad()",
        "def closure():\n    optimizer.zero_grad()\n    loss = F.cross_entropy(net(x), y)\n    loss.backward()\n"
        "    return loss\nloss = optimizer.step(closure)\noptimizer.zero_grad()",
    ],
    ids=["the step of the turn before", "cleared after the step", "gradients by hand", "a closure"],
)
def test_healthy_loops_that_clear_gradients(script, loop):
    before, _, rest = HEALTHY.partition("            optimizer.zero_grad()\n")
    after = rest[rest.index("            total +=") :].replace("(out.argmax", "(net(x).argmax")
    out = script(before + textwrap.indent(loop, " " * 12) + "\n" + after, 0)
    assert "cleared" not in out


STEPS = """
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
for i in range(2):
"""


def test_a_custom_backward_that_returns_none_is_not_said_to_have_been_cleared(script):
    body = "        return self.head(Twice.apply(torch.relu(self.mid(self.enc(x)))) * self.scale)\n"
    function = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return None
"""
    out = script(HEAD + body + function + LOOP, status=1)
    assert "4 of 7 parameters got no gradient" in out
    assert "`Twice.backward()` returned None in the place of a gradient" in out
    assert "cleared" not in out
    assert "net.enc.weight, net.enc.bias, net.mid.weight, net.mid.bias" in out


def test_a_custom_backward_beside_gradients_that_are_cleared(script):
    body = "        return self.head(Once.apply(torch.relu(self.mid(self.enc(x)))) * self.scale)\n"
    function = """
class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient
"""
    cleared = LOOP.replace("            optimizer.zero_grad()\n", "").replace(
        "loss.backward()", "loss.backward(); optimizer.zero_grad()"
    )
    out = script(HEAD + body + function + cleared, status=1)
    assert "optimizer.step() found no gradient in 7 parameters: they were cleared after backward()" in out


def test_a_reentrant_checkpoint_is_one_finding_with_a_remedy_that_cures(script):
    body = """\
        from torch.utils.checkpoint import checkpoint
        h = checkpoint(self.enc, x, use_reentrant=True)
        return self.head(torch.relu(self.mid(h)) * self.scale)
"""
    quiet = "import warnings\nwarnings.simplefilter('ignore')\n"
    out = script(quiet + HEAD + body + LOOP, status=1)
    assert "2 of 7 parameters got no gradient" in out
    assert "under torch.no_grad()" not in out
    assert "next:  use_reentrant=False" in out
    assert lost(out) == [ENC]


def test_backward_from_a_leaf_that_was_made_of_numbers_has_run(script):
    body = "        return self.head(torch.relu(self.mid(self.enc(x))) * self.scale)\n"
    loss = """\
    out = net(x)
    loss = torch.tensor(((out.detach().numpy()[:, 0] - 1) ** 2).mean())
    loss.requires_grad_(True)
    loss.backward()
    optimizer.step()
"""
    out = script(HEAD + body + STEPS + loss, status=1)
    assert "no backward() ran" not in out
    assert "NumPy arrays have no gradient history" in out


def test_a_script_that_forgets_backward_is_told_so(script):
    body = "        return self.head(torch.relu(self.mid(self.enc(x))) * self.scale)\n"
    loss = "    loss = F.cross_entropy(net(x), y)\n    optimizer.step()\n"
    out = script(HEAD + body + STEPS + loss, status=1)
    assert "no backward() ran" in out
    assert "use it in what the loss is computed from" not in out


def test_a_script_that_only_evaluates_says_that_no_backward_ran(script):
    body = "        return self.head(torch.relu(self.mid(self.enc(x))) * self.scale)\n"
    text = """
net = Net().eval()
with torch.no_grad():
    for i in range(3):
        found = net(torch.randn(8, 4)).argmax(1)
"""
    out = script(HEAD + body + text, status=0)
    assert out.strip() == "no backward() ran: there is no gradient to explain"


BESIDE = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)

    def forward(self, x):
        h = CUT
        return self.dec(torch.relu(h))

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    penalty = sum(p.square().sum() for p in net.parameters())
    loss = net(torch.randn(8, 3)).square().mean() + 1e-3 * penalty
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("self.enc(x).data", "data"),
        ("self.enc(x).data * 2", "data"),
        ("torch.from_numpy(self.enc(x).detach().numpy())", "numpy"),
    ],
)
def test_a_cut_beside_a_regulariser_that_reaches_the_parameters(script, text, kind):
    out = script(BESIDE.replace("CUT", text), 0)
    assert out.startswith("all 4 parameters got a gradient")
    assert "`self.enc(x)` is not recorded: if it has a history, it is cut off (" in out, kind


ADJOINT = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)

    def forward(self, x):
        h = self.enc(x)
        return self.dec(torch.relu(h))

class Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, net, x, *parameters):
        ctx.net, ctx.x, ctx.parameters = net, x, parameters
        return net(x)

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            out = ctx.net(ctx.x)
        return None, None, *torch.autograd.grad(out, ctx.parameters, grad)

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    Adjoint.apply(net, torch.randn(8, 3), *net.parameters()).square().mean().backward()
    optimizer.step()
"""


def test_a_forward_that_an_adjoint_method_runs_without_gradients_is_no_cut(script):
    out = script(ADJOINT, 0)
    assert out.startswith("all 4 parameters got a gradient")
    assert "cut off" not in out
