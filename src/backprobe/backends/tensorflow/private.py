"""Private names of TensorFlow. If a release has moved one that is looked up when this file is imported, the import
fails.
"""

from __future__ import annotations

import random
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from operator import attrgetter
from types import FunctionType, MethodType
from typing import Any

import tensorflow as tf

from backprobe.backends.framework_code import CodeOf
from backprobe.errors import Unsupported

try:
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.autograph.impl import api
    from tensorflow.python.client.session import BaseSession
    from tensorflow.python.eager import backprop, context, execute, record
    from tensorflow.python.eager.polymorphic_function import polymorphic_function
    from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
    from tensorflow.python.framework import op_def_registry, ops
    from tensorflow.python.framework.convert_to_constants import _run_inline_graph_optimization as inline
    from tensorflow.python.lib.io import file_io
    from tensorflow.python.ops import (
        custom_gradient,
        gen_io_ops,
        gen_summary_ops,
        gradients_util,
        script_ops,
        stateful_random_ops,
    )

    _ = stateful_random_ops.global_generator
    from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable, ResourceVariable

    _ = op_def_registry.get, execute.quick_execute, backprop._gradient_function
    execute_with_callbacks = execute.execute_with_callbacks
    _ = context.context, context.Context.add_op_callback, context.Context.remove_op_callback
    seed_eager = context.Context._set_global_seed
    should_record_backprop, record_operation = record.should_record_backprop, record.record_operation
    stop, restart = pywrap_tfe.TFE_Py_TapeSetStopOnThread, pywrap_tfe.TFE_Py_TapeSetRestartOnThread
    is_stopped, could_record = pywrap_tfe.TFE_Py_TapeSetIsStopped, record.could_possibly_record
    EagerTensor, SymbolicTensor = ops.EagerTensor, ops.SymbolicTensor
    GRADIENTS = ops.gradient_registry
    shape_of, dtype_number = EagerTensor._shape_tuple, EagerTensor._datatype_enum
    UNREAD = frozenset({EagerTensor, str, int, bool, float, type(None), tf.DType})
    CONVERTING, OWN_GRADIENTS = CodeOf(api, "converted_call"), custom_gradient.__file__
    _ = pywrap_tfe.TFE_Py_FastPathExecute
    GIVING, PUSH, POP = ("gradient", "jacobian", "batch_jacobian"), "_push_tape", "_pop_tape"
    BACKWARD = CodeOf(backprop, *(f"GradientTape.{name}" for name in GIVING))
    CALLED_FUNCTION = ConcreteFunction, "_call_flat"
    LEAVING = ops._EagerTensorBase, "_numpy"
    EXECUTING, RECORDING = (execute, "execute"), (record, "record_operation")
    EXECUTING_FAST, RESOURCE = (pywrap_tfe, "TFE_Py_FastPathExecute"), BaseResourceVariable
    NUMPY_FUNCTION = script_ops, "py_func_common"
    _ = script_ops.py_func_common
    RUN_EAGERLY = CodeOf(polymorphic_function, "Function.__call__")
    _ = ConcreteFunction._call_flat
    _ = ops._EagerTensorBase._numpy
    _ = ops.uid
    TAKING, AGGREGATING = (gradients_util, "_GradientsHelper"), (gradients_util, "_AggregatedGrads")
    RUNNING, LOOKING_UP = (BaseSession, "run"), (type(ops.gradient_registry), "lookup")
    WRITING = [
        (kind, one)
        for kind in (ResourceVariable, BaseResourceVariable)
        for one in vars(kind)
        if ("assign" in one or "scatter" in one) and "depend" not in one
    ]
    _ = gradients_util._GradientsHelper, gradients_util._AggregatedGrads, BaseSession.run
    eagerly = context.eager_mode
    _ = api.converted_call, tf.GradientTape._push_tape, tf.GradientTape._pop_tape
except (ImportError, AttributeError) as error:
    raise Unsupported(
        "this release of TensorFlow has moved what backprobe listens to",
        asked="the gradients of TensorFlow values",
        found=str(error),
        why="its operation callbacks and its gradient tapes have no public interface for this",
        next="pip install 'tensorflow>=2.18,<=2.21'",
    ) from error


@contextmanager
def calling_back(operation: Callable[..., None]) -> Iterator[None]:
    """Inside this context, TensorFlow calls ``operation`` after the operations of this thread, as an op callback."""
    # not with op_callbacks.add_op_callback: removing its callback also affects other threads that still need theirs
    thread = context.context()
    thread.add_op_callback(operation)
    try:
        yield
    finally:
        thread.remove_op_callback(operation)


