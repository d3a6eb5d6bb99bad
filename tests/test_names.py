"""The grammar of names, patterns over them, and the nearest names."""

import pytest
import torch

import backprobe as bp
from asked import Parts, message, says
from backprobe.record.names import canonical, counts_agree, nearest, quote, split, strip
from backprobe.record.patterns import Selection, compile_pattern


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("u", ("u", None)),
        (":u#1.0", ("", "u#1.0")),
        ("transformer.h.3.attn#1:scores", ("transformer.h.3.attn#1", "scores")),
        ("h.0/rotate#2:z[0]", ("h.0/rotate#2", "z[0]")),
        (":d['a:b']#1", ("", "d['a:b']#1")),
        ("blocks.`odd:key`.act:h", ("blocks.`odd:key`.act", "h")),
    ],
)
def test_a_name_splits_into_scope_and_local(name, parts):
    assert split(name) == parts


@pytest.mark.parametrize(
    ("name", "stripped"),
    [
        ("h.0#1/rotate#2:q#3.0", "h.0/rotate:q.0"),
        (":d['a#1']#2", ":d['a#1']"),
        ("`a#1`#2:u#0", "`a#1`:u"),
        (":mul()#2", ":mul()"),
        ("h.0:u#-1", "h.0:u"),
    ],
)
def test_counts_are_taken_away_where_the_grammar_reads_them(name, stripped):
    assert strip(name) == stripped


def test_counts_agree_with_a_full_name():
    assert counts_agree("f#1:u", "f#1:u#0")
    assert not counts_agree("f#1:u", "f#0:u#0")
    assert counts_agree(":self.cache#2.0", ":self.cache#2.0")
    assert counts_agree("a.b#1/f:u#3", "a.b#1/f#0:u#3")
    assert not counts_agree(":u#1", ":u#11")


def test_segments_with_special_characters_are_quoted():
    assert [quote(text) for text in ("attn", "a:b", "x/y", "n#1", "tick`", "")] == [
        "attn",
        "`a:b`",
        "`x/y`",
        "`n#1`",
        "`tick```",
        "``",
    ]


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("transformer.h.*.attn", "transformer.h.11.attn#0:return#0", "transformer.h.1.mlp#0:return#0"),
        ("transformer.h.*.attn", "transformer.h.1.attn#3:return#0.0", "transformer.h.1.attn.c_attn#0:return#0"),
        ("**.attn", "transformer.h.1.attn#0:return#0", "transformer.h.1.attn#0:scores#0"),
        ("**", "a.b#0:return#0", "a.b#0:u#0"),
        ("h.0:*", "h.0#0:self.cache#1", "h.0/f#0:u#0"),
        ("h.0/**:u", "h.0#1/f#0/g#2:u#0", "h.0#0:u#0"),
        ("h.0:u#1", "h.0#4:u#1", "h.0#4:u#2"),
        ("h.0#1:u", "h.0#1:u#5", "h.0#2:u#5"),
        (":z[*]", ":z[*]#0", ":z[i]#0"),
        ("lm_head.weight", "lm_head.weight", "lm_head#0:return#0"),
        (":*()", ":mul()#0", ":mul#0"),
        ("re:h\\.[01].*", "h.1#0:u#0", "h.2#0:u#0"),
        ("`a:b`.c", "`a:b`.c#0:return#0", "`a`.c#0:return#0"),
    ],
)
def test_patterns_in_the_model_form(pattern, matching, other):
    compiled = compile_pattern(pattern, in_function=False)
    assert compiled.matches(matching)
    assert not compiled.matches(other)


def test_a_bare_pattern_in_the_function_form_means_a_local():
    assert compile_pattern("u", in_function=True).matches(":u#1.0")
    assert compile_pattern("*", in_function=True).matches(":u#1")
    assert not compile_pattern("*", in_function=True).matches("/helper#0:u#1")
    assert compile_pattern("/helper", in_function=True).matches("/helper#0:return#0")


def test_operations_are_selected_only_by_patterns_that_ask_for_them():
    assert not Selection("**:*", in_function=False).wants("a#0:mul()#0")
    assert Selection("**:*()", in_function=False).wants("a#0:mul()#0")
    assert not Selection(None, in_function=True).wants(":mul()#0")


def test_the_nearest_names_are_of_every_kind():
    names = ["transformer.h.0.attn", "transformer.h.0.attn:query_states", "transformer.wte.weight", "loss"]
    assert nearest("query_state", names)[0] == "transformer.h.0.attn:query_states"
    assert nearest("transformer.h.0.atn", names)[0] == "transformer.h.0.attn"
    assert nearest("wte.weigth", names)[0] == "transformer.wte.weight"
    assert nearest("zzz", names) == []
    assert nearest("U", ["u", "v", ":U1"])[0] == "u"
    assert nearest("LOSS", names) == ["loss"]
    assert nearest("Query_States", names)[0] == "transformer.h.0.attn:query_states"


