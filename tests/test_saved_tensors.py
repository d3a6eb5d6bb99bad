"""What a node has saved is read where no hook of the program unpacks it, also where PyTorch does not tell of hooks."""

import pytest

import prepared

LOST = """
import sys
from backprobe.backends import private_names
known = private_names.lookup
private_names.lookup = lambda path: None if path == sys.argv[1] else known(path)
"""
PROGRAM = """
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint
import backprobe as bp

class Unpacks:
    calls = 0
    def __call__(self, packed):
        self.calls += 1
        return packed

def leaf(*numbers):
    return torch.tensor(numbers, requires_grad=True)

ran = []
def part(value):
    ran.append(1)
    return value.exp() * value

x = leaf(1.0, 2.0)
assert bp.explain(checkpoint(part, x, use_reentrant=False).sum(), x).ok
assert len(ran) == 1
try:
    with bp.probe():
        v = checkpoint(part, x, use_reentrant=False).exp()
        v.add_(1)
        v.sum().backward()
except RuntimeError as error:
    print(error.__notes__[-1])
assert len(ran) == 2, "and none again, also while a trace function runs"

for kind in ("object", "function"):
    unpacks = Unpacks()
    hook = unpacks if kind == "object" else lambda packed: unpacks(packed)
    y = leaf(1.0, 2.0)
    with saved_tensors_hooks(lambda saved: saved, hook):
        loss = y.square().mean() * torch.tensor(4.0)
    assert bp.explain(loss, y).ok
    assert unpacks.calls == 0
    loss.backward()
    assert unpacks.calls > 0

def written_before(x, w):
    u = x * w
    v = u * u
    handle = u.data
    handle.mul_(2)
    return (v * w).sum()

print(bp.explain(bp.probe(written_before)(leaf(1.0, 2.0), leaf(3.0, 4.0)), "x").findings[0].kind)

with bp.probe() as rec:
    loss = leaf(1.0, 2.0).square().mean() * 65536.0
    loss.backward()
print(rec.notes)

layer = torch.nn.Linear(3, 1)
try:
    with bp.probe():
        buffer, losses = torch.zeros(3), []
        for i in range(2):
            buffer.copy_(torch.ones(3) * i)
            losses.append(layer(buffer).pow(2).sum())
        sum(losses).backward()
except RuntimeError as error:
    print(error.__notes__[-1])
print(sys.getprofile())
"""


def said(tmp_path, lost):
    (tmp_path / "program.py").write_text(LOST + PROGRAM)
    ended = prepared.run("torch", "program.py", lost, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize("lost", ["", "torch._C._autograd.SavedTensor.unpack_hook"])
def test_the_same_is_said_where_pytorch_does_not_tell_of_hooks(tmp_path, lost):
    """No hook of the program runs, and none of it is said otherwise."""
    words = said(tmp_path, lost)
    assert "written: 'v#1' (program.py" in words
    assert "\noverwritten\n" in words
    assert "65536" in words
    assert "'buffer#1' (program.py" in words
    assert words.endswith("None\n")
