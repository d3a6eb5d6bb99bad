"""Blocks around what wraps, compiles, transforms or does not run as Python: nothing is moved, and no gap is silent."""

import contextlib
import copy
import inspect
import pickle
import threading
import warnings
from unittest.mock import Mock

import pytest
import torch
import transformers
from torch import nn

import backprobe as bp
from asked import at_once, says
from backprobe.tracing import naming
from block_cases import case, grads, same, scalar

pytestmark = pytest.mark.usefixtures("leaves_nothing")

transformers.logging.set_verbosity_error()
WRAPPED, INSIDE = "Models that are wrapped", "Inside a block"


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.first, self.second = nn.Linear(3, width), nn.Linear(width, 2)

    def forward(self, x):
        hidden = self.first(x)
        turned = hidden.tanh()
        return self.second(turned)


def of_net(model, select=None, x=None, target=None):
    """What a step leaves in ``.grad``, and what is recorded of it."""
    model.zero_grad()
    torch.manual_seed(2)
    x = torch.linspace(-1, 1, 6).reshape(2, 3) if x is None else x
    if select is None:
        output = model(x)
        output.square().sum().backward()
        return None, output, grads(model)
    with bp.probe(model if target is None else target, select) as rec:
        output = model(x)
        output.square().sum().backward()
    return rec, output, grads(model)


def assert_unmoved(model, select, **options):
    """The step is bitwise that without a probe, and every entry of a parameter is its ``.grad``."""
    _, output, bare = of_net(model)
    rec, found, after = of_net(model, select, **options)
    assert same(found, output)
    assert all(same(after[name], bare[name]) for name in bare)
    for name, gradient in bare.items():
        if gradient is not None and name in rec:
            assert same(rec[name].grad, gradient), name
    return rec


@case("Accelerate: `accelerator.prepare`, `accelerator.backward`, accumulation", WRAPPED)
@case(
    "Accelerate with mixed precision",
    WRAPPED,
    "works; locals of the model's own forward in a plain block only; a note says so",
)
def test_accelerate():
    import accelerate

    for precision in ("no", "bf16"):
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        accelerator = accelerate.Accelerator(cpu=True, mixed_precision=precision, gradient_accumulation_steps=2)
        torch.manual_seed(0)
        model = accelerator.prepare(Net())
        x = torch.linspace(-1, 1, 6).reshape(2, 3)
        found = []
        for is_probed in (False, True):
            model.zero_grad()
            with bp.probe(model, ["**", "**:*"]) if is_probed else contextlib.nullcontext() as rec:
                for part in (x, x * 2):
                    with accelerator.accumulate(model):
                        accelerator.backward(model(part).square().sum())
            found.append(grads(model))
        assert all(same(found[1][name], found[0][name]) for name in found[0])
        assert all(same(rec[name].grad, gradient) for name, gradient in found[0].items())
        assert rec["first#1"].value.dtype == (torch.bfloat16 if precision == "bf16" else torch.float32)
        if precision == "no":
            assert rec["hidden#1"] is rec["first#1"]
        else:  # Accelerate has put an object around the forward, through which no function can be reached
            (note,) = rec.notes  # Accelerate divides by the number of parts
            assert note == "the locals of the model cannot be seen: forward has no Python source to read names from"
            with bp.probe() as rec:
                accelerator.backward(model(x).square().sum())
            assert rec["/forward:turned"].status == "ok"
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


