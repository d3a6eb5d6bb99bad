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
ROW = re.compile(r"^\| (?P<label>\S+/.+) \| \d+ \| \w+ \| \w+ \| (?P<said>.+) \|$", re.MULTILINE)
HEALTHY = re.compile(r"^- (?P<label>\S+/.+), seed \d+: (?P<said>.+)$", re.MULTILINE)
SILENT = re.compile(r"^- healthy trainings silent: \d+ of (\d+)", re.MULTILINE)


def kinds(said):
    return {one.partition(" at ")[0] for one in said.split(", ")}


def rates():
    """By kind: in how many trainings with a fault it was said after that, and in how many without; and of how many."""
    text = SCORE.read_text()
    faulty = [kinds(row["said"]) for row in ROW.finditer(text)]
    wrong = [kinds(row["said"]) for row in HEALTHY.finditer(text)]
    healthy = int(SILENT.search(text)[1])
    counts = {kind: (sum(kind in one for one in faulty), sum(kind in one for one in wrong)) for kind in RULES}
    return counts, len(faulty), healthy


def alerts_table():
    """The rules of a run."""
    counts, faulty, healthy = rates()
    head = (
        f"| kind | reported when | where the threshold comes from | needs | of {faulty} faults | of {healthy} healthy |"
    )
    rows = [
        f"| `{one.kind}` | {one.statistic} | {one.source} | {needs(one)} | {' | '.join(map(str, counts[one.kind]))} |"
        for one in RULES.values() if one.is_of_runs
    ]  # fmt: skip
    return "\n".join([head, "|---|---|---|---|---|---|", *rows]) + "\n"


def health_table():
    """The rules of a recording."""
    rows = [
        f"| `{one.kind}` | {one.statistic} | {one.source} |" for one in RULES.values() if one.is_of_recordings
    ]  # fmt: skip
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
