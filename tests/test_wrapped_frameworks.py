"""Other libraries wrap functions of the frameworks before the first probe: records and programs stay what they are."""

import json

import pytest

import prepared
from sampled import sampled

WRAPPING = """
import functools, json, sys, sysconfig

LIBRARY = '''
import functools
def closure(function):
    def wrapper(*args, **kwargs):
        result = function(*args, **kwargs)
        return result
    return wrapper
def decorated(function):
    return functools.wraps(function)(closure(function))
class partial(functools.partial):
    "It has no __code__."
    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)
'''
library = {"__name__": "otherlib"}
exec(compile(LIBRARY, sysconfig.get_paths()["purelib"] + "/otherlib/__init__.py", "exec"), library)
library["bare"] = lambda function: function

def wrap(owner, *names):
    for name in names:
        held = vars(owner)[name]
        is_static = isinstance(held, staticmethod)
        made = library[sys.argv[1]](held.__func__ if is_static else held)
        setattr(owner, name, staticmethod(made) if is_static else made)
"""

TORCH = """
import torch, torch.utils.checkpoint as checkpoints
wrap(torch.autograd, "backward", "grad")
wrap(torch.Tensor, "backward")
wrap(torch.nn.Module, "__call__")
wrap(checkpoints.CheckpointFunction, "forward", "backward")
wrap(checkpoints, "checkpoint")
import backprobe as bp

torch.manual_seed(0)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def forward(self, x):
        hidden = self.layer(x)
        return hidden.tanh()

def part(v):
    inner = v.exp()
    return inner * v

def penalised(x):
    y = (x**3).sum()
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    return slope.sum()

net, x = Net(), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
with bp.probe() as block:
    h = net(x)
    u = checkpoints.checkpoint(part, h, use_reentrant=True)
    slope = torch.autograd.grad(u.sum(), u, create_graph=True)[0]
    loss = (u * slope).sum()
    loss.backward()
with bp.probe(net) as model:
    net(x).sum().backward()
def passing(v):
    with bp.probe() as rec:
        y = v * 2
        torch.autograd.backward([y], [torch.ones(3)], inputs=[v])
    return rec
records = [block, model, passing(x), bp.probe(lambda x: net(x).sum())(x)]
report = bp.check(penalised)(x)
said = [str(report)]
try:
    with bp.probe() as rec:
        y = x.exp()
        y.mul_(2)
        y.sum().backward()
except RuntimeError as error:
    said += error.__notes__[1:]
"""

TENSORFLOW = """
import tensorflow as tf
wrap(tf.GradientTape, "gradient", "jacobian", "watch", "_push_tape", "_pop_tape")
wrap(tf, "map_fn", "while_loop")
import backprobe as bp

def squared(t):
    inside = t * t
    return inside

@tf.custom_gradient
def own(t):
    def backward(upstream):
        twice = upstream * 2
        return twice
    return t, backward

x, w = tf.constant([1.0, 2.0]), tf.Variable([3.0, 4.0])
with bp.probe() as block:
    with tf.GradientTape() as tape:
        tape.watch(x)
        h = own(x) * w
        loss = tf.reduce_sum(h)
    slope = tape.gradient(loss, x)
    total = loss + tf.reduce_sum(slope * x)
def mapped(x):
    each = tf.map_fn(squared, x)
    return tf.reduce_sum(each)
records, said = [block, bp.probe(mapped)(x)], []
"""

JAX = """
import jax, jax.numpy as jnp
wrap(jax, "grad", "vmap", "checkpoint", "jit")
wrap(jax.lax, "scan", "cond")
wrap(jax.tree, "map")
import backprobe as bp

def step(carry, x):
    inner = carry * x
    return jnp.sin(inner), inner

def squared(t):
    inside = t * t
    return inside

@jax.jit
def compiled(t):
    within = t + 1
    return within

def program(x):
    last, every = jax.lax.scan(step, x[0], x)
    each = jax.vmap(squared)(x)
    again = jax.checkpoint(squared)(x)
    leaves = jax.tree.map(squared, {"a": x})
    chosen = jax.lax.cond(True, squared, step, x) if False else jax.lax.cond(True, squared, squared, x)
    slope = jax.grad(lambda v: squared(v).sum())(x)
    return last + (each * again * leaves["a"] * chosen * slope * compiled(x)).sum()

records, said = [bp.probe(program)(jnp.array([1.0, 2.0, 3.0]))], []
"""

TOLD = """
found = [
    {name: [str(entry.status), entry.source and entry.source.line, getattr(entry.held_grad, "tolist", str)()]
     for name, entry in record.items()} | {"notes": [str(note) for note in record.notes]}
    for record in records
]
print(json.dumps([found, said]))
"""


def told(framework, program, kind, path):
    path.write_text(WRAPPING + program + TOLD)
    found = prepared.run(framework, path, kind)
    assert found.returncode == 0, found.stderr[-3000:]
    return json.loads(found.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", sampled(["closure", "decorated", "partial"], "partial"))
@pytest.mark.parametrize(
    ("framework", "program"),
    [
        pytest.param("torch", TORCH, id="torch"),
        pytest.param("tensorflow", TENSORFLOW, id="tensorflow", marks=pytest.mark.all_frameworks),
        pytest.param("jax", JAX, id="jax", marks=pytest.mark.all_frameworks),
    ],
)
def test_a_wrapper_around_a_function_of_a_framework_changes_no_record(framework, program, kind, tmp_path):
    path = tmp_path / "program.py"
    bare = told(framework, program, "bare", path)
    assert all(len(record) > 2 for record in bare[0])
    assert told(framework, program, kind, path) == bare
