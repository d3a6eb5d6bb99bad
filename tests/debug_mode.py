"""The planted faults given to PyTorch's DebugMode, which compares two runs operation by operation.

It is used as its tutorial does: both runs under ``log_tensor_hashes``, then ``check_hash_mismatches``. Where that
reports anything, the line of the first operation with another hash is taken from the stack traces that it keeps.
"""

import functools
import re

import torch
from torch.utils._debug_mode import DebugMode

from planted import arguments, program

NOTHING, REFUSED, AT_THE_LINE, ELSEWHERE = "nothing", "refused", "at the line", "elsewhere"
ANSWERS = (AT_THE_LINE, ELSEWHERE, NOTHING, REFUSED)


def logs(model, lines=(), dtype=torch.float32, *, is_traced=False):
    """The log of a forward and a backward pass."""
    args = [
        one.detach().clone().to(dtype).requires_grad_() if one.is_floating_point() else one for one in arguments(model)
    ]
    with DebugMode(record_stack_trace=is_traced) as mode, DebugMode.log_tensor_hashes():
        loss = program(model, *lines)(*args)
        torch.autograd.grad(loss, [one for one in args if one.requires_grad], allow_unused=True)
    return mode.logs


@functools.cache
def reference(model):
    return logs(model)


def answer(model, lines, dtype=torch.float32):
    """What comparing says: and the text of the line of the first operation that differs, if it names one."""
    a, b = reference(model), logs(model, lines, dtype)
    try:
        found = DebugMode.check_hash_mismatches(a, b)
    except ValueError:
        return REFUSED, ""
    if not found:
        return NOTHING, ""
    b = logs(model, lines, dtype, is_traced=True)
    hashes = [[(call.log or {}).get("hash") for call in both] for both in zip(a, b, strict=True)]
    first = b[next(at for at, (one, two) in enumerate(hashes) if one != two)]
    texts = re.findall(rf'File "<{model} \d+>", line \d+, in {model}\n    (.*)', _trace(first))
    return ELSEWHERE, texts[-1] if texts else ""


def _trace(call):
    """Where the program made a call, or that which this one is the backward of."""
    return getattr(call, "fwd_stack_trace", None) or getattr(call, "stack_trace", None) or ""


def found(fault):
    """What it says of a planted fault."""
    said, line = answer(fault.model, ((fault.line, fault.wrong),))
    return AT_THE_LINE if said == ELSEWHERE and line.strip() and line.strip() in fault.wrong else said


def of_right(pair):
    """What it says of a program that is right."""
    return answer(pair.model, pair.lines, pair.dtype)[0]
