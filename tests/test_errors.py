"""Bad input: what was asked, what was found, why, what to type next; and nothing is left behind."""

import copy
import functools
import gc
import importlib.util
import pickle
import sys
import textwrap
import traceback
import weakref

import pytest
import torch

import backprobe as bp
from asked import message


def toy(x, w):
    u = x * w
    v = u + 1
    return v


def imported(path, text, name="written"):
    """A module made from source text in a file."""
    path.write_text(textwrap.dedent(text))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_error_has_its_four_parts():
    error = bp.BackprobeError("headline", asked="a", found="f\nmore", why="w", next="n")
    assert str(error) == "headline\n  asked: a\n  found: f\n         more\n  why:   w\n  next:  n"
    assert (error.asked, error.found, error.why, error.next) == ("a", "f\nmore", "w", "n")
    assert isinstance(bp.UnknownName("x"), KeyError)
    assert str(bp.UnknownName("x")) == "x"


def test_a_pattern_that_matches_nothing_in_a_model():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    text = message(bp.NothingMatched, lambda: bp.probe(model, "3", cotangent=torch.ones(1, 2))(torch.ones(1, 2)))
    assert text.startswith("the pattern '3' matches nothing in Sequential")
    text = message(bp.NothingMatched, lambda: bp.probe(model, "0.wieght", cotangent=torch.ones(1, 2))(torch.ones(1, 2)))
    assert "next:  bp.probe(model, '0.weight')" in text
    text = message(bp.NothingMatched, lambda: bp.probe(model, "1:inptu", cotangent=torch.ones(1, 2))(torch.ones(1, 2)))
    assert "the nearest: 1:input" in text


def test_numbers_that_were_made_tensors_are_named_where_the_program_fails():
    def f(n):
        total = 0.0
        for i in range(n):
            total = total + i
        return total

    with pytest.raises(TypeError) as caught:
        bp.probe(f)(3)
    assert any("the numbers given for n were made tensors" in note for note in caught.value.__notes__)
    with pytest.raises(TypeError) as caught:
        bp.probe(lambda x, p: torch.nn.functional.dropout(x, p).sum())(torch.ones(2), 0.5)
    assert any("given for p were made tensors, to be differentiated; wrt='x'" in n for n in caught.value.__notes__)
    assert bp.probe(lambda x, p: torch.nn.functional.dropout(x, p).sum(), wrt="x")(torch.ones(2), 0.0)


def test_wrt_is_advised_for_arguments_that_it_can_leave_differentiated():
    def failing(*args):
        with pytest.raises(TypeError) as caught:
            bp.probe(lambda a, b, n: a + b + [0.0, 1.0, 2.0][n] + "")(*args)
        return next(note for note in caught.value.__notes__ if "made tensors" in note).partition("differentiated")[2]

    one = torch.ones(2)
    assert failing(one, one, 1.0) == "; wrt=['a', 'b'] differentiates a, b alone and leaves the numbers as they are"
    assert failing(2, one, 1.0) == "; wrt='b' differentiates b alone and leaves the numbers as they are"
    assert failing("a", 2.0, 1.0) == "; wrt='b' differentiates b alone and leaves the others as they are"
    assert failing("a", "b", 1.0) == ""


def test_an_output_that_depends_on_nothing():
    text = message(bp.NothingToDifferentiate, lambda: bp.probe(lambda x: x.detach() * 2)(1.0))
    assert "the output does not depend on any differentiated value" in text
    model = torch.nn.Linear(1, 1).requires_grad_(False)
    text = message(bp.NothingToDifferentiate, lambda: bp.probe(model)(torch.ones(1, 1)))
    assert "requires_grad_()" in text
    with torch.no_grad():
        text = message(bp.NothingToDifferentiate, lambda: bp.probe(torch.nn.Linear(1, 1))(torch.ones(1, 1)))
    assert "no_grad" in text


def test_a_function_without_source():
    space = {}
    exec("def made(x):\n    return x * 2", space)
    text = message(bp.NoSource, lambda: bp.probe(space["made"])(1.0))
    assert text.startswith("there is no source text for made")
    assert (
        "next:  put the function into a file and import it from there; IPython and notebooks keep what is typed" in text
    )
    text = message(bp.NoSource, lambda: bp.probe(torch.sin)(torch.ones(())))
    assert text.startswith("sin has no Python source to read names from")
    assert text.endswith("next:  a Python function that calls it: bp.probe(lambda *args: sin(*args))")
    text = message(bp.NoSource, lambda: bp.probe(functools.lru_cache(toy))(1.0, 2.0))
    assert "its __wrapped__" in text
    rec = bp.probe(lambda x: space["made"](x) * 3)(1.0)  # called inside, it is simply not followed
    assert rec["x"].grad.item() == 6
    assert any(note.startswith("made was not followed: there is no source text") for note in rec.notes)


