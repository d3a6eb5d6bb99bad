"""``rec.conflicts``: cosines and norms of the gradients of several outputs, against gradients taken by hand."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch

import backprobe as bp
from two_tasks import KEYS, heads, one_at_a_time


def by_hand(a, b):
    """The cosine and the norms of two lists of gradients, each as one vector."""
    a, b = (torch.cat([one.double().flatten() for one in own]) for own in (a, b))
    return torch.dot(a, b) / (a.norm() * b.norm()), (a.norm(), b.norm())


def test_a_transformer_with_two_heads_against_gradients_taken_one_loss_at_a_time():
    model, batch = heads()
    conflicts = bp.probe(model, "**", of=KEYS)(*batch).conflicts("**.weight")
    grads = one_at_a_time(model, batch)
    expected = {}
    for pair in combinations(KEYS, 2):
        for name in grads[pair[0]]:
            if name.endswith(".weight") and all(grads[key][name] is not None for key in pair):
                expected[name, pair] = by_hand(*([grads[key][name]] for key in pair))
    assert {(one.name, one.outputs) for one in conflicts.found} == set(expected)
    for one in conflicts.found:
        cosine, norms = expected[one.name, one.outputs]
        assert one.cosine == pytest.approx(float(cosine), abs=1e-12)
        assert one.norms == pytest.approx([float(norm) for norm in norms])
        assert one.ratio == one.norms[0] / one.norms[1]
    for one in conflicts.together:
        names = [name for name, pair in expected if pair == one.outputs]
        cosine, norms = by_hand(*([grads[key][name] for name in names] for key in one.outputs))
        assert one.cosine == pytest.approx(float(cosine), abs=1e-12)
        assert one.norms == pytest.approx([float(norm) for norm in norms])
    assert len(conflicts.together) == 3


def test_as_data_and_as_a_table():
    model, batch = heads()
    rec = bp.probe(model, "**", of=KEYS)(*batch)
    conflicts = rec.conflicts(["**.weight", "!trunk.**"])
    assert (conflicts.names, conflicts.pairs) == (["embed.weight"], list(combinations(KEYS, 2)))
    assert conflicts.cosines.shape == conflicts.ratios.shape == (1, 3)
    assert np.isnan(conflicts.cosines).tolist() == [[False, True, True]]
    assert str(conflicts).splitlines()[1].split() == ["name", "outputs", "cosine", "norms", "ratio"]
    assert str(conflicts).splitlines()[2].split()[:5] == ["embed.weight", "tagging", "·", "scoring", "-0.05"]
    assert "<td>tagging · scoring</td>" in conflicts._repr_html_()
    assert repr(conflicts).startswith("<backprobe.Conflicts of tagging, scoring, penalty: 1 of 1 pair")


def probed(a, b):
    """Gradients of one value that are these two vectors."""
    return bp.probe(lambda x: {"a": (x * a).sum(), "b": (x * b).sum()}, of=["a", "b"])(torch.ones_like(a))


@pytest.mark.parametrize(
    ("a", "b", "cosine", "ratio"),
    [
        ([1.0, 0.0], [0.0, 2.0], 0.0, 0.5),
        ([1.0, 3.0], [-2.0, -6.0], -1.0, 0.5),
        ([1e-300, 1e-300], [1e300, 1e300], 1.0, 0.0),
        ([0.0, 0.0], [1.0, 2.0], math.nan, 0.0),
        ([1.0, 2.0], [0.0, 0.0], math.nan, math.inf),
        ([0.0, 0.0], [0.0, 0.0], math.nan, math.nan),
        ([math.inf, 0.0], [1.0, 1.0], math.nan, math.inf),
        ([math.nan, 0.0], [1.0, 1.0], math.nan, math.nan),
        ([math.nan, 0.0], [0.0, 0.0], math.nan, math.nan),
        ([0.0, 0.0], [math.nan, 0.0], math.nan, math.nan),
    ],
)
def test_vectors(a, b, cosine, ratio):
    (one,) = probed(torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64)).conflicts("x").found
    assert (one.cosine, one.ratio) == pytest.approx((cosine, ratio), nan_ok=True)
    assert not math.isnan(one.cosine) or "–" in str(probed(torch.tensor(a), torch.tensor(b)).conflicts("x"))


def test_complex_gradients_are_pairs_of_numbers():
    rec = bp.probe(lambda z: {"a": z.real.sum(), "b": (z.real - z.imag).sum()}, of=["a", "b"])(
        torch.tensor([1 + 1j, 2.0])
    )
    (one,) = rec.conflicts("z").found
    assert one.cosine == pytest.approx(1 / math.sqrt(2))


def test_of_a_saved_recording(tmp_path):
    model, batch = heads()
    rec = bp.probe(model, "**", of=KEYS)(*batch)
    rec.save(tmp_path / "saved")
    assert str(bp.load(tmp_path / "saved", to="numpy").conflicts()) == str(rec.conflicts())


def test_what_has_no_pair():
    rec = bp.probe(lambda x, y: {"a": x * 2, "b": y * 2}, of=["a", "b"])(1.0, 2.0)
    assert str(rec.conflicts()) == "0 of 0 pairs of gradients point apart (cosine below 0)"
    assert rec.conflicts().cosines.shape == (0, 1)


def test_one_output_has_no_conflicts():
    for of in (None, ["u"]):
        with pytest.raises(bp.BadOption, match=r"conflicts are between") as caught:
            bp.probe(_doubled, of=of)(1.0).conflicts()
        assert "bp.probe(f, of=['ce', 'kl'])(x).conflicts()" in str(caught.value)
    with pytest.raises(bp.NothingMatched):
        probed(torch.ones(2), torch.ones(2)).conflicts("q")


def _doubled(x):
    u = x * 2
    return u


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(bp.NotInstalled, match="pip install matplotlib"):
        probed(torch.ones(2), torch.ones(2)).conflicts().plot()
