"""Runs a bug of GRIST's programs in each form that its framework has: a function, a block, a script or a graph."""

import ast
import linecache
import re
import runpy
import textwrap
import uuid
from dataclasses import replace

import numpy

import backprobe as bp
from backprobe.probe.script import Script
from remedied import INSTEAD, function

IMPORTS = {"torch": "import torch\nimport torch.nn.functional as F", "tensorflow": "import tensorflow as tf"}
FORMS = {"torch": ("function", "block", "script"), "tensorflow": ("function", "block", "graph")}
BIRTHS = ("born", "born_backward", "came_in", "came_in_backward", "unknown")
NAMES = ("x", "w", "b", "labels")
GIVEN = {
    "torch": "torch.tensor({numbers}, requires_grad={is_leaf})",
    "tensorflow": "tf.Variable({numbers}, trainable={is_leaf})",
}

INSIDE = re.compile(r"(?P<model>\bmodel)\((?P<given>x @ w)\)")
MOST = 4  # remedies, one after the other
STANDS = re.compile(
    r"; (?P<name>\w+) stands for (?:what `(?P<call>[^`]+)` gives|`(?P<what>[^`]+)`|"
    r"'(?:[^':]*:)?(?P<local>[\w.]+)(?:#(?P<count>\d+))?')"
)
KEPT = "def kept(value):\n    kept.it = value\n    return value\n"
CUT = "# the body\n"


def indented(text, by="    "):
    return textwrap.indent(text.strip("\n"), by) + "\n"


def as_function(bug):
    """A program whose function ``f`` computes the loss."""
    return f"{bug.setup}\ndef f(x, w, b, labels):\n{indented(bug.body)}    return loss\n"


def as_block(bug):
    """A program with a block around its lines."""
    backward = {"torch": "    loss.backward()\n", "tensorflow": ""}[bug.framework]
    return (
        f"import backprobe as bp\n{IMPORTS[bug.framework]}\n{bug.setup}\n{given(bug)}"
        f"with bp.probe(nonfinite=True) as rec:\n{indented(bug.body)}{backward}"
    )


def as_script(bug):
    return f"{IMPORTS[bug.framework]}\n{bug.setup}\n{given(bug)}{bug.body}\nloss.backward()\n"


def given(bug):
    """The lines that make the inputs."""
    made = GIVEN[bug.framework]
    return "".join(f"{name} = {made.format(numbers=bug.numbers[name], is_leaf=name in ('w', 'b'))}\n" for name in NAMES)


def written(text, folder):
    path = folder / f"program_{uuid.uuid4().hex}.py"
    path.write_text(text)
    return path


def tensors(bug):
    if bug.framework == "torch":
        import torch

        return [torch.tensor(bug.numbers[name]) for name in NAMES]
    import tensorflow as tf

    return [tf.constant(bug.numbers[name]) for name in NAMES]


def explained(bug, form, folder):
    """The report on a bug in one form."""
    if form == "script":
        script = Script(bp.probe(nonfinite=True), str(written(as_script(bug), folder)), ())
        script.run()
        return script.report()
    if form == "block":
        return bp.explain(runpy.run_path(str(written(as_block(bug), folder)))["rec"])
    f = function(as_function(bug), folder, IMPORTS[bug.framework])
    return in_graph(f, bug) if form == "graph" else bp.explain(bp.probe(f, nonfinite=True)(*tensors(bug)))


def in_graph(f, bug):
    graph, fed, output = built(f, bug)
    return of_graph(graph, fed, output)


