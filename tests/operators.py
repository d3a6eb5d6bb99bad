"""Every operator that PyTorch's own data base of operators knows, run bare and under a probe."""

import gc
import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Any
from weakref import ref

import numpy
import torch
import torch.testing._internal.common_utils as common
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.testing._internal.common_methods_invocations import (
    foreach_binary_op_db,
    foreach_other_op_db,
    foreach_pointwise_op_db,
    foreach_reduce_op_db,
    foreach_unary_op_db,
    op_db,
)
from torch.testing._internal.opinfo import core
from torch.testing._internal.opinfo.core import SampleInput

import backprobe as bp
from backprobe.record.containers import leaves


def seed(number: int = common.SEED) -> None:
    torch.default_generator.manual_seed(number)  # torch.manual_seed notes a stack for every device that is not there
    numpy.random.seed(number)
    random.seed(number)


# the data base sets a seed before each sample, and would look for a unittest among the frames below it
common.set_rng_seed = seed
common.extract_test_fn = core.extract_test_fn = lambda: None

EVERY = "OPERATOR_SAMPLES" in os.environ  # by `make test-operators`
SOME = int(os.environ.get("OPERATOR_SAMPLES", "1"))  # how many samples of the usual kind at most
FEW = min(SOME, 3)  # of the unusual ones
REPEATS = 50
DTYPES = (torch.float64, torch.complex128, torch.float32, torch.int64)  # an operator runs with the first that it takes
SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)
EVERYTHING = ["**", "**:*()"]
ON_LISTS = (
    *foreach_unary_op_db,
    *foreach_binary_op_db,
    *foreach_pointwise_op_db,
    *foreach_reduce_op_db,
    *foreach_other_op_db,
)
ON_SOME_LISTS = (
    "_foreach_add",
    "_foreach_addcmul",
    "_foreach_clamp_max",
    "_foreach_exp",
    "_foreach_norm",
    "_foreach_zero",
)
"""Operators on lists of tensors are alike: in `make test` those of one and of two lists, of lists and a number, with a
result for each and without."""
OPERATORS = {
    op.formatted_name: op for op in (*op_db, *(each for each in ON_LISTS if EVERY or each.name in ON_SOME_LISTS))
}


# the programs


def call(function, input, args, kwargs, anchor):
    y = (function(input, *args, **kwargs),)[0]  # an operation without a name, and then a name for it
    return y


def write(function, input, args, kwargs, anchor):
    y = input.clone()
    u = function(y, *args, **kwargs)
    return u


def write_all(function, input, args, kwargs, anchor):
    y = [one.clone() for one in input]
    function(y, *args, **kwargs)
    return y


@dataclass(frozen=True)
class Way:
    """One of the ways to write an operator: ``torch.add(x, w)``, ``x.add(w)``, ``x + w``, ``x.add_(w)``, ``x += w``."""

    spelled: str
    program: Callable[..., Any]
    function: Callable[..., Any]
    keywords: tuple[tuple[str, Any], ...] = ()

    @property
    def result(self) -> str:
        """The name that the result gets."""
        return {call: "y", write: "u", write_all: "y#-1"}[self.program]

    def before(self, arguments: Any) -> list[str]:
        """The names of what is written, as it was before."""
        return [] if self.program is call else [f"y#0{path}" for path, _ in leaves(arguments.input)]


def ways(op: Any) -> list[Way]:
    """The ways that this operator has, each function once."""
    found: dict[Any, Way] = {}
    for one in (op, *op.aliases):
        own = public(one.name)
        writer, keywords = one.inplace_variant, ()
        if getattr(writer, "__name__", "") == "<lambda>":  # the data base's own, around F.relu(y, inplace=True)
            writer, keywords = own, (("inplace", True),)
        for spelled, program, function, more in (
            ("function", call, own, ()),
            ("the data base has it", call, one.op, ()),
            ("method", call, one.method_variant, ()),
            ("operator", call, getattr(one, "operator_variant", None), ()),
            ("written in place", write_all if op in ON_LISTS else write, writer, keywords),
            ("in-place operator", write, getattr(one, "inplace_operator_variant", None), ()),
        ):
            if function is not None:
                found.setdefault((function, more), Way(f"{one.name} as {spelled}", program, function, more))
    return list(found.values())


def public(name: str) -> Any:
    """``torch.nn.functional.relu`` by its name in the data base; None where that is no such name."""
    try:
        return attrgetter(name)(torch)
    except AttributeError:
        return None


# the samples


