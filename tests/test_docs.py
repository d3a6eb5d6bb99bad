"""Documentation runs: every block of the README, every example in a docstring, every link."""

import doctest
import importlib
import re
from pathlib import Path

import pytest
import torch

import backprobe
import prepared
import readme

ROOT = Path(__file__).parent.parent


@pytest.mark.all_frameworks
def test_every_block_of_the_readme_runs_and_shows_what_it_says(tmp_path):
    """In a process of its own, since it imports all frameworks."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import readme; "
        "assert readme.run_blocks(readme.PAGE.read_text()) >= 9"
    )
    ran = prepared.run("tensorflow", "-c", code, cwd=tmp_path, timeout=600)
    assert ran.returncode == 0, ran.stderr


@pytest.fixture
def printed(tmp_path, monkeypatch):
    """What a command prints in a folder with the files of the README."""
    monkeypatch.chdir(tmp_path)
    readme.write_files(readme.PAGE.read_text())

    def run(command):
        ran = prepared.run("torch", "-m", *readme.words(command), cwd=tmp_path, timeout=60)
        assert ran.returncode in (0, 1), ran.stderr
        return ran.stdout + ran.stderr

    return run


def test_a_command_of_the_readme_prints_what_it_shows(printed):
    page = readme.PAGE.read_text()
    assert readme.with_output(page, printed) == page, "python tests/readme.py --write"


@pytest.mark.long
def test_the_other_commands_of_the_readme_run(printed):
    """Those on the run that the README's training leaves, too: each of them ends."""
    model = torch.nn.Linear(2, 1)
    with backprobe.watch(model, "runs/first", optimizer=torch.optim.SGD(model.parameters(), lr=0.1)):
        model(torch.ones(1, 2)).sum().backward()
    found = [*readme.commands(readme.PAGE.read_text())]
    assert {"backprobe report runs/first", "backprobe view runs/first"} <= {*found}
    assert len(found) >= 6
    assert all(printed(command) for command in found)


def test_a_readme_that_shows_something_else_would_fail():
    assert not readme.agrees("tensor(1.)", torch.tensor(2.0))
    assert readme.agrees("tensor(7., grad_fn=...)", torch.tensor(7.0, requires_grad=True) * 1)


OTHER_FRAMEWORKS = (  # whose tests run in other processes
    "backprobe.backends.jax",
    "backprobe.backends.tensorflow",
    "backprobe.integrations.keras",
)
TRAINERS = ("backprobe.integrations.huggingface", "backprobe.integrations.lightning")  # and in other environments


def modules():
    """Of each module its name, and whether it has examples."""
    package = Path(backprobe.__file__).parent
    files = {file.relative_to(package.parent).with_suffix(""): file for file in sorted(package.rglob("*.py"))}
    names = {".".join(short.parts).removesuffix(".__init__"): file for short, file in files.items()}
    ours = {name: file for name, file in names.items() if not name.startswith(OTHER_FRAMEWORKS + TRAINERS)}
    return {name: ">>> " in file.read_text() for name, file in ours.items()}


MODULES = modules()


@pytest.mark.parametrize("name", [name for name, shows in MODULES.items() if shows])
def test_the_examples_in_docstrings(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0 and result.attempted > 0


def test_there_are_examples_in_docstrings():
    assert sum(MODULES.values()) >= 15


def test_each_module_can_be_imported():
    for name in MODULES:
        importlib.import_module(name)


def test_links_between_documents_lead_somewhere():
    for document in [*ROOT.glob("*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


TREE = re.compile(r"^```{toctree}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCS = ROOT / "docs"


def below(page):
    """The pages that the tables of contents of a page list."""
    lines = [line for tree in TREE.findall(page.read_text()) for line in tree.splitlines() if line and line[0] != ":"]
    names = [re.sub(r"^.*<(.*)>$", r"\1", line) for line in lines]
    return [file for name in names for file in page.parent.glob(f"{name}.*") if file.suffix in (".md", ".ipynb")]


def test_the_index_has_few_pages_and_the_others_are_below_them():
    """Design notes are listed by a directive, on a page of their own."""
    assert 15 <= len(below(DOCS / "index.md")) <= 25
    found, open_ = set(), [DOCS / "index.md"]
    while open_:
        page = open_.pop()
        assert page not in found, f"{page.name} is listed twice"
        found.add(page)
        open_ += below(page) if page.suffix == ".md" else []
    pages = {
        *DOCS.glob("*.md"),
        *DOCS.glob("lessons/*.md"),
        *DOCS.glob("lessons/*.ipynb"),
        DOCS / "design" / "index.md",
    }
    assert found == pages
