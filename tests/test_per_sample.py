"""``bp.per_sample``: compared with a backward of each sample alone, and with the gradient of the batch."""

import re
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from asked import message
from per_sample_models import ARCHITECTURES, B, call, of_batch, one_by_one

X = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [-1.0, 1.0]])
Y = torch.tensor([0.5, 1.0, -1.0, 0.0])
W = torch.tensor([1.0, -0.5])


def mean(w, x, y):
    error = x @ w - y
    return error.square().mean()


def total(w, x, y):
    error = x @ w - y
    return error.square().sum()


@pytest.mark.parametrize("make", ARCHITECTURES, ids=lambda make: make.__name__)
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_a_row_is_what_a_backward_of_the_sample_gives(make):
    model, given, of = call(make)
    samples = bp.per_sample(model, "**", of=of)(**given)
    gradients, alone, whole = samples.grads(), one_by_one(model, given, of), of_batch(model, given, of)
    assert {*whole} <= {*gradients}
    assert samples.notes == ()
    assert samples.weights.tolist() == [1.0 if make.__name__ == "residual" else 1 / B] * B
    for name, own in whole.items():
        torch.testing.assert_close(gradients[name], alone[name] * samples.weights[0], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(gradients[name].sum(0), own, rtol=1e-4, atol=1e-6)
        norms = gradients[name].flatten(1).norm(dim=1).numpy()
        assert samples.norms(name)[name] == pytest.approx(norms, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(("loss", "weight"), [(mean, 0.25), (total, 1.0)])
def test_rows_sum_to_the_gradient_of_a_mean_and_of_a_sum(loss, weight):
    samples, rec = bp.per_sample(loss, ["w", "error"])(W, X, Y), bp.probe(loss)(W, X, Y)
    torch.testing.assert_close(samples["w"].sum(0), rec["w"].grad)
    torch.testing.assert_close(samples["error"], rec["error"].grad)
    assert samples.weights.tolist() == [weight] * 4
    assert samples.losses == pytest.approx(((X @ W - Y) ** 2).tolist())
    assert samples.shares.sum() == pytest.approx(1)
    assert ("a mean over 4 samples, each divided by 4" in str(samples)) is (loss is mean)


def test_a_value_has_the_same_gradients_whatever_axis_the_batch_is_in():
    def program(w, x):
        h = (x * w).T
        k = h.reshape(-1)
        return (h * h).sum() + k.sum()

    samples = bp.per_sample(program, ["w", "h", "k"])(W, X)
    rec = bp.probe(program)(W, X)
    torch.testing.assert_close(samples["h"], rec["h"].grad.T)
    assert samples["k"].shape == (4, 2)


def test_a_batch_that_is_folded_into_another_axis_is_no_mixing():
    def program(w, x, y):
        kept = (y != 0).float().flatten()
        h = x.flatten(0, 1) * w
        error = h.sum(-1) - y.flatten()
        return (error.square() * kept).sum() / kept.sum()

    x, y = torch.arange(24.0).reshape(3, 4, 2) / 9, torch.tensor([[1.0, 0, 0, 0], [1, 2, 3, 0], [1, 1, 1, 1]])

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(W.clone())

        def forward(self, x, y):
            h = x * self.w
            return program(torch.ones(2), h, y)

    samples = bp.per_sample(Net(), ["w", ":h"])(x, y)
    assert samples.weights == pytest.approx([1 / 8, 3 / 8, 4 / 8], rel=1e-5)
    torch.testing.assert_close(samples["w"].sum(0), bp.probe(Net())(x, y)["w"].grad)


def test_a_penalty_beside_a_mean_is_a_part_of_each_row_and_beside_a_sum_it_is_refused():
    penalty = lambda w: 0.1 * w.square().sum()  # noqa: E731
    samples = bp.per_sample(lambda w, x, y: mean(w, x, y) + penalty(w), "w")(W, X, Y)
    assert samples.weights.tolist() == [0.25] * 4
    said = message(bp.Unsupported, lambda: bp.per_sample(lambda w, x, y: total(w, x, y) + penalty(w), "w")(W, X, Y))
    assert said.startswith("gradients of single samples of <lambda> do not sum to that of their batch")
    assert "a sum with a penalty on weights" in said


def test_low_precision_is_no_mixing():
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    with torch.autocast("cpu", torch.bfloat16):
        samples = bp.per_sample(model, "**", of=lambda out: out.float().square().mean())(X)
    assert samples.weights.tolist() == [0.25] * 4
    assert samples.notes == () or "within 2%, as in low precision" in samples.notes[0]


def test_a_checkpoint_runs_on_one_sample_after_another():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 3)

        def forward(self, x):
            h = checkpoint(self.fc, x, use_reentrant=False)
            return h.square().mean()

    model = Net()
    samples = bp.per_sample(model, "**")(X)
    assert "one sample after another" in samples.notes[0]
    torch.testing.assert_close(samples["fc.weight"].sum(0), of_batch(model, {"x": X}, None)["fc.weight"])


def test_a_mean_over_what_is_not_padding_counts_samples_unevenly():
    def program(w, x, y):
        kept = (y != 0).float()
        error = (x * w).sum(-1) - y
        return (error.square() * kept).sum() / kept.sum()

    x, y = torch.arange(24.0).reshape(3, 4, 2) / 9, torch.tensor([[1.0, 0, 0, 0], [1, 2, 3, 0], [1, 1, 1, 1]])
    samples = bp.per_sample(program, ["w", "error"])(W, x, y)
    assert samples.weights == pytest.approx([1 / 8, 3 / 8, 4 / 8], rel=1e-5)
    torch.testing.assert_close(samples["w"].sum(0), bp.probe(program)(W, x, y)["w"].grad)
    assert "a mean over 3 samples that count unevenly, from 0.125 to 0.5" in str(samples)


@pytest.mark.parametrize("chunk", [1, 3, 4, 100])
def test_chunks_change_nothing(chunk):
    whole, parts = (bp.per_sample(mean, ["w", "error"], chunk=most)(W, X, Y) for most in (None, chunk))
    for name in whole.names:
        torch.testing.assert_close(parts[name], whole[name], rtol=1e-6, atol=1e-7)
    assert parts.shares == pytest.approx(whole.shares)


def test_norms_hold_no_more_gradients_than_a_chunk(monkeypatch):
    """The gradients of 64 samples would be 64 MB; at most eight are made at once."""
    model, largest = nn.Linear(512, 512, bias=False), []
    norm = torch.linalg.vector_norm

    def heard(rows, **how):
        largest.append(rows.numel())
        return norm(rows, **how)

    monkeypatch.setattr(torch.linalg, "vector_norm", heard)
    samples = bp.per_sample(model, "weight", of=lambda out: out.square().sum(), chunk=8)(torch.randn(64, 512))
    assert max(largest) == 8 * 512 * 512 and len(largest) == 8
    assert samples.norms("weight")["weight"].shape == (64,)


def test_the_default_chunk_has_a_gigabyte_of_gradients(monkeypatch):
    sizes = []
    program = lambda w, x: (x @ w).square().sum()  # noqa: E731
    bp.per_sample(program, "w")(W, X)
    monkeypatch.setattr(sys.modules["backprobe.per_sample.runs"], "AT_ONCE", 2 * 4 * 300 * 3)
    real = torch.func.vmap
    monkeypatch.setattr(
        "backprobe.backends.torch.vectorized.vmap",
        lambda f, **how: lambda shifts, x: sizes.append(len(x)) or real(f, **how)(shifts, x),
    )
    bp.per_sample(program, "w")(torch.randn(300), torch.randn(8, 300))
    assert sizes == [3, 3, 2]


class Normed(nn.Module):
    def __init__(self, norm, flat=True):
        super().__init__()
        self.first, self.norm, self.flat = nn.Conv2d(2, 3, 2), norm, flat

    def forward(self, x):
        h = self.first(x)
        h = self.norm(h.mean((2, 3)) if self.flat else h)
        return h.square().mean()


class Standardized(nn.Module):
    def forward(self, h):
        return (h - h.mean(0)) / h.std(0, correction=0).add(0.1)


def contrastive(w, a, b):
    scores = (a * w) @ b.T
    return F.cross_entropy(scores, torch.arange(len(a)))


def by_largest(w, x):
    h = x * w
    h = h / h.abs().max()
    return h.sum()


IMAGES = torch.randn(5, 2, 4, 4, generator=torch.Generator().manual_seed(0))
MIXED = {
    "BatchNorm2d": (lambda: Normed(nn.BatchNorm2d(3), flat=False), (IMAGES,), "'norm'", "h = self.norm(h.mean"),
    "without running statistics": (
        lambda: Normed(nn.BatchNorm2d(3, track_running_stats=False), flat=False),
        (IMAGES,),
        "'norm'",
        "h = self.norm",
    ),
    "own statistics": (lambda: Normed(Standardized()), (IMAGES,), "'norm'", "return (h - h.mean(0))"),
    "contrastive": (lambda: contrastive, (W, X, X.flip(0)), "'scores'", "scores = (a * w) @ b.T"),
    "the largest": (lambda: by_largest, (W, X), "'h#1'", "h = h / h.abs().max()"),
}


@pytest.mark.parametrize("case", MIXED.values(), ids=MIXED.keys())
def test_mixed_samples_are_refused_with_the_line(case):
    make, given, name, line = case
    select = "w" if len(given) > 1 else "**"
    said = message(bp.Unsupported, lambda: bp.per_sample(make(), select)(*given))
    assert "computes something else for a sample in its batch than alone" in said
    found = re.search(r"found: (.*)", said)[1]
    assert name in found and "test_per_sample.py:" in found and line in found


def test_a_program_that_needs_several_samples_is_refused_with_its_line():
    said = message(bp.Unsupported, lambda: bp.per_sample(Normed(nn.BatchNorm1d(3)), "**")(IMAGES))
    assert said.startswith("Normed cannot run on one sample")
    assert "Expected more than 1 value per channel" in said
    assert "test_per_sample.py:" in said and "h = self.norm(h.mean" in said


def test_batch_normalisation_in_evaluation_is_no_mixing():
    assert bp.per_sample(Normed(nn.BatchNorm1d(3)).eval(), "**")(IMAGES).notes == ()


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.norm = nn.Linear(2, 64), nn.Dropout(0.5), nn.LayerNorm(64)

    def forward(self, x):
        return self.norm(self.drop(self.first(x))).square().mean()


def test_dropout_draws_for_each_sample_what_it_draws_in_the_batch():
    model = Dropping()
    samples = bp.per_sample(model, "**")(X)
    torch.manual_seed(0)  # as the runs of a per-sample gradient do
    whole = of_batch(model, {"x": X}, None)
    torch.testing.assert_close(samples["first.weight"].sum(0), whole["first.weight"])
    torch.testing.assert_close(samples["first.weight"], samples["first.weight"])
    assert samples.notes == ()


def test_numbers_that_a_sample_draws_alone_are_said():
    def program(w, x):
        noise = torch.randn(2, len(x)).T  # in another order than that of the samples
        h = x * w + noise
        return h.square().mean()

    samples = bp.per_sample(program, "w")(W, X)
    assert samples.weights.tolist() == [0.25] * 4
    assert "the program draws random numbers" in samples.notes[0]
    assert samples.shares.sum() == pytest.approx(1)


def test_random_numbers_hide_no_mixing():
    def program(w, x):
        noise = torch.randn(2, len(x)).T
        h = x * w + noise
        h = h - h.mean(0)
        return h.square().mean()

    said = message(bp.Unsupported, lambda: bp.per_sample(program, "w")(W, X))
    assert "computes something else for a sample in its batch than alone" in said


def test_the_program_is_left_as_it_was():
    model = nn.Sequential(nn.Linear(2, 3), nn.Dropout(), nn.BatchNorm1d(3).eval())
    model(X).sum().backward()
    before = {name: own.clone() for name, own in model.state_dict().items()}
    gradients, state = [own.grad.clone() for own in model.parameters()], torch.get_rng_state()
    samples = bp.per_sample(model, "**", of=lambda out: out.square().mean())(X)
    samples.grads()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(own, before[name]) for name, own in model.state_dict().items())
    assert all(map(torch.equal, gradients, [own.grad for own in model.parameters()]))
    assert [one.training for one in model] == [True, True, False]
    assert not any(one._forward_hooks for one in model.modules())
    assert all(own.requires_grad and own.is_leaf for own in model.parameters())


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_samples_with_nan_and_inf_are_named_and_the_others_are_measured(bad):
    x = X.clone()
    x[2, 0] = bad
    samples = bp.per_sample(mean, "w")(W, x, Y)
    assert samples.nonfinite == [2]
    assert "one sample has NaN or Inf in its gradient: 2" in str(samples)
    others = [0, 1, 3]
    alone = bp.probe(total)(W, X[others], Y[others])["w"].grad / 4
    torch.testing.assert_close(samples["w"][others].sum(0), alone)
    assert samples.weights.tolist() == [0.25] * 4
    assert np.nansum(samples.shares) == pytest.approx(1) and np.isnan(samples.shares[2])


