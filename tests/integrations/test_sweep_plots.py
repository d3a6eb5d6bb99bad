"""``sweep.plot()``: what its bars and colours stand for."""

import numpy as np
import pytest
import torch

import backprobe as bp

X = torch.tensor([[1.0, -2.0, 0.5], [2.0, 0.0, 1.0]])


def program(x):
    u = x * 3
    v = u * u
    return v.sum()


def swept(**options):
    return bp.sweep(program, ["u", "v"], replace=torch.zeros_like, approximate=True, **options)(X)


def named(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_bars_are_the_effects_and_circles_the_approximations(tmp_path):
    found = swept()
    figure = found.plot()
    figure.savefig(tmp_path / "sweep.png")
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == list(found.effects.values())
    assert list(axes.lines[0].get_xdata()) == list(found.approximations.values())
    assert named(axes) == ["u", "v"]
    assert axes.yaxis_inverted()


def test_colours_are_the_grid(tmp_path):
    found = swept(axis=1)
    figure = found.plot()
    figure.savefig(tmp_path / "sweep.png")
    effects, predicted, _ = figure.axes
    assert np.array_equal(effects.images[0].get_array(), found.grid)
    assert predicted.images[0].get_array().ravel().tolist() == list(found.approximations.values())
    assert effects.images[0].get_clim() == predicted.images[0].get_clim()
    assert sum(effects.images[0].get_clim()) == 0, "white is 0"
    assert effects.get_xlabel() == "index along axis 1"


def test_of_several_axes_the_last_has_the_columns():
    found = swept(axis=(1, 0))
    effects = found.plot().axes[0]
    assert named(effects) == ["u, 0", "u, 1", "u, 2", "v, 0", "v, 1", "v, 2"]
    assert np.array_equal(effects.images[0].get_array(), found.grid.reshape(6, 2))
    assert effects.get_xlabel() == "index along axis 0"


@pytest.mark.parametrize("count", [10, 300])
def test_names_can_be_read(count):
    def many(x):
        for _ in range(count):
            x = x * 1.01
        return x.sum()

    figure = bp.sweep(many, "x", replace=torch.zeros_like)(X).plot()
    figure.canvas.draw()
    labels = [one.get_window_extent() for one in figure.axes[0].get_yticklabels()]
    assert 10 <= len(labels) <= 60
    assert not any(a.overlaps(b) for a, b in zip(labels, labels[1:], strict=False))


def test_values_of_different_sizes_leave_empty_places():
    def uneven(x):
        u = x[:2]
        return (x.sum() * u.sum()).square()

    found = bp.sweep(uneven, ["x", "u"], replace=torch.zeros_like, axis=0)(torch.ones(3))
    shown = found.plot().axes[0].images[0].get_array()
    assert np.isnan(np.ma.filled(shown, np.nan)).tolist() == [[False] * 3, [False, False, True]]
