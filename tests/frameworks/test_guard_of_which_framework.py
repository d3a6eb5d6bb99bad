"""A guard around a block listens to the framework that computes there, or says that it did not."""

import pytest

from commands import forked
from sampled import sampled

PROGRAM = """
{imports}
import numpy as np
import backprobe as bp

{functions}
def train():
{before}
    with bp.guard():
{block}
    return "silent", type(w).__module__.partition(".")[0]

try:
    print(*train())
except bp.NotFinite as error:
    print(str(error).partition(" that ")[0])
"""
LOSS = """def loss(w, x):
    d = ((w * x) ** 2).sum()
    return jnp.sqrt(d)
"""
LOOP = """for k in range(5):
    value, g = jax.value_and_grad(loss)(w, jnp.ones(3) if k != 3 else jnp.zeros(3))
    w = w - 0.1 * g
"""
INSIDE = f"import jax, jax.numpy as jnp\n{LOSS}w = jnp.ones(3)\n{LOOP}"
STEP = "def step(w, x):\n    import jax, jax.numpy as jnp\n{}    return w - 0.1 * jax.grad(loss)(w, x)\n".format(
    "".join(f"    {line}\n" for line in LOSS.splitlines())
)
STEPS = "for k in range(5):\n    w = step(w, np.ones(3) if k != 3 else np.zeros(3))\n"
FOUND = "NaN in the gradient of 'w'"
WARNED = (
    "UserWarning: bp.guard() listened to PyTorch, and what the block holds is of JAX: nothing of that was looked at. "
    "Import JAX in this file, or in the function that the block stands in, before the block begins."
)


def indented(text, by):
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines()) or f"{' ' * by}pass\n"


def ran(folder, imports, functions, before, block):
    script = folder / "program.py"
    lines = {"before": indented(before, 4), "block": indented(block, 8)}
    script.write_text(PROGRAM.format(imports=imports, functions=functions, **lines))
    code, out, errors = forked("-W", "always", script)
    assert code == 0, errors
    return out.strip(), [line for line in errors.splitlines() if "UserWarning: bp." in line]


GUARDED = {
    "imported in the function": ("import torch", "", f"import jax, jax.numpy as jnp\n{LOSS}w = jnp.ones(3)\n", LOOP),
    "imported in the block": ("import torch", "", "", INSIDE),
    "imported before, and in the block": ("import torch, jax", "", "", INSIDE),
    "imported in a function that is called": ("import torch, jax", STEP, "w = np.ones(3)", STEPS),
    "imported above": ("import torch\nimport jax, jax.numpy as jnp", LOSS, "w = jnp.ones(3)", LOOP),
}


@pytest.mark.parametrize("program", sampled(GUARDED, "imported in the function", "imported above"))
def test_what_jax_computes_is_guarded_beside_an_import_of_torch(tmp_path, program):
    assert ran(tmp_path, *GUARDED[program]) == (FOUND, [])


UNGUARDED = {
    "in a function that is called": ("import torch", STEP, "w = np.ones(3)", STEPS),
    "twice": ("import torch", STEP, "w = np.ones(3)", f"{STEPS}{STEPS}"),
    "beside values of torch": ("import torch", STEP, "w = np.ones(3)", f"seed = torch.ones(2).tolist()\n{STEPS}"),
}


@pytest.mark.parametrize("program", sampled(UNGUARDED, "beside values of torch"))
def test_a_framework_that_comes_too_late_is_warned_of(tmp_path, program):
    out, warned = ran(tmp_path, *UNGUARDED[program])
    assert out == "silent jaxlib"
    assert [line.partition(": ")[2] for line in warned] == [WARNED]


SILENT = {
    "torch alone": ("import torch", "", "w = torch.ones(3)", "w = w * 2"),
    "torch, and jax before": ("import torch, jax", "", "w = torch.ones(3)", "w = w * 2"),
    "torch, and a value of jax": (
        "import torch",
        "def given():\n    import jax\n    return jax.numpy.ones(3)\n",
        "w = torch.ones(3, requires_grad=True)",
        "loss = (w * float(given()[0])).sum()\nloss.backward()",
    ),
    "a batch of jax in a step of torch": (
        "import torch",
        "def given():\n    import jax\n    return jax.numpy.ones(3)\n",
        "w = torch.ones(3, requires_grad=True)",
        "x = given()\nloss = (w * float(x[0])).sum()\nloss.backward()",
    ),
}


@pytest.mark.parametrize("program", sampled(SILENT, "torch alone", "a batch of jax in a step of torch"))
def test_a_healthy_block_is_not_warned_of(tmp_path, program):
    assert ran(tmp_path, *SILENT[program]) == ("silent torch", [])
