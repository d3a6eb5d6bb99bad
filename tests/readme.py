"""The README runs: its blocks one after the other, and its commands on the files that these leave.

``python tests/readme.py`` does it where nothing but backprobe and its demo is installed, and with ``--write`` what the
commands print is written anew.
"""

import os
import re
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

PAGE = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n\$ (backprobe [^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"`(backprobe [^`]+)`")
NAMED = re.compile(r"# (\w+\.py)\n")
SHOWN = re.compile(r"""^(?P<code>[^#\n]+?)  +# (?P<shown>(?:tensor\(|torch\.Size|['"\[{]).*)$""")


def agrees(shown, found):
    """Is what a comment shows what came out? Three dots stand for anything, and prose may follow a closed value."""
    pattern = re.escape(shown).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, repr(found), re.DOTALL) is not None


def shown_values(code, space):
    for line in code.splitlines():
        match = SHOWN.match(line)
        if match:
            yield match["shown"], eval(match["code"], space)


def write_files(text):
    """Write each block of Python into a file of the current folder: the paths of those that are to be run, in order.

    A block that begins with the name of a file is there for the commands alone, and the first other one is ``toy.py``.
    """
    run = []
    for language, block in BLOCK.findall(text):
        if language == "python":
            named = NAMED.match(block)
            file = Path.cwd() / (named[1] if named else f"block{len(run)}.py" if run else "toy.py")
            file.write_text(block)
            if not named:
                run.append(file)
    return run


def run_blocks(text):
    """Run the blocks in the current folder: how many results were compared with what the page shows."""
    files = iter(write_files(text))
    space, out, compared = {"__name__": "readme"}, "", 0
    for language, block in BLOCK.findall(text):
        if language == "python" and not NAMED.match(block):
            with redirect_stdout(StringIO()) as stream:
                exec(compile(block, next(files), "exec"), space)
            out = stream.getvalue() or out
            for shown, found in shown_values(block, space):
                assert agrees(shown, found), (shown, found)
                compared += 1
        elif language == "text":
            assert out == block, out
            compared += 1
    return compared


def commands(text):
    """Those in its prose whose files are in the current folder: others stand for a program of the reader's."""
    shown = {command for command, _ in CONSOLE.findall(text)}
    for command in dict.fromkeys(COMMAND.findall(text)):
        files = re.findall(r"[\w-]+\.py|runs/\w+", command)
        if command not in shown and files and all(Path(file).exists() for file in files):
            yield command


def words(command):
    """The words of a command; a viewer is told to end once no run is being written, for it would go on until Ctrl-C."""
    verb, *others = command.removeprefix("backprobe ").split()
    return ["backprobe", verb, *(["--no-open", "--until-ended"] if verb == "view" else []), *others]


def printed(command):
    """What a command prints, in a process of its own. It may find something."""
    ran = subprocess.run([sys.executable, "-m", *words(command)], capture_output=True, text=True, timeout=600)
    assert ran.returncode in (0, 1), ran.stderr
    return ran.stdout + ran.stderr


def with_output(text, printed=printed):
    """The page, with what its commands print in the current folder."""
    return CONSOLE.sub(lambda block: f"```console\n$ {block[1]}\n{printed(block[1])}```", text)


def run(text):
    """Run all of it in the current folder, and say so. Raises AssertionError where the page shows something else."""
    import backprobe

    compared = run_blocks(text)
    assert compared >= 9, compared
    assert with_output(text) == text, "python tests/readme.py --write"
    ran = [command for command in commands(text) if printed(command)]
    assert len(ran) >= 5, ran
    print(f"README: {compared} results are as it shows, and {len(ran)} commands ran, with {backprobe.__file__}")


if __name__ == "__main__":
    page = PAGE.read_text()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if "--write" in sys.argv:
            write_files(page)
            PAGE.write_text(with_output(page))
        else:
            run(page)
