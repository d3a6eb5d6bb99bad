"""Private names of JAX, and facts about its functions that no release promises. They are tested with the oldest and the
newest supported release.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import islice
from types import CodeType, FunctionType
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from backprobe.backends.private_names import PrivateNames
from backprobe.backends.pure_calls import contents
from backprobe.backends.user_lines import callers

NAMES = PrivateNames("jax", "JAX", "jax>=0.4.38,<=0.10.2")
scan_p: Any = NAMES.needed("jax.extend.core.primitives.scan_p")
while_p: Any = NAMES.needed("jax.extend.core.primitives.while_p")
Zero: Any = NAMES.needed("jax.interpreters.ad.Zero")
dce_jaxpr: Any = NAMES.needed("jax.interpreters.partial_eval.dce_jaxpr")
dce_rules: Any = NAMES.needed("jax.interpreters.partial_eval.dce_rules")
NAMES.needed_of(jax.core.Tracer, "jax.core.Tracer", "_trace")

UndefinedPrimal: Any = NAMES.optional("jax._src.interpreters.ad.UndefinedPrimal")
BACKWARD: Callable[..., Any] | None = UndefinedPrimal and NAMES.optional("jax._src.interpreters.ad.backward_pass")
"""Runs a linear jaxpr backward. Unlike ``jax.linear_transpose`` it does not trace the jaxpr again."""

LINEARIZATIONS: Any = NAMES.optional("jax._src.interpreters.ad.primitive_linearizations", otherwise={})
"""The rules by which newer releases linearize primitives."""

outside: Callable[[], AbstractContextManager[Any]] = NAMES.optional("jax.core.eval_context", otherwise=nullcontext)
"""Inside this context, operations on arrays are no part of a transformation that is running."""

is_untransformed: Callable[[], bool] = NAMES.optional("jax._src.core.trace_state_clean", otherwise=lambda: True)
"""Is no transformation running, as a gradient or ``jax.vmap``?"""

Jit = type(jax.jit(lambda: 0))
"""The type of a function made by ``jax.jit``."""

TRACED_AT: Any = NAMES.optional("jax._src.source_info_util.JaxStackTraceBeforeTransformation", otherwise=())
"""The cause of an error about traced code. Its traceback ends at the line where the code was traced."""

INSIDE = ("primal", "val")  # the attributes in which tracers of JVP, linearization and batching hold the inner value


def carried(value: Any, trace: Any) -> Any:
    """Return the tracer of a value that belongs to this transformation, found inside tracers of inner transformations;
    None if there is none.
    """
    while isinstance(value, jax.core.Tracer):
        if value._trace is trace:
            return value
        value = next((getattr(value, name) for name in INSIDE if hasattr(value, name)), None)
    return None


def of_devices(value: Any) -> Any | None:
    """Return the numbers of a tracer inside an uncompiled ``pmap`` or ``shard_map``, where the first axis counts the
    devices; None for any other value.
    """
    trace = getattr(value, "_trace", None) if isinstance(value, jax.core.Tracer) else None
    return getattr(value, "val", None) if type(trace).__name__ == "ShardMapTrace" else None


def trace_of(tracer: Any) -> Any:
    """Return the transformation to which a tracer belongs."""
    return tracer._trace


def primal(tracer: Any) -> Any:
    """Return the value that a tracer of a derivative has outside of that derivative."""
    return tracer.primal


def linearized_by(primitive: Any, rule: Callable[..., Any]) -> None:
    """Register a rule for linearizing a primitive, in releases that have such rules. Without it, JAX would trace the
    JVP.

    The rule receives the operand and the parameters. It returns the value, and a function that maps the operand's
    tangent to the value's tangent.
    """

    def linearize(*given: Any, **params: Any) -> Any:
        has_tangent, operand = given[-2:]  # newer releases first pass a flag: is this for a VJP?
        value, tangent_of = rule(operand, **params)
        return value, *has_tangent, None, lambda _, tangent: tangent_of(tangent)

    LINEARIZATIONS[primitive] = linearize


EVALUATING: Any = NAMES.optional("jax._src.core.eval_trace")
"""The trace that evaluates operations outside of all transformations."""

PROCESSING = {"process_primitive": False, "process_custom_jvp_call": True, "process_custom_vjp_call": True}
"""The methods by which a transformation processes an operation. The value is True for the methods that process an
operation with a custom derivative.
"""


Heard = Callable[[str, bool, Sequence[Any], Sequence[Any], Callable[[int], Sequence[Any]]], None]
"""A callback for operations: the name, whether it has a custom derivative, the inputs, the outputs, and a function that
returns the inputs from which a given output is computed.
"""


@contextmanager
def hearing_operations(trace: Any, told: Heard) -> Iterator[None]:
    """Inside this context, ``told`` is called for each operation in this one transformation."""
    with ExitStack() as replaced:
        for method, is_custom in PROCESSING.items():
            telling = functools.partial(_telling, getattr(trace, method), is_custom, told)
            replaced.enter_context(_replaced(trace, method, telling))
        yield


@contextmanager
def hearing_evaluations(
    told: Callable[[Any, Sequence[Any], Mapping[str, Any], Any], None], *, several: bool = False
) -> Iterator[None]:
    """Inside this context, ``told`` is called for each operation that runs outside of all transformations.

    It receives the primitive, the inputs, the parameters and the result. Operations with several results are reported
    only with ``several``. Nothing is reported in releases of JAX without ``EVALUATING``.
    """
    if EVALUATING is None:
        yield
        return
    process = EVALUATING.process_primitive

    def processing(primitive: Any, given: Any, params: Any, /) -> Any:
        given = [*given]
        made = process(primitive, given, params)
        if several or not isinstance(made, list | tuple):
            told(primitive, given, params, made)
        return made

    with _replaced(EVALUATING, "process_primitive", processing):
        yield


@contextmanager
def _replaced(trace: Any, method: str, by: Callable[..., Any]) -> Iterator[None]:
    # The previous method is restored afterwards, because such contexts can be nested.
    before = vars(trace).get(method)
    setattr(trace, method, by)
    try:
        yield
    finally:
        if before is None:
            delattr(trace, method)
        else:
            setattr(trace, method, before)


def _telling(process: Any, is_custom: bool, told: Heard, primitive: Any, given: Any, *rest: Any, **params: Any) -> Any:
    made = process(primitive, given, *rest, **params)
    outputs = made if isinstance(made, list | tuple) else [made]
    if is_custom:  # then the first argument is a function
        told(given.__name__, True, rest[-1], outputs, lambda at: rest[-1])
    else:
        told(primitive.name, False, given, outputs, functools.partial(_inputs_of, primitive, given, *rest))
    return made


def _inputs_of(primitive: Any, given: Sequence[Any], params: dict[str, Any], output: int) -> Sequence[Any]:
    # Return the inputs from which one output is computed. For a loop, branch or call, only the needed inputs are
    # returned.
    if primitive not in dce_rules:
        return given
    likes = [jax.ShapeDtypeStruct(jnp.shape(one), getattr(one, "dtype", type(one))) for one in given]
    try:
        inner = jax.make_jaxpr(functools.partial(primitive.bind, **params))(*likes).jaxpr
    except Exception:  # noqa: BLE001  # some can't be bound by themselves: the program has run, and is not to fail
        return given
    found = sources(inner.eqns[-1], output)
    return [one for one, var in zip(given, inner.invars, strict=True) if var in found]


def bind(equation: Any, values: list[Any]) -> list[Any]:
    """Run an equation of a jaxpr with other values."""
    made = equation.primitive.get_bind_params(equation.params)
    functions, params = made if isinstance(made, tuple) else ((), made)  # from JAX 0.10 on, only the parameters
    found = equation.primitive.bind(*functions, *values, **params)
    return list(found) if equation.primitive.multiple_results else [found]


def evaluated(jaxpr: Any, inputs: Sequence[Any], run: Callable[[Any, list[Any]], Sequence[Any]]) -> list[Any]:
    """Return the outputs of a jaxpr, closed or not. Each equation is run with ``run``."""
    jaxpr, constants = (jaxpr.jaxpr, jaxpr.consts) if isinstance(jaxpr, ClosedJaxpr) else (jaxpr, ())
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *inputs), strict=True))
    outputs = variables(jaxpr.outvars, jaxpr.eqns, values, run)
    return [_as_array(value, var.aval) for value, var in zip(outputs, jaxpr.outvars, strict=True)]


def _as_array(value: Any, aval: Any) -> Any:
    # Return an array, because a traced call returns arrays even if the function returned a number.
    return value if isinstance(value, jax.Array) else jnp.asarray(value, None if aval.weak_type else aval.dtype)


def variables(
    wanted: Iterable[Any],
    equations: Iterable[Any],
    given: Mapping[Any, Any],
    run: Callable[[Any, list[Any]], Sequence[Any]],
) -> list[Any]:
    """Return the values of these variables after running the equations; 0 for a variable that is neither given nor
    computed.
    """
    values = dict(given)

    def read(var: Any) -> Any:
        if isinstance(var, Literal):
            return var.val
        return values[var] if var in values else jnp.zeros(var.aval.shape, var.aval.dtype)

    for equation in equations:
        values.update(zip(equation.outvars, run(equation, [read(var) for var in equation.invars]), strict=True))
    return [read(var) for var in wanted]


def inner_jaxprs(equation: Any) -> list[Any]:
    """Return the jaxprs among the parameters of an equation."""
    found = []
    for parameter in equation.params.values():
        several = parameter if isinstance(parameter, tuple | list) else [parameter]
        found += [one for one in several if isinstance(one, ClosedJaxpr | Jaxpr)]
    return found


def instructions(equation: Any) -> list[tuple[CodeType, int]]:
    """Return the instructions that made an equation, innermost first; empty if the equation has no traceback, or if
    the release of JAX does not provide them.
    """
    raw = getattr(equation.source_info.traceback, "raw_frames", None)
    return [] if raw is None else [*zip(*raw(), strict=True)]


CALLS = frozenset({"jit", "pjit"})
"""The names of the operation that runs a compiled function."""


def traced_by(tracer: Any) -> tuple[Any, str]:
    """Return the traceback and name of the operation that made a value inside ``jax.jit``; None and "" elsewhere."""
    equation = getattr(tracer, "parent", None)
    primitive, params = getattr(equation, "primitive", None), getattr(equation, "params", {})
    if primitive is None:
        return None, ""
    name = params.get("name") if str(primitive) in CALLS else None
    return getattr(getattr(tracer, "_line_info", None), "traceback", None), str(name or primitive)


def function_name(jaxpr: Any) -> str | None:
    """Return the name of the function from which a jaxpr was traced; None if it is not known."""
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    name = getattr(getattr(inner, "debug_info", None), "func_name", None)
    return name if isinstance(name, str) and name.isidentifier() else None


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yield the equations of a jaxpr, including those of nested jaxprs."""
    for equation in jaxpr.eqns:
        yield equation
        yield from inner_equations(equation)


