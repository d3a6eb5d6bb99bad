"""Makes docs/libraries.md of the results of the suite: ``python tests/libraries/page.py`` writes the page."""

import json
import runpy
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
RELEASES = HERE.parent / "versions" / "table.py"
PAGE = HERE.parents[1] / "docs" / "libraries.md"
FRAMEWORKS = ("PyTorch", "JAX", "TensorFlow")
HEAD = ("library", "works", "refused, or said not to be seen", "what to select or write")
INTRODUCTION = """# Libraries

{programs} programs, as the users of these libraries write them, with these releases. Of each it is asked: does it
compute the same bit for bit with a probe and with a watch; are gradients those that the library itself or a derivation
by hand gives; are names those that its user would guess; are statuses and reasons true; is a planted cut and a planted
NaN explained at its line; has what cannot be seen a note? A row stands where all of these statements,
{statements}, are right; it has the commit that was tested. `make test-libraries` runs them, `make test-libraries
GROUP=gp` a group, and `python tests/libraries/page.py` makes this page of the results.
"""
SCRIPTS = """## Example scripts

Of these scripts, written anew after the examples of their libraries, each line was read that is printed under
`backprobe explain`, under `backprobe watch` with the report of its run, and by a block around all of it. They compute
the same bits there, which the suite asks of them again. In the first reading {wrong} statements were untrue or
misleading; of {read} in the last, {left}.

| script | statements | untrue or misleading at first | now |
|---|---|---|---|
"""


def page() -> str:
    """A table for each framework, with a row for each file of the suite."""
    found = sorted((HERE / "results").glob("*.json"))
    rows = [json.loads(path.read_text()) | {"file": path.stem.replace("_", " ")} for path in found]
    counts = {key: f"{sum(row[key] for row in rows):,}" for key in ("programs", "statements")}
    parts = [INTRODUCTION.format(**counts)]
    for framework in FRAMEWORKS:
        if lines := [_row(row) for row in rows if row["framework"] == framework]:
            table = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD), *lines]
            parts.append("\n".join([f"## {framework}", "", *table, ""]))
    parts.append(_scripts())
    parts.append(runpy.run_path(str(RELEASES))["table"]())
    return "\n".join(parts)


def _scripts() -> str:
    data = tomllib.loads((HERE / "read.toml").read_text())
    scripts, faults = data["scripts"], data["faults"]
    counts = {key: sum(len(one.get(key, ())) for one in scripts.values()) for key in ("wrong", "left")}
    rows = []
    for name, one in scripts.items():
        (path,) = HERE.glob(f"*/scripts/{name}.py")
        wrong, left = ("<br>".join(faults[fault] for fault in one.get(key, ())) or "–" for key in ("wrong", "left"))
        address = path.read_text().partition("# from: ")[2].partition("\n")[0]
        rows.append(f"| [{name}]({address}) | {one['read']} | {wrong} | {left} |")
    return SCRIPTS.format(read=sum(one["read"] for one in scripts.values()), **counts) + "\n".join(rows) + "\n"


def _row(row) -> str:
    libraries = ", ".join(f"{name} {version}" for name, version in row["libraries"].items())
    own = f" ({row['file']})" if libraries.startswith("torch ") else ""  # of the framework itself, a part in each file
    cells = [f"{libraries}{own}: {row['programs']} programs, {row['statements']} statements; {row['commit']}"]
    cells += ["<br>".join(row[kind]).replace("|", r"\|") or "–" for kind in ("works", "refused", "select")]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page())
