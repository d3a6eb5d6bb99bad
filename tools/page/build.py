"""Bundle the viewer's page: ``make page`` runs this after a change of src/backprobe/view/page.

``python tools/page/build.py FOLDER`` writes what it makes to another folder, for a test that compares.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "src" / "backprobe" / "view" / "page"
MODULES = HERE / "node_modules"
ESBUILD = [MODULES / ".bin" / "esbuild", "--bundle", "--minify", "--charset=utf8", "--legal-comments=none",
           "--log-level=warning"]  # fmt: skip


def digest(page: Path = PAGE) -> str:
    """Of all sources: it is in the bundle's first line, so that an old bundle is seen without building it anew."""
    found = hashlib.sha256()
    for source in sorted([*page.glob("*.js"), page / "vendor" / "preact.js"]):
        found.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return found.hexdigest()


def build(to: Path) -> None:
    vendor, built = to / "vendor", to / "built"
    for folder in (vendor, built):
        folder.mkdir(parents=True, exist_ok=True)
    for name, source in (("uPlot.js", "uPlot.iife.min.js"), ("uPlot.css", "uPlot.min.css")):
        shutil.copyfile(MODULES / "uplot" / "dist" / source, vendor / name)
    subprocess.run([*ESBUILD, "--format=esm", HERE / "preact.js", f"--outfile={vendor / 'preact.js'}"], check=True)
    banner = f"--banner:js=// sources {digest()}"
    subprocess.run([*ESBUILD, "--format=iife", banner, PAGE / "shell.js", f"--outfile={built / 'page.js'}"], check=True)
    subprocess.run([*ESBUILD, PAGE / "page.css", f"--outfile={built / 'page.css'}"], check=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE)
