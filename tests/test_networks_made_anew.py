"""An optimizer that has the parameters of a model which is not the one that runs: one finding, with both."""

import pytest

from commands import invoked

HEAD = """\
import copy
import torch
from torch import nn
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        return self.head(self.layer(x).relu())

"""
STEP = """\
for _ in range(2):
    loss = net(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MADE = "net = Net()\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
FOUND = {
    "made twice": (MADE + "net = Net()  # here\n", "'net' is made anew after optimizer (SGD)"),
    "a layer": (MADE + "net.layer = nn.Linear(4, 4)  # here\n", "'net.layer' is made anew after optimizer (SGD)"),
    "copied": (MADE + "net = copy.deepcopy(net)  # here\n", "'net' is made anew after optimizer (SGD)"),
    "of a copy": (
        "net = Net()\nbest = copy.deepcopy(net)\noptimizer = torch.optim.Adam(best.parameters())\n",
        "optimizer (Adam) has the parameters of another model, which did not run",
    ),
}
HEALTHY = {
    "another dtype": "net = Net()\noptimizer = torch.optim.SGD(net.parameters(), 0.1)\nnet = net.float()\n",
    "put in another": MADE + "net = nn.Sequential(net, nn.Tanh())\n",
    "a copy that is averaged": MADE + "average = copy.deepcopy(net).requires_grad_(False)\n",
    "two of a kind": MADE + "other = Net()\nothers = torch.optim.SGD(other.parameters(), 0.1)\n",
    "made twice before": "net = Net()\n" + MADE,
}


def explained(text, folder):
    script = folder / "train.py"
    script.write_text(text)
    code, out, _ = invoked("explain", str(script))
    return code, " ".join(out.split())


@pytest.mark.parametrize("case", FOUND)
def test_one_finding_names_both(case, tmp_path):
    made, headline = FOUND[case]
    text = HEAD + made + STEP
    code, out = explained(text, tmp_path)
    assert (code, headline in out, " 2. " in out) == (1, True, False), out
    for number, line in enumerate(text.splitlines(), 1):
        if line.endswith("# here"):
            assert f"train.py:{number}: {line.partition('  #')[0]}" in out


def test_within_a_function(tmp_path):
    lines = (MADE + "net = Net()\n" + STEP).splitlines()
    text = HEAD + "def main():\n" + "".join(f"    {line}\n" for line in lines) + "main()\n"
    code, out = explained(text, tmp_path)
    assert (code, "'net' is made anew after optimizer (SGD)" in out, " 2. " in out) == (1, True, False), out


@pytest.mark.parametrize("case", HEALTHY)
def test_of_a_healthy_one_nothing_is_said(case, tmp_path):
    code, out = explained(HEAD + HEALTHY[case] + STEP, tmp_path)
    assert (code, "made anew" in out, "another model" in out) == (0, False, False), out
