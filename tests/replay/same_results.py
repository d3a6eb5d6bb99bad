"""Do verbs give bit for bit what they gave at another commit? Each on the programs of this folder.

    git worktree add /tmp/before COMMIT
    PYTHONPATH=/tmp/before/src python tests/replay/same_results.py torch > before.json
    PYTHONPATH=src python tests/replay/same_results.py torch --against before.json

Compared are numbers and kinds, and not words. A program whose state a verb did not put back gives other numbers in its
second run. So it is also noted in how many states the runs of a verb begin: where results differ, and there were
several before and is one now, the difference is what was wanted.
"""

import argparse
import hashlib
import json
import sys
import threading
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import backprobe as bp
from replay import score
from replay.held import Place, Same, tick


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


def result(verb, held):
    """What a verb gives, or the kind of error that it ends with."""
    try:
        return verb(held)
    except Exception as error:  # noqa: BLE001  how it ended is compared
        return type(error).__name__


def begun(verb, held):
    """In how many states the runs of a verb begin: each comes to the first of its ticks once."""
    states, places = set(), []

    def note(place):
        places.append(place)
        if place == places[0] and "torch" not in sys.modules:
            look()
        elif place == places[0]:
            thread = threading.Thread(target=look)  # what it does would be recorded
            thread.start()
            thread.join()

    def look():
        state = {name: one for name, one in held.state().items() if not isinstance(one, Same | Place | list)}
        states.add(hashlib.sha256(repr(state).encode()).hexdigest())

    tick.start()
    tick.note(note)
    result(verb, held)
    tick.start()
    return len(states)


def results(framework, every):
    """The result of each verb on each program."""
    found = {}
    for make in score.programs_of(framework).PROGRAMS[::every]:
        for name, verb in VERBS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[f"{make.__name__}, {name}"] = result(verb, make()), begun(verb, make())
        print(make.__name__, file=sys.stderr, flush=True)
    return json.loads(json.dumps(found))


def compared(before, now):
    """The lines that say what is the same, and of what is not in how many states its runs began."""
    other = [name for name in before if before[name][0] != now[name][0]]
    yield f"{len(before) - len(other)} of {len(before)} are the same in every bit"
    for name in other:
        yield f"- {name}: its runs began in {before[name][1]} states, and now in {now[name][1]}"


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
        print("\n".join(compared(json.loads(asked.against.read_text()), now)))
