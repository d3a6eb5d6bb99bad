"""Names of Dynamo that PyTorch does not document, in one place. Some PyTorch versions may lack some of them.

What a watch does without each of them:

- ``OptimizedModule``, ``WRAPPED_FORWARD``: no module is recognised as compiled.
- ``compiled_codes``: nothing counts as compiled before the watch, so such code goes unnoticed.
- ``skip_code``: Dynamo may compile a hook separately from the model.
- ``FINDS_EFFECTS``: gradients whose statistics are taken in compiled code are copied.
- ``start_callbacks``: a hook that rests could not be restored before a compilation, so hooks never rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from backprobe.backends.private_names import lookup


class _NoModule:
    """The type of a compiled module if it is not known: no object has it."""


OptimizedModule: Any = lookup("torch._dynamo.eval_frame.OptimizedModule") or _NoModule
"""The class of the module that ``torch.compile(module)`` returns."""

_wrap_inline = lookup("torch._dynamo.external_utils.wrap_inline")
WRAPPED_FORWARD: CodeType | None = _wrap_inline(lambda: None).__code__ if _wrap_inline else None
"""The frame in which Dynamo compiles modules whose own forward is PyTorch's."""

_codes = lookup("torch._dynamo.convert_frame.input_codes")
_entries = lookup("torch._C._dynamo.eval_frame._debug_get_cache_entry_list")

FINDS_EFFECTS = lookup("torch._library.utils.is_impure") is not None
"""Does every part of the compiler check if an operator has an effect? Older ones check only what it writes to."""

is_exporting: Callable[[], bool] = lookup("torch.compiler.is_exporting") or (lambda: False)
"""Is ``torch.export`` tracing? Older releases do not tell."""


def compiled_codes() -> Iterator[CodeType]:
    """The code objects that have compiled versions; ``torch.compiler.reset()`` makes Dynamo forget them."""
    known = (reference() for reference in tuple(getattr(_codes, "seen", ())))
    return (code for code in known if code is not None and has_compiled(code))


def has_compiled(code: CodeType) -> bool:
    return _entries is not None and bool(_entries(code))


def skip_code(code: CodeType) -> None:
    """Keep Dynamo from compiling this code by itself; it is still traced inside other code."""
    skip: Any = lookup("torch._dynamo.eval_frame.skip_code")
    if skip is not None:
        skip(code)


def start_callbacks() -> list[Callable[..., None]] | None:
    """Callbacks that Dynamo runs before compiling anything; ``torch.compiler.reset()`` empties the list."""
    found = getattr(lookup("torch._dynamo.callback_handler"), "start_callbacks", None)
    return found if isinstance(found, list) else None