def test_a_decorator_that_hides_the_function():
    class Holder:
        def __init__(self, function):
            self.function = function

    def hiding(function):
        held = Holder(function)

        def wrapper(*args):
            return held.function(*args)

        return functools.wraps(function)(wrapper)

    text = message(bp.NoSource, lambda: bp.probe(hiding(toy))(1.0, 2.0))
    assert text.startswith("the decorator around toy hides it")
    assert "next:  probe the function's __wrapped__, without the decorator" in text


def test_a_function_changed_since_import(tmp_path):
    module = imported(tmp_path / "changing.py", "def f(x):\n    u = x * 2\n    return u\n")
    assert bp.probe(module.f)(1.0)["u"].grad.item() == 1
    changed = imported(tmp_path / "stale.py", "def f(x):\n    u = x * 2\n    return u\n")
    (tmp_path / "stale.py").write_text("def f(x):\n    w = x * 3\n    return w\n")
    text = message(bp.StaleSource, lambda: bp.probe(changed.f)(1.0))
    assert text.startswith("the source of f has changed since it was imported")
    assert "next:  restart Python, or reload the module" in text


def test_a_file_that_no_longer_parses(tmp_path):
    module = imported(tmp_path / "broken.py", "def f(x):\n    return x * 2\n")
    (tmp_path / "broken.py").write_text("def f(x:\n")
    assert "does not parse as Python" in message(bp.NoSource, lambda: bp.probe(module.f)(1.0))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_models_and_functions():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    text = message(bp.Unsupported, lambda: bp.probe(torch.compile(model))(torch.ones(1, 2)))
    assert text.startswith("a compiled model or function cannot be probed")
    assert "model._orig_mod" in text
    text = message(bp.Unsupported, lambda: bp.probe(torch.compile(toy))(1.0, 2.0))
    assert "the function before torch.compile" in text
    inner = torch.nn.Sequential(torch.nn.Linear(2, 2))
    inner[0].compile()
    assert "a compiled model" in message(bp.Unsupported, lambda: bp.probe(inner)(torch.ones(1, 2)))
    outer = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.compile(model, backend="eager"))
    text = message(bp.Unsupported, lambda: bp.probe(outer)(torch.ones(1, 2)))
    assert "found: OptimizedModule at '1'" in text
    assert "next:  model.set_submodule('1', model.get_submodule('1')._orig_mod)" in text
    outer.set_submodule("1", outer.get_submodule("1")._orig_mod)
    bp.probe(outer, of=lambda out: out.sum())(torch.ones(1, 2))


