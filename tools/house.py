"""The house in numbers and as a picture: code lines by folder, and which folder imports which.

    python tools/house.py lines                      # code lines of src/backprobe and tests, by folder
    python tools/house.py lines --base /path/to/src  # beside those of another checkout
    python tools/house.py since e8aa5ba3             # by folder: files that were there at a commit, and files since
    python tools/house.py classes                    # names of classes that mean two things
    python tools/house.py circles                    # modules that import each other: a mistake
    python tools/house.py draw house.svg             # folders with their files, and the imports between them

A code line is one that holds a token of code: blank lines, comments and docstrings do not count.
"""

from __future__ import annotations

import argparse
import ast
import html
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_ROWS = 16  # files below each other, before a second column begins
PEER = re.compile(r"(?P<peer>backends/(?:torch|tensorflow|jax)|integrations/\w+)(/|$)")
"""A backend, or an integration: a class in it may be what another has under the same name."""
IGNORED = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(file: Path) -> int:
    """How many lines of a file hold code."""
    return code_lines_of(file.read_text(encoding="utf-8"))


def code_lines_of(text: str) -> int:
    """How many lines of a text hold code."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in IGNORED:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - _docstring_lines(ast.parse(text)))


def _docstring_lines(tree: ast.Module) -> set[int]:
    """The lines of expressions that are a lone text: docstrings, and those below an attribute."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.update(range(node.lineno, node.end_lineno + 1))
    return found


def lines_by_folder(package: Path) -> Counter[str]:
    """Code lines of each folder directly below a package, and of its loose files."""
    found: Counter[str] = Counter()
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package).parts
        found[parts[0] + "/" if len(parts) > 1 else parts[0]] += code_lines(file)
    return found


def show_lines(base: Path | None) -> None:
    for name in ("src/backprobe", "tests"):
        now = lines_by_folder(ROOT / name)
        before = lines_by_folder(base / name) if base else Counter()
        print(f"{name:32} {sum(before.values()) or '':>8} {sum(now.values()):>8}")
        for folder in sorted({*now, *before}, key=lambda one: (not one.endswith("/"), one)):
            if name != "tests" or folder.endswith("/"):
                print(f"  {folder:30} {before.get(folder, ''):>8} {now.get(folder, ''):>8}")


def show_since(commit: str) -> None:
    """By folder: code lines of files that were there at a commit, then and now, and code lines of files since.

    A file that was renamed, or made of another one, was there: git compares their texts.
    """
    changes = _git("diff", "--name-status", "--find-renames=25%", "-l5000", commit, "--", "src/backprobe")
    before = {row[-1]: row[-2] for row in map(str.split, changes.splitlines()) if row[0][0] in "RC"}
    new = {row[-1] for row in map(str.split, changes.splitlines()) if row[0] == "A"}
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for file in sorted((ROOT / "src" / "backprobe").rglob("*.py")):
        path, parts = file.relative_to(ROOT).as_posix(), file.relative_to(ROOT / "src" / "backprobe").parts
        folder, count = (parts[0] + "/" if len(parts) > 1 else parts[0]), code_lines(file)
        if path in new:
            found[folder]["since"] += count
        else:
            found[folder]["now"] += count
            found[folder]["then"] += code_lines_of(_git("show", f"{commit}:{before.get(path, path)}"))
    print(f"{'':24} {'then':>8} {'now':>8} {'new files':>10}")
    for folder, counts in [*found.items(), ("all", sum(found.values(), Counter()))]:
        print(f"{folder:24} {counts['then']:>8} {counts['now']:>8} {counts['since']:>10}")


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True).stdout


