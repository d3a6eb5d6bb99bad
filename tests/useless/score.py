"""How often `backprobe explain` is right on trainings whose gradients are there, some of which are worthless.

Run as ``python tests/useless/score.py [WORD …]``: without words all programs beside this file are asked, else those
whose path has one of the words in it. Each program is a whole small training, written by people who did not know how
the answers come about. Its head says what is true of it:

    # from: https://…       the thread or example that it is rebuilt from; or `own`
    # truth: a sentence     what is wrong and where; or `healthy: ` and why it might look wrong and is not
    # kind: healthy         or every zero, zero, cancels, outer product, distribution twice, not log-probabilities,
                            step changes nothing, other
    # names: weight bias    words of the program, one of which a right answer has (none where a line is enough)

A comment `# <- here` ends the line that a right answer names; where two lines have one, either is right.

Those in `recorded` are functions and models, `PROBED`, with arguments, `GIVEN`, and `OPTIONS` of a probe: what
`bp.probe(PROBED, **OPTIONS)(*GIVEN)` records is given to `bp.explain`, and the status is 1 where the report has a
finding. Of those of kind `zero`, whose gradient is 0 at these arguments alone, a note that has the line is right.

A faulty program is found where the exit status is 1 and the answer has a marked line, as ``FILE:LINE``, or one of the
names as a word. A healthy one is right where the exit status is 0. What is printed: a line for each program that is
not right, as it comes, then a table by framework and kind. The exit status is 0 whatever the count.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
SECONDS = 90  # for one program
AT_ONCE = 2
RECORDED = """
import runpy, sys
import backprobe as bp
known = runpy.run_path(sys.argv[1])
report = bp.explain(bp.probe(known["PROBED"], **known.get("OPTIONS", {}))(*known["GIVEN"]))
print(report)
sys.exit(not report.ok)
"""


def head(text):
    """The keys and values of the comment lines that a program begins with."""
    return dict(re.findall(r"^# (from|truth|kind|names): (.*)$", text, re.MULTILINE))


def asked(path):
    """The exit status of the command, or None where it took too long, and its answer with white space joined."""
    paths = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    is_recorded = "recorded" in path.parts
    command = [sys.executable, *(["-c", RECORDED] if is_recorded else ["-m", "backprobe", "explain"]), path.name]
    given = {"cwd": path.parent, "env": {**os.environ, "PYTHONPATH": paths}, "timeout": SECONDS}
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, **given)
    except subprocess.TimeoutExpired:
        return None, f"no answer within {SECONDS} seconds"
    return ran.returncode, " ".join((ran.stdout + ran.stderr).split())


def named(path, answer):
    """Whether an answer has a marked line of a program, or one of its names."""
    text = path.read_text()
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# <- here")]
    words = [rf"\b{re.escape(path.name)}:{number}\b" for number in lines]
    words += [rf"\b{re.escape(name)}\b" for name in head(text).get("names", "").split()]
    return any(re.search(word, answer) for word in words)


def judged(path):
    """The framework, the kind, whether the answer is right, and what to say of it if it is not."""
    kind = head(path.read_text())["kind"]
    status, answer = asked(path)
    if kind == "healthy":
        right, why = status == 0, "a finding where there is none"
    else:
        is_note = kind == "zero" and "recorded" in path.parts
        right = (status == 1 or (is_note and status == 0)) and named(path, answer)
        why = "names neither the line nor a name" if status == 1 else "no finding"
    if status not in (0, 1):
        why = f"status {status}"
    return path.parent.name, kind, right, f"{path.relative_to(HERE)} ({kind}): {why}: {answer[:200]}"


def main(words):
    """Ask all programs, or those of some words, and print what came of it."""
    paths = [path for path in sorted(HERE.glob("*/**/*.py")) if not words or any(word in str(path) for word in words)]
    total, good = Counter(), Counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for answer in as_completed([pool.submit(judged, path) for path in paths]):
            framework, kind, right, line = answer.result()
            total[framework, kind] += 1
            good[framework, kind] += right
            if not right:
                print(line, flush=True)
    frameworks = sorted({framework for framework, _ in total})
    print(f"{'':24}" + "".join(f"{framework:>14}" for framework in frameworks))
    for kind in sorted({kind for _, kind in total}, key=lambda kind: (kind == "healthy", kind)):
        cells = [f"{good[each, kind]} of {total[each, kind]}" if total[each, kind] else "" for each in frameworks]
        print(f"{kind:24}" + "".join(f"{cell:>14}" for cell in cells))
    faulty, healthy = ([key for key in total if (key[1] == "healthy") is wanted] for wanted in (False, True))
    counted = [sum(counts[key] for key in keys) for keys in (faulty, healthy) for counts in (good, total)]
    print("found {} of {}, healthy right {} of {}".format(*counted))


if __name__ == "__main__":
    main(sys.argv[1:])
