"""The contract and the types hold for all of the package, and cannot fall short of it unnoticed."""

import ast
import re
import runpy
import tomllib
from pathlib import Path

import backprobe

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "backprobe"
HOUSE = runpy.run_path(str(ROOT / "tools" / "house.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LAYERS, CIRCLES, FRAMEWORKS = PROJECT["tool"]["importlinter"]["contracts"]
MOST_IGNORED = 64
"""Lines that mypy is told to ignore. Lower it when there are fewer; a new one needs a better type instead."""
NAMES = frozenset({"torch", "tensorflow", "jax", "keras"})
"""Frameworks by which nothing outside of backends is decided."""
AWAY = {"node_modules", "_build"}
"""Folders of what others wrote, or what was made."""
MOST_PRIVATE = 70
"""Files of tests that import private modules. Lower it when there are fewer; a new test uses the public API."""
OPEN_TO_TESTS = {"integrations", "record", "source", "storage"}
"""Integrations are public. The data of the other three is tested by itself."""


def ignored():
    return [line for file in SOURCE.rglob("*.py") for line in file.read_text().splitlines() if "type: ignore" in line]


def test_every_module_is_on_a_layer():
    listed = [module for layer in LAYERS["layers"] for module in layer.split(" | ")]
    there = {path.stem for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert sorted(listed) == sorted(there - {"__init__", "__pycache__"})
    assert LAYERS["exhaustive"]
    assert "ignore_imports" not in LAYERS


def test_circles_are_looked_for_in_every_package():
    assert CIRCLES == {"name": CIRCLES["name"], "type": "acyclic_siblings", "ancestors": ["backprobe"]}


def test_a_file_that_imports_its_own_package_is_seen(tmp_path):
    """`make contract` looks for such circles in the whole package."""
    texts = {
        "__init__": "from backprobe.a import verb",
        "a/__init__": "def verb():\n    from backprobe.a.run import run",
        "a/run": "from backprobe.a import text, verb\nimport backprobe.b.one",
        "a/text": "import math",
        "b/__init__": "from backprobe.b.one import One",
        "b/one": "from __future__ import annotations",
    }
    for name, text in texts.items():
        file = tmp_path / "backprobe" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    edges = HOUSE["imports"](tmp_path)
    assert edges["backprobe.a.run"] == {"backprobe.a", "backprobe.a.text", "backprobe.b.one"}
    assert HOUSE["circles"](edges) == [["backprobe.a", "backprobe.a.run"]]
    assert "tools/house.py circles" in (ROOT / "Makefile").read_text()


def test_a_framework_is_imported_in_its_own_folder_alone():
    extras = PROJECT["project"]["optional-dependencies"]
    frameworks = {re.split(r"\W", package)[0] for name in ("torch", "tensorflow", "jax") for package in extras[name]}
    assert frameworks <= set(FRAMEWORKS["forbidden_modules"])
    assert FRAMEWORKS["source_modules"] == ["backprobe"]
    assert {line.partition(" ->")[0].removesuffix(".**") for line in FRAMEWORKS["ignore_imports"]} == {
        "backprobe.backends.torch",
        "backprobe.backends.tensorflow",
        "backprobe.backends.jax",
        "backprobe.demo",
    }


def test_types_are_strict_and_few_lines_are_excused():
    assert PROJECT["tool"]["mypy"]["strict"]
    assert len(ignored()) <= MOST_IGNORED
    assert not [line for line in ignored() if "BACKEND" in line and " = " in line and "import" not in line]


def private_imports(path):
    """The private modules of backprobe that a file of tests imports, but for those that hold plain data."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "backprobe":
            found |= {one.name for one in node.names} - {*backprobe.__all__}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module.removeprefix("backprobe.")} if (node.module or "").startswith("backprobe.") else set()
        elif isinstance(node, ast.Import):
            found |= {one.name.removeprefix("backprobe.") for one in node.names if one.name.startswith("backprobe.")}
    return {name for name in found if name.partition(".")[0] not in OPEN_TO_TESTS}


def test_few_tests_import_what_is_private():
    found = [file.name for file in (ROOT / "tests").rglob("*.py") if private_imports(file)]
    assert len(found) <= MOST_PRIVATE, f"use bp. in: {sorted(found)}"


def test_an_import_of_a_private_module_is_seen(tmp_path):
    file = tmp_path / "test_it.py"
    file.write_text(
        "import backprobe as bp\nimport backprobe.derive\nfrom backprobe import Run, notebook\n"
        "from backprobe.record.graph import Graph\nfrom backprobe.explain.text import SENTENCES\n"
        "def test_it():\n    from backprobe.integrations import Sink\n    from backprobe.cli import main\n"
    )
    assert private_imports(file) == {"derive", "notebook", "explain.text", "cli"}


def decisions_by_name(text: str) -> list[str]:
    """Comparisons, keys and cases in a source text in which a framework's name decides something."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare(left=left, comparators=others):
                decides = [one for part in (left, *others) for one in ast.walk(part)]
            case ast.Dict(keys=keys):
                decides = keys
            case ast.MatchValue(value=value) | ast.Subscript(slice=value):
                decides = [value]
            case ast.Call(func=ast.Attribute(attr="get" | "startswith"), args=args):
                decides = args
            case _:
                continue
        found += [node.value for node in decides if isinstance(node, ast.Constant) and node.value in NAMES]
    return found


def test_only_backends_decide_by_the_name_of_a_framework():
    """What differs between frameworks is a fact of their backend, or stands in their dialect."""
    may = (SOURCE / "backends", SOURCE / "integrations")
    files = [file for file in SOURCE.rglob("*.py") if not any(file.is_relative_to(folder) for folder in may)]
    assert {file: found for file in files if (found := decisions_by_name(file.read_text()))} == {}


def test_a_decision_by_the_name_of_a_framework_is_seen():
    text = """
if name == "torch" or name in ("jax", "numpy"): words = {"tensorflow": 1}
match name:
    case "keras": words["torch"], words.get("jax", 2), ["torch"]
"""
    assert sorted(decisions_by_name(text)) == ["jax", "jax", "keras", "tensorflow", "torch", "torch"]


def test_a_module_says_in_its_first_line_what_it_is():
    first = {file: file.read_text().partition("\n")[0].strip('"') for file in SOURCE.rglob("*.py")}
    questions = re.compile(r"(What|Which|Where|From|How|When|Why|Whether|Who)\b")
    assert [f"{file.relative_to(SOURCE)}: {line}" for file, line in first.items() if questions.match(line)] == []


def test_few_lines_are_kept_from_the_formatter():
    """Only tables that would fill a screen: ruff lays out everything else, in the whole repository."""
    folders = [ROOT / one for one in ("src", "tests", "tools", "bench", "docs", "examples", "typing_tests")]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    comment = re.compile(r"# fmt: (skip|off)(  # noqa: \w+)?$")
    kept = [file for file in files for line in file.read_text().splitlines() if comment.search(line)]
    assert 0 < len(kept) < 50


def test_a_file_has_less_than_500_lines():
    """Where one has more, it holds a second idea."""
    files = [file for folder in (SOURCE, ROOT / "tools") for file in folder.rglob("*.py")]
    lengths = {file.name: file.read_text().count("\n") for file in files if not AWAY & {*file.parts}}
    assert {name: length for name, length in lengths.items() if length >= 500} == {}


def test_few_names_of_classes_mean_two_things():
    """See the glossary, note 064."""
    found = HOUSE["names_of_two_things"](SOURCE)
    assert len(found) <= 5, found


def test_a_name_that_means_two_things_is_seen(tmp_path):
    for folder in ("backends/torch", "backends/jax", "runs", "view"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "backends/torch/a.py").write_text(
        "class Same: ...\nclass Twice: ...\nclass _Own: ...\nclass Alone: ...\n"
    )
    (tmp_path / "backends/jax/b.py").write_text("class Same: ...\n")
    (tmp_path / "backends/torch/c.py").write_text("class Twice: ...\n")
    (tmp_path / "runs/d.py").write_text("class Step: ...\nclass _Own: ...\n")
    (tmp_path / "view/e.py").write_text("class Step: ...\n")
    assert HOUSE["names_of_two_things"](tmp_path) == {
        "Step": ["runs/d", "view/e"],
        "Twice": ["backends/torch/a", "backends/torch/c"],
    }


def test_three_phrases_that_strangers_misread_are_gone():
    """A derivative is "with respect to" its input; "of the user's" and "that is to be" are read twice."""
    misread = re.compile(r"\b(of the user's|towards|that is to be)\b", re.IGNORECASE)
    folders = [ROOT / one for one in ("src", "tests", "tools", "bench", "docs", "examples", "typing_tests")]
    files = [file for one in folders for kind in ("*.py", "*.md") for file in one.rglob(kind)]
    own = [file for file in (*files, ROOT / "README.md") if file != Path(__file__) and not AWAY & {*file.parts}]
    assert {str(file) for file in own if misread.search(file.read_text())} == set()


def test_private_functions_have_comments_in_place_of_docstrings():
    """Bytecode leaves comments out, and only a docstring with an example is run."""
    found = [
        f"{file.relative_to(SOURCE)}: {one.name}"
        for file in SOURCE.rglob("*.py")
        for one in ast.walk(ast.parse(file.read_text()))
        if isinstance(one, ast.FunctionDef) and re.match(r"_[^_]", one.name)
        if len(one.body) > 1 and ">>>" not in (ast.get_docstring(one) or ">>>")
    ]
    assert found == []
