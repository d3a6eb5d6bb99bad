"""``watch(optimizer=)`` of optimizers around others, whose ``__init__`` does not call that of ``Optimizer``."""

import pytest
import torch
from torch import nn

import backprobe as bp
from asked import message


class Wrapper(torch.optim.Optimizer):
    """As of a library for private training: it changes the gradients, and another optimizer steps."""

    def __init__(self, original):
        self.original_optimizer = original

    @property
    def param_groups(self):
        return self.original_optimizer.param_groups

    @param_groups.setter
    def param_groups(self, groups):
        self.original_optimizer.param_groups = groups

    @property
    def state(self):
        return self.original_optimizer.state

    def zero_grad(self, set_to_none=True):
        self.original_optimizer.zero_grad(set_to_none)

    def step(self, closure=None):
        for group in self.param_groups:
            for one in group["params"]:
                one.grad = one.grad / 2
        return self.original_optimizer.step(closure)


class Twice(Wrapper):
    """It holds another such wrapper."""


class Renamed(Wrapper):
    def __init__(self, original):
        super().__init__(original)
        self.also = original  # under another name


class Several(torch.optim.Optimizer):
    def __init__(self, first, last):
        self.first, self.last, self.param_groups = first, last, [*first.param_groups, *last.param_groups]

    def step(self, closure=None):
        self.first.step()
        self.last.step()


class Bare(torch.optim.Optimizer):
    def __init__(self, parameters):
        self.param_groups, self.state = [{"params": [*parameters], "lr": 0.1}], {}

    def step(self, closure=None):
        with torch.no_grad():
            for one in self.param_groups[0]["params"]:
                one -= 0.1 * one.grad


WRAPPERS = {
    "one": Wrapper,
    "within another": lambda original: Twice(Wrapper(original)),
    "under two names": Renamed,
    "around a wrapper that was initialised": lambda original: Wrapper(
        torch.optim.Adam([*original.param_groups[0]["params"]])
    ),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_the_steps_of_what_it_holds_are_heard(tmp_path, wrap):
    torch.manual_seed(0)
    net = nn.Linear(2, 1)
    optimizer = wrap(torch.optim.SGD(net.parameters(), 0.1))
    before, after = [], []
    with bp.watch(net, tmp_path / "run", optimizer=optimizer, what=("value", "grad", "param", "update"), clipping=True):
        for _ in range(3):
            net(torch.tensor([[1.0, 2.0]])).square().mean().backward()
            before.append(net.weight.grad.square().mean().sqrt().item())
            optimizer.step()
            after.append(net.weight.grad.square().mean().sqrt().item())
            optimizer.zero_grad()
    run = bp.open_run(tmp_path / "run")

    assert run.series("weight", "grad.rms")[1].tolist() == pytest.approx(after)
    assert run.series("weight", "grad_backward.rms")[1].tolist() == pytest.approx(before)


def refused(net, folder, optimizer):
    """The message without what was asked, which holds the folder."""
    said = message(bp.BadOption, bp.watch(net, folder, optimizer=optimizer).__enter__).splitlines()
    assert said[1].startswith("  asked: bp.watch(")
    return [said[0], *said[2:]]


def test_one_that_holds_several_is_refused(tmp_path):
    net = nn.Linear(2, 1)
    both = Several(torch.optim.SGD([net.weight], 0.1), torch.optim.SGD([net.bias], 0.1))

    assert refused(net, tmp_path / "run", both) == [
        "the steps of Several cannot be heard",
        "  found: it holds 2 optimizers: first, last",
        "  why:   Several.__init__ does not call that of torch.optim.Optimizer, which makes its hooks",
        "  next:  optimizer=[optimizer.first, optimizer.last]",
    ]


def test_what_is_named_instead_is_watched(tmp_path):
    net = nn.Linear(2, 1)
    optimizer = Several(torch.optim.SGD([net.weight], 0.1), torch.optim.SGD([net.bias], 0.1))
    with bp.watch(net, tmp_path / "run", optimizer=[optimizer.first, optimizer.last]):
        for _ in range(2):
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()

    assert len(bp.open_run(tmp_path / "run").series("weight", "grad.rms")[0]) == 2


def test_one_that_holds_none_is_refused(tmp_path):
    net = nn.Linear(2, 1)

    assert refused(net, tmp_path / "run", Bare(net.parameters())) == [
        "the steps of Bare cannot be heard",
        "  found: it has no hooks on its steps",
        "  why:   Bare.__init__ does not call that of torch.optim.Optimizer, which makes its hooks",
        "  next:  super().__init__(params, defaults) in its __init__; or leave out optimizer=, and call run.step() "
        "after each step",
    ]


def test_what_it_is_told_to_write_instead_is_heard(tmp_path):
    class Own(Bare):
        def __init__(self, parameters):
            torch.optim.Optimizer.__init__(self, parameters, {"lr": 0.1})

    net = nn.Linear(2, 1)
    for at, optimizer in enumerate([Own(net.parameters()), None]):
        with bp.watch(net, tmp_path / f"{at}", optimizer=optimizer) as run:
            for _ in range(2):
                net(torch.ones(1, 2)).sum().backward()
                if optimizer is not None:
                    optimizer.step()
                else:
                    run.step()
        assert len(bp.open_run(tmp_path / f"{at}").series("weight", "grad.rms")[0]) == 2
