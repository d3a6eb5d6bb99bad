"""Makes the table of planted leaks in docs/memory.md: ``python tests/memory_page.py`` writes it.

Its rows are the programs of ``memory_programs.py``, ``memory_jax.py`` and ``memory_tensorflow.py``, each with what
``test_memory.py`` and ``test_memory_frameworks.py`` find that ``bp.memory`` says of it.
"""

import ast
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "memory.md"
BEGIN, END = "<!-- the planted leaks -->\n", "<!-- the end of the planted leaks -->\n"
PROGRAMS = {
    "PyTorch": TESTS / "memory_programs.py",
    "JAX": TESTS / "frameworks" / "memory_jax.py",
    "TensorFlow": TESTS / "frameworks" / "memory_tensorflow.py",
}


def assigned(tree, name):
    """The expression that a module binds a name to."""
    return next(
        one.value for one in tree.body if isinstance(one, ast.Assign) and getattr(one.targets[0], "id", "") == name
    )


def programs(framework):
    """By the name of each leak what is said of it, and how many healthy trainings there are."""
    tree = ast.parse(PROGRAMS[framework].read_text())
    leaks = assigned(tree, "LEAKS")
    said = {key.id: ast.literal_eval(value) for key, value in zip(leaks.keys, leaks.values, strict=True)}
    return said, len(assigned(tree, "HEALTHY").elts)


def table():
    """A row for each planted leak, and the counts of healthy trainings."""
    rows, silent = [], []
    for framework in PROGRAMS:
        leaks, healthy = programs(framework)
        silent.append(f"{healthy} in {framework}")
        for name, (kind, path) in leaks.items():
            rows.append(f"| {name.replace('_', ' ')} | {framework} | `{kind}` | {f'`{path}`' if path else 'none'} |")
    head = ["| what outlives its step | framework | kind | the way to it |", "|---|---|---|---|"]
    said = f"Each is named with its line. Of healthy trainings, {', '.join(silent[:-1])} and {silent[-1]}, none is."
    return "\n".join([*head, *rows, "", said]) + "\n"


def made():
    """The page as it should be."""
    above, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{above}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(made())