@pytest.mark.parametrize(("loss", "weight"), [(mean, 0.25), (total, 1.0)])
def test_one_sample_that_is_left_shows_a_mean_and_a_sum(loss, weight):
    x = X.clone()
    x[1:] = float("nan")
    samples = bp.per_sample(loss, "w")(W, x, Y)
    assert samples.nonfinite == [1, 2, 3] and samples.weights.tolist() == [weight] * 4


def test_nothing_finite_is_left():
    samples = bp.per_sample(mean, "w")(W, X * float("nan"), Y)
    assert samples.nonfinite == [0, 1, 2, 3]
    assert "whether the loss is a mean or a sum is not known" in samples.notes[0]


def test_a_batch_of_one():
    samples = bp.per_sample(mean, ["w", "error"])(W, X[:1], Y[:1])
    torch.testing.assert_close(samples["w"][0], bp.probe(mean)(W, X[:1], Y[:1])["w"].grad)
    assert samples["error"].shape == (1,) and samples.shares == pytest.approx([1])


def test_nan_of_a_sample_alone_is_mixing_and_not_the_samples_own():
    def program(w, x):
        h = x * w
        h = h - h.mean(0)
        h = h / h.norm(dim=0)
        return h.pow(4).mean()

    said = message(bp.Unsupported, lambda: bp.per_sample(program, "w")(W, X))
    assert "computes something else for a sample in its batch than alone" in said and "h = h - h.mean(0)" in said


