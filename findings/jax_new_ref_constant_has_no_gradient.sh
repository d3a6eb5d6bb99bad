#!/bin/sh
# JAX: a constant that is written into a `jax.new_ref` makes jax.grad fail with an AttributeError about 'accum'.
#
# A reference that a differentiated function makes, and overwrites with what depends on its input, is differentiated. If
# what is written depends on nothing that is differentiated (a constant, an initial value, `stop_gradient(x)`), the
# transposed write adds to the cotangent of that value, which is an array and has no `accum`. It is alike under jit. Where
# the value is added (`ref[...] += 1`), the gradient is there.
#
# Whoever resets a buffer in a reference, or keeps a detached copy in one, meets it. What helps: add zero times the input
# to what is written.
#
# Seen with: jax 0.10.2 (CPU), Python 3.11
# jax 0.10.2 | product: [4.0, 4.0] | constant: AttributeError | stopped: AttributeError | in jit: AttributeError | plus 0 x: [1.0, 1.0] | added: [1.0, 1.0]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} jax==0.10.2
cat >"$folder/shown.py" <<'PYTHON'
import jax
import jax.numpy as jnp


def gradient(written, around=lambda f: f, adds=False):
    def f(x):
        ref = jax.new_ref(jnp.zeros(2))
        if adds:
            ref[...] += written(x)
        else:
            ref[...] = written(x)
        return jnp.sum(ref[...] * x)

    try:
        return around(jax.grad(f))(jnp.ones(2)).tolist()
    except AttributeError as error:
        assert "accum" in str(error)
        return "AttributeError"


found = {
    "product": gradient(lambda x: x * 2),
    "constant": gradient(lambda x: jnp.ones(2)),
    "stopped": gradient(jax.lax.stop_gradient),
    "in jit": gradient(lambda x: jnp.ones(2), jax.jit),
    "plus 0 x": gradient(lambda x: jnp.ones(2) + 0 * x),
    "added": gradient(lambda x: jnp.ones(2), adds=True),
}
print(" | ".join([f"jax {jax.__version__}", *(f"{name}: {one}" for name, one in found.items())]))
PYTHON
said=$("$folder/env/bin/python" "$folder/shown.py" 2>/dev/null)
echo "$said"
[ "$said" = "jax 0.10.2 | product: [4.0, 4.0] | constant: AttributeError | stopped: AttributeError | in jit: AttributeError | plus 0 x: [1.0, 1.0] | added: [1.0, 1.0]" ]
