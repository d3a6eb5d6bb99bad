"""Prepares a Keras model for one call: its layers report their results, and some run a ``call`` that reports its
locals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.capabilities import ModelCall, ModuleObserver
from backprobe.backends.patching import definer_of, listening, original
from backprobe.backends.tensorflow.arguments import is_floating_leaf
from backprobe.backends.tensorflow.layers import instead, is_layer, is_symbolic, own_call
from backprobe.backends.tensorflow.model_plans import Structure, structure_of
from backprobe.backends.tensorflow.private import is_compiled


@dataclass
class KerasModelCall(ModelCall):
    """Implements ``ModelCall`` for Keras. The model is not altered, and Variables are differentiated if they are
    ``trainable``.

    Floating-point inputs are differentiated too, so that layers before the first trainable one also have gradients.
    """

    model: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @cached_property
    def inputs(self) -> Mapping[str, Any]:
        given = enumerate(tf.nest.flatten((self.args, dict(self.kwargs))))
        return {
            str(at): leaf
            for at, leaf in given
            if isinstance(leaf, tf.Tensor | numpy.ndarray) and is_floating_leaf(leaf)
        }

    @property
    def forward(self) -> Any:
        return own_call(self.model)

    @cached_property
    def structure(self) -> Structure:
        return structure_of(self.model)

    def module_paths(self) -> Iterable[str]:
        return [path for path, _ in self.structure.modules]

    def forwards(self) -> Mapping[str, Any]:
        return {every[0]: own_call(module) for module, every in self.structure.known.values() if is_layer(module)}

    def kinds(self) -> Mapping[str, str]:
        return {path: type(module).__name__ for path, module in self.structure.modules}

    def parameter_paths(self) -> Iterable[str]:
        return [path for path, _ in self.structure.variables]

    @property
    def is_known(self) -> bool:
        return _is_built(self.structure)

    def run(self, inputs: Mapping[str, Any], observer: ModuleObserver) -> Any:
        given = (self.args, dict(self.kwargs))
        flat = [inputs.get(str(at), leaf) for at, leaf in enumerate(tf.nest.flatten(given))]
        args, kwargs = tf.nest.pack_sequence_as(given, flat)
        with observing(self.model, observer) as reporter:
            result = self.model(*args, **kwargs)
        self.structure = reporter.structure
        return result


@contextmanager
def observing(model: Any, observer: ModuleObserver) -> Iterator[Reporter]:
    """Inside this context the model's layers report to the observer in this thread; afterwards all patches are removed.

    Results are read where the layer's class is called, because ``call`` alone would miss the steps that Keras adds
    around it.
    """
    reporter = Reporter(model, observer)
    with ExitStack() as installed:
        known = reporter.structure.known.values()
        for module, every in known:
            call = _reporting_call(module, every[0], observer)
            if call is not None:
                installed.enter_context(listening(module, "call", partial(instead, call)))
        for kind in dict.fromkeys(definer_of(type(module), "__call__") for module, _ in known):
            installed.enter_context(listening(kind, "__call__", partial(reporter.called, kind)))
        yield reporter
    reporter.finish()


def _reporting_call(module: Any, path: str, observer: ModuleObserver) -> Callable[..., Any] | None:
    # Return the function that replaces a layer's ``call``; None if ``call`` can run unchanged.
    if not is_layer(module):
        return None
    rewritten = observer.rewritten(path, own_call(module)) if observer.wants_locals(path) else None
    # the layers inside a compiled ``call`` would run only once, on symbols
    return rewritten or (own_call(module) if is_compiled(original(module, "call")) else None)


def _is_built(structure: Structure) -> bool:
    return all(getattr(module, "built", True) for module, _ in structure.known.values())


class Reporter:
    """Receives the calls of a model's layers instead of their ``__call__``, and reports their results."""

    def __init__(self, model: Any, observer: ModuleObserver) -> None:
        self.model, self.observer = model, observer
        self.parameters: set[str] = set()
        self.look()
        self.report_parameters()

    def look(self) -> None:
        """Search the model again, because a layer may create inner layers when it first runs."""
        self.structure = structure_of(self.model)

    def report_parameters(self) -> None:
        """Report parameters that are new since the last time, because a layer creates its Variables when it first
        runs.
        """
        self.is_built = _is_built(self.structure)
        for path, variable in self.structure.variables:
            if path not in self.parameters:
                self.parameters.add(path)
                self.observer.parameter(path, variable)

    def called(self, kind: type, following: Callable[..., Any], module: Any, /, *args: Any, **kwargs: Any) -> Any:
        is_first = kind is definer_of(type(module), "__call__")  # and not the method of a base, which that one calls
        is_outermost = module is self.model and is_first
        if is_outermost and not is_symbolic((args, kwargs)):
            self.observer.given((args, kwargs))
        output = following(module, *args, **kwargs)
        if not is_first or is_symbolic(output):
            return output
        if id(module) not in self.structure.known:
            self.look()
            self.is_built &= id(module) not in self.structure.known  # a new layer has new Variables
        for path in self.structure.known.get(id(module), (None, ()))[1]:
            if self.observer.wants_output(path):
                self.observer.executed.add(path)
                output = self.observer.returned(path, output)
        if is_outermost:
            self.finish()
        return output

    def finish(self) -> None:
        """Report the parameters that the run has created. Called after the model has run."""
        if not self.is_built:
            self.look()
            self.report_parameters()
