"""torchdiffeq: differential equations solved by autograd, or backwards by an adjoint equation."""

import math
from pathlib import Path

import torch
from torch import nn
from torchdiffeq import odeint, odeint_adjoint, odeint_event

FRAMEWORK, LIBRARIES = "PyTorch", ("torchdiffeq",)
DOUBLE = torch.double


# https://github.com/rtqichen/torchdiffeq: y' = a y, so y(1) = y0 exp(a)
def decay(y0, rate):
    def field(t, y):
        slope = rate * y
        return slope

    times = torch.tensor([0.0, 0.5, 1.0], dtype=DOUBLE)
    path = odeint(field, y0, times, rtol=1e-9, atol=1e-9)
    last = path[-1]
    return last


def start():
    return torch.tensor(2.0, dtype=DOUBLE, requires_grad=True), torch.tensor(-0.7, dtype=DOUBLE, requires_grad=True)


def test_decay(ask):
    rec = ask.function(decay, start)
    end = math.exp(-0.7)
    ask.gradients(rec, {"y0": end, "rate": 2 * end, "last": 1.0, "path": [0.0, 0.0, 1.0]}, tolerance=1e-6)
    ask.names(rec, "y0", "rate", "path", "last", "times")
    ask.statuses(rec, {"times": "frozen"})
    ask.clean(rec)
    ask.works("`odeint`: initial state, parameters, the path")


# https://github.com/rtqichen/torchdiffeq/blob/master/examples/ode_demo.py
class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, t, y):
        return self.net(y**3)


def demo(around, solve, steps=1, select=None):
    field = Field()
    optimizer = torch.optim.RMSprop(field.parameters(), lr=1e-3)
    y0, times = torch.tensor([[2.0, 0.0]]), torch.linspace(0, 1, 5)
    truth = torch.stack([torch.cos(times), torch.sin(times)], -1)[:, None] * 2
    with around(field, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            predicted = solve(field, y0, times, method="rk4")
            loss = (predicted - truth).abs().mean()
            loss.backward()
            optimizer.step()
    return seen, loss, [p.grad.clone() for p in field.parameters()], list(field.parameters())


def test_field_of_an_ode(ask):
    rec = ask.block(demo, odeint)
    _, grads, _ = ask.bare(demo, odeint)
    names = ("net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias")
    ask.gradients(rec, dict(zip(names, grads)))
    ask.names(rec, *(f"net#{k}" for k in range(16)), "net.0#3")
    ask.clean(rec)
    last = ask.watched(demo, odeint, 20)
    ask.rows(last, "net", "net.0", *names)
    ask.works("a neural field: each of its calls by the solver, and `bp.watch` over its training")


def test_adjoint(ask):
    rec = ask.block(demo, odeint_adjoint)
    _, grads, _ = ask.bare(demo, odeint_adjoint)
    names = ("net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias")
    ask.gradients(rec, dict(zip(names, grads)))
    ask.statuses(rec, {"net#0": "no_grad"})
    ask.clean(rec)
    last = ask.watched(demo, odeint_adjoint, 20)
    ask.rows(last, *names)
    ask.works("`odeint_adjoint`: the parameters")
    ask.refuses("`odeint_adjoint`: calls of the field in forward are `no_grad`, as the solver makes them")


def adjoint_of_a_block(around):
    field = Field()
    y0 = torch.tensor([[2.0, 0.0]], requires_grad=True)
    times = torch.linspace(0, 1, 5, requires_grad=True)
    with around() as seen:
        path = odeint_adjoint(field, y0, times, method="rk4")
        loss = path[-1].square().sum()
        loss.backward()
    return seen, y0.grad, times.grad


def test_adjoint_of_a_block(ask):
    rec = ask.block(adjoint_of_a_block)
    d_y0, d_times = ask.bare(adjoint_of_a_block)
    ask.gradients(rec, {"y0": d_y0, "times": d_times, "loss": 1.0})
    ask.names(rec, "path", "y0", "loss")
    ask.clean(rec)
    ask.works("`odeint_adjoint`: initial state and times, in a block")


# https://github.com/rtqichen/torchdiffeq/blob/master/examples/bouncing_ball.py: a fall takes sqrt(2h/g)
def falling(height, gravity):
    def field(t, state):
        position, velocity = state
        return velocity, -gravity * torch.ones_like(velocity)

    def ground(t, state):
        return state[0]

    state = (height, torch.zeros_like(height))
    event, solution = odeint_event(
        field, state, torch.zeros((), dtype=DOUBLE), event_fn=ground, odeint_interface=odeint
    )
    return event


def test_time_of_an_event(ask):
    height, gravity = 2.0, 9.81
    given = (torch.tensor([height], dtype=DOUBLE), torch.tensor(gravity, dtype=DOUBLE))
    rec = ask.function(falling, lambda: tuple(each.clone().requires_grad_() for each in given))
    event = math.sqrt(2 * height / gravity)
    ask.gradients(rec, {"height": [event / 2 / height], "gravity": -event / 2 / gravity}, tolerance=1e-4)
    ask.values(rec, {"event": event}, tolerance=1e-4)
    ask.clean(rec)
    ask.works("`odeint_event`: the time of an event, by what it depends on")


# planted
def decay_cut(y0, rate):
    speed = torch.as_tensor(rate.item(), dtype=DOUBLE)  # <- cut

    def field(t, y):
        return speed * y

    return odeint(field, y0, torch.tensor([0.0, 1.0], dtype=DOUBLE))[-1]


def root_of_nothing(y0):
    def field(t, y):
        outflow = torch.sqrt(y)  # <- nan
        return -outflow

    path = odeint(field, y0, torch.tensor([0.0, 1.0], dtype=DOUBLE), method="euler")
    return path[-1].sum()


def test_planted(ask):
    rec = ask.function(decay_cut, start)
    ask.cut(rec, decay_cut)
    ask.statuses(rec, {"rate": "not_connected", "speed": "detached"})
    rec = ask.function(
        root_of_nothing, lambda: (torch.tensor([1.0, 0.0], dtype=DOUBLE, requires_grad=True),), nonfinite=True
    )
    ask.nan(rec, root_of_nothing)


def test_script(ask):
    ask.script(Path(__file__).parent / "scripts" / "torchdiffeq_demo.py")