def test_a_value_has_all_of_its_names():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 3)

        def forward(self, x):
            logits = self.fc(x)
            return logits.square().mean()

    samples = bp.per_sample(Net(), ["fc", ":logits"])(X)
    assert samples.names == ["fc"] and samples["fc"].shape == (4, 3)
    assert torch.equal(samples[":logits"], samples["fc"]) and [*samples.norms(":logits")] == ["fc"]


def test_samples_that_dominate_and_oppose():
    x = torch.ones(12, 2)
    x[3], x[7] = 40.0, torch.tensor([-1.0, -2.0])
    samples = bp.per_sample(lambda w, x: (x @ w).sum(), "w")(W, x)
    assert samples.dominant == [3]
    assert samples.opposing == [7]
    assert "one sample has 77 % of all gradient norm: 3" in str(samples)
    assert "one sample opposes the sum: 7" in str(samples)
    assert samples.cosines[0] == pytest.approx(samples.shares[0] * np.linalg.norm(samples["w"].sum(0)) / 2**0.5)
    assert bp.per_sample(lambda w, x: (x @ w).sum(), "w")(W, torch.ones(12, 2)).dominant == []


def test_what_has_changed_since_is_not_differentiated():
    model = nn.Linear(2, 1)
    samples = bp.per_sample(model, "weight", of=lambda out: out.square().mean())(X)
    assert samples["weight"].shape == (4, 1, 2)
    with torch.no_grad():
        model.bias.add_(1)
    said = message(bp.Overwritten, lambda: samples["weight"])
    assert "next:  samples.grads() before the optimizer's step" in said
    assert samples.norms("weight")["weight"].shape == (4,)


