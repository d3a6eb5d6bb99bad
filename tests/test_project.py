"""What a project has beside its code says the same as the code: versions, Pythons, releases of frameworks, commands."""

import re
import tomllib
from pathlib import Path

import yaml

import backprobe as bp

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
MAKEFILE = (ROOT / "Makefile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def workflow():
    return yaml.safe_load((GITHUB / "workflows" / "tests.yml").read_text())["jobs"]


def commands():
    """What the workflow runs, once for each of a matrix."""
    for job in workflow().values():
        ((key, values),) = job.get("strategy", {}).get("matrix", {"": [""]}).items()
        for step in job["steps"]:
            for value in values if "run" in step else ():
                yield step["run"].replace(f"${{{{ matrix.{key} }}}}", value)


def test_the_workflow_runs_targets_of_the_makefile():
    targets = {words.removeprefix("make ") for words in commands()}
    assert targets == {
        "check-project",
        "test",
        "test-python-3.12",
        "test-python-3.13",
        "test-versions RELEASES=oldest",
        "test-versions RELEASES=newest",
        "release",
    }
    for target in targets:
        pattern = re.escape(re.sub(r"-3\.\d+$", "-", target.partition(" ")[0])) + r"(%|\b)"
        assert re.search(rf"^([\w-]+ )*{pattern}[^=]*:", MAKEFILE, re.MULTILINE), target


def test_the_pythons_that_are_claimed_are_those_that_the_workflow_runs():
    claimed = {part.rpartition(" ")[2] for part in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", part)}
    run = {
        step["with"]["python-version"]
        for job in workflow().values()
        for step in job["steps"]
        if "with" in step and "python-version" in step["with"]
    }
    matrix = set(workflow()["pythons"]["strategy"]["matrix"]["python"])
    assert claimed == {version for version in run if version[0].isdigit()} | matrix
    assert PROJECT["requires-python"] == f">={min(claimed)}"


def test_linux_is_the_only_platform_that_is_claimed_and_run():
    systems = [part for part in PROJECT["classifiers"] if part.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
    assert {job["runs-on"] for job in workflow().values()} == {"ubuntu-latest"}
    assert not re.search(r"\b(macOS|Windows)\b", (ROOT / "README.md").read_text())


def test_the_oldest_frameworks_are_those_that_extras_allow():
    releases = tomllib.loads((ROOT / "tests" / "versions" / "releases.toml").read_text())["releases"]
    oldest = dict(pin.split("==") for pin in releases["oldest"]["packages"])
    extras = PROJECT["optional-dependencies"]
    allowed = dict(part.split(">=") for name in ("torch", "tensorflow", "jax") for part in extras[name])
    assert oldest.keys() - {"jaxlib", "tensorboard"} == allowed.keys()  # what others of them need
    for name, version in allowed.items():
        assert oldest[name].removesuffix(".0") == version


def test_the_citation_is_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["version"], cited["license"]) == (bp.__version__, PROJECT["license"])
    assert [author["name"] for author in cited["authors"]] == [author["name"] for author in PROJECT["authors"]]


def test_fragments_of_the_changelog_have_a_kind_and_a_sentence():
    """Those of no kind would be left out of a release in silence."""
    kinds = {
        kind["directory"] for kind in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]["type"]
    }
    for file in sorted((ROOT / "changelog.d").iterdir()):
        if file.name != "README.md":
            assert re.fullmatch(rf"(\+[\w-]+|\d+)\.({'|'.join(kinds)})\.md", file.name), file.name
            assert file.read_text().endswith(".\n"), file.name


def test_a_report_of_a_bug_asks_for_the_answer_for_programs():
    asked = yaml.safe_load((GITHUB / "ISSUE_TEMPLATE" / "bug.yml").read_text())["body"]
    needed = {part["attributes"]["label"] for part in asked if part.get("validations", {}).get("required")}
    assert "What `backprobe explain --json train.py` prints" in needed


def test_hooks_take_the_versions_that_the_tests_take():
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    held = dict(one.split("==") for hook in hooks for one in hook["additional_dependencies"])
    assert {name: pins.get(name) for name in held} == held
