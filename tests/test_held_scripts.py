"""Scripts, cells and drawings whose answer was untrue, or told the reader to type what does not help."""

import torch
from torch import nn

import backprobe as bp
from commands import forked, in_folder, invoked


def test_paths_to_one_of_several_outputs_are_not_paths_to_another():
    x = torch.tensor(2.0, requires_grad=True)
    with bp.probe(partials=True) as rec:
        for i in range(3):
            loss = (x * (i + 1)) ** 2
            loss.backward()
    assert "do not sum" not in str(rec), str(rec)
    assert rec.path_sums is None or rec.path_sums.agree


ONE_LINE = """\
import torch

m = torch.nn.Linear(2, 1)
o = torch.optim.SGD(m.parameters(), 0.1)

def step():
    o.zero_grad()
    loss = m(torch.ones(3, 2)).pow(2).mean()
    loss.backward()
    o.step()

for i in range(9): step(), print("turn", i)
"""


def test_a_loop_on_one_line_is_stopped(tmp_path, monkeypatch):
    with in_folder(tmp_path, monkeypatch, {"train.py": ONE_LINE}):
        status, out, err = invoked("explain", "train.py")
    assert status == 0, out + err
    assert "turn 8" not in out and "iteration 2" in out, out + err


MOVING = """\
import os
import torch

os.makedirs("outputs", exist_ok=True)
os.chdir("outputs")
m = torch.nn.Linear(2, 1)
o = torch.optim.SGD(m.parameters(), 0.1)
for i in range(3):
    o.zero_grad()
    loss = m(torch.ones(3, 2)).pow(2).mean()
    loss.backward()
    o.step()
"""


def test_the_report_of_a_script_that_moves_can_be_typed(tmp_path, monkeypatch):
    with in_folder(tmp_path, monkeypatch, {"train.py": MOVING}):
        status, out, err = forked("-m", "backprobe", "watch", "train.py", cwd=tmp_path)
        (line,) = [one for one in (out + err).splitlines() if "backprobe report" in one]
        folder = line.partition("backprobe report ")[2]
        status, out, err = invoked("report", folder)
    assert status == 0, line + out + err


CHILDREN = """\
import torch.multiprocessing as mp
import torch

def worker(rank):
    w = torch.ones(1, requires_grad=True)
    (w * 2).sum().backward()

if __name__ == "__main__":
    w = torch.ones(1, requires_grad=True)
    mp.spawn(worker, nprocs=1)
"""


def test_gradients_of_other_processes_are_not_denied(tmp_path):
    (tmp_path / "train.py").write_text(CHILDREN)
    status, out, err = forked("-m", "backprobe", "explain", "train.py", cwd=tmp_path)
    assert "no backward() ran: there is no gradient to explain" not in (out + err).splitlines(), out + err
    assert "process" in out + err, out + err


def test_a_line_along_which_nothing_flows_carries_no_several_values():
    def program(x, y):
        c = y * 2
        return (c.detach() * x).sum()

    rec = bp.probe(program, partials=True)(torch.ones(2), torch.ones(2))
    assert "several values flow" not in bp.draw(rec).svg


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        parts = [nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU()) for _ in range(4)]
        self.blocks = nn.ModuleList(parts)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x.square().sum()


def test_modules_of_other_kinds_are_not_rolled_into_one():
    assert "12 times" not in bp.draw(bp.probe(Net())(torch.ones(2, 4)), roll=True).svg