@dataclass(frozen=True)
class Arguments:
    """What an operator is called with."""

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by the name that it has in a recording of ``call`` and ``write``."""
        given = (("input", self.input), ("args", self.args), ("kwargs", self.kwargs))
        return {
            f"{name}#0{path}": leaf for name, value in given for path, leaf in leaves(value) if isinstance(leaf, Tensor)
        }


def dtype_of(op: Any) -> torch.dtype | None:
    """None for the few operators that run on other devices alone."""
    return next((dtype for dtype in DTYPES if dtype in op.supported_dtypes("cpu")), None)


def samples(op: Any, way: Way) -> Iterator[Arguments]:
    """The same ones, made anew, each time: usual ones, with gaps in their memory, sparse ones, and faulty ones."""
    dtype = dtype_of(op)
    if dtype is None:
        return
    seed(0)
    flag = op.supports_autograd and dtype != torch.int64
    usual = list(islice(op.sample_inputs("cpu", dtype, requires_grad=flag), SOME))
    plain = [
        sample
        for sample in islice(op.sample_inputs("cpu", dtype, requires_grad=flag), SOME)
        if isinstance(sample.input, Tensor) and sample.input.layout is torch.strided
    ]
    spread = [sample.noncontiguous() for sample in plain[:FEW]]
    flat = [sample for sample in plain if sample.input.dim() == 2][:FEW]
    sparse = [with_layout(sample, layout) for layout in SPARSE if op.supports_sparse_layout(layout) for sample in flat]
    faulty = op.error_inputs("cpu") if op.error_inputs_func is not None else ()
    for sample in (*usual, *spread, *sparse, *(error.sample_input for error in islice(faulty, FEW))):
        yield Arguments(sample.input, sample.args, {**sample.kwargs, **dict(way.keywords)})


def with_layout(sample: Any, layout: torch.layout) -> SampleInput:
    """The sample with a sparse input."""
    blocks = (1, 1) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
    sparse = sample.input.detach().to_sparse(layout=layout, blocksize=blocks)
    return SampleInput(sparse.requires_grad_(sample.input.requires_grad), args=sample.args, kwargs=sample.kwargs)


@contextmanager
def filled(is_filled: bool) -> Iterator[None]:
    """Memory that PyTorch leaves as it finds it, as ``torch.empty`` does, holds NaN instead."""
    torch.use_deterministic_algorithms(is_filled, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


# what is compared


def content(tensor: Tensor) -> Any:
    """All that there is to a tensor, bit for bit."""
    tensor = tensor.detach()
    if not has_strides(tensor):
        parts = {
            torch.sparse_coo: ("_indices", "_values"),
            torch.jagged: ("values", "offsets"),
            torch.sparse_csr: ("crow_indices", "col_indices", "values"),
            torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
            torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
            torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
            torch._mkldnn: ("to_dense",),
            torch.strided: ("values",),
        }[tensor.layout]
        return str(tensor.layout), str(tensor.dtype), *(content(getattr(tensor, part)()) for part in parts)
    plain = tensor.int_repr() if tensor.is_quantized else tensor.resolve_conj().resolve_neg()
    held = plain.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8).numpy().tobytes()
    return type(tensor).__name__, str(tensor.dtype), tuple(tensor.shape), tensor.stride(), tensor.is_conj(), held


def numbers(tensor: Tensor) -> Any:
    """The same of a recorded value, which may be a copy: then it is laid out as PyTorch lays out copies."""
    return content(tensor.clone(memory_format=torch.contiguous_format) if has_strides(tensor) else tensor)


def has_strides(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested


def described(leaf: Any) -> Any:
    """A leaf of a result, with the history that it has."""
    if not isinstance(leaf, Tensor):
        return repr(leaf)
    return content(leaf), leaf.requires_grad, leaf.grad_fn and leaf.grad_fn.name()


def total(anchor: Tensor, result: Any) -> Tensor:
    """A scalar in which every number of every differentiated tensor of a result counts, each with a weight of its own.

    ``anchor`` is there for results that have none: something must be differentiated.
    """
    summed = anchor * 1
    for _, leaf in leaves(result):
        if isinstance(leaf, Tensor) and leaf.requires_grad:
            dense = leaf.values() if leaf.is_nested else leaf if leaf.layout is torch.strided else leaf.to_dense()
            real = torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense
            weights = torch.linspace(0.5, 1.5, real.numel(), dtype=torch.float64).reshape(real.shape)
            summed = summed + (weights * real).sum()
    return summed


Outcome = dict[str, Any]
"""Everything that can be seen of one run, by a name."""


def seen_after(arguments: Arguments, result: Any) -> Outcome:
    """What is left when a program is over."""
    found: Outcome = {"random state": torch.get_rng_state().numpy().tobytes()}
    found |= {f"result{path}": described(leaf) for path, leaf in leaves(result)}
    found |= {f"{name} afterwards": described(tensor) for name, tensor in arguments.tensors().items()}
    return found


def bare(way: Way, arguments: Arguments) -> dict[str, Outcome]:
    """The outcome without a probe, as each form of a probe is to have it.

    Gradients are those of ``autograd.grad`` with respect to the tensors themselves; for a block, also what a
    ``backward()`` leaves afterwards.
    """
    inputs = arguments.tensors()
    before: dict[str, Any] = {}

    def noting(first, *args, **kwargs):
        for name, (_, leaf) in zip(way.before(arguments), leaves(first), strict=False):
            before[name] = (numbers(leaf), get_gradient_edge(leaf) if leaf.requires_grad else None)
        return way.function(first, *args, **kwargs)

    seed(1)
    anchor = torch.zeros((), requires_grad=True)
    try:
        result = way.program(noting, arguments.input, arguments.args, arguments.kwargs, anchor)
        found = seen_after(arguments, result)
        loss = total(anchor, result)
        held = {f"{way.result}{path}": leaf for path, leaf in leaves(result) if isinstance(leaf, Tensor)}
        found |= {f"value of {name}": numbers(leaf) for name, leaf in held.items()}
        found |= {f"value of {name}": value for name, (value, _) in before.items()}
        edges = {name: edge for name, (_, edge) in before.items()}
        made = {**gradients(loss, inputs), **gradients(loss, {**held, **edges})}
        outcomes = {
            form: found
            | {f"gradient of {name}": one if one is None else SHOWN[form](one) for name, one in made.items()}
            for form in FORMS
        }
    except Exception as error:  # noqa: BLE001  # some samples are there to be refused
        return dict.fromkeys(FORMS, refused(error))
    try:
        loss.backward()
        outcomes["block"] |= {f".grad of {name}": left_on(tensor) for name, tensor in inputs.items()}
    except Exception as error:  # noqa: BLE001
        outcomes["block"] = refused(error)
    return outcomes


def left_on(tensor: Tensor) -> Any:
    """What backward has left on a leaf; the stride of a dimension of one element, which the engine makes up, says
    nothing."""
    if not tensor.is_leaf or tensor.grad is None or not has_strides(tensor.grad):
        return None if not tensor.is_leaf or tensor.grad is None else content(tensor.grad)
    strides = [step for size, step in zip(tensor.grad.shape, tensor.grad.stride(), strict=True) if size > 1]
    return strides, numbers(tensor.grad)


def gradients(loss: Tensor, inputs: dict[str, Tensor | GradientEdge | None]) -> dict[str, Tensor | None]:
    """PyTorch's own, with respect to all of these in one pass."""
    wanted = {
        name: one
        for name, one in inputs.items()
        if isinstance(one, GradientEdge) or (isinstance(one, Tensor) and one.requires_grad)
    }
    made = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True, retain_graph=True) if wanted else ()
    return dict.fromkeys(inputs) | dict(zip(wanted, made, strict=True))


