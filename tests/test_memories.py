"""What is remembered of one value, function or module says nothing false of another that looks the same."""

import gc
import importlib.util
import sys
import warnings
from textwrap import dedent

import numpy as np
import pytest
import torch
from torch import nn

import backprobe as bp
from asked import leaf
from backprobe.backends.seen import Seen
from backprobe.backends.torch import custom_functions
from backprobe.source.by_code import by_code


def module_at(path, name, text):
    """A module that is imported from a file of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


SHARED = """
    def smooth(x):
        inner = x * 2
        return inner + 1
"""


@pytest.fixture
def librarys(tmp_path, monkeypatch):
    """A function of an installed library, and the program's own copy of the file it stands in."""
    made = module_at(tmp_path / "site-packages/library/functions.py", "library_functions", SHARED)
    own = module_at(tmp_path / "project/functions.py", "own_functions", SHARED)
    yield made.smooth, own.smooth
    del sys.modules["library_functions"], sys.modules["own_functions"]


# by code


@pytest.mark.parametrize("select", ["**", None, "/smooth:*"], ids=str)
def test_the_programs_copy_of_a_function_of_a_library_is_followed(librarys, select):
    installed, own = librarys
    assert installed.__code__ == own.__code__

    def program(x, smooth):
        y = smooth(x)
        return y.sum()

    before = str(bp.probe(program)(leaf(1.0, 2.0), installed))
    rec = bp.probe(program, select)(leaf(1.0, 2.0), own)

    assert "/smooth" not in before
    assert rec["/smooth:inner"].grad.tolist() == [1.0, 1.0]
    assert "/smooth" not in str(bp.probe(program)(leaf(1.0, 2.0), installed))


def test_both_in_one_program_whichever_comes_first(librarys):
    installed, own = librarys

    def program(x, first, second):
        y = first(x)
        z = second(y)
        return z.sum()

    for given in ((installed, own), (own, installed)):
        rec = bp.probe(program, "**")(leaf(1.0, 2.0), *given)
        assert rec["/smooth:inner"].value.tolist() == ([6.0, 10.0] if given[1] is own else [2.0, 4.0])


def test_both_in_one_block(librarys):
    installed, own = librarys
    x = leaf(1.0, 2.0)

    with bp.probe() as rec:
        y = installed(x)
        z = own(y)
        z.sum().backward()

    assert rec["/smooth:inner"].value.tolist() == [6.0, 10.0]
    assert "/smooth#1:inner" not in str(rec)


def test_code_of_two_files_is_remembered_apart():
    here, there = (compile("lambda: 1", file, "eval") for file in ("here.py", "there.py"))
    known = by_code(8)(lambda code, word="": code.co_filename + word)

    assert here == there
    assert [known(here), known(there), known(here, "!"), known(there, "!")] == [
        "here.py", "there.py", "here.py!", "there.py!",
    ]  # fmt: skip


# by type


class Hiding:
    def __init__(self, function):
        self.__wrapped__ = function

    def __call__(self, x):
        return self.__wrapped__(x)


def mine(x):
    inner = x * 2
    return inner


def notes_of(calling, x):
    def program(x):
        y = calling(x)
        return (y * x).sum() if isinstance(y, torch.Tensor) else x.sum()

    return [note.code for note in bp.probe(program)(x).record.notes]


@pytest.mark.parametrize("first", [np.sqrt, abs, len])
def test_an_object_of_numpy_that_hides_a_builtin_leaves_the_note_on_one_that_hides_the_programs(first):
    def one(x):
        return 1.0

    assert notes_of(np.vectorize(first), leaf(4.0).detach().requires_grad_()) == []
    assert notes_of(np.vectorize(one), leaf(4.0)) == ["hidden_in_object"]


def test_a_class_of_a_library_that_got_another_call_is_followed(tmp_path):
    module = module_at(tmp_path / "site-packages/library/layers.py", "library_layers", """
        class Twice:
            def __call__(self, x):
                return x * 2
    """)  # fmt: skip

    def program(x):
        y = module.Twice()(x)
        return y.sum()

    before = str(bp.probe(program)(leaf(1.0)))
    module.Twice.__call__ = lambda self, x: mine(x)

    assert "/mine:inner" not in before
    assert "/mine:inner" in str(bp.probe(program)(leaf(1.0)))
    del sys.modules["library_layers"]


