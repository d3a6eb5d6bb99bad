"""``backprobe watch`` logs the loss when the script reads its ``backward``, and the script does not notice."""

import pytest
import torch

import backprobe as bp
from commands import in_folder, invoked

TRAIN = """\
import sys
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
frozen = nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss_of = nn.MSELoss()
for x in torch.randn(5, 8, 3):
    with torch.no_grad():
        net(x)
    loss = loss_of(net(frozen(x)), x[:, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item(), sys.argv, __name__)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    with in_folder(tmp_path, monkeypatch, {"train.py": TRAIN}) as made:
        yield made


def test_a_script_that_compiles_its_call_of_backward(folder, capfd):
    """Dynamo leaves the call to Python: what reports the loss there is not compiled, and the loss is there."""
    text = TRAIN.replace("    loss.backward()\n", "    loss = differentiated(x)\n").replace(
        "for x in",
        "@torch.compile(backend='eager')\ndef differentiated(x):\n"
        "    loss = loss_of(net(x), x[:, :1])\n    value = loss.detach()\n"
        "    loss.backward()\n    return value\n\nfor x in",
        1,
    )
    (folder / "compiles.py").write_text(text)
    torch.compiler.reset()
    code, _, err = invoked("watch", "compiles.py")
    torch.compiler.reset()
    assert (code, err) == (0, "watched Sequential for 5 steps: backprobe report compiles.run/Sequential\n")
    assert "Graph break" not in capfd.readouterr().err
    with bp.open_run("compiles.run/Sequential") as run:
        assert len(run.series("loss", "logged")[0]) == 5


def test_looking_for_backward_is_no_loss(folder):
    """Inside a transform a tensor has no numbers to read, and what needs no gradient is no loss."""
    looks = """
    torch.func.vmap(lambda row: row.sum() if hasattr(row.sum(), "backward") else row)(x)
    torch.func.grad(lambda one: one * one if hasattr(one, "backward") else one)(x[0, 0])
    hasattr(torch.tensor(100.0), "backward")
    loss.backward()
"""
    (folder / "looks.py").write_text(TRAIN.replace("\n    loss.backward()\n", looks))
    assert invoked("watch", "looks.py")[0] == invoked("watch", "train.py")[0] == 0
    with bp.open_run("looks.run/Sequential") as one, bp.open_run("train.run/Sequential") as other:
        assert one.series("loss", "logged")[1].tolist() == other.series("loss", "logged")[1].tolist()


def test_a_loss_with_a_torch_function_of_its_own(folder, capsys):
    """It sees what the script calls, and no more."""
    text = TRAIN.replace("    loss.backward()", "    loss.as_subclass(Seen).backward()") + "print(Seen.names)\n"
    kind = """
class Seen(torch.Tensor):
    names = []
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.names.append(function.__name__)
        return super().__torch_function__(function, types, args, kwargs or {})

for x in"""
    (folder / "seen.py").write_text(text.replace("for x in", kind, 1))
    code, out, _ = invoked("watch", "seen.py")
    assert (code, out.splitlines()[-1]) == (0, str(["backward"] * 5))
    with bp.open_run("seen.run/Sequential") as run:
        assert len(run.series("loss", "logged")[0]) == 5
