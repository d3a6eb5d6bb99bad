"""The measured floor: what is moved, what stays as it was, and what it decides."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import backprobe as bp
from asked import message
from backprobe.backends.moved import moved
from backprobe.backends.variations import Variation
from backprobe.diff.noise import factor

X, W = torch.tensor([1.0, -2.0, 3.0, 0.5]), torch.tensor([0.5, 1.5, -1.0, 2.0])


def f(x, w):
    u = x * w
    v = torch.sin(u)
    loss = v.sum()
    return loss


def test_each_entry_has_the_floor_of_what_it_moves():
    floor = bp.noise_floor(f)(X, W)
    assert set(floor.values) == set(floor.gradients) == {"x", "w", "u", "v", "loss"} and floor.runs == 4
    ulp = float(np.spacing(np.float32(3.0)))
    assert floor.values["x"].largest == factor(4) * ulp  # of the largest number, one ulp
    assert repr(floor) == "<NoiseFloor of 5 values: 4 runs with arguments and parameters moved by one ulp>"


def test_it_is_the_same_each_time():
    one, other = (bp.noise_floor(f)(X, W) for _ in range(2))
    assert one.values == other.values and one.gradients == other.gradients


def test_a_number_moves_by_one_ulp_and_what_has_no_neighbour_stays():
    array = np.array(
        [1.0, -3.0, 0.0, np.inf, -np.inf, np.nan, np.finfo(np.float32).max, np.finfo(np.float32).min], np.float32
    )
    for seed in range(8):
        made = moved(array, seed, 0)
        assert made.dtype == np.float32
        assert (np.abs(made[:3].view(np.int32) & 0x7FFFFFFF) - (array[:3].view(np.int32) & 0x7FFFFFFF)).tolist()
        assert {
            abs(int(a) - int(b)) for a, b in zip(made[:2].view(np.int32), array[:2].view(np.int32), strict=True)
        } == {1}
        assert np.array_equal(made[3:6], array[3:6], equal_nan=True) and np.isfinite(made[6:]).all()
    assert moved(array, None, 0) is array


def test_it_finds_what_the_floor_by_dtype_does_not():
    def g(x, w):
        u = x * w * (1 + 2**-23)
        v = torch.sin(u) * 1.00001
        loss = v.sum()
        return loss

    a, b = bp.probe(f)(X, W), bp.probe(g)(X, W)
    bp.diff(a, b).assert_ok(strict=True)
    found = bp.diff(a, b, noise=bp.noise_floor(f)(X, W)).first
    assert found.name == "v" and found.excess > 1
    assert found.floor == "measured: 4 runs with arguments and parameters moved by one ulp"
    bp.diff(a, bp.probe(f)(X, W), noise=bp.noise_floor(f)(X, W)).assert_ok(strict=True)


def test_a_model_is_copied_and_nothing_of_it_changes(leaves_nothing):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
    x = torch.randn(6, 4, requires_grad=True)
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    floor = bp.noise_floor(model, of=torch.sum)(x)
    assert all(torch.equal(before[name], held) for name, held in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters()) and x.grad is None
    assert torch.equal(state, torch.get_rng_state())
    assert floor.values["0.weight"].largest > 0 < floor.gradients["0.weight"].rms
    torch.manual_seed(1)
    a = bp.probe(copy.deepcopy(model), of=torch.sum)(x)
    torch.manual_seed(1)
    b = bp.probe(copy.deepcopy(model), of=torch.sum)(x)
    torch.manual_seed(1)
    assert bp.diff(a, b, noise=bp.noise_floor(model, of=torch.sum)(x)).ok  # dropout as in the two


def test_a_lower_precision_has_the_floor_of_what_it_does_to_the_reference():
    def wrong(x, w):
        u = x * w
        v = torch.sin(u) * 2
        loss = v.sum()
        return loss

    a, lower = bp.probe(f)(X, W), (X.bfloat16(), W.bfloat16())
    floor = bp.noise_floor(f, precision="bfloat16")(X, W)
    assert (
        floor.origin == "4 runs with arguments and parameters moved by one ulp, and 4 in bfloat16" and floor.runs == 8
    )
    bp.diff(a, bp.probe(f)(*lower), noise=floor).assert_ok(strict=True)
    assert bp.diff(a, bp.probe(wrong)(*lower), noise=floor).first.name == "v"
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    floor = bp.noise_floor(model, of=torch.sum, precision="bfloat16")(X)
    b = bp.probe(copy.deepcopy(model).bfloat16(), of=torch.sum)(X.bfloat16())
    assert not bp.diff(bp.probe(model, of=torch.sum)(X), b, noise=floor).findings


def test_a_dtype_that_the_reference_was_measured_in_is_no_difference():
    def mixed(x, w):
        u = x * w
        v = torch.sin(u.bfloat16())
        loss = v.sum()
        return loss

    a, b = bp.probe(f)(X, W), bp.probe(mixed)(X, W)
    assert bp.diff(a, b).first.kind == "dtype"
    assert not bp.diff(a, b, noise=bp.noise_floor(f, precision="bfloat16")(X, W)).findings


def test_numbers_of_python_move_where_there_is_nothing_else():
    floor = bp.noise_floor(f, backend="torch")(2.0, w=3.0)
    assert floor.values["x"].largest > 0 < floor.values["w"].largest


def test_a_model_among_the_arguments_moves():
    model = nn.Linear(4, 1)
    floor = bp.noise_floor(lambda model, x: model(x).sum())(model, X)
    assert floor.values["return"].largest > 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: bp.noise_floor(f, runs=0), "runs is a whole number from 1 on"),
        (lambda: bp.noise_floor(f, precision=16), "precision is the name of a dtype"),
        (lambda: bp.noise_floor(f, precision="single")(X, W), "PyTorch has no floating dtype 'single'"),
        (lambda: bp.noise_floor(nn.Linear)(X), "Linear is a class, and bp.noise_floor takes an object of it"),
        (lambda: bp.noise_floor(lambda n: n * 2, backend="torch")(2), "nothing that <lambda> is given can be moved"),
    ],
)
def test_what_cannot_be_measured_is_refused(call, said):
    text = message(bp.BadOption, call)
    assert text.startswith(said) and "  asked: " in text and "  next:  " in text


def test_a_variation_without_a_seed_and_a_dtype_changes_nothing():
    from backprobe.backends.torch.variations import TorchVariations

    assert torch.equal(TorchVariations().varied(X, Variation(), 0, []), X)
    assert TorchVariations().varied(torch.tensor([1, 2]), Variation(0), 0, []) is None
