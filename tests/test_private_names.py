"""Names that a framework does not promise: they are used by ``private`` alone, and a release may lose each of them."""

import ast
import re
from pathlib import Path

import pytest

import prepared

BACKENDS = Path(__file__).parents[1] / "src" / "backprobe" / "backends"
OWN = {"private.py", "dynamo.py"}
PRIVATE = re.compile(r"_[a-zA-Z]\w*")
LOST = """
import sys
from backprobe.backends import private_names
known = private_names.lookup
has = private_names.has
private_names.lookup = lambda path: None if path == sys.argv[1] else known(path)
private_names.has = lambda owner, path: path != sys.argv[1] and has(owner, path)
"""
"""The framework has lost the name that is the program's argument."""
PROGRAM = """
import torch
import backprobe as bp
from backprobe.errors import Unsupported

def line(x, w, b):
    u = x * w
    v = u + b
    a = torch.relu(v)
    return a

def inner(x):
    z = 2 * x
    y = z ** 2 + 2 * z + 2
    return y

def seeds():
    given = [torch.tensor(one, requires_grad=True) for one in (3.0, 2.0, 1.0)]
    rec = bp.probe(line, partials=True)(*given)
    assert [float(rec[name].grad) for name in ("x", "w", "b", "u", "v", "a")] == [2, 3, 1, 1, 1, 1], rec
    assert [float(rec[name].value) for name in "uva"] == [6, 7, 7], rec
    for strategy in ("retain_grad", "hooks", "separate"):
        again = bp.probe(line, strategy=strategy)(*given)
        assert [float(again[name].grad) for name in ("x", "w", "b", "u", "v")] == [2, 3, 1, 1, 1], again
    rec = bp.probe(inner)(torch.tensor(1.0))
    assert [float(rec[name].grad) for name in "yzx"] == [1, 6, 12], rec

def block():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    x = torch.ones(4, 2)
    bare = torch.autograd.grad(model(x).square().mean(), list(model.parameters()))
    with bp.probe(model) as rec:
        loss = model(x).square().mean()
        loss.backward()
    for (name, one), right in zip(model.named_parameters(), bare, strict=True):
        assert torch.equal(rec[name].grad, right), name
    assert bp.explain(rec).ok
    with bp.probe() as rec:
        h = x.sum() * model[0].bias[0]
        h.backward()
    assert float(rec["h"].grad) == 1

def checked():
    bp.check(lambda x: x.exp().sum())(torch.ones(2))

def provoked():
    bp.provoke(lambda x: x.log().sum())(torch.ones(2))

def samples():
    bp.per_sample(lambda w, x: (x @ w).sum(), ["w"])(torch.ones(2), torch.ones(3, 2))

def watched():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with bp.watch(model, "run", optimizer=optimizer):
        model(torch.ones(3, 2)).sum().backward()
        optimizer.step()

for part in (seeds, block, checked, provoked, samples, watched):
    try:
        part()
        print("ran", part.__name__)
    except Unsupported as error:
        print("refused", part.__name__, error)
"""


def uses(text):
    """The private names of PyTorch in a source text, and private attributes of what is not its own."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] == "torch":
                parts = [*module.split("."), *[one.name for one in names]]
                found |= {f"{module}.{names[0].name}" for part in parts if PRIVATE.fullmatch(part)}
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name) if PRIVATE.fullmatch(name):
                path = ast.unparse(node)
                found.add(path if path.startswith("torch.") else name)
            case ast.Call(func=ast.Name(id="attrgetter"), args=args):
                found |= {one.value for one in args if isinstance(one, ast.Constant) and PRIVATE.fullmatch(one.value)}
    return found


OTHERS = {"_getframe", "_current_frames", "_fields", "_orig_mod"}
"""Python's, and that of a compiled module, whose class ``dynamo`` looks up."""


def own():
    """The private names that the package gives to attributes and functions of its own."""
    for file in (BACKENDS / "torch").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Attribute(value=ast.Name(id="self"), attr=name) | ast.FunctionDef(name=name):
                    yield name


def test_private_names_of_pytorch_are_used_by_one_module_alone():
    """Attributes of its objects are read elsewhere, where ``private`` has looked for them."""
    checked = {name.rpartition(".")[2] for name in names()} | OTHERS | {*own()}
    found = {
        str(file.relative_to(BACKENDS)): unchecked
        for file in (BACKENDS / "torch").rglob("*.py")
        if file.name not in OWN and (unchecked := uses(file.read_text()) - checked)
    }
    assert found == {}


def test_a_use_of_a_private_name_is_seen():
    text = "from torch._C import x\nfrom torch.utils import _pytree\ntorch._C.f()\nt._version\nself._own\n"
    text += "attrgetter('_base')"
    assert uses(text) == {"torch._C.x", "torch.utils._pytree", "torch._C", "_version", "_base"}


def names():
    """The names that PyTorch's backend looks up, and the attributes that it looks for."""
    text = (BACKENDS / "torch" / "private.py").read_text()
    paths = re.findall(r'NAMES\.(?:needed|optional)\(\s*"([\w.]+)"', text)
    attributes = re.findall(r'"(torch[\w.()]+)": \(\s*[\w.()]+,\s*\(([^)]*)\)', text)
    return [*paths, *[f"{owner}.{name}" for owner, held in attributes for name in re.findall(r'"(\w+)"', held)]]


REFUSED = {
    "torch.utils._python_dispatch.TorchDispatchMode": ["checked"],
    "torch._C._get_tracing_state": ["watched"],
    **dict.fromkeys(
        [
            "torch.utils._python_dispatch._push_mode",
            "torch.utils._python_dispatch._pop_mode",
            "torch._C._get_dispatch_stack_at",
            "torch._C._DisableTorchDispatch",
            "torch._C._autograd.SavedTensor.unpack_hook",
            "torch._C._current_autograd_node",
            "torch.utils._pytree.tree_map",
            "torch._C.PyTorchFileWriter",
            "torch._C._autograd._unsafe_set_version_counter",
        ],
        [],
    ),
}
"""What is refused without a name: without any other, all of it. Explanations of scripts and births do with less."""


@pytest.mark.parametrize("name", names())
def test_a_release_that_has_lost_a_private_name(tmp_path, name):
    """The seeds' cases and blocks give the same, or what needs the name is refused by it, and by nothing else."""
    (tmp_path / "program.py").write_text(LOST + PROGRAM)
    ended = prepared.run("torch", "program.py", name, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    refused = re.findall(r"^refused (\w+)", ended.stdout, re.MULTILINE)
    assert refused == REFUSED.get(name, ["seeds", "block", "checked", "provoked", "samples", "watched"])
    assert ended.stdout.count(f"{name}") == len(refused)
