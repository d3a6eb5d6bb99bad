"""Bundle the viewer's page: ``make page`` runs this after a change of tools/page/viewer.

``python tools/page/build.py FOLDER`` writes what it makes to another folder, for a test that compares.
"""

import gzip
import hashlib
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from string import ascii_letters

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PAGE, VENDOR = Path("src/backprobe/view/page"), Path("tools/page/vendor")
VIEWER = HERE / "viewer"
MODULES = HERE / "node_modules"
NOTICE = """\
htm 3.1.1, copyright 2018 Google Inc., is under the Apache License, version 2.0, as backprobe is: its LICENSE has the
text, and so has https://www.apache.org/licenses/LICENSE-2.0. It is bundled without changes of its own.
"""
ACTION = re.compile(r"^    (\w+): (?:async )?\(", re.MULTILINE)  # as actions.js has them
VARIABLE = re.compile(r"--[a-z][a-z0-9-]*")
INDENTED = re.compile(r"\n +")  # of what is minified only templates have lines, and htm leaves out where they begin
ESBUILD = [
    MODULES / ".bin" / "esbuild",
    "--bundle",
    "--minify",
    "--charset=utf8",
    "--legal-comments=none",
    "--log-level=warning",
]
TERSER = [
    MODULES / ".bin" / "terser",
    "--module",
    "--compress=passes=3,ecma=2022,unsafe_arrows,keep_fargs=false,pure_getters",
    "--mangle",
]
"""It makes what esbuild gives a fiftieth smaller, and zipped a twenty-fifth."""


def digest() -> str:
    """Of all sources: it is in a line of the bundle, so that an old bundle is seen without building it anew."""
    found = hashlib.sha256()
    for source in sorted(file for folder in (VIEWER, ROOT / VENDOR) for file in folder.rglob("*") if file.is_file()):
        found.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def build(root: Path) -> None:
    """Write what the package has of the page, and the library that it is bundled with."""
    page, vendor = root / PAGE, root / VENDOR
    for folder in (page, vendor):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(MODULES / "preact" / "LICENSE", page / "preact.LICENSE")
    (page / "htm.LICENSE").write_text(NOTICE)
    subprocess.run([*ESBUILD, "--format=esm", HERE / "preact.js", f"--outfile={vendor / 'preact.js'}"], check=True)
    _bundle(VIEWER / "shell.js", page / "page.js.gz")
    _bundle(VIEWER / "circuit" / "main.js", page / "circuit.js.gz")
    for source, made in (("base", "base"), ("runs", "page"), ("circuit", "circuit")):
        bundled = re.sub(r"(?<=--)([a-z0-9-]+): ", r"\1:", _printed([*ESBUILD, VIEWER / f"{source}.css"]))
        (page / f"{made}.css").write_text(VARIABLE.sub(lambda found: _variables()[found[0]], bundled))


def _bundle(source: Path, target: Path) -> None:
    bundled = _printed([*ESBUILD, "--format=iife", source])
    small = _printed([*TERSER, "--mangle-props", f"regex=/^({'|'.join(_actions())})$/"], bundled)
    for name, short in _variables().items():
        small = small.replace(f'"{name}"', f'"{short}"')
    made = f"// sources {digest()}\n{INDENTED.sub(chr(10), small)}"
    target.write_bytes(gzip.compress(made.encode(), 9, mtime=0))


def _printed(command: list[object], given: str = "") -> str:
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, input=given).stdout


@cache
def _variables() -> dict[str, str]:
    # Short names for the variables of the palette.
    names = VARIABLE.findall(re.sub(r"var\(.*?\)", "", (VIEWER / "palette.css").read_text()))
    return dict(zip(dict.fromkeys(names), (f"--{letter}" for letter in ascii_letters), strict=False))


@cache
def _actions() -> list[str]:
    # The names of actions that stand nowhere but behind "page." and where they are defined: no other thing has them.
    sources = "\n".join(file.read_text() for folder in (VIEWER, ROOT / VENDOR) for file in folder.rglob("*.js"))
    names = ACTION.findall((VIEWER / "actions.js").read_text())
    count = {name: [len(re.findall(rf"{before}\b{name}\b", sources)) for before in ("", r"\bpage\.")] for name in names}
    return [name for name, (everywhere, of_page) in count.items() if everywhere == of_page + 1]


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
