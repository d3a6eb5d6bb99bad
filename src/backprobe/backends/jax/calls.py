"""JAX's callables that run other functions, and how to call these inner functions as plain Python."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any

import jax

from backprobe.backends.framework_code import FrameworkFunctions
from backprobe.backends.jax import equinox_wrappers, private
from backprobe.backends.jax.arguments import as_given
from backprobe.backends.pure_calls import contents
from backprobe.source.followed_calls import Callables
from backprobe.source.user_code import innermost, package
from backprobe.source.wrappers import rebuilt

TRACING = FrameworkFunctions(
    jax.lax.scan,
    jax.lax.cond,
    jax.lax.switch,
    jax.lax.while_loop,
    jax.lax.fori_loop,
    jax.lax.map,
    jax.lax.associative_scan,
)
"""Control flow operators. They trace the functions that are passed to them."""

CALLING = FrameworkFunctions(
    jax.tree.map,
    jax.tree_util.tree_map,
    jax.tree_util.tree_map_with_path,
    jax.tree.reduce,
    jax.jvp,
    jax.vjp,
    jax.linearize,
)
"""JAX's functions that call the Python functions passed to them directly, without compiling them."""

RULES = {jax.custom_vjp: "bwd", jax.custom_jvp: "jvp"}
"""Kinds of functions with a custom derivative rule, and the attribute that holds the rule."""


class JaxCallables(Callables):
    """Finds the Python function inside a wrapper that JAX has made, and a way to call that function."""

    def called(self, function: Any, modules_too: bool) -> tuple[Any, Callable[..., Any]] | None:
        inside = jitted(function)
        if inside is not None:
            inside, call = self.called(inside, False) or (inside, operator.call)
            return inside, call if _shares_objects(function) else functools.partial(_as_jit_calls, call)
        method = equinox_wrappers.as_pythons(function)
        if method is not None:
            return self.called(method, False) or (method, operator.call)
        inside = equinox_wrappers.wrapped(function)
        if inside is not None:
            return _function_in(inside), functools.partial(equinox_wrappers.call_around, function)
        made = _opened(function)
        return None if made is None else (made, operator.call)

    def higher_order(self, function: Any) -> Callable[..., Any] | None:
        if function in TRACING or function in CALLING or equinox_wrappers.is_deriving(function):
            return function  # type: ignore[no-any-return]  # it is the caller's own
        return equinox_wrappers.layers(function)

    def is_data(self, value: Any) -> bool:
        if not callable(value) and not isinstance(value, tuple | list):
            return False
        is_function = isinstance(value, FunctionType | MethodType | functools.partial)
        if is_function or equinox_wrappers.as_pythons(value) is not None:
            return False
        if isinstance(value, tuple | list):
            return any(map(self.is_data, value))
        return not jax.tree_util.all_leaves([value])

    def held(self, function: Any) -> Sequence[Any] | None:
        if equinox_wrappers.may_hold(function):
            return tuple(equinox_wrappers.held(function))
        if type(function) is not FunctionType:
            return None
        return tuple(_closed_over(function, DEEPEST)) or None  # found in closures, such as those that Haiku makes

    def hidden(self, function: Any) -> Any:
        inside = equinox_wrappers.hidden(function)
        return super().hidden(function) if inside is None else inside

    def rule(self, function: Any) -> CodeType | None:
        given = next((getattr(function, name) for kind, name in RULES.items() if isinstance(function, kind)), None)
        code = getattr(innermost(given), "__code__", None)
        return code if code is None or package(code.co_filename) is None else None

    def is_compiled(self, function: Any) -> bool:
        return equinox_wrappers.is_converted(function)


def is_made(function: Any) -> bool:
    """Has JAX, or a library on it, made this callable from another function?"""
    is_jaxs = isinstance(function, FunctionType) and function.__code__.co_filename.startswith(private.FOLDER)
    return is_jaxs or JaxCallables().called(function, False) is not None


DEEPEST = 6
"""The number of levels of nested functions of a library that are searched."""


