"""The values on a command line: what each spelling gives the function or model, and what is refused."""

import inspect
import re
from typing import get_args

import click
import numpy
import pytest
import torch

import backprobe as bp
from backprobe.backends.discover import BACKENDS
from backprobe.cli import main
from backprobe.cli.arguments import argument, arguments, literal
from backprobe.cli.taken import Taken
from backprobe.diff.conventions import CONVENTIONS
from backprobe.draw.fit import DIRECTIONS
from backprobe.probe.request import VALUES, Strategy
from backprobe.watch.options import KINDS
from commands import in_folder, invoked, printed, refused

TOY = """\
import torch

def f(x, w, b):
    u = x * w
    v = u + b
    return torch.relu(v)

def vector(x):
    y = x * 2
    return y

def pick(x, i, scale=1.0):
    return x[i].sum() * scale

def total(first, *rest, scale=1.0):
    for one in rest:
        first = first + one
    return first * scale

def placed(x, y=2.0, /, z=1.0):
    return x * y * z

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(4, 2)

    def forward(self, ids, weights, mode="sum"):
        held = self.table(ids) * weights
        return getattr(held, mode)()

net = Net()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    with in_folder(tmp_path, monkeypatch, {"toy.py": TOY}) as path:
        yield path


def ran(*words):
    return invoked("probe", *words)


def shown(*words):
    """Standard output of a run that succeeds, split into words by line."""
    return [line.split() for line in printed(ran(*words)).splitlines()]


def test_numbers(folder):
    table = shown("toy.py:f", "x=3.0", "w=-2.5", "b=1e1")
    assert [row[:3] for row in table[1:4]] == [["x", "3", "-2.5"], ["w", "-2.5", "3"], ["b", "10", "1"]]
    assert table[4][:3] == ["u", "-7.5", "1"]
    out = printed(ran("toy.py:f", "x=3", "w=2.5", "b=1e1"))
    assert out.splitlines()[-2] == "not tensors: x = 3", "whole numbers only where nothing else is differentiated"


def test_lists_become_tensors(folder):
    out = printed(ran("toy.py:vector", "x=[1.0, 2, 3]", "--cotangent", "[1, 10, 100]"))
    assert re.search(r"^x +\[1, 2, 3\] +\[2, 20, 200\] +toy\.py:8", out, re.M)
    assert re.search(r"^y +\[2, 4, 6\] +\[1, 10, 100\] +toy\.py:9", out, re.M)
    (folder / "rec").mkdir()
    ran("toy.py:vector", "x=[[1.0, 2], [3, 4]]", "--of", "0", "--save", "rec/one")
    ran("toy.py:vector", "x=[[1.0, 2], [3, 4]]", "--cotangent", "[[1, 1], [1, 1]]", "--save", "rec/two")
    assert not (folder / "rec" / "one").exists()
    loaded = bp.load(folder / "rec" / "two")
    assert (loaded["x"].dtype, loaded["x"].shape) == ("float32", (2, 2))
    assert type(loaded["x"].value) is torch.Tensor


def test_a_list_of_whole_numbers_is_an_index(folder):
    out = printed(ran("toy.py:pick", "x=[1.0, 2.0, 4.0]", "i=[2, 0, 0]", "scale=0.5"))
    assert re.search(r"^x +\[1, 2, 4\] +\[1, 0, 0.5\] ", out, re.M)
    assert re.search(r"^return +3 +1 ", out, re.M)


def test_complex_numbers_and_booleans(folder):
    out = printed(ran("toy.py:vector", "x=[1+2j, 3]", "--cotangent", "[1, 1j]"))
    assert re.search(r"^x +\[1\+2j, 3\+0j\] +\[2\+0j, 0\+2j\] ", out, re.M)
    out = ran("toy.py:pick", "x=[1.0, 2.0]", "i=[True, False]", "scale=2")[1]
    assert re.search(r"^x +\[1, 2\] +\[2, 0\] ", out, re.M)


def test_other_literals_are_handed_over_as_they_are(folder):
    (folder / "kinds.py").write_text(
        "import torch\ndef f(x, name, keys, none):\n"
        "    assert (name, keys, none) == ('a b', {'k': (1, ['text'])}, None)\n    return x * 2\n"
    )
    table = shown("kinds.py:f", "x=1.0", "name='a b'", "keys={'k': (1, ['text'])}", "none=None")
    assert table[1][:3] == ["x", "1", "2"]


# mistakes


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("abc()", "a name or an expression; of functions randn, zeros, ones can be called, with sizes"),
        ("__import__('os').system('touch ran')", "a name or an expression; of functions"),
        ("[mean, sum]", "a name or an expression; of functions"),
        ("randn(2.5)", "randn() takes the sizes of a tensor, as in randn(2, 3)"),
        ("ones(-1)", "ones() takes the sizes of a tensor, as in ones(2, 3)"),
        ("zeros(2, dtype=int)", "a name or an expression; of functions"),
        ("zeros(10**12)", "a name or an expression; of functions"),
        ("1 2", "invalid syntax"),
        ("1+", "invalid syntax"),
        ("", "invalid syntax"),
        ("[[1.0], [1, 2]]", "nested lists of different lengths"),
        ("{[]: 1}", "unhashable type: 'list'"),
        ("(" * 300 + ")" * 300, "too many nested parentheses"),
        ("'a\x00b'", "source code string cannot contain null bytes"),
    ],
    ids=[
        "call",
        "import",
        "names",
        "size",
        "negative",
        "keyword",
        "huge",
        "two",
        "unfinished",
        "empty",
        "ragged",
        "unhashable",
        "deep",
        "null",
    ],
)
def test_a_bad_literal(text, found, folder):
    err = refused(ran("toy.py:vector", f"x={text}"))
    assert err.startswith(f"BadOption: {text!r} is not a value that can be read\n  asked: x={text}")
    assert f"  found: {found}" in err
    assert err.endswith("  next:  x=3.0, x='[1.0, 2.0]' or x='randn(2, 3)' for a tensor, or x=@file.npy\n")
    assert "0x" not in err
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("text", ["3", "=3", "1x=3", "x y=3", "x-y=3"])
def test_what_is_no_argument(text, folder):
    assert refused(ran("toy.py:vector", text)) == (
        f"BadOption: {text!r} is not of the form NAME=VALUE\n  asked: {text}\n  next:  x=3\n"
    )


def test_an_argument_given_twice(folder):
    assert (
        refused(ran("toy.py:vector", "x=1", "x=2")) == "BadOption: 'x' is given twice\n  asked: x=1 x=2\n  next:  x=2\n"
    )


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["x=1"], "missing a required argument: 'w'"),
        (["x=1", "w=1", "b=1", "q=1"], "there is no argument 'q'"),
    ],
)
def test_arguments_that_the_function_does_not_take(words, wrong, folder):
    err = refused(ran("toy.py:f", *words))
    assert err.startswith(f"BadOption: f cannot be called with these arguments: {wrong}\n")
    assert "  found: f(x, w, b)\n" in err


def test_where_nothing_is_floating_integers_are_differentiated_alone_and_in_lists(folder):
    out = printed(ran("toy.py:f", "x=[1,2]", "w=2", "b=1", "--cotangent", "[1,10]"))
    assert [line.split("  ")[0] for line in out.splitlines()[1:4]] == ["x", "w", "b"]
    assert "[2, 20]" in out
    assert "not tensors" not in out


# what Python has no literal for


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mean", "mean"),
        ("data/train.csv", "data/train.csv"),
        ("two words", "two words"),
        ("'3'", "3"),
        ("b", "b"),
        ("True", True),
        ("None", None),
        ("-inf", -numpy.inf),
        ("Inf", numpy.inf),
        ("1e-3", 1e-3),
        ("1+2j", 1 + 2j),
        ("'nan'", "nan"),
    ],
)
def test_texts_need_no_quotes_and_numbers_have_their_names(text, value):
    assert argument("x", text) == value


def test_nan_and_inf_also_in_lists():
    assert numpy.isnan(argument("x", "nan"))
    numpy.testing.assert_array_equal(literal("x", "[1, -inf, NaN]"), [1, -numpy.inf, numpy.nan])


@pytest.mark.parametrize(("text", "meant"), [("true", "True"), ("FALSE", "False"), ("null", "None"), ("none", "None")])
def test_what_looks_like_a_constant_is_not_taken_for_a_text(text, meant, folder):
    err = refused(ran("toy.py:f", "x=1", f"w={text}"))
    assert err.splitlines()[0] == f"BadOption: {text!r} could be a text or {meant}"
    assert err.splitlines()[-1] == f"  next:  w={meant}, or w='\"{text}\"' for the text"


def test_tensors_of_a_shape():
    made = arguments(["x=randn(2,3)", "y=zeros(4)", "z=ones((1, 2))", "s=randn()", "pair=(ones(1), [1, 2])"])
    assert {name: made[name].shape for name in "xyzs"} == {"x": (2, 3), "y": (4,), "z": (1, 2), "s": ()}
    assert [made[name].dtype.name for name in "xyzs"] == ["float32"] * 4
    assert [one.shape for one in made["pair"]] == [(1,), (2,)]
    again = arguments(["y=randn(2,3)", "x=randn(2,3)"])
    numpy.testing.assert_array_equal(made["x"], again["x"], "the same numbers each time")
    assert (again["x"] != again["y"]).all(), "and others in another argument"


def test_a_cotangent_of_a_shape(folder):
    assert "[1, 1]" in printed(ran("toy.py:vector", "x=randn(2)", "--cotangent", "ones(2)"))


def test_an_array_of_a_file(folder):
    numpy.save("x.npy", numpy.array([1.5, 2.5]))
    assert "[1.5, 2.5]" in printed(ran("toy.py:vector", "x=@x.npy", "--cotangent", "ones(2)"))
    assert argument("x", "@x.npy").dtype == numpy.float64


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("nowhere.npy", "No such file or directory"),
        ("letter.npy", "not a file that numpy.save wrote, or one that holds Python objects"),
        ("objects.npy", "not a file that numpy.save wrote, or one that holds Python objects"),
        ("several.npz", "several arrays"),
        ("texts.npy", "an array of <U1"),
        (".", "Is a directory"),
    ],
)
def test_files_that_are_not_arrays(name, found, folder):
    (folder / "letter.npy").write_text("dear")
    numpy.save("objects.npy", numpy.array([{}]), allow_pickle=True)
    numpy.savez("several.npz", a=[1.0])
    numpy.save("texts.npy", ["a"])
    assert refused(ran("toy.py:vector", f"x=@{name}")) == (
        f"BadOption: 'x' cannot be read from {name!r}\n  asked: x=@{name}\n  found: {found}\n"
        '  next:  x=@file.npy, a file of numbers made by numpy.save("file.npy", array)\n'
    )


# how they go into the call


def test_positional_arguments(folder):
    table = shown("toy.py:total", "first=1", "rest=(2, 3)", "scale=2")
    assert [row[:3] for row in table if row[0] in ("first#0", "rest.0", "rest.1")] == [
        ["first#0", "1", "2"],
        ["rest.0", "2", "2"],
        ["rest.1", "3", "2"],
    ]
    assert ["rest.0", "5", "1"] in [row[:3] for row in shown("toy.py:total", "first=1", "rest=5.0")]
    assert shown("toy.py:total", "first=1.0")[1][:3] == ["first", "1", "1"]
    assert [row[:3] for row in shown("toy.py:placed", "x=3", "z=2")[1:4]] == [
        ["x", "3", "4"],
        ["y", "2", "6"],
        ["z", "2", "6"],
    ]
    err = refused(ran("toy.py:total", "rest=(2, 3)"))
    assert err.startswith(
        "BadOption: total cannot be called with these arguments: missing a required argument: 'first'"
    )


def test_a_model_is_given_tensors_and_its_whole_numbers_as_they_are(folder):
    words = ["toy.py:net", "ids=[0, 3]", "weights=ones(2)", "mode=mean"]
    assert shown(*words)[1][0] == "table.weight"
    assert invoked("check", *words)[0] == 0


def test_a_class_is_not_its_object(folder):
    assert refused(ran("toy.py:Net", "ids=[0, 3]")) == (
        "BadOption: Net is a class, and what is probed is an object of it, or a function\n"
        "  asked: backprobe probe toy.py:Net\n  found: class Net in toy.py\n"
        "  next:  write net = Net(...) into toy.py, and type backprobe probe toy.py:net\n"
    )


# options of the verbs


def command_option(command, name):
    return next(option for option in main.commands[command].params if option.name == name)


@pytest.mark.parametrize(
    "command, name, allowed",
    [
        ("probe", "strategy", get_args(Strategy)),
        ("probe", "values", VALUES),
        ("probe", "backend", BACKENDS),
        ("draw", "direction", DIRECTIONS),
        ("diff", "convention", CONVENTIONS),
        ("watch", "what", KINDS),
    ],
)
def test_the_help_names_each_value_that_an_option_takes(command, name, allowed):
    words = re.findall(r"\w+", command_option(command, name).help)
    assert [one for one in allowed if one not in words] == []


@pytest.mark.parametrize(
    "command, verb, names",
    [("provoke", bp.provoke, ["tries", "seed"]), ("draw", bp.draw, ["apart"]), ("watch", bp.watch, ["every"])],
)
def test_a_default_is_that_of_the_verb(command, verb, names):
    found = inspect.signature(verb).parameters
    assert {name: command_option(command, name).default for name in names} == {
        name: found[name].default for name in names
    }


@pytest.mark.parametrize(
    "words, headline",
    [
        (
            ("probe", "toy.py:f", "x=3", "w=2", "b=1", "--strategy", "edgse"),
            "strategy is one of edges, retain_grad, hooks",
        ),
        (("probe", "toy.py:f", "x=3", "w=2", "b=1", "--values", "both"), "values is one of alias, copy"),
        (("draw", "toy.py:f", "f.svg", "x=3", "w=2", "b=1", "--direction", "up"), "direction is one of right, down"),
        (("provoke", "toy.py:f", "x=3", "w=2", "b=1", "--tries", "0"), "tries is a whole number from 1 on"),
    ],
)
def test_what_a_verb_refuses_its_command_refuses_in_the_same_words(words, headline, folder):
    assert headline in refused(invoked(*words))


# options that verbs declare


DECLARED = [
    (command, one) for command in main.commands for one in main.commands[command].params if isinstance(one.type, Taken)
]


@pytest.mark.parametrize(("command", "option"), DECLARED, ids=lambda one: getattr(one, "name", one))
def test_a_wrong_value_is_refused_before_anything_runs_with_one_that_is_right(command, option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("raise SystemExit('it runs')\n")
    places = ["x"] * sum(isinstance(one, click.Argument) and one.nargs == 1 for one in main.commands[command].params)
    err = refused(invoked(command, f"{option.opts[0]}=-1.5", "own.py", *places[1:]))
    assert err.startswith(f"BadOption: {option.name} is ")
    flag, _, word = err.rpartition("next:  ")[2].strip().partition(" ")
    assert flag == option.opts[0]
    option.type.convert(word, option, None)


def test_options_are_declared_once():
    """What is told by numbers and by words of a list is in no command's own declaration."""
    own = [one.type for command in main.commands.values() for one in command.params if isinstance(one, click.Option)]
    assert not [one for one in own if isinstance(one, click.Choice | click.types.IntParamType | click.IntRange)]
    assert len(DECLARED) > 20
    err = refused(invoked("watch", "--what", "gradd", "own.py"))
    assert "what is one of value, grad, param, update" in err
    assert err.endswith("next:  --what grad\n")
    assert refused(invoked("probe", "toy.py:f", "--strategy", "separat")).endswith("next:  --strategy separate\n")