@case("PEFT: a LoRA model, locals of the wrapped forwards and of the adapters", WRAPPED)
def test_peft():
    import peft

    torch.manual_seed(0)
    gpt2 = transformers.GPT2Config(
        n_embd=16, n_layer=2, n_head=2, vocab_size=50, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    config = peft.LoraConfig(r=2, target_modules=["c_attn"], lora_dropout=0.1, fan_in_fan_out=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PEFT asks the model in an old way
        model = peft.get_peft_model(transformers.GPT2LMHeadModel(gpt2), config)
    ids = torch.randint(0, 50, (2, 6))
    found = []
    for is_probed in (False, True):
        model.zero_grad()
        torch.manual_seed(1)  # for dropout
        with bp.probe(model, ["**", "**:*"]) if is_probed else contextlib.nullcontext() as rec:
            model(ids, labels=ids).loss.backward()
        found.append(grads(model))
    bare, found = found
    assert all(same(found[name], bare[name]) for name in bare)
    attention = "base_model.model.transformer.h.0.attn"
    assert rec[f"{attention}.c_attn.base_layer.weight"].status == "frozen"
    trainable = [name for name, gradient in bare.items() if gradient is not None]
    assert len(trainable) == 4
    assert all(same(rec[name].grad, bare[name]) for name in trainable)
    assert rec[f"{attention}:query_states#-1"].status == "ok"
    assert rec[f"{attention}.c_attn:result#-1"].status == "ok"
    assert rec[f"{attention}.c_attn.lora_A.default"].status == "ok"


@case("`torch.fx.GraphModule`, its nodes as locals", WRAPPED)
def test_a_graph_module():
    torch.manual_seed(0)
    model = torch.fx.symbolic_trace(Net())
    rec = assert_unmoved(model, ["**", "**:*"])
    assert rec["first"].status == rec["tanh"].status == "ok"


@case("parametrizations: `weight_norm`, `orthogonal`, `spectral_norm`, and the old `weight_norm`", WRAPPED)
def test_parametrizations():
    for wrap in (
        nn.utils.parametrizations.weight_norm,
        nn.utils.parametrizations.orthogonal,
        nn.utils.parametrizations.spectral_norm,
    ):
        torch.manual_seed(0)
        model = Net()
        wrap(model.first)
        model.eval()  # spectral_norm moves its vectors in each forward of training
        rec = assert_unmoved(model, ["**", "**:*"])
        says(rec, statuses={"first.parametrizations.weight": "ok", "hidden": "ok"})
        with bp.probe(model) as rec:
            model(torch.ones(2, 3)).sum().backward()
        assert rec["first"].status == "ok"
    torch.manual_seed(0)
    model = Net()
    with pytest.warns(FutureWarning):
        nn.utils.weight_norm(model.first)
    rec = assert_unmoved(model, ["**", "**:*"])
    assert rec["first.weight_g"].status == rec["first.weight_v"].status == rec["first"].status == "ok"


@case("a `ScriptModule` as a whole, scripted or traced", WRAPPED, "what it returns; the rest is `opaque`")
def test_a_script_module():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for model in (torch.jit.script(Net()), torch.jit.trace(Net(), torch.ones(2, 3))):
            whole = nn.Sequential(nn.Linear(3, 3), model)
            for warmed in (model, whole) * 3:
                of_net(warmed)  # TorchScript compiles its first runs anew, and rounds otherwise on some machines
            rec = assert_unmoved(model, "**")
            assert rec["first"].status == "opaque"
            assert rec["first"].reason == "it runs inside a ScriptModule, whose code is TorchScript, not Python"
            assert rec["first.weight"].status == "ok"
            with bp.probe() as plain:
                y = model(torch.ones(2, 3))
                loss = y.sum()
                loss.backward()
            assert [*plain] == ["y", "loss"]
            rec = assert_unmoved(whole, "**")
            says(rec, statuses={"0": "ok", "1": "ok", "1.second": "opaque"})
            with pytest.raises(bp.NothingMatched):
                of_net(whole, "1:hidden")


def fast_path_models():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2)
    yield encoder, lambda x, padding: encoder(x, src_key_padding_mask=padding)
    yield layer, lambda x, padding: layer(x, src_key_padding_mask=padding)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    yield attention, lambda x, padding: attention(x, x, x, key_padding_mask=padding, need_weights=False)[0]


@case("a module put into the model while the block is open", WRAPPED, "its output and parameters; no locals")
def test_a_module_put_in_while_the_block_is_open():
    model, x = Net(), torch.linspace(-1, 1, 6).reshape(2, 3)
    outside = nn.Linear(3, 3)
    with bp.probe(model, ["**", "!first.weight"]) as rec:
        outside(x)
        model(x).sum().backward()
        model.second = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2))
        outside(x)
        model(x).square().sum().backward()
    says(rec, grads={"second.0.weight": model.second[0].weight.grad, "second.1": rec["second#1"].grad})
    assert rec["second.1"].grad.shape == (2, 2)
    assert rec["second#0"].grad.shape == rec["second#1"].grad.shape == (2, 2)
    assert not any("outside" in name or name.startswith("0") for name in rec)


