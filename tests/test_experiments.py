"""What experiments show of missing gradients: a program runs again with a value moved, or a line bridged."""

import ctypes

import numpy as np
import pytest
import torch
from torch import nn

import backprobe as bp


def leaf(*numbers):
    return torch.tensor(numbers, requires_grad=True)


def explained(program, asked=None, **options):
    return bp.explain(bp.probe(program)(leaf(1.0, 2.0), leaf(3.0, 4.0)), asked, **options)


def tried(report):
    return [sentence for one in report for sentence in one.tried]


def detached(x, w):
    u = x * w
    d = u.detach()
    return (d * w).sum()


def by_numpy(x, w):
    u = x * w
    h = torch.from_numpy(np.tanh(u.detach().numpy()))
    return (h * w).sum()


def as_a_number(x, w):
    k = (x * w).sum().item()
    return (w * k).sum()


def as_a_choice(x, w):
    u = x * w
    chosen = u.argmax()
    return w[chosen] * 2


def without_gradients(x, w):
    with torch.no_grad():
        u = x * w
        v = u + 1
    return (v * w).sum()


def stored(x, w):
    out = torch.zeros(2)
    out[0] = (x * w)[0].detach()
    out[1] = w[1]
    return out.sum()


@pytest.mark.parametrize("program", [detached, by_numpy, as_a_number, as_a_choice, without_gradients, stored])
def test_a_gradient_arrives_where_its_line_is_bridged(program):
    for asked in (None, "x"):
        (sentence,) = tried(explained(program, asked))
        assert "the gradient of 'x' arrives" in sentence


def test_nothing_is_tried_where_nobody_wants_it():
    assert tried(explained(detached, experiments=False)) == tried(explained(detached, seconds=0.0)) == []


def test_of_two_cuts_behind_one_another_each_says_that_both_have_to_be_mended():
    def twice(x, w):
        u = (x * w).detach()
        k = u.argmax()
        return w[k] * 2

    first, second = (one.tried for one in explained(twice, "x"))
    assert len(first) == 1
    assert first[0].startswith("with this line and test_experiments.py:")
    assert first[0].endswith("bridged, the gradient of 'x' arrives")
    assert second == ()


def test_a_value_of_which_nothing_comes_is_said_to_change_nothing():
    def of_its_kind(value):
        made = value.new_tensor([1.0, 2.0])
        return made

    def alike(x, w):
        u = x * w
        h = of_its_kind(u)
        return (h * w).sum()

    assert not any("arrives" in sentence for sentence in tried(explained(alike)))


staging = torch.empty(2)


def moved_by_address(x, w):
    u = torch.sin(x) + x
    ctypes.memmove(staging.data_ptr(), u.data_ptr(), u.nbytes)
    weighted = staging * w
    return weighted.sum()


def test_numbers_that_go_past_all_names_are_followed_by_moving_them():
    (found,) = explained(moved_by_address)
    assert found.source.text.strip().startswith("ctypes.memmove(")
    assert found.tried == (
        "where other numbers go on in place of 'u', 'weighted' changes; bridged, the gradient arrives",
    )


class Chosen(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.lift, self.head, self.activation = nn.Linear(2, 3), nn.Linear(3, 1), activation

    def forward(self, x):
        h = self.lift(x)
        a = self.activation(h)
        return self.head(a).square().sum()


def test_the_line_in_a_function_that_a_model_holds_is_found_where_it_runs_again():
    model = Chosen(lambda values: values.gt(0).to(values))
    report = bp.explain(bp.probe(model)(torch.randn(4, 2)))
    (found,) = report
    assert found.kind == "comparison"
    assert "gt(0)" in found.source.text
    assert found.tried == ("with this line bridged, the gradient of 'lift.weight' arrives",)


def test_a_gradient_that_is_0_wherever_it_is_looked_at_is_a_finding():
    class Drawn(Chosen):
        def forward(self, x):
            return self.head(torch.normal(self.lift(x), 0.1)).square().sum()

    report = bp.explain(bp.probe(Drawn(None))(torch.randn(4, 2)))
    (found,) = report
    assert report.heading.endswith("; the gradient of 'lift.weight' and 1 more is 0 at all points that were tried")
    assert not any("at these arguments" in note for note in report.notes)
    assert "torch.normal" in found.source.text
    assert found.tried == (
        "the gradient of 'lift.weight' is 0 at 4 other points as well, and the output changes",
        "with this line bridged, the gradient of 'lift.weight' arrives",
    )


@pytest.mark.parametrize("x", [(-1.0, -2.0), (0.0, 0.0)])
def test_a_unit_that_is_off_for_one_input_is_none(x):
    rec = bp.probe(lambda x, w: (torch.relu(x * w) ** 2).sum())(leaf(*x), leaf(3.0, 4.0))
    assert bp.explain(rec).ok


def test_what_is_switched_off_on_purpose_is_none():
    def masked(x, w):
        return (x * torch.zeros(2)).sum() + w.sum()

    assert explained(masked).ok


def test_a_program_is_left_as_it_was():
    model, x = Chosen(torch.sign), torch.randn(4, 2)
    model.drop = nn.BatchNorm1d(3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rec, state = bp.probe(model)(x), torch.get_rng_state()
    bp.explain(rec)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(one.grad is None for one in model.parameters())


def test_a_program_that_writes_a_file_is_not_tried(tmp_path):
    def logging(x, w):
        (tmp_path / "log").open("a").close()
        return (x.detach() * w).sum()

    assert tried(explained(logging)) == []


def test_a_program_that_fails_the_second_time_is_explained_as_it_was_recorded():
    runs = []

    def once(x, w):
        runs.append(1)
        if len(runs) > 1:
            raise ValueError("only once")
        return (x.detach() * w).sum()

    (found,) = explained(once)
    assert (found.kind, found.tried) == ("detach", ())
