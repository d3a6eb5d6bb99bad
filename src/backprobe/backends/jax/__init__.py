"""JAX: the adapter that the rest of backprobe talks to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.facts import Description, Options
from backprobe.backends.immutable import HostArrays
from backprobe.backends.jax import calls, models
from backprobe.backends.jax.recheck import JaxCalls
from backprobe.backends.jax.tape import JaxTape
from backprobe.backends.jax.tensors import describe, is_array
from backprobe.backends.protocol import ModelCall
from backprobe.errors import NoSource, StrategyRefused, Unsupported
from backprobe.source.cell import Cell

STAGES = (jax.stages.Compiled, jax.stages.Lowered, jax.stages.Traced)
VALUE_WANTED = (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError)


class JaxBackend(HostArrays):
    """JAX's ``Backend``."""

    name = "jax"

    def is_tensor(self, value: Any) -> bool:
        return is_array(value)

    def buffers(self, model: Any) -> Mapping[str, Any]:
        return {}  # a model's state has entries, as its parameters do

    def is_model(self, value: Any) -> bool:
        return models.kind(value) is not None

    def open(self, options: Options) -> JaxTape:
        if options.strategy != "edges":
            raise StrategyRefused(
                f"the strategy {options.strategy!r} is PyTorch's", asked=f"strategy={options.strategy!r}",
                found="JAX", why="JAX transposes the linearized program, once for all values", next='strategy="edges"',
            )  # fmt: skip
        if options.create_graph:
            raise Unsupported(
                "a recording of JAX keeps no graph to differentiate again", asked="create_graph=True", found="JAX",
                why="in JAX a gradient is differentiated by differentiating the function that computes it",
                next="jax.grad(lambda x: bp.probe(f)(x)['u'].grad.sum())(x)",
            )  # fmt: skip
        return JaxTape(options)

    def open_block(self, options: Options) -> NoReturn:
        _refuse_block("with bp.probe() as rec:", "put the lines into a function f and write rec = bp.probe(f)(x)")

    def refuse_in_block(self, target: Any, asked: str) -> NoReturn:
        _refuse_block(asked, "rec = bp.probe(f)(x), with f the model itself, or a function that has the lines")

    def program(self, target: Any, session: Any) -> None:
        return None

    def call(self, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ModelCall:
        return models.call(model, args, kwargs)

    def calls(self) -> JaxCalls:
        return JaxCalls()

    def refuse(self, target: Any, asked: str) -> None:
        name, module = getattr(target, "__name__", None), str(getattr(target, "__module__", ""))
        if name is not None and module.startswith("jax."):
            raise NoSource(
                f"{name} is a function of JAX itself", asked=asked, found=f"a function of {module}",
                why="names come from the source text of your functions", next="bp.probe(lambda x: jnp.exp(x))",
            )  # fmt: skip
        if isinstance(target, Cell):
            raise Unsupported(
                "a cell cannot be probed in JAX", asked=asked, found="arrays that nothing differentiates",
                why="in JAX a gradient is of a function, towards its arguments; no array requires one by itself",
                next="put the lines into a function f and write rec = bp.probe(f)(x)",
            )  # fmt: skip
        if isinstance(target, STAGES):
            raise Unsupported(
                "a compiled function cannot be probed", asked=asked, found=type(target).__name__,
                why="its code was fixed when it was compiled; names put in now would be missed silently",
                next="probe the function itself, or jax.jit(function)",
            )  # fmt: skip
        if calls.is_wrapper(target) and calls.jitted(target) is None:
            raise Unsupported(
                "what Equinox has wrapped a function in cannot be probed itself", asked=asked,
                found=f"an object of type {type(target).__name__}", why="it has no bindings of its own",
                next="a function that calls it: bp.probe(lambda *args: wrapped(*args))",
            )  # fmt: skip
        if isinstance(target, jax.ShapeDtypeStruct):
            raise Unsupported(
                "an argument is a shape without numbers", asked=asked, found=str(target),
                why="a gradient is taken at a point",
                next=f"jax.numpy.ones({tuple(target.shape)}, {str(target.dtype)!r}), or another array of that shape",
            )  # fmt: skip

    def second(self, value: Any, gradient: Any, vector: Any) -> Any:
        return None

    def failure(self, error: BaseException, tape: object, captures: object) -> None:
        return None

    def graph_facts(self, output: object, tensor: object) -> NoReturn:
        raise Unsupported(
            "nothing can be told of a tensor alone", asked="bp.explain(loss, tensor)", found='JAX',
            why="a JAX array knows nothing of what it was computed from",
            next="rec = bp.probe(f)(x), with what computes the loss in a function f, and bp.explain(rec, 'u')",
        )  # fmt: skip

    def explain_error(self, error: BaseException) -> str | None:
        if isinstance(error, VALUE_WANTED):
            return (
                "backprobe: the program asks for the number in a value that JAX only traces, as under jax.grad; "
                "u.item() gives it, except inside jit, scan, cond, vmap and checkpoint"
            )
        if isinstance(error, ValueError) and "Reverse-mode differentiation" in str(error):
            return "backprobe: a loop can be differentiated if its number of turns is known beforehand: lax.scan"
        return None

    def describe(self, tensor: Any) -> Description:
        return describe(tensor)

    def to_host(self, tensor: Any) -> Any:
        if isinstance(tensor, jax.core.Tracer):
            raise Unsupported(
                "a recording made inside jit has no numbers yet", asked="the numbers of a value", found=str(tensor),
                why="jax.jit traces the function that the probe is called in, and computes later",
                next="return what you need from the jitted function: rec['u'].grad",
            )  # fmt: skip
        return numpy.asarray(tensor)

    def from_host(self, array: Any, dtype: str) -> Any:
        return jnp.asarray(array, dtype)


def _refuse_block(asked: str, next: str) -> NoReturn:
    raise Unsupported(
        "a block cannot be probed in JAX", asked=asked, found="arrays that nothing differentiates",
        why="in JAX a gradient is of a function, towards its arguments; no array requires one by itself", next=next,
    )  # fmt: skip


BACKEND = JaxBackend()
