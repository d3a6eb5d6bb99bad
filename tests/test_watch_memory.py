"""The memory that watching takes in a step, beside the same step unwatched: large tensors are read in small parts."""

import math

import pytest
import torch
from memory import host_peak, peak

import backprobe as bp
from sampled import sampled
from watched import ALL

WIDTH = 700  # a tensor of 2 MB, and 4 MB in double precision
LIMIT = 1_000_000


class Scaled(torch.nn.Module):
    """A module that returns what it is given in another form."""

    def __init__(self, form):
        super().__init__()
        self.form = form

    def forward(self, x):
        return self.form(x)


def training(form, dtype=torch.float32):
    layer = torch.nn.Linear(WIDTH, WIDTH, dtype=dtype)
    model = torch.nn.Sequential(layer, Scaled(form))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    x = torch.randn(WIDTH, WIDTH, dtype=dtype)

    def step():
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, optimizer, step


def beyond(tmp_path, form, dtype=torch.float32, **options):
    """The peak of a watched step beyond that of a bare one: of tensors, and of the rest."""
    model, optimizer, step = training(form, dtype)
    bare = peak(step), host_peak(step)
    with bp.watch(model, tmp_path, optimizer=optimizer, **options):
        return peak(step) - bare[0], host_peak(step) - bare[1]


FORMS = {
    "as it is": lambda x: x * 2,
    "transposed": lambda x: (x * 2).T,
    "a slice": lambda x: (x * 2)[:, 1:],
    "with NaN": lambda x: x * math.nan,
    "far from zero": lambda x: x * 1e-3 + 1.0,  # measured again in double precision
    "squares underflow": lambda x: x * 1e-30,
}


@pytest.mark.parametrize("form", sampled(FORMS, "as it is", "far from zero"))
def test_a_watched_step_takes_less_than_a_megabyte(tmp_path, form):
    assert sum(beyond(tmp_path, FORMS[form])) < LIMIT


@pytest.mark.parametrize("dtype", [pytest.param(torch.float64, marks=pytest.mark.sweep), torch.bfloat16], ids=str)
def test_in_every_precision(tmp_path, dtype):
    assert sum(beyond(tmp_path, FORMS["far from zero"], dtype)) < LIMIT


def test_where_magnitudes_are_counted(tmp_path):
    assert sum(beyond(tmp_path, FORMS["as it is"], pace=bp.Pace(histogram=1))) < LIMIT


def test_updates_keep_one_copy_of_the_parameters(tmp_path):
    model, optimizer, step = training(FORMS["as it is"])

    def watched(folder, **options):
        with bp.watch(model, tmp_path / folder, optimizer=optimizer, **options):
            step()
            step()

    copy = sum(one.nbytes for one in model.parameters())
    plain, kept = (peak(lambda options=options: watched("run", **options)) for options in ({}, {"what": ALL}))
    assert kept - plain <= copy
