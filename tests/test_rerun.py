"""A program that explain runs again by itself leaves nothing behind, and is heard of by nobody."""

import io
import logging
import queue
import sys
import threading
import warnings

import pytest
import torch
import torch.nn.functional as F

import backprobe as bp

X = torch.ones(3)


def recorded(f, *args):
    return bp.probe(f)(*(args or (X,)))


def test_a_program_that_explains_itself():
    def f(x):
        bp.explain(bp.probe(lambda q: (q**2).sum())(x.detach()))
        bp.health(bp.probe(lambda q: (q**2).sum())(x.detach()))
        return (x**2).sum()

    assert bp.explain(recorded(f)).ok
    assert torch._C._len_torch_dispatch_stack() == 0


W = torch.ones(3, requires_grad=True)


class Holder:
    w = torch.ones(3, requires_grad=True)


NESTED = {
    "in a generator expression": (W, lambda x: sum((x * W).sum() for _ in range(2))),
    "in a lambda": (W, lambda x: (lambda q: (q * W).sum())(x)),
    "of a class": (Holder.w, lambda x: (x * Holder.w).sum()),
    "of a module": (W, lambda x: (x * sys.modules[__name__].W).sum()),
}


@pytest.mark.parametrize("where", NESTED)
def test_no_gradient_is_added_to_a_leaf(where):
    leaf, f = NESTED[where]
    for grad in (None, torch.full((3,), 5.0)):
        leaf.grad = grad
        rec = recorded(f)
        bp.explain(rec), bp.health(rec)
        assert leaf.grad is grad
        if grad is not None:
            assert torch.equal(grad, torch.full((3,), 5.0))


COUNT = 0


class Walker:
    def __init__(self):
        self.position, self.seen = 0, {"steps": []}

    def step(self, x):
        self.position += 1
        self.seen["steps"].append(float(x.detach().sum()))
        return x * self.position


def test_plain_state_of_the_program_is_put_back():
    walker, log, cells = Walker(), [], 0

    def f(x):
        global COUNT
        nonlocal cells
        COUNT += 1
        cells += 1
        log.append(1)
        return walker.step(x).sum()

    rec = recorded(f)
    before = COUNT
    bp.explain(rec), bp.health(rec)
    assert (COUNT, cells, len(log), walker.position, walker.seen) == (before, 1, 1, 1, {"steps": [3.0]})


class Cache:
    def __init__(self):
        self.layers = [[]]

    def extend(self, x):
        self.layers[0].append(x)
        return torch.cat(self.layers[0]).sum()


def test_a_cache_among_the_arguments_is_put_back():
    cache = Cache()
    rec = bp.probe(lambda x, cache: cache.extend(x * 2))(X, cache)
    bp.explain(rec)
    assert len(cache.layers[0]) == 1


def test_nothing_is_printed_logged_or_warned_of_again(capsys):
    logged = []
    handler = logging.Handler()
    handler.emit = logged.append
    logging.getLogger("toy").addHandler(handler)

    def f(x):
        print("printed")
        print("printed too", file=sys.stderr)
        logging.getLogger("toy").warning("logged")
        warnings.warn("warned", UserWarning, stacklevel=1)
        return x.sum()

    with pytest.warns(UserWarning, match="warned"):
        rec = recorded(f)
    stdout = sys.stdout
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bp.explain(rec)
    logging.getLogger("toy").removeHandler(handler)
    assert capsys.readouterr() == ("", "") and len(logged) == 1
    assert sys.stdout is stdout


def test_other_threads_go_on_printing(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    stream = sys.stdout
    is_running, is_over = threading.Event(), threading.Event()

    def beside():
        is_running.wait(10)
        print("from beside")
        is_over.set()

    def f(x):
        if recorded_once:
            is_running.set()
            is_over.wait(10)
            print("from f")
        return x.sum()

    recorded_once = []
    rec = recorded(f)
    recorded_once.append(1)
    thread = threading.Thread(target=beside)
    thread.start()
    bp.explain(rec)
    thread.join()
    assert stream.getvalue() == "from beside\n" and sys.stdout is stream


def test_several_threads_that_explain_leave_the_streams():
    stdout, rec = sys.stdout, recorded(lambda x: (x**2).sum())
    threads = [threading.Thread(target=bp.explain, args=(rec,)) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sys.stdout is stdout


def test_a_program_that_takes_from_a_queue_is_not_run_again():
    q = queue.Queue()
    q.put(X)
    report = bp.explain(recorded(lambda x: (q.get() * x).sum()))
    assert any("it takes from a Queue, or gives to it" in note for note in report.notes)


def test_nor_one_that_writes_to_an_open_file(tmp_path):
    with open(tmp_path / "log", "w") as log:

        def f(x):
            log.write("a line")
            return x.sum()

        bp.explain(recorded(f))
    assert (tmp_path / "log").read_text() == "a line"


def test_a_program_that_exits_the_second_time():
    def f(x):
        if f.is_recorded:
            sys.exit(3)
        return x.sum()

    f.is_recorded = False
    rec = recorded(f)
    f.is_recorded = True
    report = bp.explain(rec)
    assert any("raised SystemExit" in note for note in report.notes)


def test_an_argument_that_the_program_writes_to():
    def f(x, count):
        count.add_(1)
        x.clamp(0, 1).sum()
        return (x * count).sum()

    (found,) = bp.explain(bp.probe(f)(torch.ones(3), torch.ones(3))).of_kind("result_dropped")
    assert "x.clamp(0, 1).sum()" in found.headline


def test_each_parameter_is_named_once():
    score = torch.nn.Linear(3, 1)

    def f(x):
        p = score(x).softmax(0)
        return (p.sum(0) - p.sum(0).detach() * 0).sum() - 1

    (found,) = bp.explain(bp.probe(f)(torch.randn(4, 3))).of_kind("cancels") or [None]
    if found is not None:
        assert str(found).count("score.weight") == str(found).count("score.bias")


ABILITY, DIFFICULTY = torch.randn(16, 1), torch.randn(16)
TABLES = {
    "item response": lambda a, d: F.binary_cross_entropy_with_logits(a - d, torch.ones(16, 16)),
    "rows and columns": lambda a, d: (torch.ones(16, 16) - (a + d)).pow(2).mean(),
    "rank one": lambda a, d: (torch.ones(16, 16) - a * d).pow(2).mean(),
    "a mask of all pairs": lambda a, d: ((a - d).abs() * torch.ones(16, 16)).sum(),
}


@pytest.mark.parametrize("what", TABLES)
def test_a_table_of_rows_and_columns_is_meant(what):
    assert bp.explain(bp.probe(TABLES[what])(ABILITY, DIFFICULTY)).ok


def test_and_without_a_table_it_is_not():
    report = bp.explain(bp.probe(lambda p, y: ((p - y) ** 2).mean())(ABILITY, DIFFICULTY))
    assert report.of_kind("outer_product")


def test_gradients_that_are_not_finite_do_not_cancel():
    report = bp.explain(bp.probe(lambda x: (torch.sqrt(x) + x * 3).sum())(torch.tensor([0.0, 4.0])))
    assert not report.of_kind("cancels")


def test_a_tuple_that_has_any_attribute_is_no_named_one():
    class Call(tuple):  # as those of ``unittest.mock``
        __slots__ = ()

        def __getattr__(self, name):
            return Call((name,))

    calls = Call((1.0, [2.0]))

    def f(x):
        calls[1].append(1.0)
        return x.sum() * calls[0]

    assert bp.noise_floor(f)(X)
    assert calls[1] == [2.0]
