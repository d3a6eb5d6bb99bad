"""What a run takes from an iterator, a queue or a file: verbs that run a program again refuse it if that is gone.

It is not gone where the program goes on with a copy of the iterator, or a file is set back. An iterator among the
arguments is refused before anything runs.
"""

import csv
import io
import itertools
import queue
import tempfile

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import backprobe as bp
import outside
from outside import note, noted

X = torch.tensor(2.0)
ROWS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]


def f(x, rest):
    return x * next(iter(rest))


VERBS = {
    "noise_floor": bp.noise_floor(f),
    "provoke": bp.provoke(f, tries=2),
    "sweep": bp.sweep(f, "x", replace=lambda x: x * 0),
    "diff_live": bp.diff_live(f, f),
}


@pytest.mark.parametrize("verb", VERBS)
def test_an_iterator_is_refused_before_it_is_used(verb):
    rest = iter([3.0, 4.0])
    with pytest.raises(bp.BadOption, match=f"(?s)use up a list_iterator.*asked: bp.{verb}"):
        VERBS[verb](X, rest)
    assert next(rest) == 3.0


@pytest.mark.parametrize("verb", [one for one in VERBS if one != "sweep"])
def test_what_it_says_instead_runs(verb):
    VERBS[verb](X, [3.0, 4.0])


def test_it_is_found_inside_a_container():
    with pytest.raises(bp.BadOption, match="a generator"):
        bp.noise_floor(lambda x, given: x * next(given["rest"]))(X, {"rest": (one for one in [3.0])})


# those that a program holds


def generator():
    for one in ROWS:
        yield torch.tensor(one)


def endless(rows):
    while True:
        yield from rows


def filled(kind):
    made = kind()
    for one in ROWS:
        made.put(one)
    return made


def begun(iterator, items):
    for _ in range(items):
        next(iterator)
    return iterator


FILES = []