@case("`MultiheadAttention`, `TransformerEncoder`: their fast path in inference is left as it is", WRAPPED)
def test_fast_paths_in_inference():
    x, padding = torch.randn(2, 4, 8), torch.tensor([[False] * 4, [False, False, True, True]])
    for model, run in fast_path_models():
        model.eval()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            with torch.no_grad():
                bare = run(x, padding)
                with bp.probe(model, "**"):
                    assert same(run(x, padding), bare)
                with bp.probe():
                    y = run(x, padding)
                assert same(y, bare)
            if isinstance(model, nn.TransformerEncoder):
                assert bool((bare[1, 2:] == 0).all())  # the fast path was taken
            slow = run(x, padding)
            with bp.probe(model, "**"):
                assert same(run(x, padding), slow)


# inside a block


@case("`torch.func.grad`, `vmap`, `jacrev`", INSIDE, "what they return; inside `opaque`: it dies with its transform")
def test_transforms_inside_a_block():
    x, w = torch.linspace(-1, 1, 3, requires_grad=True), torch.tensor(2.0, requires_grad=True)

    def inner(value):
        squared = value * value * w
        return squared.sum()

    def each(value):
        doubled = value * w
        return doubled.sin()

    def loss_of(u):
        slope = torch.func.grad(inner)(u)
        lines = torch.func.vmap(each)(slope)
        jacobian = torch.func.jacrev(each)(u)
        return lines.sum() + jacobian.sum()

    loss_of(x * 3).backward()
    bare, x.grad, w.grad = (x.grad, w.grad), None, None
    with bp.probe() as rec:
        u = x * 3
        loss = loss_of(u)
        loss.backward()
    assert same(x.grad, bare[0])
    assert same(w.grad, bare[1])
    assert same(rec["x"].grad, bare[0])
    inside = [entry for name, entry in rec.items() if "/inner:" in name or "/each" in name]
    assert len(inside) > 4
    assert {entry.status for entry in inside} == {"opaque"}
    assert inside[0].reason == "it exists only inside a torch.func transform"
    assert all(rec[name].status == "ok" for name in ("u", "/loss_of:slope", "/loss_of:lines", "/loss_of:jacobian"))


