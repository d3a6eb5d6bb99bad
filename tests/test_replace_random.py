"""``replace=`` in random programs, against the same programs with the statement written by hand."""

import ast

import torch

import backprobe as bp
from random_programs.compare import LARGEST, load, plain_output
from random_programs.drawn import check_many
from random_programs.interpreter import ARGUMENTS, Interpreter
from random_programs.statements import generate
from sampled import count, drawn


def changed(value):
    return value * 0.9 + 0.1


def by_hand(new, old=None, is_written=False):
    """What a rewritten program binds: a name that is bound to the object that it holds already is not bound anew."""
    return new if new is old and not is_written else changed(new)


class ByHand(ast.NodeTransformer):
    """Writes ``name = by_hand(name, old)`` behind each statement of a function that binds a name."""

    def __init__(self, function, name):
        self.function, self.name, self.inside = function, name, False

    def visit_FunctionDef(self, node):
        outer, self.inside = self.inside, node.name == self.function
        node = self.generic_visit(node)
        if self.inside and any(argument.arg == self.name for argument in node.args.args):
            node.body[:0] = ast.parse(f"{self.name} = by_hand({self.name})").body
        self.inside = outer
        return node

    def binding(self, node):
        if not self.inside or not any(self.is_target(part) for part in ast.walk(node) if part is not node):
            return node
        before = f"old = locals().get({self.name!r})"
        after = f"{self.name} = by_hand({self.name}, old, {isinstance(node, ast.AugAssign)})"
        return [*ast.parse(before).body, node, *ast.parse(after).body]

    def is_target(self, node):
        return isinstance(node, ast.Name) and node.id == self.name and isinstance(node.ctx, ast.Store)

    visit_Assign = visit_AugAssign = visit_AnnAssign = binding

    def visit_For(self, node):
        node = self.generic_visit(node)
        if self.inside and any(map(self.is_target, ast.walk(node.target))):
            node.body[:0] = ast.parse(f"{self.name} = by_hand({self.name})").body
        return node


UNSEEN = (ast.comprehension, ast.With, ast.NamedExpr, ast.match_case, ast.Lambda)


def is_plain(program, name):
    """Is this name bound by assignments, loops and arguments alone?"""
    unseen = [node for node in ast.walk(ast.parse(program)) if isinstance(node, UNSEEN)]
    return not any(isinstance(part, ast.Name) and part.id == name for node in unseen for part in ast.walk(node))


def one_of(rec, program):
    """A function and a variable of it that holds tensors alone, the same for the same program."""
    kinds = {full: rec.record.entries[at].status for full, at in rec.record.names.items()}
    numbers = {bp.record.names.strip(full) for full, kind in kinds.items() if kind is bp.GradStatus.NOT_TENSOR}
    names = {name: None for name in map(bp.record.names.strip, kinds) if name not in numbers}
    simple = [name for name in names if name.rpartition(":")[2].isidentifier() and "return" not in name]
    simple = [
        name
        for name in simple
        if not any(other.startswith(f"{name}.") for other in names)
        and is_plain(program, name.rpartition(":")[2])
        and name.count("/") < 2
    ]
    return simple[sum(map(ord, program)) % len(simple)] if simple else None


def run(function, given):
    given = [one.clone().requires_grad_() for one in given]
    aliases = [one * 1 for one in given]
    result = function(*aliases)
    return result.detach(), torch.autograd.grad(result, given, allow_unused=True)


@drawn
def test_random_programs_with_a_name_replaced(tmp_path):
    judged = []

    def check(program):
        at = len(list(tmp_path.iterdir()))
        function = load(program, tmp_path / f"program_{at}.py")
        given = [torch.tensor(v, dtype=torch.float64) for v in ARGUMENTS[: function.__code__.co_argcount]]
        oracle = Interpreter()
        oracle.run(program)
        if plain_output(function, given) is None or not oracle.memory.largest < LARGEST:
            return False
        name = one_of(bp.probe(function)(*given), program)
        if name is None:
            return False
        scope, _, local = name.rpartition(":")
        text = ast.unparse(ByHand(scope.lstrip("/") or "f", local).visit(ast.parse(program)))
        rewritten = load(text, tmp_path / f"by_hand_{at}.py", by_hand=by_hand)
        try:
            value, gradients = run(rewritten, given)
        except RuntimeError:  # PyTorch cannot differentiate that
            return False
        rec = bp.probe(function, wrt=None, replace={f"**{scope}:{local}" if scope else name: changed})(
            *[one.clone() for one in given]
        )
        judged.append(name)
        assert torch.equal(rec.result.detach(), value) or value.isnan(), (program, text, name)
        arguments = list(rec.values())[: len(given)]
        if not scope and any(bp.record.names.strip(entry.name) == local for entry in arguments):
            return True  # the entry of a replaced argument is that of what went on
        for entry, gradient in zip(arguments, gradients, strict=True):
            own = entry.grad_or_none
            assert (own is None) == (gradient is None), (program, text, name, entry)
            assert own is None or torch.allclose(own, gradient, 1e-12, 1e-15), (program, text, name, own, gradient)
        return True

    check_many(generate, check, count(150))
    assert len(set(judged)) > 10