def built(f, bug):
    """The graph of a function, what its placeholders are fed with, and its output."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        fed = {}
        for name in NAMES:
            array = numpy.array(bug.numbers[name], "float32")
            fed[tf.compat.v1.placeholder(tf.float32, array.shape, name=name)] = array
        return graph, fed, f(*fed)


def of_graph(graph, fed, output):
    import tensorflow as tf

    with tf.compat.v1.Session(graph=graph) as session:
        return bp.explain(bp.probe(output, session=session, nonfinite=True)(fed))


def births(report):
    return [one for one in report.findings if one.kind in BIRTHS]


def verdict(bug, form, folder):
    """The first birth of a bug in one form; whether its line, its reason and its remedy are right, and the report."""
    report = explained(bug, form, folder)
    found = births(report)
    if not found:
        return None, (False, False, False), report
    first = found[0]
    line = "" if first.source is None else linecache.getline(first.source.file, first.source.line)
    is_why = first.headline.endswith(f": {bug.why}")
    return first, ("# born" in line, is_why, cures(bug, form, first, folder)), report


# remedies


def cures(bug, form, first, folder):
    """Is the remedy that which is expected, and is nothing born any more with it in the program?"""
    said = INSTEAD.match(first.remedy)
    if said is None or not said["instead"].startswith(bug.instead):
        return False
    if form == "graph":
        f = function(as_function(bug), folder, IMPORTS["tensorflow"])
        return f"again/{first.name}" not in [one.name for one in births(in_changed_graph(f, bug, said))]
    program, remedy = bug, first.remedy
    for _ in range(MOST):  # a program may have several bugs
        program = changed(program, remedy)
        found = births(explained(program, form, folder))
        if not found or INSTEAD.match(found[0].remedy) is None:
            return not found
        remedy = found[0].remedy
    return False


def changed(bug, remedy):
    """A bug after its remedy: what a letter stands for is kept where it is computed."""
    said, stands = INSTEAD.match(remedy), STANDS.search(remedy)
    program = f"{bug.setup}{CUT}{bug.body}"
    instead = said["instead"]
    if stands is not None:
        program, is_put = kept(program, stands)
        assert is_put, (remedy, program)
        instead = re.sub(rf"\b{stands['name']}\b", "kept.it", instead)
    once = Put(said["formula"], instead)
    setup, body = (ast.unparse(once.visit(ast.parse(part))) for part in program.split(CUT))
    assert once.is_put, (remedy, program)
    return replace(bug, setup=f"{KEPT}{setup}\n" if "def kept" not in setup else setup, body=f"{body}\n")


def kept(program, stands):
    """The program, with what a name stands for kept where it is computed, and whether that was found."""
    if stands["call"]:
        return INSIDE.subn(r"\g<model>[-1](kept(\g<model>[:-1](\g<given>)))", program)
    once = Put(stands["what"], f"kept({stands['what']})")
    if stands["local"]:
        once = Kept(stands["local"], int(stands["count"] or 0))
    return CUT.join(ast.unparse(once.visit(ast.parse(part))) + "\n" for part in program.split(CUT)), once.is_put


class Put(ast.NodeTransformer):
    """Puts an expression in the place of another one, whatever its lines and spaces."""

    def __init__(self, formula, instead):
        self.formula, self.instead, self.is_put = formula, instead, False

    def visit(self, node):
        if isinstance(node, ast.expr) and ast.unparse(node) == self.formula:
            self.is_put = True
            return ast.parse(self.instead, mode="eval").body
        return super().generic_visit(node)


class Kept(ast.NodeTransformer):
    """Keeps what a name is bound to, the parameter of a function being the first."""

    def __init__(self, local, count):
        self.local, self.count, self.is_put = local, count, False

    def visit_FunctionDef(self, node):
        if self.local in [one.arg for one in node.args.args]:
            if self.count == 0:
                node.body.insert(0, ast.parse(f"kept({self.local})").body[0])
                self.is_put = True
                return node
            self.count -= 1
        return self.generic_visit(node)

    def visit_Assign(self, node):
        if not self.is_put and ast.unparse(node.targets[0]) == self.local:
            if self.count == 0:
                node.value = ast.parse(f"kept({ast.unparse(node.value)})", mode="eval").body
                self.is_put = True
            self.count -= 1
        return node


def in_changed_graph(f, bug, said):
    """The report on the graph with another tensor in the place of one; both are written with the names of nodes."""
    import tensorflow as tf

    graph, fed, output = built(f, bug)
    names = sorted((node.name for node in graph.get_operations()), key=len, reverse=True)
    node_name = rf"(?<![\w.'])(?:{'|'.join(map(re.escape, names))})(?![\w(=])"
    text = re.sub(node_name, lambda name: f"node({name[0]!r})", said["instead"])
    with tf.Graph().as_default() as other:
        tf.import_graph_def(graph.as_graph_def(), name="")
        node = {"node": lambda name: other.get_tensor_by_name(f"{name}:0"), "tf": tf}
        code = compile(text, bug.key, "eval")  # TensorFlow reads it again, for the lines of operations
        tensor = eval(code, node)
        mapped = {f"{said['formula']}:0": tensor, **{one.name: other.get_tensor_by_name(one.name) for one in fed}}
        tf.import_graph_def(graph.as_graph_def(), mapped, name="again")
        again = {other.get_tensor_by_name(one.name): array for one, array in fed.items()}
        return of_graph(other, again, other.get_tensor_by_name(f"again/{output.name}"))
