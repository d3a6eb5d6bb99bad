"""The dispatch modes that backprobe itself has pushed: where there are no others, no tensor operation is observed."""

import torch

count = 0
"""How many of them are on the stack of the thread that is probed."""

dispatch_modes = torch._C._len_torch_dispatch_stack
"""How many there are, these among them."""
