"""Runs the suites of a release in an environment of its own, which is removed after: ``run.py torch-2.6``, or all.

``run.py --again torch-2.6`` runs the files in which tests had failed, whole, and the row says at which commit. What
came of it is a file in ``results``, of which ``python tests/libraries/page.py`` makes a table of the docs.
The exit status is 1 where a test has failed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RELEASES = tomllib.loads((HERE / "releases.toml").read_text())
MOST = 12e9
"""Bytes that an environment may take: PyTorch's wheels of CUDA are half of it."""
TOOLS = ["pytest", "hypothesis", "pytest-xdist"]
VERSIONS = """
import importlib.metadata, json, sys
print(json.dumps({name: importlib.metadata.version(name) for name in sys.argv[1:]}))
"""
AGAIN = "--again"


def main(*words: str) -> int:
    """One release after the other: 1 where a test of one failed."""
    names = [word for word in words if word != AGAIN]
    return max([tested(name, AGAIN in words) for name in names or RELEASES["releases"]])


def tested(name: str, again: bool = False) -> int:
    """The environment is made, the suites run, the results are written, and the environment is removed."""
    release, results = RELEASES["releases"][name], HERE / "results" / f"{name}.json"
    before = json.loads(results.read_text()) if again else {}
    home = Path(tempfile.mkdtemp(prefix=".venv-release-", dir=ROOT))
    try:
        install(home, release)
        now = commit()
        kept = before or {"release": name, "python": release["python"], "commit": now}
        if again:
            files = sorted({file for suite in before["suites"] for file in files_of(suite)})
            kept["again"] = {"commit": now, "files": [Path(file).stem for file in files]}
            done = [rerun(home, suite) for suite in before["suites"]]
        else:
            done = [run(home, suite) for suite in release["suites"]]
        kept |= {"installed": installed(home, release), "suites": done}
        results.parent.mkdir(exist_ok=True)
        results.write_text(json.dumps(kept, indent=2) + "\n")
    finally:
        shutil.rmtree(home)
    for suite in done:
        print(
            f"{name}, {suite['suite']}: {suite['passed']} of {suite['ran']} tests passed", *suite["failed"], sep="\n  "
        )
    return int(any(suite["failed"] or not suite["ran"] for suite in done))


def install(home: Path, release: dict) -> None:
    """The release, and the tests' own packages at the versions that all tests run with."""
    python = subprocess.run(
        [".ci/find-python", release["python"]], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    subprocess.run([python, "-m", "venv", home], check=True)
    packages = [*release["packages"], *release.get("beside", ())]
    names = {package.partition("==")[0] for package in packages}
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    constraints = home / "constraints.txt"
    constraints.write_text("\n".join(line for line in lines if line.partition("==")[0] not in names) + "\n")
    project = f"{ROOT}[test]" if release.get("test") else str(ROOT)
    pip = [home / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", constraints]
    subprocess.run([*pip, "--editable", project, *TOOLS, *packages], cwd=ROOT, check=True)
    size = sum(file.lstat().st_size for file in home.rglob("*"))
    if size > MOST:
        raise SystemExit(f"the environment has {size / 1e9:.1f} GB, more than {MOST / 1e9:.0f}")


def installed(home: Path, release: dict) -> dict[str, str]:
    """The versions of what the row names."""
    names = sorted({package.partition("==")[0] for package in release["packages"]} - {"jaxlib"})
    answer = subprocess.run(
        [home / "bin" / "python", "-c", VERSIONS, *names], check=True, capture_output=True, text=True
    )
    return {name: version.partition("+")[0] for name, version in json.loads(answer.stdout).items()}


def commit() -> str:
    """The commit that is tested, and its date."""
    said = ["git", "log", "-1", "--format=%h, %cs"]
    return subprocess.run(said, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def files_of(suite: dict) -> list[str]:
    """The files in which tests of a suite have failed."""
    modules = {name.strip(":").partition("::")[0] for name in suite["failed"]}
    return sorted(module.replace(".", "/") + ".py" for module in modules)


def rerun(home: Path, suite: dict) -> dict:
    """The files in which tests of a suite had failed, whole, and the suite's numbers with what fails there now."""
    files = files_of(suite)
    failed = run(home, suite["suite"], files)["failed"] if files else []
    return suite | {"passed": suite["ran"] - len(failed), "failed": failed}


def run(home: Path, suite: str, files: Sequence[str] = ()) -> dict:
    """A suite by pytest, or some files with its options: how many tests ran and passed, and which failed."""
    words = shlex.split(RELEASES["suites"][suite])
    if files:  # in place of its own, and not a sample of them
        words = [word for word in words if not word.endswith(".py") and not word.startswith("ONE_IN=")] + [*files]
    environment = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
    options = [word for word in words if not re.match(r"[A-Z_]+=", word)]
    report = home / "report.xml"
    command = [home / "bin" / "python", "-m", "pytest", "--tb=short", f"--junitxml={report}", *options]
    ended = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}, check=False
    ).returncode
    if not report.exists():
        raise SystemExit(f"pytest ended with {ended} and wrote no report")
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if {one.tag for one in case} & {"failure", "error"}
    ]
    return {"suite": suite, "ran": len(cases), "passed": len(cases) - len(failed), "failed": sorted(set(failed))}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
