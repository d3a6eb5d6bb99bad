"""``entry.plot()``: a line, a heat map or a histogram, in which what is not finite is seen and counted."""

import io
import math

import numpy
import pytest
import torch

import backprobe as bp

NAN, INF = math.nan, math.inf


def plotted(tensor):
    rec = bp.probe(lambda x, t: (t, x * 2)[1].sum(), ["x", "t"])(torch.ones(2), tensor)
    return rec["t"].plot()


def said(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_one_axis_is_a_line_and_several_a_heat_map():
    rec = bp.probe(lambda x, w: (x @ w).square().sum())(torch.ones(3), torch.ones(3, 2))
    line = rec["x"].plot("grad").axes[0]
    assert line.lines[0].get_ydata().tolist() == rec["x"].grad.tolist()
    assert line.get_title() == "gradient of x\n3"
    image = rec["w"].plot().axes[0].images[0]
    assert image.get_array().tolist() == rec["w"].value.tolist()


@pytest.mark.parametrize(
    ("shape", "grid", "labels"),
    [
        ((64, 3, 7, 7), (64, 147), ("index along axis 0", "index along axes 1, 2, 3")),
        ((2, 16, 64), (32, 64), ("index along axes 0, 1", "index along axis 2")),
    ],
)
def test_several_axes_are_rows_and_columns(shape, grid, labels):
    axes = plotted(torch.randn(shape)).axes[0]
    assert axes.images[0].get_array().shape == grid
    assert (axes.get_ylabel(), axes.get_xlabel()) == labels


def test_what_is_not_finite_is_seen_and_counted():
    tensor = torch.randn(4, 5)
    tensor[0, 1], tensor[2, 3], tensor[3, 0], tensor[3, 1] = NAN, INF, -INF, -INF
    figure = plotted(tensor)
    assert said(figure) == ["1 NaN", "1 +Inf", "2 −Inf"]
    shown = figure.axes[0].images[1].get_array()
    assert numpy.array_equal(shown[..., 3] > 0, ~torch.isfinite(tensor).numpy())
    marks = plotted(tensor.reshape(-1)).axes[0].lines[1:]
    assert [mark.get_xdata().tolist() for mark in marks] == [[1], [13], [15, 16]]
    many = torch.randn(300, 300)
    many[0, :3] = NAN
    figure = plotted(many)
    assert said(figure) == ["3 NaN"]
    assert sum(bar.get_height() for bar in figure.axes[0].patches) == 300 * 300 - 3


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(0, 3),
        torch.tensor(2.0),
        torch.tensor(NAN),
        torch.tensor([True, False]),
        torch.zeros(4, 4),
        torch.full((3, 3), NAN),
        torch.full((70_000,), NAN),
        torch.full((70_000,), 2.0),
        torch.arange(6).reshape(2, 3),
        torch.randn(5, 6, dtype=torch.complex64),
        torch.randn(3, 4).bfloat16(),
        torch.eye(3).to_sparse(),
        torch.tensor([[1e308, -1.7e308], [NAN, 0.0]], dtype=torch.float64),
        torch.tensor([5e-324, -1e-323], dtype=torch.float64),
        torch.randn(70_000, dtype=torch.float64) * 1e307,
    ],
    ids=lambda tensor: f"{tuple(tensor.shape)} {tensor.dtype}",
)
@pytest.mark.filterwarnings("error")
def test_every_tensor_is_drawn_without_a_warning(tensor):
    figure = plotted(tensor)
    for format in ("png", "pdf", "svg"):
        figure.savefig(io.BytesIO(), format=format)
    dense = tensor.to_dense()
    assert said(figure) == ([f"{int(dense.isnan().sum()):,} NaN"] if dense.isnan().any() else [])


def test_complex_numbers_are_magnitudes_and_a_name_is_no_formula():
    assert plotted(torch.tensor([[3 + 4j, 0], [0, 1j]])).axes[0].images[0].get_array().tolist() == [[5, 0], [0, 1]]
    assert plotted(torch.tensor([3 + 4j])).axes[0].get_title().startswith("magnitude of t")
