"""What is remembered of one value, function or module says nothing false of another that looks the same."""

import gc
import importlib.util
import sys
from contextlib import nullcontext
from textwrap import dedent

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import backprobe as bp
from asked import leaf
from backprobe.backends.seen import Seen
from backprobe.backends.torch import custom_functions, saved_tensors
from backprobe.backends.torch.backward_passes import Passing
from backprobe.backends.torch.none_reads import NoneReads
from backprobe.backends.torch.parameter_updates import Updates
from backprobe.backends.torch.training import Census
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
        "here.py",
        "there.py",
        "here.py!",
        "there.py!",
    ]


# by type


def mine(x):
    inner = x * 2
    return inner


@pytest.mark.parametrize("first", [torch.exp, torch.relu, nn.functional.relu])
def test_an_object_of_a_library_that_hides_a_builtin_leaves_the_note_on_one_that_hides_the_programs(tmp_path, first):
    module = module_at(
        tmp_path / "site-packages/library/memory.py",
        "library_memory",
        """
        class Memory:
            def __init__(self, function):
                self.__wrapped__ = function

            def __call__(self, x):
                return self.__wrapped__(x)
    """,
    )

    def notes_of(function):
        def program(x):
            y = module.Memory(function)(x)
            return x * y

        return [note.code for note in bp.probe(program)(leaf(1.0)[0]).record.notes]

    assert notes_of(first) == []
    assert notes_of(mine) == ["hidden_in_object"]
    del sys.modules["library_memory"]


def test_a_class_of_a_library_that_got_another_call_is_followed(tmp_path):
    module = module_at(
        tmp_path / "site-packages/library/layers.py",
        "library_layers",
        """
        class Twice:
            def __call__(self, x):
                return x * 2
    """,
    )

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
    assert at in seen.keys()  # the place is remembered, and nobody lies in it


def test_a_function_class_that_takes_the_place_of_another_is_looked_at():
    def installed():
        made = type("Installed", (torch.autograd.Function,), {"forward": staticmethod(torch.relu)})
        made.__module__ = "torch.nowhere"
        return made

    known = custom_functions.are_users()
    for _ in range(4):
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


@pytest.mark.parametrize("size", [1, 64, 1000])
@pytest.mark.parametrize("write", [lambda t: t.add_(1), lambda t: t.zero_(), lambda t: t[:1].fill_(2)])
def test_memory_that_was_written_and_freed_says_nothing_of_what_lies_there_next(size, write):
    def program(x):
        total = 0
        for _ in range(200):
            scratch = torch.zeros(size)
            scratch.add_(1)
            write(scratch)
            del scratch
            base = x * 2
            u = base[:1]
            u.mul_(3)
            total = total + base.sum()
        return total

    rec = bp.probe(program, "u")(torch.ones(size, requires_grad=True))

    assert {str(entry.status) for entry in rec.values()} == {"ok"}


def test_a_tensor_that_comes_to_lie_where_one_with_a_gradient_did_has_none():
    reads, x = NoneReads(Passing(False)), leaf(1.0, 2.0)
    here = bp.Source(__file__, 1, "y.grad = g")
    for _ in range(100):
        y = x * 2
        reads.assigned(y, here)
        assert not reads.is_none(y, False)
        del y
        z = x * 3
        assert reads.is_none(z, False)


def test_a_parameter_that_comes_to_lie_where_one_with_a_gradient_did_had_none():
    census = Census()
    for _ in range(100):
        filled = nn.Parameter(torch.ones(2))
        filled.grad = torch.ones(2)
        optimizer = torch.optim.SGD([filled], 0.1)
        census._look(optimizer)
        optimizer.param_groups.clear()
        assert filled in census.filled
        del filled
        other = nn.Parameter(torch.ones(2))
        assert other not in census.filled


def test_a_name_is_that_of_the_leaf_that_has_it():
    updates = Updates(nullcontext, id)
    for _ in range(20):
        gone = leaf(1.0)
        updates._name_leaves([sys._getframe(0)])
        del gone
        assert "gone" not in updates.names.values()


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


@pytest.mark.parametrize("form", ["attribute", "list", "within"])
def test_a_watch_of_such_a_model_has_rows_of_it(tmp_path, form):
    class Lazy(nn.Module):
        """Its head runs once before it is a part."""

        def __init__(self):
            super().__init__()
            self.body, self.heads = nn.Linear(2, 2), nn.ModuleList()
            self.head = None

        def forward(self, x):
            h = self.body(x)
            if self.head is not None:
                return self.head(h)
            if len(self.heads):
                return self.heads[0](h)
            head = nn.Linear(2, 1)
            y = head(h)
            if form == "attribute":
                self.head = head
            elif form == "list":
                self.heads.append(head)
            else:
                self.body.add_module("head", head)
                self.head = head
            return y

    net = Lazy()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with bp.watch(net, tmp_path / "run", optimizer=optimizer):
        for _ in range(3):
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    run = bp.open_run(tmp_path / "run")
    (name,) = [name for name in run.names if name in ("head", "heads.0", "body.head")]
    assert len(run.series(name, "value.rms")[0]) == 2


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


def test_a_tracer_gets_instructions_after_a_read(monkeypatch):
    """Where PyTorch does not tell which hooks there are, they are stopped; the program's tracer survives that."""
    monkeypatch.setattr(saved_tensors, "TELLS_HOOKS", False)
    node, lines = torch.ones(1, requires_grad=True).sin().grad_fn, []

    def reading():
        found = saved_tensors.read(node, "_saved_self")
        return found is saved_tensors.HOOKED

    def traced(frame, event, argument):
        if frame.f_code is not reading.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            lines.append(frame.f_lineno - reading.__code__.co_firstlineno)
        return traced

    before = sys.gettrace()
    for _ in range(2):  # Python sends instructions from the second time on
        lines.clear()
        sys.settrace(traced)
        try:
            assert not reading()
        finally:
            sys.settrace(before)
    assert 2 in lines


class Finalized:
    """Nothing but the garbage collector frees it."""

    def __init__(self, ended):
        self.itself, self.ended = self, ended

    def __del__(self):
        self.ended.append(1)


def test_no_garbage_is_collected_where_python_functions_are_stopped(monkeypatch):
    """A finalizer of the program would be stopped as a hook is, and never run again."""
    monkeypatch.setattr(saved_tensors, "TELLS_HOOKS", False)
    node, ended, before = torch.ones(1, requires_grad=True).sin().grad_fn, [], gc.get_threshold()
    try:
        for allocations in range(1, 40):  # one of these is where the saved tensor is made
            gc.collect(0)
            gc.set_threshold(allocations, 1000)  # young objects alone
            Finalized(ended)
            saved_tensors.read(node, "_saved_self")
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert len(ended) == 39 and gc.isenabled()


class Listening(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("tells", [True, False], ids=["this release", "older ones"])
def test_the_result_of_a_node_is_read_under_a_mode(tells, monkeypatch):
    """PyTorch detaches it, which a mode written in Python hears of."""
    monkeypatch.setattr(saved_tensors, "TELLS_HOOKS", tells and saved_tensors.TELLS_HOOKS)
    result = torch.ones(2, requires_grad=True).softmax(0)
    with Listening():
        assert not saved_tensors.is_hooked(result.grad_fn)
        assert [one.tolist() for one in saved_tensors.tensors(result.grad_fn)] == [[0.5, 0.5]]