def refused(error: BaseException) -> Outcome:
    return {"error": (type(error).__name__, str(error)), "random state": torch.get_rng_state().numpy().tobytes()}


# the forms of a probe


@dataclass(frozen=True)
class Observed:
    """What a program returned under a probe, and its recording."""

    result: Any
    entry: Callable[[str], Any]


def in_function(way: Way, arguments: Arguments, anchor: Tensor) -> Observed:
    rec = bp.probe(way.program, EVERYTHING, of=partial(total, anchor))(
        way.function, arguments.input, arguments.args, arguments.kwargs, anchor
    )
    for path, leaf in leaves(rec.result if way.program is call else None):
        assert not isinstance(leaf, Tensor) or rec[f"function(){path}"] is rec[f"y{path}"]
    return Observed(rec.result, rec.__getitem__)


def in_block(way: Way, arguments: Arguments, anchor: Tensor) -> Observed:
    with bp.probe() as rec:
        result = way.program(way.function, arguments.input, arguments.args, arguments.kwargs, anchor)
        total(anchor, result).backward()
    return Observed(result, lambda name: rec[f"/{way.program.__name__}:{name}"])


FORMS = {"function": in_function, "block": in_block}
SHOWN = {"function": content, "block": numbers}  # of a leaf's gradient a block holds a copy, laid out anew


@dataclass
class Alive:
    """Weak references to the tensors that took part in a run."""

    made: list[Any] = field(default_factory=list)  # inside it
    given: list[Any] = field(default_factory=list)

    def note(self, observed: Observed, names: Iterable[str], arguments: Arguments) -> None:
        given = arguments.tensors().values()
        held = [leaf for _, leaf in leaves(observed.result)]
        for entry in map(observed.entry, names):
            held += [entry.held, entry.grad_or_none]
        theirs = {id(tensor) for tensor in given}
        self.made += [ref(one) for one in held if isinstance(one, Tensor) and id(one) not in theirs]
        self.given += map(ref, given)

    @property
    def left(self) -> list[str]:
        """What is still there. Those made inside need no garbage collection; the samples hold themselves in cycles."""
        made = [f"made inside: {tuple(one.shape)}" for one in (made() for made in self.made) if one is not None]
        gc.collect()
        return made + [f"given: {tuple(one.shape)}" for one in (given() for given in self.given) if one is not None]


