"""tensordict: dictionaries of tensors that pass through modules by key."""

import torch
from in_torch import ask_paths
from tensordict import TensorDict, TensorDictParams, from_module
from tensordict.nn import (
    EnsembleModule,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
)
from torch import nn

from several_paths import CASES

FRAMEWORK, LIBRARIES = "PyTorch", ("tensordict",)


# https://pytorch.org/tensordict/stable/tutorials/tensordict_module.html
def made():
    first = TensorDictModule(nn.Linear(3, 4), in_keys=["observation"], out_keys=["hidden"])
    second = TensorDictModule(nn.Linear(4, 2), in_keys=["hidden"], out_keys=["action"])
    return TensorDictSequential(first, second)


def training(around, steps=20, select=None):
    model = made()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    data = TensorDict({"observation": torch.randn(5, 3), "target": torch.randn(5, 2)}, batch_size=[5])
    with around(model, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            out = model(data.clone())
            loss = nn.functional.mse_loss(out["action"], out["target"])
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in model.named_parameters()}


def test_sequence(ask):
    rec = ask.block(training, 1)
    _, grads = ask.bare(training, 1)
    ask.gradients(rec, grads)
    ask.names(rec, "module.0.module", "module.1.module", "return.action", "return.hidden", *grads)
    ask.clean(rec)
    last = ask.watched(training)
    ask.rows(last, "module.0.module", *grads)
    ask.works("`TensorDictSequential`: modules and parameters, what is returned by key, `bp.watch`")


# a dictionary's own arithmetic
def arithmetic(x, w):
    data = TensorDict({"x": x, "nested": {"w": w}}, batch_size=[])
    data["y"] = data["x"] * data["nested", "w"]
    doubled = data * 2
    total = doubled["y"].sum()
    return total


def test_arithmetic(ask):
    given = torch.tensor([1.0, 2.0]), torch.tensor([3.0, -1.0])
    rec = ask.function(arithmetic, lambda: tuple(each.clone().requires_grad_() for each in given))
    ask.gradients(rec, {"x": 2 * given[1], "w": 2 * given[0], "total": 1.0})
    ask.names(rec, "data.x", "data.nested.w", "doubled.y")
    ask.gradients(rec, {"doubled.y": torch.ones(2)})
    ask.clean(rec)
    ask.works("values inside a `TensorDict`, `data.nested.w`")


# https://pytorch.org/tensordict/stable/reference/generated/tensordict.from_module.html: parameters as a dictionary
def functional(around):
    module = nn.Linear(3, 2)
    parameters = from_module(module)
    x = torch.randn(4, 3)
    with around() as seen:
        with (parameters * 1.5).to_module(module):
            out = module(x)
        loss = out.square().sum()
        loss.backward()
    return seen, loss, module.weight.grad, module.bias.grad, out


def test_functional_parameters(ask):
    rec = ask.block(functional)
    *_, out = ask.bare(functional)
    ask.gradients(rec, {"out": 2 * out, "loss": 1.0})
    ask.names(rec, "out", "x", "loss")
    ask.clean(rec)


# a policy
def policy(around):
    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(3, 4)

        def forward(self, observation):
            location, scale = self.net(observation).chunk(2, -1)
            return location, nn.functional.softplus(scale)

    actor = ProbabilisticTensorDictSequential(
        TensorDictModule(Split(), in_keys=["observation"], out_keys=["loc", "scale"]),
        ProbabilisticTensorDictModule(
            in_keys=["loc", "scale"],
            out_keys=["action"],
            distribution_class=torch.distributions.Normal,
            default_interaction_type="random",
            return_log_prob=True,
        ),
    )
    data = TensorDict({"observation": torch.randn(5, 3)}, batch_size=[5])
    with around(actor) as seen:
        out = actor(data)
        loss = -(out["action_log_prob"] if "action_log_prob" in out.keys() else out["sample_log_prob"]).mean()
        loss.backward()
    return seen, loss, {name: p.grad for name, p in actor.named_parameters()}


def test_policy(ask):
    rec = ask.block(policy)
    _, grads = ask.bare(policy)
    ask.gradients(rec, grads)
    ask.names(rec, "module.0.module.net", "return.loc", "return.action")
    ask.clean(rec)
    ask.works("a probabilistic policy: sampled actions and their log densities")


# modules and parameters at several places
def repeated():
    """A layer that a sequence runs twice, with other keys."""
    layer = nn.Linear(2, 2)
    once = TensorDictModule(layer, in_keys=["x"], out_keys=["h"])
    again = TensorDictModule(layer, in_keys=["h"], out_keys=["y"])
    model = TensorDictSequential(once, again)
    step = lambda: model(TensorDict({"x": torch.ones(3, 2)}, [3]))["y"].sum().backward()
    return model, step, ("module.0", "module.0.module", "module.0.module.weight", "module.1")


def ensemble():
    """Copies of a network, whose parameters are stacked."""
    net = TensorDictModule(nn.Sequential(nn.Linear(2, 3), nn.Tanh()), in_keys=["x"], out_keys=["y"])
    model = EnsembleModule(net, num_copies=2)
    step = lambda: model(TensorDict({"x": torch.ones(3, 2)}, [3]))["y"].sum().backward()
    return model, step, ("params_td.module.0.weight", "params_td.module.0.bias")


class Scaled(nn.Module):
    """Parameters that are held as a dictionary."""

    def __init__(self):
        super().__init__()
        self.params = TensorDictParams(TensorDict({"scale": torch.ones(2), "inner": {"shift": torch.zeros(2)}}, []))
        self.scale = self.params["scale"]

    def forward(self, x):
        return x * self.params["scale"] + self.params["inner", "shift"]


def held():
    model = Scaled()
    return model, lambda: model(torch.ones(3, 2)).sum().backward(), ("params.inner.shift",)


def test_several_paths(ask):
    for made in (CASES["tensordict"], repeated, ensemble, held):
        ask_paths(ask, *made())
    ask.works("modules that several sequences share, ensembles, `TensorDictParams`: the path to be guessed is printed")


# planted
def cut(x, w):
    data = TensorDict({"x": x, "y": x * w}, batch_size=[])
    kept = data.detach()  # <- cut
    return kept["y"].sum() + x.sum()


def nan(x, w):
    data = TensorDict({"x": x, "w": w}, batch_size=[])
    gap = data["x"] - data["x"]
    root = gap.sqrt()  # <- nan
    return (root * data["w"]).sum()


def test_planted(ask):
    given = lambda: (torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 1.0], requires_grad=True))
    rec = ask.function(cut, given)
    ask.cut(rec, cut)
    ask.statuses(rec, {"w": "not_connected"})
    ask.refuses("what is put into a `TensorDict` later has a name, and is not followed through `data.detach()`")
    rec = ask.function(nan, given, nonfinite=True)
    ask.nan(rec, nan)
