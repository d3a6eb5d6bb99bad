"""Names that hold a container, then a tensor, then another container, while what they hold is written in place."""

import torch

import backprobe as bp


def rebound(x):
    held = x.clone()
    parts = [held[0], held[1]]
    held.mul_(2)
    parts = parts[0]
    held.mul_(3)
    parts = (parts, held)
    held.add_(1)
    parts = None
    held.add_(1)
    return (held * x).sum(), parts


def produced(x):
    double = x * 2
    yield double
    pair = [double * 3, double + 1]
    pair[0].mul_(2)
    yield pair


def interleaved(x):
    steps = produced(x)
    first = next(steps)
    u = x + 1
    second = next(steps)
    u.add_(1)
    second = second[0]
    second.mul_(3)
    return (second * u).sum() + first.sum()


def seen(f):
    rec = bp.probe(f)(torch.tensor([1.0, 2.0], requires_grad=True))
    return {name: (entry.value.tolist(), entry.grad_or_none) for name, entry in rec.items() if entry.value is not None}


def test_each_write_gives_a_new_version_to_what_the_name_holds_then():
    found = {name: value for name, (value, _) in seen(rebound).items() if name.startswith(("held", "parts"))}
    assert found == {
        "held#0": [1, 2],
        "parts#0.0": 1,
        "parts#0.1": 2,
        "held#1": [2, 4],
        "parts#1.0": 2,
        "parts#1.1": 4,
        "held#2": [6, 12],
        "parts#3": 6,
        "held#3": [7, 13],
        "parts#5.0": 7,
        "held#4": [8, 14],
    }


def test_each_version_has_its_own_gradient():
    found = {name: grad.tolist() for name, (_, grad) in seen(rebound).items() if name.startswith("held")}
    assert found == {"held#0": [6, 12], "held#1": [3, 6], "held#2": [1, 2], "held#3": [1, 2], "held#4": [1, 2]}


def test_a_generator_goes_on_between_the_lines_of_its_caller():
    found = seen(interleaved)
    values = {name: value for name, (value, _) in found.items() if name.startswith(("u", "second", "/produced"))}
    assert values["u#0"] == [2, 3] and values["u#1"] == [3, 4]
    assert values["/produced:pair#0.0"] == [6, 12]
    assert values["second#0.0"] == [12, 24] and values["second#0.1"] == [3, 5]
    assert values["second#2"] == [36, 72]
    assert found["u#1"][1].tolist() == [36, 72]
