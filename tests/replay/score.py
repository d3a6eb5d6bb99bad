"""The state that each verb leaves, on programs that hold some in every place: ``python tests/replay/score.py torch``.

Each verb runs on a fresh instance of each program. Afterwards the state is compared with what the contract of the verb
allows:

- ``check``, ``provoke``, ``noise_floor``, ``diff_live`` and ``sweep`` leave the state as they found it.
- ``probe`` leaves what a plain call leaves, on another instance of the same program; or what its backward pass leaves
  too, which runs a checkpoint again, but for ``.grad``. It leaves less where a framework differentiates pure functions.
- ``guard`` leaves what the same block leaves without it, until the guard raises.

The same holds where a Ctrl-C comes, at each place where the program allows one.
"""

import importlib
import math
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    # as the tests run
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")

import backprobe as bp
from replay.held import changes, differences, misdeclared, tick

FRAMEWORKS = ("torch", "tensorflow", "jax")
MOST = {"torch": 6, "tensorflow": 1, "jax": 1}
"""At most so many places of a Ctrl-C for a verb and program, spread evenly over its calls; of one, half way."""


@dataclass
class Left:
    """What a run has left: changes of the state by name, how it ended, and how many places of a Ctrl-C it passed."""

    changes: dict
    end: str
    ticks: int


def programs_of(framework):
    return importlib.import_module(f"replay.programs_{framework}")


def run(module, make, act, at=None, error=KeyboardInterrupt):
    """Make a program, act on it, and say what that has left, also where an error comes at one of its places."""
    held = make()
    before = held.state()
    tick.start(at, error)
    end = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            act(module, held)
        except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001, how it ended is a part of the table
            end = f"{type(error).__name__}: {(str(error).strip() or ' ').splitlines()[0]}".rstrip(": ")
    ticks = tick.count
    tick.start()
    return Left(changes(before, held.state()), end, ticks)


# What is done to a program. Each act is a function of the module of its framework and of what is held.


def call(module, held):
    module.forward(held, held.args)


def train(module, held):
    module.train(held, held.args)


def fail(module, held):
    module.fail(held)


def probe(module, held):
    bp.probe(held.target)(*held.args, **held.kwargs)


def check(module, held):
    bp.check(held.target)(*held.args, **held.kwargs)


def provoke(module, held):
    bp.provoke(held.target, tries=5)(*held.args, **held.kwargs)


def noise_floor(module, held):
    bp.noise_floor(held.target, runs=2)(*held.args, **held.kwargs)


def sweep(module, held):
    bp.sweep(held.target, held.select, replace=lambda value: value * 0)(*held.args, **held.kwargs)


def diff_live(module, held):
    # the outputs differ by a factor, so that the second program runs once more
    of = (lambda value: value, lambda value: value * 2)
    bp.diff_live(held.target, held.target, of=of)(*held.args, **held.kwargs)


def guard(module, held):
    with bp.guard(held.guarded):
        module.train(held, held.args)


def guard_at_nan(module, held):
    with bp.guard(held.guarded):
        module.train(held, held.bad)


VERBS = {
    "probe": (probe, call),
    "check": (check, None),
    "provoke": (provoke, None),
    "noise_floor": (noise_floor, None),
    "diff_live": (diff_live, None),
    "sweep": (sweep, None),
    "guard": (guard, train),
    "guard at NaN": (guard_at_nan, fail),
}
"""The verbs, each with what is allowed to leave the same; None where nothing is to be left."""


def left_by(module, make, verb, at=None):
    """What a verb has left that it should not have, and the whole of what it has left."""
    act, plain = VERBS[verb]
    found = run(module, make, act, at)
    if verb == "guard at NaN" and at is None:
        at = found.ticks + 1  # the block ends where the guard raises
    allowed = run(module, make, plain, at).changes if plain else {}
    if verb == "guard at NaN" and not found.end.startswith(("NotFinite", "KeyboardInterrupt")):
        wrong = differences(found.changes, run(module, make, fail_wholly, at).changes)
    else:
        wrong = differences(found.changes, allowed)
    if wrong and verb == "probe" and getattr(module, "PURE", False):
        wrong = [name for name, new in found.changes.items() if allowed.get(name) != new]
    elif wrong and verb == "probe":
        passed = run(module, make, train, at).changes
        beyond = differences(found.changes, {name: new for name, new in passed.items() if " grad" not in name})
        wrong = min(wrong, beyond, key=len)
    return wrong, found