def _closed_over(function: FunctionType, depth: int) -> Iterator[FunctionType]:
    # Yield the program's functions in the closure of a library's function, and in the closures of library functions
    # nested in it.
    cells = map(contents, function.__closure__ or ())
    for held in (one for each in cells for one in (each if isinstance(each, tuple | list) else (each,))):
        inner = innermost(held)
        if inner is not None and package(inner.__code__.co_filename) is None:
            yield inner
        elif inner is not None and depth:
            yield from _closed_over(inner, depth - 1)


def jitted(function: Any) -> Any:
    """Return the Python function inside a function, method or partial made by ``jax.jit``; None for anything else."""
    function = equinox_wrappers.as_pythons(function) or function
    if isinstance(function, (private.Jit, *_jits_of_libraries())):
        wrapped = getattr(function, "__wrapped__")  # noqa: B009  # JAX's type of a compiled function does not have it
        return wrapped if equinox_wrappers.is_wrapper(wrapped) else _function_in(wrapped)
    if isinstance(function, MethodType):
        inside = jitted(function.__func__)
        return None if inside is None else MethodType(inside, function.__self__)
    if isinstance(function, functools.partial):
        inside = jitted(function.func)
        return None if inside is None else functools.partial(inside, *function.args, **function.keywords)
    return None


def _jits_of_libraries() -> tuple[type, ...]:
    # Return the classes of objects that the ``jit`` of Equinox and of Flax NNX create, if these libraries are imported.
    # Older versions create plain functions, which are left out.
    makers = (("equinox", "filter_jit"), ("flax.nnx", "jit"))
    kinds = [_made_by(name, maker) for name, maker in makers if hasattr(sys.modules.get(name), maker)]
    return tuple(kind for kind in kinds if kind is not FunctionType)


@functools.lru_cache
def _made_by(library: str, maker: str) -> type:
    return type(getattr(sys.modules[library], maker)(_made_by))


def _shares_objects(function: Any) -> bool:
    # Do a jitted function's changes to its arguments reach the caller? Only those of Flax NNX do.
    kind = _made_by("flax.nnx", "jit") if "flax.nnx" in sys.modules else FunctionType
    return kind is not FunctionType and isinstance(function, kind)


def _as_jit_calls(call: Callable[..., Any], function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    # Call the function with the arguments that ``jax.jit`` would pass: new containers, and JAX arrays instead of NumPy
    # arrays.
    args, kwargs = jax.tree.map(as_given, (args, kwargs))
    return call(function, *args, **kwargs)


def _opened(function: Any) -> Any:
    # Return a copy of a function that JAX made around another one, such as ``jax.grad``, now around the inner Python
    # function.
    #
    # The inner function is the Python function inside a jitted one, or the ``__call__`` of an object. JAX would not
    # trace the program again through the jitted function itself. Return None if there is no inner function.
    if not (isinstance(function, FunctionType) and function.__code__.co_filename.startswith(private.FOLDER)):
        return None
    wrapped = getattr(function, "__wrapped__", None)
    inside = jitted(wrapped)
    if inside is None:
        inside = _method(wrapped) if _is_object(wrapped) else _opened(wrapped)
    made = None if inside is None else rebuilt(function, wrapped, inside)
    if made is not None:
        made.__dict__["__wrapped__"] = inside
    return made


def _is_object(value: Any) -> bool:
    return callable(value) and not isinstance(value, FunctionType | MethodType | functools.partial | type)


def _function_in(value: Any) -> Any:
    # Return the Python function that a callable runs: the function inside a jitted one, an object's ``__call__``, or
    # the callable itself.
    inside = jitted(value)
    if inside is not None:
        return inside
    return (_method(value) or value) if _is_object(value) else value


def _method(value: Any) -> Any:
    own = equinox_wrappers.as_pythons(value)
    if own is not None:
        return own
    method = type(value).__call__
    return MethodType(method, value) if innermost(method) is not None else None
