"""Scripts that compile functions: the compiler leaves what observes the operations alone."""

import pytest

import prepared

SCRIPT = """\
import torch
from torch import nn

torch.manual_seed(0)
cell, out = nn.GRUCell(3, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *out.parameters()], 0.1)


@torch.compile(backend="eager")
def unrolled(x, state):
    for step in x:
        state = cell(step, state)
    return out(state){}


for step in range(2):
    loss = unrolled(torch.randn(2, 3, 3), torch.zeros(3, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("words", "behind", "status"),
    [(["explain"], "", 0), (["explain", "--nonfinite"], "", 0), (["explain", "--nonfinite"], " / 0", 1)],
)
def test_the_compiler_of_a_script_does_not_warn_of_the_probe(tmp_path, words, behind, status):
    (tmp_path / "train.py").write_text(SCRIPT.format(behind))
    ran = prepared.run("torch", "-m", "backprobe", *words, "train.py", cwd=tmp_path)
    assert ran.returncode == status, ran.stdout + ran.stderr
    assert "Dynamo" not in ran.stderr and "recompile" not in ran.stderr, ran.stderr
