"""Notes on what JAX's transformations refuse: known by the words of its errors, explained by the program's own line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from backprobe.backends.facts import Advice
from backprobe.backends.jax.failed_calls import FailedCall

Match = re.Match[str]


class Refusal(NamedTuple):
    """An error of JAX's, by its class and how its text begins, and what is said of it."""

    kind: type[BaseException]
    text: re.Pattern[str]
    advice: Callable[[Match, FailedCall], Advice]


def refused(error: BaseException) -> Advice | None:
    """What to add to an error of a transformation; None for one that is not known."""
    for kind, text, advice in REFUSALS:
        found = text.match(str(error)) if isinstance(error, kind) else None
        if found is not None:
            return advice(found, FailedCall.of(error))
    return None


# what is differentiated


def _no_such_argument(found: Match, call: FailedCall) -> Advice:
    asked, given = found[1], int(found[2])
    by_keyword = " and ".join(call.keywords)
    if by_keyword:
        next = f"give {by_keyword} by position, without the name"
    elif given:
        next = "argnums=0" if given == 1 else f"argnums from 0 to {given - 1}"
    else:
        next = "give what is to be differentiated by position"
    return Advice(
        f"argnums={asked} asks for an argument that the call does not have", call.line, next,
        found=f"{_counted(given, 'positional argument')}" + (f", and {by_keyword} by keyword" if by_keyword else ""),
        why="argnums counts from 0, and counts positional arguments alone",
    )  # fmt: skip


def _not_floating(found: Match, call: FailedCall) -> Advice:
    known = list(call.not_differentiable())
    names = ", ".join(f"{text} is {kind}" for text, kind in known[:3])
    if any("[" in text or "." in text for text, _ in known):
        next = "pass it in an argument of its own that is not differentiated; a floating array if it is to be"
    elif known and all(text.lstrip("-").isdigit() for text, _ in known):
        next = f"{known[0][0]}.0 in its place, or argnums without it"
    else:
        name = known[0][0] if known else "u"
        next = f"argnums without it, or {name}.astype(jnp.float32) if it is to be differentiated"
    return Advice(
        f"the gradient is asked for with respect to what has dtype {found[1]}", call.line, next,
        found=names, why="only floating-point and complex values have derivatives",
    )  # fmt: skip


# what is returned


def _not_scalar(found: Match, call: FailedCall) -> Advice:
    shape, is_one = found[1], set(re.findall(r"\d+", found[1])) == {"1"}
    reduced = "loss.squeeze(), which is that number itself" if is_one else (
        "jnp.mean or jnp.sum of what it returns, or jax.jacrev for the derivatives of each element"
    )  # fmt: skip
    return Advice(
        "the function that is differentiated does not return a scalar", call.line, reduced,
        found=f"an array of shape {shape}", why="a gradient is that of one number",
    )  # fmt: skip


def _nothing_returned(found: Match, call: FailedCall) -> Advice:
    return Advice(
        "the function that is differentiated returns None", call.line, "return the loss at its end",
        why="a gradient is that of the number which is returned",
    )  # fmt: skip


def _several_returned(found: Match, call: FailedCall) -> Advice:
    with_aux = call.transformed("has_aux=True in the call that differentiates it", has_aux="True")
    opened = found[1]
    kind = {"(": "a tuple", "[": "a list", "{": "a dict"}[opened]
    returned = "" if opened == "(" else "return loss, others, a tuple of two, and "
    return Advice(
        "the function that is differentiated returns more than the loss", call.line,
        f"{returned}{with_aux}: the first of two that are returned is differentiated, and the second handed on",
        found=kind, why="a gradient is that of one number",
    )  # fmt: skip