def fail_wholly(module, held):
    # the guard has not raised: the block ran to its end
    module.train(held, held.bad)


def places(ticks, most):
    if ticks <= most:
        return list(range(1, ticks + 1))
    if most == 1:
        return [ticks // 2 + 1]
    return sorted({1 + round(k * (ticks - 1) / (most - 1)) for k in range(most)})


def vacuous(module, make):
    """What keeps a program from showing anything: its plain call changes something other than it declares."""
    found = run(module, make, call)
    wrong = misdeclared(make(), found.changes)
    return wrong + ([f"the plain call raises {found.end}"] if found.end else [])


@dataclass
class Cell:
    wrong: list
    end: str
    runs: float
    as_plain: bool
    interrupted: dict  # by place, what is wrong


def cell(module, make, verb, plain, most):
    wrong, found = left_by(module, make, verb)
    if verb == "guard at NaN" and not found.end:
        raise AssertionError(f"{make.__name__}: its bad arguments give no NaN")
    as_plain = bool(wrong) and not differences(found.changes, plain.changes)
    interrupted = {}
    for at in places(found.ticks, most):
        interrupted[at], stopped = left_by(module, make, verb, at)
        if not stopped.end.startswith("KeyboardInterrupt"):
            interrupted[at] = [*interrupted[at], f"ends with {stopped.end or 'a result'}"]
    return Cell(wrong, found.end, found.ticks / max(plain.ticks, 1), as_plain, interrupted)


def score(framework):
    module = programs_of(framework)
    rows = {}
    for make in module.PROGRAMS:
        if wrong := vacuous(module, make):
            raise AssertionError(f"{make.__name__}: {', '.join(wrong)}")
        plain = run(module, make, call)
        rows[make.__name__] = {verb: cell(module, make, verb, plain, MOST[framework]) for verb in VERBS}
        print(make.__name__, file=sys.stderr, flush=True)
    return rows


# The tables


def after(cell):
    refused = "refused, " if cell.end and not cell.end.startswith("NotFinite") else ""
    plain = ", as a plain call" if cell.as_plain else ""
    return f"{refused}{len(cell.wrong)} ({math.ceil(cell.runs)}{plain})"


def stopped(cell):
    return f"{sum(map(bool, cell.interrupted.values()))} of {len(cell.interrupted)}"


def table(cells, text):
    lines = [f"| program | {' | '.join(VERBS)} |", "|---" * (len(VERBS) + 1) + "|"]
    for name, row in cells.items():
        lines.append(f"| {name.replace('_', ' ')} | {' | '.join(text(row[verb]) for verb in VERBS)} |")
    return "\n".join(lines)


def details(cells):
    """Each difference by name, and each refusal in the words of its first line."""
    for name, row in cells.items():
        for verb, one in row.items():
            if one.end and not one.end.startswith("NotFinite"):
                yield f"- {name.replace('_', ' ')}, {verb}: {one.end}"
            wrong = dict.fromkeys([*one.wrong, *(each for names in one.interrupted.values() for each in names)])
            if wrong:
                shown = [f"`{each}`" for each in [*wrong][:6]] + ["..."] * (len(wrong) > 6)
                yield f"- {name.replace('_', ' ')}, {verb}: {', '.join(shown)}"


def report(framework):
    cells = score(framework)
    every = [one for row in cells.values() for one in row.values()]
    print(f"## {framework}\n\nDifferences after the verb; in brackets how often the program ran, as far as it got.\n")
    print(table(cells, after))
    print("\nPlaces of a Ctrl-C that leave a difference, of those tried.\n")
    print(table(cells, stopped))
    places_wrong = sum(bool(names) for one in every for names in one.interrupted.values())
    tried = sum(len(one.interrupted) for one in every)
    print(
        f"\nTotal: {sum(len(one.wrong) for one in every)} differences in {sum(bool(one.wrong) for one in every)} of "
        f"{len(every)} cells, and in {places_wrong} of {tried} places of a Ctrl-C.\n\n" + "\n".join(details(cells))
    )


if __name__ == "__main__":
    chosen = sys.argv[1:] or FRAMEWORKS
    if len(chosen) == 1:
        report(chosen[0])
    for framework in chosen if len(chosen) > 1 else ():
        subprocess.run([sys.executable, __file__, framework], check=True)
        print(flush=True)
