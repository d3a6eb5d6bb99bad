"""What is said of every program that the tests know: its line, its kinds, and whether the remedy cures.

Run as ``python tests/causes/table.py [GROUP …] [--folder FOLDER] [--against TABLE]``: without words all groups of
`catalogues.GROUPS` are asked, each in a process of its own. ``--folder`` asks the programs of another folder, too.
The table is printed as Markdown, a row for each program and form:

- *line*: how many of the marked lines were named; *others*: how many lines more were named in findings;
- *kinds*: those of the findings, in order; of a program without one, the status of the command;
- *remedy*: how many of the findings have one;
- *cures*: where a remedy can be put into the program as it is written, whether the gradient then arrives. Nothing
  else in the tests says what a cure is, so the column is empty elsewhere;
- *right*: where the tests state the answer, whether it is that one. Healthy programs have no marked line.

``--against`` compares with a table that was printed before, and prints each row that became worse in its place: fewer
marked lines or more others, fewer remedies, no cure, no longer right, or no longer there. The exit status is then 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "frameworks"), str(HERE.parent.parent / "src")]

from causes.rows import COLUMNS, KEY, Row  # noqa: E402

AT_ONCE = 2
HEAD = "| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|"


def rows_of(group):
    """The rows of a group, made in a process of its own."""
    paths = os.pathsep.join(filter(None, [*sys.path[:3], os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", str(HERE / "catalogues.py"), group]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{group}: {ran.stdout}{ran.stderr}")
    return [Row(*each) for each in json.loads(ran.stdout.splitlines()[-1])]


def stored(text):
    """The rows of a table that was printed."""
    cells = (line.strip("|").split("|") for line in text.splitlines() if line.startswith("| "))
    rows = [Row(*(cell.strip() for cell in row)) for row in cells if len(row) == len(COLUMNS)]
    return [row for row in rows if row != Row(*COLUMNS)]


def worse(before, after):
    """What is worse in a row than before, in words; nothing, if nothing is."""
    if after is None:
        return "no longer asked"
    parts = [
        ("line", _count(after.line) < _count(before.line)),
        ("others", int(after.others or 0) > int(before.others or 0)),
        ("remedy", _share(after.remedy) < _share(before.remedy)),
        ("cures", before.cures == "yes" != after.cures),
        ("right", before.right == "yes" != after.right),
    ]
    return ", ".join(part for part, is_worse in parts if is_worse)


def _count(cell):
    return int(cell.split()[0]) if cell else 0


def _share(cell):
    having, _, of = cell.partition(" of ")
    return int(having) / int(of) if of and int(of) else 1


def totals(rows):
    """A line for each group: how many lines of how many, and how many are right where that is stated."""
    lines = []
    for group in dict.fromkeys(row.group for row in rows):
        own = [row for row in rows if row.group == group]
        marked = [row.line.split(" of ") for row in own if row.line]
        hit, right = sum(found == of for found, of in marked), Counter(row.right for row in own)
        cured = Counter(row.cures for row in own)
        said = [f"{group}: {len(own)} rows"]
        said += [f"all marked lines in {hit} of {len(marked)}"] if marked else []
        said += [f"right {right['yes']} of {right['yes'] + right['no']}"] if right["yes"] + right["no"] else []
        said += [f"cured {cured['yes']} of {cured['yes'] + cured['no']}"] if cured["yes"] + cured["no"] else []
        lines.append("- " + ", ".join(said))
    return "\n".join(lines)


def main(words):
    """Ask, print the table, and compare it with an earlier one."""
    from causes.catalogues import GROUPS

    parser = argparse.ArgumentParser()
    parser.add_argument("groups", nargs="*")
    parser.add_argument("--folder", action="append", default=[], type=Path)
    parser.add_argument("--against", type=Path)
    given = parser.parse_args(words)
    groups = [group for group in GROUPS if not given.groups or group in given.groups]
    groups += [f"folder {folder.resolve()}" for folder in given.folder]
    rows = []
    if given.against is None:
        print(HEAD)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for made in pool.map(rows_of, groups):
            rows += made
            if given.against is None:  # at once: all groups together take half an hour
                print(*("| " + " | ".join(row) + " |" for row in made), sep="\n", flush=True)
    if given.against is None:
        print("", totals(rows), sep="\n")
        return 0
    new = {KEY(row): row for row in rows}
    asked = {row[:2] for row in rows}
    before = [row for row in stored(given.against.read_text()) if row[:2] in asked]
    changed = [(row, worse(row, new.get(KEY(row)))) for row in before]
    for row, why in changed:
        if why:
            print(f"{' / '.join(KEY(row))}: worse in {why}", f"  before: {' | '.join(row[4:])}", sep="\n")
            print(f"  after:  {' | '.join(new[KEY(row)][4:])}" if KEY(row) in new else "")
    print(f"{sum(bool(why) for _, why in changed)} of {len(changed)} rows are worse")
    return int(any(why for _, why in changed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
