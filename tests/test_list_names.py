"""``bp.names``: what can be asked of a function or model, read before it runs; each name is one that a probe takes."""

import functools
import math

import pytest
import torch
from torch import nn

import backprobe as bp
import several_paths
import small_models
import varied_models
from asked import message
from programs import PROGRAMS
from torch_framework import TORCH


class Attention(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.register_buffer("mask", torch.ones(4, 4).tril())

    def forward(self, x, scale=None):
        scores = self.query(x) @ self.key(x).transpose(-1, -2)
        if scale is not None:
            scaled = scores * scale
            return scaled @ x
        kind = "causal"
        parts = scores.masked_fill(self.mask == 0, -1e9), kind
        return parts[0].softmax(-1) @ x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in range(3))
        self.heads = nn.ModuleDict({"used": nn.Linear(8, 2), "spare": nn.Linear(8, 3)})

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return halved(self.heads["used"](x)).sum()


def halved(y):
    half = y / 2
    return half


TREE = """
Model: 48 names, 20 of them read from the source
├─ layers.{0..2}
│  ├─ .{query,key}
│  │  └─ .{weight,bias}
│  └─ :{x,scale,scores,scaled,kind,parts} (from source)
├─ heads.{used,spare}
│  └─ .{weight,bias}
├─ :return
└─ :{x,layer} (from source)
"""

AFTER = """
Model: 54 names, 7 of them read from the source
├─ layers.{0..2}
│  ├─ .{query,key}
│  │  └─ .{weight,bias}
│  ├─ :{x,scale,scores}
│  ├─ :{scaled,kind} (from source; not bound to a tensor in this run)
│  └─ :parts
│     └─ .0
├─ heads (path only)
│  ├─ .used
│  │  └─ .{weight,bias}
│  └─ .spare (did not run)
│     └─ .{weight,bias}
├─ :{return,x}
├─ :layer (from source; not bound to a tensor in this run)
└─ /halved
   └─ :{y,half}
"""


def test_the_names_of_a_model_print_as_a_tree():
    assert str(bp.names(Model())) == TREE.strip()


def test_a_forward_adds_what_it_shows():
    found = bp.names(Model()).after(torch.ones(2, 4, 8))
    assert str(found) == AFTER.strip()


def test_names_are_a_sequence_of_texts():
    found = bp.names(Model(), "layers.*")
    assert list(found) == ["layers.0", "layers.1", "layers.2"]
    assert (found[0], found[-1], found[1:], len(found)) == ("layers.0", "layers.2", ("layers.1", "layers.2"), 3)
    assert "layers.1" in found and "layers" not in found and found.index("layers.2") == 2
    assert repr(found) == "<Names of Model: 3>"
    assert "<pre" in found._repr_html_() and "layers.{0..2}" in found._repr_html_()


def test_patterns_are_those_of_a_probe():
    model = Model()
    assert bp.names(model, "layers.{0,2}:scores")[:] == ("layers.0:scores", "layers.2:scores")
    assert bp.names(model, ["**.bias", "!layers.**"])[:] == ("heads.used.bias", "heads.spare.bias")
    assert bp.names(model, r"re:.*:scor.*")[:] == tuple(f"layers.{at}:scores" for at in range(3))
    assert set(bp.names(model)) == set(bp.names(model, ["**", "**:*"]))
    assert {"layers.0:transpose()", "layers.0:query()"} <= set(bp.names(model, "layers.0:*()"))


TREE_OF_BLOCKS = """
Sequential: 17 names
├─ {0,1}
│  ├─ .layers.{0,1}
│  │  └─ .{weight,bias}
│  └─ .last (same as .layers.1)
└─ :return
"""


def test_a_module_of_several_paths_is_listed_once():
    blocks = nn.Sequential(*[several_paths.First() for _ in range(2)])
    names = bp.names(blocks, ["**", "!**:x"])
    assert str(names) == TREE_OF_BLOCKS.strip()
    assert "0.last" in names and "0.last.weight" not in names
    assert bp.names(blocks, "*.last.bias")[:] == ("0.last.bias", "1.last.bias")


