"""The types of the public names, as the running program has them; what checkers see of them is in typing_tests."""

import copy
import inspect
import pickle
import re
import tomllib
import typing
from pathlib import Path

import pytest
import torch

import backprobe as bp
from backprobe.backends.discover import BACKENDS
from backprobe.record.typed import Generic

ROOT = Path(__file__).parent.parent
PROGRAMS = sorted(path for path in (ROOT / "typing_tests").glob("*.py") if path.stem != "__init__")


def f(x, w):
    u = x * w
    return u.sum()


@pytest.fixture
def rec():
    return bp.probe(f)(torch.ones(2), torch.ones(2))


def test_a_class_takes_the_types_that_an_annotation_gives_it():
    """Also those that Python evaluates, of which those with a default may be left out."""

    def program(
        rec: bp.Recording[int], both: bp.Recording[int, str], entry: bp.Entry[int], probe: bp.Probe[[int], str]
    ):
        pass

    for name, cls in {"rec": bp.Recording, "both": bp.Recording, "entry": bp.Entry, "probe": bp.Probe}.items():
        assert typing.get_origin(program.__annotations__[name]) is cls
    assert bp.Probe[..., int](f)(1.0, 2.0).result == 2


def test_objects_are_copied_and_pickled_as_before(rec):
    for made in (pickle.loads(pickle.dumps(rec)), copy.copy(rec)):
        assert type(made) is bp.Recording
        assert type(made["u"]) is bp.Entry
        assert torch.equal(made["u"].grad, rec["u"].grad)
        assert (repr(made), repr(made["u"])) == (repr(rec), repr(rec["u"]))
    assert pickle.loads(pickle.dumps(bp.probe(f)))(1.0, 2.0).result == 2


def test_classes_with_types_have_no_metaclass_and_no_state():
    """A look-up in one, and making one, is as it would be without."""
    for cls in (bp.Recording, bp.Entry, bp.Probe):
        assert Generic in cls.__mro__
        assert type(cls) in (type, type(typing.Mapping[int, int].__origin__))
    assert {*vars(Generic)} & {"__init__", "__new__", "__init_subclass__", "__slots__", "__getattribute__"} == set()


def test_what_help_shows_of_probe_is_its_own_signature():
    parameters = inspect.signature(bp.probe).parameters
    assert [*parameters][:3] == ["target", "select", "of"]
    assert parameters["strategy"].default == "edges"
    assert typing.get_args(typing.get_type_hints(bp.probe)["strategy"]) == ("edges", "retain_grad", "hooks", "separate")
    assert typing.get_args(typing.get_args(typing.get_type_hints(bp.probe)["backend"])[0]) == tuple(BACKENDS)


def test_the_overloads_of_probe_take_what_it_takes():
    from backprobe.probe.keywords import Keywords

    own = typing.get_type_hints(bp.probe)
    assert typing.get_type_hints(Keywords) == {
        name: own[name] for name in own if name not in ("target", "select", "return")
    }
    assert len(typing.get_overloads(bp.probe)) == 6


@pytest.mark.parametrize(
    ("waiting", "shown"),
    [
        (lambda: bp.check(f), "<bp.check of f>"),
        (lambda: bp.sweep(f, "u", replace=torch.zeros_like), "<bp.sweep of f, select='u'>"),
        (lambda: bp.per_sample(f, "w"), "<bp.per_sample of f, select='w'>"),
        (lambda: bp.curvature(f, "w"), "<bp.curvature of f, select='w'>"),
        (lambda: bp.noise_floor(f), "<bp.noise_floor of f>"),
        (lambda: bp.diff_live(f, f), "<bp.diff_live of f and f>"),
        (lambda: bp.provoke(f), "<bp.provoke of f>"),
    ],
)
def test_what_waits_for_a_call_is_of_one_shape(waiting, shown):
    made = waiting()
    assert repr(made) == shown
    assert shown.strip("<>").partition(",")[0] in re.sub(r"<[^>]*>", "", made._repr_html_())
    assert [*inspect.signature(made).parameters] == ["args", "kwargs"]
    assert [name for name in dir(made) if name[:1] != "_" and callable(getattr(type(made), name, None))] in (
        [],
        ["refuse_nothing"],
    )


def test_both_checkers_read_the_typing_tests_and_a_comment_without_a_mistake_is_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert "typing_tests" in project["mypy"]["files"]
    (override,) = [one for one in project["mypy"]["overrides"] if one["module"] == "typing_tests.*"]
    assert override["warn_unused_ignores"]
    assert project["pyright"]["include"] == ["typing_tests"]
    assert project["pyright"]["reportUnnecessaryTypeIgnoreComment"] == "error"
    rule = re.search(r"^types:.*\n((?:\t.*\n)*)", (ROOT / "Makefile").read_text(), re.M)[1]
    assert re.findall(r"\$\(BIN\)/(\w+)", rule)[:2] == ["mypy", "pyright"]


def test_every_framework_and_every_kind_of_mistake_is_in_them():
    text = {path.stem: path.read_text() for path in PROGRAMS}
    assert {name for name in text for known in BACKENDS if name.startswith(known)} >= {
        f"{known}_programs" for known in BACKENDS
    }
    codes = {code for one in text.values() for code in re.findall(r"type: ignore\[([\w-]+)\]", one)}
    assert codes == {"arg-type", "assignment", "attr-defined", "call-arg", "call-overload", "operator"}
    assert all("assert_type" in one or "type: ignore" in one for one in text.values())


def test_the_tables_of_the_page_are_what_the_checkers_read():
    page, read = (ROOT / "docs" / "types.md").read_text(), (ROOT / "typing_tests" / "everyday.py").read_text()
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \|$", page, re.M)
    right = [f"assert_type({line}, {known.strip('`')})" for line, known in rows if known[0] == "`" and known[-1] == "`"]
    wrong = [line for line, known in rows if not (known[0] == "`" and known[-1] == "`")]
    lines = read.replace("|", "\\|").splitlines()
    assert right == [line for line in lines if line.startswith("assert_type")]
    assert wrong == [line.partition("  # type: ignore")[0] for line in lines if "type: ignore" in line]
    assert (len(right), len(wrong)) == (21, 9)
