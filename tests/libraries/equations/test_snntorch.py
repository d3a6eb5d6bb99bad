"""snnTorch: spiking neurons, whose step has a derivative in its place; they hold states between calls."""

from pathlib import Path

import snntorch as snn
import torch
from snntorch import functional as SF
from snntorch import spikegen, surrogate
from torch import nn

FRAMEWORK, LIBRARIES = "PyTorch", ("snntorch",)


# https://snntorch.readthedocs.io/en/latest/tutorials/tutorial_5.html
class Net(nn.Module):
    def __init__(self, beta=0.95):
        super().__init__()
        self.fc1, self.lif1 = nn.Linear(4, 6), snn.Leaky(beta=beta)
        self.fc2, self.lif2 = nn.Linear(6, 2), snn.Leaky(beta=beta)

    def forward(self, x):
        mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
        spikes, membranes = [], []
        for step in range(5):
            cur1 = self.fc1(x)
            spk1, mem1 = self.lif1(cur1, mem1)
            cur2 = self.fc2(spk1)
            spk2, mem2 = self.lif2(cur2, mem2)
            spikes.append(spk2)
            membranes.append(mem2)
        return torch.stack(spikes), torch.stack(membranes)


def training(around, steps=20, select=None):
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    x, y = torch.rand(8, 4) * 3, torch.randint(0, 2, (8,))
    with around(net, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            _, membranes = net(x)
            loss = sum(nn.functional.cross_entropy(each, y) for each in membranes)
            loss.backward()
            optimizer.step()
    return seen, loss, [p.grad for p in net.parameters()], list(net.parameters())


NAMES = ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")


def test_tutorial(ask):
    rec = ask.block(training, 1)
    _, grads, _ = ask.bare(training, 1)
    ask.gradients(rec, dict(zip(NAMES, grads)))
    ask.names(rec, *(f"fc1#{k}" for k in range(5)), "lif1#4:return.0", "lif1#4:return.1", "return.0", "return.1")
    ask.clean(rec)
    last = ask.watched(training)
    ask.rows(last, "fc1", "fc2", *NAMES)
    ask.works("spiking networks unrolled over time: each step of each neuron, and `bp.watch` over the training")


# the surrogate of the step is 1 / (1 + k |u - 1|)^2 in backward
def neuron(weight, x):
    lif = snn.Leaky(beta=0.5, spike_grad=surrogate.fast_sigmoid(slope=10), reset_mechanism="none")
    mem = lif.init_leaky()
    current = weight * x
    spike1, mem1 = lif(current, mem)
    spike2, mem2 = lif(current, mem1)
    total = spike1 + spike2
    return total


def test_surrogate(ask):
    rec = ask.function(neuron, lambda: (torch.tensor([0.9], requires_grad=True), torch.tensor([0.8])))
    first = 0.9 * 0.8
    second = 0.5 * first + first
    slope = lambda mem: 1 / (1 + 10 * abs(mem - 1)) ** 2
    d_current = slope(first) + 1.5 * slope(second)
    right = {"weight": [0.8 * d_current], "current": [d_current], "mem2": [slope(second)], "total": [1.0]}
    ask.gradients(rec, right | {"mem1": [slope(first) + 0.5 * slope(second)], "spike1": [1.0], "spike2": [1.0]})
    ask.values(rec, {"mem1": [first], "mem2": [second], "spike1": [0.0], "spike2": [1.0]})
    ask.names(rec, "x", "return")
    ask.clean(rec)
    ask.works("the surrogate of a spike, by hand: membranes, currents and weights")


# https://snntorch.readthedocs.io/en/latest/snn.neurons_leaky.html: a decay that is learned, hidden states inside
def hidden_states(around):
    net = nn.Sequential(
        nn.Linear(4, 6),
        snn.Leaky(beta=0.8, init_hidden=True, learn_beta=True),
        nn.Linear(6, 2),
        snn.Leaky(beta=0.8, init_hidden=True, output=True),
    )
    spikes = spikegen.rate(torch.rand(8, 4), num_steps=5)
    with around(net) as seen:
        snn.utils.reset(net) if hasattr(snn, "utils") else None
        recorded = []
        for each in spikes:
            spike, membrane = net(each)
            recorded.append(membrane)
        loss = torch.stack(recorded).square().sum()
        loss.backward()
    return seen, loss, {name: p.grad for name, p in net.named_parameters() if p.grad is not None}


def test_hidden_states(ask):
    rec = ask.block(hidden_states)
    _, grads = ask.bare(hidden_states)
    ask.gradients(rec, grads)
    ask.names(rec, "0#0", "1#4", "3#4:return.0", "3#4:return.1", "1.beta")
    ask.clean(rec)
    ask.works("`init_hidden=True` and `learn_beta=True`")


def loss_of_rates(around):
    net = Net()
    x, y = torch.rand(8, 4) * 3, torch.randint(0, 2, (8,))
    with around() as seen:
        spikes, membranes = net(x)
        loss = SF.ce_rate_loss()(spikes, y)
        loss.backward()
    return seen, loss, net.fc1.weight.grad


def test_loss_of_rates(ask):
    rec = ask.block(loss_of_rates)
    ask.gradients(rec, {"loss": [1.0]})
    ask.names(rec, "spikes", "membranes", "x", "y")
    ask.statuses(rec, {"y": "not_float", "membranes": "not_connected"})
    ask.clean(rec)


# planted
class Cut(Net):
    def forward(self, x):
        mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
        out = []
        for step in range(3):
            cur1 = self.fc1(x)
            spk1, mem1 = self.lif1(cur1, mem1)
            fired = (mem1 > 0.2).float()  # <- cut
            spk2, mem2 = self.lif2(self.fc2(fired), mem2)
            out.append(mem2)
        return torch.stack(out)


def cut_training(around):
    net = Cut()
    x = torch.rand(8, 4) * 3
    with around(net, ["**", "**:*"]) as seen:
        loss = net(x).square().sum()
        loss.backward()
    return seen, loss


def rate_of_nothing(x):
    counts = spikegen.rate(torch.zeros(3), num_steps=4).sum(0) * x
    rate = counts / counts.sum()  # <- nan
    return rate.sum()


def test_planted(ask):
    rec = ask.block(cut_training)
    ask.cut(rec, Cut.forward)
    ask.statuses(rec, {"fc1.weight": "not_connected", "fc1.bias": "not_connected"})
    rec = ask.function(rate_of_nothing, lambda: (torch.ones(3, requires_grad=True),), nonfinite=True)
    ask.nan(rec, rate_of_nothing)


def test_script(ask):
    ask.script(Path(__file__).parent / "scripts" / "snntorch_tutorial.py")
