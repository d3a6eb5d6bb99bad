"""Eigenvalues of a Hessian from its products: by SciPy's Lanczos method, or from the matrix if the matrix is small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from backprobe.backends.protocol import Backend
from backprobe.backends.refusals import refuse
from backprobe.backends.replay import Replay
from backprobe.backends.second_order import Product
from backprobe.curvature.result import Curvature
from backprobe.errors import NothingMatched, Unsupported, installed
from backprobe.findings.phrasing import listed
from backprobe.probe.gradient_program import named_gradients
from backprobe.probe.request import name_of, typed_as
from backprobe.record.brief import written

WHOLE = 12  # a Hessian with at most this many rows, or ``k``, is built as a matrix, with one product for each column
SPELLED = {"largest": "LA", "smallest": "SA", "magnitude": "LM"}
OFF = 100  # a Hessian gets a note if its asymmetry exceeds this many times the square root of eps
JOINT = "joint"


class Operator:
    """The Hessian with respect to one or more values, which are flattened and joined into one vector."""

    def __init__(self, backend: Backend, product: Product, gradients: Mapping[str, Any]) -> None:
        self.arrays, self.product = backend.arrays, product
        self.shapes = {name: tuple(numbers.shape) for name, numbers in gradients.items()}
        self.kind = numpy.result_type(*(numbers.dtype for numbers in gradients.values()))
        self.size = sum(numbers.size for numbers in gradients.values())
        self.products = 0

    def parts(self, vectors: Any) -> dict[str, Any]:
        """Split vectors, one in each row, into arrays with the shapes of the values, by name."""
        found, at = {}, 0
        for name, shape in self.shapes.items():
            count = int(numpy.prod(shape, dtype=int))
            found[name] = vectors[:, at : at + count].reshape(len(vectors), *shape).astype(self.kind)
            at += count
        return found

    def __call__(self, vector: Any) -> Any:
        """The Hessian-vector product in double precision."""
        self.products += 1
        found = self.product({name: part[0] for name, part in self.parts(vector.reshape(1, -1)).items()})
        made = numpy.concatenate([self.arrays.numbers(found[name]).reshape(-1) for name in self.shapes])
        if not numpy.isfinite(made).all():
            raise Unsupported(
                f"the Hessian with respect to {listed([*self.shapes], 4)} is not finite",
                asked="its eigenvalues",
                found="NaN or Inf in a product with a vector",
                next="bp.explain(bp.probe(f, nonfinite=True)(...)), or bp.check(f, order=2)(...)",
            )
        return made.astype(numpy.float64)


def measured(asked: Any, backend: Backend, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Curvature:
    """Compute the requested eigenvalues. Raises NothingMatched, NoGradient, NotInstalled and Unsupported."""
    name = name_of(asked.target)
    linalg = installed("scipy.sparse.linalg", asked="bp.curvature(...)", packages="scipy")
    hessian = backend.hessian or refuse(backend, "hessian", f"bp.curvature({name}, ...)")
    with Replay(backend, asked.target, args, kwargs).run():
        program = named_gradients(backend, asked.target, asked.select, asked.of, asked.backend, args, kwargs)
        if not program.keys:
            raise NothingMatched(
                f"{written(asked.select)} matches nothing in {name} that has a gradient",
                asked=f"bp.curvature({name}, {written(asked.select)})",
                why="a Hessian is the derivative of gradients",
                next=f"bp.names({typed_as(asked.target)}), for every name",
            )
        gradients = {name: backend.arrays.array(entry.grad) for name, entry in program.first.items()}
        _refuse_complex(gradients)
        product = hessian(program)
        groups = {JOINT: [*gradients]} if asked.joint else {name: [name] for name in gradients}
        operators = {
            key: Operator(backend, product, {name: gradients[name] for name in names}) for key, names in groups.items()
        }
        off = {key: asymmetry(one) for key, one in operators.items()}
        found = {key: eigenpairs(linalg, one, asked.k, asked.which) for key, one in operators.items()}
    bad = [key for key, one in operators.items() if off[key] > OFF * float(numpy.finfo(one.kind).eps) ** 0.5]
    notes = [
        f"the Hessian is not symmetric for {listed(bad, 4)}, so a second derivative is wrong, and with it the "
        f"eigenvalues: bp.check({name}, order=2)(...) names the line"
    ] * bool(bad)
    return Curvature(
        name,
        program.output,
        asked.which,
        {key: numbers for key, (numbers, _) in found.items()},
        {key: one.size for key, one in operators.items()},
        {key: one.products for key, one in operators.items()},
        off,
        asked.joint,
        tuple(notes),
        {name: part for key, one in operators.items() for name, part in one.parts(found[key][1]).items()},
    )


def asymmetry(operator: Operator) -> float:
    """The relative difference between a · Hb and b · Ha for random vectors a and b; 0 if H is symmetric."""
    a, b = numpy.random.default_rng(1).standard_normal((2, operator.size))
    of_a, of_b = operator(a), operator(b)
    scale = numpy.linalg.norm(of_a) * numpy.linalg.norm(b) + numpy.linalg.norm(of_b) * numpy.linalg.norm(a)
    return float(abs(a @ of_b - b @ of_a) / scale) if scale else 0.0


def eigenpairs(linalg: Any, operator: Operator, k: int, which: str) -> tuple[Any, Any]:
    """Return up to ``k`` eigenvalues from one end of the spectrum, outermost first, and their eigenvectors as rows."""
    size = operator.size
    if size <= max(WHOLE, k):
        matrix = numpy.array([operator(row) for row in numpy.eye(size)])
        found = numpy.linalg.eigh((matrix + matrix.T) / 2)
        numbers, vectors = _ordered(found[0], found[1], which)
        return numbers[:k], vectors[:k]
    matrix = linalg.LinearOperator((size, size), matvec=operator, dtype=numpy.float64)
    start = numpy.random.default_rng(0).standard_normal(size)
    # a zero product: the Hessian is zero, as for a linear function, and the Lanczos method would fail
    if not operator(start).any():
        return numpy.zeros(k), numpy.eye(k, size)
    try:
        numbers, vectors = linalg.eigsh(
            matrix,
            k=k,
            which=SPELLED[which],
            v0=start,
            tol=float(numpy.finfo(operator.kind).eps) ** 0.5,
        )
    except linalg.ArpackError as error:
        known = getattr(error, "eigenvalues", numpy.zeros(0))
        raise Unsupported(
            f"the eigenvalues for {listed([*operator.shapes], 4)} did not converge",
            asked=f"k={k}, which={which!r}",
            found=f"{len(known)} of {k} after {operator.products} products",
            why="eigenvalues that lie close together, or products that rounding disturbs, take many",
            next="a smaller k=, which='magnitude', or double precision",
        ) from error
    return _ordered(numbers, vectors, which)


def _ordered(numbers: Any, vectors: Any, which: str) -> tuple[Any, Any]:
    # Sort the pairs, outermost eigenvalue first. Flip each vector so that its element of largest magnitude is positive.
    by = {"largest": -numbers, "smallest": numbers, "magnitude": -abs(numbers)}
    order = numpy.argsort(by[which], kind="stable")
    rows = vectors.T[order]
    largest = numpy.take_along_axis(rows, abs(rows).argmax(axis=1)[:, None], axis=1)
    return numbers[order], rows * numpy.where(largest < 0, -1.0, 1.0)


def _refuse_complex(gradients: Mapping[str, Any]) -> None:
    named: Sequence[str] = [name for name, numbers in gradients.items() if numpy.iscomplexobj(numbers)]
    if named:
        raise Unsupported(
            f"{listed([*named], 4)} is complex, and has no Hessian with real eigenvalues",
            asked="its eigenvalues",
            found="complex numbers",
            next="a selection of real values",
        )
