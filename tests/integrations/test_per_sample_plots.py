"""``samples.plot()`` and ``samples.to_dataframe()``: what is drawn, and what is in a row."""

import numpy as np
import torch

import backprobe as bp

X = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [-1.0, -1.0]])


def sampled(x=X):
    def program(w, x):
        u = x @ w
        return u.sum()

    return bp.per_sample(program, ["w", "u"])(torch.tensor([1.0, -0.5]), x)


def test_bars_are_the_shares_and_colours_the_norms(tmp_path):
    samples = sampled()
    figure = samples.plot()
    figure.savefig(tmp_path / "samples.png")
    above, below = figure.axes[:2]
    assert [bar.get_height() for bar in above.patches] == list(samples.shares)
    red = [bar.get_facecolor()[0] > 0.5 for bar in above.patches]
    assert red == [share < 0 for share in samples.shares] and any(red)
    assert [text.get_text() for text in below.get_yticklabels()] == ["w", "u"]
    np.testing.assert_allclose(below.collections[0].get_array(), [samples.norms("w")["w"], samples.norms("u")["u"]])


def test_a_cross_stands_for_nan(tmp_path):
    x = X.clone()
    x[1] = float("nan")
    figure = sampled(x).plot()
    figure.savefig(tmp_path / "samples.png")
    (crosses,) = (line for line in figure.axes[0].lines if line.get_marker() == "x")
    assert list(crosses.get_xdata()) == [1]


def test_a_row_for_each_sample():
    samples = sampled()
    frame = samples.to_dataframe()
    assert [*frame.columns] == [
        "sample",
        "loss",
        "weight",
        "norm",
        "share",
        "cosine",
        "is_finite",
        "norm of w",
        "norm of u",
    ]
    assert frame["share"].to_list() == list(samples.shares)
    assert frame["norm of w"].to_list() == list(samples.norms("w")["w"])
