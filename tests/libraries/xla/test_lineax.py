"""lineax: linear solves and least squares, whose gradients are further solves."""

import jax
import jax.numpy as jnp
import lineax as lx
from in_jax import by, descending

import backprobe as bp

FRAMEWORK, LIBRARIES = "JAX", ("lineax",)

# https://docs.kidger.site/lineax/ (its front page)


def solved(matrix, vector):
    operator = lx.MatrixLinearOperator(matrix)
    solution = lx.linear_solve(operator, vector)
    x = solution.value
    return jnp.sum(x**2)


# https://docs.kidger.site/lineax/examples/structured_matrices/


def tridiagonal(diagonal, lower, upper, vector):
    operator = lx.TridiagonalLinearOperator(diagonal, lower, upper)
    solution = lx.linear_solve(operator, vector)
    x = solution.value
    weighted = x * jnp.arange(1.0, 4.0)
    return jnp.sum(weighted)


# https://docs.kidger.site/lineax/examples/operators/ (a Jacobian that is never formed, by conjugate gradients)


def newton_step(y, stiffness):
    def gradient_of(y, args):
        force = stiffness * y + 0.1 * y**3
        return force

    operator = lx.JacobianLinearOperator(gradient_of, y, tags=(lx.symmetric_tag, lx.positive_semidefinite_tag))
    solver = lx.CG(rtol=1e-7, atol=1e-7)
    step = lx.linear_solve(operator, gradient_of(y, None), solver).value
    moved = y - step
    return jnp.sum(moved**2)


# https://docs.kidger.site/lineax/examples/least_squares/


def least_squares(features, targets):
    operator = lx.MatrixLinearOperator(features)
    weights = lx.linear_solve(operator, targets, solver=lx.QR()).value
    norm = jnp.sum(weights**2)
    return norm


# https://docs.kidger.site/lineax/api/functions/ (one factorisation for two right hand sides)


def reused(matrix, first, second):
    operator = lx.MatrixLinearOperator(matrix)
    state = lx.LU().init(operator, options={})
    a = lx.linear_solve(operator, first, lx.LU(), state=state).value
    b = lx.linear_solve(operator, second, lx.LU(), state=state).value
    return jnp.vdot(a, b)


# planted


def cut(matrix, vector):
    operator = lx.MatrixLinearOperator(jax.lax.stop_gradient(matrix))  # <- cut
    x = lx.linear_solve(operator, vector).value
    return jnp.sum(x**2)


def nan(matrix, vector):
    x = lx.linear_solve(lx.MatrixLinearOperator(matrix), vector).value
    root = jnp.sqrt(x - 10.0)  # <- nan
    return jnp.sum(root)


# asked

MATRIX, VECTOR = jnp.array([[3.0, 1.0], [0.5, 2.0]]), jnp.array([1.0, -2.0])


def given():
    return MATRIX, VECTOR


def test_solved(ask):
    rec = ask.function(solved, given)
    x = jnp.linalg.solve(MATRIX, VECTOR)
    back = jnp.linalg.solve(MATRIX.T, 2 * x)
    ask.gradients(rec, {"x": 2 * x, "vector": back, "matrix": -jnp.outer(back, x)})
    ask.values(rec, {"x": x})
    ask.names(rec, "matrix", "vector", "x", "solution.value", "return")
    ask.statuses(rec, {"matrix": "ok", "vector": "ok", "x": "ok"})
    ask.clean(rec)
    ask.works("`linear_solve` of a matrix: the gradient is one more solve")


def test_tridiagonal(ask):
    inputs = jnp.array([3.0, 4.0, 5.0]), jnp.array([1.0, 0.5]), jnp.array([0.2, 0.3]), jnp.array([1.0, 2.0, 3.0])
    rec = ask.function(tridiagonal, lambda: inputs)
    ask.gradients(rec, by(tridiagonal, *inputs) | {"weighted": jnp.ones(3), "x": jnp.arange(1.0, 4.0)})
    ask.names(rec, "diagonal", "lower", "upper", "x", "weighted")
    ask.clean(rec)
    ask.works("structured operators: diagonals of a tridiagonal matrix")


def test_newton_step(ask):
    inputs = jnp.array([1.0, -2.0]), jnp.array(2.0)
    rec = ask.function(newton_step, lambda: inputs)
    ask.gradients(
        rec,
        by(newton_step, *inputs) | {"moved": 2 * rec["moved"].value, "step": -2 * rec["moved"].value},
        tolerance=1e-4,
    )
    ask.names(rec, "y", "stiffness", "step", "moved")
    ask.clean(rec)
    ask.works("`JacobianLinearOperator` with CG: a step of Newton's method")


def test_least_squares(ask):
    inputs = jnp.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), jnp.array([1.0, 2.0, 4.0])
    rec = ask.function(least_squares, lambda: inputs)
    weights = jnp.linalg.lstsq(*inputs)[0]
    ask.gradients(
        rec, {"weights": 2 * weights, "targets": jnp.linalg.pinv(inputs[0]).T @ (2 * weights)}, tolerance=1e-4
    )
    ask.gradients(rec, by(least_squares, *inputs), tolerance=1e-4)
    ask.clean(rec)


def test_reused(ask):
    inputs = MATRIX, VECTOR, jnp.array([0.5, 1.0])
    rec = ask.function(reused, lambda: inputs)
    ask.gradients(rec, by(reused, *inputs) | {"a": rec["b"].value, "b": rec["a"].value})
    ask.clean(rec)
    ask.works("one factorisation for several right hand sides; least squares by QR")


def test_planted(ask):
    ask.cut(ask.function(cut, given), cut)
    ask.refused(lambda: bp.probe(nan, nonfinite=True)(*given()), Exception, "non-finite|NaN")
    ask.refuses("a NaN that a solve is given, forward or backward: lineax's own error, before any explanation")


def test_watch(ask):
    def loss(params, vector):
        return solved(params["matrix"], vector)

    last = ask.watched_function(descending(loss, {"matrix": MATRIX}, [(VECTOR,)] * 20))
    ask.rows(last, "params.matrix")
    ask.works("`bp.watch_function` over 20 steps")