@pytest.fixture
def one_process(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore")
def test_distributed_models(one_process):
    layer = torch.nn.Linear(2, 1)
    wrapped = torch.nn.parallel.DistributedDataParallel(layer)
    text = message(bp.Unsupported, lambda: bp.probe(wrapped)(torch.ones(1, 2)))
    assert text.startswith("a DistributedDataParallel model cannot be probed in this form")
    assert "model.module" in text
    for call in (lambda x: wrapped(x).sum(), lambda x, model=wrapped: model(x).sum()):
        assert "asked: " in message(bp.Unsupported, lambda call=call: bp.probe(call)(torch.ones(1, 2)))
    from torch.distributed.fsdp import fully_shard

    sharded = fully_shard(torch.nn.Linear(2, 1), mesh=torch.distributed.init_device_mesh("cpu", (1,)))
    text = message(bp.Unsupported, lambda: bp.probe(sharded)(torch.ones(1, 2)))
    assert text.startswith("a sharded (FSDP) model cannot be probed in this form")
    assert "asked: " in message(bp.Unsupported, lambda: bp.probe(lambda x: sharded(x).sum())(torch.ones(1, 2)))


def test_the_inplace_error_of_torch_keeps_itself_and_gets_a_note():
    def f(x):
        u = x.exp()
        u.add_(1)
        return u * 2

    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        bp.probe(f)(1.0)
    assert type(caught.value) is RuntimeError
    assert any("while differentiating f under a probe" in note for note in caught.value.__notes__)
    assert any("instead of `u.add_(1)`: u = ..." in note for note in caught.value.__notes__)


@pytest.mark.parametrize("options", [{"select": 3}, {"wrt": 3}, {"of": 3.5}])
def test_options_of_the_wrong_type(options):
    (name,) = options
    assert f"{name} is a " in message(bp.BadOption, lambda: bp.probe(toy, **options))


def test_what_is_selected_and_taken_away_is_no_misspelling():
    assert list(bp.probe(toy, ["u", "v", "!u"])(1.0, 2.0)) == ["v"]


def test_an_inference_tensor_as_argument():
    with torch.inference_mode():
        x = torch.ones(2)
    assert "next:  x.clone()" in message(bp.NothingToDifferentiate, lambda: bp.probe(lambda x: x.sum())(x))


def test_an_inner_probe_on_a_value_that_the_outer_one_differentiates():
    def inner(t):
        return t * t

    def f(x):
        u = torch.exp(x)
        return bp.probe(inner, create_graph=keep)(u).result

    for keep in (True, False):  # read by ``f``: without it, the graph that was there before stays all the same
        assert bp.probe(f)(0.0)["x"].grad.item() == 2


def test_bad_arguments():
    text = message(bp.BadOption, lambda: bp.probe(torch.nn.Linear(1, 1), wrt="input")(torch.ones(1, 1)))
    assert "wrt is for functions" in text
    assert "is neither a function nor a model" in message(bp.BadOption, lambda: bp.probe(3)(1.0))
    assert "is neither a function nor a model" in message(bp.BadOption, lambda: bp.probe()(1.0))


def test_nothing_is_kept_alive_but_what_the_recording_holds():
    dropped = []

    def f(x):
        u = x * 2
        v = u.exp()
        dropped.append(weakref.ref(u))
        dropped.append(weakref.ref(v))
        return v.sum()

    gc.collect()
    gc.disable()
    try:
        rec = bp.probe(f)(torch.ones(3))
        assert [reference() for reference in dropped] == [None, None]  # without a garbage collection
        held = [weakref.ref(entry) for entry in rec.values()]
        del rec
        assert all(reference() is None for reference in held)
    finally:
        gc.enable()


def test_nothing_is_kept_alive_after_an_exception():
    dropped = []

    def f(x):
        u = x * 2
        dropped.append(weakref.ref(u))
        raise ValueError("mine")

    try:
        bp.probe(f)(torch.ones(3))
    except ValueError:
        pass
    gc.collect()
    assert dropped[0]() is None


def test_arguments_are_left_as_they_were():
    x, w = torch.ones(3), torch.full((3,), 2.0)
    bp.probe(lambda x, w: (x * w).sum())(x, w)
    for tensor in (x, w):
        assert not tensor.requires_grad
        assert tensor.grad is None
        assert tensor._version == 0
        assert not tensor._backward_hooks


def test_hooks_of_a_strategy_are_removed():
    x = torch.ones(3, requires_grad=True)
    bp.probe(lambda x: (x * 2).sum(), strategy="hooks")(x)
    assert not x._backward_hooks
    bp.probe(lambda x: (x * 2).sum(), strategy="retain_grad")(x)
    assert x.grad is None


def test_no_function_of_the_user_is_changed():
    before = (toy.__code__, toy.__globals__.copy().keys(), toy.__closure__, vars(sys.modules[__name__]).copy().keys())
    bp.probe(toy)(3.0, 2.0)
    assert before == (toy.__code__, toy.__globals__.keys(), toy.__closure__, vars(sys.modules[__name__]).keys())
    assert toy(3.0, 2.0) == 7.0


def test_an_expression_too_deep_to_rewrite(tmp_path):
    module = imported(tmp_path / "deep.py", "def f(x):\n    return " + " + ".join(["x"] * 900) + "\n")
    assert module.f(1.0) == 900
    text = message(bp.NoSource, lambda: bp.probe(module.f)(1.0))
    assert text.startswith("an expression in f is nested too deeply to be rewritten")
    rec = bp.probe(lambda x: module.f(x) * 2)(1.0)
    assert rec["x"].grad.item() == 1800
    assert any("nested too deeply" in note for note in rec.notes)


# plain errors of Python that a user meets in the first hour


def test_a_name_that_is_read_as_an_attribute():
    rec = bp.probe(toy)(3.0, 2.0)
    error = message(bp.UnknownAttribute, lambda: rec.u).splitlines()
    assert error[:2] == ["a recording has no attribute 'u'", "  asked: rec.u"]
    assert error[-1] == "  next:  rec['u']"
    assert message(bp.UnknownAttribute, lambda: rec.grad).endswith("next:  rec['x'].grad")
    assert message(bp.UnknownAttribute, lambda: rec.selects).endswith("next:  rec.select or rec['x']")
    assert message(bp.UnknownAttribute, lambda: rec.nothing_like_it).endswith("next:  rec['x']")


def test_attributes_that_are_asked_for_by_chance():
    rec = bp.probe(toy)(3.0, 2.0)
    assert not hasattr(rec, "u")
    assert getattr(rec, "shape", None) is None
    assert not hasattr(rec, "_repr_png_")
    for same in (copy.copy(rec), pickle.loads(pickle.dumps(rec))):
        assert same["u"].grad == rec["u"].grad
    assert not hasattr(bp.Recording.__new__(bp.Recording), "_known")
    with bp.probe() as open:
        u = torch.ones((), requires_grad=True) * 2
        assert not hasattr(open, "u")
    assert message(bp.UnknownAttribute, lambda: open.u).endswith("next:  rec['u']")


def test_a_deep_copy_has_tensors_of_its_own():
    """PyTorch itself copies no tensor with a history, such as those that a function returns."""
    rec = bp.probe(lambda x: {"loss": (x * x).sum(), "all": [x * 3]}, of="loss")(torch.ones(2))
    same = copy.deepcopy(rec)
    assert same.result["loss"] == 2 and same.result["all"][0].tolist() == [3, 3]
    with torch.no_grad():
        rec["x"].grad.zero_()
    assert same["x"].grad.tolist() == [2, 2] and same["return.loss"].value is not rec["return.loss"].value


def test_a_deep_copy_of_an_open_block_is_of_what_is_recorded_so_far():
    x = torch.ones(2, requires_grad=True)
    with bp.probe() as rec:
        loss = (x * x).sum()
        loss.backward()
        same = copy.deepcopy(rec)
        later = loss * 2
    assert same["x"].grad.tolist() == [2, 2] and "later" in rec and "later" not in same
    for other in (same, pickle.loads(pickle.dumps(rec)), copy.deepcopy(rec)):
        assert message(bp.NotSaved, lambda other=other: other.result).startswith("a block returns nothing")


def test_a_result_that_cannot_be_copied_is_named():
    class Output:
        def __init__(self, loss):
            self.loss, self.weigh = loss, lambda: 1

    rec = bp.probe(lambda x: Output((x * x).sum()), of=lambda output: output.loss)(torch.ones(2))
    said = message(bp.NotSaved, lambda: copy.deepcopy(rec))
    assert "found: Output: " in said and said.endswith('next:  rec.save("folder"), then bp.load("folder")')


def test_the_result_of_a_loaded_recording_stays_unsaved_in_copies(tmp_path):
    bp.probe(lambda x: {"loss": x.sum(), "other": object()}, of="loss")(torch.ones(2)).save(tmp_path / "saved")
    loaded = bp.load(tmp_path / "saved")
    for same in (copy.copy(loaded), copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))):
        assert message(bp.NotSaved, lambda same=same: same.result).startswith("the result of this recording was not")


