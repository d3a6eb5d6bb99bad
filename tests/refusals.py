"""Calls that have to be refused, with the same message in every framework: the docstring of each is what it says."""

import inspect

import backprobe as bp

OWN_WORDS = {
    "torch": {
        "ones": "torch.ones",
        "cut off": "no argument or parameter requires a gradient, or the graph was cut on the way (detach, no_grad)",
        "instead": "requires_grad_() on an input or parameter; in the function form, remove what cuts the graph",
    },
    "tensorflow": {
        "ones": "tf.ones",
        "cut off": "it was computed from no argument and no trainable Variable, or was cut off on the way "
        "(tf.stop_gradient, NumPy, an integer or bool dtype)",
        "instead": "remove what cuts it off; or trainable=True for a Variable that it is computed from",
    },
    "jax": {
        "ones": "jnp.ones",
        "cut off": "it was computed from no argument of the function, or was cut off on the way "
        "(jax.lax.stop_gradient, NumPy, an integer or bool dtype)",
        "instead": "remove what cuts it off; or give the function what it is computed from as an argument",
    },
}
"""What a message says in the words of each framework, where it has <these>."""


class Refusal:
    """A call that raises this kind of error; ``whole`` unless the framework's own words end the message."""

    def __init__(self, claim, kind, call, whole):
        self.claim, self.kind, self.call, self.whole = claim, kind, call, whole
        self.text = "\n  ".join(inspect.cleandoc(call.__doc__).splitlines())  # the parts of a message are set in

    def says(self, message, framework):
        text = self.text
        for word, spelled in OWN_WORDS[framework].items():
            text = text.replace(f"<{word}>", spelled)
        return message == text if self.whole else message.startswith(text)


REFUSALS = []


def refused(claim, kind, whole=True):
    """Decorate a call that has to be refused."""
    return lambda call: REFUSALS.append(Refusal(claim, kind, call, whole))


def toy(x, w):
    u = x * w
    v = u + 1
    return v


def several(x):
    return {"loss": x * 2, "aux": x * 3}


def rebound(x):
    h = x * 2
    h = h * 3
    return h


def unused(x):
    u = x * 2
    return x * 3


def square(z):
    return z * z


def cut(stop):
    return lambda x: stop(x) * 2


def generated(x):
    yield x * 2


def probed(framework, function, *numbers, **options):
    return bp.probe(function, **options)(*(framework.tensor(number) for number in numbers))


@refused("a pattern that matches nothing", bp.NothingMatched)
def pattern(framework):
    """the pattern 'vv' matches nothing in toy
    asked: bp.probe(toy, 'vv')
    found: 5 names, the nearest: v
    next:  bp.probe(toy, 'v')
    """
    probed(framework, toy, 3.0, 2.0, select=["u", "vv"])


@refused("a pattern that asks for the last", bp.BadName)
def last_of_a_pattern(framework):
    """the pattern 'u#-1' asks for the last one
    asked: 'u#-1'
    why:   which one is last is known only after the program has run
    next:  the pattern 'u', and then rec['u#-1']
    """
    probed(framework, toy, 3.0, 2.0, select="u#-1")


@refused("a name that is not there", bp.UnknownName)
def unknown_name(framework):
    """no value is named 'uu'
    asked: rec['uu']
    found: 4 entries, the nearest: u
    next:  rec['u']
    """
    probed(framework, toy, 3.0, 2.0)["uu"]


@refused("a name that was not selected", bp.UnknownName)
def not_selected(framework):
    """no value is named 'v'
    asked: rec['v']
    found: names: u, return
    why:   the program has this value, but the probe did not select it
    next:  bp.probe(..., ['v'])
    """
    probed(framework, toy, 3.0, 2.0, select="u")["v"]


@refused("a name with several readings", bp.AmbiguousName)
def several_readings(framework):
    """'h' means several values
    asked: rec['h']
    found: h#0, h#1
    why:   the name was bound more than once, holds several tensors, or has several readings
    next:  rec['h#1']
    """
    probed(framework, rebound, 3.0)["h"]


@refused("a gradient that is not there", bp.NoGradient)
def no_gradient(framework):
    """'u' has no gradient: not_connected
    asked: rec['u'].grad
    found: no path leads from it to the output
    why:   The value has a history, but no path leads from it to the output.
    next:  bp.explain(rec, 'u'), or rec['u'].grad_or_none for None
    """
    probed(framework, unused, 3.0)["u"].grad


@refused("an output that is not a scalar", bp.BadOutput)
def no_scalar(framework):
    """the output is not a scalar
    asked: its gradient
    found: shape (2,)
    why:   only a scalar has one gradient; any other output needs the vector of a vector-Jacobian product
    next:  cotangent=<ones>((2,)), or of=lambda result: result[0]
    """
    probed(framework, toy, [1.0, 2.0], [1.0, 2.0])


@refused("a cotangent of another shape", bp.BadOutput)
def cotangent_shape(framework):
    """the cotangent's shape differs from the output's
    asked: cotangent of shape (3,)
    found: output of shape (2,)
    next:  a cotangent of shape (2,)
    """
    probed(framework, toy, [1.0, 2.0], [1.0, 2.0], cotangent=[1.0, 2.0, 3.0])


@refused("a cotangent that is not a tensor", bp.BadOutput, whole=False)
def cotangent_type(framework):
    """the cotangent is not a tensor
    asked: cotangent='no'
    """
    probed(framework, toy, [1.0, 2.0], [1.0, 2.0], cotangent="no")


