"""Makes the tables of docs/diff.md: ``python tests/planted_page.py`` plants the faults and writes the page."""

from collections import Counter
from pathlib import Path

from planted import FAULTS, RIGHT, is_found, planted, right

PAGE = Path(__file__).parent.parent / "docs" / "diff.md"
MARK, END = "<!-- what the tests plant -->\n", "<!-- the end of it -->\n"
HEAD = "| what is wrong | where | planted | named first | with a measured floor |\n|---|---|---|---|---|\n"
RIGHT_HEAD = "\n| what is right in another way | programs | blamed |\n|---|---|---|\n"

ASKED = (
    "\n| PyTorch's DebugMode | programs | the changed line | another line | no difference | cannot compare |\n"
    "|---|---|---|---|---|---|\n"
)


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
    together = row("together", "", FAULTS).replace("|  |", "| |")
    return "".join([HEAD, *rows, together, RIGHT_HEAD, *others, ASKED, *by_debug_mode()])


def by_debug_mode():
    """What PyTorch's own comparison says of the same programs."""
    import debug_mode  # which older releases do not have

    faults = (
        [one for one in FAULTS if one.direction == "forward"],
        [one for one in FAULTS if one.direction != "forward"],
    )
    lower = [one for one in RIGHT if one.dtype is not None and not one.lines]
    named = (
        ("faults in values", map(debug_mode.found, faults[0])),
        ("faults in gradients", map(debug_mode.found, faults[1])),
        ("right in another way", map(debug_mode.of_right, [one for one in RIGHT if one.lines])),
        ("the same program, or in another precision", map(debug_mode.of_right, lower)),
    )
    for what, said in named:
        counts = Counter(said)
        numbers = [counts[one] for one in debug_mode.ANSWERS]
        yield f"| {what} | {sum(numbers)} | {' | '.join(map(str, numbers))} |\n"


def made():
    """The page with the tables that the comparisons give."""
    above, _, rest = PAGE.read_text().partition(MARK)
    _, _, below = rest.partition(END)
    return f"{above}{MARK}\n{tables()}\n{END}{below}"


if __name__ == "__main__":
    PAGE.write_text(made())
