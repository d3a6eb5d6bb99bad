"""Makes the tables of docs/threads.md from the programs in tests/threads: ``python tests/threads_page.py``.

Each framework's table is made in a process of its own, as its test is run in one.
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "threads.md"
MODULES = {
    "PyTorch": ("pytorch_errors", "pytorch_missing", "pytorch_numbers"),
    "TensorFlow and Keras": ("with_tensorflow",),
    "JAX": ("with_jax",),
}
HEAD = "| the program | the thread's answer | what backprobe says |\n|---|---|---|"
BELOW = "<!-- below: made by tests/threads_page.py -->"


def threads_of(framework):
    return [one for module in MODULES[framework] for one in importlib.import_module(f"threads.{module}").THREADS]


def section(framework):
    """The table of a framework, as its programs give it."""
    return "\n".join([f"## {framework}", "", HEAD, *map(row, threads_of(framework)), ""])


def row(thread):
    from threads.asking import asked

    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    rows = (*asked(thread).rows, *([f"not found: {thread.lacks}"] if thread.lacks else []))
    cells = (f"[{thread.title}]({thread.address})", thread.answer, "<br>".join(rows))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def stored(framework):
    """The same as the page has it."""
    _, _, rest = PAGE.read_text().partition(f"## {framework}\n")
    return f"## {framework}\n" + rest.partition("\n## ")[0].rstrip("\n") + "\n"


def made():
    """The page, with each table from a process of its own."""
    above = PAGE.read_text().partition(BELOW)[0]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    tables = [
        subprocess.run(
            [sys.executable, __file__, framework], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for framework in MODULES
    ]
    return above + "\n\n".join([BELOW, *(table.rstrip("\n") for table in tables)]) + "\n"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(section(sys.argv[1]))
    else:
        PAGE.write_text(made())
