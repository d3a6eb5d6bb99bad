"""What a person reads who typed something wrong: no word of the inside, and nothing that does not help."""

import re

import numpy
import pytest
import torch

import backprobe as bp
from asked import message


def toy(x, w):
    u = x * w
    v = u + 1
    return v


def several(x):
    return {"loss": x * 2, "aux": x * 3}


def vector(x):
    return x * 2


def nothing(x):
    return None


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 1)

    def forward(self, x):
        return self.lin(x).sum()


def one():
    return torch.tensor(1.0)


def rec():
    return bp.probe(toy)(2.0, 3.0)


def two():
    return bp.probe(several, of=["loss", "aux"])(one())


WRONG = {
    "of=, and one tensor": lambda: bp.probe(vector, of="loss")(one()),
    "of='', and one tensor": lambda: bp.probe(vector, of="")(one()),
    "of=0, and one tensor": lambda: bp.probe(vector, of=0)(one()),
    "of=, and None": lambda: bp.probe(nothing, of="y")(one()),
    "of= a function that returns None": lambda: bp.probe(several, of=lambda result: None)(one()),
    "of=True": lambda: bp.probe(several, of=True),
    "of= an empty list": lambda: bp.probe(several, of=[]),
    "of= None in a list": lambda: bp.probe(several, of=["loss", None]),
    "of= a function in a list": lambda: bp.probe(several, of=["loss", lambda result: result["aux"]]),
    "of= an output twice": lambda: bp.probe(several, of=["loss", "loss"]),
    "one cotangent of two": lambda: bp.probe(several, of=["loss", "aux"], cotangent=1.0),
    "a cotangent of no output": lambda: bp.probe(several, of=["loss", "aux"], cotangent={"losses": 1.0}),
    "one gradient of two": lambda: two()["x"].grad,
    "no gradient of one of two": lambda: two()["return.aux"].grads["loss"],
    "an output that is not there": lambda: two().of("losses"),
    "draw two outputs": lambda: bp.draw(two()),
    "a sum with texts": lambda: two().total({"loss": "1"}),
    "no output": lambda: bp.probe(nothing)(one()),
    "two outputs": lambda: bp.probe(several)(one()),
    "no elements": lambda: bp.probe(vector)(torch.zeros(0)),
    "a number": lambda: bp.probe(3)(),
    "None": lambda: bp.probe(None)(1.0),
    "a class": lambda: bp.probe(Net)(torch.ones(3)),
    "a class in a block": lambda: bp.probe(Net).__enter__(),
    "a class to check": lambda: bp.check(Net)(torch.ones(3)),
    "a class to guard": lambda: bp.guard(Net).__enter__(),
    "a number in a block": lambda: bp.probe(3).__enter__(),
    "a number to guard": lambda: bp.guard(3).__enter__(),
    "no arguments": lambda: bp.probe(toy)(),
    "an argument that there is not": lambda: bp.probe(toy)(x=1.0, v=2.0),
    "a module as backend": lambda: bp.probe(toy, backend=torch)(1.0, 2.0),
    "select= an empty list": lambda: bp.probe(toy, []),
    "replace_grad= a text": lambda: bp.probe(toy, replace_grad={"u": "zero"})(1.0, 2.0),
    "bounds= a number": lambda: bp.provoke(toy, bounds=3)(1.0, 2.0),
    "open= where there are no boxes": lambda: bp.draw(rec(), open="q"),
    "an author that is a number": lambda: bp.stamp(3),
    "one argument of two": lambda: bp.check(toy)(one()),
    "a function in C": lambda: bp.probe(torch.exp)(one()),
    "a text as cotangent": lambda: bp.probe(vector, cotangent="ones")(torch.ones(2)),
    "an object as cotangent": lambda: bp.probe(vector, cotangent=object())(torch.ones(2)),
    "rows of two lengths": lambda: bp.probe(vector, cotangent=[[1.0], [1.0, 2.0]])(torch.ones(2)),
    "a complex cotangent": lambda: bp.probe(vector, cotangent=[1j, 1.0])(torch.ones(2)),
    "select= bytes": lambda: bp.probe(toy, b"u"),
    "select= a number": lambda: bp.probe(toy, 3),
    "select= a list with None": lambda: bp.probe(toy, ["u", None]),
    "a regular expression": lambda: bp.probe(toy, "re:(")(1.0, 2.0),
    "a long pattern": lambda: bp.probe(toy, "n" * 5000)(1.0, 2.0),
    "wrt= a list with a number": lambda: bp.probe(toy, wrt=[3]),
    "wrt=[]": lambda: bp.probe(toy, wrt=[])(1.0, 2.0),
    "wrt= for a model": lambda: bp.probe(Net(), wrt="x")(torch.ones(3)),
    "strategy= an array": lambda: bp.probe(toy, strategy=numpy.ones(2)),
    "partials= an array": lambda: bp.probe(toy, partials=numpy.ones(2)),
    "create_graph= a text": lambda: bp.probe(toy, create_graph="yes"),
    "a long name": lambda: rec()["n" * 5000],
    "a name like none": lambda: rec()["zz"],
    "select on a recording": lambda: rec().select(3),
    "save None": lambda: rec().save(None),
    "save ''": lambda: rec().save(""),
    "load 3": lambda: bp.load(3),
    "explain 3": lambda: bp.explain(3),
    "explain a recording, 3": lambda: bp.explain(rec(), 3),
    "draw 3": lambda: bp.draw(3),
    "health None": lambda: bp.health(None),
    "derive None": lambda: bp.derive(None, "x"),
    "jacobian by a number": lambda: bp.jacobian(toy, 3),
    "hvp by None": lambda: bp.hvp(toy, None, 1.0),
    "hvp with a text": lambda: bp.hvp(toy, "u", "a")(1.0, 2.0),
    "skip=3": lambda: bp.check(toy, skip=3),
    "watch 3": lambda: bp.watch(3, "run").__enter__(),
    "a class to watch": lambda: bp.watch(Net, "run").__enter__(),
    "watch in 3": lambda: bp.watch(Net(), 3),
    "watch, every=0": lambda: bp.watch(Net(), "run", every=0),
    "open_run 3": lambda: bp.open_run(3),
    "open_run ''": lambda: bp.open_run(""),
    "allow=3": lambda: bp.guard(allow=3),
    "sweep 3": lambda: bp.sweep(3, "u", replace=abs),
    "sweep a class": lambda: bp.sweep(Net, "lin", replace=abs),
    "sweep, select=3": lambda: bp.sweep(toy, 3, replace=abs),
    "sweep, replace=3": lambda: bp.sweep(toy, "u", replace=3),
    "sweep, axis='0'": lambda: bp.sweep(toy, "u", replace=abs, axis="0"),
    "sweep, axis=0": lambda: bp.sweep(toy, "u", replace=abs, axis=0)(1.0, 2.0),
    "sweep, of a vector": lambda: bp.sweep(vector, "x", replace=abs)(torch.ones(2)),
    "sweep of nothing": lambda: bp.sweep(toy, "uu", replace=abs)(1.0, 2.0),
    "per_sample 3": lambda: bp.per_sample(3, "u"),
    "per_sample, chunk='a'": lambda: bp.per_sample(toy, "u", chunk="a"),
    "per_sample of numbers": lambda: bp.per_sample(toy, "u")(1.0, 2.0),
    "per_sample of a vector": lambda: bp.per_sample(vector, "x", batch="x")(torch.ones(2, 2)),
    "sweep of a replacement with no value": lambda: bp.sweep(toy, "u", replace=lambda u: None)(1.0, 2.0),
}
INSIDE = re.compile(
    r"NoneType|\bof=''|no floating tensor; no|an object of type|\ba (int|object)\b|\bnot (int|str|list)\b| at 0x|"
    r"1 positional arguments|new\(\)|must be real|built-in|unpack|<module '|the function itself|"
    r"place of no value|0 names"
)
"""What a message once said, and none should: names of types, other people's words, and remedies that are none."""


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_message_is_in_plain_words_and_says_what_to_type(wrong):
    with pytest.raises(bp.BackprobeError) as caught:
        wrong()
    text = str(caught.value)
    assert not re.search(INSIDE, text.replace("asked: of=''", "").replace("at ''", "")), text
    assert caught.value.next, text
    assert max(map(len, text.splitlines())) < 200, text


