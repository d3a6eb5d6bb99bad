"""Random structured programs in JAX: loops, branches, batches and checkpoints within each other, as source text.

Each is written twice: as itself, and with something added at every binding (``u3 = … + e['u3']``), which JAX itself
differentiates. Values are scalars or vectors of three numbers. Every binding has a name of its own.
"""

import random
from dataclasses import dataclass, field

LENGTH = 3
SHAPES = {"scalar": (), "vector": (LENGTH,)}
UNARY = ("jnp.sin({})", "jnp.tanh({})", "({} * 0.7)", "jnp.exp(-{} ** 2)", "({} + 0.3)")
BINARY = ("({} * {})", "({} + {})", "({} - 0.5 * {})")


@dataclass
class Binding:
    """Where a variable is bound: its kind, and the loops and batches around it, the outermost first."""

    name: str
    kind: str
    axes: tuple[tuple[str, int], ...]

    @property
    def shape(self):
        return (*(length for _, length in self.axes), *SHAPES[self.kind])


@dataclass
class Writer:
    """Writes one program; the same seed gives the same program, perturbed or not."""

    seed: int
    perturbed: bool = False
    lines: list = field(default_factory=list)
    bindings: dict = field(default_factory=dict)
    scopes: dict = field(default_factory=dict)  # which bindings and functions each function holds

    def __post_init__(self):
        self.random = random.Random(self.seed)
        self.count = 0

    def text(self):
        extra = ", e" if self.perturbed else ""
        self.lines.append(f"def program(x, w{extra}):")
        result = self.body(1, {"x": "scalar", "w": "vector"}, (), "program", "scalar", depth=0)
        self.lines.append(f"    return {result}")
        return "import jax\nimport jax.numpy as jnp\n\n\n" + "\n".join(self.lines) + "\n"

    def fresh(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def bind(self, indent, scope, kind, axes, expression):
        name = self.fresh("u")
        self.bindings[name] = Binding(name, kind, axes)
        self.scopes.setdefault(scope, []).append(name)
        added = f" + e[{name!r}]" if self.perturbed else ""
        self.lines.append("    " * indent + f"{name} = {expression}{added}")
        return name

    def body(self, indent, known, axes, scope, kind, depth):
        """Some statements; the expression of what the function returns, which has no name."""
        outside, known = known, dict(known)
        for _ in range(self.random.randint(1, 2 if depth else 4)):
            known.update(self.statement(indent, known, axes, scope, depth))
        parts = [f"0.3 * jnp.sum({name})" for name in known if name not in outside and self.random.random() < 0.8]
        return " + ".join([self.expression(known, kind), *parts])

    def expression(self, known, kind):
        """Something new made of what is known."""
        names = list(known)
        first = self.random.choice(names[-4:])
        text, of = first, known[first]
        if self.random.random() < 0.6:
            second = self.random.choice(names)
            text = self.random.choice(BINARY).format(text, second)
            of = "vector" if "vector" in (of, known[second]) else "scalar"
        text = self.random.choice(UNARY).format(text)
        if of == "vector" and kind == "scalar":
            return f"jnp.sum({text})"
        return f"({text} * jnp.asarray([1.0, -0.5, 2.0]))" if of == "scalar" and kind == "vector" else text

    def statement(self, indent, known, axes, scope, depth):
        structures = ("scan", "loop", "branch", "batch", "checkpoint", "jit", "map", "derivative")
        if depth == 2 + self.seed % 2 or self.random.random() < 0.4:
            kind = self.random.choice(list(SHAPES))
            return {self.bind(indent, scope, kind, axes, self.expression(known, kind)): kind}
        return getattr(self, self.random.choice(structures))(indent, known, axes, scope, depth)

    def function(self, indent, known, axes, scope, given, kind, depth, result="{}"):
        """The definition of a function within another; gives its name."""
        name = self.fresh("f")
        self.scopes.setdefault(scope, []).append(name)
        parameters = [*given, *(["e"] if self.perturbed else [])]
        self.lines.append("    " * indent + f"def {name}({', '.join(parameters)}):")
        made = self.body(indent + 1, known | given, axes, name, kind, depth + 1)
        self.lines.append("    " * (indent + 1) + "return " + result.format(made))
        return name

    def e(self, *names):
        """The perturbations of functions, as further arguments of a call."""
        return "".join(f", e[{name!r}]" for name in names) if self.perturbed else ""

    def called(self, transform, indent, known, axes, scope, depth):
        """A function of one value, transformed and called."""
        kind, given = self.random.choice(list(SHAPES)), self.random.choice(list(SHAPES))
        name = self.function(indent, known, axes, scope, {self.fresh("p"): given}, kind, depth)
        call = f"{transform.format(name)}({self.expression(known, given)}{self.e(name)})"
        return {self.bind(indent, scope, kind, axes, call): kind}

    def checkpoint(self, indent, known, axes, scope, depth):
        policy = self.random.choice(("", ", policy=jax.checkpoint_policies.dots_saveable"))
        return self.called(f"jax.checkpoint({{}}{policy})", indent, known, axes, scope, depth)

    def jit(self, *where):
        return self.called("jax.jit({})", *where)

    def derivative(self, indent, known, axes, scope, depth):
        name = self.function(indent, known, axes, scope, {self.fresh("p"): "scalar"}, "scalar", depth)
        call = f"jax.grad({name})({self.expression(known, 'scalar')}{self.e(name)})"
        return {self.bind(indent, scope, "scalar", axes, call): "scalar"}

    def batch(self, indent, known, axes, scope, depth):
        inside = (*axes, ("batch", LENGTH))
        name = self.function(indent, known, inside, scope, {self.fresh("p"): "scalar"}, "scalar", depth)
        call = f"jax.vmap({name})({self.expression(known, 'vector')}{self.e(name)}) * 1.2"
        return {self.bind(indent, scope, "vector", axes, call): "vector"}

    def map(self, indent, known, axes, scope, depth):
        inside, given = (*axes, ("step", LENGTH)), self.fresh("p")
        name = self.function(indent, known, inside, scope, {given: "scalar"}, "scalar", depth)
        over = self.expression(known, "vector")
        if self.perturbed:
            call = f"jax.lax.map(lambda pair: {name}(*pair), ({over}, e[{name!r}]))"
        else:
            call = f"jax.lax.map({name}, {over})"
        return {self.bind(indent, scope, "vector", axes, call): "vector"}

    def branch(self, indent, known, axes, scope, depth):
        kind, given = self.random.choice(list(SHAPES)), self.random.choice(list(SHAPES))
        functions = [
            self.function(indent, known, axes, scope, {self.fresh("p"): given}, kind, depth)
            for _ in range(self.random.choice((2, 3)))
        ]
        if self.perturbed:
            each = [f"lambda p, e: {name}(p, e[{name!r}])" for name in functions]
        else:
            each = functions
        where, given_e = self.expression(known, "scalar"), ", e" if self.perturbed else ""
        threshold = self.random.choice((0.1, -0.2, 0.4))
        index = f"jnp.astype({where} > {threshold}, jnp.int32) * {len(each) - 1}"
        call = f"jax.lax.switch({index}, [{', '.join(each)}], {self.expression(known, given)}{given_e})"
        return {self.bind(indent, scope, kind, axes, call): kind}

    def scan(self, indent, known, axes, scope, depth):
        kind, carry, item = self.random.choice(list(SHAPES)), self.fresh("c"), self.fresh("p")
        inside = (*axes, ("step", LENGTH))
        out = self.random.choice(("None", item, f"jnp.sin({carry})"))
        name = self.function(
            indent, known, inside, scope, {carry: kind, item: "scalar"}, kind, depth, result=f"{{}}, {out}"
        )
        options = self.random.choice(("", ", reverse=True", ", unroll=2"))
        over = self.expression(known, "vector")
        step = f"lambda c, pair: {name}(c, *pair)" if self.perturbed else name
        over = f"({over}, e[{name!r}])" if self.perturbed else over
        call = f"jax.lax.scan({step}, {self.expression(known, kind)}, {over}{options})"
        where = "    " * indent
        last, each = self.fresh("r"), self.fresh("r")
        self.lines.append(f"{where}{last}, {each} = {call}")
        first = self.bind(indent, scope, kind, axes, f"{last} * 1.1")
        found = {first: kind}
        if out != "None" and not (out != item and kind == "vector"):
            found[self.bind(indent, scope, "vector", axes, f"{each} * 0.9")] = "vector"
        return found

    def loop(self, indent, known, axes, scope, depth):
        kind, carry, at = self.random.choice(list(SHAPES)), self.fresh("c"), self.fresh("i")
        inside = (*axes, ("step", 2))
        name = self.function(indent, known, inside, scope, {at: "scalar", carry: kind}, kind, depth)
        step = name
        if self.perturbed:
            step = f"lambda i, c: {name}(i, c, jax.tree.map(lambda one: one[i], e[{name!r}]))"
        call = f"jax.lax.fori_loop(0, 2, {step}, {self.expression(known, kind)})"
        return {self.bind(indent, scope, kind, axes, call): kind}


def perturbations(writer, make, scope="program"):
    """What is added at each binding, in the shape of the scopes of a program: ``make(binding)`` gives an array."""
    return {
        name: make(writer.bindings[name]) if name in writer.bindings else perturbations(writer, make, name)
        for name in writer.scopes.get(scope, ())
    }


def flat(tree):
    """The arrays of such a tree by the name of the binding."""
    found = {}
    for name, value in tree.items():
        found.update(flat(value) if isinstance(value, dict) else {name: value})
    return found
