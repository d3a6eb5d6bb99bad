"""``result.plot()`` and ``result.to_dataframe()`` of an attribution."""

import torch

import backprobe as bp

CLEAN, CORRUPT = torch.tensor([[1.0, -2.0, 0.5]]), torch.tensor([[2.0, 0.0, 1.0]])


def program(x):
    u = x * 3
    v = u * u
    return v.sum()


def test_bars_are_the_largest_values_and_edges(tmp_path):
    result = bp.attribute(program, CLEAN, CORRUPT, ["x", "u", "v"])
    figure = result.plot(2)
    figure.savefig(tmp_path / "attribution.png")
    values, edges = figure.axes
    assert [bar.get_width() for bar in values.patches] == list(result.top(2).values())
    assert [label.get_text() for label in values.get_yticklabels()] == list(result.top(2))
    assert [bar.get_width() for bar in edges.patches] == list(result.top_edges(2).values())


def test_indices_along_an_axis_are_a_heat_map(tmp_path):
    result = bp.attribute(program, CLEAN, CORRUPT, ["x", "u"], axis=1, edges=False)
    figure = result.plot()
    figure.savefig(tmp_path / "attribution.png")
    assert figure.axes[0].images[0].get_array().tolist() == [result.parts[name].tolist() for name in result.top()]


def test_a_frame_has_a_row_for_each_value_or_edge():
    result = bp.attribute(program, CLEAN, CORRUPT, ["x", "u", "v"])
    frame, edges = result.to_dataframe(), result.to_dataframe(edges=True)
    assert frame["attribution"].tolist() == list(result.numbers.values())
    assert list(zip(edges["source"], edges["target"])) == list(result.edges)