@case(
    "a block around a model, and `torch.compile(model)` called in it", WRAPPED, "`Unsupported`: call the model itself"
)
@case(
    "`torch.compile`d functions and modules, `fullgraph` too: nothing is compiled again, the same bits",
    INSIDE,
    "what they take and return; a note says so",
)
def test_compiled_callables_inside_a_block():
    torch.manual_seed(0)
    model = Net()

    def tail(value):
        inside = value.sin()
        return inside * 2

    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    compiled_tail = torch.compile(tail, backend="aot_eager", fullgraph=True)
    x = torch.linspace(-1, 1, 6).reshape(2, 3)

    def run():
        model.zero_grad()
        h = compiled(x)
        y = compiled_tail(h)
        loss = y.sum()
        loss.backward()
        return loss

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Dynamo looks at while it compiles
        run()
    bare, gradients = run(), grads(model)
    counted = dict(torch._dynamo.utils.counters["frames"]), dict(torch._dynamo.utils.counters["stats"])
    with bp.probe() as rec:
        found = run()
    assert same(found, bare)
    assert all(same(gradient, gradients[name]) for name, gradient in grads(model).items())
    assert rec["/run:h"].status == rec["/run:y"].status == "ok"
    assert not any("/tail" in name or "hidden" in name for name in rec)
    assert any("it is compiled, and runs as a whole" in note for note in rec.notes)
    with bp.probe() as rec:
        model.zero_grad()
        h = compiled(x)
        y = compiled_tail(h)
        y.sum().backward()
    assert [*rec][-2:] == ["y", "backward()"]
    assert all(same(gradient, gradients[name]) for name, gradient in grads(model).items())

    other = Net()
    with bp.probe(other, "**") as rec:
        other(x).sum().backward()
        run()
        other(x).sum().backward()
    assert rec["first#1"].status == "ok"
    assert all(same(gradient, gradients[name]) for name, gradient in grads(model).items())
    with pytest.raises(bp.Unsupported, match="call model itself in the block"):
        with bp.probe(model):
            run()
    assert counted == (dict(torch._dynamo.utils.counters["frames"]), dict(torch._dynamo.utils.counters["stats"]))
    assert not compiled._forward_hooks
    torch._dynamo.reset()


@case("a block around a compiled model", WRAPPED, "`Unsupported`: probe `model._orig_mod`")
def test_a_block_around_a_compiled_model():
    with pytest.raises(bp.Unsupported, match="model._orig_mod"), bp.probe(torch.compile(Net(), backend="eager")):
        pass


@case("sparse gradients, complex values", INSIDE)
def test_sparse_gradients_and_complex_values():
    table = nn.Embedding(5, 2, sparse=True)
    with bp.probe() as rec:
        found = table(torch.tensor([1, 3, 1]))
        loss = found.square().sum()
        loss.backward()
    assert same(rec["found"].grad, 2 * found.detach())
    with bp.probe(table) as rec:
        table.zero_grad()
        table(torch.tensor([1, 3, 1])).square().sum().backward()
    assert rec["weight"].grad.is_sparse
    assert same(rec["weight"].grad.to_dense(), table.weight.grad.to_dense())

    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    with bp.probe() as rec:
        squared = z * z
        size = squared.abs()
        size.sum().backward()
    assert same(rec["z"].grad, z.grad)
    assert rec["squared"].grad.dtype == torch.complex64


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        ctx.save_for_backward(value)
        inside = value * value
        return inside * value

    @staticmethod
    def backward(ctx, gradient):
        (value,) = ctx.saved_tensors
        tripled = 3 * gradient
        return tripled * value * value


@case("a custom `autograd.Function`: its result, and the locals of its `forward`", INSIDE)
def test_a_custom_function():
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    with bp.probe() as rec:
        u = x * 2
        y = Cubed.apply(u)
        z = y + 1
        z.sum().backward()
    assert same(rec["x"].grad, x.grad)
    assert same(rec["u"].grad, 3 * u.detach() ** 2)
    assert same(rec["y"].grad, torch.ones(2))
    assert rec["/forward:inside"].status == "no_grad"
    assert rec["/forward:inside"].reason == "it was computed under torch.no_grad() from differentiated values"
    assert not any("tripled" in name for name in rec)  # backward is not followed: its values belong to no forward


@case("another thread that runs the same model or the same functions", INSIDE, "is not seen, and adds nothing")
def test_another_thread_is_not_seen():
    torch.manual_seed(0)
    model, x = Net(), torch.linspace(-1, 1, 6).reshape(2, 3)
    _, _, bare = of_net(model, x=x)

    def elsewhere():
        other = copy.deepcopy(model)
        for each in (other, model):
            each(x * 100).sum().backward() if each is other else each(x * 100).sum()

    def run():
        worker = threading.Thread(target=elsewhere)
        worker.start()
        output = model(x)
        worker.join()
        output.square().sum().backward()

    model.zero_grad()
    with bp.probe(model, ["**", "**:*"]) as rec:
        run()
    assert "first#1" not in rec
    assert all(same(rec[name].grad, gradient) for name, gradient in bare.items())
    model.zero_grad()
    with bp.probe() as rec:
        run()
    assert [name for name in rec if "elsewhere" in name] == []
    assert all(same(model.get_parameter(name).grad, gradient) for name, gradient in bare.items())


