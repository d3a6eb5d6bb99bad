"""``report.plot()`` and ``report.to_dataframe()`` of a report on memory."""

import pytest
import torch
from torch import nn

import backprobe as bp


@pytest.fixture
def report():
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
    with bp.memory(model) as report:
        out = model(torch.randn(4, 8))
        out.square().mean().backward()
    return report


def test_bars_are_the_bytes_of_lines_and_modules(report, tmp_path):
    figure = report.plot()
    figure.savefig(tmp_path / "memory.png")
    (axes,) = figure.axes
    widths = [bar.get_width() * 1e6 for bar in axes.patches]
    assert sum(widths) == pytest.approx(report.nbytes)
    assert [text.get_text() for text in axes.get_yticklabels()] == [*report.by("line")]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        module or "outside of modules" for module in report.by("module")
    ]
    bp.MemoryReport().plot().savefig(tmp_path / "empty.png")


def test_a_row_for_each_line(report):
    frame = report.to_dataframe()
    assert [*frame.columns] == ["file", "line", "code", "name", "op", "bytes"]
    assert frame["bytes"].sum() == report.nbytes
    assert frame["line"].to_list() == [one.source.line for one in report.saved]
