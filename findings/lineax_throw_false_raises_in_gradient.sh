#!/bin/sh
# lineax: linear_solve(..., throw=False) returns NaN for a singular matrix, and its gradient raises an error all the same.
#
# `throw=False` keeps a solve that fails from raising: the result says so, and the value is NaN. The gradient is another
# solve, with the transposed matrix, which does not know of it: it raises that a solver "received non-finite input", from
# JAX's runtime, so that no `where` on the result can help. Forward mode raises alike.
#
# Whoever masks failed solves (a batch with a singular member, a line search that may step too far) meets it as a training
# that ends at the first of them. What helps: replace the matrix, not the solution, before the solve.
#
# Seen with: lineax 0.1.1, equinox 0.13.8, jax 0.10.2 (CPU), Python 3.11
# lineax 0.1.1 | value nan | masked 0.0 | reverse: raises | forward: raises | matrix replaced: [1.0, 1.0]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} lineax==0.1.1 equinox==0.13.8 jax==0.10.2
cat >"$folder/shown.py" <<'PYTHON'
from importlib.metadata import version

import jax
import jax.numpy as jnp
import lineax as lx


def solved(matrix, vector):
    return lx.linear_solve(lx.MatrixLinearOperator(matrix), vector, lx.LU(), throw=False).value.sum()


def masked(matrix, vector):
    value = solved(matrix, vector)
    return jnp.where(jnp.isfinite(value), value, 0.0)


def replaced(matrix, vector):
    is_singular = jnp.linalg.det(matrix) == 0
    return solved(jnp.where(is_singular, jnp.eye(2), matrix), vector)


def raised(call):
    try:
        call()
    except Exception as error:
        return "raises" if "non-finite" in str(error) else repr(error)
    return "returns"


matrix, vector = jnp.zeros((2, 2)), jnp.ones(2)
found = [
    f"lineax {version('lineax')}", f"value {float(solved(matrix, vector))}", f"masked {float(masked(matrix, vector))}",
    "reverse: " + raised(lambda: jax.grad(masked)(matrix, vector)),
    "forward: " + raised(lambda: jax.jvp(lambda m: masked(m, vector), (matrix,), (matrix,))),
    f"matrix replaced: {jax.grad(replaced, 1)(matrix, vector).tolist()}",
]
print(" | ".join(found))
PYTHON
said=$("$folder/env/bin/python" "$folder/shown.py" 2>/dev/null)
echo "$said"
[ "$said" = "lineax 0.1.1 | value nan | masked 0.0 | reverse: raises | forward: raises | matrix replaced: [1.0, 1.0]" ]
