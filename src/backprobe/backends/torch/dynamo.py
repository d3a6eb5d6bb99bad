"""Undocumented names of Dynamo. Some PyTorch versions may lack some of them.

If a name is missing, this happens:

- ``OptimizedModule``: the module that ``torch.compile(module)`` returns is taken for an ordinary module.
- ``WRAPPED_FORWARD``: if PyTorch defines the forward of a module that was compiled before the watch, a message names a
  function of PyTorch instead of the module.
- ``compiled_codes``: nothing counts as compiled before the watch, so such code goes unnoticed.
- ``REST``: the rest of a function is not recognised as such.
- ``leave_alone``: Dynamo may compile a hook separately from the model.
- ``FINDS_EFFECTS``: gradients whose statistics are computed in compiled code are copied.
- ``start_callbacks``: hooks are never removed between measured steps, because they could not be restored before a
  compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, TypeVar

from backprobe.backends.private_names import lookup

Function = TypeVar("Function", bound=Callable[..., Any])


class _NoModule:
    """The type of a compiled module if PyTorch's type is not found. No object has this type."""


OptimizedModule: Any = lookup("torch._dynamo.eval_frame.OptimizedModule") or _NoModule
"""The class of the module that ``torch.compile(module)`` returns."""

_wrap_inline = lookup("torch._dynamo.external_utils.wrap_inline")
WRAPPED_FORWARD: CodeType | None = _wrap_inline(lambda: None).__code__ if _wrap_inline else None
"""The code of the frame in which Dynamo compiles modules whose forward is defined by PyTorch."""

_codes = lookup("torch._dynamo.convert_frame.input_codes")
_entries = lookup("torch._C._dynamo.eval_frame._debug_get_cache_entry_list")

REST: str | None = lookup("torch._dynamo.resume_execution.TORCH_DYNAMO_RESUME_IN_PREFIX")
FINDS_EFFECTS = lookup("torch._library.utils.is_impure") is not None
"""Do all parts of the compiler respect the effect that an operator declares? Older releases only look at the tensors
that an operator writes to.
"""

is_exporting: Callable[[], bool] = lookup("torch.compiler.is_exporting") or (lambda: False)
"""Is ``torch.export`` tracing? Always False in older releases, because they do not provide this function."""


def compiled_codes() -> Iterator[CodeType]:
    """Return the code objects that have compiled versions. ``torch.compiler.reset()`` discards these versions."""
    known = (reference() for reference in tuple(getattr(_codes, "seen", ())))
    return (code for code in known if code is not None and has_compiled(code))


def has_compiled(code: CodeType) -> bool:
    return _entries is not None and bool(_entries(code))


def is_rest(code: CodeType) -> bool:
    """Did Dynamo make this function from the rest of another one, behind a line that it could not compile?"""
    return REST is not None and code.co_name.startswith(REST)


def leave_alone(function: Function) -> Function:
    """Mark a function that Dynamo may trace as part of other code, but must not compile separately."""
    skip: Any = lookup("torch._dynamo.eval_frame.skip_code")
    if skip is not None:
        skip(function.__code__)
    return function


def start_callbacks() -> list[Callable[..., None]] | None:
    """Return the list of callbacks that Dynamo runs before it compiles anything; None if this release has no such list.
    ``torch.compiler.reset()`` empties it.
    """
    found = getattr(lookup("torch._dynamo.callback_handler"), "start_callbacks", None)
    return found if isinstance(found, list) else None
