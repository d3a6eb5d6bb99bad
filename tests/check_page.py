"""Makes the table of docs/check.md: ``python tests/check_page.py`` runs the checks and writes the page."""

import functools
from pathlib import Path

import backprobe as bp
from wrong_derivatives import CASES

PAGE = Path(__file__).parent.parent / "docs" / "check.md"
MARK = "<!-- what the tests find -->\n"
HEAD = "\n| what is wrong | input | error | what the report adds |\n|---|---|---|---|\n"


@functools.cache
def checked(what):
    return bp.check(CASES[what].program)(*CASES[what].arguments)


def row(what):
    case = CASES[what]
    found = [one for one in checked(what).findings if one.input == case.input]
    looks = found[0].facts[0].partition(": [")[0]
    error = "infinite" if found[0].error == float("inf") else f"{found[0].error:.2g}"
    return f"| {what} | {f'`{case.input}`' if case.input else 'all'} | {error} | {looks} |\n"


def made():
    """The page with the table that the checks give."""
    above, _, below = PAGE.read_text().partition(MARK)
    _, _, after = below.partition("\nMore than a hundred right programs")
    return f"{above}{MARK}{HEAD}{''.join(map(row, CASES))}\nMore than a hundred right programs{after}"


if __name__ == "__main__":
    PAGE.write_text(made())
