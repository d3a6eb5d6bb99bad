"""What is true of the programs beside this file, by their frameworks alone: ``python tests/births/premise.py FILE``.

A program begins with comment lines, a key and a value each:

    # from: https://…        the thread, page or example that it is rebuilt from; or `own`
    # ask: explain --nonfinite    the words of the command; PROGRAM:NAME asks for a function of the file
    # birth: forward         or `backward`, where all values are finite and a gradient is not; or `healthy`
    # name: y                the value that is not finite; of a backward birth, the one whose gradient is not;
    #                        two, as in `shares, p`, where the line and the one that calls it are marked
    # operands: 0.0 / 0.0    the numbers at the first bad element, or the condition that does not hold
    # value: x.grad          in a script, what is not finite after its last line
    # given: mask            names that may be infinite from the start
    # needs: gpytorch        a library, where it is not one of the frameworks

A comment `# <- here` ends the line of birth; where several have one, any of them is right.

The premise of a forward birth: while the program runs, a value that is not finite is first seen after a marked line.
Of a backward birth: nothing is before the backward pass, the gradients of what a marked line makes are finite, and
those of what it reads are not; or the first is seen after a marked line of a custom backward. Each number among the
operands with a decimal point stands in a value that the line reads, makes, or is given in the backward pass. A healthy
program leaves finite gradients and parameters.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
import types
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
HERE = Path(__file__).resolve().parent
LINE = re.compile(r"# (from|ask|birth|name|operands|value|given|needs): (.*)")
NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+|inf|nan)(?![\w.])")


def head(text):
    """The keys and values of the comment lines that a program begins with."""
    return dict(found.groups() for line in text.splitlines() if (found := LINE.fullmatch(line)))


def marked(text):
    """The numbers of the lines that a right answer may name."""
    return [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# <- here")]


def arrays(value, depth=3):
    """The floating point arrays in a value, as NumPy arrays."""
    if isinstance(value, dict) and depth:
        return [one for each in value.values() for one in arrays(each, depth - 1)]
    if isinstance(value, list | tuple) and depth:
        return [one for each in value for one in arrays(each, depth - 1)]
    if isinstance(value, float | complex):
        return [np.array(value)]
    array = _array(value)
    if array is not None:
        return [array] if array.dtype.kind in "fc" or "float" in array.dtype.name else []
    parts = getattr(value, "parameters", None) or getattr(value, "trainable_variables", None)
    try:
        parts = parts() if callable(parts) else parts
        parts = [*parts, *(each.grad for each in parts if getattr(each, "grad", None) is not None)]
    except (TypeError, AttributeError, ValueError, RuntimeError):
        parts = []
    return [one for each in parts if (one := _array(each)) is not None]


def _array(value):
    # An array or tensor of any framework, below the tracers of its transformations.
    while type(value).__name__.endswith("Tracer"):
        value = getattr(value, "primal", getattr(value, "val", None))
    torch = sys.modules.get("torch")
    if torch and isinstance(value, torch.Tensor):
        functorch = torch._C._functorch
        while functorch.is_functorch_wrapped_tensor(value):
            value = functorch.get_unwrapped(value)
        value = value.detach()
        return (value.float() if value.dtype == torch.bfloat16 else value).resolve_conj().numpy()
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, type):
        try:
            return np.asarray(value)
        except (TypeError, ValueError, AttributeError, NotImplementedError):
            return None
    return None


def is_finite(value):
    """Whether all numbers in a value are finite."""
    return all(np.isfinite(each.astype(complex)).all() for each in arrays(value))


class Trace:
    """The first line of a file after which a value is not finite, and the numbers at its marked lines."""

    def __init__(self, path, lines, given):
        self.path, self.lines, self.given = str(path), lines, given
        self.first, self.numbers, self.before, self.done = None, [], {}, False

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename != self.path:
            return None
        last, self.before[frame] = self.before.get(frame), frame.f_lineno
        if event == "return" and frame.f_code.co_name != "<module>":
            self._look(frame, frame.f_lineno, {"return": argument})
        elif last is not None:
            self._look(frame, last, frame.f_locals)
        if frame.f_lineno in self.lines:
            self._note(frame.f_locals)
        return self

    def _look(self, frame, line, values):
        if line in self.lines:
            self._note({**frame.f_locals, **values})
        if self.first is None:
            bad = [name for name, value in list(values.items()) if name not in self.given and not is_finite(value)]
            self.first = (line, bad[0]) if bad else None

    def _note(self, values):
        for each in list(values.values()):
            self.numbers += arrays(each)
        if "self" in values:
            self.numbers += [one for each in vars(values["self"]).values() for one in arrays(each)]

    def __enter__(self):
        sys.settrace(self)
        return self

    def __exit__(self, *error):
        sys.settrace(None)


class Seen(ast.NodeTransformer):
    """Marked statements with a look at the gradients of what they read and make."""

    def __init__(self, lines):
        self.lines, self.bound = lines, [None]

    def visit_FunctionDef(self, node):
        given = [each.arg for each in [*node.args.args, *node.args.kwonlyargs]]
        names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
        self.bound.append({*given, *names})
        self.generic_visit(node)
        self.bound.pop()
        return node

    def visit_Assign(self, node):
        return self._seen(node, [each.id for each in ast.walk(node) if _is(each, ast.Store)])

    visit_AugAssign = visit_Assign

    def visit_Return(self, node):
        if node.lineno in self.lines:
            read = self._read(node)
            node.value = ast.parse(f"__seen__('out', {ast.unparse(node.value)})").body[0].value
            return [*read, node]
        return node

    def _read(self, node):
        local = self.bound[-1]
        names = dict.fromkeys(each.id for each in ast.walk(node) if _is(each, ast.Load))
        names = [each for each in names if local is None or each in local]
        return [one for each in names for one in ast.parse(f"{each} = __seen__('in', {each})").body]

    def _seen(self, node, made):
        if node.lineno not in self.lines:
            return node
        made = [one for each in made for one in ast.parse(f"{each} = __seen__('out', {each})").body]
        return [*self._read(node), node, *made]


def _is(node, context):
    return isinstance(node, ast.Name) and isinstance(node.ctx, context)


class Gradients:
    """The gradients that come to what marked lines read and make."""

    def __init__(self, framework):
        self.framework, self.found = framework, {"in": [], "out": []}

    def __call__(self, side, value):
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(self(side, each) for each in value)
        if not arrays(value, 0) or isinstance(value, float | complex | np.ndarray | np.generic):
            return value
        return getattr(self, f"_{self.framework}")(self.found[side].append, value)

    def _torch(self, note, value):
        if hasattr(value, "requires_grad") and value.requires_grad:
            value.register_hook(lambda gradient: note(_array(gradient)))
        return value

    def _tensorflow(self, note, value):
        import tensorflow as tf

        if not isinstance(value, tf.Tensor):
            return value
        return tf.custom_gradient(lambda x: (tf.identity(x), lambda dy: note(_array(dy)) or dy))(value)

    def _jax(self, note, value):
        import jax

        if not isinstance(value, jax.Array):
            return value
        same = jax.custom_vjp(lambda x: x)
        same.defvjp(lambda x: (x, None), lambda _, g: note(_array(g)) or (g,))
        return same(value)


def ran(path, one, tree=None, seen=None):
    """What a program or its function leaves: for a function, its result and gradients."""
    lines = path.read_text()
    code = compile(tree or ast.parse(lines), str(path), "exec")
    module = sys.modules[path.stem] = types.ModuleType(path.stem)  # where a dataclass looks its module up
    module.__dict__["__seen__"] = seen
    exec(code, vars(module))
    given = vars(module)
    if "PROGRAM:" not in one.get("ask", ""):
        return given
    _, *words = [word for word in shlex.split(one["ask"]) if not word.startswith("--")]
    target, *words = words
    values = {name: _numbers(value) for name, _, value in (word.partition("=") for word in words)}
    run = given[target.split(":")[1]]
    result, gradients = {"torch": _torch, "tensorflow": _tensorflow, "jax": _jax}[path.parent.name](run, values)
    return {"result": result, "gradients": gradients}


def _numbers(written):
    if written.startswith("randn"):
        return np.random.default_rng(0).normal(size=ast.literal_eval(written[len("randn") :])).astype(np.float32)
    return np.array(ast.literal_eval(written), np.float32)


def _torch(run, given):
    import torch

    given = {each: torch.from_numpy(value).requires_grad_() for each, value in given.items()}
    result = run(**given)
    result.backward()
    return result, [value.grad for value in given.values()]


def _tensorflow(run, given):
    import tensorflow as tf

    given = {each: tf.constant(value) for each, value in given.items()}
    with tf.GradientTape() as tape:
        tape.watch(given)
        result = run(**given)
    return result, tape.gradient(result, given)


def _jax(run, given):
    import jax

    given = {each: jax.numpy.asarray(value) for each, value in given.items()}
    return jax.value_and_grad(lambda values: run(**values))(given)


def faults(path):
    """What is not as the head of a program says: nothing, if all of it is."""
    import contextlib

    text = path.read_text()
    one, lines, framework = head(text), marked(text), path.parent.name
    given = {*one.get("given", "").replace(",", " ").split()}
    plainly = contextlib.nullcontext()
    if framework == "jax":
        import jax

        plainly = jax.disable_jit()
    with plainly:
        if one["birth"] == "healthy":
            left = ran(path, one)
            wrong = [name for name, value in left.items() if name not in given and not is_finite(value)]
            return [f"{path.name}: {each} is not finite" for each in wrong]
        with Trace(path, lines, given) as trace:
            left = ran(path, one)
        end = left["gradients"] if "gradients" in left and "value" not in one else None
        bad = eval(one["value"], left) if "value" in one else (left["result"], end)
        wrong = [f"{path.name}: all is finite in the end"] if is_finite(bad) else []
        numbers = trace.numbers
        if one["birth"] == "forward" or (trace.first and trace.first[0] in lines):
            if not trace.first or trace.first[0] not in lines:
                wrong.append(f"{path.name}: first seen at {trace.first}, not at {lines}")
            elif one["birth"] == "forward" and trace.first[1] not in (*one["name"].split(", "), "return"):
                wrong.append(f"{path.name}: first seen in {trace.first[1]}, not in {one['name']}")
        else:
            numbers = numbers + _backward(path, one, lines, bad, wrong)
    return wrong + unseen(path, one, text, lines, numbers)


def _backward(path, one, lines, bad, wrong):
    # The gradients at the marked lines; what is wrong with them is added.
    seen = Gradients(path.parent.name)
    tree = ast.fix_missing_locations(Seen(lines).visit(ast.parse(path.read_text())))
    ran(path, one, tree, seen)
    read, made = seen.found["in"], seen.found["out"]
    if not made or not is_finite(made):
        wrong.append(f"{path.name}: the gradient of what the line makes is not finite: {made}")
    if is_finite(read or bad):
        wrong.append(f"{path.name}: the gradient of what the line reads is finite: {read}")
    return [each for each in read + made if each is not None]


def unseen(path, one, text, lines, numbers):
    """The operands in the head that stand nowhere at the marked lines."""
    code = [line.partition("#")[0] for number, line in enumerate(text.splitlines(), 1) if number in lines]
    there = [float(each) for line in code for each in NUMBER.findall(line)]
    parts = [part.ravel() for each in numbers for part in (each.real, each.imag)]
    pool = np.concatenate([np.array(there, float), *(each.astype(float) for each in parts)])
    wanted = [float(each) for each in NUMBER.findall(one["operands"])]
    close = [bool(np.isclose(pool, each, rtol=1e-3, atol=1e-9, equal_nan=True).any()) for each in wanted]
    return [f"{path.name}: no operand is {each}" for each, is_there in zip(wanted, close, strict=True) if not is_there]


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]).resolve())
    print("\n".join(wrong) or "as its head says")
    sys.exit(bool(wrong))
