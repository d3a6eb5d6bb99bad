"""Documentation runs: every block of the README, every example in a docstring, every link."""

import doctest
import importlib
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import torch

import backprobe
import prepared

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"""^(?P<code>[^#\n]+?)  +# (?P<shown>(?:tensor\(|torch\.Size|['"\[{]).*)$""")


def blocks(text):
    return [(match[1], match[2]) for match in BLOCK.finditer(text)]


def agrees(shown, found):
    """Is what a comment shows what came out? Three dots stand for anything, and prose may follow a closed value."""
    pattern = re.escape(shown).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, repr(found), re.DOTALL) is not None


def shown_values(code, space):
    for line in code.splitlines():
        match = SHOWN.match(line)
        if match:
            yield match["shown"], eval(match["code"], space)


def run_readme():
    """Run the blocks in the current folder, one after the other, and compare what each shows."""
    folder = Path.cwd()
    space, printed, compared = {"__name__": "readme"}, "", 0
    for at, (language, text) in enumerate(blocks((ROOT / "README.md").read_text())):
        if language == "python":
            named = re.match(r"# (\w+\.py)\n", text)
            file = folder / (named[1] if named else "toy.py" if not printed else f"block{at}.py")
            file.write_text(text)
            with redirect_stdout(StringIO()) as out:
                exec(compile(text, str(file), "exec"), space)
            printed = out.getvalue() or printed
            for shown, found in shown_values(text, space):
                assert agrees(shown, found), (shown, found)
                compared += 1
        elif language == "text":
            assert printed == text, printed
            compared += 1
    assert compared >= 9


@pytest.mark.all_frameworks
def test_every_block_of_the_readme_runs_and_shows_what_it_says(tmp_path):
    """In a process of its own, since it imports all frameworks."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_docs; test_docs.run_readme()"
    ran = prepared.run("tensorflow", "-c", code, cwd=tmp_path, timeout=600)
    assert ran.returncode == 0, ran.stderr


def test_a_readme_that_shows_something_else_would_fail():
    assert not agrees("tensor(1.)", torch.tensor(2.0))
    assert agrees("tensor(7., grad_fn=...)", torch.tensor(7.0, requires_grad=True) * 1)


OTHER_FRAMEWORKS = (  # whose tests run in other processes
    "backprobe.backends.jax", "backprobe.backends.tensorflow", "backprobe.integrations.keras",
)  # fmt: skip
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
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
