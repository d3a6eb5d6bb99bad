"""Sentences that tests compare with ``tests/golden/VERB.txt``, so that a test itself is about kinds, names and lines.

A test says ``golden("explain", report)``, and the file has the report as it prints, below the name of the test. After a
wanted change of words, ``make golden`` writes the files anew, and their diff is what is reviewed. Numbers of lines
change with each edit, so the text of the line stands for them, and numbers of many digits are left out.
"""

import ast
import difflib
import fcntl
import functools
import io
import os
import re
import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FOLDER = TESTS / "golden"
PLACE = re.compile(r"((?:[^\s'\"`(]*/)?)([\w.<>-]+\.py|<[\w-]+>|In\[\d+\]):(\d+)")
BENEATH = re.compile(r".*\n\s+line:\s+(?:\S+:\d+: )?")
BEGINNING = 12  # so many characters of a line tell it from others
MEASURED = re.compile(
    r"-?\b(?=[\d.]{6})\d+\.\d+(?:e[+-]\d+)?|(?<=of the right ones )[\d.e-]+|(?<=error )[\d.]+e-\d+"
    r"|[\d,.e+]+(?= ulps| × the floor)"
)  # where the last digit, or more of them, is that of one machine
UNIQUE = re.compile(r"_[0-9a-f]{32}\b")  # in the name of a file
WRITES = bool(os.environ.get("WRITE_GOLDEN"))
MARK = "=== "

now: dict[str, list] = {}  # of the tests that run: the golden cases that each has compared, as (verb, case, text)
collected: dict[str, set] = {}  # test function -> its tests in this session; empty where single tests were asked for


def golden(verb, answer):
    """Compare an answer with its case in the golden file of a verb.

    The answer is a report, a finding, the note of an error, another text, or several. The second answer in a test is
    the case ``TEST #2``.
    """
    (test,) = now
    number = len(now[test]) + 1
    case = test if number == 1 else f"{test} #{number}"
    text = said(answer)
    now[test].append((verb, case, text))
    if not WRITES:
        wanted = cases(verb).get(case)
        assert wanted == text, different(verb, case, wanted, text)


@contextmanager
def golden_note(verb, kind=RuntimeError, match=None, but=()):
    """What runs within raises, and the last note of its error is compared; it has none of the parts ``but``."""
    with pytest.raises(kind, match=match) as caught:
        yield caught
    note = caught.value.__notes__[-1]
    assert [part for part in but if part in note] == [], note
    golden(verb, note)


def said(answer):
    """An answer as it prints, without what differs from one run to the next."""
    from backprobe.findings.report import Report, in_lines

    if isinstance(answer, Report):  # without tables, and its lines as long as they are
        answer = in_lines(answer.heading, answer.findings, answer.notes)
    with redirect_stdout(io.StringIO()):  # no terminal, whose width would decide where lines end
        text = "\n".join(map(str, answer)) if isinstance(answer, list | tuple) else str(answer)
    text = MEASURED.sub("…", UNIQUE.sub("", PLACE.sub(without_number, text)))
    return "\n".join(line.rstrip() for line in text.splitlines())


def without_number(place):
    """A file and a line in it, as the file and the text of the line, which is left out where it follows."""
    folder, file, number = place.groups()
    there = [path for path in (Path(folder + file), TESTS / file) if path.is_file()]  # headlines have no folder
    lines = there[0].read_text().splitlines() if there else []
    line = "".join(lines[int(number) - 1 : int(number)]).strip()
    follows = place.string[place.end() :]
    beneath = BENEATH.match(follows)  # a headline, and the line that it is about
    said = follows[beneath.end() :] if beneath else follows.lstrip(": \n")
    return f"{file}:*" if said.startswith(line[:BEGINNING]) else f"{file}:[{line}]"


def different(verb, case, wanted, text):
    if wanted is None:
        return f"{path(verb)} has no case {case}: make golden writes it"
    lines = difflib.unified_diff(wanted.splitlines(), text.splitlines(), str(path(verb)), "what is said", lineterm="")
    return "\n".join(["if this is wanted, make golden writes it anew:", *lines])


# the files


def path(verb):
    return FOLDER / f"{verb}.txt"


@functools.cache
def cases(verb):
    """Case -> text."""
    return read(path(verb).read_text()) if path(verb).exists() else {}


def read(text):
    """The cases of a golden file.

    >>> read("=== a\\none\\n\\n=== b\\ntwo\\n\\nlines\\n")
    {'a': 'one', 'b': 'two\\n\\nlines'}
    """
    parts = re.split(f"^{MARK}(.*)\n", text, flags=re.MULTILINE)
    return {case: said.rstrip("\n") for case, said in zip(parts[1::2], parts[2::2], strict=True)}


def written(found):
    return "\n".join(f"{MARK}{case}\n{text}\n" for case, text in sorted(found.items()))


def test_of(case):
    return re.sub(r" #\d+$", "", case)


@functools.cache
def by_test():
    """Test -> the verb and the name of each of its cases."""
    found: dict[str, list] = {}
    for file in FOLDER.glob("*.txt"):
        for case in cases(file.stem):
            found.setdefault(test_of(case), []).append((file.stem, case))
    return found


@functools.cache
def functions(file):
    text = (TESTS / file).read_text() if (TESTS / file).exists() else ""
    return {one.name for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef)}


def stale(case):
    """Is the test of this case gone?"""
    test = test_of(case)
    file, _, name = test.partition("::")
    return name.partition("[")[0] not in functions(file) or test not in collected.get(test.partition("[")[0], {test})


def write(test):
    """Put what a test has said in place of all its cases."""
    for verb in {file.stem for file in FOLDER.glob("*.txt")} | {verb for verb, *_ in now[test]}:
        with open(path(verb), "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # other processes run other tests
            file.seek(0)
            old = read(file.read())
            new = {case: text for case, text in old.items() if test_of(case) != test and not stale(case)}
            new |= {case: text for of, case, text in now[test] if of == verb}
            if new != old:
                file.truncate(0)
                file.write(written(new))


# hooks, which conftest.py imports


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if not any("::" in one for one in config.args):
        for item in items:
            collected.setdefault(name(item).partition("[")[0], set()).add(name(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    test = name(item)
    now[test] = []
    if ("golden" in vars(item.module) or "golden_note" in vars(item.module)) and "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)  # the same weights, whichever tests ran before
    try:
        result = yield
        if WRITES:
            write(test)
        else:
            compared = {case for _, case, _ in now[test]}
            left = [f"{path(verb)}: {case}" for verb, case in by_test().get(test, []) if case not in compared]
            assert not left, f"what no test says any more, and make golden takes out: {left}"
        return result
    finally:
        del now[test]


def name(item):
    return re.sub(r"@[\w-]+$", "", item.nodeid.removeprefix("tests/"))  # without the group that xdist appends