def opened(mode="r"):
    """A file of four lines, which the test closes."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"1\n2\n3\n4\n")
        file.flush()
        FILES.append(open(file.name, mode))
    return FILES[-1]


@pytest.fixture(autouse=True)
def closed():
    yield
    while FILES:
        FILES.pop().close()


def loader():
    return DataLoader(TensorDataset(torch.tensor(ROWS)), batch_size=1)


def get(held):
    return held.get()


def line(held):
    return float(held.readline())


SOURCES = {
    "a generator": (generator, next),
    "a generator that yields from a list": (lambda: endless(ROWS), next),
    "a zip of a generator": (lambda: zip(generator(), ROWS), lambda held: next(held)[0]),
    "an enumerated file": (lambda: enumerate(opened(), 1), lambda held: next(held)[0]),
    "pairs": (lambda: itertools.pairwise(ROWS), lambda held: next(held)[0]),
    "a function with a sentinel": (lambda: iter(filled(queue.Queue).get, None), next),
    "a reader of lines": (lambda: csv.reader(map(str, ROWS)), lambda held: float(next(held)[0])),
    "a text": (lambda: io.StringIO("1\n2\n3\n4\n"), line),
    "bytes": (lambda: io.BytesIO(b"1\n2\n3\n4\n"), line),
    "a queue": (lambda: filled(queue.Queue), get),
    "a simple queue": (lambda: filled(queue.SimpleQueue), get),
    "a loader": (lambda: iter(loader()), lambda held: next(held)[0]),
    "a generator that yields from a loader": (lambda: begun(endless(loader()), 1), lambda held: next(held)[0]),
}
COPIED = {
    "a list": (lambda: iter(ROWS), next),
    "a dict": (lambda: iter(dict(enumerate(ROWS, 1))), next),
    "all of a list": (lambda: iter(ROWS), sum),
    "a range": (lambda: iter(range(1, 9)), next),
    "a zip": (lambda: zip(ROWS, ROWS, strict=True), lambda held: next(held)[0]),
    "a map": (lambda: map(abs, ROWS), next),
    "an enumerate": (lambda: enumerate(ROWS), lambda held: next(held)[1]),
    "a count": (lambda: itertools.count(1), next),
    "a slice": (lambda: itertools.islice(ROWS, 8), next),
    "a count by its method": (lambda: itertools.count(1).__next__, lambda held: held()),
    "a count in a zip": (lambda: zip(itertools.count(1), ROWS), lambda held: sum(next(held))),
    "a cycle in its first turn": (lambda: begun(itertools.cycle(ROWS), 2), next),
    "a cycle in its second turn": (lambda: begun(itertools.cycle(ROWS), 11), next),
    "a chain": (lambda: begun(itertools.chain(ROWS[:2], ROWS), 1), next),
    "a product": (lambda: itertools.product(ROWS, ROWS), sum_of_next := lambda held: sum(next(held))),
    "permutations": (lambda: begun(itertools.permutations(ROWS), 1), sum_of_next),
    "groups": (lambda: itertools.groupby(ROWS), lambda held: next(held)[0]),
    "a file": (lambda: opened(), line),
    "a file of bytes": (lambda: opened("rb"), line),
    "a file by its lines": (lambda: opened(), lambda held: float(next(held))),
}


def taking(held, take):
    def program(x):
        h = x * take(held) + 1
        return (h * h).sum()

    return program


RUNNING = {
    "noise_floor": lambda program: bp.noise_floor(program)(X),
    "provoke": lambda program: bp.provoke(program, tries=2)(X),
    "sweep": lambda program: bp.sweep(program, "h", replace=lambda h: h * 0)(X),
    "diff_live": lambda program: bp.diff_live(program, program)(X),
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_program_that_takes_from_what_it_holds_is_not_run_again(source):
    made, take = SOURCES[source]
    held, other = made(), made()
    with pytest.raises(bp.Unsupported, match="cannot be run again: the first run took from an? "):
        bp.noise_floor(taking(held, take))(X)
    assert float(take(held)) == [float(take(other)), float(take(other))][1]  # it was taken from once


@pytest.mark.parametrize("source", COPIED)
def test_a_program_that_takes_what_is_put_back_is_run_again(source):
    made, take = COPIED[source]
    held, other = made(), made()

    def taken(held):
        note(float(take(held)))
        return outside.held()[-1]

    noted()
    assert bp.noise_floor(taking(held, taken), runs=2)(X)
    first = float(take(other))
    assert noted() == [first] * 3
    assert float(take(held)) == first


def numbered(x):
    """Numbers its calls in many places."""
    return x * (next(COUNT) + next(Numbered.count) + numbered.names["call"]() + numbered.default())


class Numbered(torch.nn.Module):
    count = itertools.count(1)

    def __init__(self):
        super().__init__()
        self.own, self.weight = itertools.count(1), torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return (x * self.weight).sum() * next(self.own)


COUNT = itertools.count(1)
numbered.names = {"call": itertools.count(1).__next__}
numbered.default = lambda count=itertools.count(1): next(count)


def test_a_count_is_put_back_wherever_it_is_held():
    model = Numbered()

    def program(x):
        y = numbered(x) + model(x)
        note(float(y.detach().sum()))
        return y

    noted()
    assert bp.sweep(program, "x", replace=lambda x: x)(X)
    assert [numbered(1), next(model.own)] == [4, 1]
    assert noted() == [2.0 * 4 + 2.0 * 3] * 2


def test_an_iterator_that_a_tuple_holds_too_stays_one():
    count = itertools.count(1)
    pair = (count,)

    def program(x):
        note((next(count), next(pair[0])))
        return x * 2

    noted()
    assert bp.check(program)(X).ok
    assert noted() == [(1, 2)]
    with pytest.raises(bp.Unsupported, match="the first run took from a count"):
        bp.noise_floor(program)(X)


def test_a_file_that_is_written_to_is_not_set_back():
    with tempfile.TemporaryFile("w+") as log:

        def program(x):
            log.write("called\n")
            return x * 2

        assert bp.check(program)(X).ok
        log.seek(0)
        assert log.read() == "called\n"


@pytest.mark.parametrize("verb", RUNNING)
def test_nor_is_it_by_any_verb_and_each_says_what_to_write(verb):
    program = taking(generator(), next)
    with pytest.raises(bp.Unsupported) as raised:
        RUNNING[verb](program)
    error = raised.value
    assert "the first run took from a generator" in error.headline
    assert error.asked.startswith(f"bp.{verb}(program") and error.asked.endswith(")")
    assert error.next == f"what is taken as an argument: batch = next(batches), and {error.asked}(batch)"


def test_what_it_says_then_runs():
    batches = generator()
    batch = next(batches)
    assert bp.noise_floor(lambda batch: (X * batch).sum())(batch)


@pytest.mark.parametrize("source", SOURCES)
def test_it_runs_where_nothing_is_taken(source):
    held = SOURCES[source][0]()

    def program(x):
        return x * (2 if held is None else 3)

    assert bp.noise_floor(program)(X)


def test_it_runs_where_the_iterator_is_made_in_each_run_or_is_of_a_class_that_is_put_back():
    class Rows:
        at = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.at += 1
            return ROWS[self.at]

    own = Rows()

    def program(x):
        return x * next(iter(ROWS)) * next(own)

    assert bp.noise_floor(program)(X)
    assert own.at == 0


def test_what_is_put_into_a_queue_or_a_file_is_no_reason():
    log, items = io.StringIO(), queue.Queue()

    class Written(io.StringIO):
        def readable(self):
            return False

    log = Written()

    def program(x):
        items.put(1)
        log.write("called\n")
        return x * 3

    assert bp.noise_floor(program, runs=2)(X)
    assert (items.qsize(), log.getvalue()) == (3, "called\n" * 3)


def test_two_programs_that_take_from_one_iterator_are_not_compared():
    batches = generator()
    with pytest.raises(bp.Unsupported, match="took from a generator"):
        bp.diff_live(taking(batches, next), taking(batches, lambda held: next(held) * 1))(X)
    assert next(batches) == 2.0


def test_two_programs_that_take_from_one_each_are_compared():
    assert bp.diff_live(taking(generator(), next), taking(generator(), next))(X).ok


def test_a_check_takes_what_one_run_takes():
    batches = generator()
    assert bp.check(taking(batches, next))(X).ok
    assert next(batches) == 2.0


def test_a_run_that_nobody_asked_for_takes_once_at_most():
    class Held:  # not found among what the program holds directly, and only when it has run again
        def __init__(self):
            self.inside = type("Of", (), {"__module__": "of_a_library"})()
            self.inside.rows = (one for one in ROWS)

    held = Held()

    def program(x, w):
        h = x * next(held.inside.rows)
        return (h.detach() * w).sum()

    rec = bp.probe(program)(torch.ones(3), torch.ones(3))
    assert [one for one in bp.explain(rec).notes if "it took from a generator when it ran the second time" in one]
    assert not bp.explain(rec).ok
    assert next(held.inside.rows) == 3.0
