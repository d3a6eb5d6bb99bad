"""Makes the tables of docs/diff.md: ``python tests/planted_page.py`` plants the faults and writes the page."""

from pathlib import Path

from planted import FAULTS, RIGHT, is_found, planted, right

PAGE = Path(__file__).parent.parent / "docs" / "diff.md"
MARK, END = "<!-- what the tests plant -->\n", "<!-- the end of it -->\n"
HEAD = "| what is wrong | where | planted | named first | with a measured floor |\n|---|---|---|---|---|\n"
RIGHT_HEAD = "\n| what is right in another way | programs | blamed |\n|---|---|---|\n"


def groups(items, key):
    found = {}
    for one in items:
        found.setdefault(key(one), []).append(one)
    return found.items()


def row(kind, direction, faults):
    where = {"forward": "values", "backward": "gradients"}.get(direction, "")
    by_dtype, measured = (sum(is_found(one, planted(one)[at]) for one in faults) for at in (0, 1))
    return f"| {kind} | {where} | {len(faults)} | {by_dtype} | {measured} |\n"


def tables():
    rows = [row(*key, faults) for key, faults in groups(FAULTS, lambda one: (one.kind, one.direction))]
    others = [
        f"| {what} | {len(pairs)} | {sum(bool(report.findings) for one in pairs for report in right(one))} |\n"
        for what, pairs in groups(RIGHT, lambda one: one.what)
    ]
    return "".join([HEAD, *rows, row("together", "", FAULTS).replace("|  |", "| |"), RIGHT_HEAD, *others])


def made():
    """The page with the tables that the comparisons give."""
    above, _, rest = PAGE.read_text().partition(MARK)
    _, _, below = rest.partition(END)
    return f"{above}{MARK}\n{tables()}\n{END}{below}"


if __name__ == "__main__":
    PAGE.write_text(made())
