"""The model form: what modules return, locals of their forwards, parameters, and nothing altered."""

import functools
import threading
import time
import warnings

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
import transformers

import backprobe as bp
from asked import Parts, at_once, message, says
from small_models import small_gpt2

transformers.logging.set_verbosity_error()
ATTENTION = "transformer.h.0.attn"


@pytest.fixture(scope="module")
def gpt2():
    return small_gpt2()


def by_hand(model, tokens, paths):
    """The gradient of what modules return, with the recipe that everyone pastes."""
    kept, handles = {}, []
    for path in paths:

        def hook(module, args, output, path=path):
            tensor = output if isinstance(output, torch.Tensor) else output[0]
            tensor.retain_grad()
            kept[path] = tensor

        handles.append(model.get_submodule(path).register_forward_hook(hook))
    model.zero_grad()
    model(tokens, labels=tokens).loss.backward()
    for handle in handles:
        handle.remove()
    return kept


def test_attention_outputs_equal_hand_written_hooks(gpt2):
    model, tokens = gpt2
    paths = ["transformer.h.0.attn", "transformer.h.1.attn", "transformer.h.0.mlp", "transformer.ln_f"]
    kept = by_hand(model, tokens, paths)
    rec = bp.probe(model, paths, of="loss")(tokens, labels=tokens)
    for path in paths[:2]:
        says(rec, grads={f"{path}:return.0": kept[path].grad}, values={f"{path}:return.0": kept[path]})
    for path in paths[2:]:
        assert torch.equal(rec[path].grad, kept[path].grad)


def test_by_default_every_module_output_and_parameter(gpt2):
    model, tokens = gpt2
    model.zero_grad()
    model(tokens, labels=tokens).loss.backward()
    expected = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    held = {name: parameter.grad for name, parameter in model.named_parameters()}
    rec = bp.probe(model, of="loss")(tokens, labels=tokens)
    for name, gradient in expected.items():
        assert torch.equal(rec[name].grad, gradient)
        assert model.get_parameter(name).grad is held[name]  # .grad is untouched
        assert torch.equal(model.get_parameter(name).grad, gradient)
    assert rec["lm_head.weight"] is rec["transformer.wte.weight"]
    assert "transformer.h.1.mlp.c_fc" in rec
    assert not any(":" in name and not name.split(":")[1].startswith("return") for name in rec)


def test_locals_through_every_decorator(gpt2):
    model, tokens = gpt2
    patterns = [
        f"{ATTENTION}:query_states",
        f"{ATTENTION}/eager_attention_forward:attn_weights",
        "transformer:hidden_states",
        ":loss",
    ]
    rec = bp.probe(model, patterns, of="loss")(tokens, labels=tokens)
    assert rec[f"{ATTENTION}:query_states#-1"].shape == (2, 4, 16, 16)
    weights = rec[f"{ATTENTION}/eager_attention_forward:attn_weights#-1"]
    assert weights.value.sum(-1).allclose(torch.ones(2, 4, 16))
    assert weights.grad.abs().sum() > 0
    assert rec["transformer:hidden_states#0"].shape == (2, 16, 64)
    assert rec["loss"].grad.item() == 1
    source = rec[f"{ATTENTION}:query_states#-1"].source
    assert source.text.startswith("query_states = query_states.view(")


def test_a_local_is_right_by_finite_differences(gpt2):
    model, tokens = small_gpt2()
    model = model.double()
    name = "transformer.h.1.attn:value_states#1"

    def output(out):  # the model's own loss is computed in float32
        return torch.tanh(out.logits).sum()

    entry = bp.probe(model, name, of=output)(tokens)[name]
    direction = torch.randn_like(entry.grad)

    def loss(step):
        handle = model.transformer.h[1].attn.c_attn.register_forward_hook(
            lambda module, args, out: torch.cat([out[..., :128], out[..., 128:] + step * flat], dim=-1)
        )
        try:
            with torch.no_grad():
                return output(model(tokens)).item()
        finally:
            handle.remove()

    flat = direction.transpose(1, 2).reshape(2, 16, 64)
    difference = (loss(1e-4) - loss(-1e-4)) / 2e-4
    assert difference == pytest.approx((entry.grad * direction).sum().item(), rel=1e-6)


def state_of(model):
    """Everything of a model that a probe could leave behind."""
    return [
        (
            id(module),
            sorted(vars(module)),
            {key: len(value) for key, value in vars(module).items() if key.endswith("_hooks")},
            id(vars(module).get("forward")),
        )
        for module in model.modules()
    ]


