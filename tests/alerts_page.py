"""Makes the tables of docs/alerts.md: ``python tests/alerts_page.py`` runs all trainings and writes the page.

It takes some minutes. ``python tests/alerts_page.py NAME`` shows the alerts of those whose name begins so.
"""

import sys
from pathlib import Path

import torch

from held_out_trainings import CHANGED_FAULTS, CHANGED_HEALTHY, HELD_OUT_FAULTS, HELD_OUT_HEALTHY
from judged_trainings import FAULTS, HEALTHY, alerts, is_found

PAGE = Path(__file__).parent.parent / "docs" / "alerts.md"
MARK, END = "<!-- what the tests plant -->\n", "<!-- the end of it -->\n"
HELD_OUT, HELD_OUT_END = "<!-- what is held out -->\n", "<!-- the end of that -->\n"
HEAD = "| what is planted | trainings | found in the first tenth | alerts that count |\n|---|---|---|---|\n"
HEALTHY_HEAD = "\n| healthy | trainings | with an alert |\n|---|---|---|\n"
FAMILIES = ("MLP", "CNN", "recurrent", "transformer", "others")


def family(training):
    """The kind of model of a healthy training."""
    name = training.name.partition(",")[0]
    return "recurrent" if name in ("GRU", "LSTM", "RNN") else name if name in FAMILIES else "others"


def grouped(items, key):
    found = {}
    for one in items:
        found.setdefault(key(one), []).append(one)
    return found


def tables(faults, healthy, shown=print):
    """Both tables of some trainings; what is missed, and what is alerted without a reason, is shown."""
    rows, total = [], [0, 0]
    for fault, trainings in grouped(faults, lambda one: one.fault).items():
        found = [is_found(one, alerts(one)) for one in trainings]
        for one in (one for one, well in zip(trainings, found, strict=True) if not well):
            shown(f"missed: {one.name}")
        kinds = ", ".join(f"`{kind}`" for kind in trainings[0].kinds)
        rows.append(f"| {fault} | {len(found)} | {sum(found)} | {kinds} |\n")
        total = [total[0] + len(found), total[1] + sum(found)]
    rows.append(f"| together | {total[0]} | {total[1]} | |\n")
    more, total = [], [0, 0]
    for kind, trainings in grouped(healthy, family).items():
        alerted = [one for one in trainings if alerts(one).findings]
        for one in alerted:
            shown(f"an alert in a healthy training: {one.name}")
        more.append(f"| {kind} | {len(trainings)} | {len(alerted)} |\n")
        total = [total[0] + len(trainings), total[1] + len(alerted)]
    return "".join([HEAD, *rows, HEALTHY_HEAD, *more, f"| together | {total[0]} | {total[1]} |\n"])


def made():
    """The page with the tables that the trainings give."""
    judged = tables(FAULTS + CHANGED_FAULTS, HEALTHY + CHANGED_HEALTHY)
    page = between(PAGE.read_text(), MARK, END, judged)
    return between(page, HELD_OUT, HELD_OUT_END, tables(HELD_OUT_FAULTS, HELD_OUT_HEALTHY))


def between(page, mark, end, text):
    above, _, rest = page.partition(mark)
    return f"{above}{mark}\n{text}\n{end}{rest.partition(end)[2]}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:]:
        for training in FAULTS + HEALTHY + HELD_OUT_FAULTS + HELD_OUT_HEALTHY + CHANGED_FAULTS + CHANGED_HEALTHY:
            if training.name.startswith(sys.argv[1]):
                print(training.name, alerts(training), sep="\n", end="\n\n")
    else:
        PAGE.write_text(made())
