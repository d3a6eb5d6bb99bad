"""``rec.to_csv``: a row for each entry, written whole or not at all; and what it takes to make frames and pictures."""

import csv
import math
import sys

import pytest
import torch

import backprobe as bp
from asked import message


def program(x, w, e):
    k = 3
    u = x / w
    d = u.detach()
    h = e * 2
    return (u * k).sum() + d.sum() + h.sum()


@pytest.fixture
def rec():
    return bp.probe(program)(torch.tensor([1.0, -3.0]), torch.tensor([0.0, 2.0]), torch.zeros(0, 3))


def read(path):
    with path.open(encoding="utf-8", newline="") as opened:
        return {row["name"]: row for row in csv.DictReader(opened)}


def test_a_row_for_each_entry(rec, tmp_path):
    rec.to_csv(tmp_path / "rec.csv")
    rows = read(tmp_path / "rec.csv")
    assert list(rows) == list(rec)
    u, k, h, d = (rows[name] for name in "ukhd")
    assert (u["shape"], u["dtype"], u["device"], u["code"]) == ("(2,)", "float32", "cpu", "u = x / w")
    assert int(u["line"]) == rec["u"].source.line and u["file"] == rec["u"].source.file
    assert [float(u[f"value.{one}"]) for one in ("count", "posinf", "min", "rms")] == [2, 1, -1.5, 1.5]
    assert [float(u[f"grad.{one}"]) for one in ("sum", "absmax")] == [6, 3]
    assert (k["status"], k["shape"], k["value.count"], k["grad.rms"]) == ("not_tensor", "", "", "")
    assert (float(h["value.count"]), h["shape"]) == (0, "(0, 3)") and math.isnan(float(h["value.rms"]))
    assert (d["status"], d["reason"], d["grad.count"]) == ("detached", rec["d"].reason, "")


@pytest.mark.parametrize(
    ("tensor", "rms"),
    [
        (torch.tensor([3 + 4j, 0]), 5 / math.sqrt(2)),
        (torch.tensor([True, False]), math.sqrt(0.5)),
        (torch.tensor([1.0, 7.0]).bfloat16(), 5.0),
        (torch.tensor([[0.0, 2.0]]).to_sparse(), math.sqrt(2)),
        (torch.tensor([1, 7]), 5.0),
    ],
)
def test_statistics_of_every_dtype(tensor, rms, tmp_path):
    recording = bp.probe(lambda x, t: (t, x * 2)[1].sum(), ["x", "t"])(torch.ones(2), tensor)
    recording.to_csv(tmp_path / "rec.csv")
    assert float(read(tmp_path / "rec.csv")["t"]["value.rms"]) == pytest.approx(rms)


def test_it_is_written_whole_or_not_at_all(rec, tmp_path):
    there = tmp_path / "rec.csv"
    there.write_text("before")
    assert "cannot be written to" in message(bp.BadOption, lambda: rec.to_csv(__file__ + "/rec.csv"))
    assert "Is a directory" in message(bp.BadOption, lambda: rec.to_csv(tmp_path))
    assert "rec.to_csv('rec.csv')" in message(bp.BadOption, lambda: rec.to_csv(3))
    several = bp.probe(lambda x: {"a": x * 2, "b": x * x}, of=["a", "b"])(3.0)
    assert "rec.of('a').to_csv(path)" in message(bp.BadOption, lambda: several.to_csv(there))
    assert "rec.of('a').to_dataframe()" in message(bp.BadOption, lambda: several.to_dataframe())
    assert there.read_text() == "before" and list(tmp_path.iterdir()) == [there]
    rec.to_csv(there)
    assert there.read_text().startswith("name,status")


def test_what_is_not_installed_says_what_to_type(rec, monkeypatch):
    for name in ("pandas", "polars", "pyarrow", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    asked = {
        "rec.to_dataframe()": lambda: rec.to_dataframe(),
        "sweep.to_dataframe()": lambda: bp.Sweep("f", "return", 1.0).to_dataframe(),
    }
    for call, make in asked.items():
        said = message(bp.NotInstalled, make)
        assert f"asked: {call}" in said and said.endswith("next:  pip install pandas pyarrow")
    said = message(bp.NotInstalled, lambda: rec["u"].plot())
    assert "asked: rec['u'].plot('value')" in said and said.endswith("next:  pip install matplotlib")


def test_a_picture_of_what_is_not_there(rec):
    assert message(bp.BadOption, lambda: rec["u"].plot("grads")) == (
        "what is one of value, grad\n  asked: what='grads'\n  next:  what='grad'"
    )
    assert "'d' has no gradient" in message(bp.NoGradient, lambda: rec["d"].plot("grad"))
    assert "k has no numbers that can be drawn" in message(bp.BadOption, lambda: rec["k"].plot())