@contextmanager
def all_stopped() -> Iterator[None]:
    """Inside this context no tape records."""
    if is_stopped():
        yield
        return
    stop()
    try:
        yield
    finally:
        restart()


def argument_names(kind: str, count: int) -> list[str]:
    """Return the argument names of this kind of operation, if it takes ``count`` inputs with one name each; otherwise
    numbered names.
    """
    definition = op_def_registry.get(kind)
    named = [one.name for one in definition.input_arg] if definition is not None else []
    return named if len(named) == count else [f"input {nth}" for nth in range(1, count + 1)]


def is_stateful(kind: str) -> bool:
    """Does this kind of operation change state, or read state that may change, such as that of a random generator?
    Unknown kinds count as such.
    """
    definition = op_def_registry.get(kind)
    return definition is None or bool(definition.is_stateful)


def executed(kind: str, inputs: Sequence[Any], attrs: Any) -> Any:
    """Run an operation, and return its first result."""
    return execute.quick_execute(kind, 1, [*inputs], attrs, context.context())[0]


def gradients_of(kind: str, attrs: Any, inputs: Sequence[Any], outputs: Sequence[Any], given: Sequence[Any]) -> Any:
    """Return the gradients of an operation's inputs, given the gradients of its outputs, as a tape computes them.

    Raises LookupError for an operation without a gradient.
    """
    return backprop._gradient_function(kind, attrs, len(inputs), [*inputs], [*outputs], [*given], (), "")


