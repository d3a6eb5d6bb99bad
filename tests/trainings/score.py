"""How many faults `bp.watch` and `run.alerts` find in small trainings, and how many healthy ones stay silent.

Run as ``python tests/trainings/score.py [--seeds N] [--first N] [--one-in N] [--faulty-one-in N] [--at-once N]
[--kept FOLDER] [WORD …]``: without words the trainings of all families, else of those whose path has one of the words;
of the healthy ones, each or one in so many, and so of those with a fault. Seeds are counted from ``--first``, and all
families have one seed before any has the next. With ``--kept`` the runs stay in a folder, and those that are there are
judged as they are, and not trained again: so one that was ended goes on, and rules that were changed are compared on
the same runs. Each family runs in a fork of a process that has imported its framework.

A faulty training ends a tenth of its length after the fault was planted, and the fault is found if there is an alert
from then on: from the step of the run in which it was planted. It is named if a headline or remedy of these has a word
of `planted.WORDS`. An alert before the fault is a false one. A healthy training runs to its end and is right if there
is no alert. The bounds are those of Clopper and Pearson, at 95 %. What is printed is Markdown; the exit status is 0
whatever the count, and 2 where one failed or a fault did no harm to the losses that it must harm. Of healthy ones whose
losses end higher than they began, as those of policies and adversaries may, there is a list.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import numpy as np

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]

import prepared  # noqa: E402
from trainings import planted  # noqa: E402

SECONDS = 3600  # for one family, on a machine that does other work too


def trained(case, seed, kept=None):
    """What came of a training: its alerts, as kind, step and words, and whether its fault did harm."""
    import backprobe as bp

    with tempfile.TemporaryDirectory() as folder:
        folder = kept / case.family / str(seed) / quote(case.name, " ,:×") if kept else Path(folder)
        losses, at = run_of(case, seed, folder)
        with bp.open_run(folder) as run:
            alerts = run.alerts.findings
    said = [{"kind": each.kind, "step": int(each.step), "said": f"{each.headline}; {each.remedy}"} for each in alerts]
    harm = bool(case.fault is None or case.fault.does_harm(losses))
    return {"alerts": said, "at": at, "harm": harm, "risen": case.fault is None and planted.has_risen(losses)}


def run_of(case, seed, folder):
    """The losses of a training, and the step of its run in which its fault was planted; it is trained if it was not."""
    losses = folder / "losses.json"
    if not losses.exists():
        shutil.rmtree(folder, ignore_errors=True)  # of one that was ended
        training = planted.load(HERE / f"{case.family}.py").make(seed, **case.settings)
        told = training.run(folder, case.fault.end if case.fault else training.steps, case.fault)
        losses.write_text(json.dumps([[float(each) for each in told], training.begun]))
    numbers, at = json.loads(losses.read_text())
    return np.array(numbers), at


def all_of(path, seed, one_in, faulty_one_in, kept=None):
    """A line of JSON for each case of a family, with this seed."""
    cases = planted.cases(path)
    healthy = [case for case in cases if not case.fault][::one_in]
    for case in healthy + [case for case in cases if case.fault][::faulty_one_in]:
        row = {"label": case.label, "seed": seed, "fault": case.fault and vars(case.fault)}
        try:
            row |= trained(case, seed, kept)
        except Exception:  # noqa: BLE001 -- one that fails is printed
            row["failed"] = traceback.format_exc()[-400:]
        print("row:" + json.dumps(row), flush=True)


def asked(path, seed, *options):
    """The rows of a family and seed, from a process of its own."""
    options = "--only", path, "--first", seed, *options
    paths = os.pathsep.join(filter(None, [str(TESTS.parent / "src"), os.environ.get("PYTHONPATH")]))
    settings = {"env": {**os.environ, "PYTHONPATH": paths, "TF_CPP_MIN_LOG_LEVEL": "3"}, "timeout": SECONDS}
    ran = prepared.run(path.parent.name, "-W", "ignore", __file__, *options, **settings)
    rows = [json.loads(line[4:]) for line in ran.stdout.splitlines() if line.startswith("row:")]
    failed = f"status {ran.returncode}: {ran.stderr[-300:]}"
    print(f"{path.parent.name}/{path.stem}, seed {seed}: {len(rows)} trainings", file=sys.stderr)
    return rows if ran.returncode == 0 else [*rows, {"label": path.stem, "seed": seed, "fault": None, "failed": failed}]


def bounds(right, count):
    """The exact bounds at 95 % of a share, by Clopper and Pearson."""
    low = _solved(lambda share: 1 - _at_most(right - 1, count, share)) if right else 0.0
    high = _solved(lambda share: 1 - _at_most(right, count, share), 0.975) if right < count else 1.0
    return low, high


def _at_most(right, count, share):
    # The probability of so many successes or fewer; by logarithms, since of thousands binomials are too large.
    hit, miss = math.log(share), math.log1p(-share)
    return sum(math.exp(_log_choose(count, k) + k * hit + (count - k) * miss) for k in range(right + 1))


def _log_choose(count, k):
    return math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)


def _solved(rising, value=0.025):
    # Where a function that rises between 0 and 1 has this value.
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < value else (low, middle)
    return low


def share(right, count):
    """A share in words."""
    if not count:
        return "none"
    low, high = bounds(right, count)
    return f"{right} of {count} ({right / count:.1%}; {low:.1%} to {high:.1%})"


def after(row):
    """The alerts of a faulty training from the fault on."""
    return [each for each in row["alerts"] if each["step"] >= row["at"]]


def is_named(row):
    """Whether an alert tells of the fault."""
    pattern = re.compile(planted.WORDS[row["fault"]["kind"]], re.IGNORECASE)
    return any(pattern.search(each["said"]) for each in after(row))


def kinds(alerts):
    """The kinds of alerts, each once, with its first step."""
    first = {}
    for each in alerts:
        first[each["kind"]] = min(each["step"], first.get(each["kind"], each["step"]))
    return ", ".join(f"{kind} at {step}" for kind, step in first.items()) or "nothing"


def labels(rows):
    """The names of the trainings, each once."""
    return list(dict.fromkeys(row["label"] for row in rows))


def of_label(label, rows):
    """The line of a faulty training, of all its seeds."""
    counts = len(rows), sum(bool(after(row)) for row in rows), sum(is_named(row) for row in rows)
    said = kinds(sorted((each for row in rows for each in after(row)), key=lambda each: each["step"]))
    return f"| {label} | {' | '.join(map(str, counts))} | {said} |"


def report(rows):
    """The score as Markdown."""
    failed = [row for row in rows if "failed" in row]
    done = [row for row in rows if "failed" not in row]
    faulty, healthy = [row for row in done if row["fault"]], [row for row in done if not row["fault"]]
    found, named = [row for row in faulty if after(row)], [row for row in faulty if is_named(row)]
    early = [row for row in faulty if any(each["step"] < row["at"] for each in row["alerts"])]
    silent = [row for row in healthy if not row["alerts"]]
    yield f"- faults found in the first tenth after planting: {share(len(found), len(faulty))}"
    yield f"- faults named: {share(len(named), len(faulty))}"
    yield f"- faulty trainings silent before the fault: {share(len(faulty) - len(early), len(faulty))}"
    yield f"- healthy trainings silent: {share(len(silent), len(healthy))}"
    yield f"- seeds: {', '.join(map(str, sorted({row['seed'] for row in done})))}"
    yield "\n| fault | planted | found | named |\n|---|---|---|---|"
    counts = [Counter(row["fault"]["kind"] for row in some) for some in (faulty, found, named)]
    yield from (f"| {kind} | {' | '.join(str(each[kind]) for each in counts)} |" for kind in sorted(counts[0]))
    yield "\n| alert | after a fault | in healthy trainings |\n|---|---|---|"
    said = [
        Counter(kind for row in faulty for kind in {each["kind"] for each in after(row)}),
        Counter(kind for row in healthy for kind in {each["kind"] for each in row["alerts"]}),
    ]
    yield from (f"| `{kind}` | {said[0][kind]} | {said[1][kind]} |" for kind in sorted(said[0] | said[1]))
    yield "\n| training with a fault | seeds | found | named | said from the fault on |\n|---|---|---|---|---|"
    yield from (of_label(label, [row for row in faulty if row["label"] == label]) for label in labels(faulty))
    yield "\nHealthy trainings with an alert:\n"
    yield from (f"- {row['label']}, seed {row['seed']}: {kinds(row['alerts'])}" for row in healthy if row["alerts"])
    if risen := labels(row for row in healthy if row["risen"]):
        yield "\nHealthy trainings whose losses end higher than they began: " + "; ".join(risen) + ".\n"
    yield from (f"- failed: {row['label']}, seed {row['seed']}: {row['failed']}" for row in failed)
    yield from (f"- no harm: {row['label']}, seed {row['seed']}" for row in done if not row["harm"])


def all_rows(given):
    """The rows of all families and seeds."""
    options = ["--one-in", given.one_in, "--faulty-one-in", given.faulty_one_in]
    options += ["--kept", given.kept.resolve()] if given.kept else []
    seeds = range(given.first, given.first + given.seeds)
    wanted = [(path, seed) for seed in seeds for path in planted.families(given.words)]
    with ThreadPoolExecutor(given.at_once) as pool:
        return [row for rows in pool.map(lambda each: asked(*each, *options), wanted) for row in rows]


def main(words):
    """Run, and print what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--one-in", type=int, default=1)
    parser.add_argument("--faulty-one-in", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--only", type=Path)
    given = parser.parse_args(words)
    if given.only:
        all_of(given.only, given.first, given.one_in, given.faulty_one_in, given.kept)
        return 0
    rows = all_rows(given)
    print("\n".join(report(rows)))
    return 2 if any("failed" in row or not row["harm"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