def inner_equations(equation: Any) -> Iterator[Any]:
    for jaxpr in inner_jaxprs(equation):
        yield from equations(jaxpr)


def read_by(jaxpr: Any) -> set[int]:
    """Return the ids of the variables that a jaxpr's equations read, and of its outputs."""
    return {id(var) for equation in jaxpr.eqns for var in equation.invars} | {id(var) for var in jaxpr.outvars}


def linear_jaxpr(derivative: Any, inputs: Sequence[Any], outputs: int) -> tuple[Any, Sequence[Any]]:
    """Return the linear jaxpr inside the result of ``jax.linearize``, and its constants.

    If it is not found inside the result, or if it lacks outputs because they have no linear input, the derivative is
    traced.
    """
    held = getattr(getattr(derivative, "func", None), "args", ())
    constants = next(iter(getattr(derivative, "args", ())), None)
    if isinstance(constants, list | tuple):
        for jaxpr in (one for one in held if isinstance(one, Jaxpr)):
            sizes = len(jaxpr.constvars), len(jaxpr.invars), len(jaxpr.outvars)
            if sizes == (len(constants), len(inputs), outputs):
                return jaxpr, constants
    closed = jax.make_jaxpr(derivative)(*inputs)
    return closed.jaxpr, closed.consts


def without_dead_code(jaxpr: Any, output: int) -> Any:
    """Return the jaxpr with only one of its outputs, and with all of its inputs."""
    return dce_jaxpr(jaxpr, [at == output for at in range(len(jaxpr.outvars))], instantiate=True)[0]


