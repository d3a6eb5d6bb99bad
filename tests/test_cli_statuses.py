"""The exit status of each command in each of its forms, as the table of docs/command-line.md has it."""

import re
from pathlib import Path

import pytest
import torch

import backprobe as bp
from commands import WRONG, in_folder, invoked, verbs

FUNCTIONS = (
    WRONG
    + """\
def well(x, w):
    return (x * w).exp()

def ill(x, w):
    u = x.detach() * w
    return torch.sqrt(u)

def wrong(x, w):
    return Bad.apply(x * w)

def flat(x, w):
    a = torch.relu(x - 100)
    b = x.sum() * w
    return a.sum() + b * 0

"""
)
SCRIPT = """\
import sys
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.head = nn.Linear(2, 2), nn.Linear(2, 1)

    def forward(self, x):
        h = self.enc(x)
        CUT
        return self.head(h).square().mean()

torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x = torch.randn(8, 2)
for step in range(4):
    loss = net(x)BORN
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
END
"""


def script(cut="", born="", end=""):
    return SCRIPT.replace("CUT", cut).replace("BORN", born).replace("END", end)


FILES = {
    "f.py": FUNCTIONS,
    "made.py": "import torch\n\ndef make():\n    return torch.nn.Linear(2, 1)\n",
    "well.py": script(),
    "cut.py": script("h = h.detach()"),
    "nan.py": script("", " + (x[0, 0] - x[0, 0]).log() * 0"),
    "ends.py": script(end="sys.exit(7)"),
    "raises.py": script(end="raise LookupError('mine')"),
    "keeps.py": script(born="\n    LOSSES.append(loss)").replace("net = Net()", "net, LOSSES = Net(), []"),
}
GIVEN = ("x=3.0", "w=2.0")
ROWS = ("x=[[1.0, 2.0], [3.0, 4.0]]", "w=2.0")
STATUSES = [
    (0, "explain f.py:well", GIVEN), (1, "explain f.py:ill", GIVEN), (1, "explain f.py:ill x", GIVEN),
    (0, "explain f.py:well x", GIVEN),
    (0, "explain --nonfinite f.py:well", GIVEN), (1, "explain f.py:ill --nonfinite", ("x=0.0", "w=2.0")),
    (0, "explain well.rec", ()), (1, "explain ill.rec", ()), (1, "explain ill.rec x", ()), (0, "explain ill.rec w", ()),
    (0, "explain well.py", ()), (1, "explain cut.py", ()), (1, "explain --nonfinite nan.py", ()),
    (0, "explain --nonfinite well.py", ()), (0, "explain -m well", ()), (1, "explain -m cut", ()),
    (1, "explain --nonfinite -m nan", ()), (3, "explain --steps 9 raises.py", ()), (7, "explain --steps 9 -m ends", ()),
    (0, "health f.py:well", GIVEN), (1, "health f.py:flat", ROWS), (0, "health well.rec", ()),
    (1, "health flat.rec", ()),
    (0, "health well.py", ()), (1, "health cut.py", ()), (0, "health -m well", ()), (1, "health -m cut", ()),
    (0, "check f.py:well", GIVEN), (1, "check f.py:wrong", GIVEN), (1, "check --strict f.py:nothing", ("x=1.0",)),
    (0, "provoke f.py:well --bounds x=(1,4) --bounds w=(1,4)", GIVEN), (1, "provoke f.py:ill", GIVEN),
    (0, "diff f.py:well f.py:well", GIVEN), (1, "diff f.py:well f.py:wrong", GIVEN), (0, "diff well.rec well.rec", ()),
    (1, "diff well.rec ill.rec", ()), (1, "diff well.rec f.py:wrong", GIVEN),
    (0, "diff quiet quiet", ()), (1, "diff quiet loud", ()),
    (0, "report quiet", ()), (1, "report loud", ()), (1, "report loud --json", ()), (1, "report one", ()),
    (1, "report loud --name weight", ()), (0, "report loud --name lonely", ()), (0, "report loud --step 1", ()),
    (2, "report two", ()), (1, "report loud --html loud.html", ()), (0, "report quiet --html quiet.html", ()),
    (2, "report loud quiet", ()),
    (0, "view --no-open --until-ended loud quiet well.rec", ()), (2, "view nothing", ()), (2, "view", ()),
    (0, "memory well.py", ()), (1, "memory keeps.py", ()), (1, "memory --json --steps 4 -m keeps", ()),
    (2, "memory --steps 0 well.py", ()), (2, "export loud --to parquet", ()), (2, "export loud --to paper out", ()),
    (2, "export nothing --to parquet out", ()), (2, "export loud --to parquet out --field grad.size", ()),
    (0, "watch --folder a.run well.py", ()), (7, "watch --folder b.run ends.py", ()),
    (1, "watch --folder c.run -m raises", ()),
    (7, "watch --folder d.run -m ends", ()),
    (0, "probe f.py:ill", GIVEN), (0, "probe cut.py", ()), (0, "probe -m cut", ()), (0, "draw cut.py x.svg", ()),
    (0, "derive f.py:ill w", GIVEN), (2, "explain nowhere.py", ()), (2, "explain -m nowhere", ()),
    (2, "health f.py:no", ()),
    (0, "explain --json well.rec", ()), (1, "explain --json ill.rec", ()), (1, "explain --quiet cut.py", ()),
    (1, "explain --json -m cut", ()), (3, "explain --json --steps 9 raises.py", ()),
    (7, "explain --quiet --steps 9 -m ends", ()), (1, "explain --sarif a.sarif cut.py", ()),
    (0, "explain well.rec --sarif b.sarif", ()), (2, "explain --sarif f.py/c.sarif cut.py", ()),
    (1, "health flat.rec --sarif d.sarif --json", ()), (0, "check --quiet f.py:nothing", ("x=1.0",)),
    (1, "check --quiet --strict f.py:nothing", ("x=1.0",)), (1, "check f.py:wrong --sarif e.sarif --quiet", GIVEN),
    (1, "provoke --json f.py:ill", GIVEN), (1, "diff well.rec ill.rec --quiet", ()), (1, "report loud --quiet", ()),
    (2, "report two --json", ()), (2, "diff well.rec ill.rec --json --quiet", ()), (0, "probe f.py:ill --json", GIVEN),
    (7, "watch --json --folder e.run ends.py", ()), (1, "watch --quiet --folder g.run -m raises", ()),
    (1, "replay bad-step made.py:make", ()), (2, "replay well.rec made.py:make", ()), (2, "replay bad-step", ()),
    (0, "derive f.py:ill w --quiet", GIVEN), (0, "draw --json cut.py x.svg", ()),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Programs, recordings and runs, in which something is found or nothing."""
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("statuses")
        text = FUNCTIONS + "def nothing(x):\n    return x\n"
        with in_folder(path, patch, {**FILES, "f.py": text}):
            for name, words in (("well", GIVEN), ("ill", GIVEN), ("flat", ROWS)):
                assert invoked("probe", f"f.py:{name}", *words, "--save", f"{name}.rec")[0] == 0
            for name, rate in (("quiet", 0.001), ("loud", 1e30), ("one/loud", 1e30), ("two/a", 1.0), ("two/b", 1.0)):
                train(name, rate)
            model = torch.nn.Linear(2, 1)
            with pytest.raises(bp.NotFinite), bp.guard(model, capture="bad-step"):
                model(torch.full((1, 2), torch.nan))
            yield path


def train(name, rate):
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    with bp.watch(model, name, optimizer=optimizer) as run:
        for step in range(6):
            loss = model(torch.ones(4, 2)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.log(lonely=1.0 + step)


@pytest.mark.parametrize(("status", "command", "given"), STATUSES, ids=lambda one: one if isinstance(one, str) else "")
def test_the_status_of_each_form(folder, monkeypatch, status, command, given):
    code, out, err = invoked(*command.split(), *given)
    assert code == status, out + err


def test_the_table_has_every_command():
    page = (Path(__file__).parent.parent / "docs" / "command-line.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page.partition("## Exit status")[2], re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert listed == verbs() - {"demo"}
    assert {command.split()[0] for _, command, _ in STATUSES} == listed


def test_health_of_a_script_names_parameters_without_a_gradient(folder):
    out = invoked("health", "cut.py")[1]
    assert "no problems found" not in out and "2 of 4 parameters got no gradient" in out
    assert "without a gradient: net.enc.weight, net.enc.bias" in out
    assert "next:  backprobe explain cut.py says why" in out
