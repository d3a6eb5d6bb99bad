"""The block form sees the names that the function form sees: one program, with every kind of target, in both."""

import contextlib
from dataclasses import dataclass

import torch
from torch import nn

import backprobe as bp


class Cache:
    def __init__(self):
        self.last = None
        self.parts = [None, None]


@dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.5, -0.5]))
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x):
        hidden = x * self.weight
        return hidden.tanh()


@contextlib.contextmanager
def held(value):
    yield value * 2


def scaled(value, by=2.0, *more, plus=None, **others):
    result = value * by
    for other in more:
        result = result + other
    return result if plus is None else result + plus


@torch.no_grad()
def quiet(value):
    inside = value * 3
    return inside


def halves(value):
    for part in value:
        half = part / 2
        yield half


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


def write(tmp_path, monkeypatch):
    indented = "".join(f"    {line}\n" for line in PROGRAM.splitlines())
    module = tmp_path / "both_forms.py"
    module.write_text(
        "import torch\nimport backprobe as bp\n"
        f"from {__name__} import *\n\n"
        f"def function(x, w, net, cache, table):\n{indented}    return loss\n\n"
        "def block(x, w, net, cache, table):\n    with bp.probe() as rec:\n"
        + "".join(f"        {line}\n" for line in PROGRAM.splitlines())
        + "        loss.backward()\n    return rec\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import both_forms

    return both_forms


def arguments():
    x, w = (torch.tensor(data, dtype=torch.float64, requires_grad=True) for data in ([1.0, 2.0], [3.0, -1.0]))
    return x, w, Net().double(), Cache(), {}


def same(a, b):
    if not isinstance(a, torch.Tensor):
        return repr(a) == repr(b)
    return a.dtype == b.dtype and torch.equal(a, b)


def torchs(entry):
    return [call for call in entry.source.calls if call.startswith("torch")]


def test_the_block_form_has_the_names_and_numbers_of_the_function_form(tmp_path, monkeypatch):
    forms = write(tmp_path, monkeypatch)
    function, block = bp.probe(forms.function)(*arguments()), forms.block(*arguments())
    assert list(function) == list(block)
    assert set(function.record.names) - set(block.record.names) == {":return#0"}  # a block returns nothing
    assert set(block.record.names) < set(function.record.names)
    for name, expected in function.items():
        found = block[name]
        assert (found.status, found.reason, found.op) == (expected.status, expected.reason, expected.op), name
        assert [*found.aliases] == [alias for alias in expected.aliases if alias != "return"], name
        assert same(found.value, expected.value), name
        assert same(found.grad_or_none, expected.grad_or_none), name
        assert found.inputs == expected.inputs, name
        if found.source is None:  # what was there before the block
            assert name in ("x", "w")
        else:
            assert (found.source.text, found.source.expression) == (expected.source.text, expected.source.expression)
            assert "?" in found.source.calls or torchs(found) == torchs(expected), name
    assert block.backward_order() == function.backward_order()
    assert [entry.name for entry in block.outputs] == ["loss"]


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