def test_names_patterns_and_aliases():
    samples = bp.per_sample(mean, ["w", "error"])(W, X, Y)
    assert samples.names == ["w", "error"] and "w" in samples and len(samples) == 4
    assert torch.equal(samples[":error"], samples["error"])
    assert [*samples.norms("e*")] == ["error"]
    assert "there are no per-sample gradients of 'erorr'" in message(bp.UnknownName, lambda: samples["erorr"])
    assert "samples['error']" in message(bp.UnknownName, lambda: samples["erorr"])
    assert "no per-sample gradients of 'u'" in message(bp.NothingMatched, lambda: samples.norms("u"))


def test_arguments_of_the_batch_can_be_named():
    def program(scale, x):
        k = x * scale
        return k.square().sum()

    scale = torch.ones(4, 1)
    unclear = lambda: bp.per_sample(program, "k")(torch.ones(2), X)  # noqa: E731
    assert "batch=" in message(bp.BadOption, unclear)
    samples = bp.per_sample(program, ["scale", "x"], batch="x")(torch.ones(2), X)
    assert samples["x"].shape == (4, 2) and samples["scale"].shape == (4, 2)
    both = bp.per_sample(program, "x", batch=["scale", "x"])(scale, X)
    torch.testing.assert_close(both["x"], 2 * X)


