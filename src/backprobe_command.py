"""The command ``backprobe``, beside the package: Ctrl-C ends it without a word also while the package is loaded."""

import signal
import sys


def main() -> None:
    """Run the command line. While it is loaded, Ctrl-C has the system's own effect, which prints nothing."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:  # not under nohup, which ignores it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from backprobe.cli import main as command

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(command())
