"""What the programs of ``examples`` print is in the README of that folder.

After a wanted change, run them anew, and look: ``python tests/examples_page.py``.
"""

import re
from pathlib import Path

import prepared

FOLDER = Path(__file__).parent.parent / "examples"
PAGE = FOLDER / "README.md"
SHOWN = re.compile(r"^```console\n\$ python (\w+)\.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MEASURED = re.compile(r"\b\d+\.\d+(e[-+]\d+)?|\b\d+e[-+]\d+|\b\d+(,\d{3})+")


def printed(name: str) -> str:
    """What a program prints, in a process of its own."""
    ran = prepared.run("jax" if name.startswith("jax") else "torch", f"{name}.py", cwd=FOLDER, timeout=600)
    assert ran.returncode == 0, ran.stderr
    return "".join(f"{line.rstrip()}\n" for line in ran.stdout.splitlines())


def shown() -> dict[str, str]:
    """What the page shows of each program."""
    return dict(SHOWN.findall(PAGE.read_text()))


def comparable(text: str) -> str:
    """It without measured numbers, whose last digits differ between processors."""
    return MEASURED.sub("…", text)


if __name__ == "__main__":
    page = PAGE.read_text()
    PAGE.write_text(SHOWN.sub(lambda block: f"```console\n$ python {block[1]}.py\n{printed(block[1])}```", page))
