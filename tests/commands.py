"""Commands, run in this process or as a Python of its own, and what they print."""

import subprocess
import sys

from click.testing import CliRunner

from backprobe.cli import main


def invoked(*words, **settings):
    """The exit code, standard output and standard error of a command; an exception that is not an exit comes out."""
    result = CliRunner().invoke(main, words, catch_exceptions=False, **settings)
    return result.exit_code, result.stdout, result.stderr


def python(*words, **settings):
    """Exit code, standard output and standard error of a Python of its own, in which a warning is an error."""
    command = [sys.executable, "-W", "error", *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, **settings)
    return ran.returncode, ran.stdout, ran.stderr


def printed(ran, code=0):
    """What was printed by a command that ended with this status and without errors."""
    found, out, err = ran
    assert (found, err) == (code, "")
    return out


def refused(ran, code=2):
    """The errors of a command that ended with this status and printed nothing."""
    found, out, err = ran
    assert (found, out) == (code, "")
    return err
