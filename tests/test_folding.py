"""Lists of names are folded by path: what is printed stands for exactly these names, and can be pasted as a pattern."""

import random

import pytest
import torch
from torch import nn

import backprobe as bp
from backprobe.findings.phrasing import folded, listed, quoted
from backprobe.record.patterns import Selection, compile_pattern, expanded

SEGMENTS = [
    "h",
    "0",
    "1",
    "2",
    "3",
    "10",
    "01",
    "weight",
    "bias",
    "`a.b`",
    "`{x,y}`",
    "d['x.y']",
    "{x}",
    "f(a.b)",
    "ä",
    "a-b",
]


def made_names(rng):
    """Some names, of paths that share much."""
    pieces = [[rng.choice(SEGMENTS) for _ in range(rng.randint(1, 4))] for _ in range(4)]
    ends = [[rng.choice(SEGMENTS) for _ in range(rng.randint(0, 3))] for _ in range(rng.randint(1, 30))]
    return list({rng.choice("./:#").join([rng.choice(rng.choice(pieces)), *end]) for end in ends})


@pytest.mark.parametrize("seed", range(40))
def test_a_fold_expands_to_the_names_and_to_nothing_else(seed):
    rng = random.Random(seed)
    for _ in range(100):
        names = made_names(rng)
        found = folded(names)
        assert sorted(one for text, _ in found for one in expanded(text)) == sorted(names)
        assert [count for _, count in found] == [len(expanded(text)) for text, _ in found]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([f"h.{at}" for at in range(12)], "h.{0..11}"),
        ([f"h.{at}.{leaf}" for at in (0, 1, 2, 5) for leaf in ("weight", "bias")], "h.{0..2,5}.{weight,bias}"),
        ([f"h.{at}:u#{count}" for at in range(3) for count in range(2)], "h.{0..2}:u#{0,1}"),
        ([*"abcdef"], "a, b, c, d, e, f"),
        ([f"h.{at}" for at in range(5)], "h.0, h.1, h.2, h.3, h.4"),
        ([f"a.py:{at}" for at in range(6)], "a.py:0, a.py:1, a.py:2, a.py:3, a.py:4, a.py:5"),
        ([f"h.{at}" for at in range(6)] + ["wte", "wpe"], "h.{0..5}, wte, wpe"),
    ],
)
def test_many_names_are_folded_and_few_are_not(names, text):
    assert listed(names) == text


def test_what_is_cut_off_a_list_is_counted_in_names():
    names = [f"h.{at}.w" for at in range(4)] + [f"{letter}.{letter}" for letter in "abcdefghij"]
    assert listed(names, 3) == "h.{0..3}.w, a.a, b.b and 8 more"
    assert quoted(names, 1) == "'h.{0..3}.w' and 10 more"


def test_braces_stand_for_several_patterns():
    assert expanded("{a,b}.{0..1}:u") == ["a.0:u", "a.1:u", "b.0:u", "b.1:u"]
    assert expanded("!h.{0,2..3}") == ["!h.0", "!h.2", "!h.3"]
    assert expanded("`{a,b}`") == ["`{a,b}`"]
    assert expanded("d['{a,b}']") == ["d['{a,b}']"]
    assert expanded(r"re:h\.\d{1,2}") == [r"re:h\.\d{1,2}"]
    assert expanded("h.{a") == ["h.{a"]
    assert expanded("{a}.{b.c,d}.{e,f}") == ["{a}.{b.c,d}.e", "{a}.{b.c,d}.f"]
    assert expanded("{`a,b`,c}.u") == ["`a,b`.u", "c.u"]
    with pytest.raises(bp.BadName, match="stands for too many"):
        expanded("h.{0..99999999}")


def test_each_of_a_pattern_with_braces_must_match():
    model = nn.Sequential(*[nn.Linear(3, 3) for _ in range(4)])
    rec = bp.probe(model, ["{0..2}.{weight,bias}", "!3"], of=lambda y: y.sum())(torch.ones(2, 3))
    assert list(rec) == ["0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias", "of()"]
    assert list(rec.select("{0,2}.weight")) == ["0.weight", "2.weight"]
    with pytest.raises(bp.NothingMatched, match=r"the pattern '4\.weight' matches nothing"):
        bp.probe(model, "{3..4}.weight", of=lambda y: y.sum())(torch.ones(2, 3))


def test_a_module_whose_key_has_braces_is_quoted():
    model = nn.Sequential()
    model.add_module("{a,b}", nn.Linear(3, 3))
    rec = bp.probe(model, of=lambda y: y.sum())(torch.ones(2, 3))
    assert "`{a,b}`.weight" in rec
    assert list(bp.probe(model, "`{a,b}`.weight", of=lambda y: y.sum())(torch.ones(2, 3))) == ["`{a,b}`.weight", "of()"]


class Blind(nn.Module):
    """Layers that the loss reaches only past a detach."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleDict({"up": nn.Linear(4, 4), "down": nn.Linear(4, 4)}) for _ in range(3))
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer["down"](torch.relu(layer["up"](x)))
        return self.head(x.detach()).sum()


def test_a_report_folds_the_parameters_that_lack_a_gradient():
    rec = bp.probe(Blind(), ["**", ":*"])(torch.randn(2, 4))
    (finding,) = bp.explain(rec).findings
    lost = "layers.{0..2}.{up,down}.{weight,bias}"
    assert finding.consequence == f"no gradient comes to {lost}, layers.{{0..2}}.{{up,down}}, x#{{1..3}}"
    assert str(finding).startswith(f"{finding.title}\n") and finding.title.endswith(finding.consequence)
    assert len(bp.probe(Blind(), lost)(torch.randn(2, 4))) == 13  # with the output


def test_patterns_without_braces_compile_as_before():
    assert compile_pattern("h.*", in_function=False).matches("h.0:return#0")
    assert Selection("{u,v}", in_function=True).wants(":v#0")
