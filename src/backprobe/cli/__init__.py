"""The command line: the verbs of the API with their options."""

from backprobe.cli.command import main

__all__ = ["main"]