def probed(form: str, way: Way, arguments: Arguments, alive: Alive) -> Outcome:
    """The outcome under a probe."""
    seed(1)
    anchor = torch.zeros((), requires_grad=True)
    try:
        observed = FORMS[form](way, arguments, anchor)
    except Exception as error:  # noqa: BLE001  # as it is to be without a probe
        return refused(error)
    found = seen_after(arguments, observed.result)
    results = [f"{way.result}{path}" for path, leaf in leaves(observed.result) if isinstance(leaf, Tensor)]
    recorded, given = [*results, *way.before(arguments)], arguments.tensors()
    found |= {f"value of {name}": numbers(observed.entry(name).value) for name in recorded}
    found |= {f"gradient of {name}": gradient_of(observed.entry(name), form) for name in [*recorded, *given]}
    if form == "block":
        found |= {f".grad of {name}": left_on(tensor) for name, tensor in given.items()}
    alive.note(observed, [*recorded, *given], arguments)
    if any(
        leaf._backward_hooks for _, leaf in leaves((observed.result, list(given.values()))) if isinstance(leaf, Tensor)
    ):
        found["hooks left"] = True
    if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack() or not torch.is_grad_enabled():
        found["modes left"] = True
    return found


def gradient_of(entry: Any, form: str) -> Any:
    """An entry's gradient; None where there is none and its reason is told."""
    if entry.status == "ok":
        return SHOWN[form](entry.grad)
    return None if entry.reason else "no gradient and no reason"


def differing(expected: Outcome, found: Outcome) -> list[str]:
    """The names under which two runs differ."""
    return [
        name for name in expected | found if name not in found or name not in expected or expected[name] != found[name]
    ]


# the comparison


@dataclass
class Tally:
    """What was compared, and what went wrong."""

    samples: int = 0
    refused: int = 0  # by the operator itself, alike with the probe and without
    filled: int = 0  # ways to write an operator that returns memory as it finds it
    varying: int = 0  # samples of which the operator itself computes now this, now that
    wrong: list[str] = field(default_factory=list)


def compare(op: Any) -> Tally:
    """Every way to write this operator, on all of its samples, with a probe of each form and without."""
    tally, alive = Tally(), Alive()
    for way in ways(op):
        compare_way(op, way, tally, alive)
    tally.wrong += alive.left
    return tally


def compare_way(op: Any, way: Way, tally: Tally, alive: Alive) -> None:
    plain = [bare(way, arguments) for arguments in samples(op, way)]
    with filled(True):
        again = [bare(way, arguments) for arguments in samples(op, way)]
    is_filled = any(
        differing(one[form], other[form]) for one, other in zip(plain, again, strict=True) for form in FORMS
    )
    tally.filled += is_filled
    with filled(is_filled):
        for form in FORMS:
            every = zip(again if is_filled else plain, samples(op, way), strict=True)
            for at, (expected, arguments) in enumerate(every):
                found = probed(form, way, arguments, alive)
                tally.samples += 1
                tally.refused += "error" in expected[form]
                if wrong := differing(expected[form], found):
                    if not tally.wrong and found in repeated(op, way, at, form):
                        tally.varying += 1
                    else:
                        where = f"{way.spelled}, in a {form}, sample {at}"
                        tally.wrong += [f"{where}: {', '.join(wrong)} {found.get('error', '')}"]


def repeated(op: Any, way: Way, at: int, form: str) -> Iterator[Outcome]:
    """One sample without a probe, again and again, on memory that lies elsewhere and held something else before.

    LAPACK's ``gelsy`` begins with the pivots that it finds in memory that PyTorch has not set, and its last bits depend
    on them. Whoever finds an outcome of the probe among these has seen the operator itself come to it.
    """
    for _ in range(REPEATS):
        before = [torch.randint(0, 2, (size,), dtype=torch.int32) for size in range(1, 200)]
        del before
        yield [bare(way, arguments) for arguments in samples(op, way)][at][form]


if __name__ == "__main__":
    tallies = [compare(op) for op in OPERATORS.values()]
    for counted in ("samples", "refused", "filled", "varying"):
        print(counted, sum(getattr(tally, counted) for tally in tallies))
    print("operators", len(tallies), "of which run here", sum(tally.samples > 0 for tally in tallies))
    print("\n".join(wrong for tally in tallies for wrong in tally.wrong))
