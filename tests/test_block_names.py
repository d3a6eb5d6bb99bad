"""The block form sees the names that the function form sees: one program, with every kind of target, in both."""

import torch
from torch import nn

import backprobe as bp
from both_forms import Cache, agree, both_forms


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.5, -0.5]))
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x):
        hidden = x * self.weight
        return hidden.tanh()


@torch.no_grad()
def quiet(value):
    inside = value * 3
    return inside


# The program, as text, so that what runs in a function and what runs in a block is the same. One target a line:
PROGRAM = """
u = x * w
v: torch.Tensor = u + 1
v += x
p = q = v * 2
a, b = u * 2, u * 3
(c, [d, *e]) = a, (b, u.sin(), u.cos())
cache.last = d * 2
cache.parts[0] = cache.last + 1
table["key"] = c + d
table["sum"] = table["key"].sum()
r = (m := u * 4) + 1
for part in (u * 5, u * 6):
    s = part + 1
for index, (one, two) in enumerate([(u, v), (v, u)]):
    t = one - two
with held(u) as h, held(v) as (k, l):
    n = h * k
items = [element * 2 for element in (u, v)]
named = {key: item * 3 for key, item in zip("ab", items)}
total = sum(item.sum() for item in items)
match a:
    case y if len(y) == 2:
        o = y + 1
pair = Pair(u * 7, v)
z = u.clone()
z[0] = x[1] * 2
z.mul_(2)
z[1] += 1
torch.relu_(z)
f = scaled(z, 3.0, u, v, plus=w, other=1)
g = net(f)
net.seen = u.detach()
still = quiet(u)
gathered = [half for half in halves(f)]
lamb = (lambda value: value * 2)(g)
del total
loss = (g + f + lamb + n + o + s + t + r + e[0] + p + pair.first + sum(items)).sum() + table["sum"] + gathered[0]
"""


def arguments():
    x, w = (torch.tensor(data, dtype=torch.float64, requires_grad=True) for data in ([1.0, 2.0], [3.0, -1.0]))
    return x, w, Net().double(), Cache(), {}


def torchs(entry):
    return [call for call in entry.source.calls if call.startswith("torch")]


def test_the_block_form_has_the_names_and_numbers_of_the_function_form(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    forms = both_forms(tmp_path, __name__, PROGRAM, "x, w, net, cache, table", "        loss.backward()\n")
    function, block = bp.probe(forms.function)(*arguments()), forms.block(*arguments())
    agree(function, block)
    for name, found in block.items():
        assert (found.source is None) == (name in ("x", "w"))
        if found.source is not None and "?" not in found.source.calls:
            assert torchs(found) == torchs(function[name]), name


def test_a_test_function_whose_asserts_pytest_has_rewritten_is_still_what_its_source_says():
    x = torch.ones(2, requires_grad=True)
    with bp.probe() as rec:
        u = x * 2
        u.sum().backward()
    assert {name: str(entry.status) for name, entry in rec.items()} == {
        "x": "ok",
        "u": "ok",
        "backward()": "ok",
    }
