"""The command line: one command for each verb of the API."""

from backprobe.cli.command import main

__all__ = ["main"]
