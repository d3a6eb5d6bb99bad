"""How often `backprobe explain` finds a cut that no table of names can know, and what it says of healthy programs.

Run as ``python tests/cuts/score.py [WORD …]``: without words all programs beside this file are asked, and the healthy
ones of ``tests/useless`` and ``tests/field`` too, else those whose path has one of the words in it. The programs were
written without a look at how the answers come about; `premise.py` has what their heads say, and that it is true is
asserted before a program is asked. A framework is imported once, and each program runs in a fork of that process.
Those of ``libraries`` are asked where these are installed, as in the environment of ``make test-integrations``.

A line is right where a finding is at a marked line, a name where a finding has it as a word, a kind where the finding
at the right line has it. A cut is proven where a finding at the right line says that, as was tried, gradients arrive.
A healthy program is right where nothing is found. What is printed is Markdown: a row for each cut, the totals, and the
healthy programs with a finding. The exit status is 0 whatever the count, and 2 where a premise does not hold.
"""

from __future__ import annotations

import json
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
from cuts import premise  # noqa: E402

SECONDS, AT_ONCE = 180, 2


@dataclass(frozen=True)
class Answer:
    """What came of asking for one program."""

    path: Path
    wrong: str = ""
    is_healthy: bool = False
    line: bool = False
    name: bool = False
    kind: bool = False
    proven: bool = False
    kinds: str = ""

    @property
    def label(self):
        return f"{self.path.parent.name}/{self.path.stem}"


def framework(path):
    """What the process of a program has imported."""
    return {"libraries": "torch"}.get(path.parent.name, path.parent.name)


def run(path, *words):
    """What becomes of ``python WORDS`` in the folder of a program."""
    paths = os.pathsep.join(filter(None, [str(TESTS.parent / "src"), os.environ.get("PYTHONPATH")]))
    settings = {"cwd": path.parent, "timeout": SECONDS, "env": {**os.environ, "PYTHONPATH": paths}}
    return prepared.run(framework(path), *words, **settings)


def asked(path):
    """The status of the command, its findings, and the end of what it printed."""
    _, *words = shlex.split(premise.head(path.read_text()).get("ask", "explain"))
    words = [word.replace("PROGRAM:", f"{path.name}:") for word in words] or [path.name]
    ran = run(path, "-m", "backprobe", "explain", "--json", *words)
    reports = [line for line in ran.stdout.splitlines() if line.startswith('{"ok"')]
    return ran.returncode, json.loads(reports[-1])["findings"] if reports else [], (ran.stdout + ran.stderr)[-300:]


def judged(path):
    """The answer for one program, after its premise."""
    text = path.read_text()
    one, is_ours = premise.head(text), path.is_relative_to(HERE)
    if is_ours and (held := run(path, premise.__file__, path)).returncode:
        return Answer(path, wrong="premise: " + (held.stdout + held.stderr)[-300:])
    status, found, end = asked(path)
    if one.get("kind", "healthy") == "healthy":
        said = "; ".join(each["headline"] for each in found) or end
        return Answer(path, "" if (status, found) == (0, []) else f"status {status}: {said}", is_healthy=True)
    at = [each for each in found if is_at(each["source"], path, premise.marked(text))]
    return Answer(
        path,
        line=bool(at),
        name=bool(re.search(rf"\b{re.escape(one['name'])}\b", json.dumps(found))),
        kind=any(each["kind"] == one["kind"] for each in at),
        proven=any("arrive" in sentence for each in at for sentence in each.get("tried", ())),
        kinds=", ".join(dict.fromkeys(each["kind"] for each in at or found)) or f"nothing found, status {status}",
    )


def is_at(source, path, lines):
    """Whether a finding is at one of these lines of a program."""
    return bool(source) and Path(source["file"]).name == path.name and source["line"] in lines


def programs(words):
    """The programs to ask: all of this folder and the healthy ones of others, or those of some words."""
    own = [path for path in sorted(HERE.glob("*/*.py")) if path.parent.name != "libraries" or find_spec("gpytorch")]
    others = [path for path in sorted(TESTS.glob("useless/*/*.py")) if "# kind: healthy" in path.read_text()]
    rights = [path for name in ("torch", "tensorflow", "jax") for path in TESTS.glob(f"field/{name}/right_*.py")]
    others += [path for path in sorted(rights) if "# ask:" not in path.read_text()]
    return [path for path in own + others if not words or any(word in str(path) for word in words)]


def main(words):
    """Ask, and print what came of it."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(judged, programs(words)))
    healthy = [each for each in answers if each.is_healthy]
    broken = [each for each in answers if each.wrong.startswith("premise")]
    cuts = [each for each in answers if each not in healthy and each not in broken]
    print("| cut | line | name | kind | proven | kinds that were found |\n|---|---|---|---|---|---|")
    for each in cuts:
        marks = ["yes" if right else "no" for right in (each.line, each.name, each.kind, each.proven)]
        print("|", " | ".join([each.label, *marks, each.kinds]), "|")
    right = Counter(part for each in cuts for part in ("line", "name", "kind", "proven") if getattr(each, part))
    print("\n" + ", ".join(f"{part} {right[part]} of {len(cuts)}" for part in ("line", "name", "kind", "proven")))
    false = [each for each in healthy if each.wrong]
    print(f"healthy: {len(false)} of {len(healthy)} with a finding\n")
    for each in false + broken:
        print(f"- {each.path.relative_to(TESTS).with_suffix('')}: {each.wrong}")
    return 2 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
