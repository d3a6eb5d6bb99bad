"""A test of a library gets ``ask``; a file that ran wholly has its results in ``results``, of which the page is made.

``WRITE_RESULTS=1`` writes them, with the commit that was tested; without it they are compared.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # what the files of all groups share

from asks import Ask  # noqa: E402

ASKED = pytest.StashKey[dict[Path, dict[str, Ask]]]()
COMMIT = pytest.StashKey[str]()
WRITE = "WRITE_RESULTS"


def pytest_configure(config):
    config.stash[ASKED] = defaultdict(dict)
    config.stash[COMMIT] = commit()  # before the code is imported, and not after a run in which it may go on


@pytest.fixture
def ask(request):
    asked = Ask()
    request.config.stash[ASKED][request.path][request.node.name] = asked
    return asked


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """What was wrong is said once all was asked; an error that stops a test is one more wrong statement."""
    asked = pyfuncitem.funcargs["ask"]
    try:
        answer = yield
    except Exception as error:
        asked.wrong.append(f"{type(error).__name__}: {error}")
        raise
    if asked.wrong:
        pytest.fail(f"{len(asked.wrong)} wrong, {asked.right} right:\n" + "\n".join(asked.wrong), pytrace=False)
    return answer


def pytest_terminal_summary(terminalreporter, config):
    """How many programs and statements were right."""
    for path, tests in config.stash[ASKED].items():
        right, wrong = sum(each.right for each in tests.values()), sum(len(each.wrong) for each in tests.values())
        terminalreporter.write_line(f"{path.stem}: {len(tests)} programs, {right} of {right + wrong} statements right")


def pytest_sessionfinish(session):
    """A file of which every test ran and passed has its results written, or compared with those that are there."""
    for path, tests in session.config.stash[ASKED].items():
        module = sys.modules[path.stem]
        wanted = {name for name in vars(module) if name.startswith("test_")}
        if wanted != {name.partition("[")[0] for name in tests} or any(each.wrong for each in tests.values()):
            continue
        found = results(module, tests)
        kept = HERE / "results" / f"{path.stem.removeprefix('test_')}.json"
        if os.environ.get(WRITE):
            kept.write_text(json.dumps(found | {"commit": session.config.stash[COMMIT]}, indent=2) + "\n")
        elif not kept.exists() or json.loads(kept.read_text()) | {"commit": ""} != found | {"commit": ""}:
            print(f"\n{kept} is not what ran: {WRITE}=1 writes it, and `python tests/libraries/page.py` the page")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def results(module, tests):
    """The row of a library: ``LIBRARIES`` of a file are the distributions that it asks about."""
    claims = [claim for each in tests.values() for claim in each.claims]
    return {
        "framework": module.FRAMEWORK,
        "libraries": {name: version(name).partition("+")[0] for name in module.LIBRARIES},
        "programs": len(tests),
        "statements": sum(each.right for each in tests.values()),
        **{kind: [text for each, text in claims if each == kind] for kind in ("works", "refused", "select")},
    }


def commit():
    """The commit that is tested, and its date."""
    said = ["git", "log", "-1", "--format=%h, %cs"]
    return subprocess.run(said, cwd=HERE, check=True, capture_output=True, text=True).stdout.strip()
