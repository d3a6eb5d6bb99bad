"""Full Jacobians and Hessian-vector products of an output with respect to any value, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backprobe.backends.discover import BackendName
from backprobe.backends.refusals import refuse
from backprobe.backends.replay import Replay
from backprobe.errors import BadOption, Unsupported
from backprobe.probe import probe
from backprobe.probe.gradient_program import named_gradients
from backprobe.probe.output import SUMMED
from backprobe.probe.request import spelled_as
from backprobe.probe.several_outputs import Of, refuse_several
from backprobe.probe.waiting import Waiting
from backprobe.record.brief import kind, written
from backprobe.record.entries import Entry
from backprobe.record.typed import P
from backprobe.recording import Recording

PROBED = r"^create_graph=True|^bp\.probe\(([\w<>]+)(?:, ('[^']*'))?\)(?=\(|$)"
"""A pattern that finds a call of ``probe`` in an error message, so that the message can show the user's call instead.

Its groups are the function and the name.
"""


def jacobian(
    target: Callable[P, Any], name: str, *, of: Of = None, backend: BackendName | None = None
) -> Callable[P, Any]:
    """Make a function that returns the Jacobian of the target's output with respect to a named value.

    >>> import torch, backprobe as bp
    >>> def f(x, w):
    ...     u = x * w
    ...     return u**2
    >>> bp.jacobian(f, "u")(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor([[ 6.,  0.],
            [ 0., 16.]])

    ``target``, ``name``, ``of`` and ``backend`` are as in ``probe``. The returned function takes the target's
    arguments. Its result has the output's shape followed by the value's shape; for a scalar output it is the gradient.
    It needs one forward pass, and one backward pass for each element of the output.

    Raises the errors of ``probe``, NoGradient for a value without a gradient, BadOption for the output itself and for a
    Jacobian with more than a million elements, and Unsupported if there is no Jacobian, as for a complex output.
    """

    _check_name(name, f"bp.jacobian(f, {written(name)})")
    refuse_several(of, f"bp.jacobian(f, {name!r}, ", f"bp.jacobian(f, {name!r}, of='ce'), once for each")

    def taken(*args: P.args, **kwargs: P.kwargs) -> Any:
        made = probe(target, [name], of=of, cotangent=SUMMED, partials="full", backend=backend)
        with spelled_as(PROBED, lambda one: f"bp.jacobian({one[1]}, {one[2] or repr(name)})"):
            recording = made(*args, **kwargs)
            entry, output = recording[name], recording.outputs[0]
        if entry is output:
            raise BadOption(
                f"{name!r} is the output itself",
                asked=f"bp.jacobian(f, {name!r})",
                found="the identity",
                next="the name of a value that the output is computed from",
            )
        _ = entry.grad  # raises an error with the reason if there is no gradient
        block = output.partials.get(entry.name)
        if block is None:
            _refuse(recording, entry, output)
        return block

    return taken


def _check_name(name: Any, asked: str) -> None:
    if not isinstance(name, str):
        raise BadOption("a value is asked for by its name", asked=asked, found=kind(name), next="'u'")


def _refuse(recording: Recording, entry: Entry, output: Entry) -> None:
    if any(note.code == "block_too_large" for note in recording.record.notes):
        raise BadOption(
            "the Jacobian is too large",
            asked=f"an output of shape {output.shape}, a value of shape {entry.shape}",
            found=" ".join(recording.notes),
            next="bp.probe(f, cotangent=...), one vector-Jacobian product at a time",
        )
    raise Unsupported(
        f"there is no Jacobian with respect to {entry.name!r}",
        asked=f"bp.jacobian(f, {entry.name!r})",
        found=f"an output of dtype {output.dtype}, a value of dtype {entry.dtype}",
        why="a complex output, or a view that was written in place, has only vector-Jacobian products",
        next="bp.probe(f, cotangent=...)",
    )


def hvp(
    target: Callable[P, Any], name: str, vector: Any, *, of: Of = None, backend: BackendName | None = None
) -> Callable[P, Any]:
    """Make a function that returns a Hessian-vector product of the target's output for a named value.

    >>> import torch, backprobe as bp
    >>> def f(x, w):
    ...     u = x * w
    ...     return (u**3).sum()
    >>> bp.hvp(f, "u", [1.0, 0.0])(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor([18.,  0.])

    The returned function takes the target's arguments. The Hessian is the second derivative of the scalar output with
    respect to the value ``name`` alone. ``vector`` and the result have that value's shape. The framework differentiates
    the gradient again; the Hessian is never built as a matrix. The program runs two or three times, and its state is
    restored afterwards.

    Raises the errors of ``probe``, NoGradient for a value without a gradient, and Unsupported for a value that is later
    overwritten in place.
    """

    _check_name(name, f"bp.hvp(f, {written(name)}, vector)")
    refuse_several(of, f"bp.hvp(f, {name!r}, vector, ", f"bp.hvp(f, {name!r}, vector, of='ce'), once for each")

    probe(target, [name], of=of, backend=backend)  # checks the options of ``probe``
    product: _Product[P] = _Product(target, backend, name, vector, of)
    return product


@dataclass(frozen=True, repr=False)
class _Product(Waiting[P, Any]):
    # A Hessian-vector product that is computed when this object is called with the arguments.
    name: str
    vector: Any
    of: Any
    verb = "hvp"
    options = ", 'u', vector"

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        spelled = f"bp.hvp(f, {self.name!r}, ...)"
        found = self._found(args, kwargs, "differentiated twice", "its values were fixed when it was made")
        hessian = found.hessian or refuse(found, "hessian", spelled)
        spelling = spelled_as(PROBED, lambda one: f"bp.hvp({one[1] or 'f'}, {one[2] or repr(self.name)}, vector)")
        with spelling, Replay(found, self.target, args, kwargs).run():
            program = named_gradients(found, self.target, self.name, self.of, self.backend, args, kwargs, is_name=True)
            product = hessian(program)
            return product({self.name: self.vector})[self.name]
