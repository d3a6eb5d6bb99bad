"""Makes the tables of docs/alerts.md: ``python tests/alerts_page.py`` runs all trainings and writes the page.

It takes some minutes. ``python tests/alerts_page.py NAME`` shows the alerts of those whose name begins so, and
``python tests/alerts_page.py --learn`` what was logged in the first and last tenth of each healthy one of other kinds.
"""

import sys
import tempfile
from pathlib import Path

import torch

from trainings.torch._small import alerts, is_found, run
from trainings.torch.chosen import CHOSEN_FAULTS, CHOSEN_HEALTHY
from trainings.torch.held_out import CHANGED_FAULTS, CHANGED_HEALTHY, HELD_OUT_FAULTS, HELD_OUT_HEALTHY
from trainings.torch.varied import VARIED_HEALTHY
from trainings.torch.varied_faults import VARIED_FAULTS

PAGE = Path(__file__).parent.parent / "docs" / "alerts.md"
MARK, END = "<!-- what the tests plant -->\n", "<!-- the end of it -->\n"
HELD_OUT, HELD_OUT_END = "<!-- what is held out -->\n", "<!-- the end of that -->\n"
VARIED, VARIED_END = "<!-- of other kinds -->\n", "<!-- the end of those -->\n"
TOGETHER, TOGETHER_END = "<!-- in short -->\n", "<!-- the end of it all -->\n"
FIRST_SIGHT = {"held out": ("27 of 31", "4 of 32"), "of other kinds": ("60 of 75", "3 of 55")}
"""What was measured before any rule was changed for them: that cannot be measured again."""
ALL = {
    "on which rules were chosen": (CHOSEN_FAULTS + CHANGED_FAULTS, CHOSEN_HEALTHY + CHANGED_HEALTHY),
    "held out": (HELD_OUT_FAULTS, HELD_OUT_HEALTHY),
    "of other kinds": (VARIED_FAULTS, VARIED_HEALTHY),
}
HEAD = "| what is planted | trainings | found in the first tenth | alerts that count |\n|---|---|---|---|\n"
HEALTHY_HEAD = "\n| healthy | trainings | with an alert |\n|---|---|---|\n"
SHORT_HEAD = (
    "| trainings | found at first sight | found now | healthy with an alert at first sight | now |\n"
    "|---|---|---|---|---|\n"
)
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
    page, short = PAGE.read_text(), []
    for (name, both), marks in zip(
        ALL.items(), ((MARK, END), (HELD_OUT, HELD_OUT_END), (VARIED, VARIED_END)), strict=True
    ):
        text = tables(*both)
        page = between(page, *marks, text)
        found, alerted = (line.split("|") for line in text.splitlines() if line.startswith("| together"))
        before = FIRST_SIGHT.get(name, ("", ""))
        now = [f"{one[3].strip()} of {one[2].strip()}" for one in (found, alerted)]
        short.append(f"| {name} | {before[0]} | {now[0]} | {before[1]} | {now[1]} |\n")
    return between(page, TOGETHER, TOGETHER_END, SHORT_HEAD + "".join(short))


def learned(training):
    """What was logged in the first and the last tenth of its steps."""
    with tempfile.TemporaryDirectory() as folder, run(training, folder) as opened:
        fields = [name for name in opened.names if name.startswith(("loss", "reward"))]
        series = {name: opened.series(name, "logged")[1] for name in fields}
    tenths = {name: max(1, len(numbers) // 10) for name, numbers in series.items()}
    return {name: (one[: tenths[name]].mean(), one[-tenths[name] :].mean()) for name, one in series.items()}


def between(page, mark, end, text):
    above, _, rest = page.partition(mark)
    return f"{above}{mark}\n{text}\n{end}{rest.partition(end)[2]}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--learn"]:
        for training in VARIED_HEALTHY:
            print(training.name, *(f"{name}: {a:.3g} to {b:.3g}" for name, (a, b) in learned(training).items()))
    elif sys.argv[1:]:
        for training in (one for both in ALL.values() for of_kind in both for one in of_kind):
            if training.name.startswith(sys.argv[1]):
                print(training.name, alerts(training), sep="\n", end="\n\n")
    else:
        PAGE.write_text(made())
