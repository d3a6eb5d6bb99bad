"""What to write where a script keeps graphs: each remedy is code that can be typed."""

import pytest

from commands import invoked

HEAD = """\
import bisect, heapq, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
kept = []
for step in range(14):
    out = model(torch.randn(4, 8))
    loss = out.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
REMEDIES = {
    "a default of a lambda": (
        "kept.append(lambda value=loss: print(value))",
        "next: kept.append(lambda value=loss.detach(): print(value))",
    ),
    "a heap": ("heapq.heappush(kept, (step, out))", "next: out.detach() where out is put into kept"),
    "a sorted list": ("bisect.insort(kept, (step, loss))", "next: loss.detach() where loss is put into kept"),
}
HEALTHY = (
    "kept.append(lambda value=loss.detach(): print(value))",
    "heapq.heappush(kept, (step, out.detach()))",
    "bisect.insort(kept, (step, loss.item()))",
)


def measured(line, folder):
    script = folder / "train.py"
    script.write_text(f"{HEAD}    {line}\n")
    _, out, _ = invoked("memory", str(script))
    return " ".join(out.split())


@pytest.mark.parametrize("case", REMEDIES)
def test_what_to_write(case, tmp_path):
    line, remedy = REMEDIES[case]
    out = measured(line, tmp_path)
    assert "keeps the graphs of 9 earlier steps" in out
    assert remedy in out


@pytest.mark.parametrize("line", HEALTHY)
def test_what_is_written_cures(line, tmp_path):
    assert "keeps" not in measured(line, tmp_path)