def test_no_observer_effect_and_nothing_left_behind(gpt2):
    model, tokens = gpt2
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.3
    before = state_of(model)
    for patterns in (None, "**", "**:*", f"{ATTENTION}:*()"):
        torch.manual_seed(7)
        model.zero_grad()
        plain = model(tokens, labels=tokens)
        plain.loss.backward()
        state = torch.get_rng_state()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        torch.manual_seed(7)
        rec = bp.probe(
            model, [*([] if patterns is None else [patterns]), "**.weight"] if patterns else None, of="loss"
        )(tokens, labels=tokens)
        assert torch.equal(torch.get_rng_state(), state)
        assert torch.equal(rec.result.logits, plain.logits)
        assert torch.equal(rec["transformer.wte.weight"].grad, gradients["transformer.wte.weight"])
        assert torch.equal(rec["transformer.h.0.mlp.c_fc.weight"].grad, gradients["transformer.h.0.mlp.c_fc.weight"])
        assert state_of(model) == before


class Broken(Parts):
    def forward(self, x):
        h = self.first(x)
        return self.second(h)


@pytest.mark.parametrize("patterns", [None, "**:*"])
def test_an_exception_in_the_middle_leaves_nothing(patterns):
    model = Broken(first=torch.nn.Linear(2, 2), second=torch.nn.Linear(3, 3))
    before = state_of(model)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as caught:
        bp.probe(model, patterns)(torch.ones(1, 2))
    assert any(
        note.startswith("backprobe: raised while running Broken under a probe") for note in caught.value.__notes__
    )
    assert state_of(model) == before


class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.shared, self.spare = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        self.frozen = torch.nn.Linear(2, 2).requires_grad_(False)

    def forward(self, x):
        h = self.shared(x)
        h = torch.tanh(h)
        h = self.shared(h)
        return (self.frozen(h.detach()) + h * 2).sum()


def test_reused_unused_and_frozen_modules():
    model = Twice()
    rec = bp.probe(model)(torch.ones(1, 2))
    assert rec["shared#1"].grad.tolist() == [[2.0, 2.0]]
    assert rec["shared#0"].grad.shape == (1, 2)
    assert rec["spare"].status == "not_executed"
    assert rec["spare.weight"].status == "not_connected"
    assert rec["frozen.weight"].status == "frozen"
    assert rec["frozen"].status == "frozen"
    with pytest.raises(bp.AmbiguousName, match="shared#0, shared#1"):
        rec["shared"]
    inner = bp.probe(model, ":h")(torch.ones(1, 2))
    assert [inner[f"h#{k}"].grad is not None for k in range(3)] == [True] * 3
    assert inner["h#2"].grad.tolist() == [[2.0, 2.0]]


class Normed(Parts):
    """The shape of a residual block: a module that works in place on what the one before returned."""

    def forward(self, x):
        return self.head(self.act(self.norm(x))).sum()


def test_an_inplace_module_after_another_leaves_both_right():
    model = Normed(norm=torch.nn.BatchNorm1d(3), act=torch.nn.ReLU(inplace=True), head=torch.nn.Linear(3, 1))
    x = torch.randn(5, 3)
    rec = bp.probe(model)(x)
    model_out = F.batch_norm(x, None, None, model.norm.weight, model.norm.bias, training=True)
    assert torch.allclose(rec["norm"].value, model_out, atol=1e-6)
    upstream = model.head.weight.expand(5, 3)
    assert torch.allclose(rec["act"].grad, upstream)
    assert torch.allclose(rec["norm"].grad, upstream * (rec["norm"].value > 0))


