"""What a test notes of the runs of a program, where nothing that the program holds leads to: runs put that back."""

import sys

CALLS = 0  # a program counts here by this name, and runs put it back
_noted = []


def held():
    return vars(sys.modules[__name__])["_noted"]  # by a name that no code of this function has


def note(value=None):
    held().append(value)


def noted():
    """What was noted since this was last asked."""
    values = [*held()]
    held().clear()
    return values
