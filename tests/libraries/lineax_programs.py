"""lineax: linear solves and least squares, whose gradients are further solves."""

import jax
import jax.numpy as jnp
import lineax as lx

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


def singular(matrix, vector):
    flat = matrix - matrix
    operator = lx.MatrixLinearOperator(flat)
    solution = lx.linear_solve(operator, vector, lx.LU(), throw=False)  # <- nan
    x = solution.value
    return jnp.sum(x)