def _not_real(found: Match, call: FailedCall) -> Advice:
    is_complex = found[1].startswith("complex")
    next = (
        "return jnp.real(z), or jnp.abs(z)**2; holomorphic=True where the arguments are complex and the function is "
        "complex-differentiable" if is_complex else
        "return a floating-point value: what makes it whole numbers or True and False (argmax, a comparison, "
        "astype(int)) has no derivative"
    )  # fmt: skip
    why = "the gradient of a complex number has no single meaning" if is_complex else "whole numbers have no derivative"
    return Advice(
        "the function that is differentiated does not return a real floating-point number", call.line, next,
        found=f"dtype {found[1]}", why=why,
    )  # fmt: skip


def _no_pair(found: Match, call: FailedCall) -> Advice:
    is_tuple = found[1] in ("tuple", "list")
    without = call.transformed("", has_aux="False").replace(", has_aux=False", "")
    next = "return loss, (a, b): all others together as the second" if is_tuple else (
        "return loss, extra, or leave out has_aux" + (f": {without}" if without else "")
    )  # fmt: skip
    return Advice(
        "has_aux=True says that the function returns a tuple of two, the loss and anything else", call.line, next,
        found=f"a {found[1]}, not of two" if is_tuple else "one value",
    )  # fmt: skip


# loops


def _no_step(found: Match, call: FailedCall) -> Advice:
    return Advice(
        "the step of jax.lax.scan does not return a pair, the next carry and what is stacked", call.line,
        "return carry, None", found=found[1],
    )  # fmt: skip


def _carry_changes(found: Match, call: FailedCall) -> Advice:
    types, dtype = re.search(r"has type (\S+) but .+? has type ([^\s,]+\]?)", found[0]), "dtypes do not" in found[0]
    next = (
        "begin with the dtype that the step returns, as in jnp.zeros(shape, dtype), or return carry.astype(dtype)"
        if dtype else
        "a carry keeps its shape: begin with an array of the last shape, and write to it with carry.at[i].set(value);\n"
        "or use jax.lax.scan, and return what grows as the second of the pair, which is stacked"
    )  # fmt: skip
    kind = "dtype" if dtype else "shape"
    return Advice(
        f"a carry comes out of the loop's step with another {kind} than it went in with", call.line, next,
        found="" if types is None else f"{types[1]} becomes {types[2]}",
        why="JAX traces the step once, for all turns",
    )  # fmt: skip


# jax.vmap


def _other_sizes(found: Match, call: FailedCall) -> Advice:
    sizes = list(dict.fromkeys(re.findall(r"had size (\d+)", found[0])))
    return Advice(
        "jax.vmap maps over axes of different sizes", call.line,
        "in_axes with None for what is not mapped, in_axes=(0, None); or arrays of one size along the axes",
        found=" and ".join(sizes), why="it takes the n-th of each argument together",
    )  # fmt: skip


def _no_axis(found: Match, call: FailedCall) -> Advice:
    axis, shape = found[1], found[2]
    return Advice(
        f"jax.vmap is to map over axis {axis} of an argument that has no such axis", call.line,
        "in_axes with an axis that it has, or None for what is not mapped, in_axes=(0, None)", found=f"shape {shape}",
    )  # fmt: skip


# rules of the program's own, and others


def _other_structure(found: Match, call: FailedCall) -> Advice:
    return Advice(
        "the backward rule of a jax.custom_vjp does not return one gradient for each argument", None,
        "a tuple with one for each argument that is not in nondiff_argnums: (g * b, g * a), (g * b,) where there is "
        "one, and None for what has none",
    )  # fmt: skip


def _other_type(found: Match, call: FailedCall) -> Advice:
    at = int(found[1]) if found[1] else None
    which = "a gradient" if at is None else f"gradient {at}, counted from 0,"
    return Advice(
        f"{which} that the backward rule of a jax.custom_vjp returns has another type than its argument", None,
        "sum over what the argument was broadcast along, or broadcast what was summed; .astype of the argument's dtype",
        found=f"{found[2]} for an argument of {found[3]}",
    )  # fmt: skip


