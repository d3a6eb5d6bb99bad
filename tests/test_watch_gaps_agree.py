"""The gaps of one name agree with each other, and say of what was there that it was there."""

import pytest
import torch
from torch import nn

import backprobe as bp

X = torch.ones(1, 2)


class Box:
    def __init__(self, t):
        self.t = t


class Returning(nn.Module):
    """A part that hands on what a function makes of its tensor, and a model that takes that out again."""

    def __init__(self, given, taken):
        super().__init__()
        self.given, self.taken = given, taken
        self.part = Part(given)

    def forward(self, x):
        return self.taken(self.part(x)).sum()


class Part(nn.Module):
    def __init__(self, given):
        super().__init__()
        self.l, self.given = nn.Linear(2, 2), given

    def forward(self, x):
        return self.given(self.l(x))


def found(folder):
    with bp.open_run(folder) as run:
        return {(name, gap.kind, gap.kinds) for gap in run.gaps.findings for name in gap.names}


def watched(model, folder, **options):
    with bp.watch(model, folder, **options) as run:
        for _ in range(2):
            model(X).backward()
            run.step()
            model.zero_grad()
    return found(folder)


HELD = []
OPAQUE = {
    "an object": (Box, lambda box: box.t),
    "a function": (lambda t: lambda: t, lambda function: function()),
    "a generator": (lambda t: (one for one in [t]), next),
    "nothing": (lambda t: HELD.append(t), lambda nothing: HELD.pop()),
}


@pytest.mark.parametrize("kind", OPAQUE)
def test_a_module_that_returns_no_tensor_has_one_gap(tmp_path, kind):
    gaps = watched(Returning(*OPAQUE[kind]), tmp_path)
    assert gaps == {("part", "no_tensor", ("value", "grad"))}
    with bp.open_run(tmp_path) as run:
        assert str(run.gaps.findings[0]) == (
            "'part' has no value, grad in steps 0 to 1 (2): it was called, and returned no tensor and no container of "
            "tensors: None, or an object of another class, which is not opened"
        )


class Now(nn.Module):
    """It returns a tensor now and then."""

    def __init__(self):
        super().__init__()
        self.part, self.calls = Part(self.given), 0

    def given(self, t):
        self.calls += 1
        return t if self.calls == 1 else Box(t)

    def forward(self, x):
        found = self.part(x)
        return (found if isinstance(found, torch.Tensor) else found.t).sum()


@pytest.mark.parametrize("what", [("value", "grad"), "grad"], ids=str)
def test_a_module_that_returns_a_tensor_in_one_step_alone(tmp_path, what):
    gaps = watched(Now(), tmp_path, what=what)
    assert gaps == {("part", "not_returned", ("value", "grad") if "value" in what else ("grad",))}
    with bp.open_run(tmp_path) as run:
        assert run.gaps.findings[0].steps == (1,)


@pytest.mark.parametrize("what", [("value", "grad"), "grad"], ids=str)
def test_a_value_without_a_gradient_had_a_value(tmp_path, what):
    gaps = watched(Returning(lambda t: (t, t.detach() * 2), lambda pair: pair[0] + pair[1]), tmp_path, what=what)
    assert gaps == {("part:return.1", "no_gradient", ("grad",))}


class Detaching(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(2, 2)

    def forward(self, x):
        h = self.l(x)
        cut = h.detach() * 2
        return (h + cut).sum()


@pytest.mark.parametrize("what", [("value", "grad"), "grad"], ids=str)
def test_a_local_without_a_gradient_was_bound(tmp_path, what):
    assert watched(Detaching(), tmp_path, select=[":cut"], what=what) >= {(":cut", "no_gradient", ("grad",))}


def test_what_has_no_numbers_says_so(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2, device="meta"))
    with bp.watch(model, tmp_path) as run:
        model(torch.ones(1, 2, device="meta")).sum().backward()
        run.step()
    assert found(tmp_path) == {
        ("0", "unreadable", ("value", "grad")),
        ("return", "unreadable", ("value", "grad")),
        ("0.weight", "unreadable", ("grad",)),
        ("0.bias", "unreadable", ("grad",)),
    }


# a step that a GradScaler skips


def scaled(folder, loss_of, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    with bp.watch(model, folder, optimizer=optimizer, scaler=scaler, **options):
        for step in range(6):
            optimizer.zero_grad()
            scaler.scale(loss_of(model, torch.randn(16, 4), step)).backward()
            scaler.step(optimizer)
            scaler.update()
    with bp.open_run(folder) as run:
        return [(gap.kind, gap.steps) for gap in run.gaps.findings if not gap.name], str(run.gaps)


def of_nan_batch(model, x, step):
    x[3, 2] = float("nan") if step == 4 else 1.0
    return model(x).square().mean()


def of_overflow(model, x, step):
    return model(x).square().mean() * (1e38 if step == 4 else 1.0) * 1e2


def of_backward(model, x, step):
    y = model(x)
    return ((y - y) if step == 4 else y).square().sum().sqrt()


def test_a_step_that_is_skipped_for_nan_of_the_forward(tmp_path):
    gaps, said = scaled(tmp_path, of_nan_batch)
    assert gaps == [("skipped_nan", (4,))]
    assert (
        "step 4: the GradScaler skipped the step, and the forward had NaN already: no scale of the loss makes that"
    ) in said


@pytest.mark.parametrize("loss_of", [of_overflow, of_backward], ids=["overflow", "a derivative"])
def test_a_step_that_is_skipped_for_its_gradients(tmp_path, loss_of):
    gaps, said = scaled(tmp_path, loss_of)
    assert gaps == [("skipped", (4,))]
    assert "step 4: the GradScaler skipped the step, since it found Inf or NaN in gradients" in said


def test_where_no_values_are_watched_nothing_is_said_of_the_forward(tmp_path):
    assert scaled(tmp_path, of_nan_batch, what="grad")[0] == [("skipped", (4,))]


def test_where_some_steps_are_measured(tmp_path):
    assert scaled(tmp_path / "a", of_nan_batch, every=2)[0] == [("skipped_nan", (4,))]
    assert scaled(tmp_path / "b", of_nan_batch, every=3)[0] == [("skipped", (4,))]
