"""The page of everyday lines, before and now: each new line runs, and each old one does what the page says."""

import re
from pathlib import Path

import pytest
import torch

import backprobe as bp

PAGE = Path(__file__).parents[1] / "docs" / "everyday.md"
ROW = re.compile(r"^\| `(.+?)` \| `(.+?)` \| (works|refused) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 1)

    def forward(self, x):
        return self.fc(x)


def f(x):
    u = torch.log(x + 3)
    return u.sum()


@pytest.fixture
def names(tmp_path):
    model, x = Net(), torch.ones(2, 3)
    with bp.watch(model, tmp_path / "watched", pace=bp.Pace(histogram=1)) as watching:
        model(x).sum().backward()
        watching.step()
    with bp.open_run(tmp_path / "watched") as run:
        yield {
            "bp": bp,
            "torch": torch,
            "model": model,
            "x": x,
            "f": f,
            "loss_fn": f,
            "rec": bp.probe(f)(x),
            "run": run,
            "report": bp.explain(bp.probe(lambda x, w: x.detach() * w)(2.0, 3.0), "x"),
            "folder": tmp_path / "run",
            "path": tmp_path / "rec.csv",
        }


def test_there_are_twenty():
    assert len(ROWS) == 20 == PAGE.read_text().count("\n| `")


@pytest.mark.filterwarnings("ignore:unclosed file")
@pytest.mark.parametrize(("before", "now", "old"), ROWS, ids=[before for before, *_ in ROWS])
def test_a_line(before, now, old, names):
    exec(now, names)
    if old == "works":
        exec(before, names)
        return
    with pytest.raises(bp.BackprobeError) as refused:
        exec(before, names)
    assert refused.value.next, str(refused.value)
