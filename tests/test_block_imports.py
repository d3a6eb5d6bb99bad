"""A block whose own code imports the framework, in a process that has none so far."""

import subprocess
import sys

PROGRAM = """\
import sys
import backprobe as bp
assert "torch" not in sys.modules
with bp.probe() as rec:
    import torch
    import torch.nn.functional as F
    x = torch.tensor([3.0], requires_grad=True)
    a = F.relu(x * 2)
    a.backward()
print(rec["x"].grad.item(), rec["a"].value.item())
"""


def test_the_import_stands_in_the_block(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    ran = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("2.0 6.0\n", "")