def with_params(jaxpr: Any, params_of: Callable[[Any], Mapping[str, Any] | None]) -> Any:
    """Return the jaxpr with further parameters added to some equations."""
    equations = []
    for equation in jaxpr.eqns:
        further = params_of(equation)
        equations.append(equation if further is None else equation.replace(params={**equation.params, **further}))
    return jaxpr.replace(eqns=equations)


def run_backward(jaxpr: Any, constants: Sequence[Any], cotangent: Any) -> list[Any]:
    """Transpose a linear jaxpr with one output. Returns the cotangent of each input. If nothing arrives at an input, it
    is None, or zeros in releases without ``BACKWARD``.
    """
    if BACKWARD is not None:
        avals = [var.aval for var in jaxpr.invars]
        unknown = [UndefinedPrimal(aval.to_ct_aval() if hasattr(aval, "to_ct_aval") else aval) for aval in avals]
        found = BACKWARD(jaxpr, True, constants, unknown, [cotangent])
        return [None if isinstance(one, Zero) else one for one in found]
    closed = ClosedJaxpr(jaxpr, constants)
    likes = [jax.ShapeDtypeStruct(var.aval.shape, var.aval.dtype) for var in jaxpr.invars]
    return list(jax.linear_transpose(lambda *tangents: evaluated(closed, tangents, bind)[0], *likes)(cotangent))