def test_of_where_one_tensor_is_returned():
    assert message(bp.BadOutput, WRONG["of=, and one tensor"]) == (
        "the return value has nothing at 'loss'\n"
        "  asked: of='loss'\n"
        "  found: a tensor of shape () and dtype float32\n"
        "  next:  leave out of="
    )


def test_a_class():
    assert message(bp.BadOption, WRONG["a class"]) == (
        "Net is a class, and bp.probe takes an object of it, or a function\n"
        "  asked: bp.probe(Net)\n"
        "  found: the class Net\n"
        "  next:  net = Net(...), and bp.probe(net)"
    )


def test_a_call_that_does_not_fit_says_how_it_would():
    text = "toy cannot be called with these arguments: there is no argument 'v'"
    for verb in (bp.probe, bp.check, bp.provoke, bp.noise_floor):
        name = f"bp.{verb.__name__}(toy)"
        assert message(bp.BadOption, lambda verb=verb: verb(toy)(torch.ones(()), v=2.0)) == (
            f"{text}\n  asked: {name}(..., v=...)\n  found: toy(x, w)\n  next:  {name}(x=..., w=...)"
        )


ASKED = {
    "bp.explain(rec, 'uu')": lambda: bp.explain(rec(), "uu"),
    "bp.derive(rec, 'uu')": lambda: bp.derive(bp.probe(toy, partials=True)(2.0, 3.0), "uu"),
    "bp.derive(rec, 'x', of='uu')": lambda: bp.derive(bp.probe(toy, partials=True)(2.0, 3.0), "x", "uu"),
    "bp.jacobian(toy, 'uu')": lambda: bp.jacobian(toy, "uu")(2.0, 3.0),
    "bp.hvp(toy, 'uu', vector)": lambda: bp.hvp(toy, "uu", 1.0)(2.0, 3.0),
    "with bp.probe(Net):": WRONG["a class in a block"],
    "with bp.guard(Net):": WRONG["a class to guard"],
    "with bp.watch(Net):": WRONG["a class to watch"],
}


