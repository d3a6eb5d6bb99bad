"""Makes the tables of docs/replay.md: ``python tests/replay/page.py`` runs each verb on each program, and writes them.

The tests of each cell (``test_replay_state.py``, ``frameworks/test_replay_frameworks.py``) compare what they find with
the page, so that nothing runs twice for it.
"""

import functools
import json
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from replay import score

PAGE = Path(__file__).parents[2] / "docs" / "replay.md"
ABOVE = "<!-- below: what python tests/replay/page.py finds -->\n"
TITLES = {"torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX"}
PLAIN = "a plain call"
STALE = "run python tests/replay/page.py"
COLUMNS = (PLAIN, *score.VERBS)


def title(make):
    return make.__name__.replace("_", " ")


def said(wrong, found):
    """What the page says of a verb: how many differences it has left, or that it has refused the program."""
    if found.end and not found.end.startswith("NotFinite"):
        return f"refused, {len(wrong)}" if wrong else "refused"
    return str(len(wrong))


def changed(module, make):
    """What the page says of a plain call: how much of the state it changes."""
    return str(len(score.run(module, make, score.call).changes))


def found(framework):
    """The rows of a framework, each with its cells."""
    module = score.programs_of(framework)
    return {
        title(make): [changed(module, make), *(said(*score.left_by(module, make, verb)) for verb in score.VERBS)]
        for make in module.PROGRAMS
    }


@functools.cache
def shown():
    """The same as the page shows it: the rows of each framework."""
    rows, framework = {name: {} for name in TITLES}, None
    names = {f"### {text}": name for name, text in TITLES.items()}
    for line in PAGE.read_text().partition(ABOVE)[2].splitlines():
        framework = names.get(line, framework)
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if framework and line.startswith("| ") and cells[0] != "program":
            rows[framework][cells[0]] = cells[1:]
    return rows


def shown_of(module, make, column):
    """What the page says of a program in one column; None if it does not name the program."""
    framework = module.__name__.rpartition("_")[2]
    row = shown()[framework].get(title(make))
    return None if row is None else row[COLUMNS.index(column)]


def tables(rows):
    """Each framework's table, in Markdown."""
    return "".join(f"\n### {TITLES[name]}\n\n{_table(of_framework)}" for name, of_framework in rows.items())


def _table(rows):
    head = f"| program | {' | '.join(COLUMNS)} |\n{'|---' * (len(COLUMNS) + 1)}|\n"
    return head + "".join(f"| {name} | {' | '.join(cells)} |\n" for name, cells in rows.items())


def _in_own_process(framework):
    done = subprocess.run([sys.executable, __file__, framework], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(found(sys.argv[1])))
    else:
        text = tables({name: _in_own_process(name) for name in TITLES})
        PAGE.write_text(PAGE.read_text().partition(ABOVE)[0] + ABOVE + text)