def _forward_mode(found: Match, call: FailedCall) -> Advice:
    return Advice(
        "a function with a jax.custom_vjp is differentiated in forward mode, as by jax.jvp, jacfwd and jax.hessian",
        call.line, "jax.jacrev, or a jax.custom_jvp in its place, which serves both",
        why="its rule goes backward alone",
    )  # fmt: skip


def _not_an_array(found: Match, call: FailedCall) -> Advice:
    return Advice(
        "what a transformation of JAX is given, or its function returns, is not an array or a number", call.line,
        "take it from the function around, functools.partial(f, option=...), or out of the container of parameters; "
        "Equinox' filter_grad and filter_jit leave such leaves alone",
        found=f"{found[1]} of type {found[2]}",
    )  # fmt: skip


def _deleted(found: Match, call: FailedCall) -> Advice:
    return Advice(
        "an array is used whose memory has been given away", call.line,
        "go on with what that call returned: params = step(params); or leave out donate_argnums",
        found=f"shape {found[1]}", why="a call with donate_argnums, or .delete(), has ended it",
    )  # fmt: skip


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _begins(text: str) -> re.Pattern[str]:
    return re.compile(text, re.DOTALL)


REFUSALS = (
    Refusal(TypeError, _begins(
        r"differentiating with respect to argnums=(.+?) requires at least .+? but got only (\d+) positional"
    ), _no_such_argument),
    Refusal(TypeError, _begins(r"\w+ requires real-(?:or |or complex-| or complex-)?valued inputs.+?but got (\w+)"),
            _not_floating),
    Refusal(TypeError, _begins(r"Gradient only defined for scalar-output functions\. Output had shape: (.+?)\.$"),
            _not_scalar),
    Refusal(TypeError, _begins(r"Gradient only defined for scalar-output functions\. Output was None"),
            _nothing_returned),
    Refusal(TypeError, _begins(r"Gradient only defined for scalar-output functions\. Output was ([(\[{])"),
            _several_returned),
    Refusal(TypeError, _begins(r"\w+ requires real-valued outputs.+?but got (\w+)"), _not_real),
    Refusal(TypeError, _begins(
        r"expected function with aux output to return a two-element tuple, but got type <class '(?:.*\.)?(\w+)'>"
    ), _no_pair),
    Refusal(TypeError, _begins(r"scan body output must be a pair, got (.+?)\.?$"), _no_step),
    Refusal(TypeError, _begins(
        r"\w+ body function carry input and carry output must have equal types.+?(?:shapes|dtypes) do not match"
    ), _carry_changes),
    Refusal(ValueError, _begins(r"vmap got inconsistent sizes for array axes to be mapped.+"), _other_sizes),
    Refusal(ValueError, _begins(
        r"vmap was requested to map its argument along axis (-?\d+).+?its shape is (\(.*?\))\)"
    ), _no_axis),
    Refusal(TypeError, _begins(
        r"Custom VJP bwd rule must produce an output with the same container \(pytree\) structure"
    ), _other_structure),
    Refusal(ValueError, _begins(
        r"Custom VJP bwd rule must produce an output with the same (?:type|shape).+?(?:at output\[(\d+)\].+?)?"
        r"output of (?:type|shape/dtype) (\S+) corresponding to an input of (?:type|shape/dtype) (\S+?),?(?:\s|$)"
    ), _other_type),
    Refusal(TypeError, _begins(r"can't apply forward-mode autodiff \(jvp\) to a custom_vjp function"), _forward_mode),
    Refusal(NotImplementedError, _begins(r"Differentiation rule for 'custom_lin' not implemented"), _forward_mode),
    Refusal(TypeError, _begins(r"Argument '(.+?)' of type <class '(.+?)'> is not a valid JAX type"), _not_an_array),
    Refusal(RuntimeError, _begins(r"Array has been deleted with shape=(\S+?)\.?$"), _deleted),
)  # fmt: skip
