"""What ``make test`` spends on each test function. The rest has the mark ``long``, for ``make test-long``.

``seconds.json`` lists the functions whose cases together take longer than ``BUDGET``, each with the processor time of
one case, on the machine where ``make seconds`` ran last. Of such a function as many cases stay as fit, evenly drawn:
at least one, unless a case alone takes longer than ``MOST``. All of a function that is not listed runs.
"""

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

FILE = Path(__file__).parent / "seconds.json"
BUDGET = 0.5  # seconds of processor time for a test function
MOST = 1.0  # for a test function's only case
WRITES = bool(os.environ.get("WRITE_SECONDS"))

measured: dict[str, float] = {}  # test -> the seconds of it, its set-up and its teardown
began = 0.0


def function(item):
    """The name of a test function, as ``seconds.json`` has it: without the parameters."""
    return item.nodeid.removeprefix("tests/").partition("[")[0]


def kept(many, seconds):
    """Which of so many cases, that take so long each, fit into the budget.

    >>> kept(10, 0.15), kept(4, 0.01), kept(3, 0.9), kept(3, 1.5)
    ({0, 3, 6}, {0, 1, 2, 3}, {0}, set())
    """
    few = min(many, int(BUDGET / seconds)) or int(seconds <= MOST)
    return {at * many // few for at in range(few)}


def mark(items):
    """Give the tests that do not fit the mark ``long``."""
    seconds = json.loads(FILE.read_text())
    cases = defaultdict(list)
    for item in items:
        if function(item) in seconds and not item.get_closest_marker("sweep"):
            cases[function(item)].append(item)
    for name, those in cases.items():
        fits = kept(len(those), seconds[name])
        for at, item in enumerate(those):
            if at not in fits:
                item.add_marker(pytest.mark.long)


# hooks, which conftest.py imports


def spent():
    """Seconds of processor time of this process, and of those that it has started and waited for."""
    return sum(os.times()[:4])


def pytest_runtest_logstart():
    global began
    began = spent()


def pytest_runtest_logfinish(nodeid):
    measured[nodeid.removeprefix("tests/")] = spent() - began


def pytest_sessionfinish():
    """With ``WRITE_SECONDS=1`` in the environment, what the functions of this run take, in place of what is known."""
    if WRITES:
        FILE.write_text(json.dumps(renewed(json.loads(FILE.read_text()), measured), indent=1, sort_keys=True) + "\n")


def renewed(seconds, measured):
    """The seconds of a case of each long function, where those that were measured are known anew.

    >>> renewed({"a": 2.0, "b": 3.0}, {"b[1]": 0.25, "b[2]": 0.125, "c[1]": 0.75, "c[2]": 0.5})
    {'a': 2.0, 'c': 0.625}
    """
    cases = defaultdict(list)
    for test, each in measured.items():
        cases[test.partition("[")[0]].append(each)
    long = {name: round(sum(all_) / len(all_), 4) for name, all_ in cases.items() if sum(all_) > BUDGET}
    return {name: each for name, each in seconds.items() if name not in cases} | long
