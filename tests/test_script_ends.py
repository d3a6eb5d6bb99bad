"""A script in which a value leaves the graph at a line that has no name for it: the line is found, and proven.

The programs were written before the code that finds the line. ``marked`` is the line that drops the history.
"""

import json

import pytest

from commands import in_folder, invoked

MARK = "  # here"

PROGRAMS = {
    "append_item": """
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters())

def rollout():
    logs, rewards = [], []
    for _ in range(5):
        chosen = Categorical(logits=policy(torch.randn(4)))
        action = chosen.sample()
        logs.append(chosen.log_prob(action).item())  # here
        rewards.append(float(action == 0))
    return logs, rewards

for _ in range(2):
    logs, rewards = rollout()
    loss = -(torch.tensor(logs, requires_grad=True) * torch.tensor(rewards)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "after_a_sample": """
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters())

def rollout(steps):
    logs, rewards = [], []
    for _ in range(steps):
        logits = policy(torch.randn(4))
        chosen = Categorical(logits=logits)
        action = chosen.sample()
        logs.append(chosen.log_prob(action).item())  # here
        rewards.append(1.0 if action.item() == 0 else 0.0)
    return logs, rewards

for _ in range(2):
    logs, rewards = rollout(40)
    loss = -(torch.tensor(logs, requires_grad=True) * torch.tensor(rewards)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "dict_float": """
import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Linear(6, 3), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], 0.1)
cache = {}

def remember(batch):
    for at, row in enumerate(batch):
        code = [encoder(row)]
        for part in code:
            cache[at] = [float(one) for one in part]  # here

for _ in range(2):
    remember(torch.randn(4, 6))
    loss = head(torch.tensor([cache[at] for at in range(4)])).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "summed_floats": """
import torch
from torch import nn

torch.manual_seed(0)
parts = nn.ModuleList([nn.Linear(4, 1) for _ in range(3)])
scale = nn.Parameter(torch.ones(()))
optimizer = torch.optim.SGD([*parts.parameters(), scale], 0.1)

class Meter:
    def __init__(self):
        self.total = 0.0

    def add(self, pair):
        error, weight = pair
        error = (error ** 2).mean(),
        self.total += error[0].item() * weight  # here

for _ in range(2):
    meter, x = Meter(), torch.randn(8, 4)
    for part in parts:
        meter.add((part(x), 0.5))
    loss = scale * torch.tensor(meter.total)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "numpy_in_library": """
import numpy
import torch
from torch import nn

torch.manual_seed(0)
net, bias = nn.Linear(3, 3), nn.Parameter(torch.zeros(3))
optimizer = torch.optim.SGD([*net.parameters(), bias], 0.1)

def smooth(held):
    rows = []
    for one in held.values():
        rows.append(numpy.convolve(one.detach().numpy(), [0.25, 0.5, 0.25], mode="same"))  # here
    return numpy.stack(rows)

for _ in range(2):
    outputs = {at: net(torch.randn(3)) for at in range(4)}
    loss = (torch.from_numpy(smooth(outputs)).float() + bias).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "weights_tolist": """
import torch
from torch import nn

torch.manual_seed(0)
gate, experts = nn.Linear(4, 3), nn.ModuleList([nn.Linear(4, 2) for _ in range(3)])
optimizer = torch.optim.Adam([*gate.parameters(), *experts.parameters()])

def mixed(x):
    out = 0
    pairs = zip(experts, gate(x).softmax(-1).mean(0)[None], strict=False)
    shares = [share.tolist() for _, share in pairs][0]  # here
    for expert, share in zip(experts, shares, strict=True):
        out = out + share * expert(x)
    return out

for _ in range(2):
    loss = mixed(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "returned_number": """
import torch
from torch import nn

torch.manual_seed(0)
temperature = nn.Sequential(nn.Linear(2, 1), nn.Softplus())
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD([*temperature.parameters(), *net.parameters()], 0.1)

def number(of):
    return of().item() + 0.1  # here

for _ in range(2):
    x = torch.randn(5, 4)
    logits = net(x) / number(lambda: temperature(x[0, :2]).sum())
    loss = nn.functional.cross_entropy(logits, torch.arange(5) % 3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "healthy_metrics": """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
seen = []

for _ in range(3):
    out = net(torch.randn(6, 4))
    seen.append(out.softmax(-1)[:, 0].mean().item())
    loss = out.pow(2).mean() * (1.0 if seen[-1] < 2 else 0.5)
    optimizer.zero_grad()
    loss.backward()
    seen.append(float(loss))
    optimizer.step()
""",
    "held_in_object": """
import torch
from torch import nn


class State:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


torch.manual_seed(0)
net, bias = nn.Linear(4, 1), nn.Parameter(torch.zeros(()))
optimizer = torch.optim.SGD([*net.parameters(), bias], 0.1)

def total(batch):
    total = 0.0
    for row in batch:
        state = State(net(row))
        total += state.value.item()  # here
    return total

for _ in range(2):
    loss = (torch.tensor(total(torch.randn(3, 4))) + bias) ** 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "density_float": """
import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
net, bias = nn.Linear(4, 2), nn.Parameter(torch.zeros(2))
optimizer = torch.optim.Adam([*net.parameters(), bias])

for _ in range(2):
    kept = []
    for row in torch.randn(3, 4):
        density = Normal(net(row), 1.0)
        kept.append(float(density.log_prob(torch.ones(2)).sum().detach()))  # here
    loss = -(torch.tensor(kept).mean() * (1 + bias.sum()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "density_numpy": """
import numpy
import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
net, bias = nn.Linear(4, 2), nn.Parameter(torch.zeros(2))
optimizer = torch.optim.Adam([*net.parameters(), bias])

for _ in range(2):
    kept = {}
    for at, row in enumerate(torch.randn(3, 4)):
        density = Normal(loc=net(row), scale=1.0)
        kept[at] = density.log_prob(torch.ones(2)).detach().numpy()  # here
    loss = -(torch.from_numpy(numpy.stack([*kept.values()])).mean() * (1 + bias.sum()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_line_that_drops_the_history_is_found(name, tmp_path, monkeypatch):
    text = PROGRAMS[name].lstrip()
    with in_folder(tmp_path, monkeypatch, {"train.py": text}):
        _, out, _ = invoked("explain", "--json", "train.py")
    report = json.loads(out.splitlines()[-1])
    marked = [at for at, line in enumerate(text.split("\n"), 1) if line.endswith(MARK)]
    assert [one["source"]["line"] for one in report["findings"]] == marked
    assert all(one["tried"] for one in report["findings"])
    assert not any("not all that was found was tried" in note for note in report["notes"])