def test_python_guesses_at_no_other_name_behind_our_message():
    rec = bp.probe(toy)(3.0, 2.0)
    try:
        rec.oof
    except AttributeError as error:
        shown = "".join(traceback.format_exception(error))
    assert shown.endswith("next:  rec.of or rec['x']\n")


def test_a_probe_that_was_not_called():
    error = message(bp.BadOption, lambda: bp.probe(toy)["u"])
    assert error.endswith("next:  rec = bp.probe(toy)(x), and then rec['u']")
    assert message(bp.BadOption, lambda: bp.probe()["u"]).endswith("next:  with bp.probe() as rec:")
    error = message(bp.BadOption, lambda: bp.probe(toy(3.0, 2.0))["u"])
    assert error.startswith("a float is neither a function nor a model")


def test_what_is_entered_and_not_called(tmp_path):
    model = torch.nn.Linear(2, 2)
    assert message(bp.BadOption, lambda: bp.guard(model)(torch.ones(2))).splitlines() == [
        "a guard is not called: it guards what runs within `with`",
        "  asked: bp.guard(model)(...)",
        "  next:  with bp.guard(model): model(x)",
    ]
    error = message(bp.BadOption, lambda: bp.guard(toy)(3.0, 2.0))
    assert error.endswith("next:  with bp.guard(): around what calls it")
    error = message(bp.BadOption, lambda: bp.watch(model, tmp_path / "run")(torch.ones(2)))
    assert error.startswith("a watch is not called: it watches what runs within `with`")
    assert not (tmp_path / "run").exists()


def test_an_output_that_is_not_a_scalar_is_not_said_to_depend_on_nothing():
    def program(x, w):
        a = x * w
        return x + a.detach()

    with pytest.raises(bp.BadOutput, match="the output is not a scalar") as caught:
        bp.probe(program)(torch.ones(2), torch.ones(2))
    assert not getattr(caught.value, "__notes__", [])


def test_an_output_that_is_not_a_scalar_and_depends_on_nothing_says_why():
    def program(x, w):
        a = x * w
        return a.detach()

    with pytest.raises(bp.BackprobeError) as caught:
        bp.probe(program)(torch.ones(2), torch.ones(2))
    assert "cut:     `a.detach()`" in caught.value.__notes__[-1]
