"""The cases that backprobe began with: the toy graph four ways, the order of backward, the stamp, the shadow."""

import pytest
import torch
import torch.nn.functional as F

import backprobe as bp
from asked import says

STRATEGIES = ("edges", "retain_grad", "hooks", "separate")
EXPECTED = {"x": 2.0, "w": 3.0, "b": 1.0, "u": 1.0, "v": 1.0, "a": 1.0}


def toy(x, w, b):
    u = x * w
    v = u + b
    a = F.relu(v)
    return a


def leaves():
    return [torch.tensor([value], requires_grad=True) for value in (3.0, 2.0, 1.0)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_s4_to_s7_every_strategy_gives_the_same_gradients(strategy):
    args = leaves()
    rec = bp.probe(toy, strategy=strategy)(*args)
    assert {name: gradient.item() for name, gradient in rec.grads().items()} == EXPECTED
    assert all(argument.grad is None for argument in args)


@pytest.mark.parametrize("arguments", [(3, 2, 1), (3.0, 2.0, 1.0)])
def test_python_numbers_become_leaves(arguments):
    rec = bp.probe(toy)(*arguments)
    assert {name: gradient.item() for name, gradient in rec.grads().items()} == EXPECTED


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_s7_the_order_of_backward_is_the_order_in_which_hooks_fire(strategy):
    args = leaves()
    fired = []
    for name, leaf in zip("xwb", args, strict=True):
        leaf.register_hook(lambda gradient, name=name: fired.append(name))
    x, w, b = args
    u = x * w
    v = u + b
    a = F.relu(v)
    for name, tensor in (("u", u), ("v", v), ("a", a)):
        tensor.register_hook(lambda gradient, name=name: fired.append(name))
    a.backward()
    assert bp.probe(toy, strategy=strategy)(*leaves()).backward_order() == fired
    assert fired == ["a", "v", "b", "u", "x", "w"]


def func(x):
    z = 2 * x
    return z


def func2(z):
    y = (z**2) + (2 * z) + 2
    return y


def composed(x):
    z = func(x)
    y = func2(z)
    return y


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_s8_gradients_inside_called_functions_in_the_order_of_backward(strategy):
    rec = bp.probe(composed, strategy=strategy)(torch.ones(1))
    assert [(name, rec[name].grad.item()) for name in rec.backward_order()] == [("y", 1), ("z", 6), ("x", 12)]
    assert rec["/func:z"] is rec["z"] is rec["/func2:z"] is rec["/func"]


def test_s10_the_stamp_names_versions_and_author():
    assert bp.stamp(author="Ada Lovelace").author == "Ada Lovelace"
    stamp = bp.probe(toy)(3.0, 2.0, 1.0).stamp
    assert stamp.author == "Ada Lovelace"
    assert stamp.packages["torch"] == torch.__version__
    assert stamp.packages["backprobe"] == bp.__version__
    assert stamp.python
    assert stamp.time.endswith("+00:00")
    assert "Ada Lovelace" in str(stamp)


def shadowed(grad, type, id, probe, self, tape, scope):
    super = grad * type
    isinstance = super + id
    len = isinstance * probe
    getattr = len + self
    tuple = getattr * tape
    for str in (tuple,):
        torch = str * scope
    return torch


def test_s12_no_name_that_a_user_is_likely_to_use_breaks_anything():
    args = [float(number) for number in range(2, 9)]
    for _ in range(2):  # asking twice works
        rec = bp.probe(shadowed)(*args)
        says(rec, grads={"grad": 3 * 5 * 7 * 8, "torch": 1, "super": 5 * 7 * 8})


def test_a_loop_variable_named_grad_does_not_shadow_anything_of_ours():
    for grad in bp.probe(toy)(3.0, 2.0, 1.0).grads().values():
        assert grad is not None
    assert bp.probe(toy)(3.0, 2.0, 1.0)["x"].grad.item() == 2