class Nested(torch.nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.inner = Nested(depth - 1) if depth else torch.nn.Identity()

    def forward(self, x, **options):
        out = self.inner(x) * 2
        return {"hidden": out, "none": None} if options else out


def test_containers_keyword_arguments_and_nested_modules():
    rec = bp.probe(Nested(2), ["**:out", "**"], of="hidden")(torch.ones(2, requires_grad=True).sum(), deep=True)
    says(rec, grads={"out": 1, "inner:out": 2, "inner.inner": 4}, statuses={"return.none": "not_tensor"})


def test_a_model_that_patches_forward_on_the_instance_is_restored():
    model = Twice()
    original = model.forward

    @functools.wraps(original)
    def patched(x):
        return original(x) * 3

    for replacement, local in ((patched, ":h"), (lambda x: original(x) * 3, "/forward:h")):
        model.forward = replacement
        rec = bp.probe(model, [local, "shared"])(torch.ones(1, 2))
        assert vars(model)["forward"] is replacement
        says(rec, grads={"shared#1": [[6.0, 6.0]], f"{local}#-1": [[6.0, 6.0]]})


def test_another_thread_sees_the_model_as_it_is():
    model, seen, barrier = Twice(), [], threading.Barrier(2)
    inside = threading.Event()

    def other():
        inside.wait(10)
        seen.append(model(torch.ones(1, 2)).item())
        barrier.wait(10)

    def meet(module, args):
        if threading.current_thread() is threading.main_thread() and not inside.is_set():
            inside.set()
            barrier.wait(10)

    model.spare.register_forward_pre_hook(meet)
    model.shared.register_forward_pre_hook(meet)
    thread = threading.Thread(target=other)
    thread.start()
    rec = bp.probe(model, ["**", ":h"])(torch.ones(1, 2))
    thread.join()
    assert seen == [rec.result.item()]
    assert "shared#1" in rec
    assert "shared#2" not in rec


def test_inputs_of_a_model_are_left_alone():
    x = torch.ones(1, 2)
    rec = bp.probe(Twice(), ":x")(x)
    assert rec["x"].status == "frozen"
    assert not x.requires_grad
    rec = bp.probe(Twice(), ":x")(x.clone().requires_grad_())
    assert rec["x"].grad.shape == (1, 2)


class Checkpointed(Broken):
    def __init__(self, *, reentrant):
        super().__init__(first=torch.nn.Linear(2, 2), second=torch.nn.Linear(2, 1), reentrant=reentrant)

    def block(self, x):
        inside = torch.tanh(self.first(x))
        return inside * 2

    def forward(self, x):
        h = x * 3
        if self.reentrant is None:
            b = self.block(h)
        else:
            b = torch.utils.checkpoint.checkpoint(self.block, h, use_reentrant=self.reentrant)
        return self.second(b).sum()


def test_non_reentrant_checkpointing_gives_the_same_gradients():
    x = torch.ones(4, 2, requires_grad=True)
    plain = Checkpointed(reentrant=None)
    again = Checkpointed(reentrant=False)
    again.load_state_dict(plain.state_dict())
    expected, found = (bp.probe(model, ["**", ":h", ":b"])(x) for model in (plain, again))
    assert list(found) == list(expected)
    for name, gradient in expected.grads().items():
        assert torch.equal(found[name].grad, gradient), name


def test_reentrant_checkpointing_is_refused():
    x = torch.ones(4, 2, requires_grad=True)
    model = Checkpointed(reentrant=True)
    text = message(bp.Unsupported, lambda: bp.probe(model, "**")(x))
    assert "a reentrant checkpoint hides what is computed inside it" in text
    assert "next:  use_reentrant=False" in text
    with pytest.raises(bp.Unsupported, match="a reentrant checkpoint"):
        bp.probe(lambda x: model(x))(x)


def test_scripted_modules_have_outputs_and_no_locals():
    with warnings.catch_warnings():  # newer releases warn of scripts
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(torch.nn.Linear(2, 2))
    model = torch.nn.Sequential(scripted, torch.nn.Tanh())
    rec = bp.probe(model, ["0", "1"], cotangent=torch.ones(1, 2))(torch.ones(1, 2))
    assert torch.allclose(rec["0"].grad, 1 - rec["1"].value ** 2)
    with pytest.raises(bp.NothingMatched, match=r"the locals of 0 cannot be seen"):
        bp.probe(model, "0:x", cotangent=torch.ones(1, 2))(torch.ones(1, 2))


class CallsScript(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.lin, self.function = torch.nn.Linear(2, 1), function

    def forward(self, x):
        act = self.function
        a = self.lin(x)
        b = act(a)
        return b


def test_a_scripted_function_is_a_call_as_any_other():
    def doubled(x):
        return (x * 2).sin()

    def f(x):
        u = x * 2
        v = scripted(u)
        return v.sum()

    with warnings.catch_warnings():  # newer releases warn of scripts
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(doubled)
    x, model = torch.ones(1, 2), CallsScript(scripted)
    rec = bp.probe(f)(x)
    assert torch.allclose(rec["u"].grad, 2 * (2 * rec["u"].value).cos())
    of_forward = bp.probe(model, ["**", "**:*"])(x)
    with bp.probe(model, ["**", "**:*"]) as of_block:
        model(x).sum().backward()
    for found in (of_forward, of_block):
        assert torch.allclose(found["a"].grad, 2 * (2 * found["a"].value).cos())
        assert found["b"].status == "ok"
    assert bp.check(f)(x).ok


@pytest.mark.parametrize("wide", [False, True])
def test_an_inplace_module_on_a_view_is_right(wide):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(inplace=True), torch.nn.Linear(3, 1))
    x = (
        torch.randn(2, 2, 3) if wide else torch.randn(4, 3)
    )  # what Linear returns is a view where it is given three axes
    rec = bp.probe(model, of=lambda out: out.sum())(x)
    upstream = model[2].weight.expand(rec["1"].shape)
    assert torch.allclose(rec["1"].grad, upstream)
    assert torch.allclose(rec["0"].grad, upstream * (rec["0"].value > 0))


class Padded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2).requires_grad_(False)
        self.head = torch.nn.Linear(16, 1)

    def forward(self, x, mask):
        return self.head(self.encoder(x, src_key_padding_mask=mask)).sum()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("patterns", [None, "**", "encoder.**", "encoder.layers.0:*", "**:*"])