def sources(equation: Any, output: int) -> list[Any]:
    """Return the variables on which one output of an equation depends, looking into loops, branches and calls."""
    used = [at == output for at in range(len(equation.outvars))]
    rule = dce_rules.get(equation.primitive)
    needed = [True] * len(equation.invars) if rule is None else rule(used, equation)[0]
    return [
        var
        for var, is_needed in zip(equation.invars, needed, strict=True)
        if is_needed and not isinstance(var, Literal)
    ]


def scan_parts(params: dict[str, Any]) -> tuple[int, int]:
    """Return the number of constants and of carried values among a scan's inputs."""
    if "num_carry" in params:
        return params["num_consts"], params["num_carry"]
    constants, carried, _ = params["ft_in"].unpack()
    return len(constants), len(carried)


STAGED = {"vmap_f", "fun_remat"}  # names of the functions that jax.vmap and jax.checkpoint return


FOLDER = jax.__file__.removesuffix("__init__.py")


def is_staged(function: Any) -> bool:
    """Was the function made by ``jax.vmap`` or ``jax.checkpoint``? These trace the function inside."""
    for _ in range(8):
        if not isinstance(function, FunctionType):
            return False
        code = function.__code__
        if not code.co_filename.startswith(FOLDER):
            return False
        if code.co_name in STAGED:
            return True
        function = next((one for one in _enclosed(function) if one.__code__.co_name in STAGED), None)
    return False


def _enclosed(function: FunctionType) -> list[FunctionType]:
    # Return the functions in the closure of a function.
    return [one for one in map(contents, function.__closure__ or ()) if isinstance(one, FunctionType)]


DERIVING = frozenset({"grad", "value_and_grad", "jacfwd", "jacrev", "hessian"})
"""Functions that return a function which differentiates another one."""
DERIVATIVES = DERIVING | {"jacobian", "vjp", "jvp", "linearize"}
"""``DERIVING``, and functions that also take the arguments of the differentiated function."""
PULLBACKS = frozenset({"VJP", "Partial"})
"""The types of the derivatives that ``jax.vjp`` and ``jax.linearize`` return."""


def is_derivative(function: Any) -> bool:
    """Is the function a result of ``jax.vjp`` or ``jax.linearize``?"""
    return type(function).__name__ in PULLBACKS and type(function).__module__.startswith("jax.")


def differentiated_by(function: Any) -> Any:
    """Return the function that ``function`` differentiates, if ``jax.grad`` or a similar function made it; None
    otherwise.
    """
    if not isinstance(function, FunctionType) or not function.__code__.co_filename.startswith(FOLDER):
        return None
    known = (one.__code__.co_qualname.partition(".")[0] for one in (function, *_enclosed(function)))
    return None if DERIVING.isdisjoint(known) else getattr(function, "__wrapped__", None)


def double_precision(enabled: bool) -> AbstractContextManager[Any]:
    """Inside this context, if ``enabled``, arrays may have 64 bits even if the program's settings forbid it."""
    if not enabled:
        return nullcontext()
    if hasattr(jax, "enable_x64"):  # from JAX 0.8 on
        return jax.enable_x64(True)  # type: ignore[no-any-return]  # JAX's context has no type
    from jax.experimental import enable_x64  # type: ignore[attr-defined]  # older releases of JAX have it there

    return enable_x64()  # type: ignore[no-any-return]  # JAX's context has no type


SCAN, WHILE = scan_p.name, while_p.name


GRADIENT, VJP = "value_and_grad_f", ("vjp", "_vjp")
"""The name of the function that ``jax.grad`` and ``jax.value_and_grad`` return, and the names of the functions that it
calls to differentiate.
"""


def _differentiating() -> tuple[Any, str] | None:
    # Return the module and name by which ``jax.value_and_grad`` looks up the function that differentiates; None in
    # releases that do it in another way.
    made: Any = jax.value_and_grad(abs)
    for _ in range(8):
        if made.__code__.co_name == GRADIENT:
            module = sys.modules[made.__globals__["__name__"]]
            return next(
                ((module, name) for name in VJP if name in made.__code__.co_names and name in vars(module)), None
            )
        made = next(iter(_enclosed(made)), None)
        if made is None:
            return None
    return None


DIFFERENTIATING = _differentiating()
JACOBIAN = "jacrev."
"""The beginning of the qualified name of the function that ``jax.jacrev`` returns."""


def is_jacobian(frame: Any) -> bool:
    return bool(frame.f_code.co_qualname.startswith(JACOBIAN))


def gradient_asked(frame: Any) -> Any:
    """Return the frame of the gradient that is being computed, at most a few levels out; None if there is none."""
    for one in islice(callers(frame), 6):
        is_known = one.f_code.co_name == GRADIENT or is_jacobian(one)
        if is_known and one.f_code.co_filename.startswith(FOLDER):
            return one
    return None
