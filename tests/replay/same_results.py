"""Do verbs give bit for bit what they gave at another commit? Each on the programs of this folder.

    git worktree add /tmp/before COMMIT
    PYTHONPATH=/tmp/before/src python tests/replay/same_results.py torch > before.json
    PYTHONPATH=src python tests/replay/same_results.py torch --against before.json

Compared are numbers and kinds, and not words. A program whose state a verb did not put back gave other numbers in its
second run, so it may differ from a commit where that was so.
"""

import argparse
import hashlib
import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import backprobe as bp
from replay import score


def digest(value):
    """What tells one value from another bit for bit: a short text."""
    plain = value.detach() if hasattr(value, "detach") else value
    return hashlib.sha256(np.asarray(plain).tobytes()).hexdigest()[:12]


def probe(held):
    rec = bp.probe(held.target)(*held.args, **held.kwargs)
    has_gradient = [one for one in rec.values() if one.status.name == "OK"]
    numbers = [[one.name, digest(one.value), digest(one.grad)] for one in has_gradient]
    return [[[one.name, one.status.name] for one in rec.values()], numbers]


def findings(report):
    return [[one.kind, one.name, one.source and one.source.line] for one in report.findings]


def check(held):
    report = bp.check(held.target)(*held.args, **held.kwargs)
    return [findings(report), report.judged, repr(report.error), len(report.unjudged)]


def provoke(held):
    report = bp.provoke(held.target, tries=5)(*held.args, **held.kwargs)
    made = [[one.broken, repr(one.change), one.tries, json.dumps(one.to_dict()["args"])] for one in report.findings]
    return [findings(report), report.risky, report.tries, made]


def noise_floor(held):
    floor = bp.noise_floor(held.target, runs=2)(*held.args, **held.kwargs)
    return [[str(name), repr(one)] for each in (floor.values, floor.gradients) for name, one in each.items()]


def sweep(held):
    found = bp.sweep(held.target, held.select, replace=lambda value: value * 0)(*held.args, **held.kwargs)
    return [repr(found.output), [[one.shown, repr(one.output)] for one in found.runs]]


def diff_live(held):
    of = (lambda value: value, lambda value: value * 2)
    report = bp.diff_live(held.target, held.target, of=of)(*held.args, **held.kwargs)
    return [findings(report), [[one.name, repr(getattr(one, "error", None))] for one in report.findings]]


VERBS = {one.__name__: one for one in (probe, check, provoke, noise_floor, sweep, diff_live)}


def results(framework, every):
    """What each verb gives on each program, or the kind of error that it ends with."""
    found = {}
    for make in score.programs_of(framework).PROGRAMS[::every]:
        for name, verb in VERBS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found[f"{make.__name__}, {name}"] = verb(make())
                except Exception as error:  # noqa: BLE001  how it ended is compared
                    found[f"{make.__name__}, {name}"] = type(error).__name__
        print(make.__name__, file=sys.stderr, flush=True)
    return json.loads(json.dumps(found))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=score.FRAMEWORKS)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--every", type=int, default=1, help="of so many programs one")
    asked = parser.parse_args()
    now = results(asked.framework, asked.every)
    if asked.against is None:
        print(json.dumps(now, indent=1))
    else:
        before = json.loads(asked.against.read_text())
        other = [name for name in before if before[name] != now.get(name)]
        print(f"{len(before) - len(other)} of {len(before)} the same in every bit; not: {'; '.join(other) or 'none'}")
