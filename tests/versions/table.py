"""The table of releases in docs/libraries.md, made of the results of ``make test-versions``."""

import json
import tomllib
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
TITLES = {
    "torch": "PyTorch",
    "tensorflow": "TensorFlow",
    "keras": "Keras",
    "jax": "JAX",
    "transformers": "transformers",
}
INTRODUCTION = """## Releases

`make test-versions` runs the tests on old and new releases, each in an environment of its own: `unit` is what `make
test` runs on PyTorch alone, `sample` every seventh test of these, `conformance` the programs that are the same in all
frameworks, `jax` its loops, branches and random numbers, `transformers` models by name and what cuts them. Private
names of a framework are looked up when backprobe first meets it: what needs one that is gone is refused by that name.
The last column has the commit that was tested, where the results name it; files that failed there may have been run
again at a later one.
"""
HEAD = ["| release | Python | suite | passed | commit |", "|---|---|---|---|---|"]


def table() -> str:
    """A row for each release that was tested, and the pairs that cannot be."""
    data = tomllib.loads((HERE / "releases.toml").read_text())
    found = [HERE / "results" / f"{name}.json" for name in data["releases"]]
    rows = [_row(suite, json.loads(file.read_text())) for file in found if file.exists() for suite in _suites(file)]
    missing = [name for name in data["releases"] if not (HERE / "results" / f"{name}.json").exists()]
    untested = [name for name in missing if name not in data["tried"]]
    impossible = [f"{pair}: {why}." for pair, why in data["impossible"].items()]
    parts = [INTRODUCTION, "\n".join([*HEAD, *rows]), ""]
    parts += [f"Listed and not run yet: {', '.join(untested)}.", ""] if untested else []
    parts += [f"Tried and not run: {name}: {data['tried'][name]}.\n" for name in missing if name in data["tried"]]
    return "\n".join([*parts, f"What cannot be: {' '.join(impossible)}", ""])


def _suites(file):
    return json.loads(file.read_text())["suites"]


def _row(suite, result):
    names = ", ".join(f"{TITLES[name]} {version}" for name, version in result["installed"].items())
    files = Counter(name.strip(":").partition("::")[0].removeprefix("tests.") for name in suite["failed"])
    missing = "; not " + ", ".join(f"{file} ({many})" for file, many in files.items()) if files else ""
    counts = f"{suite['passed']:,} of {suite['ran']:,}{missing}"
    commit, again = result.get("commit", "–"), result.get("again")
    if again:
        commit += f"; {', '.join(again['files'])} again: {again['commit']}"
    return f"| {names} | {result['python']} | `{suite['suite']}` | {counts} | {commit} |"