@pytest.mark.parametrize(("asked", "wrong"), ASKED.items(), ids=ASKED.keys())
def test_a_message_says_what_was_asked_and_not_what_backprobe_made_of_it(asked, wrong):
    with pytest.raises(bp.BackprobeError) as caught:
        wrong()
    assert caught.value.asked == asked
    assert caught.value.next in (
        asked.replace("uu", "u"),
        asked.replace("with", "net = Net(...), and with").replace("(Net)", "(net)"),
    )


def test_a_function_that_replaces_and_raises_is_told_with_the_name_that_it_has():
    with pytest.raises(TypeError) as caught:
        bp.probe(toy, replace={"u": lambda value, other: value})(1.0, 2.0)
    assert caught.value.__notes__[0] == "backprobe: raised by what replace has for 'u', which was given 'u'"


def test_numbers_that_became_tensors_are_not_blamed_for_an_error_of_the_choice():
    with pytest.raises(TypeError) as caught:
        bp.probe(toy, of=lambda: 3)(1.0, 2.0)
    assert caught.value.__notes__ == ["backprobe: raised while choosing the output of toy under a probe"]


def test_names_are_listed_where_none_is_similar():
    assert message(bp.UnknownName, WRONG["a name like none"]) == (
        "no value is named 'zz'\n  asked: rec['zz']\n  found: names: x, w, u, v, return\n"
        "  next:  print(rec), for every name"
    )
    assert "  found: 5 names: return, u, v, w, x\n" in message(bp.NothingMatched, WRONG["a long pattern"])


def test_of_many_names_those_most_alike_are_listed():
    model = torch.nn.Sequential()
    for at in range(5):
        model.add_module(f"d{at}", torch.nn.Linear(3, 3))
    text = message(bp.NothingMatched, lambda: bp.probe(model, "d9", cotangent=torch.ones(3))(torch.ones(3)))
    found = re.search(r"  found: (\d+) names: (.*) and (\d+) more\n", text)
    listed = found[2].split(", ")
    assert len(listed) + int(found[3]) == int(found[1])
    assert sorted(listed[:5]) == ["d0", "d1", "d2", "d3", "d4"]


def test_a_proposed_call_can_be_typed():
    model, x = Net(), torch.ones(3)
    calls = {
        "bp.probe(model), for every name": lambda: bp.probe(model, "zz")(x),
        "bp.probe(model, 'lin')": lambda: bp.probe(model, "ln")(x),
        "bp.probe(f), for every name": lambda: bp.probe(lambda x: x * 2, "zz")(1.0),
        "bp.names(model, 'lin')": lambda: bp.names(model, "lni"),
        "bp.names(model), for every name": lambda: bp.per_sample(model, ":return")(torch.ones(2, 3)),
    }
    for proposed, call in calls.items():
        assert f"  next:  {proposed}" in message(bp.NothingMatched, call)


def test_a_name_in_another_case_is_proposed():
    assert "  next:  rec['u']" in message(bp.UnknownName, lambda: rec()["U"])
    assert "  next:  bp.probe(toy, 'u')" in message(bp.NothingMatched, lambda: bp.probe(toy, "U")(1.0, 2.0))


def test_a_tensor_alone_is_not_explained():
    assert "  found: a Tensor alone\n" in message(bp.BadOption, lambda: bp.explain(torch.ones(2)))
    assert "  found: None\n" in message(bp.BadOption, lambda: bp.explain(None, torch.ones(2)))


def test_a_second_run_can_save_again(tmp_path):
    path = tmp_path / "toy.recording"
    rec().save(path)
    error = message(bp.BadOption, lambda: rec().save(path))
    assert error.endswith(f"  next:  rec.save({str(path)!r}, overwrite=True)")
    rec().save(path, overwrite=True)
    assert bp.load(path)["u"].value == 6


def test_nothing_checked_is_not_called_clean():
    meta = torch.ones(3, device="meta")
    nothing = "nothing was checked: no value or gradient has numbers that can be read"
    assert bp.health(bp.probe(vector, of=torch.sum)(meta)).heading == nothing
    assert bp.explain(bp.probe(vector, of=torch.sum, nonfinite=True)(meta)).heading == nothing
    assert bp.health(bp.probe(lambda x: x)(1.0)).heading == "no problems found: 1 value and 1 gradient were checked"
