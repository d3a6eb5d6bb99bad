"""How often `backprobe explain` is right on trainings whose gradients are there, some of which are worthless.

Run as ``python tests/useless/score.py [--kept FILE] [WORD …]``: without words all programs beside this file are asked,
else those whose path has one of the words in it. With ``--kept`` each answer is added to a file as it comes, and the
programs in it are not asked again, so that a run that was ended goes on. Each program is a whole small training,
written by people who did not know how the answers come about. Its head says what is true of it:

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

import argparse
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import prepared  # noqa: E402 -- it lies in the folder above

SOURCE = HERE.parents[1] / "src"
SECONDS = 300  # for one program, on a machine that does other work too
OURS = "backprobe.cli backprobe.check backprobe.explain backprobe.probe.script"
IMPORTED = {  # before a program is forked: what takes long, and most programs or the answer import
    "torch": f"torch torch._dynamo {OURS}",
    "tensorflow": f"tensorflow keras {OURS}",
    "jax": f"jax flax.linen flax.nnx optax equinox {OURS}",
}
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
    """The exit status of the command, or None where it took too long, and its answer with white space joined.

    The process is forked from one that has imported the framework.
    """
    words = ["-c", RECORDED] if "recorded" in path.parts else ["-m", "backprobe", "explain"]
    try:
        ran = prepared.run(IMPORTED[path.parent.name], *words, path.name, cwd=path.parent, timeout=SECONDS)
    except TimeoutError:
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


def answers(paths, kept):
    """What ``judged`` says of each program: from the file of answers if that has it, else asked and added to it."""
    known = dict(map(json.loads, kept.read_text().splitlines())) if kept and kept.exists() else {}
    for path in paths:
        name = str(path.relative_to(HERE))
        if name not in known:
            known[name] = judged(path)
            if kept:
                with kept.open("a") as file:
                    print(json.dumps([name, known[name]]), file=file)
        yield known[name]


def main():
    """Ask all programs, or those of some words, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="a file of answers that are not asked for again")
    given = parser.parse_args()
    paths = sorted(HERE.glob("*/**/*.py"), key=lambda path: (path.parent.name, path))
    paths = [path for path in paths if not given.words or any(word in str(path) for word in given.words)]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    total, good = Counter(), Counter()
    for framework, kind, right, line in answers(paths, given.kept):
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
    main()
