"""The bytecode instructions of a step, by function: a number that is the same on every machine with one Python.

What is counted are the ``opcode`` events of ``sys.settrace`` in the thread of the step, in any library. A step with a
probe takes as long as the instructions that Python runs for it, more or less: where they are, time is.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from python_calls import without_collections


def instructions(step: Callable[[], Any], warming: int = 3) -> Counter[str]:
    """Those of each function, by its file and qualified name, in a step that has run a few times before."""
    for _ in range(warming):
        step()
    found: Counter[str] = Counter()

    def enter(frame: Any, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        code = frame.f_code
        name = f"{code.co_filename}:{code.co_qualname}"

        def count(frame: Any, event: str, argument: Any) -> Any:
            found[name] += event == "opcode"
            return count

        return count

    with without_collections():
        before = sys.gettrace()
        sys.settrace(enter)
        try:
            step()
        finally:
            sys.settrace(before)
    return found


def own(found: Counter[str]) -> int:
    """Those of functions of backprobe."""
    return sum(number for name, number in found.items() if "/backprobe/" in name.partition(":")[0])