def test_paths_through_private_attributes_are_counted():
    wrapping = several_paths.Wrapping()
    for names in (bp.names(wrapping), bp.names(wrapping).after(torch.ones(1, 2))):
        assert "encoder.0.weight" in names and "_wrapped.encoder" not in names and "_wrapped" in names
        (note,) = names.notes
        assert note.startswith("8 further paths ") and note.endswith(" _wrapped.encoder")
    assert bp.names(wrapping, "_wrapped.*")[:] == ("_wrapped.encoder", "_wrapped.head")


def test_a_pattern_that_matches_nothing_names_the_nearest():
    assert message(bp.NothingMatched, lambda: bp.names(Model(), "layers.*:score")) == (
        "the pattern 'layers.*:score' matches nothing in Model\n"
        "  asked: bp.names(model, 'layers.*:score')\n"
        "  found: 48 names, the nearest: layers.2:scores, layers.1:scores, layers.0:scores, layers.2:scale, "
        "layers.1:scale\n"
        "  next:  bp.names(model, 'layers.2:scores')"
    )


def test_nothing_is_called():
    class Loud(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            loud = ran.append(1)
            return self.inner(x)

    def shout(x):
        ran.append(1)
        y = x * 2
        return y

    ran = []
    assert len(bp.names(Loud())) == len(["inner", "inner.weight", "inner.bias", ":return", ":x", ":loud"])
    assert bp.names(shout)[:] == ("x", "y", "return")
    assert ran == []


def test_a_forward_leaves_the_model_as_a_plain_call_does():
    model, plain = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    x = torch.randn(4, 3)
    bp.names(model).after(x)
    plain(x)
    assert torch.equal(model.running_mean, plain.running_mean)
    assert all(one.grad is None for one in model.parameters())
    assert not model._forward_hooks


def test_a_forward_may_return_anything():
    assert bp.names(lambda n: n + 1, backend="torch").after(1)[:] == ("n", "return")
    assert bp.names(lambda x: {"a": x * 2, "b": "text"}, "return*").after(torch.ones(2))[:] == ("return", "return.a")
    with torch.no_grad():
        assert "return" in bp.names(lambda x: x * 2).after(torch.ones(2))


def test_what_is_neither_a_function_nor_a_model_is_refused():
    assert message(bp.BadOption, lambda: bp.names(3)).endswith("next:  bp.names(f), with f a function or a model")
    assert "takes an object of it" in message(bp.BadOption, lambda: bp.names(Model))


# every name is one that a probe takes

GIVEN = {
    "tagger": (lambda: varied_models.Tagger(), lambda: (torch.randint(14, (2, 5)),)),
    "autoencoder": (lambda: varied_models.ConvAutoencoder(), lambda: (torch.rand(2, 1, 12, 12),)),
    "vae": (lambda: varied_models.Vae(), lambda: (torch.rand(3, 144),)),
    "unet": (lambda: varied_models.Unet(), lambda: (torch.rand(2, 1, 12, 12),)),
    "vit": (lambda: varied_models.Vit(), lambda: (torch.rand(2, 1, 12, 12),)),
    "experts": (lambda: varied_models.Experts(), lambda: (torch.rand(6, 16),)),
    "siren": (lambda: varied_models.siren(), lambda: (torch.rand(6, 2),)),
    "elman": (lambda: varied_models.Elman(), lambda: (torch.rand(3, 20),)),
    "conv1d": (lambda: varied_models.conv1d(), lambda: (torch.rand(2, 1, 30),)),
    "plain": (lambda: varied_models.plain(3, nn.GELU), lambda: (torch.rand(4, 16),)),
    "mlp": (lambda: small_models.mlp(), lambda: (torch.rand(4, 16),)),
    "cnn": (lambda: small_models.cnn(norm=True), lambda: (torch.rand(2, 1, 12, 12),)),
    "residual": (lambda: small_models.Residual(), lambda: (torch.rand(4, 16),)),
    "lora": (lambda: small_models.Lora(nn.Linear(16, 4)), lambda: (torch.rand(4, 16),)),
    "branches": (lambda: small_models.Branches(), lambda: (torch.rand(4, 16),)),
    "attention": (lambda: Model(), lambda: (torch.rand(2, 4, 8),)),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), lambda: (torch.rand(2, 3, 8),)),
    "lstm": (lambda: nn.LSTM(4, 5, 2), lambda: (torch.rand(3, 2, 4),)),
}


