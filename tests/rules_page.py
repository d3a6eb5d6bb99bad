"""Makes the tables of rules in docs/alerts.md and docs/health.md: ``python tests/rules_page.py`` writes both pages.

What each rule means is that of ``backprobe.rules``, and how often it is right that of tests/trainings/after.md.
"""

import re
from pathlib import Path

import backprobe as bp

RULES = bp.rules.rule.RULES
ROOT = Path(__file__).parent.parent
SCORE = ROOT / "tests" / "trainings" / "after.md"
BEGIN, END = "<!-- the rules -->\n", "<!-- the end of the rules -->\n"
RATE = re.compile(r"^\| `(\w+)` \| (\d+) \| (\d+) \|$", re.MULTILINE)
ALL = r"^- {}: \d+ of (\d+)"


def rates():
    """By kind: after how many planted faults it was said, and in how many healthy ones; and of how many of each."""
    text = SCORE.read_text()
    said = {kind: (int(after), int(wrong)) for kind, after, wrong in RATE.findall(text)}
    heads = ("faults found in the first tenth after planting", "healthy trainings silent")
    every = [int(re.search(ALL.format(head), text, re.MULTILINE)[1]) for head in heads]
    return {kind: said.get(kind, (0, 0)) for kind in RULES}, *every


def alerts_table():
    """The rules of a run."""
    counts, faulty, healthy = rates()
    head = (
        f"| kind | reported when | where the threshold comes from | needs | of {faulty} faults | of {healthy} healthy |"
    )
    rows = [
        f"| `{one.kind}` | {one.statistic} | {one.source} | {needs(one)} | {' | '.join(map(str, counts[one.kind]))} |"
        for one in RULES.values()
        if one.is_of_runs
    ]
    return "\n".join([head, "|---|---|---|---|---|---|", *rows]) + "\n"


def health_table():
    """The rules of a recording."""
    rows = [f"| `{one.kind}` | {one.statistic} | {one.source} |" for one in RULES.values() if one.is_of_recordings]
    return "\n".join(["| kind | reported when | where the threshold comes from |", "|---|---|---|", *rows]) + "\n"


def needs(rule):
    """What must have been watched, or logged."""
    return ", ".join(f"`{one}`" for one in rule.needs if one != "steps") or "nothing"


def made():
    """Both pages, as they should be."""
    for name, table in (("alerts", alerts_table()), ("health", health_table())):
        path = ROOT / "docs" / f"{name}.md"
        above, _, rest = path.read_text().partition(BEGIN)
        yield path, f"{above}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    for path, text in list(made()):
        path.write_text(text)
