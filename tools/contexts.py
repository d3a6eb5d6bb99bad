"""A plugin of pytest: which test functions run which lines of the package, for ``tools/mutants.py``.

    PYTHONPATH=tools pytest -p contexts tests/test_names.py    # writes .contexts.json, on Python 3.12 or later

Python's monitoring tells of each line once, and once more after it was asked to start anew, which is done at each test
function. Blocks of backprobe set trace functions, and would take that of coverage away. What other processes run is not
seen.
"""

import json
import random
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = f"{ROOT / 'src' / 'backprobe'}/"
FILE = ROOT / ".contexts.json"
TOOL = 3  # of the numbers that no kind of tool has
MOST = 20  # test functions that are kept of a line, drawn evenly

running = ""
lines: dict[str, dict[int, list[str]]] = defaultdict(dict)
ran: dict[tuple[str, int], int] = defaultdict(int)  # by how many test functions
seen: set[tuple[str, int]] = set()  # by the one that runs
drawn = random.Random(0)


def pytest_configure():
    if sys.version_info < (3, 12):
        raise pytest.UsageError("sys.monitoring, which says which lines run, came with Python 3.12: use make contexts")
    monitoring = sys.monitoring
    monitoring.use_tool_id(TOOL, "contexts")
    monitoring.register_callback(TOOL, monitoring.events.LINE, _ran)
    monitoring.set_events(TOOL, monitoring.events.LINE)


def pytest_runtest_logstart(nodeid):
    global running
    function = nodeid.partition("[")[0]
    if function != running:
        running = function
        seen.clear()
        sys.monitoring.restart_events()


def pytest_sessionfinish():
    sys.monitoring.free_tool_id(TOOL)
    FILE.write_text(json.dumps(lines))


def _ran(code, line):
    if running and code.co_filename.startswith(PACKAGE):
        place = code.co_filename.removeprefix(PACKAGE), line
        if place not in seen:  # two codes may have one line
            seen.add(place)
            ran[place] += 1
            _keep(lines[place[0]].setdefault(line, []), ran[place])
    return sys.monitoring.DISABLE


def _keep(functions, count):
    # Each of all functions so far has the same chance to be kept.
    if len(functions) < MOST:
        functions.append(running)
    elif (at := drawn.randrange(count)) < MOST:
        functions[at] = running
