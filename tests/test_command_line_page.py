"""The commands on docs/command-line.md print what the page shows.

After a wanted change, run them anew, and look: ``python tests/test_command_line_page.py``.
"""

import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

from commands import forked, invoked, verbs

PAGE = Path(__file__).parent.parent / "docs" / "command-line.md"
FILE = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROUNDING = re.compile(r"\d\.\de-\d+")  # the size of an error, which differs from machine to machine
VERSIONS = re.compile(r'(?<="environment": )\{.*?\}\}')  # of this machine
SHOWN = re.compile(r"^```console\n\$ backprobe (.*)\n((?:.|\n)*?)^```$", re.MULTILINE)
RUN = re.compile(r"^```console\n\$ python (\w+\.py)\n((?:.|\n)*?)^```$", re.MULTILINE)


def printed(words):
    """What a command prints on both streams, without the folder that it runs in."""
    _, out, err = invoked(*shlex.split(words))
    return (out + err).replace(f"{os.getcwd()}/", "")


def run(file):
    """What a script prints, in a process of its own."""
    code, out, err = forked(file)
    assert code == 0, err
    return out


def made():
    """The page, with what its commands print in the current folder."""
    page = PAGE.read_text()
    for name, text in FILE.findall(page):
        Path(name).write_text(f"# {name}\n{text}")
    page = RUN.sub(lambda block: f"```console\n$ python {block[1]}\n{run(block[1])}```", page)
    return SHOWN.sub(lambda block: f"```console\n$ backprobe {block[1]}\n{printed(block[1])}```", page)


def _anywhere(page):
    return VERSIONS.sub("", ROUNDING.sub("", page))


def test_the_commands_print_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    try:
        assert _anywhere(made()) == _anywhere(PAGE.read_text()), f"run python {__file__}"
    finally:
        for name in set(sys.modules) - known:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
                del sys.modules[name]


def test_every_command_is_on_the_page():
    shown = {shlex.split(words)[0] for words, _ in SHOWN.findall(PAGE.read_text())}
    assert shown == verbs() - {"demo"}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        PAGE.write_text(made())
