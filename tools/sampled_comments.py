"""A seeded sample of comments and docstrings, to be read by somebody who has not seen the code.

``python tools/sampled_comments.py SEED [COUNT]`` prints the text of each with its place. Paraphrase each from the
text alone, then compare with the code: the share read rightly says how plain the prose is.
"""

import ast
import io
import random
import sys
import tokenize
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src" / "backprobe"
DIRECTIVES = ("# noqa", "# fmt", "# type:", "# pyright")


def paragraphs(text: str) -> list[tuple[int, int]]:
    """First and last line of each docstring, and of each run of comment lines."""
    found = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    last = None  # the run of whole comment lines that may go on
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or token.string.startswith(DIRECTIVES):
            continue
        line, whole = token.start[0], token.line.lstrip().startswith("#")
        if whole and last == line - 1:
            found[-1] = (found[-1][0], line)
        else:
            found.append((line, line))
        last = line if whole else None
    return sorted(found)


def sample(seed: int, count: int) -> list[str]:
    """The sampled paragraphs, each under its place; the same ones for the same seed and the same files."""
    places = []
    for file in sorted(SOURCES.rglob("*.py")):
        lines = file.read_text(encoding="utf-8").splitlines()
        for first, last in paragraphs("\n".join(lines) + "\n"):
            shown = "\n".join(lines[first - 1 : last])
            places.append(f"{file.relative_to(SOURCES.parent)}:{first}\n{shown}\n")
    return random.Random(seed).sample(places, min(count, len(places)))


if __name__ == "__main__":
    wanted = [int(word) for word in sys.argv[1:]]
    print("\n".join(sample(wanted[0], wanted[1] if len(wanted) > 1 else 60)))
