"""``run.plot``, ``run.plot_flow`` and ``conflicts.plot``: what is drawn is what there is, and names can be read."""

import numpy
import pytest
import torch

import backprobe as bp
from backprobe.record.statistics import COLUMNS, NOTHING, measured
from backprobe.storage.runs.layout import RowKey, StepData
from backprobe.storage.runs.writer import RunWriter


def written(folder, count):
    """Gradients that fall with depth; the second name has none at first, and the third only zeros."""
    one = RunWriter(folder, 0, {}, "bp.watch(model, folder)")
    one.add_rows([RowKey(f"h.{at}.attn", kind) for at in range(count) for kind in ("value", "grad")])
    for step in range(0, 50, 10):
        sizes = [size for at in range(count) for size in (1.0, 0.0 if at == 2 else 10.0 ** (at % 10))]
        rows = [
            NOTHING if at == 3 and step < 20 else measured(numpy.array([size, -size])) for at, size in enumerate(sizes)
        ]
        one.append(StepData(step, numpy.array(rows).reshape(len(rows), len(COLUMNS)).T))
    one.close()
    return bp.open_run(folder)


@pytest.mark.parametrize("count", [10, 300])
def test_a_heat_map(tmp_path, count):
    with written(tmp_path / "run", count) as run:
        figure = run.plot("grad.rms")
        figure.savefig(tmp_path / "heat.png")
        axes, scale = figure.axes
        (drawn,) = axes.collections
        assert drawn.get_array().shape == (count, 5)
        assert drawn.get_array().mask.sum() == 2
        assert (axes.get_title(), scale.get_yscale()) == ("grad.rms", "log")
        figure.canvas.draw()
        labels = [one.get_window_extent() for one in axes.get_yticklabels()]
        assert 10 <= len(labels) <= 60
        assert not any(a.overlaps(b) for a, b in zip(labels, labels[1:], strict=False))
        run.plot("value.min").savefig(tmp_path / "signed.png")
        run.plot("grad.zeros").savefig(tmp_path / "counted.png")
        assert all(one.stat().st_size > 1000 for one in tmp_path.glob("*.png"))


@pytest.mark.parametrize("count", [10, 300])
def test_the_flow_across_depth(tmp_path, count):
    with written(tmp_path / "run", count) as run:
        figure = run.plot_flow()
        figure.savefig(tmp_path / "flow.png")
        (axes,) = figure.axes
        values, gradients = axes.lines
        assert (values.get_label(), gradients.get_label()) == ("value.rms", "grad.rms")
        assert gradients.get_ydata()[:5].tolist() == [1, 10, 0, 1e3, 1e4]
        assert axes.get_title() == "step 40, from the first module to the last"
        figure.canvas.draw()
        labels = [one.get_window_extent() for one in axes.get_xticklabels()]
        assert not any(a.overlaps(b) for a, b in zip(labels, labels[1:], strict=False))
        assert numpy.isnan(run.plot_flow(step=0).axes[0].lines[1].get_ydata()[1])


@pytest.mark.parametrize("count", [3, 100])
def test_conflicts_of_outputs(tmp_path, count):
    def f(*xs):
        pulls = [(x * torch.tensor([1.0, at - 50.0])).sum() for at, x in enumerate(xs)]
        return {"a": sum(x[0] for x in xs), "b": sum(pulls), "c": xs[0].sum()}

    conflicts = bp.probe(f, "xs*", of=["a", "b", "c"])(*torch.ones(count, 2)).conflicts()
    figure = conflicts.plot()
    figure.savefig(tmp_path / "conflicts.png")
    axes, _ = figure.axes
    (drawn,) = axes.images
    assert drawn.get_array().shape == (min(count, 60), 3)
    assert drawn.get_array().mask.sum() == 2 * (min(count, 60) - 1)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a · b", "a · c", "b · c"]
    assert ("40 entries" in figure.get_suptitle()) is (count == 100)
    figure.canvas.draw()
    labels = [one.get_window_extent() for one in axes.get_yticklabels()]
    assert not any(a.overlaps(b) for a, b in zip(labels, labels[1:], strict=False))
