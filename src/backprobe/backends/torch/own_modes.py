"""Counts the dispatch modes that backprobe itself has pushed. Without further modes, tensor operations are not observed
by others.
"""

from backprobe.backends.torch import private

count = 0
"""The number of backprobe's modes on the stack of the probed thread."""

dispatch_modes = private.dispatch_modes
"""Returns the number of all dispatch modes on the stack, including those of backprobe."""
