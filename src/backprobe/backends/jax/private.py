"""JAX's private names, all that backprobe uses of them: each is checked on the oldest and the newest release."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FunctionType
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.extend.core.primitives import scan_p

Jit = type(jax.jit(lambda: 0))
"""What ``jax.jit`` makes."""

INSIDE = ("primal", "val")  # what a tracer of JVP, of linearization and of batching carries


def reaches(value: Any, trace: Any) -> bool:
    """Is this a tracer of this trace, or one of a transformation inside it that carries such a tracer?"""
    while isinstance(value, jax.core.Tracer):
        if value._trace is trace:
            return True
        value = next((getattr(value, name) for name in INSIDE if hasattr(value, name)), None)
    return False


def trace_of(tracer: Any) -> Any:
    """The transformation that a tracer belongs to."""
    return tracer._trace


PROCESSING = {"process_primitive": False, "process_custom_jvp_call": True, "process_custom_vjp_call": True}
"""What a transformation does with an operation, and has that a derivative of its own?"""


@contextmanager
def hearing_operations(trace: Any, told: Callable[[str, bool], None]) -> Iterator[None]:
    """Within this context ``told`` hears the name of each operation that this one transformation differentiates."""
    for method, is_custom in PROCESSING.items():
        setattr(trace, method, functools.partial(_telling, trace, getattr(trace, method), is_custom, told))
    try:
        yield
    finally:
        for method in PROCESSING:
            delattr(trace, method)


def _telling(
    trace: Any, process: Any, is_custom: bool, told: Callable[[str, bool], None], primitive: Any, given: Any,
    *rest: Any, **params: Any,
) -> Any:  # fmt: skip
    made = process(primitive, given, *rest, **params)
    if any(reaches(one, trace) for one in (made if isinstance(made, list | tuple) else [made])):
        told(given.__name__ if is_custom else primitive.name, is_custom)  # what is given is a function then
    return made


def bind(equation: Any, values: list[Any]) -> list[Any]:
    """Run one equation of a jaxpr on other values."""
    made = equation.primitive.get_bind_params(equation.params)
    functions, params = made if isinstance(made, tuple) else ((), made)  # no functions from 0.10 on
    found = equation.primitive.bind(*functions, *values, **params)
    return list(found) if equation.primitive.multiple_results else [found]


def opened(jaxpr: Any) -> tuple[Any, list[Any]]:
    """A jaxpr and its constants, closed or not."""
    return (jaxpr.jaxpr, list(jaxpr.consts)) if isinstance(jaxpr, ClosedJaxpr) else (jaxpr, [])


def inner_jaxprs(equation: Any) -> list[Any]:
    """The jaxprs among the parameters of an equation."""
    found = []
    for parameter in equation.params.values():
        several = parameter if isinstance(parameter, tuple | list) else [parameter]
        found += [one for one in several if isinstance(one, ClosedJaxpr | Jaxpr)]
    return found


def scan_parts(params: dict[str, Any]) -> tuple[int, int]:
    """How many of a scan's inputs are constants, and how many are carried."""
    if "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    constants, carried, _ = params["ft_in"].unpack()
    return len(constants), len(carried)


STAGED = {"vmap_f", "fun_remat"}  # the functions that jax.vmap and jax.checkpoint return


@functools.lru_cache(1)
def _jax_folder() -> str:
    return jax.__file__.removesuffix("__init__.py")


def is_staged(function: Any) -> bool:
    """Is this what ``jax.vmap`` or ``jax.checkpoint`` made, which trace the function in them by themselves?"""
    for _ in range(8):
        if not isinstance(function, FunctionType):
            return False
        code = function.__code__
        if code.co_name in STAGED and code.co_filename.startswith(_jax_folder()):
            return True
        if not code.co_filename.startswith(_jax_folder()):
            return False
        function = next((found for cell in function.__closure__ or () if _is_step(found := cell.cell_contents)), None)
    return False


def double_precision(enabled: bool) -> AbstractContextManager[Any]:
    """Within this context arrays may have 64 bits, if that is asked for, whatever the program has set."""
    if not enabled:
        return nullcontext()
    if hasattr(jax, "enable_x64"):  # from 0.8 on
        return jax.enable_x64(True)  # type: ignore[no-any-return]
    from jax.experimental import enable_x64  # type: ignore[attr-defined]

    return enable_x64()  # type: ignore[no-any-return]


def _is_step(value: Any) -> bool:
    return isinstance(value, FunctionType) and value.__code__.co_name in STAGED


SCAN = scan_p.name
