"""A script that compiles its model, its step or its loss is explained like the same script without the compiler."""

import json

import pytest

from commands import in_folder, invoked

HEAD = """
import torch
from torch import nn

torch.manual_seed(0)
compiled = torch.compile(backend="eager")
""".lstrip()
PLAIN = HEAD.replace('torch.compile(backend="eager")', "lambda it: it")
IN_PLACE = 'model.compile(backend="eager")'

PROGRAMS = {
    "a model that detaches": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        features = self.encoder(x).detach()
        return self.head(features)

model = compiled(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for step in range(3):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
""",
    "a step with its backward": """
encoder, head = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)

@compiled
def train_step(x, y):
    features = encoder(x).data
    loss = nn.functional.mse_loss(head(features), y)
    loss.backward()
    return loss

for step in range(3):
    optimizer.zero_grad()
    train_step(torch.randn(16, 4), torch.randn(16, 1))
    optimizer.step()
""",
    "a model that is compiled in place": """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        with torch.no_grad():
            hidden = torch.relu(self.first(x))
        return self.second(hidden)

model = Block()
model.compile(backend="eager")
optimizer = torch.optim.Adam(model.parameters())
for step in range(3):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a loss that takes positions": """
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

@compiled
def criterion(logits, target):
    picked = logits.softmax(-1).argmax(-1).float()
    return ((picked - target) ** 2).mean()

loss = criterion(model(torch.randn(8, 3)), torch.ones(8))
loss.backward()
optimizer.step()
""",
    "a part that is never called": """
class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.online, self.target, self.unused = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.online(x), self.target(x)

model = compiled(Twin())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 4)
with torch.no_grad():
    model(x)
for step in range(2):
    online, target = model(x)
    loss = (online - target.detach()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a value that is written to": """
class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        hidden = torch.sigmoid(self.first(x))
        hidden += 1
        return self.second(hidden)

model = compiled(Gate())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    loss = model(torch.randn(8, 4)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a healthy model of PyTorch's own": """
model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))
fast = compiled(model)
optimizer = torch.optim.AdamW(fast.parameters(), lr=0.01)
for step in range(3):
    loss = nn.functional.mse_loss(fast(torch.randn(16, 4)), torch.randn(16, 1))
    loss.backward()
    nn.utils.clip_grad_norm_(fast.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
getattr(fast, "_orig_mod", fast).state_dict()
""",
    "NaN of a layer": """
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        length = torch.sqrt((x * x).sum(-1, keepdim=True))
        return self.scale * x / (length + 1e-6)

model = compiled(nn.Sequential(nn.Linear(4, 4, bias=False), Norm()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(8, 4)
x[3] = 0.0
loss = (model(x) - 1).pow(2).mean()
loss.backward()
optimizer.step()
""",
}


def explained(text, folder, monkeypatch, *options):
    folder.mkdir()
    with in_folder(folder, monkeypatch, {"train.py": text}):
        _, out, _ = invoked("explain", "--json", *options, "train.py")
    return json.loads(out.splitlines()[-1].replace("_orig_mod.", "").replace(str(folder), ""))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_compiled_script_is_explained_like_the_plain_one(name, tmp_path, monkeypatch, recwarn):
    text, options = PROGRAMS[name], ["--nonfinite"] * name.startswith("NaN")
    plain = explained(PLAIN + text.replace(IN_PLACE, "pass"), tmp_path / "plain", monkeypatch, *options)
    assert explained(HEAD + text, tmp_path / "compiled", monkeypatch, *options) == plain
    assert plain["ok"] is ("healthy" in name)
    assert [str(one.message) for one in recwarn if "ynamo" in str(one.message)] == []


BRANCHES = """
first, second = nn.Linear(3, 1), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)

@compiled
def chosen(x):
    return torch.cond(x.sum() > 0, lambda x: first(x), lambda x: second(x), (x,))

for step in range(3):
    loss = chosen(torch.randn(4, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    assert first.weight.grad is not None and second.weight.grad is not None
"""


@pytest.mark.parametrize("options", [[], ["--nonfinite"]], ids=["explain", "nonfinite"])
def test_parameters_that_only_branches_of_an_operator_read_get_their_gradients(options, tmp_path, monkeypatch):
    answer = explained(HEAD + BRANCHES, tmp_path / "made", monkeypatch, *options)
    assert answer["findings"] == []
