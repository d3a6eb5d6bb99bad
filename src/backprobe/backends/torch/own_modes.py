"""The dispatch modes that backprobe itself has pushed: where there are no others, no tensor operation is observed."""

from backprobe.backends.torch import private

count = 0
"""How many of them are on the stack of the thread that is probed."""

dispatch_modes = private.dispatch_modes
"""How many there are, these among them."""