WRONG = {
    "chunk=0": lambda: bp.per_sample(mean, "w", chunk=0),
    "chunk='4'": lambda: bp.per_sample(mean, "w", chunk="4"),
    "batch=3": lambda: bp.per_sample(mean, "w", batch=3),
    "an unknown argument": lambda: bp.per_sample(mean, "w", batch="z")(W, X, Y),
    "arguments of other lengths": lambda: bp.per_sample(mean, "w", batch=["w", "x"])(W, X, Y),
    "an argument without a tensor": lambda: bp.per_sample(mean, "w", batch="y")(W, X, 1.0),
    "samples of other lengths": lambda: bp.per_sample(mean, "w")(W, X, Y[:3]),
    "no samples": lambda: bp.per_sample(lambda w: w.sum(), "w")(W),
    "nothing selected": lambda: bp.per_sample(mean, None),
    "a name that is none": lambda: bp.per_sample(mean, "v")(W, X, Y),
    "nothing with a gradient": lambda: bp.per_sample(lambda w, x: ((x > 0) * w).sum(), "x", batch="x")(W, X > 0),
    "the output": lambda: bp.per_sample(mean, "return")(W, X, Y),
    "several outputs": lambda: bp.per_sample(mean, "w", of=["a", "b"]),
    "an output of several numbers": lambda: bp.per_sample(lambda w, x: x @ w, "w")(W, X),
    "a class": lambda: bp.per_sample(nn.Linear, "weight"),
    "an iterator": lambda: bp.per_sample(mean, "w")(W, X, iter([1])),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said_with_what_to_type(wrong):
    with pytest.raises(bp.BackprobeError) as caught:
        wrong()
    assert caught.value.next and max(map(len, str(caught.value).splitlines())) < 200


def test_it_is_one_short_line_and_a_page():
    samples = bp.per_sample(mean, ["w", "error"])(W, X, Y)
    assert repr(samples) == "<backprobe.PerSample of 4 samples: gradients of return by w, error>"
    assert "a mean over 4 samples" in samples._repr_html_()
    many = bp.per_sample(mean, "w")(W, X.repeat(6, 1), Y.repeat(6))
    assert "… 14 samples more, with smaller gradients" in str(many)


def test_a_program_that_cannot_be_vectorized_runs_on_one_sample_after_another():
    def program(w, x):
        if float(x.detach().sum()) > 100:  # which vmap cannot tell of many samples
            return (x @ w).sum()
        return (x @ w).square().sum()

    samples = bp.per_sample(program, "w")(W, X)
    assert "one sample after another, since the program does not run under torch.func.vmap" in samples.notes[0]
    torch.testing.assert_close(samples["w"].sum(0), bp.probe(program)(W, X)["w"].grad)
