"""How often `backprobe explain --nonfinite` finds where NaN or Inf is born in operations that no table has.

Run as ``python tests/births/score.py [WORD …]``: without words all programs beside this file are asked, else those
whose path has one of the words in it. The programs were written without a look at how the answers come about;
`premise.py` has what their heads say, and that it is true is asserted before a program is asked. A framework is
imported once, and each program runs in a fork of that process. A program that needs a library is asked where that is
installed, as in the environment of ``make test-integrations``.

A line is right where a finding is at a marked line. The operands are shown where the headline, the facts and the cause
of a finding at the right line have all their numbers, as often as the head has them. Shapes, indices in brackets, how
many are NaN, and the range of a whole value, as in `between 0 and 2`, are not the numbers of an element. A healthy
program is right where nothing is found. What is printed is Markdown: a row for each birth, the totals, and the healthy
programs with a finding. The exit status is 0 whatever the count, and 2 where a premise does not hold.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]

import prepared  # noqa: E402
from births import premise  # noqa: E402

SECONDS, AT_ONCE = 180, 2
NUMBER = re.compile(r"(?<![\w.])-?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|inf\b|nan\b)", re.IGNORECASE)
ASIDE = re.compile(r"\[[^][]*\]|shape \([\d, ]*\)|:\d+\b|between \S+ and \S+|\d+ (?:NaN|Inf) of \d+")


@dataclass(frozen=True)
class Answer:
    """What came of asking for one program."""

    path: Path
    wrong: str = ""
    is_healthy: bool = False
    line: bool = False
    operands: bool = False
    said: str = ""

    @property
    def label(self):
        return f"{self.path.parent.name}/{self.path.stem}"


def run(path, *words):
    """What becomes of ``python WORDS`` in the folder of a program."""
    paths = os.pathsep.join(filter(None, [str(TESTS.parent / "src"), os.environ.get("PYTHONPATH")]))
    settings = {"cwd": path.parent, "timeout": SECONDS, "env": {**os.environ, "PYTHONPATH": paths}}
    return prepared.run(path.parent.name, *words, **settings)


def asked(path):
    """The status of the command, its findings, and the end of what it printed."""
    _, *words = shlex.split(premise.head(path.read_text())["ask"])
    words = [word.replace("PROGRAM:", f"{path.name}:") for word in words]
    words = words if any(word.startswith(path.name) for word in words) else [*words, path.name]
    ran = run(path, "-m", "backprobe", "explain", "--json", *words)
    reports = [line for line in ran.stdout.splitlines() if line.startswith('{"ok"')]
    return ran.returncode, json.loads(reports[-1])["findings"] if reports else [], (ran.stdout + ran.stderr)[-300:]


def judged(path):
    """The answer for one program, after its premise."""
    text = path.read_text()
    one = premise.head(text)
    if (held := run(path, premise.__file__, path)).returncode:
        return Answer(path, wrong="premise: " + (held.stdout + held.stderr)[-300:])
    status, found, end = asked(path)
    if one["birth"] == "healthy":
        said = "; ".join(each["headline"] for each in found) or end
        return Answer(path, "" if (status, found) == (0, []) else f"status {status}: {said}", is_healthy=True)
    at = [each for each in found if is_at(each["source"], path, premise.marked(text))]
    heads = "; ".join(dict.fromkeys(each["headline"] for each in at or found))
    return Answer(
        path,
        line=bool(at),
        operands=any(has_operands(one["operands"], each) for each in at),
        said=heads or f"nothing found, status {status}: {' '.join(end.split())[-120:]}",
    )


def is_at(source, path, lines):
    """Whether a finding is at one of these lines of a program."""
    return bool(source) and Path(source["file"]).name == path.name and source["line"] in lines


def has_operands(operands, finding):
    """Whether a finding shows all the numbers of the operands."""
    there = numbers(" ; ".join([finding["headline"], finding["cause"], *finding["facts"]]))
    for wanted in numbers(operands):
        if not (same := [each for each in there if is_same(each, wanted)]):
            return False
        there.remove(same[0])
    return True


def numbers(text):
    """The numbers in a text that can be those of an element."""
    return [float(each) for each in NUMBER.findall(ASIDE.sub(" ", text.replace("−", "-")))]


def is_same(one, other):
    """Whether two numbers are the same as printed."""
    return one == other or (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-3)


def programs(words):
    """The programs to ask: all whose libraries are installed, or those of some words."""
    own = [path for path in sorted(HERE.glob("*/*.py")) if find_spec(path.parent.name)]
    own = [path for path in own if all(map(find_spec, premise.head(path.read_text()).get("needs", "os").split()))]
    return [path for path in own if not words or any(word in str(path) for word in words)]


def main(words):
    """Ask, and print what came of it."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(judged, programs(words)))
    healthy = [each for each in answers if each.is_healthy]
    broken = [each for each in answers if each.wrong.startswith("premise")]
    births = [each for each in answers if each not in healthy and each not in broken]
    print("| birth | line | operands | headlines at the line, or else all |\n|---|---|---|---|")
    for each in births:
        marks = ["yes" if right else "no" for right in (each.line, each.operands)]
        print("|", " | ".join([each.label, *marks, each.said.replace("|", "\\|")]), "|")
    right = Counter(part for each in births for part in ("line", "operands") if getattr(each, part))
    print("\n" + ", ".join(f"{part} {right[part]} of {len(births)}" for part in ("line", "operands")))
    false = [each for each in healthy if each.wrong]
    print(f"healthy: {len(false)} of {len(healthy)} with a finding\n")
    for each in false + broken:
        print(f"- {each.label}: {each.wrong}")
    return 2 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