def names_of_two_things(package: Path) -> dict[str, list[str]]:
    """The names of classes that mean two things, each with the modules that define one: see the glossary (note 064).

    Classes of one name in several backends are one thing, a class in each; so are the callbacks of integrations. A name
    with an underscore is known in its own file alone.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(file.relative_to(package).with_suffix("").as_posix())
    return {name: modules for name, modules in sorted(found.items()) if not _is_one_thing(modules)}


def _is_one_thing(modules: list[str]) -> bool:
    # Is there one class of a name, or one in each of several backends or integrations?
    peers = [found["peer"] for found in map(PEER.match, modules) if found]
    return len(modules) == 1 or (len(peers) == len(modules) == len({*peers}))


def show_classes() -> None:
    found = names_of_two_things(ROOT / "src" / "backprobe")
    for name, modules in found.items():
        print(f"{name:24} {', '.join(modules)}")
    print(f"{len(found)} names of classes mean two things")


def imports(source: Path) -> dict[str, set[str]]:
    """Which modules of the package each of its modules imports, at its head or inside a function."""
    files = {_module(file.relative_to(source)): file for file in (source / "backprobe").rglob("*.py")}
    found: dict[str, set[str]] = {}
    for module, file in files.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named.update(one.name for one in node.names)
            elif isinstance(node, ast.ImportFrom):
                members = (f"{node.module}.{one.name}" for one in node.names)
                named.update(one if one in files else str(node.module) for one in members)
        found[module] = named & files.keys()
    return found


def _module(file: Path) -> str:
    return ".".join(file.with_suffix("").parts).removesuffix(".__init__")


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules of which each one imports all others, directly or through others, a package and its files too.

    The contract of imports compares the files of a package with each other, but none with the package's own module.
    """
    reached = {module: _reached(edges, module) for module in edges}
    groups = {tuple(sorted(one for one in reached[module] if module in reached[one])) for module in edges}
    return [[*group] for group in sorted(groups) if len(group) > 1]


def show_circles() -> None:
    found = circles(imports(ROOT / "src"))
    for group in found:
        print(f"a circle: {', '.join(group)}")
    if found:
        sys.exit(1)


def _folder(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "backprobe"


def _label(folder: str, package: Path) -> str:
    """A folder's name above its files, each with its code lines, in columns."""
    files = sorted((package / folder).rglob("*.py"))
    names = [(file.relative_to(package / folder).with_suffix("").as_posix(), code_lines(file)) for file in files]
    texts = [f'<td align="left"><font point-size="9">{html.escape(name)} {lines}</font></td>' for name, lines in names]
    height = max(MOST_ROWS, -(-len(texts) // 4))
    rows = ["".join(texts[row::height]) for row in range(min(height, len(texts)))]
    head = f'<td align="left"><b>{html.escape(folder)}</b></td>'
    table = "".join(f"<tr>{row}</tr>" for row in [head, *rows])
    return f'<<table border="0" cellborder="0" cellspacing="0">{table}</table>>'


def draw(target: Path, source: Path) -> None:
    """Folders and loose files with the imports between them; red ones are part of a circle of modules.

    What is imported by way of something else too is not drawn, so that the floors can be seen.
    """
    import pygraphviz  # which only a drawing needs

    package = source / "backprobe"
    edges = imports(source)
    circular = {(a, b) for group in circles(edges) for a in group for b in edges[a] if b in group}
    drawn: dict[tuple[str, str], bool] = {}
    for importer, imported in ((a, b) for a in sorted(edges) for b in sorted(edges[a])):
        pair = (_folder(importer), _folder(imported))
        drawn[pair] = drawn.get(pair, False) or (importer, imported) in circular
    picture = pygraphviz.AGraph(directed=True, rankdir="TB", fontname="sans-serif", nodesep="0.15", ranksep="0.4")
    picture.node_attr.update(shape="box", fontname="sans-serif", fontsize="12", style="rounded")
    for folder in sorted({_folder(module) for module in edges}):
        picture.add_node(folder, label=_label(folder, package))
    for (importer, imported), is_circular in drawn.items():
        if is_circular or (importer != imported and not _is_implied(drawn, importer, imported)):
            picture.add_edge(importer, imported, color="red" if is_circular else "#888888")
    picture.draw(str(target), prog="dot")


def _is_implied(drawn: dict[tuple[str, str], bool], importer: str, imported: str) -> bool:
    """Does a way of several imports lead there too?"""
    others: dict[str, set[str]] = {}
    for pair in drawn.keys() - {(importer, imported)}:
        others.setdefault(pair[0], set()).add(pair[1])
    return imported in _reached(others, importer)


def _reached(edges: dict[str, set[str]], start: str) -> set[str]:
    found, pending = {start}, [start]
    while pending:
        new = edges.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    counting = commands.add_parser("lines")
    counting.add_argument("--base", type=Path, help="the root of another checkout")
    commands.add_parser("since").add_argument("commit")
    commands.add_parser("classes")
    commands.add_parser("circles")
    drawing = commands.add_parser("draw")
    drawing.add_argument("target", type=Path)
    drawing.add_argument("--source", type=Path, default=ROOT / "src", help="the folder that holds the package")
    asked = parser.parse_args()
    match asked.command:
        case "lines":
            show_lines(asked.base)
        case "since":
            show_since(asked.commit)
        case "classes":
            show_classes()
        case "circles":
            show_circles()
        case _:
            draw(asked.target, asked.source)


if __name__ == "__main__":
    main()