@refused("several outputs and no `of`", bp.BadOutput)
def several_outputs(framework):
    """the return value holds several floating tensors
    asked: their gradient
    found: loss, aux
    why:   a gradient is of one output
    next:  of='loss', or of='aux'
    """
    probed(framework, several, 1.0)


@refused("`of`: a path that is not there", bp.BadOutput)
def of_path(framework):
    """the return value has nothing at 'los'
    asked: of='los'
    found: a dict with loss, aux; no 'los'
    next:  of='loss'
    """
    probed(framework, several, 1.0, of="los")


@refused("`of`: something that is not a tensor", bp.BadOutput)
def of_value(framework):
    """the selected output is not a floating-point tensor
    asked: of=len
    found: an int
    next:  of='loss', or of='aux'
    """
    probed(framework, several, 1.0, of=len)


@refused("a function that returns no tensor", bp.BadOutput)
def no_tensor(framework):
    """the return value holds no floating tensor
    found: None
    why:   a gradient is the derivative of a floating output
    next:  return a tensor made from the arguments
    """
    probed(framework, lambda x: None, 1.0)


@refused("a complex output", bp.BadOutput)
def complex_output(framework):
    """the output is complex
    asked: its gradient
    found: dtype complex64
    why:   only a real scalar has one gradient
    next:  cotangent=1.0, or of=lambda result: abs(result)
    """
    bp.probe(square)(framework.tensor(1 + 2j, "complex64"))


@refused("no floating argument", bp.NothingToDifferentiate)
def no_floating_argument(framework):
    """toy has no floating argument to differentiate
    asked: bp.probe(toy)
    found: arguments of type int32
    why:   only floating point and complex values have derivatives
    next:  pass floating point values, 3.0 instead of 3
    """
    bp.probe(toy)(framework.tensor(1, "int32"), framework.tensor(2, "int32"))


@refused("no arguments at all", bp.NothingToDifferentiate)
def no_arguments(framework):
    """<lambda> has no floating argument to differentiate
    asked: bp.probe(f)
    found: no arguments
    why:   only floating point and complex values have derivatives
    next:  pass floating point values, 3.0 instead of 3
    """
    bp.probe(lambda: framework.tensor(1.0), backend=framework.name)()


@refused("an output that depends on nothing", bp.NothingToDifferentiate)
def no_connection(framework):
    """the output does not depend on any differentiated value
    asked: the gradients of the return value
    found: an output without history
    why:   <cut off>
    next:  <instead>
    """
    bp.probe(cut(framework.ops.stop_gradient))(framework.tensor(1.0))


@refused("missing arguments", bp.BadOption)
def missing_argument(framework):
    """toy cannot be called with these arguments: missing a required argument: 'w'
    asked: bp.probe(toy)(...)
    found: toy(x, w)
    next:  bp.probe(toy)(x=..., w=...)
    """
    probed(framework, toy, 1.0)


@refused("`wrt`: an argument that is not there", bp.BadOption)
def wrt_name(framework):
    """'y' is not an argument of toy
    asked: wrt=['y']
    found: arguments: x, w
    next:  wrt='x'
    """
    probed(framework, toy, 1.0, 2.0, wrt="y")


@refused("an unknown strategy", bp.BadOption)
def strategy(framework):
    """strategy is one of edges, retain_grad, hooks, separate
    asked: strategy='fast'
    next:  strategy='edges'
    """
    probed(framework, toy, 1.0, 2.0, strategy="fast")


@refused("an unknown way to keep values", bp.BadOption)
def values(framework):
    """values is one of alias, copy
    asked: values='none'
    next:  values='alias'
    """
    probed(framework, toy, 1.0, 2.0, values="none")


@refused("an unknown kind of `partials`", bp.BadOption)
def partials(framework):
    """partials is one of True, False, full
    asked: partials='some'
    next:  partials=True
    """
    probed(framework, toy, 1.0, 2.0, partials="some")


@refused("options of the wrong type", bp.BadOption)
def option_type(framework):
    """of is a path, a position or a function, or a list or dict of these, not a float
    asked: of=3.5
    next:  of='loss'
    """
    probed(framework, toy, 1.0, 2.0, of=3.5)


@refused("a function without source text", bp.NoSource)
def no_source(framework):
    """there is no source text for <lambda>
    asked: the names in <lambda>
    found: its file is '<string>', which cannot be read
    why:   names are read from the source text; code run by exec or typed at a prompt has none
    next:  put the function into a file and import it from there; IPython and notebooks keep what is typed
    """
    probed(framework, eval("lambda x: x * 2"), 1.0)


@refused("an unknown backend", bp.NoBackend)
def unknown_backend(framework):
    """there is no backend 'torsh'
    asked: backend='torsh'
    found: backends: torch, tensorflow, jax
    next:  backend='torch'
    """
    probed(framework, toy, 1.0, 2.0, backend="torsh")


@refused("the Jacobian of the output itself", bp.BadOption)
def jacobian_of_output(framework):
    """'v' is the output itself
    asked: bp.jacobian(f, 'v')
    found: the identity
    next:  the name of a value that the output is computed from
    """
    bp.jacobian(toy, "v")(framework.tensor(3.0), framework.tensor(2.0))


@refused("a generator", bp.NothingToDifferentiate)
def generator(framework):
    """generated returns a generator, which has computed nothing yet
    asked: bp.probe(generated)
    next:  probe a function that runs it to its end
    """
    probed(framework, generated, 1.0)
