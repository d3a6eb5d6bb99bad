"""Counts the dispatch modes that backprobe itself has pushed. If there are no others, nobody observes tensor
operations.
"""

from backprobe.backends.torch import private

count = 0
"""How many of our modes are on the stack of the probed thread."""

dispatch_modes = private.dispatch_modes
"""How many modes there are, including ours."""