def summed(result):
    """One number of whatever a model returns."""
    found = [result]
    for one in found:
        found += list(one.values()) if isinstance(one, dict) else list(one) if isinstance(one, tuple | list) else []
    return sum(one.sum() for one in found if isinstance(one, torch.Tensor) and one.is_floating_point())


@pytest.mark.parametrize("kind", GIVEN)
def test_a_probe_takes_each_name_of_a_model(kind):
    make, given = GIVEN[kind]
    model = make()
    before = bp.names(model)
    for name in dict.fromkeys([*before, *before.after(*given())]):
        rec = bp.probe(model, name, of=summed)(*given())
        assert any(entry.name != "of()" for entry in rec.values()) or math.isfinite(rec.result.sum()), name


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: f"{program.section}-{program}")
def test_a_probe_takes_each_name_of_a_function(program):
    def arguments():
        return [TORCH.given(value) for value in program.given]

    function, options = program.make(TORCH.ops), dict(program.options)
    options.pop("select", None)
    before = bp.names(function, backend="torch")
    names = dict.fromkeys([*before, *before.after(*arguments())])
    assert set(before) <= set(names)
    for name in names:
        bp.probe(function, name, backend="torch", **options)(*arguments())


# names that a run does not come to


def test_a_name_of_a_line_that_did_not_run_has_an_entry():
    rec = bp.probe(Model(), "layers.*:scaled")(torch.ones(2, 4, 8))
    assert [rec[f"layers.{at}:scaled"].status for at in range(3)] == ["not_executed"] * 3
    assert rec["layers.0:scaled"].reason == "no line that binds it was seen to run"
    assert "no line that binds it was seen to run" in str(bp.explain(rec, "layers.0:scaled"))


def test_a_name_that_held_no_tensor_has_an_entry():
    rec = bp.probe(Model(), "layers.0:kind")(torch.ones(2, 4, 8))
    assert rec["layers.0:kind"].status is bp.GradStatus.NOT_TENSOR
    assert rec["layers.0:kind"].reason == "no tensor was seen in what the lines that ran bound it to"


def branching(x, flag=False):
    if flag:
        rare = x * 3
    text = f"{flag}"
    return x * 2 if text else rare


def test_a_function_has_such_entries_too_and_again_in_the_next_run():
    probe = bp.probe(branching, ["rare", "text"])
    for _ in range(3):
        rec = probe(torch.ones(2, requires_grad=True).sum())
        assert [(entry.name, str(entry.status)) for entry in rec.values()] == [
            ("return", "ok"),
            ("rare", "not_executed"),
            ("text", "not_tensor"),
        ]
    assert probe(1.0, flag=True)["rare"].value == 3


def test_a_name_that_the_source_does_not_have_matches_nothing():
    with pytest.raises(bp.NothingMatched, match="the pattern 'rarely' matches nothing in branching"):
        bp.probe(branching, "rarely")(1.0)


def test_decorated_partial_and_bound_functions_are_read():
    def doubled(function):
        @functools.wraps(function)
        def around(*args):
            return function(*args) * 2

        return around

    @doubled
    def f(x, w):
        u = x * w
        return u

    class Holder:
        def step(self, x):
            y = x + 1
            return y

    assert bp.names(f)[:] == ("x", "w", "u", "return")
    assert bp.names(functools.partial(f, 2.0))[:] == ("x", "w", "u", "return")
    assert bp.names(Holder().step)[:] == ("x", "y", "return")
    assert bp.names(math.sqrt)[:] == ()
