"""All that is installed here in a folder of another name, as ``PYTHONPATH`` or a ``.pth`` file may have it."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import backprobe as bp

PACKAGES = Path(sysconfig.get_paths()["purelib"])
OWN = ("backprobe", "_backprobe", "__editable__")


def linked(folder):
    """The folder, with links to everything that is installed but for backprobe."""
    for one in PACKAGES.iterdir():
        if one.suffix != ".pth" and not one.name.startswith(OWN):
            (folder / one.name).symlink_to(one)
    return folder


def run(file, folder, *before, python=None, paths=True, warnings="error"):
    """What a script prints, run by the Python below this environment."""
    own = Path(bp.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(own), *([str(folder)] if paths else [])])}
    interpreter = sys._base_executable if python is None else python
    done = subprocess.run(
        [interpreter, "-W", warnings, *before, str(file)], env=environment, capture_output=True, text=True, timeout=300
    )
    return done.stdout + done.stderr