def test_a_class_whose_first_object_held_nothing():
    class Held:
        def __init__(self, value):
            self.value = value

    def program(x, value):
        held = Held(value(x))
        pair = (held, value(x))
        return x.sum()

    bp.probe(program, "**")(leaf(1.0), lambda x: "nothing")
    rec = bp.probe(program, "**")(leaf(1.0), lambda x: x * 2)

    assert "pair.1" in rec


# by identity


def test_what_was_seen_is_known_as_long_as_it_lives():
    class Thing:
        def __eq__(self, other):
            return True

        __hash__ = None

    seen, one = Seen(), Thing()
    seen.add(one)
    at = id(one)

    assert one in seen
    assert Thing() not in seen
    del one
    gc.collect()
    others = [Thing() for _ in range(100)]
    assert not any(other in seen for other in others)
    assert at in seen.held  # the place is remembered, and nobody lies in it


def test_a_function_class_that_takes_the_place_of_another_is_looked_at():
    def installed():
        made = type("Installed", (torch.autograd.Function,), {"forward": staticmethod(torch.relu)})
        made.__module__ = "torch.nowhere"
        return made

    known = custom_functions.are_users()
    for _ in range(20):
        made = installed()
        was = custom_functions.are_users()
        del made
        gc.collect()

        class Own(torch.autograd.Function):  # with as many others, and where the last one lay
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                return gradient * 2

        assert custom_functions.are_users()
        del Own
        gc.collect()
        assert custom_functions.are_users() == known == was


def test_memory_that_was_written_and_freed_says_nothing_of_what_lies_there_next():
    def program(x):
        for _ in range(50):
            scratch = torch.zeros(64)
            scratch.add_(1)  # has no name that is selected
            del scratch
            base = x * 2
            u = base[:1]
            u.mul_(3)
        return base.sum() + u.sum()

    rec = bp.probe(program, "u")(torch.ones(64, requires_grad=True))

    assert all(entry.grad is not None for name, entry in rec.items() if name.startswith("u")), str(rec)


def test_a_tensor_that_comes_to_lie_where_one_with_a_gradient_did_has_none():
    x = leaf(1.0, 2.0)

    def cleared(x):
        y = x * 2
        y.grad = torch.ones(2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with bp.probe("x") as rec:
            for _ in range(30):
                cleared(x)
            z = x * 3
            z.sum().backward()
            known = z.grad

    assert known is None
    assert "z.grad" in str(bp.explain(rec))


@pytest.mark.parametrize("form", ["list", "attribute", "sequential"])
def test_a_module_that_ran_before_it_was_put_into_the_model_has_its_entries(form):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.held = nn.Linear(2, 2), nn.ModuleList()

        def forward(self, x):
            for one in self.held:
                x = one(x)
            head = getattr(self, "head", None)
            return self.body(x) if head is None else head(self.body(x))

    net, added, x = Net(), nn.Sequential(nn.Linear(2, 2)), torch.ones(1, 2)
    with bp.probe(net) as rec:
        x = added(x)  # none of the model's
        net(x)
        if form == "list":
            net.held.append(added)
        else:
            net.head = added if form == "attribute" else added[0]
        net(x).sum().backward()

    name = {"list": "held.0.0", "attribute": "head.0", "sequential": "head"}[form]
    assert any(one.startswith(name) for one in rec), str(rec)


@pytest.mark.parametrize("eager", [True, False])
def test_a_watch_of_such_a_model_has_rows_of_it(tmp_path, eager):
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(2, 2)

        def forward(self, x):
            h = self.body(x)
            if not hasattr(self, "head"):
                head = nn.Linear(2, 1)
                y = head(h)  # runs before it is a part
                self.head = head
                return y
            return self.head(h)

    net = Lazy()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with bp.watch(net, tmp_path / "run", optimizer=optimizer, modules=True) as run:
        for _ in range(3):
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    found = bp.open_run(tmp_path / "run")

    assert any(name.startswith("head") for name in found.names), found.names


def test_a_guard_of_such_a_model_hears_it():
    net, head = nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2)
    with bp.guard(net):
        head(torch.ones(1, 2))
        net(torch.ones(1, 2))
        net.append(head)
        net(torch.ones(1, 2))
        with torch.no_grad():
            head.weight.fill_(float("nan"))
        with pytest.raises(bp.NotFinite):
            head(torch.ones(1, 2))
