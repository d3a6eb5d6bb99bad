"""The cost of ``backprobe explain`` of a script: seconds of CPU, beside the script itself, and without what looks for
useless gradients, or as the source of another version does it: ``python bench/explain.py [FOLDER OF ITS SOURCE]``.

Each run is a process of its own with one thread, so that importing PyTorch counts; the least of several counts, since
other work on the machine makes all of them larger. Both kinds of explaining look at two iterations and stop the script,
which has four.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 4
BEGIN = "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
TRAIN = """
for step in range(4):
    {batch}
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CLASSES = "nn.functional.cross_entropy(net(x), torch.randint(0, 10, (16,)))"
SCRIPTS = {
    "MLP, 3 layers": BEGIN
    + """
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.Adam(net.parameters(), 1e-3)
"""
    + TRAIN.format(batch="x = torch.randn(16, 64)", loss=CLASSES),
    "convolutions, 12 blocks": BEGIN
    + """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32)

    def forward(self, x):
        h = self.a(x)
        h = self.b(h)
        return x + torch.relu(h)

net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), *[Block() for _ in range(12)], nn.AdaptiveAvgPool2d(1),
                    nn.Flatten(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(net.parameters(), 1e-2)
"""
    + TRAIN.format(batch="x = torch.randn(16, 3, 32, 32)", loss=CLASSES),
    "GPT-2, 6 layers of 384": BEGIN
    + """
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=384, n_head=6, vocab_size=5000, n_positions=128))
optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
"""
    + TRAIN.format(batch="ids = torch.randint(0, 5000, (4, 128))", loss="model(ids, labels=ids).loss"),
}
PLAIN = """
import sys
import backprobe.backends.torch as adapter
adapter.TorchBackend.useless = None
from backprobe.cli import main
main(sys.argv[1:])
"""


def seconds(source, *words):
    """Of CPU, of a Python of its own; its backprobe is that of ``source``, if that is not empty."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | ({"PYTHONPATH": source} if source else {})
    subprocess.run([sys.executable, *words], env=environment, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main(other=""):
    beside = "other" if other else "without"
    print(f"{'':26}{'script':>9}{'explain':>9}{beside:>9}{'ratio':>8}")
    for name, text in SCRIPTS.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "train.py"
            file.write_text(text)
            explain = "-m", "backprobe", "explain", str(file)
            last = (other, *explain) if other else ("", "-c", PLAIN, "explain", str(file))
            kinds = ("", str(file)), ("", *explain), last
            rounds = [[seconds(*words) for words in kinds] for _ in range(RUNS)]
            bare, explained, without = map(min, zip(*rounds, strict=True))
        print(f"{name:26}{bare:9.2f}{explained:9.2f}{without:9.2f}{explained / without:8.2f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