def test_the_fast_path_of_a_frozen_padded_encoder_stays_bitwise_the_same(patterns):
    torch.manual_seed(0)
    model = Padded().eval()
    x, mask = torch.randn(3, 5, 16), torch.zeros(3, 5, dtype=torch.bool)
    mask[1, 3:] = mask[2, 1:] = True
    bare = model(x, mask)
    encoded = model.encoder(x, src_key_padding_mask=mask)
    rec = bp.probe(model, patterns and [patterns, "encoder"])(x, mask)
    assert torch.equal(rec.result, bare)
    assert torch.equal(rec["encoder"].value, encoded)
    assert str(rec)


class Watching(Padded):
    """Its parameters require a gradient, so that only ``no_grad`` leads it to the fast path."""

    def __init__(self, quiet):
        super().__init__()
        self.encoder.requires_grad_(True)
        self.quiet = quiet

    def forward(self, x, mask):
        with torch.set_grad_enabled(not self.quiet):
            encoded = self.encoder(x, src_key_padding_mask=mask)
        return self.head(encoded).sum(), encoded


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("form", ["function", "model"])
def test_a_padded_encoder_in_eval_takes_the_same_path_under_no_grad_and_without(form, quiet):
    torch.manual_seed(0)
    model = Watching(quiet).eval()
    x, mask = torch.randn(3, 5, 16), torch.zeros(3, 5, dtype=torch.bool)
    mask[1, 3:] = mask[2, 1:] = True
    loss, encoded = model(x, mask)
    assert encoded[mask].eq(0).all() == quiet  # the fast path leaves what is padded at zero
    wanted = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)

    def call(x, mask):
        out = model(x, mask)
        return out

    everything = ["**", "**:*", "**:*()"] if form == "model" else ["**", "**:*()"]
    rec = bp.probe(model if form == "model" else call, everything, of=0)(x, mask)
    assert torch.equal(rec.result[0], loss)
    assert torch.equal(rec.result[1], encoded)
    if form == "function":
        assert torch.equal(rec["out.1"].value, encoded)
        return
    assert torch.equal(rec["encoder"].value, encoded)
    assert (rec["encoder"].grad_or_none is None) == quiet
    for (name, _), gradient in zip(model.named_parameters(), wanted, strict=True):
        found = rec[name].grad_or_none
        assert torch.equal(found, gradient) if gradient is not None else found is None, name


def test_two_threads_that_probe_one_model_leave_nothing_and_see_their_own():
    model, both, found = Twice(), threading.Barrier(2), {}
    model.shared.register_forward_pre_hook(lambda module, args: time.sleep(0.01))

    def probing(name, scale):
        both.wait(10)
        for _ in range(5):
            found.setdefault(name, []).append(bp.probe(model, [":h", "shared"])(torch.full((1, 2), scale)))

    at_once(probing, ("a", 1.0), ("b", 100.0))
    assert "forward" not in vars(model)
    assert not torch.nn.modules.module._global_forward_hooks
    for name, scale in (("a", 1.0), ("b", 100.0)):
        assert len(found[name]) == 5
        for rec in found[name]:
            assert rec["h#0"].value.allclose(model.shared(torch.full((1, 2), scale)))
            assert "shared#2" not in rec


class Shared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(2, 2)
        self.other = self.one

    def forward(self, x):
        return self.other(x).sum()


def test_a_module_under_two_paths_has_both_names():
    rec = bp.probe(Shared())(torch.ones(1, 2))
    assert rec["one"] is rec["other"]
    assert rec["other.weight"] is rec["one.weight"]
    assert bp.probe(Shared(), "other")(torch.ones(1, 2))["other"].grad.tolist() == [[1.0, 1.0]]