def kept_of(kind: str, attrs: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Return the indices of the inputs and outputs that a recording tape keeps for an operation. Nothing is run again.

    A separate tape records the operation with copies of the tensors that share their memory. Copies that the
    operation's gradient does not use are freed.
    """
    copies = [[_again(one) for one in several] for several in (inputs, outputs)]
    with backprop.GradientTape() as tape:
        tape.watch([*filter(has_derivatives, copies[0])])
        execute.record_gradient(kind, copies[0], attrs, copies[1])
    references = [[*map(weakref.ref, several)] for several in copies]
    del copies
    kept = [[at for at, one in enumerate(several) if one() is not None] for several in references]
    return kept[0], kept[1]


def read_from(tensors: Sequence[Any]) -> list[Any]:
    """Return the values of the Variables whose handles are among these tensors."""
    known = [(one, getattr(one, "_handle_data", None)) for one in tensors if one.dtype == tf.resource]
    dtypes = [(one, data.shape_and_type[0].dtype) for one, data in known if data is not None and data.is_set]
    return [executed("ReadVariableOp", [one], ("dtype", dtype)) for one, dtype in dtypes]


def has_derivatives(tensor: Any) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def _again(tensor: Any) -> Any:
    # Return another tensor on the same memory. A handle is returned unchanged.
    if tensor.dtype in (tf.resource, tf.variant):
        return tensor
    return executed("Identity", [tensor], ("T", dtype_number(tensor)))


def unrecorded(function: Callable[[Any], Any], given: Any) -> Any:
    """Return the result of a function that no tape records."""
    with all_stopped():
        return function(given)


def writers() -> list[tuple[Any, str]]:
    """Return the functions that write files in C++, including those of h5py if it is imported."""
    found = [
        (file_io.FileIO, "_prewrite_check"),
        (gen_io_ops, "write_file"),
        (gen_io_ops, "save_v2"),
        (gen_summary_ops, "create_summary_file_writer"),
    ]
    h5py = sys.modules.get("h5py")
    return found if h5py is None else [*found, (h5py, "File")]


def operation_seeds() -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Return functions that read and set the state from which eager operations get their seeds. Without such a state
    they do nothing.
    """
    drawn: random.Random | None = getattr(context.context(), "_rng", None)
    return (lambda: None, lambda _: None) if drawn is None else (drawn.getstate, drawn.setstate)


@contextmanager
def operations_seeded() -> Iterator[Callable[[int, bool], None]]:
    """Inside this context random operations can be seeded; afterwards they continue as before.

    Yields a function with two arguments: the seed, and whether kernels that have drawn before should start anew.
    """
    eager = context.context()
    before = {name: value for name, value in vars(eager).items() if name in ("_seed", "_rng")}
    begun: list[int] = []

    def begin(seed: int, is_anew: bool) -> None:
        if is_anew:
            begun.append(seed)
            seed_eager(eager, seed)
        else:
            eager._seed, eager._rng = seed, random.Random(seed)

    try:
        yield begin
    finally:
        if begun:  # otherwise a kernel that drew random numbers in this context would continue from there
            seed_eager(eager, begun[-1])
        vars(eager).pop("_rng", None)  # the generator is created with the first seed
        vars(eager).update(before)


def _state_of_generator(
    found: Callable[[], Any], put: Callable[[Any], Any], numbers: Callable[[Any], Any]
) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    # Return functions that read and set a generator, which is created on first use, and its state. ``numbers`` reads
    # the Variable of the state.
    def read() -> Any:
        generator = found()
        return None if generator is None else (generator, unrecorded(numbers, generator.state))

    def write(known: Any) -> None:
        put(None if known is None else known[0])
        if known is not None:
            unrecorded(known[0].state.assign, known[1])

    return read, write


def global_generator() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Return functions that read and set TensorFlow's global generator, which is created on first use, and its
    state.
    """
    put = partial(setattr, stateful_random_ops, "global_generator")
    return _state_of_generator(lambda: stateful_random_ops.global_generator, put, lambda state: state.read_value())


def global_seed() -> int | None:
    """Return the seed that was passed to ``tf.random.set_seed``; None if none was."""
    seed: int | None = getattr(context.context(), "_seed", None)
    return seed


def random_state_of_keras() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Return functions that read and set the generator that Keras creates when it first draws without a seed, and its
    state.

    The generator is set too, because ``keras.utils.set_random_seed`` and ``clear_session`` remove it.
    """
    return _state_of_generator(*_global_of_keras("global_seed_generator"), lambda state: state.numpy())


def names_of_keras() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Return functions that read and set the counts from which Keras names the next layers and Variables.

    A program that runs again gives its layers the names that they had, and not ``dense_1`` for ``dense``.
    """
    found, put = _global_of_keras("object_name_uids")
    return lambda: copy(found()), lambda known: put(copy(known))


def _global_of_keras(name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    # Return functions that read and set an attribute of Keras's global state. Without Keras it is None, and not set.
    states = sys.modules.get("keras.src.backend.common.global_state")
    if states is None:
        return lambda: None, lambda value: None
    return partial(states.get_global_attribute, name), partial(states.set_global_attribute, name)


def is_traced_by_keras() -> bool:
    """Is Keras tracing a layer in order to infer shapes, outside of any ``tf.function``?"""
    return str(getattr(ops.get_default_graph(), "name", "")).startswith("scratch_graph")


def is_followed_by_a_tape(*tensors: Any) -> bool:
    return bool(should_record_backprop(tensors))


def records(tape: Any) -> bool:
    return bool(tape._recording)


def is_new(tape: Any) -> bool:
    """Is the tape empty, because it was not entered yet, was reset, or has computed its gradients?"""
    return tape._tape is None


def watches_variables(tape: Any) -> bool:
    return bool(tape._watch_accessed_variables)


def watched_by(tape: Any) -> set[int]:
    """Return the numbers of the Variables that a tape watches."""
    return {identity_of(variable.handle) for variable in tape.watched_variables()}


identity_of: Callable[[Any], int] = attrgetter("_id")
"""Returns a number that no other eager tensor of this process has or had."""


def next_identity() -> int:
    """Return a number above those of all existing eager tensors, and below those of all later ones."""
    return int(ops.uid())


def is_compiled(function: Any) -> bool:
    if type(function) in (FunctionType, MethodType):  # most are, and isinstance would call a metaclass in Python
        return False
    return isinstance(function, tf.types.experimental.PolymorphicFunction)


def bound_function(function: Any) -> Callable[..., Any]:
    """Return the Python function of a ``tf.function``; for a method, bound to its object.

    TensorFlow hides a bound method in wrappers with a weak reference to its object, and autograph inserts itself
    between them.
    """
    inner = function.python_function
    while inner is not None:
        if isinstance(inner, MethodType) and type(inner.__self__).__name__ == "TfMethodTarget":
            held: Any = inner.__self__
            return MethodType(inner.__func__, held.target)
        inner = getattr(inner, "__wrapped__", None)
    return function.python_function  # type: ignore[no-any-return]  # TensorFlow has no types


def is_of_forgotten_function(error: Any) -> bool:
    """Is this the error of differentiating a ``tf.py_function`` twice? The function's token has then been removed from
    a dict.
    """
    return "KeyError" in str(error) and "pyfunc_" in str(error)


def has_own_gradient(function: Any) -> bool:
    """Was the function made by ``tf.custom_gradient`` or ``tf.recompute_grad``?"""
    return type(function).__module__ == custom_gradient.__name__ or is_own_gradient(function)


def is_own_gradient(function: Any) -> bool:
    """Is this a gradient function defined inside ``tf.custom_gradient``?"""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is not None and code.co_filename == OWN_GRADIENTS


# Functions for graphs.


def builds_function() -> bool:
    """Is a function or a Keras model being traced? A session's graph does not count: the code that builds it is
    observed.
    """
    return not tf.executing_eagerly() and bool(ops.get_default_graph().building_function)


def is_for_sessions(graph: Any) -> bool:
    return not graph.building_function


def is_remote(session: Any) -> bool:
    """Does the session run in other processes?"""
    return bool(session.sess_str)


def handle_of(variable: Any) -> Any:
    """Return the handle of a Variable. For an old-style Variable return the reference that its reads use."""
    handle = getattr(variable, "handle", None)
    return variable._ref() if handle is None and hasattr(variable, "_ref") else handle


FLAT = frozenset({"Ceil", "Floor", "FloorDiv", "Rint", "Round"})  # operations whose registered gradient is None


def conducts(operation: Any) -> bool:
    """Does TensorFlow let a gradient through this kind of operation?"""
    if operation.type in FLAT:
        return False
    try:
        return ops.get_gradient_function(operation) is not None
    except LookupError:  # a function call, or an operation that ``tf.gradients`` will reject by name
        return True


def has_derivative(kind: str) -> bool | None:
    """Is a gradient function registered for this kind of operation?

    False if the gradient is registered as None, so that tapes record the operation but return None. None if nothing is
    registered: then tapes raise LookupError.
    """
    try:
        return kind not in FLAT and GRADIENTS.lookup(kind) is not None
    except LookupError:
        return None


def makes_one(kind: str) -> bool:
    """Does this kind of operation have exactly one output?"""
    definition = op_def_registry.get(kind)
    return definition is not None and len(definition.output_arg) == 1


def inlined(function: Any) -> Any:
    """Return the ``GraphDef`` of a concrete function, in which all calls are inlined."""
    return inline(function, lower_control_flow=False, aggressive_inlining=True)


def called_graph(graph: Any, call: Any) -> Any:
    """Return the graph of the function that an operation calls; None if it is not accessible."""
    function = graph._get_function(call.get_attr("f").name)
    return getattr(function, "graph", None)


def is_compiled_by_xla(call: Any) -> bool:
    """Does the operation call a function that XLA compiles?"""
    try:
        return bool(call.get_attr("_XlaMustCompile"))
    except ValueError:
        return False


def graph_number(graph: Any) -> int:
    """Return a number that is larger for graphs created later."""
    return int("".join(filter(str.isdigit, graph._graph_key)))


def has_gradients(graph: Any) -> bool:
    """Does a graph, or a function that it calls, contain a pass of a gradient tape?"""
    definition = graph.as_graph_def()
    bodies = [definition.node, *(function.node_def for function in definition.library.function)]
    return any(
        node.name.startswith("gradient_tape/") or "/gradient_tape/" in node.name for nodes in bodies for node in nodes
    )


def spelled(function: Any) -> str:
    """Return the name of the Python function from which a function was traced."""
    name = getattr(function.function_type, "__name__", "") or str(function.graph.name)
    return name.removeprefix("__inference_").removeprefix("__forward_").rstrip("0123456789").rstrip("_")


# Names for Keras's optimizers.

UPDATING = "_backend_update_step"
"""The method that receives the final gradients in steps that change parameters."""


def updating_class() -> Any:
    """Return the class of Keras that defines the method ``UPDATING``; None if the program has not imported Keras."""
    keras = sys.modules.get("keras")
    kind = getattr(getattr(keras, "optimizers", None), "Optimizer", None)
    return None if kind is None else next((base for base in kind.__mro__ if UPDATING in vars(base)), None)


def counter(optimizer: Any) -> Any:
    """Return the ``tf.Variable`` that counts an optimizer's calls. ``iterations`` lags behind if gradients are
    accumulated.
    """
    return optimizer._iterations._value
