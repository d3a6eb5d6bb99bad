"""The verb ``probe``: run a function, a model or a notebook cell once, and record its named values with gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Unpack, overload

from backprobe.backends.discover import BackendName
from backprobe.backends.facts import Options
from backprobe.probe.keywords import Graph, Keywords, Select
from backprobe.probe.probe_class import Probe
from backprobe.probe.request import names_in
from backprobe.probe.several_outputs import Of, is_several
from backprobe.record.typed import HasForward, P, R, Strategy, V, Values
from backprobe.recording.block import BlockRecording


@overload
def probe(*, select: Select = None, **options: Unpack[Keywords]) -> AbstractContextManager[BlockRecording, None]: ...
@overload
def probe(target: HasForward[P, V], select: Select = None, **options: Unpack[Keywords]) -> Probe[P, V, V]: ...
@overload
def probe(target: HasForward[P, R], select: Select = None, **options: Unpack[Keywords]) -> Probe[P, R]: ...
@overload
def probe(target: Callable[P, V], select: Select = None, **options: Unpack[Keywords]) -> Probe[P, V, V]: ...
@overload
def probe(target: Callable[P, R], select: Select = None, **options: Unpack[Keywords]) -> Probe[P, R]: ...
@overload
def probe(target: Graph, select: Select = None, **options: Unpack[Keywords]) -> Probe[..., Any]: ...
def probe(
    target: Any = None,
    select: Select = None,
    *,
    of: Of | Sequence[Of] | Mapping[str, Of] = None,
    wrt: str | Sequence[str] | None = None,
    cotangent: Any = None,
    replace: Mapping[str, Any] | None = None,
    replace_grad: Mapping[str, Any] | None = None,
    strategy: Strategy = "edges",
    values: Values = "alias",
    partials: bool | Literal["full"] = False,
    create_graph: bool = False,
    nonfinite: bool = False,
    backend: BackendName | None = None,
    session: Any = None,
) -> Probe[..., Any, Any]:
    """Prepare to record a function, a model or a block of code. Called with arguments, the result returns a
    ``Recording``.

    >>> import torch, backprobe as bp
    >>> def f(x, w, b):
    ...     u = x * w
    ...     v = u + b
    ...     return torch.relu(v)
    >>> rec = bp.probe(f)(3.0, 2.0, 1.0)
    >>> rec["u"].value, rec["u"].grad
    (tensor(6.), tensor(1.))

    A *function* is recorded as a whole: its arguments, every value that it binds to a name, the values that your own
    functions bind when it calls them, and the gradient of its output with respect to each of these. ``select``, a
    pattern or a list of patterns, limits this to matching names. If no floating argument requires a gradient, the
    output is differentiated with respect to all floating arguments, or to those that ``wrt`` names.

    A *model* is recorded by the return values of its modules and by its parameters, or by ``select``: module paths and,
    after a colon, locals of their ``forward``. The model is not altered.

    A *graph* of TensorFlow is recorded by its own names. The target is a tensor of the graph, or several in a dict or
    list, and ``session`` runs it (by default TensorFlow's default session); call the probe with a ``feed_dict``. Or the
    target is a ``ConcreteFunction``, such as the signature of a SavedModel; call the probe with its arguments.

    A *block*, ``with bp.probe(model, select) as rec:`` or ``with bp.probe() as rec:``, records your own code as it
    stands, around a model or by its variables. In PyTorch your code calls ``backward()`` inside the block, once or
    several times. In TensorFlow ``of`` names a variable of the block, which is differentiated when the block ends.

    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> with bp.probe() as rec:
    ...     u = x * 2
    ...     u.square().backward()
    >>> rec["u"].grad
    tensor(12.)

    - ``target``: the function, model or graph. For a block it is a model, or left out.
    - ``select``: a pattern of the names to record, or several patterns.
    - ``of``: the output to differentiate. It is a path into the return value, a function of the return value, or the
      name of any value that the probe knows, also with an index: ``of="h.3.attn:scores[..., 0, 5]"``.
    - ``wrt``: the names of the arguments of a function with respect to which the output is differentiated.
    - ``cotangent``: the vector of the vector-Jacobian product, with the shape of the output. Needed if the output is
      not a scalar.
    - ``replace`` and ``replace_grad``: values and gradients that replace those of the program, by name.
    - ``partials``: if True, also compute local derivatives; if ``"full"``, also their whole Jacobian blocks.
    - ``nonfinite``: if True, look for NaN and Inf.
    - ``values``: ``"alias"`` shares the memory of the program's tensors, ``"copy"`` copies every value immediately.
    - ``create_graph``: if True, gradients can be differentiated again.
    - ``strategy``: ``edges``, ``retain_grad``, ``hooks`` or ``separate``.
    - ``backend``: only needed if the arguments do not show the framework.
    - ``session``: the session that runs the tensors of a TensorFlow graph.

    To differentiate several outputs, pass a list of such texts as ``of``, or a dict of texts and functions. Backward
    then runs once from each output, and ``cotangent`` is a dict as well. ``rec.of(key)`` is the recording of one
    output, and ``rec.total()`` that of their sum.

    >>> rec = bp.probe(f, of={"a": "return", "v": "v"})(3.0, 2.0, -9.0)
    >>> rec["x"].grads["a"], rec["x"].grads["v"]
    (tensor(0.), tensor(2.))

    ``replace`` maps names or patterns to other values, with which the program continues. Each is a tensor, a function
    of the original value, which is differentiated as well, or an entry of another recording. The replaced value's entry
    has ``replaced`` set to True, and the ``original`` besides the ``value``. ``replace_grad`` replaces gradients: the
    new gradient flows on from the named value, and is the ``grad`` of its entry.

    >>> rec = bp.probe(f, replace={"u": lambda u: u * 0})(3.0, 2.0, 1.0)
    >>> rec["u"].value, rec["u"].original, rec["v"].value, rec["x"].grad
    (tensor(0.), tensor(6.), tensor(1.), tensor(0.))

    ``partials=True`` also takes the derivative of each value with respect to each of its direct inputs alone. These are
    the edges of the circuit that ``bp.draw`` shows, and the factors of ``bp.derive``. Each value costs one short pass
    of its own, and the returned result keeps its graph. ``partials="full"`` adds the whole Jacobian block of each edge
    between values of several elements.

    >>> rec = bp.probe(f, partials=True)(3.0, 2.0, 1.0)
    >>> rec["u"].partials
    {'x': tensor(2.), 'w': tensor(3.)}

    ``nonfinite=True`` also checks each value and each gradient for NaN and Inf; ``bp.explain(rec)`` says where they
    came from. If nothing is selected, a function then also records its unnamed operations, and a model the arguments
    and locals of its own forward; ``["**", "**:*"]`` adds the lines of all its modules.

    >>> bp.explain(bp.probe(lambda x: torch.log(x) * 2, nonfinite=True)(0.0)).findings[0].headline
    "Inf is born at 'log()': log(0)"

    Raises BadOption, BadName, AmbiguousName, NoBackend, NoSource, NothingToDifferentiate, BadOutput, NothingMatched,
    StrategyRefused and Unsupported. An error of the program itself passes through unchanged, with a note added.
    """
    options = Options(strategy, values, create_graph, partials, nonfinite, several=is_several(of))
    return Probe(target, select, of, names_in(wrt), cotangent, replace, replace_grad, options, backend, session)