@case("`backward()` called from another thread", INSIDE, "its gradients do not belong to the block: `backward_not_run`")
def test_backward_from_another_thread():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with bp.probe() as rec:
        u = x * 2
        loss = u.sum()
        at_once(loss.backward, ())
    assert same(x.grad, torch.tensor([2.0, 2.0]))
    assert rec["u"].status == "backward_not_run"
    assert rec["u"].reason == "backward() was called by another thread than the one that opened the block"


def test_objects_of_the_users_are_asked_nothing():
    x = scalar(2.0)
    stub = Mock(side_effect=lambda z: z * 2)
    walked = []

    class Walked(list):
        def __iter__(self):
            walked.append(1)
            return super().__iter__()

    with bp.probe() as rec:
        u = stub(x)
        held = Walked([u])
        u.backward()
    assert rec["u"].grad == 1
    assert rec.notes == ()
    assert not stub._mock_children
    assert walked == []
    assert "held.0" in rec["u"].aliases


def test_what_a_list_holds_already_is_not_explained_again_at_each_turn(monkeypatch):
    explained = []
    explain = naming.explain
    monkeypatch.setattr(naming, "explain", lambda *given: explained.append(1) or explain(*given))
    x = scalar(2.0)
    with bp.probe() as rec:
        held = [x]
        for _ in range(30):
            held = held + [held[-1] * 1.01]
        sum(held).backward()
    assert len(explained) <= len(rec)
    assert [read.name for read in rec["held#5.5"].reads] == ["x", "held#1.1", "held#2.2", "held#3.3", "held#4.4"]


def test_objects_that_know_each_other_are_walked_once():
    nodes = [{"v": torch.ones(1)} for _ in range(30)]
    for node in nodes:
        node["others"] = [other for other in nodes if other is not node]
    x = scalar(2.0)
    with bp.probe() as rec:
        here = nodes[0]
        u = x * 2
        u.backward()
    assert rec["here.v"].status == "frozen"
    assert len(rec) < 50


def test_copies_of_a_model_made_in_a_block_have_nothing_of_the_probe():
    model, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    with bp.probe(model, [":input"]) as rec:
        copies = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        model(x).sum().backward()
    for copied in copies:
        assert torch.equal(copied(x), model(x))
        assert copied.forward.__self__ is copied
    assert "forward" not in vars(model)


def test_a_forward_that_the_user_exchanges_in_a_block_stays():
    model = torch.nn.Linear(2, 2)
    with bp.probe(model, [":input"]) as rec:
        before = model(torch.ones(1, 2))
        inner = model.forward
        model.forward = lambda given: inner(given) * 2
    assert torch.equal(model(torch.ones(1, 2)), before * 2)


def test_the_name_to_type_next_is_a_pattern():
    model = torch.nn.Linear(2, 2)
    with pytest.raises(bp.NothingMatched) as caught, bp.probe(model, "return"):
        model(torch.ones(1, 2))
    assert "'return'" not in caught.value.next


def test_a_forward_whose_locals_are_recorded_has_its_signature():
    model = torch.nn.Linear(2, 2)
    asked = inspect.signature(model.forward)
    with bp.probe(model, [":input"]):
        assert inspect.signature(model.forward) == asked
        model(torch.ones(1, 2))


def test_a_place_that_is_computed():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with bp.probe() as rec:
        held, i = [x * 1, x * 2], 0
        held[i + 1] *= 2
        loss = held[1].sum()
        loss.backward()
    assert rec["held[i + 1]"].grad.tolist() == [1, 1]
    assert rec["held[i + 1]"].source.text == "held[i + 1] *= 2"