def test_bad_names_and_patterns():
    rec = bp.probe(lambda x: x * 2)(1.0)
    with pytest.raises(bp.BadName, match="opens a back-quote and does not close it"):
        rec["`u"]
    with pytest.raises(bp.BadName, match="is not a valid regular expression"):
        bp.probe(lambda x: x * 2, "re:(")
        bp.probe(lambda x: x * 2, "re:(")(1.0)
    with pytest.raises(bp.BadName, match="is empty"):
        bp.probe(lambda x: x * 2, "!")(1.0)
    with pytest.raises(bp.BadOption, match="select is a text or a list of texts, not one with an int"):
        bp.probe(lambda x: x * 2, [3])(1.0)
    with pytest.raises(bp.BadName, match="a pattern is a string, not an int"):
        rec.select([3])
    with pytest.raises(bp.UnknownName, match="a name is a string, not an int"):
        rec[0]


def loop(x):
    def helper(t):
        u = t * 2
        u = u * 3
        return u

    return helper(x) + helper(x * 5)


def test_look_ups_with_and_without_counts():
    rec = bp.probe(loop)(torch.tensor(1.0))
    says(rec, values={"/helper#1:u#0": 10, "/helper#1:u#-1": 30})
    assert rec["/helper#-1:u#1"] is rec["/helper#1"]
    assert ":x" in rec
    assert "x" in rec
    assert "/helper:u" in rec  # it is there, several times
    assert "nope" not in rec
    assert 3 not in rec
    assert message(bp.AmbiguousName, lambda: rec["/helper:u"]).splitlines()[:3] == [
        "'/helper:u' means several values",
        "  asked: rec['/helper:u']",
        "  found: /helper#0:u#0, /helper#0:u#1, /helper#1:u#0, /helper#1:u#1",
    ]
    text = message(bp.UnknownName, lambda: rec["/helpr:u"])
    assert text.startswith("no value is named '/helpr:u'\n  asked: rec['/helpr:u']")
    assert "the nearest: " in text


def test_a_recording_is_a_read_only_mapping():
    rec = bp.probe(loop)(torch.tensor(1.0))
    assert len(rec) == len(list(rec)) == len(dict(rec))
    assert all(rec[name] is entry for name, entry in rec.items())
    assert rec.get("nope") is None
    with pytest.raises(TypeError):
        rec["x"] = 1
    with pytest.raises(AttributeError):
        rec["x"].name = "y"


def test_select_on_a_recording():
    rec = bp.probe(loop)(torch.tensor(1.0))
    assert list(rec.select("/helper:u#0")) == ["/helper#0:u#0", "/helper#1:u#0"]
    assert list(rec.select(["*", "!return"])) == ["x"]
    with pytest.raises(bp.NothingMatched, match="the pattern '/helpr:\\*' matches nothing in the recording"):
        rec.select("/helpr:*")


class Odd(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleDict({"a:b": torch.nn.Linear(2, 2), "c/d#1": torch.nn.Linear(2, 1)})

    def forward(self, x):
        down = self.parts["a:b"](x)
        return self.parts["c/d#1"](down).sum()


def test_module_keys_with_characters_of_the_grammar():
    model = Odd()
    rec = bp.probe(model)(torch.ones(1, 2))
    assert "parts.`a:b`" in rec
    assert rec["parts.`c/d#1`"].grad.tolist() == [[1.0]]
    assert rec["parts.`a:b`.weight"].grad.shape == (2, 2)
    chosen = bp.probe(model, ["parts.`a:b`", ":down"])(torch.ones(1, 2))
    assert chosen["down"] is chosen["parts.`a:b`"]


def test_needless_quotes_mean_the_same():
    model = Odd()
    rec = bp.probe(model, ["`parts`.`a:b`", "`parts`.`a:b`.`weight`"])(torch.ones(1, 2))
    assert rec["parts.`a:b`"] is rec["`parts`.`a:b`"]
    assert "parts.`a:b`.weight" in rec
    assert quote("tick`") == "`tick```"
    assert canonical("`tick```.`x`") == "`tick```.x"


class Clash(Parts):
    def forward(self, x):
        down = self.down(x) * 3
        return down.sum()


def test_a_local_beside_a_submodule_of_the_same_name_keeps_its_colon():
    rec = bp.probe(Clash(down=torch.nn.Linear(2, 2)), ["down", ":down"])(torch.ones(1, 2))
    assert list(rec) == ["down", ":down", "return"]
    says(rec, grads={":down": [[1.0, 1.0]], "down:return": [[3.0, 3.0]]})
    text = message(bp.AmbiguousName, lambda: rec["down"])
    assert "down, :down" in text or ":down" in text
